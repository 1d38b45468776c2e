//! Peers that give no sign of life any more.

use std::time::{Duration, Instant};

use adit_testbed::wait_until;

use super::bed::{Program, Settings, WAIT, at_once, is_ready, pair, row_of};

/// adit gives a peer up 82 s after a request that is not answered (`Times` of the machine), and asks after a second of silence here.
/// With MOBIKE it tries each further address of the peer for as long.
const GIVEN_UP: Duration = Duration::from_secs(83);
/// The least of that which the jitter of timers leaves, and the most that a busy machine adds.
const LEAST: Duration = Duration::from_secs(75);
const MOST: Duration = Duration::from_secs(110);

/// The rows wait at once for most of the time.
#[test]
fn a_peer_without_a_sign_of_life_is_given_up_and_the_child_takes_its_action() {
    if !is_ready("ipsec dead peers") {
        return;
    }
    at_once(["clear", "restart", "trap"], |action| {
        let programs = [Program::StrongSwan, Program::Adit];
        row_of(&format!("dpd_action = {action} of adit"), programs, |_| {
            let lines = |line: String| [String::new(), line];
            let settings = Settings {
                connection: lines("dpd_delay = 1s\n mobike = no".to_owned()),
                child: lines(format!("dpd_action = {action}")),
                ..Settings::default()
            };
            let mut ends = pair(programs, &settings);
            ends[1].reaches(&ends[0]);
            let (begin, mark) = (Instant::now(), ends[1].process().mark());
            ends[0].process().kill().unwrap();
            ends[1].process().wait_for_line(mark, "disconnected", MOST).unwrap();
            let took = begin.elapsed();
            assert!((LEAST..MOST).contains(&took), "{took:?}, not {GIVEN_UP:?}");
            ends[0].forget();
            ends[0].start();
            match action {
                "restart" => wait_until("the IKE SA", WAIT, || ends[0].ike_sas().len() == 1).unwrap(),
                "trap" => assert!(ends[0].ike_sas().is_empty(), "{}", ends[0].sas()),
                _ => {
                    assert!(!ends[1].is_answered(&ends[0]) && ends[0].ike_sas().is_empty());
                    ends[0].control(&["--initiate", "--child", "c"]).unwrap();
                }
            }
            ends[1].reaches(&ends[0]);
        });
    });
}

#[test]
fn an_adit_that_was_killed_is_given_up_by_strongswan() {
    if !is_ready("ipsec DPD of strongSwan") {
        return;
    }
    row_of("dpd_action = restart of strongSwan", [Program::Adit, Program::StrongSwan], |programs| {
        let lines = |line: &str| [String::new(), line.to_owned()];
        let settings = Settings {
            connection: lines("dpd_delay = 1s"),
            child: lines("dpd_action = restart"),
            daemon: "retransmit_tries = 1\n retransmit_timeout = 1",
            ..Settings::default()
        };
        let mut ends = pair(programs, &settings);
        ends[1].reaches(&ends[0]);
        ends[0].process().kill().unwrap();
        wait_until("strongSwan gives it up", WAIT, || ends[1].ike_sas().is_empty()).unwrap();
        ends[0].start();
        ends[1].reaches(&ends[0]);
        ends[0].reaches(&ends[1]);
    });
}
