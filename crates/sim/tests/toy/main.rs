//! The small protocol of `adit-toy` over a faulty network: a responder that knows no endpoint, and initiators behind
//! address translation.
//!
//! A run has four parts: a clean network, on which the first packets cause the handshakes and arrive; a faulty one, which
//! loses, delays, duplicates and corrupts datagrams, with crashes, new addresses, and an attacker that sends again what
//! it captured, changed or not; a clean one, in which all tunnels come up again; and a calm one. What must hold:
//!
//! - a packet arrives once at most, unchanged, at the end that it was sent to, and only if the selectors have its port;
//! - no key is installed twice for sealing, and its counters rise one by one from the first, also where the 32 bits of the
//!   wire begin anew: no nonce is used twice;
//! - no session seals or opens after its end;
//! - nothing is lost while the network is clean, although sessions are replaced by time and by number, but what waits for
//!   a peer that moved or has to be found again.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod end;
mod model;
mod world;

use world::{Totals, World};

#[test]
fn seeds_0_to_50() {
    let mut all = Totals::default();
    for seed in 0..50 {
        let totals = World::new(seed).run();
        all.delivered += totals.delivered;
        all.expected += totals.expected;
        all.refused = [0, 1].map(|half| all.refused[half] + totals.refused[half]);
        all.sessions += totals.sessions;
        all.beyond_32_bits += totals.beyond_32_bits;
        all.replays += totals.replays;
        all.moves += totals.moves;
    }
    // What the runs are for did happen.
    assert!(all.delivered > 50_000 && all.expected > 20_000, "{all:?}");
    assert!(all.sessions > 1_500 && all.refused.iter().all(|half| *half > 300), "{all:?}");
    assert!(all.beyond_32_bits > 10_000 && all.replays > 1_000 && all.moves > 300, "{all:?}");
}

#[test]
fn a_seed_replays_exactly_and_seeds_differ() {
    for seed in 0..3 {
        let first = World::new(seed).run();
        assert_eq!(first, World::new(seed).run());
        assert_ne!(first.trace, World::new(seed + 1).run().trace);
    }
}
