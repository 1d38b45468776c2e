//! The conclusions of the studies, judged by the measurements of a run.
//!
//! An answer comes from the samples alone: a comparison counts when its bootstrap interval lies wholly on one
//! side. A conclusion about a subject that is not measured, measured too seldom, or measured on a stand-in
//! cannot be judged.

mod claims;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::number::number;
use crate::results::{Place, Results};
use crate::stats::{self, Interval};
use crate::subjects;

/// A difference of medians by less than this share is none.
const ALIKE: f64 = 0.05;

/// The verdict on a conclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Verdict {
    /// It is so here, too.
    #[serde(rename = "holds today")]
    Holds,
    /// It is otherwise here.
    #[serde(rename = "no longer")]
    NoLonger,
    /// The samples do not say.
    #[serde(rename = "cannot be told here")]
    CannotBeTold,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Holds => "holds today",
            Verdict::NoLonger => "no longer",
            Verdict::CannotBeTold => "cannot be told here",
        })
    }
}

/// A conclusion of a study, with the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// The study's name.
    pub(crate) study: String,
    /// The study's conclusion.
    pub(crate) claim: String,
    pub(crate) verdict: Verdict,
    /// The figures that the verdict comes from, or why there is none.
    pub(crate) figure: String,
}

/// All conclusions of the study that the plan repeats.
pub(crate) fn findings(results: &Results) -> Vec<Finding> {
    let Some(study) = &results.plan.study else { return Vec::new() };
    let samples = Samples { results, figures: results.figures() };
    let claims = claims::of(study);
    claims
        .into_iter()
        .map(|(claim, ask)| {
            let Answer { verdict, figure } = match results.environment.emulated {
                true => samples.of_an_emulator(),
                false => ask(&samples),
            };
            Finding { study: study.clone(), claim: claim.to_owned(), verdict, figure }
        })
        .collect()
}

/// The answer to a conclusion's question.
struct Answer {
    verdict: Verdict,
    figure: String,
}

impl Answer {
    fn unknown(why: impl Into<String>) -> Answer {
        Answer { verdict: Verdict::CannotBeTold, figure: why.into() }
    }
}

/// Which side is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Most {
    Least,
    Greatest,
}

/// Where one ratio lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Below,
    About,
    Above,
}

/// The measurements of a run, for questions.
struct Samples<'a> {
    results: &'a Results,
    figures: BTreeMap<Place, Vec<f64>>,
}

