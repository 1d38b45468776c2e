//! Authentication, and the ways in.

use adit_testbed::can_run;

use super::bed::{Program, ROLES, Settings, is_ready, joined, pair};

fn reach_each_other(settings: &Settings) {
    for programs in ROLES {
        let [first, second] = pair(programs, settings);
        second.reaches(&first);
        first.reaches(&second);
    }
}

#[test]
fn a_shared_key_lets_either_end_initiate_and_packets_of_both_families_pass() {
    if is_ready("ipsec shared key") {
        reach_each_other(&Settings::default());
    }
}

#[test]
fn the_outer_addresses_may_be_of_ipv6() {
    if is_ready("ipsec over IPv6") {
        reach_each_other(&Settings { is_v6: true, ..Settings::default() });
    }
}

#[test]
fn two_ends_of_adit_reach_each_other() {
    if !can_run("ipsec between ends of adit", &[]) {
        return;
    }
    let [first, second] = pair([Program::Adit; 2], &Settings::default());
    second.reaches(&first);
    first.reaches(&second);
}

#[test]
fn adit_check_reads_the_file_of_strongswan() {
    if !can_run("ipsec check", &[]) {
        return;
    }
    let settings = Settings::default();
    let [_, initiator] = joined([Program::StrongSwan, Program::Adit], &settings);
    let said = initiator.check().unwrap();
    assert!(said.contains("can be used"), "{said}");
}

#[test]
fn adit_status_shows_the_ike_sa_and_the_child_sa() {
    if !is_ready("ipsec status") {
        return;
    }
    let [first, second] = pair([Program::StrongSwan, Program::Adit], &Settings::default());
    second.reaches(&first);
    let status = second.status();
    for part in ["\"role\": \"ipsec\"", "IKEv2, initiator", "c: ESP in UDP AES-256-GCM", "10.77.1.0/24"] {
        assert!(status.contains(part), "{part}: {status}");
    }
}
