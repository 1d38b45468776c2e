//! PUSH_UPDATE: a server's program changes the settings of the clients that understand it, and no packet is lost by that.

use std::thread;
use std::time::Duration;

use adit_testbed::{Ping, can_run, wait_until};

use super::commands::{Talk, managed};
use crate::bed::PROGRAMS;
use crate::options::{Program, SERVER_INNER};

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
