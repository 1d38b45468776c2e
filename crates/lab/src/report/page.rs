//! The page.

use std::collections::{BTreeMap, BTreeSet};

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::bars::{self, Bar, Label, Pair};
use super::families::{self, Family};
use super::plot::{self, Curve};
use super::sweeps::{self, Load};
use super::{label, words};
use crate::findings::{self, Verdict};
use crate::link::LinkInfo;
use crate::number::number;
use crate::published::Study;
use crate::results::{FailedSubject, Place, Results};
use crate::stats;

const STYLE: &str = include_str!("page.css");

/// Figures that are worth a drawing.
const DRAWN: [&str; 10] = [
    "up_mbit",
    "down_mbit",
    "up_kbyte_s",
    "up_cpu_s_per_gb",
    "received_mbit",
    "most_pps",
    "start_ms",
    "handshake_ms",
    "move_outage_ms",
    "storm_ms",
];
/// Figures of which each end has its own: what to call them, the server's and the client's.
const PAIRS: [(&str, [&str; 2]); 4] = [
    ("CPU seconds a GB, of each end's program", ["up_server_cpu_s_per_gb", "up_client_cpu_s_per_gb"]),
    ("CPU seconds a GB, of each end's program", ["server_cpu_s_per_gb", "client_cpu_s_per_gb"]),
    ("CPU of each end's program, % of a processor", ["up_server_cpu_percent", "up_client_cpu_percent"]),
    ("Memory of each end's program (PSS), KiB", ["server_pss_kib", "client_pss_kib"]),
];
/// Series that are worth a curve, and how many microseconds their unit has.
const CURVES: [(&str, &str, f64); 4] = [
    ("idle_us", "Round trips, idle: share that took no longer", 1.0),
    ("loaded_us", "Round trips while a TCP flow saturates the tunnel: share that took no longer", 1.0),
    ("start_ms", "Start to the first reply: share that took no longer", 1e3),
    ("handshake_ms", "First datagram to first reply: share that took no longer", 1e3),
];
/// A load average before the run that spoils it.
const BUSY: f64 = 0.5;
/// The beginning of the names of a tunnel device's figures.
const TUNNEL: &str = "tunnel_";
/// The curve of a swept load.
const DELIVERED: &str = "delivered_pps";

/// All of it, in one file.
pub(super) fn page(results: &Results) -> String {
    let plan = &results.plan;
    let page = Page { results, figures: results.figures(), study: super::study(results) };
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
                main {
                    h1 { (plan.title) }
                    p { (plan.about) }
                    (page.method())
                    (page.findings())
                    @for link in &plan.links {
                        h2 { "Link: " (link.name) }
                        @for load in plan.workloads.iter().map(|load| load.name()).filter(|load| link.carries(load)) {
                            section {
                                h3 { (words::workload(&load)) }
                                (page.drawings(&link.name, &load))
                                (page.table(&link.name, &load))
                            }
                        }
                    }
                    (page.study())
                    (page.failures())
                    (page.environment())
                }
            }
        }
    }
    .into_string()
}

struct Page<'a> {
    results: &'a Results,
    figures: BTreeMap<Place, Vec<f64>>,
    study: Option<Study>,
}

