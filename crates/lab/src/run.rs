//! Runs a plan, and goes on with one that was interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore as _, SeedableRng as _};

use crate::environment::{self, Environment};
use crate::error::LabError;
use crate::link::{Link, LinkInfo};
use crate::measure;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::record::{self, Cell, Log, Outcome, Record};
use crate::report::replace;
use crate::results::{ENVIRONMENT, PLAN, RECORDS};
use crate::subjects::{self, Availability, Subject, Tools, Tunnel};
use crate::testbed::Testbed;
use crate::workload::Workload;
use crate::{configuration, tell, wire_cost};

/// Ctrl-C ends programs under test as well as the lab, which shall notice that before it takes their end for a failure.
const NOTICE: Duration = Duration::from_millis(300);

/// A subject on a link in a round: one tunnel, all workloads.
struct Turn {
    round: u32,
    subject: String,
    link: usize,
}

/// Runs what of the plan the folder does not hold yet, and `again` what failed. Gives how many cells have failed, in
/// runs before this one, too.
pub(crate) fn run(
    plan: &Plan,
    out: &Path,
    subjects: &BTreeMap<String, Box<dyn Subject>>,
    tools: &Tools,
    again: bool,
) -> Result<usize, LabError> {
    check_subjects(&plan.subjects, subjects)?;
    prepare(plan, out, subjects, tools)?;
    let (mut log, records) = Log::open(&out.join(RECORDS))?;
    let is_done = |record: &Record| !again || record.outcome.failure.is_none();
    let done: BTreeSet<Cell> = records.into_iter().filter(is_done).map(|record| record.cell).collect();
    let turns = turns(plan, &done);
    let mut progress = Progress::of(turns.iter().map(|turn| turn.link).collect());
    for turn in &turns {
        let Some(subject) = subjects::find(subjects, &turn.subject) else { continue };
        let link = plan.links.get(turn.link).map_or("", |link| &link.name);
        let (round, rounds, name) = (turn.round + 1, plan.rounds, &turn.subject);
        progress.begin(format!("round {round} of {rounds}: {name} on {link}"));
        let mut told = None;
        let records = take(plan, turn, subject, tools, out, &done, &progress);
        if records.iter().any(|record| record.outcome.failure.is_some()) {
            std::thread::sleep(NOTICE);
        }
        for record in records {
            log.add(&record)?;
            if let Some(why) = &record.outcome.failure
                && told.as_ref() != Some(why)
            {
                progress.tell(format_args!("{}, {}: {why}", turn.subject, record.cell.workload));
                told = Some(why.clone());
            }
        }
        progress.end();
    }
    let is_due = |name: &String| {
        subjects::find(subjects, name).is_some_and(|subject| subject.availability(tools).is_due())
    };
    let due: BTreeSet<&String> = plan.subjects.iter().filter(|name| is_due(name)).collect();
    let failed = |record: &&Record| record.outcome.failure.is_some() && due.contains(&record.cell.subject);
    Ok(record::read(&out.join(RECORDS))?.iter().filter(failed).count())
}

/// An error for names of no subject.
pub(crate) fn check_subjects(
    names: &[String],
    subjects: &BTreeMap<String, Box<dyn Subject>>,
) -> Result<(), LabError> {
    let unknown: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| subjects::find(subjects, name).is_none()).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let known: Vec<&str> = subjects.keys().map(String::as_str).collect();
    let (unknown, known) = (unknown.join(", "), known.join(", "));
    Err(LabError::Usage(format!("no subject is called {unknown}; there are: {known}")))
}

