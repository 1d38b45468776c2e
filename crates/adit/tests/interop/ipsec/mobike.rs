//! Addresses of ends that change while packets flow (RFC 4555).

use adit_testbed::wait_until;

use super::bed::{ROLES, Settings, WAIT, is_ready, pair, row_of};
use super::rekeys::under_pings;

/// The address that the initiator gets in place of its first one.
const ELSEWHERE: &str = "10.9.0.3";
/// The pings of each direction, fifty a second, and the fewest that are answered: packets are lost while there is no address, and until
/// the responder has the new one and other child SAs, as the plugin `kernel-libipsec` cannot change those that are there.
const PINGS: u16 = 250;
const LEAST: u32 = 150;

#[test]
fn packets_go_on_when_the_address_of_the_initiator_changes() {
    if !is_ready("ipsec MOBIKE") {
        return;
    }
    row_of("another address of the initiator", ROLES[0], |programs| {
        let ends = pair(programs, &Settings::default());
        let [strongswan, adit] = &ends;
        adit.reaches(strongswan);
        let before = strongswan.ike_sas();
        let reports = under_pings(&ends, PINGS, || {
            adit.namespace.ip(&["address", "delete", "10.9.0.2/24", "dev", "wire"]).unwrap();
            adit.namespace.ip(&["address", "add", "10.9.0.3/24", "dev", "wire"]).unwrap();
        });
        let logs = || format!("{}\n====\n{}", strongswan.log(), adit.log());
        assert!(reports.iter().all(|report| report.received >= LEAST), "{reports:?}\n{}", logs());
        for [from, to] in [[strongswan, adit], [adit, strongswan]] {
            wait_until("packets pass", WAIT, || from.is_answered(to)).unwrap();
        }
        let sas = strongswan.sas();
        assert_eq!(strongswan.ike_sas(), before, "{sas}");
        assert!(sas.contains(&format!("remote-host={ELSEWHERE}")), "{sas}\n{}", logs());
    });
}
