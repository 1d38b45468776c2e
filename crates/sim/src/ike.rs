//! Two ends of IKEv2 and ESP over the same network, in the same time, with the same packets as the ends of other protocols.
//!
//! A seed decides all: which end initiates, one to three children, suites, lifetimes, PPKs, childless IKE SAs, fragments; a NAT in
//! front of end A whose ports change, or addresses of end A that change (MOBIKE); ESP in UDP or as an IP protocol. A run has these
//! parts: a clean net, on which the ends come up; a faulty one; a clean one, on which they come up again; a calm one, with rekeys of
//! both kinds by both ends at once, on which no packet is lost; a part in which one message of each such collision is lost; and the
//! end of both ends, after which nothing is left.
//!
//! Faults: datagrams are lost, doubled, held back and changed, or none passes; ends are killed and start anew; ports and addresses
//! change. An attacker sends captured datagrams again, changed or not, from their source or another.
//!
//! The model of the conditions that hold is IPsec's own. After any collision both ends seal with the two directions of one child
//! SA within one retransmission. No packet is opened with a child SA that the other end did not seal with, and none comes by a child
//! of other selectors. No key, no sequence number and no initialization vector is used twice, and a message that is sent again is
//! the same. The number of child SAs and of messages is bounded, and both ends come to an end.

mod effects;
mod end;
mod model;
mod net;
mod scenario;
mod settings;
#[cfg(test)]
mod tests;
mod world;

use self::scenario::Scenario;
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
            handshakes: world.stats.ups,
            keys: world.model.keys(),
            rejected: world.rejected(),
            faulty: world.stats.faulty_seconds,
            up: world.stats.up_seconds,
            recovery: world.stats.recovery,
            recovery_bound: world.scenario.recovery(),
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
