//! The first packet after each reconnect of a client is answered.

use std::net::IpAddr;
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Ping, can_run, wait_until_reachable};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program, SERVER_INNER};

/// Reconnects of each client. `ADIT_RESTARTS` says another number.
const RECONNECTS: usize = 3;

fn reconnects() -> usize {
    std::env::var("ADIT_RESTARTS").ok().and_then(|number| number.parse().ok()).unwrap_or(RECONNECTS)
}

/// A client with an even peer-id and one with an odd one, so that each of two workers has one.
fn no_first_answer_is_lost(name: &str, workers: &str) {
    if !can_run(name, &PROGRAMS) {
        return;
    }
    let clients = [Program::Adit, Program::OpenVpn];
    let mut bed = Bed::build(&Options::BASE, Program::Adit, &clients).unwrap();
    bed.server.arguments(&["--workers", workers]);
    bed.server.start().unwrap();
    let target: IpAddr = SERVER_INNER[0].parse().unwrap();
    for (number, program) in clients.into_iter().enumerate() {
        bed.clients[number].start().unwrap();
        wait_until_reachable(&bed.clients[number].namespace, target, MAX_WAIT).unwrap();
        let lost = lost_after_reconnects(&mut bed, number, program.up_line(), target);
        assert_eq!(lost, 0, "{name}, client {number}: of {} reconnects\n{}", reconnects(), bed.logs());
    }
}

fn lost_after_reconnects(bed: &mut Bed, number: usize, up: &str, target: IpAddr) -> usize {
    let mut lost = 0;
    for _ in 0..reconnects() {
        let client = &mut bed.clients[number];
        let from = client.process().mark();
        client.process().restart();
        client.process().wait_for_line(from, up, MAX_WAIT).unwrap();
        let one = Ping { timeout: Duration::from_secs(1), ..Ping::new(1, Duration::from_millis(100)) };
        lost += usize::from(one.run(&client.namespace, target).unwrap().received == 0);
    }
    lost
}

#[test]
fn no_first_answer_is_lost_after_reconnects_with_one_worker() {
    no_first_answer_is_lost("no_first_answer_is_lost_after_reconnects_with_one_worker", "1");
}

#[test]
fn no_first_answer_is_lost_after_reconnects_with_two_workers() {
    no_first_answer_is_lost("no_first_answer_is_lost_after_reconnects_with_two_workers", "2");
}
