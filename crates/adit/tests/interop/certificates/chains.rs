//! Certificate paths, verified by adit and by Debian's OpenVPN, each at either end: the table in `docs/use/CERTIFICATES.md`.

pub(super) mod issue;
mod plan;
mod situations;
pub(super) mod trial;

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use adit_testbed::{Namespace, Scratch, can_run, wait_until};

use crate::bed::PROGRAMS;
use crate::options::{Part, Program};
use issue::{Issuer, Made};
use plan::{Plan, Spec, Usages};
use situations::{SITUATIONS, Situation};
use trial::{Outcome, TIMEOUT, Trial, Verdict};

/// How many verifications run at once.
const WORKERS: usize = 6;
const PAGE: &str = include_str!("../../../../../docs/use/CERTIFICATES.md");

/// In the table's order.
const TRIALS: [(Part, Program); 4] = [
    (Part::Server, Program::OpenVpn),
    (Part::Server, Program::Adit),
    (Part::Client, Program::OpenVpn),
    (Part::Client, Program::Adit),
];

/// The outcomes with both programs at both ends, or the error.
type Outcomes = Result<[Outcome; 4], String>;

fn verify(situation: &Situation, own: &[Made; 2], namespace: &Namespace) -> Outcomes {
    let mut outcomes = [const { Outcome { verdict: Verdict::Accepts, error: None, log: String::new() } }; 4];
    for (own, part) in own.iter().zip([Part::Server, Part::Client]) {
        let usages = match part {
            Part::Server => Usages { own: "clientAuth", other: "serverAuth" },
            Part::Client => Usages { own: "serverAuth", other: "clientAuth" },
        };
        let mut plan = Plan::new(usages);
        (situation.plan)(&mut plan, usages);
        let directory = Scratch::create("chains").unwrap();
        let made = Issuer(&directory).make(&plan);
        for (outcome, (_, verifier)) in outcomes.iter_mut().zip(TRIALS).filter(|(_, trial)| trial.0 == part) {
            let trial = Trial { verifier, part, made: &made, own };
            let context = |error: String| format!("{}, {verifier:?} as {part:?}: {error}", situation.name);
            *outcome = trial.run(namespace, &directory).map_err(context)?;
        }
    }
    Ok(outcomes)
}

/// Certificates without fault for the judging end, as a server and as a client.
fn own_certificates() -> [Made; 2] {
    let directory = Scratch::create("own").unwrap();
    ["serverAuth", "clientAuth"].map(|own| {
        let mut plan = Plan::new(Usages { own, other: "" });
        plan.direct();
        Issuer(&directory).make(&plan)
    })
}

fn all_outcomes() -> Vec<Outcomes> {
    let own = own_certificates();
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let namespace = Namespace::create("chains").unwrap();
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(situation) = SITUATIONS.get(place) else { return };
                    let outcomes = verify(situation, &own, &namespace);
                    results.lock().unwrap().push((place, outcomes));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, outcomes)| outcomes).collect()
}

/// The table of the page.
fn table(verdicts: &[[Verdict; 4]]) -> String {
    let mut table = String::from(
        "| Situation | OpenVPN server | adit server | OpenVPN client | adit client | Reason of a difference |\n\
         |---|---|---|---|---|---|\n",
    );
    for (situation, verdicts) in SITUATIONS.iter().zip(verdicts) {
        let words = verdicts.map(Verdict::word).join(" | ");
        let _ = writeln!(table, "| {} | {words} | {} |", situation.name, situation.difference.reason());
    }
    table
}

