//! SIGHUP: connections that have changed are made anew, and the others keep their SAs.

use adit_testbed::wait_until;

use super::bed::{End, Program, ROLES, Settings, WAIT, is_ready, joined, pair};

#[test]
fn a_connection_is_made_anew_if_it_has_changed_and_stays_if_not() {
    if !is_ready("ipsec reload") {
        return;
    }
    for programs in ROLES {
        let settings = Settings::default();
        let mut ends = pair(programs, &settings);
        ends[1].reaches(&ends[0]);
        let adit = usize::from(programs[1] == Program::Adit);
        let ike_sa = |text: String| text.split("initiator-spi=").nth(1).map(|rest| rest[..16].to_owned());
        let before = ike_sa(ends[1 - adit].sas());
        let mark = ends[adit].process().mark();
        ends[adit].process().hang_up();
        ends[adit].process().wait_for_line(mark, "holds: 0 connections ended, 0 began", WAIT).unwrap();
        ends[1].reaches(&ends[0]);
        assert_eq!(ike_sa(ends[1 - adit].sas()), before);
        let mut changed = settings.clone();
        changed.connection[adit] = "dpd_delay = 9s".to_owned();
        ends[adit].write(&changed, ["10.9.0.1", "10.9.0.2"]);
        let mark = ends[adit].process().mark();
        ends[adit].process().hang_up();
        ends[adit].process().wait_for_line(mark, "holds: 1 connections ended, 1 began", WAIT).unwrap();
        // Until the peer has read the DELETE, its old child SA takes packets that nothing answers.
        let has_left = || ike_sa(ends[1 - adit].sas()) != before;
        wait_until("the peer has given up the IKE SA of before", WAIT, has_left).unwrap();
        if programs[1] == Program::StrongSwan {
            ends[1].control(&["--initiate", "--child", "c"]).unwrap();
        }
        ends[1].reaches(&ends[0]);
        ends[adit].write(&Settings { proposals: ["nonsense"; 2], ..settings }, ["10.9.0.1", "10.9.0.2"]);
        let mark = ends[adit].process().mark();
        ends[adit].process().hang_up();
        ends[adit].process().wait_for_line(mark, "changes nothing", WAIT).unwrap();
        ends[1].reaches(&ends[0]);
    }
}

/// The process has given up its rights by then. It knows from which address it reaches a peer that the file has named since, so that neither
/// end takes it for one behind a NAT.
#[test]
fn a_connection_that_a_reload_brings_has_esp_as_an_ip_protocol() {
    if !is_ready("ipsec addresses after a reload") {
        return;
    }
    let settings = Settings::default();
    let mut ends = joined([Program::Adit; 2], &settings);
    ends[1].write(&settings, ["10.9.0.77", "10.9.0.2"]);
    ends.iter_mut().for_each(End::start);
    ends[1].write(&settings, ["10.9.0.1", "10.9.0.2"]);
    let mark = ends[1].process().mark();
    ends[1].process().hang_up();
    ends[1].process().wait_for_line(mark, "holds: 1 connections ended, 1 began", WAIT).unwrap();
    ends[1].reaches(&ends[0]);
    let status = ends[1].status();
    assert!(status.contains("c: ESP AES-256-GCM"), "{status}");
}
