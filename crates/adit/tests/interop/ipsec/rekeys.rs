//! Rekeys and reauthentication under load.

use std::thread;
use std::time::Duration;

use adit_testbed::{Ping, PingReport, wait_until};

use super::bed::{ALL, End, NONE, Program, ROLES, Settings, WAIT, at_once, is_ready, pair, row, row_of};

/// The time between two pings, and the time for the answers to the last ones.
const INTERVAL: Duration = Duration::from_millis(20);
const SETTLED: Duration = Duration::from_secs(2);

/// Pings both ways while `act` runs, fifty a second.
pub(super) fn under_pings(ends: &[End; 2], count: u16, act: impl FnOnce() + Send) -> [PingReport; 2] {
    let [first, second] = ends;
    thread::scope(|scope| {
        let ping = |from: &'_ End, to: &'_ End| {
            let (namespace, target) = (&from.namespace, to.inner());
            Ping { timeout: SETTLED, ..Ping::new(count, INTERVAL) }.run(namespace, target).unwrap()
        };
        let out = scope.spawn(move || ping(first, second));
        let back = scope.spawn(move || ping(second, first));
        scope.spawn(act);
        [out.join().unwrap(), back.join().unwrap()]
    })
}

/// A line of adit's file alone.
pub(super) fn own(programs: [Program; 2], line: &str) -> [String; 2] {
    programs.map(|program| if program == Program::Adit { line.to_owned() } else { String::new() })
}

fn strongswan(ends: &[End; 2]) -> &End {
    ends.iter().find(|end| end.program != Program::Adit).unwrap()
}

fn adit(ends: &[End; 2]) -> &End {
    ends.iter().find(|end| end.program == Program::Adit).unwrap()
}

#[test]
fn no_packet_is_lost_when_strongswan_rekeys() {
    if !is_ready("ipsec rekeys by strongSwan") {
        return;
    }
    row("rekeys by strongSwan", Program::StrongSwan, |programs| {
        let ends = pair(programs, &Settings { esp: ["aes256gcm16-x25519"; 2], ..Settings::default() });
        ends[1].reaches(&ends[0]);
        let strongswan = strongswan(&ends);
        let reports = under_pings(&ends, 150, || {
            for what in [["--rekey", "--child", "c"], ["--rekey", "--ike", "t"], ["--rekey", "--child", "c"]]
            {
                strongswan.control(&what).unwrap();
                thread::sleep(Duration::from_millis(800));
            }
        });
        assert!(reports.iter().all(PingReport::is_clean), "{programs:?}: {reports:?}");
    });
}

#[test]
fn no_packet_is_lost_when_adit_rekeys() {
    if !is_ready("ipsec rekeys by adit") {
        return;
    }
    row("rekeys by adit", Program::StrongSwan, |programs| {
        let settings = Settings {
            esp: ["aes256gcm16-x25519"; 2],
            connection: own(programs, "rekey_time = 3s"),
            child: own(programs, "rekey_time = 2s"),
            ..Settings::default()
        };
        let ends = pair(programs, &settings);
        ends[1].reaches(&ends[0]);
        let strongswan = strongswan(&ends);
        let before = [strongswan.ike_sas(), strongswan.child_sas("c")].concat();
        let reports = under_pings(&ends, 200, || {});
        assert!(reports.iter().all(PingReport::is_clean), "{programs:?}: {reports:?}");
        strongswan.settles(&before);
    });
}

/// Both requests are under way before either end gets the other's: until then neither end gets messages.
#[test]
fn requests_of_both_ends_that_cross_leave_one_ike_sa_and_one_child_sa() {
    if !is_ready("ipsec collisions") {
        return;
    }
    let (child, ike) = (["--child", "c"], ["--ike", "t"]);
    let collisions = [
        ("rekeys of the child SA by both", false, &child),
        ("rekeys of the IKE SA by both", true, &ike),
        ("rekey of the child SA by adit and of the IKE SA by strongSwan", false, &ike),
        ("rekey of the IKE SA by adit and of the child SA by strongSwan", true, &child),
    ];
    at_once(
        collisions.into_iter().flat_map(|row| ROLES.map(|programs| (row, programs))),
        |(collision, programs)| {
            let (name, is_ike, words) = collision;
            row_of(name, programs, |_| {
                let every = own(programs, "rekey_time = 5s");
                let [connection, child] =
                    if is_ike { [every, Default::default()] } else { [Default::default(), every] };
                let settings =
                    Settings { connection, child, daemon: "retransmit_timeout = 1", ..Settings::default() };
                let ends = pair(programs, &settings);
                ends[1].reaches(&ends[0]);
                let (adit, strongswan) = (adit(&ends), strongswan(&ends));
                let before = if is_ike { strongswan.ike_sas() } else { strongswan.child_sas("c") };
                let reports = under_pings(&ends, 400, || {
                    ends.iter().for_each(|end| end.filter_ike(ALL));
                    wait_until("adit's request", WAIT, || strongswan.dropped() > 0).unwrap();
                    strongswan.control(&[&["--rekey"], &words[..]].concat()).unwrap();
                    wait_until("strongSwan's request", WAIT, || adit.dropped() > 0).unwrap();
                    ends.iter().for_each(|end| end.filter_ike(NONE));
                });
                strongswan.settles(&before);
                ends[1].reaches(&ends[0]);
                assert!(
                    reports.iter().all(PingReport::is_clean),
                    "{name}, {programs:?}: {reports:?}\n{}\n{}",
                    adit.log(),
                    strongswan.log()
                );
            });
        },
    );
}

/// Make before break, twice, by the end that has initiated.
#[test]
fn no_packet_is_lost_by_a_reauthentication() {
    if !is_ready("ipsec reauthentication") {
        return;
    }
    row("reauthentication by the initiator", Program::StrongSwan, |programs| {
        let initiator = "reauth_time = 2s\n over_time = 1s\n rand_time = 0s".to_owned();
        let settings = Settings {
            connection: [String::new(), initiator],
            daemon: "make_before_break = yes",
            ..Settings::default()
        };
        let ends = pair(programs, &settings);
        ends[1].reaches(&ends[0]);
        let strongswan = strongswan(&ends);
        let before = strongswan.ike_sas();
        let reports = under_pings(&ends, 200, || {});
        let (adit, strongswan) = (adit(&ends), strongswan);
        assert!(
            reports.iter().all(PingReport::is_clean),
            "{programs:?}: {reports:?}\n{}\n{}",
            adit.log(),
            strongswan.log()
        );
        assert!(!before.iter().any(|spi| strongswan.ike_sas().contains(spi)), "{}", strongswan.sas());
    });
}
