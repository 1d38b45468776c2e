//! The figures of each phase, and whether the other clients kept theirs.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::loads::{Alone, Seven};
use crate::commands::output::spread;
use crate::commands::wireguard::figures::{Figure, Figures, Limit};

/// The name in the table of the build that is judged.
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
    ("seven_kept", "the other seven's goodput, path narrow / before and after", 3, KEPT),
    ("seven_beside_kept", "the same beside the one's flow", 3, KEPT),
    ("seven_send", "bytes a send to the seven, path wide", 0, LARGE_SENDS),
    ("seven_send_kept", "bytes a send to the seven, path narrow / before and after", 2, LARGE_SENDS_KEPT),
    ("one_send", "bytes a send to the one, before", 0, LARGE_SENDS),
    ("one_send_narrow", "bytes a send to the one, path narrow / before", 2, LARGE_SENDS_GONE),
    ("one_send_wide", "bytes a send to the one, wide again / before", 2, LARGE_SENDS_KEPT),
    ("limited_narrow", "destinations without UDP_SEGMENT, path narrow", 0, Limit::AtMost(1.0)),
    ("limited_wide", "destinations without UDP_SEGMENT, wide again", 0, Limit::AtMost(0.0)),
];

/// The tables' words for the path's other state.
const NARROW: &str = "path narrow";

/// The samples of one build.
#[derive(Serialize)]
struct Build {
    program: PathBuf,
    /// Its name in the table with limits.
    #[serde(skip)]
    subject: String,
    rounds: Vec<Round>,
}

/// The samples of one round.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Round {
    /// The eighth's flow before, with the narrow path, and when it is wide again.
    pub(super) one: [Alone; 3],
    /// The seven's flows with the path wide: before, between and after the samples with the narrow path.
    pub(super) wide: Vec<Seven>,
    /// The seven's flows with the narrow path.
    pub(super) narrow: Vec<Seven>,
}

impl Round {
    /// The share of each sample with the narrow path in the mean of those before and after it.
    fn kept(&self, value: fn(&Seven) -> f64) -> impl Iterator<Item = f64> {
        let around = self.wide.windows(2).map(move |wide| wide.iter().map(value).sum::<f64>() / 2.0);
        self.narrow.iter().map(value).zip(around).map(|(narrow, wide)| narrow / wide)
    }
}

/// All figures.
#[derive(Serialize)]
pub(super) struct Report {
    machine: Vec<String>,
    builds: Vec<Build>,
    judged: Figures,
}

impl Report {
    /// A report on these builds, of which the last one is judged.
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
        format!("{}\n\n{}{}", self.machine.join("; "), medians(&self.builds), self.judged.markdown())
    }
}

/// The names of these builds in the table with limits: the last one has the name that is judged.
pub(super) fn subjects(programs: &[PathBuf]) -> Vec<String> {
    let last = programs.len().saturating_sub(1);
    let name = |(number, program): (usize, &PathBuf)| match number == last {
        true => JUDGED.to_owned(),
        false => program.display().to_string(),
    };
    programs.iter().enumerate().map(name).collect()
}

/// The values of a round for [`FIGURES`].
fn figures(round: &Round) -> Vec<(&'static str, f64)> {
    let [before, narrow, wide] = &round.one;
    let mut figures = vec![
        ("one_send", before.bytes_a_send),
        ("one_send_narrow", narrow.bytes_a_send / before.bytes_a_send),
        ("one_send_wide", wide.bytes_a_send / before.bytes_a_send),
    ];
    let mut extend = |figure, values: &mut dyn Iterator<Item = f64>| {
        figures.extend(values.map(|value| (figure, value)));
    };
    extend("seven_kept", &mut round.kept(|seven| seven.alone));
    extend("seven_beside_kept", &mut round.kept(|seven| seven.beside));
    extend("seven_send", &mut round.wide.iter().map(|seven| seven.bytes_a_send));
    extend("seven_send_kept", &mut round.kept(|seven| seven.bytes_a_send));
    // The status of builds from before 2026-11-23 has no such count.
    extend("limited_narrow", &mut narrow.limited.map(|count| count as f64).into_iter());
    extend("limited_wide", &mut wide.limited.map(|count| count as f64).into_iter());
    figures
}

