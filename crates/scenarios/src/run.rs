//! One run of a scenario: adit at one host, or strongSwan at all.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::Failure;
use crate::bed::{Bed, RunningHost, Sources};
use crate::files::LOG;
use crate::rules;
use crate::scenario::{Check, Expected, Scenario, Step};

/// How long a command may take.
const LIMIT: Duration = Duration::from_secs(240);

/// The outcome of a run.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The checks that were as expected.
    pub(crate) passed: usize,
    /// The checks that say nothing here.
    pub(crate) inapplicable: usize,
    /// The checks that were not as expected, each with what it lacks.
    pub(crate) failures: Vec<String>,
    /// The last words of adit, if it ended before the checks.
    pub(crate) refusal: Option<String>,
    /// The first error in adit's log.
    pub(crate) complaint: Option<String>,
    /// All commands with their outputs, and the logs.
    pub(crate) console: String,
}

/// Runs the scenario. `adit_at` is the host that runs adit; without it strongSwan runs at all.
pub(crate) fn run(sources: &Sources, scenario: &Scenario, adit_at: Option<&str>) -> Result<Outcome, Failure> {
    let bed = Bed::create(sources, scenario, adit_at)?;
    let mut outcome = Outcome::default();
    for step in &scenario.before {
        outcome.perform(&bed, step)?;
    }
    if let Some(name) = adit_at {
        outcome.refusal = refusal(bed.host(name)?)?;
    }
    for check in &scenario.checks {
        outcome.judge(&bed, check, adit_at)?;
    }
    if let Some(name) = adit_at {
        outcome.complaint = complaint(&bed.host(name)?.read(LOG));
    }
    for step in &scenario.after {
        outcome.perform(&bed, step)?;
    }
    for name in &scenario.settings.daemons {
        let log = bed.host(name)?.read(LOG);
        let _ = writeln!(outcome.console, "\n==== {name}: {LOG}\n{log}");
    }
    Ok(outcome)
}

impl Outcome {
    /// Runs a command that is not judged, and gives its output.
    fn perform(&mut self, bed: &Bed, step: &Step) -> Result<String, Failure> {
        let output = bed.host(&step.host)?.run(&step.command, LIMIT)?;
        let found = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = String::from_utf8_lossy(&output.stderr);
        let _ = writeln!(self.console, "{}# {}\n{found}{said}", step.host, step.command);
        Ok(found)
    }

    fn judge(&mut self, bed: &Bed, check: &Check, adit_at: Option<&str>) -> Result<(), Failure> {
        let found = if check.step.command == "tcpdump" {
            let host = bed.host(&check.step.host)?;
            host.run("stop-capture", LIMIT)?;
            host.read("tmp/tcpdump.log")
        } else {
            self.perform(bed, &check.step)?
        };
        let is_of_adit = adit_at == Some(check.step.host.as_str());
        if check.expected == Expected::Anything || rules::inapplicable(check, is_of_adit).is_some() {
            self.inapplicable += 1;
            return Ok(());
        }
        let lines = matching(&found, &check.pattern)?;
        if check.expected.is_met(lines) {
            self.passed += 1;
            return Ok(());
        }
        let lack = match check.expected {
            Expected::None => "was not to be found".to_owned(),
            Expected::Count(count) => format!("{lines} in place of {count} lines"),
            Expected::Some | Expected::Anything => format!("lacks `{}`", lack(&found, &check.pattern)?),
        };
        let command = check.step.command.trim_end_matches("2> /dev/null").trim();
        let failure = format!("{}: `{command}`: {lack}", check.step.host);
        let _ =
            writeln!(self.console, "~~~~ FAILED {failure}\npattern: {}\noutput: {found}\n", check.pattern);
        self.failures.push(failure);
        Ok(())
    }
}

/// The last line of adit's log, if adit has ended.
fn refusal(host: &RunningHost) -> Result<Option<String>, Failure> {
    let is_running = host.run("kill -0 $(cat /run/daemon.pid)", LIMIT)?.status.success();
    let log = host.read(LOG);
    let last = log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("adit did not run");
    Ok((!is_running).then(|| last.to_owned()))
}

/// The first error in a log of adit.
fn complaint(log: &str) -> Option<String> {
    log.lines().find_map(|line| line.split_once(" error: ")).map(|(_, words)| words.to_owned())
}

/// The number of lines of a text that have a pattern, by `grep`.
fn matching(text: &str, pattern: &str) -> Result<usize, Failure> {
    let mut grep = Command::new("grep");
    grep.env("LANG", "C").args(["--text", "--count", "-e", pattern]);
    let mut child = grep.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let input = child.stdin.take();
    let output = thread::scope(|scope| {
        // It may end before it has read all.
        scope.spawn(move || input.map(|mut input| input.write_all(text.as_bytes())));
        child.wait_with_output()
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or_default())
}

/// The first word of a pattern up to which the text does not have it.
fn lack(text: &str, pattern: &str) -> Result<String, Failure> {
    let words: Vec<&str> = pattern.split_inclusive(".*").flat_map(|part| part.split_inclusive(' ')).collect();
    for count in 1..=words.len() {
        let beginning = words[..count].concat();
        let beginning = beginning.trim_end_matches(' ').trim_end_matches(".*");
        if matching(text, beginning)? == 0 {
            return Ok(words[count - 1].trim_end_matches(".*").trim().to_owned());
        }
    }
    Ok(pattern.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_of_a_log_is_its_complaint() {
        let log = "2026-01-01T00:00:00Z tunnel up\n2026-01-01T00:00:01Z error: a: no\n2026-01-01T00:00:02Z error: b: no\n";
        assert_eq!(complaint(log).as_deref(), Some("a: no"));
        assert_eq!(complaint("2026-01-01T00:00:00Z tunnel up"), None);
    }

    #[test]
    fn grep_decides_and_the_first_word_that_is_not_there_is_named() {
        let text = "home: state=ESTABLISHED id=1 local-ts=[10.1.0.0/16]\nother\n";
        assert_eq!(matching(text, "home.*local-ts=\\[10.1.0.0/16]").unwrap(), 1);
        assert_eq!(matching(text, "o").unwrap(), 2);
        assert_eq!(matching(text, "nothing").unwrap(), 0);
        let lack = |pattern: &str| lack(text, pattern).unwrap();
        assert_eq!(lack("home.*state=ESTABLISHED id=2 local"), "id=2");
        assert_eq!(lack("home.*mode=TUNNEL.*local-ts"), "mode=TUNNEL");
    }
}
