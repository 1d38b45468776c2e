//! The end of IKE SAs.

use adit_testbed::wait_until;

use super::bed::{End, Program, ROLES, Settings, WAIT, is_ready, pair};

fn adit_and_strongswan(ends: &mut [End; 2]) -> [&mut End; 2] {
    let [first, second] = ends;
    if first.program == Program::Adit { [first, second] } else { [second, first] }
}

#[test]
fn an_end_of_adit_is_told_to_strongswan() {
    if !is_ready("ipsec end of adit") {
        return;
    }
    for programs in ROLES {
        let mut ends = pair(programs, &Settings::default());
        ends[1].reaches(&ends[0]);
        let [adit, strongswan] = adit_and_strongswan(&mut ends);
        assert!(strongswan.sas().contains("ESTABLISHED"));
        let status = adit.process().terminate(WAIT).unwrap();
        assert!(status.success(), "{status}\n{}", adit.log());
        wait_until("the IKE SA to go", WAIT, || !strongswan.sas().contains("ESTABLISHED")).unwrap();
        assert!(!adit.namespace.devices().unwrap().iter().any(|device| device.starts_with("ipsec")));
    }
}

#[test]
fn an_end_of_strongswan_is_noticed_and_the_initiator_comes_again() {
    if !is_ready("ipsec end of strongSwan") {
        return;
    }
    for programs in ROLES {
        let mut ends = pair(programs, &Settings::default());
        ends[1].reaches(&ends[0]);
        let [adit, strongswan] = adit_and_strongswan(&mut ends);
        let before = adit.process().mark();
        strongswan.control(&["--terminate", "--ike", "t"]).unwrap();
        adit.process().wait_for_line(before, "disconnected: the peer deleted the IKE SA", WAIT).unwrap();
        if programs[1] == Program::Adit {
            continue;
        }
        strongswan.control(&["--initiate", "--child", "c"]).unwrap();
        ends[1].reaches(&ends[0]);
    }
}