impl Samples<'_> {
    /// All rounds' values. A name with a second name (`NAME@WORD`) counts as another subject.
    fn values(&self, link: &str, workload: &str, subject: &str, figure: &str) -> &[f64] {
        let [link, workload, subject, figure] = [link, workload, subject, figure].map(str::to_owned);
        self.figures.get(&Place { link, workload, figure, subject }).map_or(&[], Vec::as_slice)
    }

    /// The plan's first link.
    fn link(&self) -> &str {
        self.results.plan.links.first().map_or("", |link| &link.name)
    }

    /// The links of the least and of the greatest rate; one without a limit is the fastest.
    fn slowest_and_fastest(&self) -> [&str; 2] {
        let rate = |link: &&crate::link::Link| link.rate.unwrap_or(u64::MAX);
        let links = &self.results.plan.links;
        [links.iter().min_by_key(rate), links.iter().max_by_key(rate)]
            .map(|link| link.map_or("", |link| &link.name))
    }

    /// The link whose TUN queue has so many packets.
    fn with_queue(&self, packets: u32) -> &str {
        let link = self.results.plan.links.iter().find(|link| link.queue == Some(packets));
        link.map_or("", |link| &link.name)
    }

    fn stand_in(&self, subject: &str) -> Option<&str> {
        self.results.environment.stand_ins.get(subject).map(String::as_str)
    }

    /// The answer to every question about an emulated processor.
    fn of_an_emulator(&self) -> Answer {
        let mut words = self.results.environment.command.split(' ');
        let mut command = Vec::new();
        while let Some(word) = words.next() {
            match word {
                "--guest" => drop(words.next()),
                _ if word.starts_with("--guest=") => {}
                _ => command.push(word),
            }
        }
        let command = command.join(" ");
        Answer::unknown(format!(
            "the processor is emulated; `{command}` tells it on a machine whose kernel has what the subjects need"
        ))
    }

    /// Which command tells a conclusion that needs a subject, or what it stands in for, on a machine whose kernel has what this
    /// one lacks. Empty if it is not the kernel that lacks something.
    fn elsewhere(&self, subject: &str) -> String {
        let environment = &self.results.environment;
        let lacks = |name: &String| {
            let why = environment.subjects.get(name);
            why.is_some_and(|why| why.contains(subjects::NO_MODULE))
        };
        let names = [subject.to_owned(), format!("{subject}-kernel")];
        match names.iter().find(|name| lacks(name)) {
            None => String::new(),
            Some(name) => format!(
                "; `{}` tells it on a machine whose kernel has what {name} needs",
                environment.command
            ),
        }
    }

    /// A subject's median with its interval, for people.
    fn said(&self, subject: &str, values: &[f64], unit: &str) -> String {
        let mark = if self.stand_in(subject).is_some() { ", a stand-in" } else { "" };
        format!("{subject} {}{mark}", said(values, unit))
    }

    /// Whether one subject has the least or the greatest of a figure among all of a study. Stand-ins are shown,
    /// but nothing is concluded from them, nor against them.
    fn is_first(&self, subject: &str, others: &[&str], of: &Figure<'_>, most: Most) -> Answer {
        let values = |name: &str| self.values(of.link, of.workload, name, of.figure);
        let ours = values(subject);
        if ours.is_empty() {
            return Answer::unknown(format!("{subject} was not measured{}", self.elsewhere(subject)));
        }
        let mut figure = vec![self.said(subject, ours, of.unit)];
        let (mut sides, mut stand_ins) = (Vec::new(), Vec::new());
        for other in others.iter().filter(|other| !values(other).is_empty()) {
            figure.push(self.said(other, values(other), of.unit));
            match self.stand_in(other) {
                None => sides.push(side(ours, values(other))),
                Some(what) => {
                    let why = format!("{other} only stands in for {what}{}", self.elsewhere(other));
                    stand_ins.push((side(ours, values(other)), why));
                }
            }
        }
        let figure = figure.join("; ");
        if let Some(what) = self.stand_in(subject) {
            let elsewhere = self.elsewhere(subject);
            return Answer::unknown(format!("{figure}; {subject} only stands in for {what}{elsewhere}"));
        }
        let (right, wrong) = match most {
            Most::Least => (Side::Below, Side::Above),
            Most::Greatest => (Side::Above, Side::Below),
        };
        let spoiler = stand_ins.into_iter().find(|(side, _)| *side != Some(right));
        let verdict = if sides.contains(&Some(wrong)) {
            Verdict::NoLonger
        } else if let Some((_, what)) = spoiler {
            return Answer::unknown(format!("{figure}; {what}"));
        } else if !sides.is_empty() && sides.iter().all(|side| *side == Some(right)) {
            Verdict::Holds
        } else {
            Verdict::CannotBeTold
        };
        let why = match verdict {
            Verdict::CannotBeTold if sides.is_empty() => "; no other was measured",
            Verdict::CannotBeTold if sides.contains(&None) => "; fewer than 3 rounds have no interval",
            Verdict::CannotBeTold => "; the intervals overlap",
            _ => "",
        };
        Answer { verdict, figure: figure + why }
    }

    /// Whether one series lies on this side of another.
    fn compare(&self, above: &Series, below: &Series, right: Side) -> Answer {
        let (over, under) = (above.values(self), below.values(self));
        for (series, values) in [(above, over), (below, under)] {
            if values.is_empty() {
                let (name, link) = (&series.subject, &series.link);
                let elsewhere = self.elsewhere(name);
                return Answer::unknown(format!("{name} was not measured on {link:?}{elsewhere}"));
            }
        }
        let Some((ratio, interval)) = stats::ratio(over, under) else {
            return Answer::unknown(format!("{} carried nothing", below.subject));
        };
        let figure =
            format!("{} against {}: {}", above.named(over), below.named(under), times(ratio, interval));
        let stand_in =
            [&above.subject, &below.subject].into_iter().find(|name| self.stand_in(name).is_some());
        if let Some(name) = stand_in {
            return Answer::unknown(format!("{figure}; {name} is a stand-in"));
        }
        match interval.map(|interval| judge(interval, right)) {
            None => Answer::unknown(format!("{figure}; fewer than 3 rounds have no interval")),
            Some(Verdict::CannotBeTold) => Answer::unknown(format!("{figure}; the interval is too wide")),
            Some(verdict) => Answer { verdict, figure },
        }
    }
}

