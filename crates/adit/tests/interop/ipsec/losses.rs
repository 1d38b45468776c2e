//! Messages that are lost: each is sent once more, and no packet is lost with it.

use adit_testbed::{PingReport, wait_until};

use super::bed::{End, NONE, Program, ROLES, Settings, WAIT, at_once, is_ready, joined, one, pair, row_of};
use super::rekeys::{own, under_pings};

/// strongSwan sends a request again after a second. adit does after two.
const DAEMON: &str = "retransmit_timeout = 1";

fn settings() -> Settings {
    Settings { daemon: DAEMON, ..Settings::default() }
}

#[test]
fn each_message_of_the_first_exchanges_may_be_lost() {
    if !is_ready("ipsec losses at the start") {
        return;
    }
    let lost = [
        ("IKE_SA_INIT request lost", 0, 0),
        ("IKE_SA_INIT response lost", 1, 0),
        ("IKE_AUTH request lost", 0, 1),
        ("IKE_AUTH response lost", 1, 1),
    ];
    let rows = lost.into_iter().flat_map(|row| ROLES.map(|programs| (row, programs)));
    at_once(rows, |((name, at, number), programs)| {
        row_of(name, programs, |_| {
            let mut ends = joined(programs, &settings());
            ends[at].filter_ike(&one(number));
            ends.iter_mut().for_each(End::start);
            let [first, second] = &ends;
            second.reaches(first);
            first.reaches(second);
            assert_eq!(ends[at].dropped(), 1, "{name}");
        });
    });
}

/// The messages of a rekey: their names, whether the end that rekeys gets them, and their numbers among those that it gets.
const REKEY: [(&str, bool, usize); 4] = [
    ("CREATE_CHILD_SA request lost", false, 0),
    ("CREATE_CHILD_SA response lost", true, 0),
    ("DELETE request lost", false, 1),
    ("DELETE response lost", true, 1),
];

#[test]
fn each_message_of_a_rekey_by_strongswan_may_be_lost() {
    if !is_ready("ipsec losses of rekeys by strongSwan") {
        return;
    }
    let rows = [("child SA", ["--child", "c"]), ("IKE SA", ["--ike", "t"])];
    at_once(
        rows.into_iter().flat_map(|row| ROLES.map(|programs| (row, programs))),
        |((what, words), programs)| {
            let ends = pair(programs, &settings());
            ends[1].reaches(&ends[0]);
            let [adit, strongswan] = sorted(&ends);
            for (message, is_of_rekeyer, number) in REKEY {
                row_of(&format!("rekey of the {what} by strongSwan, {message}"), programs, |_| {
                    let before =
                        if what == "IKE SA" { strongswan.ike_sas() } else { strongswan.child_sas("c") };
                    let filtering = if is_of_rekeyer { strongswan } else { adit };
                    filtering.filter_ike(&one(number));
                    let reports = under_pings(&ends, 150, || {
                        strongswan.control(&[&["--rekey"], &words[..]].concat()).unwrap();
                    });
                    strongswan.settles(&before);
                    assert_eq!(filtering.dropped(), 1, "{message}");
                    filtering.filter_ike(NONE);
                    assert!(
                        reports.iter().all(PingReport::is_clean),
                        "{what}, {message}, {programs:?}: {reports:?}"
                    );
                });
            }
        },
    );
}

#[test]
fn each_message_of_a_rekey_by_adit_may_be_lost() {
    if !is_ready("ipsec losses of rekeys by adit") {
        return;
    }
    let rows = ["child SA", "IKE SA"];
    at_once(rows.into_iter().flat_map(|row| ROLES.map(|programs| (row, programs))), |(what, programs)| {
        // A lost request comes again before the life of the child SA is over.
        let [connection, child] = match what {
            "IKE SA" => [own(programs, "rekey_time = 4s"), Default::default()],
            _ => [Default::default(), own(programs, "rekey_time = 4s\n life_time = 20s")],
        };
        let ends = pair(programs, &Settings { connection, child, ..settings() });
        ends[1].reaches(&ends[0]);
        let [adit, strongswan] = sorted(&ends);
        for (message, is_of_rekeyer, number) in REKEY {
            row_of(&format!("rekey of the {what} by adit, {message}"), programs, |_| {
                let sas = || if what == "IKE SA" { strongswan.ike_sas() } else { strongswan.child_sas("c") };
                // Between two rekeys.
                let before = sas();
                wait_until("a rekey", WAIT, || sas() != before && sas().len() == 1).unwrap();
                let before = sas();
                let filtering = if is_of_rekeyer { adit } else { strongswan };
                filtering.filter_ike(&one(number));
                let reports = under_pings(&ends, 250, || {});
                strongswan.settles(&before);
                assert_eq!(filtering.dropped(), 1, "{message}");
                filtering.filter_ike(NONE);
                assert!(
                    reports.iter().all(PingReport::is_clean),
                    "{what}, {message}, {programs:?}: {reports:?}"
                );
            });
        }
    });
}

/// adit's end and strongSwan's.
fn sorted(ends: &[End; 2]) -> [&End; 2] {
    let [first, second] = ends;
    if first.program == Program::Adit { [first, second] } else { [second, first] }
}
