//! Figures of programs, as a table with their limits and as JSON.

use serde::Serialize;

use crate::commands::output::{cell, spread, table};

/// A figure's name, its words in the table, the decimals to show, and the limit of its median.
pub(in crate::commands) type Figure = (&'static str, &'static str, usize, Limit);

/// The limit of a median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::commands) enum Limit {
    None,
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    fn is_kept(self, median: f64) -> bool {
        match self {
            Limit::None => true,
            Limit::AtMost(most) => median <= most,
            Limit::AtLeast(least) => median >= least,
        }
    }

    fn words(self) -> String {
        match self {
            Limit::None => String::new(),
            Limit::AtMost(most) => format!("≤ {most}"),
            Limit::AtLeast(least) => format!("≥ {least}"),
        }
    }
}

/// The subjects whose limits are judged; others stand beside them.
const JUDGED: [&str; 2] = ["adit", super::JUDGED];

#[derive(Serialize)]
struct Sample {
    subject: String,
    round: u32,
    figure: &'static str,
    value: f64,
}

/// All figures of a run.
#[derive(Serialize)]
pub(in crate::commands) struct Figures {
    machine: Vec<String>,
    samples: Vec<Sample>,
    failures: Vec<(String, u32, String)>,
    #[serde(skip)]
    subjects: Vec<String>,
    #[serde(skip)]
    known: &'static [Figure],
}

impl Figures {
    pub(in crate::commands) fn new(
        machine: Vec<String>,
        subjects: &[String],
        known: &'static [Figure],
    ) -> Figures {
        Figures { machine, samples: Vec::new(), failures: Vec::new(), subjects: subjects.to_vec(), known }
    }

    pub(in crate::commands) fn note(&mut self, subject: &str, round: u32, figure: &'static str, value: f64) {
        self.samples.push(Sample { subject: subject.to_owned(), round, figure, value });
    }

    pub(in crate::commands) fn fail(&mut self, subject: &str, round: u32, why: &str) {
        self.failures.push((subject.to_owned(), round, why.to_owned()));
    }

    fn values(&self, subject: &str, figure: &str) -> Vec<f64> {
        let ours = |sample: &&Sample| sample.subject == subject && sample.figure == figure;
        self.samples.iter().filter(ours).map(|sample| sample.value).collect()
    }

    /// Whether all was measured, and adit keeps to every limit, if it was measured.
    pub(in crate::commands) fn is_good(&self) -> bool {
        let breaks = |subject: &str, (figure, _, _, limit): &Figure| {
            spread(&self.values(subject, figure)).is_some_and(|[_, median, _]| !limit.is_kept(median))
        };
        let mut judged = self.subjects.iter().filter(|subject| JUDGED.contains(&subject.as_str()));
        let broken = judged.any(|subject| self.known.iter().any(|figure| breaks(subject, figure)));
        self.failures.is_empty() && !self.samples.is_empty() && !broken
    }

    /// A line for each figure: medians with least and most.
    pub(in crate::commands) fn markdown(&self) -> String {
        let mut columns = vec![""];
        columns.extend(self.subjects.iter().map(String::as_str));
        columns.push("limit for adit");
        let row = |(figure, words, decimals, limit): &Figure| {
            let cells = self.subjects.iter().map(|subject| cell(&self.values(subject, figure), *decimals));
            let mut row = vec![(*words).to_owned()];
            row.extend(cells);
            row.push(limit.words());
            row
        };
        let rows: Vec<Vec<String>> = self.known.iter().map(row).collect();
        let mut text = format!("{}\n\n{}", self.machine.join("; "), table(&columns, &rows));
        for (subject, round, why) in &self.failures {
            text += &format!("\n**NOT MEASURED: {subject} in round {}: {}**\n", round + 1, why.trim());
        }
        text + if self.is_good() { "\npass\n" } else { "\n**FAIL**\n" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Figure] =
        &[("size", "bytes", 0, Limit::AtMost(4.0)), ("kept", "kept", 2, Limit::AtLeast(0.9))];

    fn figures(size: f64, kept: f64) -> Figures {
        let subjects = [JUDGED[1], "other"].map(str::to_owned);
        let mut figures = Figures::new(vec!["here".to_owned()], &subjects, KNOWN);
        for round in 0..3 {
            figures.note(JUDGED[1], round, "size", size + f64::from(round));
            figures.note("other", round, "size", 9.0);
            figures.note(JUDGED[1], round, "kept", kept);
        }
        figures
    }

    #[test]
    fn adit_alone_is_judged_by_its_medians() {
        assert!(figures(3.0, 0.9).is_good());
        assert!(!figures(3.5, 0.9).is_good() && !figures(3.0, 0.89).is_good());
        let text = figures(3.0, 1.0).markdown();
        assert!(text.contains("| bytes | 4 (3–5) | 9 (9–9) | ≤ 4 |"), "{text}");
        assert!(text.contains("| kept | 1.00 (1.00–1.00) | – | ≥ 0.9 |") && text.contains("pass"), "{text}");
    }

    #[test]
    fn what_was_not_measured_fails() {
        let mut failed = figures(1.0, 1.0);
        failed.fail("other", 0, "it ended");
        assert!(!failed.is_good() && failed.markdown().contains("it ended"));
        assert!(!Figures::new(Vec::new(), &[], KNOWN).is_good());
    }
}
