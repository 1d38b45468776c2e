//! The small protocol of `adit-toy` over a faulty network: a responder that knows no endpoint, and initiators behind
//! address translation.
//!
//! A run has four parts: a clean network, on which the first packets cause the handshakes and arrive; a faulty one,
//! which loses, delays, duplicates and corrupts datagrams, with crashes, new addresses, and an attacker that sends
//! captured datagrams again, changed or not; a clean one, in which all tunnels come up again; and a calm one. The
//! conditions that must hold:
//!
//! - a packet arrives once at most, unchanged, at the end that it was sent to, and only by a session whose selectors have its ports,
//!   at both ends;
//! - of the two series of sessions between two ends, whose selectors cross, the first that may carry a packet and has a session
//!   carries it, and no packet takes a session of the series after the next one was confirmed;
//! - control messages and data take ports of their own;
//! - no key is installed twice for sealing, and its counters rise one by one from the first, also where the 32 bits of the
//!   wire begin anew: no nonce is used twice;
//! - no session seals or opens after its end;
//! - nothing is lost while the network is clean, although sessions are replaced by time and by number, but for packets
//!   that wait for a peer that moved or has to be found again.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod end;
mod model;
mod policy;
mod world;

use std::ops::Range;

use world::{Totals, World};

/// Runs of these seeds, added up.
fn run(seeds: Range<u64>) -> Totals {
    let mut all = Totals::default();
    for seed in seeds {
        let totals = World::new(seed).run();
        all.delivered += totals.delivered;
        all.expected += totals.expected;
        all.refused = sum(all.refused, totals.refused);
        all.sessions += totals.sessions;
        all.beyond_32_bits += totals.beyond_32_bits;
        all.replays += totals.replays;
        all.moves += totals.moves;
        all.carried = sum(all.carried, totals.carried);
        all.crossing += totals.crossing;
        all.rekeys = sum(all.rekeys, totals.rekeys);
        all.control = sum(all.control, totals.control);
    }
    all
}

fn sum(one: [u64; 2], other: [u64; 2]) -> [u64; 2] {
    [one[0] + other[0], one[1] + other[1]]
}

/// Checks that the events for which the runs of 250 seeds are made did happen.
fn check(all: &Totals) {
    assert!(all.delivered > 200_000 && all.expected > 80_000, "{all:?}");
    assert!(all.sessions > 10_000 && all.refused.iter().all(|half| *half > 1_000), "{all:?}");
    assert!(all.beyond_32_bits > 50_000 && all.replays > 5_000 && all.moves > 1_500, "{all:?}");
    assert!(all.carried.iter().all(|series| *series > 50_000) && all.crossing > 20_000, "{all:?}");
    assert!(all.rekeys.iter().all(|series| *series > 2_000), "{all:?}");
    assert!(all.control.iter().all(|port| *port > 5_000), "{all:?}");
}

#[test]
fn seeds_0_to_250() {
    check(&run(0..250));
}

#[test]
fn seeds_250_to_500() {
    check(&run(250..500));
}

#[test]
fn a_seed_replays_exactly_and_seeds_differ() {
    for seed in 0..3 {
        let first = World::new(seed).run();
        assert_eq!(first, World::new(seed).run());
        assert_ne!(first.trace, World::new(seed + 1).run().trace);
    }
}
