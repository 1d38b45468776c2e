//! `wg` reads and changes everything while the interface runs.

use std::net::UdpSocket;

use adit_testbed::{can_run, wait_until};

use super::bed::{End, PORT, PROGRAMS, Program, WAIT, pair};

/// An interface with a key.
pub(super) fn interface(test: &str) -> Option<End> {
    if !can_run(test, &PROGRAMS) {
        return None;
    }
    let end = End::create(1, Program::Adit);
    end.start().unwrap();
    end.set_key();
    Some(end)
}

/// A key that no peer has.
pub(super) fn nobody(byte: u8) -> String {
    adit_wireguard::PublicKey([byte; 32]).to_base64()
}

#[test]
fn what_wg_sets_wg_shows() {
    let Some(end) = interface("what_wg_sets_wg_shows") else { return };
    let [one, two, three] = [1, 2, 3].map(nobody);
    end.wg(&format!(
        "set DEV fwmark 0x1234 peer {one} allowed-ips 10.1.2.3/16,::/0 persistent-keepalive 25 \
         peer {two} endpoint [2001:db8::1]:65535 peer {three} endpoint 192.0.2.1:7"
    ))
    .unwrap();
    let dump = end.wg("show DEV dump").unwrap();
    let key = std::fs::read_to_string(&end.key_file).unwrap();
    let expected = [
        format!("{}\t{}\t{PORT}\t0x1234", key.trim(), end.public_key),
        format!("{one}\t(none)\t(none)\t10.1.0.0/16,::/0\t0\t0\t0\t25"),
        format!("{two}\t(none)\t[2001:db8::1]:65535\t(none)\t0\t0\t0\toff"),
        format!("{three}\t(none)\t192.0.2.1:7\t(none)\t0\t0\t0\toff"),
    ];
    assert_eq!(dump.lines().collect::<Vec<_>>(), expected);
    // A prefix moves to the peer that got it last.
    end.wg(&format!("set DEV fwmark 0 peer {two} allowed-ips 10.1.0.0/16")).unwrap();
    let allowed = end.wg("show DEV allowed-ips").unwrap();
    assert!(allowed.contains(&format!("{one}\t::/0")) && allowed.contains(&format!("{two}\t10.1.0.0/16")));
    assert_eq!(end.wg("show DEV fwmark").unwrap().trim(), "off");
    let shown = end.wg("show DEV").unwrap();
    for words in [
        &format!("listening port: {PORT}"),
        "persistent keepalive: every 25 seconds",
        "private key: (hidden)",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    assert!(end.wg("show interfaces").unwrap().split_whitespace().any(|name| name == end.device));
    end.wg("set DEV private-key /dev/null").unwrap();
    assert_eq!(end.wg("show DEV private-key").unwrap().trim(), "(none)");
    end.wg(&format!("set DEV peer {one} remove")).unwrap();
    assert_eq!(end.wg("show DEV peers").unwrap(), format!("{two}\n{three}\n"));
}

/// `wg` writes the name of the interface behind the address, and shows it for the number that it reads.
#[test]
fn an_endpoint_of_one_link_names_its_interface() {
    let Some(end) = interface("an_endpoint_of_one_link_names_its_interface") else { return };
    let peer = nobody(1);
    end.wg(&format!("set DEV peer {peer} endpoint [fe80::1%lo]:7")).unwrap();
    assert_eq!(end.wg("show DEV endpoints").unwrap(), format!("{peer}\t[fe80::1%lo]:7\n"));
}

#[test]
fn a_refused_change_changes_nothing_and_says_why() {
    let Some(end) = interface("a_refused_change_changes_nothing_and_says_why") else { return };
    let peer = nobody(1);
    let taken = end.namespace.enter(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = end.wg(&format!("set DEV listen-port {port} peer {peer}")).unwrap_err().to_string();
    assert!(error.contains("Address already in use"), "{error}");
    assert_eq!(end.wg("show DEV peers").unwrap(), "");
    assert_eq!(end.wg("show DEV listen-port").unwrap().trim(), PORT.to_string());
    drop(taken);
    // A child process that another test is starting has a copy of the socket until its `exec`.
    let set = || end.wg(&format!("set DEV listen-port {port} peer {peer}")).is_ok();
    wait_until("the port to be free", WAIT, set).unwrap();
    assert_eq!(end.wg("show DEV listen-port").unwrap().trim(), port.to_string());
}

#[test]
fn syncconf_changes_what_differs_and_keeps_sessions() {
    if !can_run("syncconf_changes_what_differs_and_keeps_sessions", &PROGRAMS) {
        return;
    }
    let [first, second] = pair([Program::Adit; 2]);
    second.reaches(&first);
    let handshakes = || first.wg("show DEV latest-handshakes").unwrap();
    let before = handshakes();
    let key = std::fs::read_to_string(&first.key_file).unwrap();
    let file = |peers: &[(&str, String)]| {
        let mut text = format!("[Interface]\nPrivateKey = {}\nListenPort = {PORT}\n", key.trim());
        for (key, allowed) in peers {
            text += &format!("[Peer]\nPublicKey = {key}\nAllowedIPs = {allowed}\n");
        }
        first.scratch.write("sync.conf", &text).unwrap()
    };
    let real = format!("{}/32, {}/128", second.inner(), second.inner_v6());
    let other = nobody(1);
    let sync = |peers: &[(&str, String)]| {
        first.wg(&format!("syncconf DEV {}", file(peers).display())).unwrap();
    };
    sync(&[(&second.public_key, real.clone()), (&other, "192.0.2.0/24".to_owned())]);
    assert!(first.is_answered(second.inner()));
    assert!(handshakes().contains(before.trim()), "the session went on: {before}");
    assert_eq!(first.wg("show DEV peers").unwrap().lines().count(), 2);
    sync(&[(&other, "192.0.2.0/24".to_owned())]);
    assert_eq!(first.wg("show DEV peers").unwrap().trim(), other);
    assert!(!second.is_answered(first.inner()), "it is no peer any more");
    sync(&[(&second.public_key, real)]);
    // The other end still seals for the session that is gone, and waits 15 s for an answer; this end need not wait.
    first.wg(&format!("set DEV peer {} endpoint {}:{PORT}", second.public_key, second.outer())).unwrap();
    first.reaches(&second);
}

#[test]
fn configurations_of_megabytes_come_and_go() {
    let Some(end) = interface("configurations_of_megabytes_come_and_go") else { return };
    let mut text = format!(
        "[Interface]\nPrivateKey = {}\n[Peer]\n",
        std::fs::read_to_string(&end.key_file).unwrap().trim()
    );
    text += &format!("PublicKey = {}\n", nobody(1));
    // As many as in wireguard-go's netns.sh.
    for network in 0..255 {
        for host in 0..256 {
            text += &format!("AllowedIPs = 10.{network}.0.{host}/32, abcd:{network:x}::{host:x}/128\n");
        }
    }
    let file = end.scratch.write("many.conf", &text).unwrap();
    end.wg(&format!("setconf DEV {}", file.display())).unwrap();
    let allowed = end.wg("show DEV allowed-ips").unwrap();
    assert_eq!(allowed.split_whitespace().skip(1).count(), 255 * 256 * 2);
    let empty = end.scratch.write("empty.conf", "[Interface]\n").unwrap();
    end.wg(&format!("setconf DEV {}", empty.display())).unwrap();
    assert_eq!(end.wg("show DEV private-key").unwrap().trim(), "(none)");
    assert_eq!(end.wg("show DEV peers").unwrap(), "");
}
