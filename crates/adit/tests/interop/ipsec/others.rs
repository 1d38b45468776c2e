//! The rows beside libreswan and OpenIKED, which have Linux's ESP, in a guest (`kernel_peers.rs`).

use adit_testbed::{PingReport, wait_until};

use super::bed::{End, Program, Settings, WAIT, are_others_ready, joined, roles, row_of};
use super::rekeys::under_pings;

/// Seconds after which OpenIKED rekeys, each 85 to 95 % of these.
const LIFETIMES: &str = "ikelifetime 5 lifetime 4";

/// Two ends, up: adit with its socket of VICI.
fn up(programs: [Program; 2], settings: &Settings) -> [End; 2] {
    let mut ends = joined(programs, settings);
    ends.iter_mut().for_each(End::start_with_vici);
    reach(&ends);
    ends
}

fn reach(ends: &[End; 2]) {
    let [first, second] = ends;
    second.reaches_at(first, first.inner());
    first.reaches_at(second, second.inner());
}

/// adit's end and the other one.
fn sorted(ends: &[End; 2]) -> [&End; 2] {
    let [first, second] = ends;
    if first.program == Program::Adit { [first, second] } else { [second, first] }
}

/// The SPIs of both kinds that adit has.
fn spis(adit: &End) -> [Vec<String>; 2] {
    [adit.ike_sas(), adit.child_sas("c")]
}

/// Adit has one SA of each kind, neither of which is of `before`.
fn is_rekeyed(adit: &End, before: &[Vec<String>; 2]) -> bool {
    let now = spis(adit);
    now.iter().zip(before).all(|(now, before)| now.len() == 1 && !before.contains(&now[0]))
}

/// As many pings as `most` are lost in each direction, while `act` runs and until both SAs are new.
fn rekeys_lose_at_most(most: u32, ends: &[End; 2], act: impl FnOnce() + Send) {
    let [adit, other] = sorted(ends);
    let before = spis(adit);
    let reports = under_pings(ends, 100, || {
        act();
        wait_until("new SAs", WAIT, || is_rekeyed(adit, &before)).unwrap();
    });
    let is_good = |report: &PingReport| report.received + most >= report.sent && report.duplicates == 0;
    assert!(reports.iter().all(is_good), "{reports:?}\n{}\n====\n{}", adit.log(), other.log());
}

/// OpenIKED answers a rekey of the child SA before Linux has the new SA, and Linux drops what comes before. Beside libreswan one ping of
/// 100 was lost each way in one run of four, when adit rekeyed the child SA; the cause is not known.
fn rekeys_by_adit_lose_at_most(most: u32, ends: &[End; 2]) {
    let [adit, _] = sorted(ends);
    rekeys_lose_at_most(most, ends, || {
        let before = adit.child_sas("c");
        adit.control(&["--rekey", "--child", "c"]).unwrap();
        wait_until("the child SA", WAIT, || adit.child_sas("c") != before).unwrap();
        adit.control(&["--rekey", "--ike", "t"]).unwrap();
    });
}

/// The peer removes the child SA from the kernel. An initiator may make another one by itself.
fn deletion_by_adit(ends: &[End; 2]) {
    let [adit, other] = sorted(ends);
    let states = || other.namespace.ip(&["xfrm", "state"]).unwrap();
    let spi = format!("0x{}", adit.child_sas("c")[0]);
    assert!(states().contains(&spi));
    adit.control(&["--terminate", "--ike", "t"]).unwrap();
    wait_until("the SA to go", WAIT, || !states().contains(&spi)).unwrap();
}

#[test]
#[ignore = "runs in a guest, by kernel_peers.rs"]
fn libreswan_connects_rekeys_and_deletes() {
    if !are_others_ready("ipsec beside libreswan") {
        return;
    }
    for programs in roles(Program::Libreswan) {
        let mut ends = None;
        row_of("shared key", programs, |programs| ends = Some(up(programs, &Settings::default())));
        let ends = ends.unwrap();
        let [adit, other] = sorted(&ends);
        row_of("rekeys by adit", programs, |_| rekeys_by_adit_lose_at_most(1, &ends));
        row_of("rekeys by libreswan", programs, |_| {
            rekeys_lose_at_most(0, &ends, || {
                other.whack("--rekey-child").unwrap();
                other.whack("--rekey-ike").unwrap();
            });
        });
        row_of("deletion by adit", programs, |_| deletion_by_adit(&ends));
        if programs[1] == Program::Adit {
            adit.control(&["--initiate", "--child", "c"]).unwrap();
        } else {
            other.whack("--initiate").unwrap();
        }
        reach(&ends);
        row_of("deletion by libreswan", programs, |_| {
            let before = adit.ike_sas();
            other.whack("--terminate").unwrap();
            wait_until("another IKE SA, or none", WAIT, || adit.ike_sas() != before).unwrap();
        });
    }
}

#[test]
#[ignore = "runs in a guest, by kernel_peers.rs"]
fn openiked_connects_rekeys_and_deletes() {
    if !are_others_ready("ipsec beside OpenIKED") {
        return;
    }
    let esp = ["aes256-sha512"; 2];
    for programs in roles(Program::OpenIked) {
        let mut ends = None;
        row_of("shared key", programs, |programs| {
            ends = Some(up(programs, &Settings { esp, ..Settings::default() }));
        });
        let ends = ends.unwrap();
        let [adit, other] = sorted(&ends);
        row_of("rekeys by adit", programs, |_| rekeys_by_adit_lose_at_most(1, &ends));
        row_of("deletion by OpenIKED", programs, |_| {
            let before = adit.ike_sas();
            other.reset_openiked();
            wait_until("another IKE SA, or none", WAIT, || adit.ike_sas() != before).unwrap();
        });
    }
    row_of("rekeys by OpenIKED", [Program::OpenIked, Program::Adit], |programs| {
        let connection = [LIFETIMES.to_owned(), String::new()];
        let ends = up(programs, &Settings { esp, connection, ..Settings::default() });
        rekeys_lose_at_most(0, &ends, || ());
    });
}