impl Page<'_> {
    fn method(&self) -> Markup {
        let plan = &self.results.plan;
        let (done, all) = self.results.progress();
        let load = self.results.environment.load_average;
        html! {
            @if self.results.environment.emulated {
                p.warning { (Label::Emulated.mark()) ": " (words::EMULATED) }
            }
            @if done < all {
                p.warning {
                    "This run is not complete: " (done) " of " (all) " measurements are there. The command that began \
                     it goes on with it."
                }
            }
            @if load > BUSY {
                p.warning {
                    "The load average was " (load) " when the run began: something else ran shortly before. If it went \
                     on, every figure is worse than it would be."
                }
            }
            p.method {
                "Measured on one machine, " (self.results.environment.date) " UTC: "
                (plan.rounds) @if plan.rounds == 1 { " round" } @else { " rounds" }
                " in random order, loads of " (plan.seconds) " s, both ends and the load on the same processors. "
                "Shown are medians"
                @if plan.rounds >= 3 { " with 95 % intervals (bootstrap)" } @else { "; so few rounds have no interval" }
                @if (3..6).contains(&plan.rounds) { (words::FEW_ROUNDS) }
                ". What has no mark was " em { "measured" } " here. "
                (Label::StandIn.mark()) " was measured here, too, but of something that stands in for what is meant. "
                (Label::Published.mark()) " was measured by others, on other machines."
            }
        }
    }

    fn findings(&self) -> Markup {
        let findings = findings::findings(self.results);
        html! {
            @if !findings.is_empty() {
                section {
                    h2 { "What the study concluded, and what is so here" }
                    p { "Each answer is computed from the samples: it counts when its whole interval lies on one side." }
                    ul.findings {
                        @for finding in &findings {
                            li.(class(finding.verdict)) {
                                p { (finding.claim) ": " span.verdict { (finding.verdict) } "." }
                                p { (finding.figure) "." }
                            }
                        }
                    }
                }
            }
        }
    }

    fn values(&self, link: &str, load: &str, figure: &str, subject: &str) -> Option<&Vec<f64>> {
        let [link, workload, figure, subject] = [link, load, figure, subject].map(str::to_owned);
        self.figures.get(&Place { link, workload, figure, subject })
    }

    fn names(&self, link: &str, load: &str) -> Vec<&str> {
        let names: BTreeSet<&str> = self
            .figures
            .keys()
            .filter(|place| place.link == link && place.workload == load)
            // They are alike for every load, and stand at the end of the page.
            .filter(|place| !place.figure.starts_with(TUNNEL))
            .map(|place| place.figure.as_str())
            .collect();
        let mut names: Vec<&str> = names.into_iter().collect();
        names.sort_by_key(|name| words::order(name));
        names
    }

    /// Subjects of which something was measured, by family.
    fn subjects(&self, link: &str, load: &str) -> Vec<&String> {
        let is_measured = |name: &&String| {
            self.results.records_of(link, load, name).any(|record| record.outcome.says_something())
        };
        families::ordered(self.results.plan.subjects.iter().filter(is_measured))
    }

    /// A subject has the same colour in every drawing.
    fn colour(&self, subject: &str) -> usize {
        self.results.plan.subjects.iter().position(|name| name == subject).unwrap_or(0)
    }

    fn bar(&self, link: &str, load: &str, figure: &str, name: &str) -> Option<Bar> {
        let values = self.values(link, load, figure, name)?;
        Some(Bar {
            name: name.to_owned(),
            label: label(self.results, name),
            median: stats::median(values)?,
            interval: stats::median_interval(values),
        })
    }

    fn drawings(&self, link: &str, load: &str) -> Markup {
        let subjects = self.subjects(link, load);
        let single = DRAWN.iter().filter_map(|figure| {
            let ours: Vec<Bar> =
                subjects.iter().filter_map(|name| self.bar(link, load, figure, name)).collect();
            let published = self.published(load).filter(|(_, key, _)| key == figure);
            let published = published.map(|(name, _, median)| Bar {
                name: name.to_owned(),
                label: Label::Published,
                median,
                interval: None,
            });
            (!ours.is_empty()).then(|| {
                bars::bars(
                    &super::title(self.results, link, load, figure),
                    &ours.into_iter().chain(published).collect::<Vec<_>>(),
                )
            })
        });
        // Of an emulator each end has a reference of its own.
        let pairs = PAIRS.iter().filter(|_| !self.results.environment.emulated);
        let double = pairs.filter_map(|(title, figures)| {
            let pairs = subjects.iter().filter_map(|name| {
                let ends = figures.map(|figure| self.bar(link, load, figure, name));
                let label = label(self.results, name);
                ends.iter().any(Option::is_some).then(|| Pair { name: (*name).clone(), label, ends })
            });
            let pairs: Vec<Pair> = pairs.collect();
            (!pairs.is_empty()).then(|| bars::pairs(title, &pairs))
        });
        let curves = CURVES.iter().map(|(series, title, unit)| {
            let curves = subjects.iter().map(|name| Curve {
                name: (*name).clone(),
                colour: self.colour(name),
                values: self.samples(link, load, name, series, *unit),
            });
            plot::distributions(title, curves.collect())
        });
        let loads = subjects.iter().filter_map(|name| {
            let points = self.swept(link, load, name);
            let mark = label(self.results, name).mark();
            (!points.is_empty()).then(|| Load { name: (*name).clone(), mark, points })
        });
        let loads: Vec<Load> = loads.collect();
        html! {
            @for drawing in single.chain(double).chain(curves) { (drawing) }
            (sweeps::sweeps(
                "Packets delivered a second (up) of packets offered (across); dotted: all of them",
                &loads,
                self.results.plan.subjects.iter().find_map(|name| loads.iter().find(|load| load.name == *name)),
            ))
        }
    }

    /// A series of all rounds together, in microseconds.
    fn samples(&self, link: &str, load: &str, subject: &str, series: &str, unit: f64) -> Vec<f64> {
        let records = self.results.records_of(link, load, subject);
        let values = records.filter_map(|record| record.outcome.samples.get(series)).flatten();
        let mut values: Vec<f64> = values.map(|value| value * unit).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    }

    /// The median of all rounds at each load that most of them came to.
    fn swept(&self, link: &str, load: &str, subject: &str) -> Vec<[f64; 2]> {
        let records = self.results.records_of(link, load, subject);
        let rounds: Vec<&Vec<[f64; 2]>> =
            records.filter_map(|record| record.outcome.curves.get(DELIVERED)).collect();
        let longest = rounds.iter().map(|round| round.len()).max().unwrap_or(0);
        let at = |index: usize, part: usize| -> Option<f64> {
            let values: Vec<f64> =
                rounds.iter().filter_map(|round| round.get(index)?.get(part).copied()).collect();
            (2 * values.len() > rounds.len()).then(|| stats::median(&values))?
        };
        let mut points: Vec<[f64; 2]> =
            (0..longest).filter_map(|index| Some([at(index, 0)?, at(index, 1)?])).collect();
        points.sort_unstable_by(|one, other| one[0].total_cmp(&other[0]));
        points
    }

    /// The published measurements of this workload: the system, the figure, and its value.
    fn published<'a>(&'a self, load: &'a str) -> impl Iterator<Item = (&'a str, &'a str, f64)> {
        let rows = self.study.iter().flat_map(|study| study.rows.iter().map(move |row| (study, row)));
        let rows = rows.filter(move |(_, row)| row.workload.as_deref() == Some(load));
        rows.flat_map(|(study, row)| {
            let figure = row.figure.as_deref().unwrap_or_default();
            let columns = study.columns.iter().zip(&row.values);
            columns.map(move |(column, value)| (column.as_str(), figure, *value))
        })
    }

    fn table(&self, link: &str, load: &str) -> Markup {
        let names = self.names(link, load);
        let title = format!("All figures: {}", words::workload(load));
        let published: Vec<_> =
            self.published(load).filter(|(_, figure, _)| names.contains(figure)).collect();
        let subjects = self.subjects(link, load);
        let families: Vec<Family> = subjects.iter().map(|name| Family::of(name)).collect();
        html! {
            @if subjects.is_empty() {
                p { "Nothing was measured; see below why." }
            } @else if !names.is_empty() {
                div.wide role="region" aria-label=(title) tabindex="0" {
                    table {
                        thead { tr { th scope="col" { "Subject" } @for name in &names { th scope="col" { (super::title(self.results, link, load, name)) } } } }
                        tbody {
                            @for (subject, heading) in subjects.iter().zip(families::headings(&families)) {
                                @if let Some(heading) = heading {
                                    tr.family { th scope="rowgroup" colspan=(names.len() + 1) { (heading) } }
                                }
                                tr {
                                    th scope="row" { (subject) (label(self.results, subject).mark()) }
                                    @for name in &names { td { (cell(name, self.values(link, load, name, subject))) } }
                                }
                            }
                            @for (column, figure, value) in &published {
                                tr.published {
                                    th scope="row" { (column) (Label::Published.mark()) }
                                    @for name in &names {
                                        td { @if name == figure { (number(*value)) } @else { "–" } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// The published table, clearly apart.
    fn study(&self) -> Markup {
        let Some(study) = &self.study else { return html! {} };
        html! {
            section.study {
                h2 { (study.title) (Label::Published.mark()) }
                p { "Not measured here. Conditions: " (study.conditions) "." }
                div.wide role="region" aria-label="Published figures" tabindex="0" {
                    table {
                        thead { tr { th scope="col" { "Figure" } @for column in &study.columns { th scope="col" { (column) } } } }
                        tbody {
                            @for row in &study.rows {
                                tr.published {
                                    th scope="row" { (row.name) }
                                    @for value in &row.values { td { (number(*value)) } }
                                }
                            }
                        }
                    }
                }
                @if !study.systems.is_empty() {
                    p { "These cannot be run any more; what the study says of them:" }
                    ul {
                        @for system in &study.systems {
                            li { strong { (system.name) } (Label::Published.mark()) ": " (system.about) }
                        }
                    }
                }
            }
        }
    }

    fn failures(&self) -> Markup {
        let failed = self.results.failed_subjects();
        html! {
            @if !failed.is_empty() {
                section {
                    h2 { "What could not be measured" }
                    ul {
                        @for FailedSubject { subject, workloads, times, why } in &failed {
                            li {
                                strong { (subject) } ", " (words::workloads(workloads)) " (" (times) "×): "
                                @if why.contains('\n') { pre { (why) } } @else { (why) }
                            }
                        }
                    }
                }
            }
        }
    }

    /// A tunnel's device, in words: what it had on all links.
    fn device(&self, subject: &str) -> Vec<String> {
        let of = |figure: &str| -> BTreeSet<String> {
            let ours =
                self.figures.iter().filter(|(place, _)| place.subject == subject && place.figure == figure);
            ours.flat_map(|(_, values)| values).map(|value| number(*value)).collect()
        };
        let named = [("tunnel_mtu_bytes", "MTU"), ("tunnel_queue", "TUN queue of")];
        let said = named.into_iter().map(|(figure, words)| (words, of(figure)));
        said.filter(|(_, all)| !all.is_empty())
            .map(|(words, all)| format!("{words} {}", all.into_iter().collect::<Vec<_>>().join(" or ")))
            .collect()
    }

    fn environment(&self) -> Markup {
        let environment = &self.results.environment;
        html! {
            section {
                h2 { "Measured on" }
                p {
                    (environment.processors) " × " (environment.processor) ", " (environment.memory_kib / 1024)
                    " MiB, Linux " (environment.kernel) "; load average before the run " (environment.load_average)
                    @if !environment.governor.is_empty() { "; CPU governor " (environment.governor) }
                    "; adit-lab " (environment.lab)
                    @for version in environment.tools.values() { "; " (version) }
                }
                p { "Called as " code { (environment.command) } }
                ul {
                    @for (name, version) in &environment.subjects {
                        li {
                            strong { (name) } (label(self.results, name).mark()) ": "
                            @if let Some(what) = environment.about.get(name) { (what) "; " }
                            (version)
                            @if let Some(what) = environment.stand_ins.get(name) { "; stands in for " (what) }
                            @for what in self.device(name) { "; " (what) }
                        }
                    }
                }
                @if !environment.links.is_empty() {
                    h3 { "The wires" }
                    ul {
                        @for (name, info) in &environment.links {
                            li { strong { (name) } ": MTU " (info.mtu) (offloads(info)) }
                        }
                    }
                }
                @if let Some(wire) = &environment.wire {
                    h3 { "What the lab's own link costs" }
                    p {
                        "Delay, loss and reordering come from a link in user space, which costs processor time itself. "
                        "Without a tunnel and without any of these:"
                    }
                    table {
                        thead {
                            tr {
                                th scope="col" { "Link" } th scope="col" { "one TCP flow, Mbit/s" }
                                th scope="col" { "CPU seconds a GB" } th scope="col" { "round trip, median, µs" }
                            }
                        }
                        tbody {
                            @for (name, bare) in [("the kernel's (veth)", wire.kernel), ("the lab's own", wire.own)] {
                                tr {
                                    th scope="row" { (name) } td { (number(bare.mbit)) }
                                    td { (number(bare.cpu_s_per_gb)) } td { (number(bare.round_trip_us)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn offloads(link: &LinkInfo) -> String {
    let named = |wanted: bool| -> String {
        let names = link.offloads.iter().filter(|(_, on)| **on == wanted).map(|(name, _)| name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    [(true, "on"), (false, "off")]
        .map(|(wanted, word)| (named(wanted), word))
        .iter()
        .filter(|(names, _)| !names.is_empty())
        .map(|(names, word)| format!("; {word}: {names}"))
        .collect()
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::NoLonger => "gone",
        Verdict::CannotBeTold => "unsure",
    }
}

fn cell(figure: &str, values: Option<&Vec<f64>>) -> Markup {
    let Some((values, median)) = values.and_then(|values| Some((values, stats::median(values)?))) else {
        return html! { "–" };
    };
    html! {
        (words::value(figure, median))
        @if let Some(interval) = stats::median_interval(values) {
            " " small { (words::value(figure, interval.low)) "–" (words::value(figure, interval.high)) }
        }
    }
}
