//! The figures of each phase, and whether the others kept what they had.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::testbed::Sample;
use crate::commands::output::spread;
use crate::commands::wireguard::figures::{Figure, Figures, Limit};

/// What the table calls the build that is judged.
pub(super) const JUDGED: &str = "adit";

/// The others must keep so much of their goodput.
const KEPT: Limit = Limit::AtLeast(0.95);
/// A flow whose sends hold less than this share of what they held has lost UDP_SEGMENT for one client at least: without it for one
/// of seven, about a quarter is left.
const LARGE_SENDS_KEPT: Limit = Limit::AtLeast(0.5);
/// Without UDP_SEGMENT a send is one datagram, at most 1500 bytes with its headers. Less than two such datagrams means that it
/// was not in use at all, so that there was nothing to lose.
const LARGE_SENDS: Limit = Limit::AtLeast(3000.0);
/// The path was narrow: to a destination whose path is, the kernel refuses UDP_SEGMENT with datagrams of 1500 bytes.
const LARGE_SENDS_GONE: Limit = Limit::AtMost(0.5);

const FIGURES: &[Figure] = &[
    ("seven_kept", "the other seven's goodput, MTU 1300 / before", 3, KEPT),
    ("seven_beside_kept", "the same beside the one's flow", 3, KEPT),
    ("seven_send", "bytes a send to the seven, before", 0, LARGE_SENDS),
    ("seven_send_kept", "bytes a send to the seven, MTU 1300 / before", 2, LARGE_SENDS_KEPT),
    ("one_send", "bytes a send to the one, before", 0, LARGE_SENDS),
    ("one_send_narrow", "bytes a send to the one, MTU 1300 / before", 2, LARGE_SENDS_GONE),
    ("one_send_wide", "bytes a send to the one, wide again / before", 2, LARGE_SENDS_KEPT),
    ("limited_narrow", "destinations without UDP_SEGMENT, MTU 1300", 0, Limit::AtMost(1.0)),
    ("limited_wide", "destinations without UDP_SEGMENT, wide again", 0, Limit::AtMost(0.0)),
];

/// The path's states, one after the other, as the table calls them.
const PHASES: [&str; 3] = ["before", "MTU 1300", "wide again"];

/// The samples of one build.
#[derive(Serialize)]
struct Build {
    program: PathBuf,
    /// What the table with limits calls it.
    #[serde(skip)]
    subject: String,
    rounds: Vec<Round>,
}

/// The samples of one round: before, with the narrow path, and when it is wide again.
pub(super) type Round = [Sample; 3];

/// All figures.
#[derive(Serialize)]
pub(super) struct Report {
    machine: Vec<String>,
    builds: Vec<Build>,
    judged: Figures,
}

impl Report {
    /// Of these builds the last one is judged.
    pub(super) fn new(machine: Vec<String>, programs: &[PathBuf]) -> Report {
        let subjects = subjects(programs);
        // The machine stands above the first table.
        let judged = Figures::new(Vec::new(), &subjects, FIGURES);
        let build = |(program, subject): (&PathBuf, String)| Build {
            program: program.clone(),
            subject,
            rounds: Vec::new(),
        };
        Report { machine, builds: programs.iter().zip(subjects).map(build).collect(), judged }
    }

    /// A round of the build with that number.
    pub(super) fn note(&mut self, build: usize, number: u32, round: Round) {
        let Some(build) = self.builds.get_mut(build) else { return };
        for (figure, value) in figures(&round) {
            self.judged.note(&build.subject, number, figure, value);
        }
        build.rounds.push(round);
    }

    /// A round of the build with that number could not be measured.
    pub(super) fn fail(&mut self, build: usize, number: u32, why: &str) {
        let subject = self.builds.get(build).map_or(JUDGED, |build| &build.subject);
        self.judged.fail(subject, number, why);
    }

    /// Whether all was measured, and the last build keeps to every limit.
    pub(super) fn is_good(&self) -> bool {
        self.judged.is_good()
    }

    pub(super) fn markdown(&self) -> String {
        format!("{}\n\n{}{}", self.machine.join("; "), phases(&self.builds), self.judged.markdown())
    }
}

/// What the table with limits calls these builds: the last one has the name that is judged.
pub(super) fn subjects(programs: &[PathBuf]) -> Vec<String> {
    let last = programs.len().saturating_sub(1);
    let name = |(number, program): (usize, &PathBuf)| match number == last {
        true => JUDGED.to_owned(),
        false => program.display().to_string(),
    };
    programs.iter().enumerate().map(name).collect()
}

/// What a round shows for [`FIGURES`].
fn figures([before, narrow, wide]: &Round) -> Vec<(&'static str, f64)> {
    let mut figures = vec![
        ("seven_kept", narrow.seven / before.seven),
        ("seven_beside_kept", narrow.seven_beside / before.seven_beside),
        ("seven_send", before.bytes_a_send_seven),
        ("seven_send_kept", narrow.bytes_a_send_seven / before.bytes_a_send_seven),
        ("one_send", before.bytes_a_send_one),
        ("one_send_narrow", narrow.bytes_a_send_one / before.bytes_a_send_one),
        ("one_send_wide", wide.bytes_a_send_one / before.bytes_a_send_one),
    ];
    // The status of builds from before 2026-11-23 has no such count.
    figures.extend(narrow.limited.map(|count| ("limited_narrow", count as f64)));
    figures.extend(wide.limited.map(|count| ("limited_wide", count as f64)));
    figures
}

