//! Post-quantum preshared keys: between two adits, and not visible to others.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use adit_testbed::{Ping, can_run, wait_until, wait_until_reachable, wireguard_socket};

use super::bed::{End, PROGRAMS, Program, WAIT, joined, pair};
use super::files::up;
use super::running_files::write;

/// Sets the peer's `post-quantum` at the socket for `wg`.
fn set(end: &End, other: &End, value: &str) {
    let key = adit_wireguard::PublicKey::from_base64(&other.public_key).unwrap();
    let hex: String = key.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut stream = UnixStream::connect(wireguard_socket(&end.device)).unwrap();
    write!(stream, "set=1\npublic_key={hex}\nupdate_only=true\nadit_post_quantum={value}\n\n").unwrap();
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"errno=0\n");
}

#[test]
fn two_adits_agree_on_a_post_quantum_key() {
    if !can_run("two_adits_agree_on_a_post_quantum_key", &PROGRAMS) {
        return;
    }
    let ends = joined([Program::Adit; 2]);
    let [server, client] = &ends;
    server.start().unwrap();
    server.set_key();
    server.add_peer(client, None);
    set(server, client, "on");
    server.bring_up();
    let file = client.scratch.path().join(format!("{}.conf", client.device));
    write(&ends.each_ref(), &file, "#adit: post-quantum = required", "");
    let mut adit = up(client, &[&file]);
    // Packets pass with such a key alone: those that came before waited.
    if let Err(error) = wait_until_reachable(&client.namespace, server.inner(), WAIT) {
        panic!("{error}\n{}", adit.log());
    }
    let status = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
        command.args(["status", "--details", &client.device]);
        client.namespace.run(command).unwrap()
    };
    assert!(status().contains(", post-quantum (X25519MLKEM768)"), "{}", status());
    let shown = client.wg("show DEV preshared-keys").unwrap();
    assert_eq!(shown.trim(), format!("{}\t(none)", server.public_key));
    // The other end turns it off, and this one has no packets for it any more.
    set(server, client, "off");
    adit.restart();
    wait_until("the end of the session", WAIT, || status().contains("not post-quantum")).unwrap();
    assert!(!client.is_answered(server.inner()));
    set(server, client, "on");
    adit.restart();
    wait_until_reachable(&client.namespace, server.inner(), WAIT).unwrap();
    assert!(status().contains(", post-quantum (X25519MLKEM768)"), "{}", status());
    assert!(adit.terminate(WAIT).unwrap().success());
}

/// A handshake, ten packets and keepalives: nothing else passes, whichever end begins. The least that adit could say
/// besides has 148 bytes.
fn others_see_nothing(program: Program) {
    if !can_run("others_see_nothing", &[PROGRAMS[0], program.path()]) {
        return;
    }
    for programs in [[Program::Adit, program], [program, Program::Adit]] {
        let ends = joined(programs);
        let [first, second] = &ends;
        for end in &ends {
            end.start().unwrap();
            end.set_key();
        }
        first.add_peer(second, None);
        second.add_peer(first, Some(first.outer()));
        let (adit, other) = if programs[0] == Program::Adit { (first, second) } else { (second, first) };
        set(adit, other, "on");
        ends.iter().for_each(End::bring_up);
        let ping = Ping { timeout: WAIT, ..Ping::new(10, Duration::from_millis(20)) };
        let report = ping.run(&second.namespace, first.inner()).unwrap();
        assert!(report.is_clean(), "{programs:?}: {report:?}");
        let line = adit.wg("show DEV transfer").unwrap();
        let shown = line.trim().strip_prefix(&format!("{}\t", other.public_key)).unwrap();
        let numbers: Vec<u64> = shown.split('\t').map(|number| number.parse().unwrap()).collect();
        let [received, sent] = numbers[..] else { panic!("{shown}") };
        // An initiation, or a response to it; ten datagrams of 128 bytes each way, 116 from boringtun, which does not pad; and
        // keepalives of 32.
        let (ours, theirs) = if programs[1] == Program::Adit { (148, 92) } else { (92, 148) };
        assert!((ours + 1280..=ours + 1344).contains(&sent), "{programs:?}: {shown}");
        assert!((theirs + 1160..=theirs + 1344).contains(&received), "{programs:?}: {shown}");
    }
}

#[test]
fn wireguard_go_sees_nothing() {
    others_see_nothing(Program::WireGuardGo);
}

#[test]
fn wireguard_go_of_debian_sees_nothing() {
    others_see_nothing(Program::WireGuardGoOfDebian);
}

#[test]
fn boringtun_sees_nothing() {
    others_see_nothing(Program::BoringTun);
}

#[test]
fn gotatun_sees_nothing() {
    others_see_nothing(Program::GotaTun);
}

/// Between two adits more passes, which shows that the bytes above would tell.
#[test]
fn the_exchange_shows_in_the_bytes() {
    if !can_run("the_exchange_shows_in_the_bytes", &PROGRAMS) {
        return;
    }
    let ends = pair([Program::Adit; 2]);
    let [first, second] = &ends;
    set(first, second, "on");
    set(second, first, "on");
    second.reaches(first);
    let transfer = || {
        let line = second.wg("show DEV transfer").unwrap();
        let shown: Vec<u64> = line.split_whitespace().skip(1).map(|number| number.parse().unwrap()).collect();
        (shown[0], shown[1])
    };
    // Two handshakes, two exchanges of 1,232 + 84 bytes from the responder and 1,168 from the initiator, pings.
    let reached = |(received, sent): (u64, u64)| received > 2 * (1232 + 84) && sent > 2 * 1168;
    wait_until("both exchanges", WAIT, || reached(transfer())).unwrap();
}