/// Which figure is looked at.
#[derive(Clone, Copy)]
struct Figure<'a> {
    link: &'a str,
    workload: &'a str,
    figure: &'a str,
    unit: &'a str,
}

/// One subject's values of a figure.
#[derive(Clone)]
struct Series {
    subject: String,
    link: String,
    workload: String,
    figure: &'static str,
    unit: &'static str,
}

impl Series {
    fn values<'s>(&self, samples: &'s Samples<'_>) -> &'s [f64] {
        samples.values(&self.link, &self.workload, &self.subject, self.figure)
    }

    fn named(&self, values: &[f64]) -> String {
        format!("{} on {:?}: {}", self.subject, self.link, said(values, self.unit))
    }
}

/// A median with its interval, for people.
fn said(values: &[f64], unit: &str) -> String {
    let median = stats::median(values).unwrap_or(f64::NAN);
    match stats::median_interval(values) {
        Some(Interval { low, high }) => {
            format!("{} ({} to {}) {unit}", number(median), number(low), number(high))
        }
        None => format!("{} {unit}", number(median)),
    }
}

fn times(ratio: f64, interval: Option<Interval>) -> String {
    match interval {
        Some(Interval { low, high }) => format!("{ratio:.3} x ({low:.3} to {high:.3})"),
        None => format!("{ratio:.3} x"),
    }
}

/// Where the ratio of two series lies, if its whole interval does; nothing of too few rounds.
fn side(above: &[f64], below: &[f64]) -> Option<Side> {
    let (_, interval) = stats::ratio(above, below)?;
    let Interval { low, high } = interval?;
    Some(match () {
        () if high < 1.0 => Side::Below,
        () if low > 1.0 => Side::Above,
        () => Side::About,
    })
}

