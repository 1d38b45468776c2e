//! PUSH_UPDATE: a server's program changes the settings of the clients that understand it, and no packet is lost by that.

use std::thread;
use std::time::Duration;

use adit_testbed::{Ping, Root, can_run, wait_until};

use super::commands::{Talk, managed, managed_with};
use crate::bed::PROGRAMS;
use crate::options::{NEWER, Program, SERVER_INNER};

const WAIT: Duration = Duration::from_secs(60);

#[test]
fn settings_change_while_packets_flow() {
    if !can_run("PUSH_UPDATE", &PROGRAMS) {
        return;
    }
    let (_scratch, socket, bed) = managed(Program::Adit);
    let target = SERVER_INNER[0].parse().unwrap();
    let client = &bed.clients[0].namespace;
    let is_inside =
        |address: &str| client.ip(&["route", "get", address]).is_ok_and(|way| way.contains("dev tun"));
    let mut talk = Talk::within(&socket, WAIT);
    let report = thread::scope(|scope| {
        let busy = scope.spawn(|| Ping::new(300, Duration::from_millis(5)).run(client, target).unwrap());
        for network in ["10.201.0.0", "10.202.0.0"] {
            let command = format!("push-update-broad \"route {network} 255.255.0.0,tun-mtu 1400\"");
            assert_eq!(talk.answer(&command), ["SUCCESS: 1 client(s) updated"]);
            talk.until("SUCCESS: push-update command succeeded");
        }
        busy.join().unwrap()
    });
    let changed =
        wait_until("the second update", WAIT, || is_inside("10.202.0.1") && !is_inside("10.201.0.1"));
    assert!(changed.is_ok(), "{}", bed.logs());
    assert!(report.is_clean(), "{report:?}\n{}", bed.logs());
    let answer = talk.answer("push-update-cid 77 -route");
    assert_eq!(answer, ["ERROR: no client updated"]);
}

/// The newer OpenVPN takes updates from adit, and sends them to it.
#[test]
fn settings_change_between_adit_and_a_newer_openvpn() {
    let name = "PUSH_UPDATE with a newer OpenVPN";
    if !can_run(name, &PROGRAMS) || Root::for_test(name, NEWER).is_none() {
        return;
    }
    for [server, client] in [[Program::Adit, Program::NewerOpenVpn], [Program::NewerOpenVpn, Program::Adit]] {
        let (_scratch, socket, bed) = managed_with(server, client);
        let namespace = &bed.clients[0].namespace;
        let is_inside =
            |address: &str| namespace.ip(&["route", "get", address]).is_ok_and(|way| way.contains("dev tun"));
        let mut talk = Talk::within(&socket, WAIT);
        for [network, before] in [["10.201.0", "10.202.0"], ["10.202.0", "10.201.0"]] {
            talk.say(&format!("push-update-broad \"route {network}.0 255.255.255.0\""));
            talk.until("SUCCESS: push-update command succeeded");
            let changed = wait_until("the update", WAIT, || {
                is_inside(&format!("{network}.1")) && !is_inside(&format!("{before}.1"))
            });
            assert!(changed.is_ok(), "{server:?} to {client:?}, {network}:\n{}", bed.logs());
        }
        // OpenVPN opens its device anew, which may lose a packet, and connects no more than once.
        let report =
            Ping::new(20, Duration::from_millis(20)).run(namespace, SERVER_INNER[0].parse().unwrap());
        assert!(report.as_ref().is_ok_and(|report| report.received > 0), "{report:?}\n{}", bed.logs());
    }
}
