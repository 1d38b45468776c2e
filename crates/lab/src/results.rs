//! A run's records, gathered.

use std::collections::BTreeMap;
use std::path::Path;

use crate::environment::{self, Environment};
use crate::error::LabError;
use crate::link::Link;
use crate::plan::Plan;
use crate::ratios::{self, Column, References};
use crate::record::{self, Record};

/// The plan of a run, in its folder.
pub(crate) const PLAN: &str = "plan.toml";
/// The file of the machine and the programs.
pub(crate) const ENVIRONMENT: &str = "environment.json";
/// The file of the measurements.
pub(crate) const RECORDS: &str = "records.jsonl";

/// A subject's or link's name, and so on: what a figure belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) link: String,
    pub(crate) workload: String,
    pub(crate) figure: String,
    pub(crate) subject: String,
}

/// A folder that `adit-lab run` filled.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) plan: Plan,
    pub(crate) environment: Environment,
    /// Of an emulated processor their figures are multiples of other subjects', and series are not there.
    pub(crate) records: Vec<Record>,
    /// Of an emulated processor: the subjects that figures are multiples of.
    pub(crate) references: References,
}

impl Results {
    /// Reads a folder.
    pub(crate) fn read(directory: &Path) -> Result<Results, LabError> {
        // First, because it knows whether the others are of this program's kind.
        let environment = environment::read(&directory.join(ENVIRONMENT))?;
        let path = directory.join(PLAN);
        let plan = match std::fs::read_to_string(&path) {
            Ok(text) => Plan::parse(&path.display().to_string(), &text)?,
            Err(source) => return Err(LabError::File { path, source }),
        };
        let mut records = record::read(&directory.join(RECORDS))?;
        let references = match environment.emulated {
            true => ratios::relate(&plan, &mut records),
            false => References::new(),
        };
        Ok(Results { plan, environment, records, references })
    }

    /// The subject of whose figure the others are multiples, of an emulated processor.
    pub(crate) fn reference(&self, link: &str, workload: &str, figure: &str) -> Option<&str> {
        let [link, workload, figure] = [link, workload, figure].map(str::to_owned);
        self.references.get(&Column { link, workload, figure }).map(String::as_str)
    }

    /// How many of the plan's measurements are there, and how many there are to be.
    pub(crate) fn progress(&self) -> (usize, usize) {
        let plan = &self.plan;
        let carried = |link: &Link| plan.workloads.iter().filter(|load| link.carries(&load.name())).count();
        let a_round = plan.links.iter().map(carried).sum::<usize>() * plan.subjects.len();
        (self.records.len(), a_round * plan.rounds as usize)
    }

    /// Every figure, each with one value a round.
    pub(crate) fn figures(&self) -> BTreeMap<Place, Vec<f64>> {
        let mut figures: BTreeMap<Place, Vec<f64>> = BTreeMap::new();
        for Record { cell, outcome } in &self.records {
            for (figure, value) in &outcome.figures {
                let place = Place {
                    link: cell.link.clone(),
                    workload: cell.workload.clone(),
                    figure: figure.clone(),
                    subject: cell.subject.clone(),
                };
                figures.entry(place).or_default().push(*value);
            }
        }
        figures
    }

    /// All rounds of a subject's workload.
    pub(crate) fn records_of<'a>(
        &'a self,
        link: &'a str,
        workload: &'a str,
        subject: &'a str,
    ) -> impl Iterator<Item = &'a Record> {
        self.records.iter().filter(move |Record { cell, .. }| {
            cell.link == link && cell.workload == workload && cell.subject == subject
        })
    }

    /// The failures, each reason once, with how often it occurred.
    pub(crate) fn failures(&self) -> BTreeMap<(String, String, String), usize> {
        let mut failures = BTreeMap::new();
        for Record { cell, outcome } in &self.records {
            if let Some(why) = &outcome.failure {
                let key = (cell.subject.clone(), cell.workload.clone(), why.clone());
                *failures.entry(key).or_insert(0) += 1;
            }
        }
        failures
    }

    /// The failures for people: a subject that failed everywhere for one reason is one line.
    pub(crate) fn failed_subjects(&self) -> Vec<FailedSubject> {
        let mut failed: Vec<FailedSubject> = Vec::new();
        for ((subject, workload, why), times) in self.failures() {
            let known = failed.iter_mut().find(|known| known.subject == subject && known.why == why);
            if let Some(known) = known {
                known.workloads.push(workload);
                known.times += times;
            } else {
                failed.push(FailedSubject { subject, workloads: vec![workload], times, why });
            }
        }
        for known in &mut failed {
            if known.times == self.records.iter().filter(|one| one.cell.subject == known.subject).count() {
                known.workloads.clear();
            }
        }
        failed
    }
}

/// The failures of a subject for one reason.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FailedSubject {
    pub(crate) subject: String,
    /// Their names; none if nothing of it was measured.
    pub(crate) workloads: Vec<String>,
    /// How often.
    pub(crate) times: usize,
    pub(crate) why: String,
}
