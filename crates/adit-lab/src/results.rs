//! A run's records, gathered.

use std::collections::BTreeMap;
use std::path::Path;

use crate::environment::Environment;
use crate::error::LabError;
use crate::plan::Plan;
use crate::record::{self, Record};
use crate::run::{ENVIRONMENT, PLAN, RECORDS};

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
    pub(crate) records: Vec<Record>,
}

impl Results {
    /// Reads a folder.
    pub(crate) fn read(directory: &Path) -> Result<Results, LabError> {
        let text = |name: &str| {
            let path = directory.join(name);
            std::fs::read_to_string(&path).map_err(|source| LabError::File { path, source })
        };
        let file = directory.join(PLAN).display().to_string();
        let plan = Plan::parse(&file, &text(PLAN)?)?;
        let environment = serde_json::from_str(&text(ENVIRONMENT)?).map_err(|error| {
            LabError::Usage(format!("{}: {error}", directory.join(ENVIRONMENT).display()))
        })?;
        Ok(Results { plan, environment, records: record::read(&directory.join(RECORDS))? })
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

    /// What failed, each reason once, with how often.
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
}
