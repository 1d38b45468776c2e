//! The simulated network in which adit's protocols are tested.
//!
//! A seed decides everything: how many clients there are (one to five, or 200), which settings they have, what
//! the net does to each datagram, when renegotiations, crashes and new addresses come. Real protocol machines and
//! real data planes run in virtual time, and a model watches that no inner packet arrives twice, changed or at the
//! wrong end, that no key seals two datagrams under one packet id (or IV), that control packets keep to
//! `max-packet-size`, that a client keeps the address that its server remembers, that queues stay bounded, that
//! `learn-address` hears of each address in turn, that sessions end when `inactive` and `session-timeout` say so and
//! not before, that a question put in the middle of a renegotiation arrives once and in order, that nobody is in
//! without the yes of a program that judges clients or stays after its no, that tunnels come back within a stated time
//! once faults stop, and that a clean net loses nothing, renegotiations included. Some seeds have two ends that push
//! nothing (point-to-point), in place of a server with clients; in others, clients change keys as OpenVPN 3 and MirageVPN
//! do. The same seed always gives the same run, to the byte.
//!
//! A run has four parts: a clean net, a faulty one, a clean one in which all tunnels must come up again, and a calm
//! one in which nothing may be lost, although clients get new addresses: the reply to the first packet from there must
//! arrive. While the net is faulty it loses, doubles, reorders and damages datagrams, goes
//! silent and becomes too narrow for large ones; ends crash, restart and are shut down; clients get new addresses
//! or each other's; wall clocks jump and machines sleep. An attacker who sees all that passes repeats it, bends it
//! and makes up resets, acknowledgements, alerts and data of the tunnels it saw, from any address, in the calm part
//! too: no tunnel may fall by it. (Without wrapping of control packets, whoever knows a tunnel's session ids can
//! end it; there it does so while the net is faulty.)
//!
//! They must be up again within: three times `ping-restart`, the longest an attempt may take
//! (`server-poll-timeout`, or twice `hand-window`), the longest wait between attempts, 1 s for a service
//! manager and 10 s for a clean handshake.
//!
//! `cargo run -p adit-sim -- --seeds 0..5000` runs many seeds, `-- --seed 17` one, with the end of its trace
//! if it fails.
#![forbid(unsafe_code)]

mod attack;
mod crypto;
mod dice;
mod end;
mod follow;
mod foreign;
mod identity;
mod learned;
mod life;
mod limits;
mod mishap;
mod model;
mod net;
mod packet;
mod program;
mod questions;
mod roaming;
mod scenario;
mod settings;
#[cfg(test)]
mod tests;
mod trace;
mod watch;
mod world;

use std::fmt;
use std::time::Duration;

use scenario::Scenario;
use world::{START, World};

/// What a run amounted to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The seed.
    pub seed: u64,
    /// Stands for all that was sent and delivered, and when. Equal for equal seeds.
    pub trace: u64,
    /// Virtual time that passed.
    pub time: Duration,
    /// Inner packets sent.
    pub sent: u64,
    /// Inner packets delivered.
    pub delivered: u64,
    /// Times a client came up.
    pub handshakes: u64,
    /// Keys that data planes got.
    pub keys: u64,
    /// Control datagrams that were refused.
    pub rejected: u64,
    /// Client-seconds on a faulty net.
    pub faulty: u64,
    /// Those of them in which the client was up at both ends.
    pub up: u64,
    /// How long after the faults the last client came up, if one was still down.
    pub recovery: Duration,
    /// How long that may take with this seed's settings.
    pub recovery_bound: Duration,
    /// Times a client gave up for good and was started again.
    pub failures: u64,
}

/// A run in which something happened that must not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The virtual time since the start.
    pub time: Duration,
    /// What happened.
    pub violation: String,
    /// The settings that the seed chose.
    pub scenario: String,
    /// The last things that happened before. Empty unless [`explain`] ran.
    pub tail: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} fails after {:.3} s: {}", self.seed, self.time.as_secs_f64(), self.violation)
    }
}

impl std::error::Error for Failure {}

/// Runs a seed.
///
/// # Errors
/// When something happens that must not.
pub fn run(seed: u64) -> Result<Summary, Box<Failure>> {
    simulate(seed, false)
}

/// Runs a seed and keeps the trace, which takes longer.
///
/// # Errors
/// When something happens that must not: with the tail of the trace.
pub fn explain(seed: u64) -> Result<Summary, Box<Failure>> {
    simulate(seed, true)
}

fn simulate(seed: u64, keep_lines: bool) -> Result<Summary, Box<Failure>> {
    let scenario = Scenario::from_seed(seed);
    let settings = format!("{scenario:#?}");
    let mut world = World::new(seed, scenario, keep_lines);
    let outcome = world.run();
    let time = world.now - START;
    match outcome {
        Ok(()) => Ok(Summary {
            seed,
            trace: world.trace.hash(),
            time,
            sent: world.model.sent(),
            delivered: world.model.delivered,
            handshakes: world.handshakes,
            keys: world.model.keys(),
            rejected: world.rejected,
            faulty: world.up.1,
            up: world.up.0,
            recovery: world.recovery,
            recovery_bound: world.scenario.phases.recovery,
            failures: world.failures,
        }),
        Err(violation) => Err(Box::new(Failure {
            seed,
            time,
            violation: violation.to_string(),
            scenario: settings,
            tail: world.trace.into_lines(),
        })),
    }
}
