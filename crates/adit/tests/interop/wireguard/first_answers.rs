//! The first packet that a peer sends after a restart is answered: the answer is sealed with the session of that packet, as the
//! peer has lost the keys of the one before.

use std::path::Path;
use std::time::Duration;

use adit_testbed::{Ping, Process, can_run, wait_until};

use super::bed::{End, PORT, PROGRAMS, Program, WAIT, joined};
use super::files::up;

/// Restarts of each end. `ADIT_RESTARTS` says another number.
const RESTARTS: usize = 15;

/// A responder takes no initiation of a peer within 20 ms of the one before (wireguard-go: `HandshakeInitationRate`).
const BETWEEN_INITIATIONS: Duration = Duration::from_millis(25);

fn restarts() -> usize {
    std::env::var("ADIT_RESTARTS").ok().and_then(|number| number.parse().ok()).unwrap_or(RESTARTS)
}

/// How often each end starts over, with so many workers.
struct Case {
    name: &'static str,
    workers: &'static str,
    restarts: usize,
}

/// `adit up` of a file of each end, each of which knows where the other is.
fn start([first, second]: [&End; 2], workers: &str) -> Process {
    let key = std::fs::read_to_string(&first.key_file).unwrap();
    let text = format!(
        "[Interface]\nPrivateKey = {}\nAddress = {}/24\nListenPort = {PORT}\n[Peer]\nPublicKey = {}\nAllowedIPs = {}/32\n\
         Endpoint = {}:{PORT}\n",
        key.trim(),
        first.inner(),
        second.public_key,
        second.inner(),
        second.outer(),
    );
    let file = first.scratch.write(&format!("{}.conf", first.device), &text).unwrap();
    up(first, &[Path::new("--workers"), Path::new(workers), &file])
}

/// The peer is configured anew, with which all keys are lost, and the end sends one packet at once. How many got no answer.
fn lost_after_restarts(restarts: usize, end: &End, other: &End) -> usize {
    let settings = format!("endpoint {}:{PORT}", other.outer());
    let is_lost = |_: &usize| {
        std::thread::sleep(BETWEEN_INITIATIONS);
        end.replace_peer(other, &settings);
        let one = Ping { timeout: Duration::from_secs(1), ..Ping::new(1, Duration::from_millis(100)) };
        one.run(&end.namespace, other.inner()).unwrap().received == 0
    };
    (0..restarts).filter(is_lost).count()
}

fn no_first_answer_is_lost(case: &Case) {
    let Case { name, workers, restarts } = *case;
    if !can_run(name, &PROGRAMS) {
        return;
    }
    let ends = joined([Program::Adit; 2]);
    let [first, second] = &ends;
    let _running = [start([first, second], workers), start([second, first], workers)];
    for end in &ends {
        wait_until("the tunnel", WAIT, || end.is_served()).unwrap();
    }
    first.reaches_v4(second);
    let lost =
        [(first, second), (second, first)].map(|(end, other)| lost_after_restarts(restarts, end, other));
    assert_eq!(lost, [0, 0], "of {restarts} restarts of each end");
}

#[test]
fn no_first_answer_is_lost_with_one_worker() {
    let name = "no_first_answer_is_lost_with_one_worker";
    no_first_answer_is_lost(&Case { name, workers: "1", restarts: restarts() });
}

#[test]
fn no_first_answer_is_lost_with_two_workers() {
    let name = "no_first_answer_is_lost_with_two_workers";
    no_first_answer_is_lost(&Case { name, workers: "2", restarts: restarts() });
}

mod long {
    use super::*;

    /// Restarts of each end.
    const MANY: usize = 200;

    #[test]
    #[ignore = "long: a minute"]
    fn no_first_answer_is_lost_after_many_restarts_with_one_worker() {
        let name = "no_first_answer_is_lost_after_many_restarts_with_one_worker";
        no_first_answer_is_lost(&Case { name, workers: "1", restarts: MANY });
    }

    #[test]
    #[ignore = "long: a minute"]
    fn no_first_answer_is_lost_after_many_restarts_with_two_workers() {
        let name = "no_first_answer_is_lost_after_many_restarts_with_two_workers";
        no_first_answer_is_lost(&Case { name, workers: "2", restarts: MANY });
    }
}
