//! The ways in which connections come up, beside those of the first exchanges without loss.

use std::thread;

use adit_testbed::wait_until;

use super::authority::{Authority, RSA};
use super::bed::{
    ALL, End, NONE, Program, ROLES, Settings, WAIT, at_once, is_ready, joined, one, pair, row, row_of,
};
use super::rekeys::own;

/// A line of the connection of the responder, and of the initiator.
fn lines(responder: &str, initiator: &str) -> [String; 2] {
    [responder.to_owned(), initiator.to_owned()]
}

fn reach(ends: &[End; 2]) {
    ends[1].reaches(&ends[0]);
    ends[0].reaches(&ends[1]);
}

#[test]
fn an_initiator_returns_the_cookie_that_strongswan_demands() {
    if !is_ready("ipsec cookie of strongSwan") {
        return;
    }
    let programs = [Program::StrongSwan, Program::Adit];
    row_of("cookie of strongSwan", programs, |_| {
        // The first IKE SA is half open, as its response was lost.
        let daemon = "cookie_threshold = 1\n cookie_threshold_ip = 1";
        let mut ends = joined(programs, &Settings { daemon, ..Settings::default() });
        ends[1].filter_ike(&one(0));
        ends.iter_mut().for_each(End::start);
        reach(&ends);
        ends[0].process().wait_for_line(0, "request 0 [ N(COOKIE)", WAIT).unwrap();
    });
}

/// adit demands a cookie from the fourth half-open IKE SA of an address on.
#[test]
fn strongswan_returns_the_cookie_that_adit_demands() {
    if !is_ready("ipsec cookie of adit") {
        return;
    }
    let programs = [Program::Adit, Program::StrongSwan];
    row_of("cookie of adit", programs, |_| {
        let daemon = "reuse_ikesa = no\n retransmit_tries = 1\n retransmit_timeout = 3";
        let mut ends = joined(programs, &Settings { daemon, start: "none", ..Settings::default() });
        // IKE_AUTH goes to port 4500.
        ends[0].nft(
            "add table inet loss\nadd chain inet loss in { type filter hook input priority 0; }\nadd rule inet loss in udp dport 4500 drop",
        );
        ends.iter_mut().for_each(End::start);
        let initiate = |end: &End| end.control(&["--initiate", "--child", "c", "--timeout", "1"]);
        for _ in 0..3 {
            assert!(initiate(&ends[1]).is_err());
        }
        ends[0].nft("delete table inet loss");
        let mark = ends[1].process().mark();
        let _ = initiate(&ends[1]);
        ends[1].process().wait_for_line(mark, "request 0 [ N(COOKIE)", WAIT).unwrap();
        reach(&ends);
    });
}

#[test]
fn the_traffic_of_a_child_sa_is_what_both_ends_allow() {
    if !is_ready("ipsec narrowing") {
        return;
    }
    let wide = "10.0.0.0/8, fd00::/16";
    for (name, child) in [
        ("narrowing by the responder", lines("", &format!("remote_ts = {wide}"))),
        ("narrowing by the initiator", lines(&format!("local_ts = {wide}"), "")),
        ("narrowing by both", lines(&format!("remote_ts = {wide}"), &format!("remote_ts = {wide}"))),
    ] {
        row(name, Program::StrongSwan, |programs| {
            let ends = pair(programs, &Settings { child: child.clone(), ..Settings::default() });
            // The route of adit's end is to all that its own file allows: it needs a source.
            let strongswan = ends.iter().find(|end| end.program != Program::Adit).unwrap();
            reach(&ends);
            let sas = strongswan.sas();
            assert!(sas.contains("10.77.1.0/24") && sas.contains("10.77.2.0/24"), "{sas}");
        });
    }
}

#[test]
fn both_ends_may_initiate_at_once() {
    if !is_ready("ipsec start by both") {
        return;
    }
    let programs = ROLES[0];
    row_of("start by both", programs, |_| {
        let child = lines("start_action = start", "");
        let settings = Settings { child, daemon: "retransmit_timeout = 1", ..Settings::default() };
        let mut ends = joined(programs, &settings);
        // Both first messages are lost, so that both ends have sent theirs before either gets the other's.
        ends.iter().for_each(|end| end.filter_ike(ALL));
        ends[1].start();
        let [responder, initiator] = &mut ends;
        thread::scope(|scope| {
            scope.spawn(|| responder.start());
            wait_until("adit's request", WAIT, || initiator.namespace.devices().is_ok()).unwrap();
        });
        wait_until("both requests", WAIT, || ends.iter().all(|end| end.dropped() > 0)).unwrap();
        ends.iter().for_each(|end| end.filter_ike(NONE));
        reach(&ends);
        // However many IKE SAs there are, packets pass.
        assert!(ends[0].ike_sas().len() <= 2, "{}", ends[0].sas());
    });
}

