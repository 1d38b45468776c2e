//! The page.

use std::collections::{BTreeMap, BTreeSet};

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::plot::{self, Bar, Curve};
use super::words;
use crate::published;
use crate::results::{Place, Results};
use crate::stats;

const STYLE: &str = include_str!("page.css");

/// Figures that are worth a drawing.
const DRAWN: [&str; 5] = ["up_mbit", "down_mbit", "up_cpu_s_per_gb", "received_pps", "start_ms"];
/// Series that are worth a curve.
const CURVES: [(&str, &str); 2] =
    [("idle_us", "Idle"), ("loaded_us", "While a TCP flow saturates the tunnel")];

/// All of it, in one file.
pub(super) fn page(results: &Results) -> String {
    let plan = &results.plan;
    let figures = results.figures();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (plan.title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (plan.title) }
                p { (plan.about) }
                (method(results))
                @for link in &plan.links {
                    @if plan.links.len() > 1 { h2 { (link.name) } }
                    @for load in plan.workloads.iter().map(|load| load.name()) {
                        section {
                            h3 { (words::workload(&load)) }
                            (drawings(results, &figures, &link.name, &load))
                            (table(results, &figures, &link.name, &load))
                        }
                    }
                }
                (study(results))
                (failures(results))
                (environment(results))
            }
        }
    }
    .into_string()
}

fn method(results: &Results) -> Markup {
    let plan = &results.plan;
    html! {
        p.method {
            "Everything here was " em { "measured" } " on one machine, " (results.environment.date) " UTC: "
            (plan.rounds) @if plan.rounds == 1 { " round" } @else { " rounds" } " in random order, loads of " (plan.seconds) " s, both ends and the load on the same "
            "processors. Shown are medians"
            @if plan.rounds >= 3 { " with 95 % intervals (bootstrap)" } @else { "; so few rounds have no interval" }
            "."
        }
    }
}

type Figures = BTreeMap<Place, Vec<f64>>;

fn values<'a>(
    figures: &'a Figures,
    link: &str,
    load: &str,
    figure: &str,
    subject: &str,
) -> Option<&'a Vec<f64>> {
    figures.get(&Place {
        link: link.to_owned(),
        workload: load.to_owned(),
        figure: figure.to_owned(),
        subject: subject.to_owned(),
    })
}

fn names(figures: &Figures, link: &str, load: &str) -> Vec<String> {
    let names: BTreeSet<&String> = figures
        .keys()
        .filter(|place| place.link == link && place.workload == load)
        .map(|place| &place.figure)
        .collect();
    let mut names: Vec<String> = names.into_iter().cloned().collect();
    names.sort_by_key(|name| words::order(name));
    names
}

fn drawings(results: &Results, figures: &Figures, link: &str, load: &str) -> Markup {
    let subjects = &results.plan.subjects;
    let drawn = DRAWN.iter().filter_map(|figure| {
        let bars: Vec<Bar<'_>> = subjects
            .iter()
            .filter_map(|name| {
                let values = values(figures, link, load, figure, name)?;
                Some(Bar { name, median: stats::median(values)?, interval: stats::median_interval(values) })
            })
            .collect();
        (!bars.is_empty()).then(|| plot::bars(&words::figure(figure), &bars))
    });
    let curves = CURVES.iter().map(|(series, title)| {
        let curves: Vec<Curve<'_>> = subjects
            .iter()
            .filter_map(|name| {
                let values = samples(results, link, load, name, series);
                (!values.is_empty()).then_some(Curve { name, values })
            })
            .collect();
        plot::distributions(title, &curves)
    });
    html! { @for drawing in drawn.chain(curves) { (drawing) } }
}

/// A series of all rounds together.
fn samples(results: &Results, link: &str, load: &str, subject: &str, series: &str) -> Vec<f64> {
    let records = results.records.iter().filter(|record| {
        let cell = &record.cell;
        cell.link == link && cell.workload == load && cell.subject == subject
    });
    let mut values: Vec<f64> =
        records.filter_map(|record| record.outcome.samples.get(series)).flatten().copied().collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

fn table(results: &Results, figures: &Figures, link: &str, load: &str) -> Markup {
    let names = names(figures, link, load);
    html! {
        div.wide {
            table {
                thead { tr { th { } @for name in &names { th { (words::figure(name)) } } } }
                tbody {
                    @for subject in &results.plan.subjects {
                        tr {
                            th { (subject) }
                            @for name in &names {
                                td { (cell(values(figures, link, load, name, subject))) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn cell(values: Option<&Vec<f64>>) -> Markup {
    let Some((values, median)) = values.and_then(|values| Some((values, stats::median(values)?))) else {
        return html! { "–" };
    };
    html! {
        (words::number(median))
        @if let Some(interval) = stats::median_interval(values) {
            " " small { (words::number(interval.low)) "–" (words::number(interval.high)) }
        }
    }
}

/// The published table, clearly apart.
fn study(results: &Results) -> Markup {
    let Some(study) = results.plan.study.as_ref().and_then(|name| published::study(name)) else {
        return html! {};
    };
    html! {
        section.published {
            h3 { "Published: " (study.title) }
            p { "Not measured here. " (study.conditions) "." }
            div.wide {
                table {
                    thead { tr { th { } @for column in &study.columns { th { (column) } } } }
                    tbody {
                        @for row in &study.rows {
                            tr { th { (row.name) } @for value in &row.values { td { (words::number(*value)) } } }
                        }
                    }
                }
            }
        }
    }
}

fn failures(results: &Results) -> Markup {
    let failures = results.failures();
    html! {
        @if !failures.is_empty() {
            section {
                h3 { "What could not be measured" }
                ul {
                    @for ((subject, load, why), times) in failures {
                        li { strong { (subject) } ", " (words::workload(&load)) " (" (times) "×): " (why) }
                    }
                }
            }
        }
    }
}

fn environment(results: &Results) -> Markup {
    let environment = &results.environment;
    html! {
        section {
            h3 { "Measured on" }
            p {
                (environment.processors) " × " (environment.processor) ", " (environment.memory_kib / 1024) " MiB, Linux "
                (environment.kernel) "; load average before the run " (environment.load_average) "; adit-lab " (environment.lab)
            }
            ul { @for (name, version) in &environment.subjects { li { strong { (name) } ": " (version) } } }
        }
    }
}