/// Makes the folder. One that holds another plan's run, or one of other versions, is left alone.
fn prepare(
    plan: &Plan,
    out: &Path,
    subjects: &BTreeMap<String, Box<dyn Subject>>,
    tools: &Tools,
) -> Result<(), LabError> {
    let failed = |path: PathBuf| move |source| LabError::File { path, source };
    std::fs::create_dir_all(out).map_err(failed(out.to_owned()))?;
    let path = out.join(PLAN);
    let text = toml::to_string(plan)
        .map_err(|error| LabError::Usage(format!("the plan cannot be written: {error}")))?;
    match std::fs::read_to_string(&path) {
        Ok(there) => {
            let there = Plan::parse(&path.display().to_string(), &there)?;
            go_on(plan, &there, out, environment::describe(plan, subjects, tools))?;
            return match there == *plan {
                true => Ok(()),
                false => replace(&path, &text).map_err(failed(path.clone())),
            };
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(source) => return Err(LabError::File { path, source }),
    }
    let environment = Environment::of(plan, subjects, tools, wire_cost::measure(plan)?, link_infos(plan)?);
    write(&environment, out)?;
    std::fs::write(&path, text).map_err(failed(path.clone()))
}

/// Whether a run of that plan, which is there, can go on as one of this: the same, or one of more rounds.
fn go_on(plan: &Plan, there: &Plan, out: &Path, described: BTreeMap<String, String>) -> Result<(), LabError> {
    let mut environment = environment::read(&out.join(ENVIRONMENT))?;
    let refused = |what: &str| -> Result<(), LabError> {
        let out = out.display();
        Err(LabError::Usage(format!("{out} {what}; choose another --out")))
    };
    if *plan != (Plan { rounds: plan.rounds, ..there.clone() }) {
        return refused("holds a run of another plan");
    }
    if plan.rounds < there.rounds {
        return refused(&format!("holds a run of {} rounds, which cannot become fewer", there.rounds));
    }
    if let Some(what) = other_version(&environment.subjects, &described) {
        return refused(&format!("was measured with {what}"));
    }
    tell(format_args!("going on with the run in {}", out.display()));
    if environment.subjects == described {
        return Ok(());
    }
    environment.subjects = described;
    write(&environment, out)
}

pub(crate) fn write(environment: &Environment, out: &Path) -> Result<(), LabError> {
    let (json, path) = (serde_json::to_string_pretty(environment).unwrap_or_default(), out.join(ENVIRONMENT));
    replace(&path, &json).map_err(|source| LabError::File { path, source })
}

/// The description of each link's wire.
fn link_infos(plan: &Plan) -> Result<BTreeMap<String, LinkInfo>, LabError> {
    let mut links = BTreeMap::new();
    for link in &plan.links {
        links.insert(link.name.clone(), Testbed::build(link)?.link_info()?);
    }
    Ok(links)
}

/// A subject that was measured in one version and would be in another now. One that was not there may be by now.
fn other_version(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Option<String> {
    let mut both = now.iter().filter_map(|(name, now)| Some((name, before.get(name)?, now)));
    both.find(|(_, before, now)| before != now && [before, now].iter().all(|text| is_installed(text)))
        .map(|(name, before, now)| format!("another version of {name} ({before}; now {now})"))
}

fn is_installed(described: &str) -> bool {
    described.starts_with(&Availability::Installed(String::new()).to_string())
}

/// Every round has all subjects on all links, in an order of its own that is the same when a run goes on.
fn turns(plan: &Plan, done: &BTreeSet<Cell>) -> Vec<Turn> {
    let mut turns = Vec::new();
    for round in 0..plan.rounds {
        let mut random = ChaCha8Rng::seed_from_u64(round.into());
        let mut order: Vec<(usize, &String)> = (0..plan.links.len())
            .flat_map(|link| plan.subjects.iter().map(move |name| (link, name)))
            .collect();
        for last in (1..order.len()).rev() {
            order.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
        }
        let all = order.into_iter().map(|(link, subject)| Turn { round, subject: subject.clone(), link });
        turns.extend(all.filter(|turn| !missing(plan, turn, done).is_empty()));
    }
    turns
}

/// The turn's cells that nothing is known of yet, with the number of their workload.
fn missing(plan: &Plan, turn: &Turn, done: &BTreeSet<Cell>) -> Vec<(usize, Cell)> {
    let Some(link) = plan.links.get(turn.link) else { return Vec::new() };
    let wanted = |load: &Workload| link.carries(&load.name());
    let loads = plan.workloads.iter().enumerate().filter(|(_, load)| wanted(load));
    let cells = loads.map(|(index, load)| {
        let (subject, link) = (turn.subject.clone(), link.name.clone());
        (index, Cell { subject, link, workload: load.name(), round: turn.round })
    });
    cells.filter(|(_, cell)| !done.contains(cell)).collect()
}

/// Brings the tunnel up and measures what is missing. A failure becomes a record too.
fn take(
    plan: &Plan,
    turn: &Turn,
    subject: &dyn Subject,
    tools: &Tools,
    out: &Path,
    done: &BTreeSet<Cell>,
    progress: &Progress,
) -> Vec<Record> {
    let missing = missing(plan, turn, done);
    let all = |why: &str| -> Vec<Record> {
        let outcome = Outcome::failed(why);
        missing.iter().map(|(_, cell)| Record { cell: cell.clone(), outcome: outcome.clone() }).collect()
    };
    let availability = subject.availability(tools);
    if !matches!(availability, Availability::Installed(_)) {
        return all(&availability.to_string());
    }
    let Some(link) = plan.links.get(turn.link) else { return Vec::new() };
    let time = Duration::from_secs(plan.seconds.into());
    let is_standalone = |index: usize| plan.workloads.get(index).is_some_and(Workload::is_standalone);
    let (standalone, through): (Vec<_>, Vec<_>) =
        missing.into_iter().partition(|(index, _)| is_standalone(*index));
    let mut records = Vec::new();
    for (index, cell) in standalone {
        let Some(load) = plan.workloads.get(index) else { continue };
        progress.step(&cell.workload);
        let outcome = measure::run_standalone(load, link, subject, tools, time);
        let outcome = outcome.unwrap_or_else(|error| Outcome::failed(error.to_string()));
        records.push(Record { cell, outcome });
    }
    let loads: Vec<&Workload> = through.iter().filter_map(|(index, _)| plan.workloads.get(*index)).collect();
    if loads.is_empty() {
        return records;
    }
    progress.step("bringing it up");
    match bring_up(link, &loads, subject, tools) {
        Err(error) => {
            let outcome = Outcome::failed(error.to_string());
            records.extend(through.into_iter().map(|(_, cell)| Record { cell, outcome: outcome.clone() }));
        }
        Ok((mut testbed, tunnel)) => {
            if let Err(error) = configuration::keep(&testbed, out, &turn.subject) {
                progress.tell(format_args!("cannot keep how {} was configured: {error}", turn.subject));
            }
            records.extend(through.into_iter().zip(loads).map(|((_, cell), load)| {
                progress.step(&cell.workload);
                let outcome = measure_one(load, &mut testbed, &tunnel, time);
                Record { cell, outcome: outcome.unwrap_or_else(Outcome::failed) }
            }));
        }
    }
    records
}

/// One workload. When it fails because a program ended, that is the reason; it is not tried with one that has.
fn measure_one(
    load: &Workload,
    testbed: &mut Testbed,
    tunnel: &Tunnel,
    time: Duration,
) -> Result<Outcome, String> {
    if let Some(why) = testbed.ended() {
        return Err(why);
    }
    let outcome = measure::run(load, testbed, tunnel, time);
    outcome.map_err(|error| testbed.ended().unwrap_or_else(|| error.to_string()))
}

/// Brings the tunnel up, after as many others that are taken down again as its starts are to be measured.
fn bring_up(
    link: &Link,
    loads: &[&Workload],
    subject: &dyn Subject,
    tools: &Tools,
) -> Result<(Testbed, Tunnel), LabError> {
    let times = loads.iter().map(|load| if let Workload::Start { times } = load { *times } else { 1 });
    let mut starts = Vec::new();
    for _ in 1..times.max().unwrap_or(1) {
        let mut testbed = Testbed::build(link)?;
        let tunnel = subject.start(&mut testbed, tools)?;
        if !tunnel.inner {
            break;
        }
        starts.extend(tunnel.starts);
    }
    let mut testbed = Testbed::build(link)?;
    let mut tunnel = subject.start(&mut testbed, tools)?;
    tunnel.starts.extend(starts);
    if let Some(packets) = link.queue {
        testbed.set_queue(packets)?;
    }
    Ok((testbed, tunnel))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let text = "title = 'x'\nrounds = 3\nsubjects = ['a', 'b', 'c', 'd']\n\
                    [[workload]]\nkind = 'tcp'\n[[workload]]\nkind = 'latency'\n";
        Plan::parse("test", text).unwrap()
    }

    #[test]
    fn rounds_have_all_subjects_each_in_another_order() {
        let order: Vec<Vec<String>> = turns(&plan(), &BTreeSet::new())
            .chunk_by(|a, b| a.round == b.round)
            .map(|round| round.iter().map(|turn| turn.subject.clone()).collect())
            .collect();
        assert_eq!(order.len(), 3);
        assert!(order[0] != order[1] || order[1] != order[2]);
        for mut names in order {
            names.sort();
            assert_eq!(names, ["a", "b", "c", "d"]);
        }
    }

    #[test]
    fn what_is_there_is_not_measured_again() {
        let plan = plan();
        let all = turns(&plan, &BTreeSet::new());
        let done: BTreeSet<Cell> = all
            .iter()
            .flat_map(|turn| missing(&plan, turn, &BTreeSet::new()))
            .map(|(_, cell)| cell)
            .collect();
        assert_eq!(done.len(), 3 * 4 * 2);
        assert!(turns(&plan, &done).is_empty());
        let mut most = done.clone();
        most.pop_last();
        let left = turns(&plan, &most);
        assert_eq!(left.len(), 1);
        assert_eq!(missing(&plan, &left[0], &most).len(), 1);
    }

    #[test]
    fn a_run_can_have_more_rounds_but_no_other_plan() {
        let scratch = adit_testbed::Scratch::create("lab-run").unwrap();
        write(&Environment { format: 1, ..Environment::default() }, scratch.path()).unwrap();
        let there = plan();
        let go = |change: fn(&mut Plan)| {
            let mut plan = plan();
            change(&mut plan);
            go_on(&plan, &there, scratch.path(), BTreeMap::new()).map_err(|error| error.to_string())
        };
        assert_eq!(go(|_| ()), Ok(()));
        assert_eq!(go(|plan| plan.rounds = 20), Ok(()));
        assert!(go(|plan| plan.rounds = 2).unwrap_err().contains("of 3 rounds"));
        assert!(go(|plan| plan.seconds = 2).unwrap_err().contains("another plan"));
    }

    #[test]
    fn a_run_does_not_go_on_with_another_version() {
        let of = |text: &str| BTreeMap::from([("tinc".to_owned(), text.to_owned())]);
        let (old, new) = (of("installed: tinc 1.0.35"), of("installed: tinc 1.0.36"));
        let why = other_version(&old, &new).unwrap();
        assert_eq!(why, "another version of tinc (installed: tinc 1.0.35; now installed: tinc 1.0.36)");
        assert_eq!(other_version(&new, &new), None);
        assert_eq!(other_version(&of("not installed; x"), &new), None, "it was installed meanwhile");
        assert_eq!(other_version(&BTreeMap::new(), &new), None);
    }

    #[test]
    fn an_unknown_subject_is_named_with_the_known_ones() {
        let error = check_subjects(&plan().subjects, &subjects::all()).unwrap_err().to_string();
        assert!(
            error.contains("no subject is called a, b, c, d") && error.contains("openvpn-udp"),
            "{error}"
        );
    }
}
