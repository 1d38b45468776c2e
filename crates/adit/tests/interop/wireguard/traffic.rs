//! Packets pass, whichever program is at the other end and whichever end begins.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

use adit_testbed::{Ping, can_run, wait_until};

use super::bed::{End, PORT, PROGRAMS, Program, WAIT, joined, pair};

#[test]
fn packets_pass_between_two_interfaces_over_ipv4_and_ipv6() {
    if !can_run("packets_pass_between_two_interfaces_over_ipv4_and_ipv6", &PROGRAMS) {
        return;
    }
    let [first, second] = pair([Program::Adit; 2]);
    second.reaches(&first);
    first.reaches(&second);
    // Packets pass over IPv6, too.
    second.add_peer(&first, Some(first.outer_v6()));
    second.reaches(&first);
    let endpoint = || first.wg("show DEV endpoints").unwrap();
    wait_until("the endpoint to move", WAIT, || endpoint().contains("[fd00:9::2]")).unwrap();
    first.reaches(&second);
}

#[test]
fn who_sends_where_no_peer_is_hears_of_it() {
    if !can_run("who_sends_where_no_peer_is_hears_of_it", &PROGRAMS) {
        return;
    }
    let [first, second] = pair([Program::Adit; 2]);
    second.reaches(&first);
    // Addresses in the networks of the device that no peer has.
    for target in ["10.77.0.99:9", "[fd00:77::99]:9"] {
        let connect = || TcpStream::connect_timeout(&target.parse().unwrap(), WAIT).unwrap_err();
        let error = first.namespace.enter(connect).unwrap();
        assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{target}: {error}");
    }
}

#[test]
fn wireguard_go_is_understood_whoever_begins() {
    if !can_run("wireguard_go_is_understood_whoever_begins", &[PROGRAMS[0], "wireguard-go"]) {
        return;
    }
    for programs in
        [[Program::Adit, Program::WireGuardGoOfDebian], [Program::WireGuardGoOfDebian, Program::Adit]]
    {
        // The second end knows where the first is, and begins.
        let [first, second] = pair(programs);
        second.reaches(&first);
        first.reaches(&second);
        for (end, other) in [(&first, &second), (&second, &first)] {
            let handshake = end.wg("show DEV latest-handshakes").unwrap();
            let stamp = handshake.trim().strip_prefix(&format!("{}\t", other.public_key));
            assert!(stamp.is_some_and(|stamp| stamp != "0"), "{programs:?}: {handshake}");
        }
    }
}

#[test]
fn a_preshared_key_counts() {
    if !can_run("a_preshared_key_counts", &[PROGRAMS[0], "wireguard-go"]) {
        return;
    }
    let ends = joined([Program::Adit, Program::WireGuardGoOfDebian]);
    let [first, second] = &ends;
    let keys = [[1; 32], [2; 32]].map(base64);
    let file = |number: usize| first.scratch.write(&format!("psk{number}"), &keys[number]).unwrap();
    let files = [file(0), file(1)];
    let preshare = |end: &End, other: &End, number: usize| {
        let words = format!("set DEV peer {} preshared-key {}", other.public_key, files[number].display());
        end.wg(&words).unwrap();
    };
    for end in &ends {
        end.start().unwrap();
        end.set_key();
    }
    first.add_peer(second, None);
    second.add_peer(first, Some(first.outer()));
    preshare(first, second, 0);
    preshare(second, first, 1);
    ends.iter().for_each(End::bring_up);
    assert!(!second.is_answered(first.inner()), "the keys differ");
    preshare(second, first, 0);
    second.reaches(first);
    let shown = first.wg("show DEV preshared-keys").unwrap();
    assert_eq!(shown.trim(), format!("{}\t{}", second.public_key, keys[0]));
}

/// The base64 of a key of 32 bytes that are all the same.
fn base64(bytes: [u8; 32]) -> String {
    adit_wireguard::PublicKey(bytes).to_base64()
}

#[test]
fn packets_pass_on_when_the_port_changes() {
    if !can_run("packets_pass_on_when_the_port_changes", &PROGRAMS) {
        return;
    }
    let [first, second] = pair([Program::Adit; 2]);
    second.reaches(&first);
    // The end that moves has a peer that learns its new port from the next packet.
    second.wg("set DEV listen-port 40123").unwrap();
    assert!(second.namespace.is_bound(false, 40123).unwrap());
    let is_free = || !second.namespace.is_bound(false, PORT).unwrap();
    wait_until("the old port to be free", WAIT, is_free).unwrap();
    second.reaches(&first);
    let endpoints = first.wg("show DEV endpoints").unwrap();
    assert!(endpoints.trim().ends_with(&format!("{}:40123", second.outer())), "{endpoints}");
    first.reaches(&second);
    // Where nothing is sent from the end that moved, its peer sends to the old port.
    first.wg("set DEV listen-port 0").unwrap();
    let port = first.wg("show DEV listen-port").unwrap();
    assert!(port.trim().parse::<u16>().is_ok_and(|port| port != PORT && port != 0), "{port}");
    first.reaches(&second);
    second.reaches(&first);
}

#[test]
fn a_flow_of_pings_survives_a_restart_of_the_other_end() {
    if !can_run("a_flow_of_pings_survives_a_restart_of_the_other_end", &PROGRAMS) {
        return;
    }
    let [first, second] = pair([Program::Adit; 2]);
    second.reaches(&first);
    let saved = || std::fs::read_to_string(second.state.join(format!("wireguard/{}.tai64n", second.device)));
    let before = saved().unwrap();
    assert_eq!(before.len(), 25, "{before}");
    second.namespace.ip(&["link", "delete", &second.device]).unwrap();
    second.wait_until_gone();
    second.start().unwrap();
    second.set_key();
    second.add_peer(&first, Some(first.outer()));
    second.bring_up();
    // Its first initiation is newer than the last one of the run before.
    second.reaches(&first);
    assert!(saved().unwrap() > before);
    let report = Ping::new(100, Duration::from_millis(2)).run(&first.namespace, second.inner()).unwrap();
    assert!(report.is_clean(), "{report:?}");
}
