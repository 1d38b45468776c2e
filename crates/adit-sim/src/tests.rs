//! Seeds: a few hundred in a row, and one for each fault that was found by them.

use super::*;

/// Runs seeds and sums up what they did.
fn run_all(seeds: std::ops::Range<u64>) -> Summary {
    let mut total = Summary::default();
    for seed in seeds {
        let summary = run(seed).unwrap_or_else(|failure| {
            panic!("{failure}\nto see what led there: cargo run -p adit-sim -- --seed {seed}")
        });
        total.sent += summary.sent;
        total.delivered += summary.delivered;
        total.handshakes += summary.handshakes;
        total.keys += summary.keys;
        total.rejected += summary.rejected;
        total.faulty += summary.faulty;
        total.up += summary.up;
    }
    total
}

#[test]
fn a_seed_replays_exactly_and_seeds_differ() {
    for seed in 0..5 {
        let first = run(seed).unwrap();
        assert_eq!(first, run(seed).unwrap());
        assert_eq!(first, explain(seed).unwrap(), "keeping the trace changes nothing");
        assert_ne!(first.trace, run(seed + 1).unwrap().trace);
    }
}

#[test]
fn seeds_0_to_100_do_what_they_are_meant_to() {
    let total = run_all(0..100);
    assert!(total.handshakes > 300, "connections are lost and made again: {total:?}");
    assert!(total.keys > 4 * total.handshakes, "keys are renewed: {total:?}");
    assert!(total.rejected > 100, "damaged and late control packets arrive: {total:?}");
    assert!(total.up * 100 > total.faulty * 75, "retransmissions keep tunnels up: {total:?}");
    assert!(total.delivered > 100_000 && total.delivered < total.sent, "most packets arrive: {total:?}");
}

#[test]
fn seeds_100_to_200() {
    run_all(100..200);
}

#[test]
fn seeds_200_to_300() {
    run_all(200..300);
}

#[test]
fn seeds_300_to_400() {
    run_all(300..400);
}

/// Orders to renegotiate came faster than the ends took new keys into use; the exchanges that followed pushed
/// out keys that were in use, and packets had none or met none. Each of these seeds fails without the guard in
/// `Session::rekey`. (A change to [`scenario`] gives seeds other meanings: find new ones with the guard out.)
#[test]
fn renegotiating_in_a_hurry_lost_packets_in_these_seeds() {
    for seed in [1, 3, 9, 15] {
        run_all(seed..seed + 1);
    }
}
