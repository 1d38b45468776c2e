//! The simulated network in which adit's protocols are tested.
//!
//! A seed decides everything: the number of clients (one to five, or 200), their settings, what the network does to
//! each datagram, and when renegotiations, crashes and new addresses come. The protocol machines and the data planes of
//! the product run in virtual time. The same seed always gives the same run, to the byte.
//!
//! A model (`model`) and checks (`checks` and others) verify that
//! - no inner packet arrives twice, changed or at the wrong end;
//! - no key seals two datagrams under one packet id (or IV);
//! - control packets keep to `max-packet-size`, and queues stay bounded;
//! - a client keeps the address that its server keeps for it (`ifconfig-pool-persist`);
//! - `learn-address` gets each address in turn;
//! - sessions end when `inactive` and `session-timeout` demand it, and not before;
//! - a challenge that is sent during a renegotiation arrives once and in order;
//! - no client is up before the management client accepts it, or after it refuses it;
//! - tunnels come back within a stated time once faults stop;
//! - a clean net loses nothing, renegotiations included.
//!
//! Some seeds have two ends that push nothing (point-to-point) in place of a server with clients; in others, clients
//! change keys as OpenVPN 3 and MirageVPN do (`third_party`).
//!
//! A run has four parts: a clean net, a faulty one, a clean one in which all tunnels must come up again, and a calm
//! one in which nothing may be lost, although clients get new addresses: the reply to the first packet from there must
//! arrive. While the net is faulty it loses, duplicates, reorders and corrupts datagrams, drops all of them for a while,
//! or drops large ones; ends crash, restart and are shut down; clients get new addresses or each other's; wall clocks
//! jump and machines sleep. An attacker on the path repeats and changes what it captured and sends resets,
//! acknowledgements, alerts and data of its own making, from any address, in the calm part too: no tunnel may go down
//! by it. (Without wrapping of control packets, an attacker that knows a tunnel's session ids can end it; there it does
//! so while the net is faulty.)
//!
//! They must be up again within: three times `ping-restart`, the longest an attempt may take
//! (`server-poll-timeout`, or twice `hand-window`), the longest wait between attempts, 1 s for a service
//! manager and 10 s for a clean handshake.
//!
//! All of this is OpenVPN's; [`wireguard`] has the same for WireGuard. What packets must do is one model for both. What
//! is neutral is public, for simulations of other protocols: [`network`], [`packet`], [`EventQueue`], [`Rng`], [`Trace`]
//! (`tests/toy` is one).
//!
//! `cargo run -p adit-sim -- --seeds 0..5000` runs many seeds of both, `-- --wireguard --seed 17` one of WireGuard's,
//! with the end of its trace if it fails.
#![forbid(unsafe_code)]

mod attack;
mod challenges;
mod checks;
mod crypto;
mod effects;
mod end;
mod event;
mod identity;
mod learn_address;
mod limits;
mod machine_faults;
mod management;
mod model;
mod net;
pub mod network;
pub mod packet;
mod packets;
mod queue;
mod rng;
mod roaming;
mod scenario;
mod settings;
#[cfg(test)]
mod tests;
mod third_party;
mod trace;
pub mod wireguard;
mod workload;
mod world;

use std::fmt;
use std::time::Duration;

pub use queue::EventQueue;
pub use rng::Rng;
use scenario::Scenario;
pub use trace::Trace;
use world::{START, World};

/// Counts and measurements of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The seed.
    pub seed: u64,
    /// A hash of all that was sent and delivered, and when. Equal for equal seeds.
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

/// A run that violated the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The virtual time since the start.
    pub time: Duration,
    /// What was violated.
    pub violation: String,
    /// The settings that the seed chose.
    pub scenario: String,
    /// The end of the trace before. Empty unless [`explain`] ran.
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
/// When the run violates the model.
pub fn run(seed: u64) -> Result<Summary, Box<Failure>> {
    simulate(seed, false)
}

/// Runs a seed and keeps the trace, which takes longer.
///
/// # Errors
/// When the run violates the model: with the end of the trace.
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
            sent: world.model.packets.sent(),
            delivered: world.model.packets.delivered,
            handshakes: world.stats.handshakes,
            keys: world.model.keys(),
            rejected: world.stats.rejected,
            faulty: world.stats.faulty_seconds,
            up: world.stats.up_seconds,
            recovery: world.stats.recovery,
            recovery_bound: world.scenario.phases.recovery,
            failures: world.stats.failures,
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