/// Lines for each build: of the seven's flows, and of the eighth's.
fn medians(builds: &[Build]) -> String {
    let mut text =
        "| build | path | the other seven, Mbit/s | bytes a send | the seven beside the one, Mbit/s | \
                    the one beside them, Mbit/s |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for build in builds {
        text += &line(build, "wide", |round| &round.wide);
        text += &line(build, NARROW, |round| &round.narrow);
    }
    text += "\n| build | path | the one alone, Mbit/s | bytes a send | destinations without UDP_SEGMENT |\n\
             |---|---|---|---|---|\n";
    for build in builds {
        for (path, index) in ["before", NARROW, "wide again"].into_iter().zip(0..) {
            let samples = || build.rounds.iter().filter_map(|round| round.one.get::<usize>(index));
            let limited = samples().filter_map(|alone| alone.limited).max();
            let _ = writeln!(
                text,
                "| {} | {path} | {:.0} | {:.0} | {} |",
                build.program.display(),
                median(samples().map(|alone| alone.goodput)),
                median(samples().map(|alone| alone.bytes_a_send)),
                limited.map_or("not reported".to_owned(), |count| count.to_string()),
            );
        }
    }
    text + "\n"
}

/// The medians of the seven's flows with one state of the path.
fn line(build: &Build, path: &str, samples: fn(&Round) -> &[Seven]) -> String {
    let column = |value: fn(&Seven) -> f64| median(build.rounds.iter().flat_map(samples).map(value));
    format!(
        "| {} | {path} | {:.0} | {:.0} | {:.0} | {:.0} |\n",
        build.program.display(),
        column(|seven| seven.alone),
        column(|seven| seven.bytes_a_send),
        column(|seven| seven.beside),
        column(|seven| seven.eighth),
    )
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    spread(&values.collect::<Vec<f64>>()).map_or(f64::NAN, |[_, median, _]| median)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(bytes_a_send: f64, limited: u64) -> Alone {
        Alone { goodput: 7000.0, bytes_a_send, limited: Some(limited) }
    }

    fn seven(alone: f64, bytes_a_send: f64) -> Seven {
        Seven { beside: alone, eighth: 50.0, alone, bytes_a_send }
    }

    /// A round in which the others keep that share of their goodput.
    fn round(kept: f64) -> Round {
        Round {
            one: [alone(54_000.0, 0), alone(1540.0, 1), alone(52_000.0, 0)],
            wide: vec![seven(5000.0, 40_000.0), seven(7000.0, 38_000.0)],
            narrow: vec![seven(6000.0 * kept, 39_000.0)],
        }
    }

    fn report(rounds: &[Round]) -> Report {
        let mut report = Report::new(vec!["here".to_owned()], &["OLD".into(), "NEW".into()]);
        for (number, round) in (0..).zip(rounds) {
            report.note(1, number, round.clone());
        }
        report
    }

    #[test]
    fn the_median_of_the_others_goodput_is_judged() {
        assert!(report(&[round(0.95), round(0.7), round(1.1)]).is_good());
        let slow = report(&[round(0.94), round(0.7), round(1.1)]);
        assert!(!slow.is_good() && slow.markdown().ends_with("\n**FAIL**\n"), "{}", slow.markdown());
        let mut beside = round(1.0);
        beside.narrow[0].beside = 5600.0;
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
        assert!(!altered(|round| round.narrow[0].bytes_a_send = 8500.0), "gone for one of the seven");
        assert!(!altered(|round| round.one[2].bytes_a_send = 1506.0), "not in use again");
        assert!(!altered(|round| round.one[1].bytes_a_send = 54_000.0), "the path was not narrow");
        assert!(!altered(|round| round.one[1].limited = Some(2)));
        assert!(!altered(|round| round.one[2].limited = Some(1)));
        assert!(altered(|round| round.one.iter_mut().for_each(|alone| alone.limited = None)));
        let never = |round: &mut Round| {
            round.wide.iter_mut().chain(&mut round.narrow).for_each(|seven| seven.bytes_a_send = 1505.0);
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
        assert!(text.contains("| OLD | path narrow | 1800 | 39000 | 1800 | 50 |"), "{text}");
        assert!(text.contains("| OLD | path narrow | 7000 | 1540 | 1 |"), "{text}");
        assert!(text.contains("path narrow / before and after | 0.300 | 1.000 | ≥ 0.95 |"), "{text}");
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