/// A line for each build and phase.
fn phases(builds: &[Build]) -> String {
    let mut text = "| build | path | the other seven, Mbit/s | kept | bytes a send | the one, Mbit/s | bytes a send | \
                    destinations without UDP_SEGMENT | the seven beside the one, Mbit/s | kept | the one beside them |\n\
                    |---|---|---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for build in builds {
        for (index, phase) in PHASES.into_iter().enumerate() {
            text += &line(&build.program, phase, &build.rounds, index);
        }
    }
    text
}

fn line(program: &Path, phase: &str, rounds: &[Round], index: usize) -> String {
    let samples = || rounds.iter().filter_map(|round| Some((round.first()?, round.get(index)?)));
    let column = |value: fn(&Sample) -> f64| median(samples().map(|(_, sample)| value(sample)));
    let kept =
        |value: fn(&Sample) -> f64| median(samples().map(|(before, sample)| value(sample) / value(before)));
    let limited = samples().filter_map(|(_, sample)| sample.limited).max();
    let mut text = format!("| {} | {phase} | ", program.display());
    let _ = writeln!(
        text,
        "{:.0} | {:.2} | {:.0} | {:.0} | {:.0} | {} | {:.0} | {:.2} | {:.0} |",
        column(|sample| sample.seven),
        kept(|sample| sample.seven),
        column(|sample| sample.bytes_a_send_seven),
        column(|sample| sample.one),
        column(|sample| sample.bytes_a_send_one),
        limited.map_or("not told".to_owned(), |count| count.to_string()),
        column(|sample| sample.seven_beside),
        kept(|sample| sample.seven_beside),
        column(|sample| sample.one_beside),
    );
    text
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    spread(&values.collect::<Vec<f64>>()).map_or(f64::NAN, |[_, median, _]| median)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seven: f64, sends: [f64; 2], limited: u64) -> Sample {
        Sample {
            one: 7000.0,
            bytes_a_send_one: sends[0],
            seven,
            bytes_a_send_seven: sends[1],
            seven_beside: seven,
            one_beside: 50.0,
            limited: Some(limited),
        }
    }

    /// A round in which the others keep that share of their goodput.
    fn round(kept: f64) -> Round {
        [
            sample(6000.0, [54_000.0, 40_000.0], 0),
            sample(6000.0 * kept, [1540.0, 39_000.0], 1),
            sample(6000.0, [52_000.0, 38_000.0], 0),
        ]
    }

    fn report(rounds: &[Round]) -> Report {
        let mut report = Report::new(vec!["here".to_owned()], &["OLD".into(), "NEW".into()]);
        for (number, round) in (0..).zip(rounds) {
            report.note(1, number, *round);
        }
        report
    }

    #[test]
    fn the_median_of_the_others_goodput_is_judged() {
        assert!(report(&[round(0.95), round(0.7), round(1.1)]).is_good());
        let slow = report(&[round(0.94), round(0.7), round(1.1)]);
        assert!(!slow.is_good() && slow.markdown().ends_with("\n**FAIL**\n"), "{}", slow.markdown());
        let mut beside = round(1.0);
        beside[1].seven_beside = 5600.0;
        assert!(!report(&[beside]).is_good());
    }

    #[test]
    fn large_sends_stay_and_come_back() {
        let altered = |alter: fn(&mut Round)| {
            let mut round = round(1.0);
            alter(&mut round);
            report(&[round]).is_good()
        };
        assert!(altered(|_| {}));
        assert!(!altered(|round| round[1].bytes_a_send_seven = 8500.0), "gone for one of the seven");
        assert!(!altered(|round| round[2].bytes_a_send_one = 1506.0), "not in use again");
        assert!(!altered(|round| round[1].bytes_a_send_one = 54_000.0), "the path was not narrow");
        assert!(!altered(|round| round[1].limited = Some(2)));
        assert!(!altered(|round| round[2].limited = Some(1)));
        assert!(altered(|round| round.iter_mut().for_each(|sample| sample.limited = None)));
        let never = |round: &mut Round| {
            round.iter_mut().for_each(|sample| sample.bytes_a_send_seven = 1505.0);
        };
        assert!(!altered(never), "it was never in use");
    }

    #[test]
    fn an_earlier_build_stands_beside_and_is_not_judged() {
        let mut report = report(&[round(1.0)]);
        report.note(0, 0, round(0.3));
        assert!(report.is_good());
        let text = report.markdown();
        assert!(text.starts_with("here\n\n| build |"), "{text}");
        assert!(text.contains("| OLD | MTU 1300 | 1800 | 0.30 | 39000 | 7000 | 1540 | 1 |"), "{text}");
        assert!(text.contains("MTU 1300 / before | 0.300 | 1.000 | ≥ 0.95 |"), "{text}");
        report.fail(0, 1, "no reply");
        assert!(
            !report.is_good() && report.markdown().contains("**NOT MEASURED: OLD in round 2: no reply**")
        );
    }

    #[test]
    fn nothing_measured_is_not_good() {
        assert!(!report(&[]).is_good());
    }
}
