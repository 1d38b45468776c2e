//! The results of runs, in a file of a line each.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::run::Outcome;

/// The place of runs with strongSwan at all hosts.
pub(crate) const CONTROL: &str = "-";

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Result {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) inapplicable: usize,
    /// Why it failed: the words of adit that ended, or the first check that was not as expected, with the first error of adit. Empty if
    /// all were.
    pub(crate) reason: String,
}

impl Result {
    pub(crate) fn new(outcome: &Outcome) -> Self {
        let reason = match (outcome.failures.first(), &outcome.refusal, &outcome.complaint) {
            (None, _, _) => String::new(),
            (_, Some(words), _) => words.clone(),
            (Some(first), None, Some(words)) => format!("{first}; adit says: {words}"),
            (Some(first), None, None) => first.clone(),
        };
        Result {
            passed: outcome.passed,
            failed: outcome.failures.len(),
            inapplicable: outcome.inapplicable,
            reason: reason.replace(['\t', '\n'], " "),
        }
    }

    /// Whether checks were applicable, and all of them as expected.
    pub(crate) fn is_pass(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }
}

/// A scenario, and the host that ran adit, or [`CONTROL`].
pub(crate) type Run = (String, String);

/// All results, with the file that keeps them.
#[derive(Debug)]
pub(crate) struct Results {
    file: PathBuf,
    pub(crate) all: BTreeMap<Run, Result>,
}

impl Results {
    /// Reads the file. One that is not there has none.
    pub(crate) fn open(file: &Path) -> io::Result<Self> {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        Ok(Results { file: file.to_owned(), all: text.lines().filter_map(read).collect() })
    }

    /// Keeps a result, in place of an earlier one of that run.
    pub(crate) fn keep(&mut self, run: Run, result: Result) -> io::Result<()> {
        self.all.insert(run, result);
        let text: String = self.all.iter().map(|(run, result)| line(run, result)).collect();
        fs::write(&self.file, text)
    }
}

fn line((scenario, place): &Run, result: &Result) -> String {
    let Result { passed, failed, inapplicable, reason } = result;
    format!("{scenario}\t{place}\t{passed}\t{failed}\t{inapplicable}\t{reason}\n")
}

fn read(line: &str) -> Option<(Run, Result)> {
    let mut fields = line.split('\t');
    let mut text = || fields.next().map(str::to_owned);
    let run = (text()?, text()?);
    let mut number = || text()?.parse().ok();
    let (passed, failed, inapplicable) = (number()?, number()?, number()?);
    Some((run, Result { passed, failed, inapplicable, reason: text()? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let run: Run = ("ikev2/x".into(), "moon".into());
        let result =
            Result { passed: 3, failed: 1, inapplicable: 2, reason: "moon: `list`: lacks `a`".into() };
        assert_eq!(read(line(&run, &result).trim_end_matches('\n')), Some((run, result)));
        assert_eq!(read("ikev2/x\tmoon\tmany"), None);
    }

    #[test]
    fn a_run_passes_with_checks_that_are_all_as_expected() {
        let outcome = |passed, failures: &[&str]| Outcome {
            passed,
            failures: failures.iter().map(|&text| text.to_owned()).collect(),
            refusal: Some("it ended".into()),
            complaint: Some("an error".into()),
            ..Outcome::default()
        };
        let nothing = Result::new(&outcome(0, &[]));
        let good = Result::new(&outcome(1, &[]));
        let bad = Result::new(&outcome(1, &["moon: x"]));
        assert_eq!([&nothing, &good, &bad].map(|result| result.is_pass()), [false, true, false]);
        assert_eq!([nothing.reason, good.reason, bad.reason], ["", "", "it ended"]);
        let lives = Outcome { refusal: None, ..outcome(1, &["moon: x"]) };
        assert_eq!(Result::new(&lives).reason, "moon: x; adit says: an error");
    }
}