/// At the start, and when the file is read again.
#[test]
fn a_revocation_list_of_another_authority_is_reported() {
    if !can_run("a_revocation_list_of_another_authority_is_reported", &PROGRAMS) {
        return;
    }
    let mut plan = Plan::new(Usages { own: "serverAuth", other: "clientAuth" });
    plan.direct();
    plan.certificates.push(Spec { name: "foreign", subject: "foreign", ..plan::root() });
    plan.revoke(&[], "foreign");
    plan.revoke(&[], "root");
    let directory = Scratch::create("lists").unwrap();
    let Made { shows, verifying } = Issuer(&directory).make(&plan);
    let (verifying, lists) = verifying.split_once("<crl-verify>\n").unwrap();
    let lists = lists.trim_end_matches("</crl-verify>\n");
    let (foreign, own) = lists.split_at(lists[1..].find("-----BEGIN").unwrap() + 1);
    let file = directory.write("lists.pem", own).unwrap();
    let end = "dev tun\nserver 10.8.0.0 255.255.255.0\ndh none\nport 1194\n";
    let text = format!("{end}{verifying}{shows}crl-verify {}\n", file.display());
    let config = directory.write("server.conf", &text).unwrap();
    let namespace = Namespace::create("lists").unwrap();
    let start = || {
        let process = namespace.spawn("adit", Program::Adit.command(Part::Server, &config).unwrap()).unwrap();
        wait_until("adit to listen", TIMEOUT, || namespace.is_bound(false, 1194).unwrap_or(false)).unwrap();
        process
    };
    let warning = "the revocation list of CN=foreign revokes nothing";
    let adit = start();
    assert!(!adit.log().contains("revokes nothing"), "{}", adit.log());
    directory.write("lists.pem", lists).unwrap();
    wait_until("the warning", TIMEOUT, || adit.log().contains(warning)).unwrap();
    drop(adit);
    let free = || !namespace.is_bound(false, 1194).unwrap_or(true);
    wait_until("the port to be free", TIMEOUT, free).unwrap();
    directory.write("lists.pem", foreign).unwrap();
    let adit = start();
    wait_until("the warning", TIMEOUT, || adit.log().contains(warning)).unwrap();
}

/// adit has the verdict of OpenVPN, except where the situation gives a reason, and the page holds all of it.
#[test]
fn every_path_gets_the_verdict_of_openvpn_or_a_stricter_one() {
    if !can_run("every_path_gets_the_verdict_of_openvpn_or_a_stricter_one", &PROGRAMS) {
        return;
    }
    let (outcomes, errors): (Vec<_>, Vec<_>) = all_outcomes().into_iter().partition(Result::is_ok);
    let errors: Vec<String> = errors.into_iter().filter_map(Result::err).collect();
    assert!(errors.is_empty(), "{}", errors.join("\n\n"));
    let outcomes: Vec<[Outcome; 4]> = outcomes.into_iter().flatten().collect();
    let verdicts: Vec<[Verdict; 4]> =
        outcomes.iter().map(|outcomes| outcomes.each_ref().map(|outcome| outcome.verdict)).collect();
    let table = table(&verdicts);
    let others: Vec<String> = SITUATIONS
        .iter()
        .zip(verdicts)
        .filter(|(situation, verdicts)| !situation.difference.fits(verdicts))
        .map(|(situation, verdicts)| format!("{}: {verdicts:?}", situation.name))
        .collect();
    assert!(others.is_empty(), "not as expected:\n{}\n\n{table}", others.join("\n"));
    assert!(PAGE.contains(&table), "docs/use/CERTIFICATES.md has to hold this table:\n{table}");
    let different: Vec<(&str, String)> =
        SITUATIONS.iter().zip(&outcomes).flat_map(|(it, outcomes)| other_lines(it.name, outcomes)).collect();
    let is_known = |name: &str| OTHER_REASONS.iter().any(|(known, _)| *known == name);
    let unknown: Vec<_> = different.iter().filter(|(name, _)| !is_known(name)).collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
    for (known, why) in OTHER_REASONS {
        assert!(different.iter().any(|(name, _)| *name == known), "{known}: the same, though {why}");
    }
}

/// Situations in which adit's reason is another one than OpenSSL's, and why.
const OTHER_REASONS: [(&str, &str); 2] = [
    ("another root with the same name", "OpenSSL goes by the keys' identifiers first, webpki by names alone"),
    (
        "name constraints of the root: DNS name excluded",
        "webpki does not say which kind of constraint does not hold",
    ),
];

/// Where adit's line about a certificate that it refuses is another one than OpenVPN's, at either end.
fn other_lines<'a>(situation: &'a str, outcomes: &[Outcome; 4]) -> Vec<(&'a str, String)> {
    let [server, own_server, client, own_client] = outcomes;
    let lines = [lines_differ(server, own_server), lines_differ(client, own_client)];
    lines.into_iter().flatten().map(|how| (situation, how)).collect()
}

fn lines_differ(theirs: &Outcome, ours: &Outcome) -> Option<String> {
    let theirs = theirs.error.as_ref()?;
    if ours.verdict != Verdict::Refuses {
        return None;
    }
    let ours = ours.error.as_deref().unwrap_or("no line");
    // adit has the serial number of the peer's own certificate alone.
    let (start, _) = theirs.split_once(", serial=")?;
    let is_same = if start.starts_with("depth=0") { ours == theirs } else { ours.starts_with(start) };
    (!is_same).then(|| format!("{ours}, OpenVPN: {theirs}"))
}