#[test]
fn fragments_may_be_lost() {
    if !is_ready("ipsec fragments with loss") {
        return;
    }
    let authority = Authority::new(RSA);
    let both = ["end1.example", "end2.example"].map(|host| authority.issue(host, &authority));
    let settings = Settings {
        certificates: Some(both),
        daemon: "fragment_size = 600\n retransmit_timeout = 1",
        ..Settings::default()
    };
    // Of the messages that an end gets, number 0 is of IKE_SA_INIT.
    let rows = [
        ("first fragment of the request lost", 0, 1),
        ("second fragment of the request lost", 0, 2),
        ("first fragment of the response lost", 1, 1),
        ("second fragment of the response lost", 1, 2),
    ];
    at_once(
        rows.into_iter().flat_map(|row| ROLES.map(|programs| (row, programs))),
        |((name, at, number), programs)| {
            row_of(name, programs, |_| {
                let mut ends = joined(programs, &settings);
                ends[at].filter_ike(&one(number));
                ends.iter_mut().for_each(End::start);
                reach(&ends);
                assert_eq!(ends[at].dropped(), 1, "{name}, {programs:?}");
            });
        },
    );
}

#[test]
fn ike_sas_without_a_child_sa_are_made() {
    if !is_ready("ipsec childless") {
        return;
    }
    let beside = |programs: [Program; 2], adit: &str, strongswan: &str| {
        programs.map(|program| {
            let value = if program == Program::Adit { adit } else { strongswan };
            format!("childless = {value}")
        })
    };
    // A strongSwan with `force` takes no IKE_AUTH with a child SA.
    for (adit, strongswan) in
        [("force", "allow"), ("force", "force"), ("prefer", "force"), ("prefer", "never"), ("allow", "force")]
    {
        for programs in ROLES {
            // An end with `allow` initiates with a child SA.
            if programs[1] == Program::Adit && adit == "allow" {
                continue;
            }
            row_of(&format!("childless, {adit} at adit and {strongswan} at strongSwan"), programs, |_| {
                let connection = beside(programs, adit, strongswan);
                reach(&pair(programs, &Settings { connection, ..Settings::default() }));
            });
        }
    }
}

#[test]
fn esp_in_udp_without_a_nat_may_be_demanded_by_either_end() {
    if !is_ready("ipsec encap") {
        return;
    }
    for by in [Program::Adit, Program::StrongSwan] {
        row(&format!("encap of {by}"), Program::StrongSwan, |programs| {
            let connection =
                programs.map(|program| if program == by { "encap = yes".to_owned() } else { String::new() });
            reach(&pair(programs, &Settings { connection, ..Settings::default() }));
        });
    }
}

#[test]
fn a_ppk_beside_the_key_exchange_is_used_where_both_ends_have_it() {
    if !is_ready("ipsec PPK") {
        return;
    }
    let key = |id: &str, is_required: &str| format!("ppk_id = {id}\n ppk_required = {is_required}");
    for (name, connection, keys, comes_up) in [
        ("PPK of both", [key("ppk.example", "yes"), key("ppk.example", "yes")], ["one", "one"], true),
        ("another PPK", [key("ppk.example", "yes"), key("ppk.example", "yes")], ["one", "two"], false),
        (
            "PPK of another name",
            [key("ppk.example", "yes"), key("other.example", "yes")],
            ["one", "one"],
            false,
        ),
        (
            "PPK that the responder does not have",
            [String::new(), key("ppk.example", "no")],
            ["", "one"],
            true,
        ),
        (
            "PPK that the initiator does not have",
            [key("ppk.example", "no"), String::new()],
            ["one", ""],
            true,
        ),
        (
            "required PPK that the initiator does not have",
            [key("ppk.example", "yes"), String::new()],
            ["one", ""],
            false,
        ),
    ] {
        row(name, Program::StrongSwan, |programs| {
            let mut ends = pair(
                programs,
                &Settings { connection: connection.clone(), ppks: keys, ..Settings::default() },
            );
            if comes_up {
                return reach(&ends);
            }
            let adit = usize::from(programs[1] == Program::Adit);
            let process = ends[adit].process();
            let is_refused =
                || ["warning: udp", "error: udp"].iter().any(|line| process.count_lines(0, line) > 0);
            wait_until("a refusal", WAIT, is_refused).unwrap();
            assert!(!ends[1].is_answered(&ends[0]), "{name}: {programs:?}");
        });
    }
}

#[test]
fn a_peer_that_was_killed_comes_again() {
    if !is_ready("ipsec killed peers") {
        return;
    }
    for killed in [0, 1] {
        let name = ["killed responder", "killed initiator"][killed];
        row(name, Program::StrongSwan, |programs| {
            let child = own(programs, "close_action = start");
            let settings = Settings { child, ..Settings::default() };
            let mut ends = pair(programs, &settings);
            ends[1].reaches(&ends[0]);
            ends[killed].process().kill().unwrap();
            ends[killed].forget();
            ends[killed].start();
            // A responder that has come again knows nothing of the IKE SA: it initiates, or strongSwan does.
            let strongswan = usize::from(programs[1] != Program::Adit);
            if killed == 0 && strongswan == 1 {
                ends[1].control(&["--terminate", "--ike", "t", "--force"]).unwrap();
            }
            if killed == 0 {
                ends[strongswan].control(&["--initiate", "--child", "c"]).unwrap();
            }
            // adit seals with the child SA of the other's new IKE SA from its first packet on.
            ends[strongswan].reaches(&ends[1 - strongswan]);
            reach(&ends);
        });
    }
}
