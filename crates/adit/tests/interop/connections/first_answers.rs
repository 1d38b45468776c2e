//! The first packet after each reconnect of a client is answered, and those around its renegotiations.

use std::net::IpAddr;
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Ping, can_run, wait_until_reachable};

use crate::bed::{Bed, Host, PROGRAMS};
use crate::options::{Options, Program, SERVER_INNER};

/// Reconnects of each client. `ADIT_RESTARTS` says another number.
const RECONNECTS: usize = 3;

fn reconnects() -> usize {
    std::env::var("ADIT_RESTARTS").ok().and_then(|number| number.parse().ok()).unwrap_or(RECONNECTS)
}

/// How often clients connect anew, at a server with so many workers.
struct Case {
    name: &'static str,
    workers: &'static str,
    reconnects: usize,
}

/// A client with an even peer-id and one with an odd one, so that each of two workers has one.
fn no_first_answer_is_lost(case: &Case) {
    let Case { name, workers, reconnects } = *case;
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
        let client = &mut bed.clients[number];
        let lost = (0..reconnects).filter(|_| is_lost(client, program.up_line(), target)).count();
        assert_eq!(lost, 0, "{name}, client {number}: of {reconnects} reconnects\n{}", bed.logs());
    }
}

/// Whether the first packet of a client that connects anew gets no answer.
fn is_lost(client: &mut Host, up: &str, target: IpAddr) -> bool {
    let from = client.process().mark();
    client.process().restart();
    client.process().wait_for_line(from, up, MAX_WAIT).unwrap();
    let one = Ping { timeout: Duration::from_secs(1), ..Ping::new(1, Duration::from_millis(100)) };
    one.run(&client.namespace, target).unwrap().received == 0
}

#[test]
fn no_first_answer_is_lost_after_reconnects_with_one_worker() {
    let name = "no_first_answer_is_lost_after_reconnects_with_one_worker";
    no_first_answer_is_lost(&Case { name, workers: "1", reconnects: reconnects() });
}

#[test]
fn no_first_answer_is_lost_after_reconnects_with_two_workers() {
    let name = "no_first_answer_is_lost_after_reconnects_with_two_workers";
    no_first_answer_is_lost(&Case { name, workers: "2", reconnects: reconnects() });
}

mod long {
    use super::*;
    use crate::management::status::status_of;

    /// Reconnects of each client.
    const MANY: usize = 200;
    /// Renegotiations of all clients together.
    const RENEGOTIATIONS: u64 = 200;
    /// Seconds between the renegotiations of a client: keys change hands after five.
    const EVERY: usize = 8;

    #[test]
    #[ignore = "long: some minutes"]
    fn no_first_answer_is_lost_after_many_reconnects_with_one_worker() {
        let name = "no_first_answer_is_lost_after_many_reconnects_with_one_worker";
        no_first_answer_is_lost(&Case { name, workers: "1", reconnects: MANY });
    }

    #[test]
    #[ignore = "long: some minutes"]
    fn no_first_answer_is_lost_after_many_reconnects_with_two_workers() {
        let name = "no_first_answer_is_lost_after_many_reconnects_with_two_workers";
        no_first_answer_is_lost(&Case { name, workers: "2", reconnects: MANY });
    }

    /// Each client sends a hundred packets a second all the time.
    #[test]
    #[ignore = "long: some minutes"]
    fn no_answer_is_lost_over_many_renegotiations() {
        let name = "no_answer_is_lost_over_many_renegotiations";
        if !can_run(name, &PROGRAMS) {
            return;
        }
        let programs = [Program::Adit, Program::OpenVpn, Program::Adit, Program::OpenVpn, Program::Adit];
        let mut bed = Bed::build(&Options::BASE, Program::Adit, &programs).unwrap();
        bed.server.arguments(&["--workers", "2"]);
        bed.server.start().unwrap();
        let target: IpAddr = SERVER_INNER[0].parse().unwrap();
        for client in &mut bed.clients {
            let text = std::fs::read_to_string(client.config()).unwrap();
            let often = text.replace("reneg-sec 0", &format!("reneg-sec {EVERY}"));
            assert_ne!(text, often);
            std::fs::write(client.config(), often).unwrap();
            client.start().unwrap();
            wait_until_reachable(&client.namespace, target, MAX_WAIT).unwrap();
        }
        // OpenVPN renegotiates up to a tenth earlier, and each client once more or less.
        let seconds = EVERY * (usize::try_from(RENEGOTIATIONS).unwrap() / programs.len() + 2);
        let ping = Ping::new(u16::try_from(seconds * 100).unwrap(), Duration::from_millis(10));
        let reports: Vec<_> = std::thread::scope(|scope| {
            let namespaces = bed.clients.iter().map(|client| &client.namespace);
            let ping = &ping;
            let run = |namespace| scope.spawn(move || ping.run(namespace, target).unwrap());
            let running: Vec<_> = namespaces.map(run).collect();
            running.into_iter().map(|each| each.join().unwrap()).collect()
        });
        for (number, report) in reports.iter().enumerate() {
            assert!(report.is_clean(), "client {number}: {:?} are missing\n{}", report.missing, bed.logs());
        }
        let status = status_of(bed.server.process().id());
        let rekeys = status["peers"].as_array().unwrap().iter().filter_map(|peer| peer["rekeys"].as_u64());
        assert!(rekeys.sum::<u64>() >= RENEGOTIATIONS, "{status:#}");
    }
}
