//! Large and odd configurations.

use std::net::UdpSocket;
use std::time::Duration;

use adit_testbed::{Namespace, can_run, wait_until};

use crate::wireguard::bed::{End, PROGRAMS, Program, WAIT};
use crate::wireguard::configuration::{interface, nobody};

#[test]
fn forty_peers_have_52_networks_each() {
    let Some(end) = interface("forty_peers_have_52_networks_each") else { return };
    let mut text = String::from("[Interface]\n");
    for peer in 1..=40 {
        text += &format!("[Peer]\nPublicKey = {}\n", nobody(peer));
        for network in 1..=52 {
            text += &format!("AllowedIPs = {peer}.{network}.0.0/16\n");
        }
    }
    let file = end.scratch.write("forty.conf", &text).unwrap();
    end.wg(&format!("setconf DEV {}", file.display())).unwrap();
    let shown = end.wg("show DEV allowed-ips").unwrap();
    let counts: Vec<usize> = shown.lines().map(|line| line.split_whitespace().count()).collect();
    assert_eq!(counts, [53; 40]);
}

#[test]
fn peers_are_shown_without_a_private_key() {
    let Some(end) = interface("peers_are_shown_without_a_private_key") else { return };
    let mut text: String = (1..=29).map(|peer| format!("[Peer]\nPublicKey = {}\n", nobody(peer))).collect();
    text += &format!("[Peer]\nPublicKey = {}\nAllowedIPs = 255.2.3.4/32, abcd::255/128\n", nobody(30));
    let file = end.scratch.write("keyless.conf", &text).unwrap();
    end.wg(&format!("setconf DEV {}", file.display())).unwrap();
    let shown = end.wg("showconf DEV").unwrap();
    assert_eq!(shown.matches("[Peer]").count(), 30, "{shown}");
    assert!(shown.contains("255.2.3.4/32") && !shown.contains("PrivateKey"), "{shown}");
}

#[test]
fn one_change_brings_197_addresses() {
    let Some(end) = interface("one_change_brings_197_addresses") else { return };
    let addresses: Vec<String> = (1..=197).map(|number| format!("abcd::{number}")).collect();
    end.wg(&format!("set DEV peer {}", nobody(1))).unwrap();
    end.wg(&format!("set DEV peer {} allowed-ips {}", nobody(2), addresses.join(","))).unwrap();
    let shown = end.wg("show DEV allowed-ips").unwrap();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], format!("{}\t(none)", nobody(1)));
    assert!(lines[1].starts_with(&nobody(2)));
    assert_eq!(lines[1].split_whitespace().count(), 198);
}

#[test]
fn networks_within_networks_come_and_go() {
    let Some(end) = interface("networks_within_networks_come_and_go") else { return };
    let peer = nobody(1);
    for networks in [
        "0.0.0.0/0,10.0.0.0/8,100.0.0.0/10,172.16.0.0/12,192.168.0.0/16",
        "0.0.0.0/0",
        "::/0,1700::/111,5000::/4,e000::/37,9000::/75",
        "::/0",
    ] {
        end.wg(&format!("set DEV peer {peer} allowed-ips {networks}")).unwrap();
        let shown = end.wg("show DEV allowed-ips").unwrap();
        let mut shown: Vec<&str> = shown.split_whitespace().skip(1).collect();
        let mut expected: Vec<&str> = networks.split(',').collect();
        shown.sort_unstable();
        expected.sort_unstable();
        assert_eq!(shown, expected);
    }
    end.wg(&format!("set DEV peer {peer} remove")).unwrap();
    assert_eq!(end.wg("show DEV peers").unwrap(), "");
}

#[test]
fn empty_files_remove_keys() {
    let Some(end) = interface("empty_files_remove_keys") else { return };
    let (peer, key) = (nobody(1), nobody(2));
    let file = end.scratch.write("psk", &key).unwrap();
    end.wg(&format!("set DEV peer {peer} preshared-key {}", file.display())).unwrap();
    assert_eq!(end.wg("show DEV preshared-keys").unwrap().trim(), format!("{peer}\t{key}"));
    end.wg(&format!("set DEV private-key /dev/null peer {peer} preshared-key /dev/null")).unwrap();
    assert_eq!(end.wg("show DEV private-key").unwrap().trim(), "(none)");
    assert_eq!(end.wg("show DEV preshared-keys").unwrap().trim(), format!("{peer}\t(none)"));
}

