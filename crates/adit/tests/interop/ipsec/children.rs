//! Several children, and children that a packet brings up.

use adit_testbed::wait_until_reachable;

use super::bed::{Program, ROLES, Settings, WAIT, is_ready, pair};

#[test]
fn each_child_carries_its_networks() {
    if !is_ready("ipsec children") {
        return;
    }
    for programs in ROLES {
        let ends = pair(programs, &Settings { has_second: true, ..Settings::default() });
        ends[1].reaches(&ends[0]);
        // strongSwan's packets have the address of the child's network as their source.
        let strongswan = usize::from(programs[1] == Program::StrongSwan);
        let (from, to) = (&ends[strongswan], &ends[1 - strongswan]);
        if let Err(error) = wait_until_reachable(&from.namespace, to.second(), WAIT) {
            panic!("{programs:?}: {error}\n{}\n{}", from.log(), to.log());
        }
        assert_eq!(from.sas().matches("state=INSTALLED").count(), 2, "{}", from.sas());
    }
}

#[test]
fn a_packet_brings_a_child_up() {
    if !is_ready("ipsec trap") {
        return;
    }
    let settings = Settings { start: "trap", ..Settings::default() };
    let [first, second] = pair([Program::StrongSwan, Program::Adit], &settings);
    assert!(!first.sas().contains("ESTABLISHED"), "nothing has asked for it");
    second.reaches(&first);
}
