//! The report of a run: a page for people, and two files for programs.

mod bars;
mod drawing;
mod families;
mod illustrate;
mod markdown;
mod page;
mod plot;
mod sweeps;
mod table;
mod unmeasured;
mod words;

pub(crate) use illustrate::{redraw, write as write_pages};
pub(crate) use markdown::markdown;

use std::path::Path;

use serde::Serialize;

use self::bars::Label;
use crate::environment::Environment;
use crate::error::LabError;
use crate::findings::{self, Finding};
use crate::plan::Plan;
use crate::published::{self, Study};
use crate::record::{Cell, Record};
use crate::results::{Place, Results};
use crate::stats;

/// The page.
pub(crate) const HTML: &str = "report.html";
const JSON: &str = "results.json";
const CSV: &str = "results.csv";
/// The version of the JSON file's format; grows when a field changes its meaning.
const SCHEMA: u32 = 1;

/// The JSON file.
#[derive(Serialize)]
struct Summary<'a> {
    schema: u32,
    plan: &'a Plan,
    environment: &'a Environment,
    figures: Vec<Figure>,
    curves: Vec<Curve>,
    failures: Vec<Failure>,
    findings: Vec<Finding>,
    /// The measurements that others published. Nothing of it is among the figures.
    published: Option<Study>,
}

/// A figure over all rounds.
#[derive(Serialize)]
struct Figure {
    link: String,
    workload: String,
    subject: String,
    figure: String,
    /// Whether what was measured is what is meant: `measured`, `stand-in` or `emulated`.
    label: &'static str,
    median: f64,
    /// 95 %, by bootstrap.
    low: Option<f64>,
    high: Option<f64>,
    /// One a round.
    values: Vec<f64>,
}

/// The results for each load that was offered, in one round.
#[derive(Serialize)]
struct Curve {
    link: String,
    workload: String,
    subject: String,
    curve: String,
    round: u32,
    label: &'static str,
    points: Vec<[f64; 2]>,
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
        curves: curves(&results),
        failures: failures(&results),
        findings: findings::findings(&results),
        published: study(&results),
        figures,
    });
    let json = json.map_err(|error| LabError::Usage(format!("{JSON} cannot be written: {error}")))?;
    for (name, text) in [(JSON, json), (CSV, csv(&results)), (HTML, page::page(&results))] {
        let path = directory.join(name);
        replace(&path, &text).map_err(|source| LabError::File { path, source })?;
    }
    Ok(())
}

/// Writes a file whole or not at all: where the disk is full, what was there stays.
pub(crate) fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension("new");
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    written
}

fn figures(results: &Results) -> Vec<Figure> {
    let figures = results.figures().into_iter().filter_map(|(place, values)| {
        let Place { link, workload, figure, subject } = place;
        let median = stats::median(&values)?;
        let interval = stats::median_interval(&values);
        let (low, high) = (interval.map(|interval| interval.low), interval.map(|interval| interval.high));
        let label = label(results, &subject).word();
        Some(Figure { link, workload, subject, figure, label, median, low, high, values })
    });
    figures.collect()
}

fn curves(results: &Results) -> Vec<Curve> {
    let mut all = Vec::new();
    for Record { cell, outcome } in &results.records {
        let Cell { subject, link, workload, round } = cell.clone();
        let label = label(results, &subject).word();
        for (curve, points) in &outcome.curves {
            let [link, workload, subject, curve] = [&link, &workload, &subject, curve].map(String::clone);
            all.push(Curve { link, workload, subject, curve, round, label, points: points.clone() });
        }
    }
    all
}

/// Whether a subject is what it is called.
fn label(results: &Results, subject: &str) -> Label {
    let environment = &results.environment;
    match (environment.emulated, environment.stand_ins.contains_key(subject)) {
        (true, _) => Label::Emulated,
        (false, true) => Label::StandIn,
        (false, false) => Label::Measured,
    }
}

/// A figure in words; of an emulated processor with the subject that it is a multiple of.
fn title(results: &Results, link: &str, load: &str, figure: &str) -> String {
    let words = words::figure(figure);
    match results.reference(link, load, figure) {
        Some(subject) => format!("{words}: multiple of {subject}'s"),
        None => words,
    }
}

/// The published study whose rows stand beside: none beside what an emulator gave.
fn study(results: &Results) -> Option<Study> {
    let name = results.plan.study.as_ref().filter(|_| !results.environment.emulated)?;
    published::study(name)
}

fn failures(results: &Results) -> Vec<Failure> {
    let failures = results.failures().into_iter();
    failures.map(|((subject, workload, why), times)| Failure { subject, workload, why, times }).collect()
}

/// One line a value (RFC 4180). No name needs quotes but a link's.
fn csv(results: &Results) -> String {
    let mut text = "link,workload,subject,figure,round,value,label\n".to_owned();
    for record in &results.records {
        let cell = &record.cell;
        for (figure, value) in &record.outcome.figures {
            let link = cell.link.replace('"', "\"\"");
            let (load, subject, round) = (&cell.workload, &cell.subject, cell.round);
            let label = label(results, subject).word();
            text += &format!("\"{link}\",{load},{subject},{figure},{round},{value},{label}\n");
        }
    }
    text
}
