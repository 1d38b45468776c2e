//! OpenVPN's server and clients, or two ends that push nothing.
//!
//! A seed decides the number of clients (one to five, or 200), their settings, the fate of each datagram in the
//! network, and when renegotiations, crashes and new addresses come.
//!
//! A model (`model`) and checks (`world_checks` and others) verify that
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
//! A run has four parts: a clean net, a faulty one, a clean one in which all tunnels must come up again, and a calm one
//! in which nothing may be lost, although clients get new addresses: the reply to the first packet from there must
//! arrive. While the net is faulty it loses, duplicates, reorders and corrupts datagrams, drops all of them for a
//! while, or drops large ones; ends crash, restart and are shut down; clients get new addresses or each other's; wall
//! clocks jump and machines sleep. An attacker on the path repeats and changes datagrams that it captured and sends
//! resets, acknowledgements, alerts and data of its own making, from any address, in the calm part too: no tunnel may
//! go down by it. (Without wrapping of control packets, an attacker that knows a tunnel's session ids can end it; there
//! it does so while the net is faulty.)
//!
//! They must be up again within: three times `ping-restart`, the longest an attempt may take
//! (`server-poll-timeout`, or twice `hand-window`), the longest wait between attempts, 1 s for a service
//! manager and 10 s for a clean handshake.

mod attack;
mod authentication;
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
mod roaming;
mod scenario;
mod settings;
#[cfg(test)]
mod tests;
mod third_party;
mod workload;
mod world;
mod world_checks;

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
