//! What a run says: a page for people, and two files for programs.

mod page;
mod plot;
mod words;

use std::path::Path;

use serde::Serialize;

use crate::environment::Environment;
use crate::error::LabError;
use crate::plan::Plan;
use crate::results::{Place, Results};
use crate::stats;

/// The page.
pub(crate) const HTML: &str = "report.html";
const JSON: &str = "results.json";
const CSV: &str = "results.csv";
/// Of the JSON file; grows when a field changes its meaning.
const SCHEMA: u32 = 1;

/// The JSON file.
#[derive(Serialize)]
struct Summary<'a> {
    schema: u32,
    plan: &'a Plan,
    environment: &'a Environment,
    figures: Vec<Figure>,
    failures: Vec<Failure>,
}

/// A figure over all rounds.
#[derive(Serialize)]
struct Figure {
    link: String,
    workload: String,
    subject: String,
    figure: String,
    /// Where it comes from: measured here, or published.
    label: &'static str,
    median: f64,
    /// 95 %, by bootstrap.
    low: Option<f64>,
    high: Option<f64>,
    /// One a round.
    values: Vec<f64>,
}

#[derive(Serialize)]
struct Failure {
    subject: String,
    workload: String,
    why: String,
    times: usize,
}

/// Writes all three beside the records.
pub(crate) fn write(directory: &Path) -> Result<(), LabError> {
    let results = Results::read(directory)?;
    let figures = figures(&results);
    let json = serde_json::to_string_pretty(&Summary {
        schema: SCHEMA,
        plan: &results.plan,
        environment: &results.environment,
        failures: failures(&results),
        figures,
    });
    let json = json.map_err(|error| LabError::Usage(format!("{JSON} cannot be written: {error}")))?;
    for (name, text) in [(JSON, json), (CSV, csv(&results)), (HTML, page::page(&results))] {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(|source| LabError::File { path, source })?;
    }
    Ok(())
}

fn figures(results: &Results) -> Vec<Figure> {
    let figures = results.figures().into_iter().filter_map(|(place, values)| {
        let Place { link, workload, figure, subject } = place;
        let median = stats::median(&values)?;
        let interval = stats::median_interval(&values);
        let (low, high) = (interval.map(|interval| interval.low), interval.map(|interval| interval.high));
        Some(Figure { link, workload, subject, figure, label: "measured", median, low, high, values })
    });
    figures.collect()
}

fn failures(results: &Results) -> Vec<Failure> {
    let failures = results.failures().into_iter();
    failures.map(|((subject, workload, why), times)| Failure { subject, workload, why, times }).collect()
}

/// One line a value (RFC 4180). No name needs quotes but a link's.
fn csv(results: &Results) -> String {
    let mut text = "link,workload,subject,figure,round,value\n".to_owned();
    for record in &results.records {
        let cell = &record.cell;
        for (figure, value) in &record.outcome.figures {
            let link = cell.link.replace('"', "\"\"");
            let (load, subject, round) = (&cell.workload, &cell.subject, cell.round);
            text += &format!("\"{link}\",{load},{subject},{figure},{round},{value}\n");
        }
    }
    text
}
