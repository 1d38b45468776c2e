//! A running adit, and a peer that has authenticated and sends control messages of every kind as fast as they are
//! acknowledged: what the peer causes stays within the numbers of `docs/use/LIMITS.md`.
//!
//! `openvpn/protocol/tests/machines/malicious_peers.rs` has the machines alone, each kind for a minute of virtual time.

mod ends;
mod peer;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use adit_openvpn::control_message::ControlMessage;
use adit_openvpn::testing::messages::{kind, kinds, message};
use adit_testbed::{MAX_WAIT, Scratch, can_run, wait_until};

use self::ends::{Ends, Sufferer};
use crate::authentication::passwords::script;
use crate::bed::PROGRAMS;

/// Lines of the log that a peer causes in a minute; as many are its questions, and its words; and as many lines the beginning and
/// the end of one of its connections have besides.
const LINES: usize = 16;
/// KiB of memory that it may cost.
const MEMORY: u64 = 8 << 10;
/// How many seconds a script takes.
const SCRIPT: &str = "0.1";
/// How long no script runs when all have run.
const IDLE: Duration = Duration::from_millis(250);
/// Runs of a script that begin after the last message: one that waited, and one for the settings that waited for their time.
const RUNS: usize = 2;
/// Datagrams of the sufferer in which it has heard the messages, at least.
const ANSWERS: usize = 3;

/// Runs of each script.
type Runs = BTreeMap<String, usize>;

/// An end under attack.
struct Trial {
    ends: Ends,
    scratch: Scratch,
    /// The state of the process when it was warm.
    warm: Warm,
}

/// How much a process had written and used, and how often its peer had connected, at that time.
struct Warm {
    at: Instant,
    lines: usize,
    connections: usize,
    memory: u64,
}

impl Trial {
    fn new(sufferer: Sufferer) -> Trial {
        let scratch = Scratch::create("malicious").unwrap();
        let recorder = |name: &str, last: &str| -> PathBuf {
            let note = |what: &str| format!("echo {what} {name} >>\"$HERE/runs\"\n");
            script(&scratch, name, &format!("{}sleep {SCRIPT}\n{}{last}", note("begin"), note("end")))
        };
        let ends = Ends::new(sufferer, &recorder, &scratch);
        let warm = Warm { at: Instant::now(), lines: 0, connections: 0, memory: 0 };
        Trial { ends, scratch, warm }
    }

    /// Runs of each script so far, and how many have not ended.
    fn runs(&self) -> (Runs, usize) {
        let text = std::fs::read_to_string(self.scratch.path().join("runs")).unwrap_or_default();
        let mut runs = Runs::new();
        for name in text.lines().filter_map(|line| line.strip_prefix("begin ")) {
            *runs.entry(name.to_owned()).or_default() += 1;
        }
        let ended = text.lines().filter(|line| line.starts_with("end ")).count();
        let begun: usize = runs.values().sum();
        (runs, begun - ended)
    }

    /// Starts the process, and has its peer connected and some messages sent.
    fn start(&mut self) {
        self.ends.start();
        self.send(kind(&ControlMessage::Unknown(String::new())), Duration::from_millis(300));
        self.settle();
        self.warm = Warm {
            at: Instant::now(),
            lines: self.ends.adit().process().mark(),
            connections: self.ends.peer().connections(),
            memory: self.ends.memory(),
        };
    }

    /// Has messages of a kind sent for `time`, and until some of them were heard.
    fn send(&mut self, kind: usize, time: Duration) {
        let end = Instant::now() + time;
        let [said, heard] = [self.ends.peer().said(), self.ends.peer().heard()];
        self.ends.peer().say(Some(kind));
        let done = wait_until("an attack", MAX_WAIT + time, || {
            let peer = self.ends.peer();
            let is_heard = peer.said() > said && peer.heard() > heard + ANSWERS;
            Instant::now() >= end && (is_heard || !self.ends.is_running())
        });
        self.ends.peer().say(None);
        done.unwrap_or_else(|error| panic!("{kind}: {error}\n{}", self.ends.logs()));
    }

    /// Waits until all scripts have run.
    fn settle(&mut self) {
        let (mut known, _) = self.runs();
        let mut idle = Instant::now();
        let settled = wait_until("scripts to end", MAX_WAIT, || {
            let (runs, running) = self.runs();
            if running > 0 || runs != known {
                (idle, known) = (Instant::now(), runs);
            }
            idle.elapsed() > IDLE
        });
        assert!(settled.is_ok(), "{:?}\n{}", self.runs(), self.ends.logs());
    }

    /// One kind of messages for `time`.
    fn endure(&mut self, kind: usize, time: Duration) {
        if !self.ends.is_running() {
            self.start();
        }
        self.send(kind, time);
        let (before, _) = self.runs();
        self.settle();
        let (after, _) = self.runs();
        let name = format!("{:?}", message(kind, 0));
        for (script, runs) in &after {
            let more = runs - before.get(script).copied().unwrap_or_default();
            assert!(more <= RUNS, "{name}: {script} ran {more} times after the last message");
        }
        let minutes = 1 + usize::try_from(self.warm.at.elapsed().as_secs() / 60).unwrap();
        let connections = 1 + self.ends.peer().connections() - self.warm.connections;
        let lines = self.ends.adit().process().mark() - self.warm.lines;
        assert!(lines <= LINES * (3 * minutes + connections), "{name}: {lines} lines\n{}", self.ends.logs());
        // Some messages end a client.
        if self.ends.is_running() {
            let (memory, warm) = (self.ends.memory(), self.warm.memory);
            assert!(memory <= warm + MEMORY, "{name}: {warm} KiB, then {memory} KiB");
        }
    }
}

/// All kinds of messages, in that time.
fn withstand(name: &str, sufferer: Sufferer, time: Duration) {
    if !can_run(name, &PROGRAMS) {
        return;
    }
    let mut trial = Trial::new(sufferer);
    let kinds: Vec<usize> = kinds().collect();
    let each = time / u32::try_from(kinds.len()).unwrap();
    kinds.into_iter().for_each(|kind| trial.endure(kind, each));
}

const SHORT: Duration = Duration::from_secs(3);

#[test]
fn a_malicious_server_causes_no_more_at_a_running_client() {
    withstand("a malicious server", Sufferer::Client, SHORT);
}

#[test]
fn a_malicious_client_causes_no_more_at_a_running_server() {
    withstand("a malicious client", Sufferer::Server, SHORT);
}

#[test]
fn a_malicious_client_causes_no_more_at_a_running_server_that_asks_it() {
    withstand("a malicious client that is asked", Sufferer::AskingServer, SHORT);
}

mod long {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    #[ignore = "long: a minute and some seconds"]
    fn a_malicious_server_causes_no_more_at_a_running_client_in_a_minute() {
        withstand("a malicious server for a minute", Sufferer::Client, LONG);
    }

    #[test]
    #[ignore = "long: two minutes and some seconds"]
    fn a_malicious_client_causes_no_more_at_a_running_server_in_a_minute() {
        withstand("a malicious client for a minute", Sufferer::Server, LONG);
        withstand("a malicious client for a minute that is asked", Sufferer::AskingServer, LONG);
    }
}
