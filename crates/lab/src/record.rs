//! The records of measurements: one line of JSON for each subject, link, workload and round.
//!
//! Lines are only ever added, so a run that was interrupted goes on where it stopped. A last line that was cut
//! off is measured again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// Samples that are kept of one series: enough for a curve.
pub(crate) const SAMPLES: usize = 1000;

/// The subject, link, workload and round of a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) subject: String,
    pub(crate) link: String,
    pub(crate) workload: String,
    /// The round, counted from 0.
    pub(crate) round: u32,
}

/// The result of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Single figures; the name ends with the unit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) figures: BTreeMap<String, f64>,
    /// Series in ascending order, thinned to [`SAMPLES`] if there were more.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) samples: BTreeMap<String, Vec<f64>>,
    /// The results for each load that was offered, as pairs: `delivered_pps` has packets offered and packets
    /// delivered.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) curves: BTreeMap<String, Vec<[f64; 2]>>,
    /// Why there are no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
}

impl Outcome {
    /// Whether anything was measured. A workload that does not fit a subject (the bare link does not start) has a
    /// record all the same.
    pub(crate) fn says_something(&self) -> bool {
        let Outcome { figures, samples, curves, .. } = self;
        !(figures.is_empty() && samples.is_empty() && curves.is_empty())
    }
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) cell: Cell,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

impl Outcome {
    /// Nothing but the reason.
    pub(crate) fn failed(why: impl Into<String>) -> Outcome {
        Outcome { failure: Some(why.into()), ..Outcome::default() }
    }

    /// Keeps evenly spaced ranks of a series, the least and the most among them.
    pub(crate) fn sample(&mut self, name: &str, mut values: Vec<f64>) {
        values.sort_unstable_by(f64::total_cmp);
        let count = values.len();
        if count > SAMPLES {
            values = (0..SAMPLES)
                .filter_map(|rank| values.get(rank * (count - 1) / (SAMPLES - 1)).copied())
                .collect();
        }
        self.samples.insert(name.to_owned(), values);
    }
}

/// A file of records.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: File,
}

/// The error of a file of records.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line in its midst is no record.
    #[error("{}:{line}: {source}; remove the line, and what it held is measured again", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The parser's error.
        source: serde_json::Error,
    },
}

/// Reads all whole lines. A last line without an end is no error; a file that does not exist is empty. Of a cell that
/// was measured again, the last record counts.
pub(crate) fn read(path: &Path) -> Result<Vec<Record>, LogError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(LogError::Io { path: path.to_owned(), source }),
    };
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let record = |(index, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|source| LogError::Line {
            path: path.to_owned(),
            line: index + 1,
            source,
        })
    };
    let records = whole.lines().enumerate().filter(|(_, line)| !line.is_empty()).map(record);
    Ok(last_of_each(records.collect::<Result<Vec<Record>, LogError>>()?))
}

fn last_of_each(mut records: Vec<Record>) -> Vec<Record> {
    let mut seen = BTreeSet::new();
    records.reverse();
    records.retain(|record| seen.insert(record.cell.clone()));
    records.reverse();
    records
}

/// Held while a record is written, and for good once the lab ends early.
static WRITING: Mutex<()> = Mutex::new(());

fn writing() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blocks all later additions until the process ends: cells that fail from now on fail because of that end.
pub(crate) fn add_no_more() {
    std::mem::forget(writing());
}

impl Log {
    /// Opens the file to add to it, and gives its records. A cut-off last line is removed.
    pub(crate) fn open(path: &Path) -> Result<(Log, Vec<Record>), LogError> {
        let records = read(path)?;
        let open = || -> io::Result<File> {
            let file = OpenOptions::new().create(true).append(true).open(path)?;
            let text = std::fs::read(path)?;
            let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            file.set_len(whole as u64)?;
            Ok(file)
        };
        let file = open().map_err(|source| LogError::Io { path: path.to_owned(), source })?;
        Ok((Log { path: path.to_owned(), file }, records))
    }

    /// Adds a record, and sees it onto the disk.
    pub(crate) fn add(&mut self, record: &Record) -> Result<(), LogError> {
        let _writing = writing();
        let mut add = || -> io::Result<()> {
            let mut line = serde_json::to_vec(record)?;
            line.push(b'\n');
            self.file.write_all(&line)?;
            self.file.sync_data()
        };
        add().map_err(|source| LogError::Io { path: self.path.clone(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adit_testbed::Scratch;

    fn record(round: u32) -> Record {
        let cell = Cell {
            subject: "veth".to_owned(),
            link: "no limit".to_owned(),
            workload: "tcp".to_owned(),
            round,
        };
        let mut outcome = Outcome::default();
        outcome.figures.insert("up_mbit".to_owned(), 1.5);
        outcome.sample("idle_us", (0..5000).rev().map(f64::from).collect());
        Record { cell, outcome }
    }

    #[test]
    fn records_come_back_and_a_torn_line_is_dropped() {
        let scratch = Scratch::create("lab-log").unwrap();
        let path = scratch.path().join("records.jsonl");
        let (mut log, records) = Log::open(&path).unwrap();
        assert_eq!(records, []);
        log.add(&record(0)).unwrap();
        log.add(&record(1)).unwrap();
        let mut text = std::fs::read(&path).unwrap();
        text.truncate(text.len() - 10);
        std::fs::write(&path, &text).unwrap();
        let (mut log, records) = Log::open(&path).unwrap();
        assert_eq!(records, [record(0)]);
        log.add(&record(2)).unwrap();
        assert_eq!(read(&path).unwrap(), [record(0), record(2)]);
    }

    #[test]
    fn what_was_measured_again_counts_once() {
        let failed = Record { outcome: Outcome::failed("no route"), ..record(0) };
        let records = last_of_each(vec![failed, record(1), record(0)]);
        assert_eq!(records, [record(1), record(0)]);
    }

    #[test]
    fn a_bad_line_is_named() {
        let scratch = Scratch::create("lab-log").unwrap();
        let path = scratch.write("records.jsonl", "{}\n").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("records.jsonl:1: "), "{error}");
    }

    #[test]
    fn thinning_keeps_the_ends() {
        let samples = &record(0).outcome.samples["idle_us"];
        assert_eq!(samples.len(), SAMPLES);
        assert_eq!((samples[0], samples[SAMPLES - 1]), (0.0, 4999.0));
        assert!(samples.is_sorted());
    }

    #[test]
    fn a_failure_is_kept_with_its_reason() {
        let text = serde_json::to_string(&Outcome::failed("no route")).unwrap();
        assert_eq!(text, r#"{"failure":"no route"}"#);
    }
}
