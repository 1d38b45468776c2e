//! The scripts of a tunnel: OpenVPN 2.6 and adit call the same script at the same moments, with the same arguments and
//! the same environment, but for the differences in `docs/use/SCRIPTS.md`.

mod differences;
mod run;
mod situations;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use adit_testbed::{Authority, can_run};

use crate::bed::PROGRAMS;
use crate::options::{Options, Program};
use differences::{DIFFERENCES, Difference};
use run::{Call, Files};
use situations::{SITUATIONS, Situation};

/// Situations at once. Most of the time they wait.
const AT_ONCE: usize = 12;
/// Variables whose values are of one process, or of a file of this test.
const OF_THE_RUN: [&str; 3] = ["daemon_pid", "daemon_start_time", "config"];
/// Variables that a shell makes.
const OF_THE_SHELL: [&str; 4] = ["PWD", "OLDPWD", "SHLVL", "_"];

/// Something that is not the same: of a situation, at a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    situation: &'static str,
    script: String,
    /// `order`, `calls`, `words`, `user`, or a variable's name.
    what: String,
    /// The value with OpenVPN, and with adit.
    values: [String; 2],
}

impl Difference {
    fn covers(&self, found: &Found) -> bool {
        let fits = |pattern: &str, text: &str| match pattern.strip_suffix('*') {
            Some(start) => text.starts_with(start),
            None => pattern == text,
        };
        self.what.split(' ').any(|what| fits(what, &found.what))
            && (self.scripts.is_empty() || self.scripts.contains(&found.script.as_str()))
            && (self.situations.is_empty() || self.situations.iter().any(|it| fits(it, found.situation)))
    }
}

/// All that is not the same.
fn compare(situation: &Situation, [openvpn, adit]: [&[Call]; 2]) -> Vec<Found> {
    let found = |script: &str, what: &str, values: [String; 2]| Found {
        situation: situation.name,
        script: script.to_owned(),
        what: what.to_owned(),
        values,
    };
    let mut all = Vec::new();
    let names = |calls: &[Call]| calls.iter().map(|call| call.script.as_str()).collect::<Vec<_>>().join(" ");
    if names(openvpn) != names(adit) {
        all.push(found("", "order", [names(openvpn), names(adit)]));
    }
    let by_name = |calls: &[Call]| {
        let mut numbered = BTreeMap::new();
        let mut count = BTreeMap::<String, usize>::new();
        for call in calls {
            let number = count.entry(call.script.clone()).or_default();
            *number += 1;
            numbered.insert((call.script.clone(), *number), call.clone());
        }
        numbered
    };
    let (openvpn, adit) = (by_name(openvpn), by_name(adit));
    let keys: BTreeSet<_> = openvpn.keys().chain(adit.keys()).cloned().collect();
    for key in keys {
        let script = key.0.as_str();
        let (Some(theirs), Some(ours)) = (openvpn.get(&key), adit.get(&key)) else {
            let is_there = |calls: &BTreeMap<(String, usize), Call>| calls.contains_key(&key).to_string();
            all.push(found(script, "calls", [is_there(&openvpn), is_there(&adit)]));
            continue;
        };
        for (what, values) in [
            ("words", [format!("{:?}", theirs.words), format!("{:?}", ours.words)]),
            ("user", [theirs.user.clone(), ours.user.clone()]),
        ] {
            if values[0] != values[1] {
                all.push(found(script, what, values));
            }
        }
        let names: BTreeSet<&String> = theirs.env.keys().chain(ours.env.keys()).collect();
        for name in names.into_iter().filter(|name| !OF_THE_SHELL.contains(&name.as_str())) {
            let value = |call: &Call| call.env.get(name).cloned();
            let (theirs, ours) = (value(theirs), value(ours));
            let same = match OF_THE_RUN.contains(&name.as_str()) {
                true => theirs.is_some() == ours.is_some(),
                false => theirs == ours,
            };
            if !same {
                let shown = |value: Option<String>| value.unwrap_or_else(|| "(none)".to_owned());
                all.push(found(script, name, [shown(theirs), shown(ours)]));
            }
        }
    }
    all
}

/// The differences in these situations, so many at once; and the failures, by situation.
fn compare_all(
    situations: &[&'static Situation],
    at_once: usize,
    files: &Files,
) -> (Vec<Found>, Vec<(&'static str, String)>) {
    let next = AtomicUsize::new(0);
    let all = Mutex::new((Vec::new(), Vec::new()));
    let work = || {
        while let Some(situation) = situations.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
            let calls = |program| run::calls(situation, program, files);
            let outcome = calls(Program::OpenVpn).and_then(|openvpn| {
                let adit = calls(Program::Adit)?;
                Ok((compare(situation, [&openvpn, &adit]), openvpn.len()))
            });
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Ok((_, 0)) => all.1.push((situation.name, "no script ran".to_owned())),
                Ok((found, _)) => all.0.extend(found),
                Err(why) => all.1.push((situation.name, why.to_string())),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(work);
        }
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn scripts_are_called_as_by_openvpn() {
    if !can_run("scripts as OpenVPN's", &PROGRAMS) {
        return;
    }
    let authority = Authority::create(Options::BASE.keys).unwrap();
    let files = Files::create(&authority).unwrap();
    let (mut found, wrong) = compare_all(&SITUATIONS.iter().collect::<Vec<_>>(), AT_ONCE, &files);
    let is_expected = |found: &&Found| DIFFERENCES.iter().any(|it| it.covers(found));
    // On a machine with other work an end may be so late that another event comes first. A difference comes again.
    let mut again: BTreeSet<&str> = wrong.iter().map(|(situation, _)| *situation).collect();
    again.extend(found.iter().filter(|found| !is_expected(found)).map(|found| found.situation));
    found.retain(|found| !again.contains(found.situation));
    let situations: Vec<_> = SITUATIONS.iter().filter(|it| again.contains(it.name)).collect();
    let (found_again, wrong) = compare_all(&situations, 1, &files);
    found.extend(found_again);
    let wrong: Vec<String> = wrong.iter().map(|(situation, why)| format!("{situation}: {why}")).collect();
    let mut unexpected: Vec<&Found> = found.iter().filter(|found| !is_expected(found)).collect();
    unexpected.sort();
    let shown: Vec<String> = unexpected.iter().map(|found| format!("{found:?}")).collect();
    let (shown_text, wrong_text) = (shown.join("\n"), wrong.join("\n"));
    assert!(shown.is_empty() && wrong.is_empty(), "{} differences:\n{shown_text}\n{wrong_text}", shown.len());
    for difference in DIFFERENCES {
        assert!(found.iter().any(|found| difference.covers(found)), "not found: {difference:?}");
    }
}

#[test]
fn the_page_names_all_differences() {
    let page = include_str!("../../../../docs/use/SCRIPTS.md");
    let rows: BTreeSet<String> = page
        .split("## Unlike OpenVPN 2.6")
        .nth(1)
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| what"))
        .map(str::to_owned)
        .collect();
    let wanted: BTreeSet<String> =
        DIFFERENCES.iter().map(|it| format!("| {} | {} |", it.shown, it.reason)).collect();
    let text: Vec<&str> = wanted.iter().map(String::as_str).collect();
    assert_eq!(rows, wanted, "docs/use/SCRIPTS.md should have these rows:\n{}", text.join("\n"));
    assert!(SITUATIONS.len() >= 30);
}
