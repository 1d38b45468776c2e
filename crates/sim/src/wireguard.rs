//! WireGuard's ends over the same network, in the same time, with the same packets as OpenVPN's.
//!
//! A seed decides all: two to six ends, of which some are behind address translation that changes; the addresses that
//! they have of each other; keepalives, preshared keys, post-quantum keys, MTUs; the faults of the network. A run has
//! these parts: a clean net, on which all reach each other in 45 s; a faulty one; a clean one, on which they reach each
//! other again in that time, and lose nothing from then on, though they get new addresses and both begin handshakes at
//! once; sometimes silence until keys are forgotten, and packets again.
//!
//! Faults: datagrams are lost, doubled, held back and changed; ends are killed, some with clocks that start in 1970
//! afterwards; machines sleep, up to eleven minutes; clocks are set by a year; ends move, or get each other's
//! addresses; cookies are asked for; peers are removed and added again. An attacker sends captured datagrams again,
//! changed or not.
//!
//! Beside the conditions of packets, the model knows keys: each seals in one session of one end, with counters from 0
//! on, one by one, not before the other end has it, and not after 180 s; three sessions a peer at most, none 540 s
//! after the last was made; initiations to a peer 5 s apart; no padding beyond the MTU.
//!
//! `streams` has two ends over TCP, as a test.

mod effects;
mod end;
mod faults;
mod model;
mod net;
mod scenario;
mod settings;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod tests;
mod workload;
mod world;

use self::scenario::{RECOVERY, Scenario};
use self::world::{START, World};
use crate::{Failure, Summary};

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
            rejected: world.rejected(),
            faulty: world.stats.faulty_seconds,
            up: world.stats.up_seconds,
            recovery: world.stats.recovery,
            recovery_bound: RECOVERY,
            failures: 0,
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
