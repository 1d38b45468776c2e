//! Runs strongSwan's test scenarios (`testing/tests` of its sources) with adit in the place of each host.
#![forbid(unsafe_code)]

mod bed;
mod files;
mod page;
mod results;
mod rules;
mod run;
mod scenario;
mod topology;

use std::collections::VecDeque;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use clap::Parser;

use crate::bed::Sources;
use crate::results::{CONTROL, Results, Run};
use crate::scenario::Scenario;

/// Any error, with its words.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The folders of scenarios of IKEv2 below `tests`.
const FOLDERS: [&str; 6] = ["ikev2", "ikev2-algs", "ikev2-multi-ca", "ipv6", "libipsec", "route-based"];

/// Runs strongSwan's test scenarios with adit in the place of each host.
#[derive(Debug, Parser)]
struct Options {
    /// The folder `testing` of strongSwan's sources, with its certificates.
    #[arg(long, value_name = "DIR")]
    testing: PathBuf,
    /// An installed Debian with strongSwan, swanctl, tcpdump and iptables.
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    /// The program adit.
    #[arg(long, value_name = "FILE")]
    adit: PathBuf,
    /// The folder of the results, and of a log of each run.
    #[arg(long, value_name = "DIR")]
    results: PathBuf,
    /// The scenarios with names of these patterns (`ikev2/net2net-*`). Without it, all.
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,
    /// Adit at these hosts alone; `-` is the run with strongSwan at all. Without it, that run and then adit at each host.
    #[arg(long, value_name = "HOST", allow_hyphen_values = true)]
    at: Vec<String>,
    /// Runs again what has a result.
    #[arg(long)]
    again: bool,
    /// Runs again what has failed.
    #[arg(long)]
    again_failed: bool,
    /// Runs at once.
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    workers: usize,
    /// Runs nothing, and writes the page of the results.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

fn main() -> ExitCode {
    match begin(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("adit-scenarios: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn begin(options: &Options) -> Result<(), Failure> {
    fs::create_dir_all(&options.results)?;
    let scenarios = scenarios(&options.testing)?;
    let results = Results::open(&options.results.join("results.tsv"))?;
    if let Some(file) = &options.markdown {
        fs::write(file, page::markdown(&scenarios, &results))?;
        return Ok(());
    }
    let is_chosen = |scenario: &&Scenario| {
        let is_named = options.only.iter().any(|pattern| rules::matches(pattern, &scenario.name));
        (options.only.is_empty() || is_named) && rules::unfit(scenario).is_none()
    };
    let queue: VecDeque<&Scenario> = scenarios.iter().filter(is_chosen).collect();
    let work = Work {
        options,
        sources: Sources {
            testing: options.testing.clone(),
            root: options.root.clone(),
            adit: options.adit.clone(),
        },
        queue: Mutex::new(queue),
        results: Mutex::new(results),
    };
    thread::scope(|scope| (0..options.workers.max(1)).for_each(|_| drop(scope.spawn(|| work.go_on()))));
    Ok(())
}

/// All scenarios of the folders, in the order of their names.
fn scenarios(testing: &Path) -> Result<Vec<Scenario>, Failure> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        let mut names: Vec<String> = Vec::new();
        for entry in fs::read_dir(testing.join("tests").join(folder))? {
            let entry = entry?;
            if entry.path().join("evaltest.dat").exists() {
                names.push(format!("{folder}/{}", entry.file_name().to_string_lossy()));
            }
        }
        names.sort_unstable();
        for name in names {
            found.push(Scenario::read(testing, &name).map_err(|error| format!("{name}: {error}"))?);
        }
    }
    Ok(found)
}

/// The work that the threads share.
struct Work<'a> {
    options: &'a Options,
    sources: Sources,
    queue: Mutex<VecDeque<&'a Scenario>>,
    results: Mutex<Results>,
}

impl Work<'_> {
    /// Runs scenarios until none is left.
    fn go_on(&self) {
        let next = || self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        while let Some(scenario) = next() {
            for place in self.places(scenario) {
                self.run(scenario, &place);
            }
        }
    }

    /// The places of adit in a scenario, beginning with none.
    fn places(&self, scenario: &Scenario) -> Vec<String> {
        let all = std::iter::once(CONTROL.to_owned()).chain(scenario.settings.daemons.iter().cloned());
        all.filter(|place| self.options.at.is_empty() || self.options.at.contains(place)).collect()
    }

    /// Runs a scenario with adit in that place, unless the result is there or strongSwan alone has failed.
    fn run(&self, scenario: &Scenario, place: &str) {
        let run: Run = (scenario.name.clone(), place.to_owned());
        let control: Run = (scenario.name.clone(), CONTROL.to_owned());
        let (earlier, is_unsound) = {
            let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
            let is_unsound = results.all.get(&control).is_some_and(|result| !result.is_pass());
            (results.all.get(&run).map(results::Result::is_pass), is_unsound)
        };
        let is_wanted = match earlier {
            None => true,
            Some(is_pass) => self.options.again || self.options.again_failed && !is_pass,
        };
        if !is_wanted || is_unsound && place != CONTROL {
            return;
        }
        let begin = Instant::now();
        let words = match run::run(&self.sources, scenario, (place != CONTROL).then_some(place)) {
            Ok(outcome) => self.keep(run, &outcome),
            Err(error) => Err(error),
        };
        let words = words.unwrap_or_else(|error| format!("no result: {error}"));
        say(&format!("{} {place}: {words} ({:.1} s)", scenario.name, begin.elapsed().as_secs_f64()));
    }

    fn keep(&self, run: Run, outcome: &run::Outcome) -> Result<String, Failure> {
        let name = format!("{}.{}.log", run.0.replace('/', "."), run.1);
        let words = outcome.refusal.as_deref().unwrap_or_default();
        fs::write(
            self.options.results.join(name),
            format!("{}\n{words}\n\n{}", outcome.failures.join("\n"), outcome.console),
        )?;
        let result = results::Result::new(outcome);
        let verdict = if result.is_pass() { "passes" } else { "FAILS" };
        let words = format!(
            "{verdict} {}, {}, {} {}",
            result.passed, result.failed, result.inapplicable, result.reason
        );
        self.results.lock().unwrap_or_else(PoisonError::into_inner).keep(run, result)?;
        Ok(words)
    }
}

/// Writes a line for the user.
fn say(words: &str) {
    let _ = writeln!(std::io::stderr(), "{words}");
}