/// Whether a ratio lies where it should.
fn judge(Interval { low, high }: Interval, right: Side) -> Verdict {
    let alike = low >= 1.0 - ALIKE && high <= 1.0 + ALIKE;
    let (holds, fails) = match right {
        Side::Above => (low > 1.0 && !alike, high < 1.0 || alike),
        Side::Below => (high < 1.0 && !alike, low > 1.0 || alike),
        Side::About => (alike, low > 1.0 + ALIKE || high < 1.0 - ALIKE),
    };
    match (holds, fails) {
        (true, _) => Verdict::Holds,
        (_, true) => Verdict::NoLonger,
        _ => Verdict::CannotBeTold,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::record::{Cell, Outcome, Record};

    /// Results in which each subject had these values, on a link, of a workload's figure.
    pub(crate) type MadeUp<'a> = (&'a str, &'a str, &'a str, &'a str, &'a [f64]);

    pub(crate) fn made_up(plan: &str, all: &[MadeUp<'_>]) -> Results {
        let mut records = Vec::new();
        for (subject, link, workload, figure, values) in all {
            for (value, round) in values.iter().zip(0..) {
                let mut outcome = Outcome::default();
                outcome.figures.insert((*figure).to_owned(), *value);
                let [subject, link, workload] = [subject, link, workload].map(|name| (*name).to_owned());
                records.push(Record { cell: Cell { subject, link, workload, round }, outcome });
            }
        }
        let plan = Plan::parse("made up", plan).unwrap();
        Results { plan, environment: Default::default(), records, references: Default::default() }
    }

    const DEKKER: &str = "title = 'x'\nstudy = 'dekker-2020'\nsubjects = ['veth']\n[[link]]\nname = 'a'\n\
                          [[workload]]\nkind = 'tcp'\n";

    fn verdict(results: &Results, words: &str) -> (Verdict, String) {
        let found = findings(results).into_iter().find(|finding| finding.claim.contains(words)).unwrap();
        (found.verdict, found.figure)
    }

    #[test]
    fn who_is_first_is_first_only_with_the_whole_interval() {
        let of = |ours: &[f64], theirs: &[f64]| {
            let all = [
                ("wireguard-go", "a", "latency", "idle_p50_us", ours),
                ("openvpn-udp", "a", "latency", "idle_p50_us", theirs),
            ];
            verdict(&made_up(DEKKER, &all), "worst latency")
        };
        assert_eq!(of(&[90.0, 91.0, 92.0], &[60.0, 61.0, 62.0]).0, Verdict::Holds);
        assert_eq!(of(&[50.0, 51.0, 52.0], &[60.0, 61.0, 62.0]).0, Verdict::NoLonger);
        let (overlap, figure) = of(&[55.0, 61.0, 70.0], &[60.0, 61.0, 62.0]);
        assert_eq!(overlap, Verdict::CannotBeTold);
        assert!(figure.contains("wireguard-go 61 (55 to 70) µs") && figure.contains("overlap"), "{figure}");
        assert!(of(&[90.0], &[60.0]).1.contains("fewer than 3 rounds"));
        assert!(of(&[90.0, 90.0, 90.0], &[]).1.contains("no other"));
        assert!(of(&[], &[60.0]).1.contains("wireguard-go was not measured"));
    }

    #[test]
    fn bytes_that_compress_to_nothing_say_nothing_of_a_slow_link() {
        let plan = "title = 'x'\nstudy = 'pena-2000'\nsubjects = ['veth']\n[[link]]\nname = 'a'\nrate = 10300\n\
                    [[link]]\nname = 'b'\nrate = 100000000\n[[workload]]\nkind = 'transfer'\nkib = 16\n";
        let of = |workload, share: f64| {
            let all = [
                ("openvpn-udp", "a", "transfer-16", "up_client_cpu_percent", &[0.02, 0.02, 0.03][..]),
                ("openvpn-udp-lz4", "a", workload, "up_client_cpu_percent", &[share; 3]),
                ("openvpn-udp", "b", "tcp", "up_client_cpu_percent", &[20.0; 3]),
            ];
            verdict(&made_up(plan, &all), "On a slow link a VPN takes")
        };
        let (told, figure) = of("transfer-16-compressible", 32.0);
        assert_eq!(told, Verdict::Holds, "{figure}");
        assert!(figure.contains("openvpn-udp on"), "{figure}");
        assert_eq!(of("transfer-16", 32.0).0, Verdict::NoLonger);
    }

    #[test]
    fn nothing_is_concluded_from_a_stand_in() {
        let all = [
            ("strongswan", "a", "latency", "idle_p50_us", &[10.0, 11.0, 12.0][..]),
            ("openvpn-udp", "a", "latency", "idle_p50_us", &[60.0, 61.0, 62.0]),
            ("wireguard-go", "a", "latency", "idle_p50_us", &[90.0, 91.0, 92.0]),
        ];
        let mut results = made_up(DEKKER, &all);
        assert_eq!(verdict(&results, "lowest latency").0, Verdict::Holds);
        results.environment.stand_ins.insert("strongswan".to_owned(), "the kernel's".to_owned());
        let (told, figure) = verdict(&results, "lowest latency");
        assert_eq!(told, Verdict::CannotBeTold);
        assert!(figure.contains("stands in for the kernel's"), "{figure}");
        assert_eq!(verdict(&results, "worst latency").0, Verdict::Holds, "the others can still be told");
        let mut slow = made_up(
            DEKKER,
            &[("strongswan", "a", "latency", "idle_p50_us", &[95.0, 96.0, 97.0]), all[1], all[2]],
        );
        slow.environment.stand_ins = results.environment.stand_ins;
        let (told, figure) = verdict(&slow, "worst latency");
        assert_eq!(told, Verdict::CannotBeTold, "it is not the stand-in that was meant, but it is worse");
        assert!(figure.ends_with("strongswan only stands in for the kernel's"), "{figure}");
    }

    #[test]
    fn a_command_tells_elsewhere_what_this_kernel_lacks() {
        let all = [("openvpn-udp", "a", "latency", "idle_p50_us", &[60.0, 61.0, 62.0][..])];
        let mut results = made_up(DEKKER, &all);
        results.environment.command = "adit-lab run dekker-2020".to_owned();
        let told = |results: &Results| verdict(results, "in the kernel and OpenVPN").1;
        assert_eq!(told(&results), "wireguard-kernel was not measured on \"a\"");
        let lacks = format!("not possible here: {} WireGuard (module wireguard): x", subjects::NO_MODULE);
        results.environment.subjects.insert("wireguard-kernel".to_owned(), lacks.clone());
        let elsewhere = "`adit-lab run dekker-2020` tells it on a machine whose kernel has what";
        assert!(
            told(&results).ends_with(&format!("\"a\"; {elsewhere} wireguard-kernel needs")),
            "{}",
            told(&results)
        );
        results.environment.subjects.insert("strongswan-kernel".to_owned(), lacks);
        let (_, figure) = verdict(&results, "strongSwan has the lowest latency");
        assert_eq!(figure, format!("strongswan was not measured; {elsewhere} strongswan-kernel needs"));
    }

    #[test]
    fn alike_is_not_the_same_as_unsure() {
        let interval = |low, high| Interval { low, high };
        assert_eq!(judge(interval(0.98, 1.02), Side::About), Verdict::Holds);
        assert_eq!(judge(interval(0.90, 1.02), Side::About), Verdict::CannotBeTold);
        assert_eq!(judge(interval(1.10, 1.20), Side::About), Verdict::NoLonger);
        assert_eq!(judge(interval(1.10, 1.20), Side::Above), Verdict::Holds);
        assert_eq!(judge(interval(0.98, 1.02), Side::Above), Verdict::NoLonger);
        assert_eq!(judge(interval(0.90, 1.20), Side::Above), Verdict::CannotBeTold);
        assert_eq!(judge(interval(0.10, 0.20), Side::Below), Verdict::Holds);
        assert_eq!(judge(interval(0.98, 0.99), Side::Below), Verdict::NoLonger, "one percent is no cost");
        assert_eq!(judge(interval(0.90, 0.99), Side::Below), Verdict::Holds);
    }

    #[test]
    fn every_study_has_conclusions_and_all_can_be_asked_of_nothing() {
        for (study, _) in crate::published::STUDIES {
            let results = made_up(&DEKKER.replace("dekker-2020", study), &[]);
            let found = findings(&results);
            assert!(!found.is_empty(), "{study}");
            for finding in found {
                assert_eq!(finding.verdict, Verdict::CannotBeTold, "{finding:?}");
                assert!(!finding.figure.is_empty());
            }
        }
    }
}
