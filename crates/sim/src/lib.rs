//! The simulated network in which adit's protocols are tested.
//!
//! A seed decides everything. The protocol machines and the data planes of the product run in virtual time. A seed
//! always gives the same run, to the byte.
//!
//! Each protocol has its scenarios and its model of the conditions that must hold: [`openvpn`], [`wireguard`], [`ike`]. The
//! model of inner packets is one for all. Neutral parts are public, for simulations of other protocols: [`network`],
//! [`packet`], [`EventQueue`], [`Rng`], [`Trace`] (`tests/toy` is one).
//!
//! `cargo run -p adit-sim -- --seeds 0..5000` runs many seeds of all, `-- --wireguard --seed 17` one of WireGuard's,
//! with the end of its trace if it fails.
#![forbid(unsafe_code)]

pub mod ike;
pub mod network;
pub mod openvpn;
pub mod packet;
mod packets;
mod queue;
mod rng;
mod trace;
mod violation;
pub mod wireguard;

use std::fmt;
use std::time::Duration;

pub use queue::EventQueue;
pub use rng::Rng;
pub use trace::Trace;

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
    /// Runs in which the client was up at both ends.
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
    /// The rule that was violated.
    pub violation: String,
    /// The settings that the seed chose.
    pub scenario: String,
    /// The end of the trace before. Empty unless it was asked for.
    pub tail: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} fails after {:.3} s: {}", self.seed, self.time.as_secs_f64(), self.violation)
    }
}

impl std::error::Error for Failure {}