#[test]
fn an_interface_is_no_peer_of_itself() {
    let Some(end) = interface("an_interface_is_no_peer_of_itself") else { return };
    let own = end.public_key.clone();
    let key = end.key_file.display();
    let peers = || end.wg("show DEV peers").unwrap();
    end.wg(&format!("set DEV peer {own}")).unwrap();
    assert_eq!(peers(), "", "its own key");
    end.wg(&format!("set DEV private-key /dev/null peer {own}")).unwrap();
    assert_eq!(peers().trim(), own, "a key of somebody else");
    end.wg(&format!("set DEV private-key {key}")).unwrap();
    assert_eq!(peers(), "", "it became its own");
    assert_eq!(end.wg("show DEV public-key").unwrap().trim(), own);
}

#[test]
fn a_private_key_is_clamped() {
    let Some(end) = interface("a_private_key_is_clamped") else { return };
    let key = std::fs::read_to_string(&end.key_file).unwrap();
    let rest = &key.trim()[1..];
    // RFC 7748 §5: the lowest three bits are cleared. In base64 `/` is 63, `+` is 62.
    let file = end.scratch.write("unclamped", &format!("/{rest}")).unwrap();
    end.wg(&format!("set DEV private-key {}", file.display())).unwrap();
    assert_eq!(end.wg("show DEV private-key").unwrap().trim(), format!("+{rest}"));
}

/// The points of curve25519 with which every agreement is zero (RFC 7748 §6.1).
#[test]
fn nothing_is_sent_to_points_of_low_order() {
    let Some(end) = interface("nothing_is_sent_to_points_of_low_order") else { return };
    let socket = end.namespace.enter(|| UdpSocket::bind("127.0.0.1:1111").unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    for point in [
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "4Ot6fDtBuK4WVuP68Z/EatoJjeucMrH9hmIFFl9JuAA=",
        "X5yVvKNQjCSx0LFVnIPvWwREXMRYHI6G2CJO3dCfEVc=",
        "7P///////////////////////////////////////38=",
        "7f///////////////////////////////////////38=",
        "7v///////////////////////////////////////38=",
    ] {
        end.wg(&format!("set DEV peer {point} persistent-keepalive 1 endpoint 127.0.0.1:1111")).unwrap();
    }
    assert_ne!(end.wg("show DEV peers").unwrap(), "");
    end.bring_up();
    assert!(socket.recv(&mut [0; 256]).is_err(), "something came");
    // Messages to another peer are sent.
    socket.set_read_timeout(Some(WAIT)).unwrap();
    end.wg(&format!("set DEV peer {} persistent-keepalive 1 endpoint 127.0.0.1:1111", nobody(9))).unwrap();
    assert_eq!(socket.recv(&mut [0; 256]).unwrap(), adit_wireguard::wire::INITIATION_LEN);
}

#[test]
fn an_interface_that_does_not_exist_is_not_shown() {
    let Some(end) = interface("an_interface_that_does_not_exist_is_not_shown") else { return };
    assert!(end.wg("show doesnotexist").is_err());
}

/// A device that was moved ends with the namespace that it is in, and its program ends with it.
#[test]
fn an_interface_ends_with_the_namespace_of_its_device() {
    if !can_run("an_interface_ends_with_the_namespace_of_its_device", &PROGRAMS) {
        return;
    }
    let ends = [End::create(1, Program::Adit), End::create(2, Program::Adit)];
    let elsewhere = Namespace::create("elsewhere").unwrap();
    for end in &ends {
        end.start().unwrap();
        end.namespace.ip(&["link", "set", &end.device, "netns", elsewhere.name()]).unwrap();
        assert!(end.is_served());
    }
    drop(elsewhere);
    for end in &ends {
        wait_until("the daemon to end", WAIT, || end.processes().is_empty()).unwrap();
        assert!(!end.is_served());
    }
}
