//! `dev null`: a client that connects and carries nothing.

use std::time::Duration;

use adit_testbed::{MAX_WAIT, Ping, can_run, wait_until};

use crate::bed::{Bed, PROGRAMS};
use crate::management::status::status_of;
use crate::options::{Options, Program};

const WAIT: Duration = MAX_WAIT;

#[test]
fn a_client_without_a_device_is_connected() {
    if !can_run("dev null", &PROGRAMS) {
        return;
    }
    let mut bed = Bed::build_with(&Options::BASE, Program::OpenVpn, &[Program::Adit], |_, [_, client]| {
        *client = client.replace("dev tun\n", "dev null\n");
    })
    .unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    bed.clients[0]
        .process()
        .wait_for_line(0, "tunnel up: null with 10.8.0.", WAIT)
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.logs()));
    let devices = bed.clients[0].namespace.ip(&["-br", "link", "show"]).unwrap();
    assert!(!devices.contains("tun0") && !devices.contains("null"), "{devices}");
    let ping = Ping { timeout: Duration::from_millis(300), ..Ping::new(3, Duration::from_millis(20)) };
    let received = ping.run(&bed.server.namespace, "10.8.0.2".parse().unwrap()).unwrap().received;
    assert_eq!(received, 0);
    let pid = bed.clients[0].process().id();
    let dropped =
        || status_of(pid)["losses"]["packet refused by the TUN device"].as_u64().unwrap_or_default();
    wait_until("the requests to be counted", WAIT, || dropped() >= 3)
        .unwrap_or_else(|error| panic!("{error}\n{:#}", status_of(pid)));
    bed.clients[0].stop().unwrap();
    bed.server.stop().unwrap();
}
