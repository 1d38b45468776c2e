//! Seeds: some in a row, and one for each defect that was found by them.

use super::*;

fn run_all(seeds: std::ops::Range<u64>) -> Summary {
    let mut total = Summary::default();
    for seed in seeds {
        let summary = run(seed).unwrap_or_else(|failure| {
            panic!("{failure}\nto see what led there: cargo run -p adit-sim -- --ike --seed {seed}")
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
    let first = run(0).unwrap();
    assert_eq!(first, run(0).unwrap());
    assert_eq!(first, explain(0).unwrap(), "keeping the trace changes nothing");
    assert_ne!(first.trace, run(1).unwrap().trace);
}

#[test]
fn seeds_0_to_100_hold() {
    let total = run_all(0..100);
    assert!(total.handshakes > 200, "connections are lost and made again: {total:?}");
    assert!(total.keys > 2000, "keys are renewed: {total:?}");
    assert!(total.rejected > 1000, "damaged, late and replayed messages arrive: {total:?}");
    assert!(total.up * 100 > total.faulty * 30, "retries keep tunnels up: {total:?}");
    assert!(total.delivered > 20_000 && total.delivered < total.sent, "most packets arrive: {total:?}");
}

/// Each setting is chosen by more than one seed, so that none is left untested unnoticed.
#[test]
fn seeds_0_to_100_choose_from_all_there_is() {
    let scenarios: Vec<Scenario> = (0..100).map(Scenario::from_seed).collect();
    let count =
        |chooses: fn(&Scenario) -> bool| scenarios.iter().filter(|scenario| chooses(scenario)).count();
    let counts = [
        count(|scenario| scenario.children > 1),
        count(|scenario| scenario.both_initiate),
        count(|scenario| scenario.has_nat),
        count(|scenario| scenario.is_mobile),
        count(|scenario| scenario.has_nat && scenario.is_mobile),
        count(|scenario| scenario.has_raw_esp && !scenario.has_nat),
        count(|scenario| scenario.is_childless),
        count(|scenario| scenario.has_ppk),
        count(|scenario| scenario.ike.contains("mlkem")),
        count(|scenario| scenario.esp.contains("mlkem")),
        count(|scenario| scenario.longest_datagram.is_some()),
        count(|scenario| scenario.lifetimes.ike.is_some()),
        count(|scenario| scenario.lifetimes.child.is_some()),
        count(|scenario| scenario.lifetimes.reauthentication.is_some()),
        count(|scenario| scenario.attack_interval.is_some()),
        count(|scenario| scenario.notice_latency.as_millis() > 5),
        count(|scenario| scenario.faults.loss > 0 && scenario.faults.reordering > 0),
        count(|scenario| scenario.faults.duplication > 0 && scenario.faults.corruption > 0),
    ];
    assert!(counts.iter().all(|count| *count > 1), "{counts:?}");
}

/// The responder had rekeyed the IKE SA less than 30 s before the initiator authenticated anew. It took the new IKE SA for a second one
/// that both ends had initiated at once, and deleted it, while the initiator deleted the old one.
#[test]
fn authentications_after_rekeys_ended_the_connection_in_these_seeds() {
    for seed in [33, 45] {
        run_all(seed..seed + 1);
    }
}

/// A child SA was rekeyed while its IKE SA was authenticated anew, and the new IKE SA did not ask for that child; or the session of the
/// rekey went last, and none sealed.
#[test]
fn children_were_lost_by_rekeys_during_authentications_in_these_seeds() {
    for seed in [63, 213, 552] {
        run_all(seed..seed + 1);
    }
}

/// Both ends asked for a child SA of one child at once, both child SAs stayed, and each end sealed with another one.
#[test]
fn both_ends_made_a_child_sa_of_one_child_in_this_seed() {
    run_all(122..123);
}

/// An IKE SA was rekeyed while it was authenticated anew. Its successor asked for the children that the new IKE SA was to have.
#[test]
fn a_rekey_during_an_authentication_doubled_child_sas_in_these_seeds() {
    for seed in [50, 85, 147, 149] {
        run_all(seed..seed + 1);
    }
}
