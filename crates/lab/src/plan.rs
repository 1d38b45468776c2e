//! Plans: the measurements of a run, as a TOML file that a researcher can write.

use serde::{Deserialize, Serialize};

use crate::limit::Limit;
use crate::link::Link;
use crate::published;
use crate::workload::Workload;

/// A load that is shorter than this has not found its speed.
const LEAST_SECONDS: u32 = 2;
/// The word in the place of subjects that stands for all.
pub(crate) const ALL: &str = "all";

/// A plan: the subjects, links and workloads to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Plan {
    /// A line for the head of the report.
    pub(crate) title: String,
    /// The plan's purpose, and the study that it repeats.
    #[serde(default)]
    pub(crate) about: String,
    /// The published study whose rows stand beside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) study: Option<String>,
    /// How often everything is measured.
    #[serde(default = "five")]
    pub(crate) rounds: u32,
    /// How long each load runs.
    #[serde(default = "five")]
    pub(crate) seconds: u32,
    /// The subjects, by the names that `adit-lab list` shows.
    pub(crate) subjects: Vec<String>,
    /// Between which ends. One without limits if none is named.
    #[serde(default = "unlimited", rename = "link")]
    pub(crate) links: Vec<Link>,
    /// How.
    #[serde(rename = "workload")]
    pub(crate) workloads: Vec<Workload>,
    /// The bounds of subjects' figures beside other subjects'. A run that breaks one has failed.
    #[serde(default, rename = "limit", skip_serializing_if = "Vec::is_empty")]
    pub(crate) limits: Vec<Limit>,
}

fn five() -> u32 {
    5
}

fn unlimited() -> Vec<Link> {
    vec![Link::plain("no limit")]
}

/// The error of a plan.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    /// Not TOML, not ours, or a value that cannot be.
    #[error("{file}:{line}: {what}")]
    Line {
        /// The plan's file or name.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The fault, and what would be right.
        what: String,
    },
    /// A value that cannot be, from the command line.
    #[error("{file}: {what}")]
    Value {
        /// The plan's file or name.
        file: String,
        /// The fault, and what would be right.
        what: String,
    },
}

impl Plan {
    /// Reads a plan; `file` names it in errors.
    pub(crate) fn parse(file: &str, text: &str) -> Result<Plan, PlanError> {
        let at = |line, what| PlanError::Line { file: file.to_owned(), line, what };
        let plan: Plan = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let before = text.as_bytes().get(..start).unwrap_or_default();
            at(1 + before.iter().filter(|byte| **byte == b'\n').count(), error.message().to_owned())
        })?;
        match plan.fault() {
            Some((mark, what)) => Err(at(mark.line(text), what)),
            None => Ok(plan),
        }
    }

    /// A shorter run: a share of the starts, echoes and seconds, all subjects and all rounds. It says so itself.
    pub(crate) fn scaled(mut self, share: f64) -> Plan {
        self.workloads = self.workloads.iter().map(|load| load.scaled(share)).collect();
        let seconds = (f64::from(self.seconds) * share).round() as u32;
        self.seconds = seconds.max(LEAST_SECONDS.min(self.seconds));
        self.about =
            format!("{} This is a run at {share} of the plan's starts, echoes and seconds.", self.about);
        self
    }

    /// An error for values that cannot be; also for those that the command line put in their place.
    pub(crate) fn check(&self, file: &str) -> Result<(), PlanError> {
        let error = |(_, what)| PlanError::Value { file: file.to_owned(), what };
        self.fault().map_or(Ok(()), |fault| Err(error(fault)))
    }

    /// The plan's fault, and its place.
    fn fault(&self) -> Option<(Mark, String)> {
        self.fault_of_head()
            .or_else(|| {
                let seen = twice(self.links.iter().map(|link| link.name.clone()));
                seen.map(|(index, name)| (Mark::Link(index), format!("[[link]]: two are called {name:?}")))
            })
            .or_else(|| {
                let seen = twice(self.workloads.iter().map(Workload::name));
                seen.map(|(index, name)| {
                    (Mark::Workload(index), format!("[[workload]]: {name} is there twice"))
                })
            })
            .or_else(|| {
                let mut links = self.links.iter().enumerate();
                links.find_map(|(index, link)| Some((Mark::Link(index), link.fault()?)))
            })
            .or_else(|| {
                let loads: Vec<String> = self.workloads.iter().map(Workload::name).collect();
                let unknown = |link: &Link| link.only.iter().find(|name| !loads.contains(name)).cloned();
                let mut links = self.links.iter().enumerate();
                links.find_map(|(index, link)| {
                    let what = format!("[[link]] {:?}: no workload is called {}", link.name, unknown(link)?);
                    Some((Mark::Link(index), what))
                })
            })
            .or_else(|| {
                let mut loads = self.workloads.iter().enumerate();
                loads.find_map(|(index, load)| Some((Mark::Workload(index), load.fault()?)))
            })
            .or_else(|| {
                let mut limits = self.limits.iter().enumerate();
                limits.find_map(|(index, limit)| Some((Mark::Limit(index), limit.fault(&self.subjects)?)))
            })
    }

    /// The fault of the keys above the tables, and its place.
    fn fault_of_head(&self) -> Option<(Mark, String)> {
        for (key, value) in [("rounds", self.rounds), ("seconds", self.seconds)] {
            if value == 0 {
                return Some((Mark::Key(key), "rounds and seconds must be 1 or more".to_owned()));
            }
        }
        for (what, empty) in [
            ("subjects", self.subjects.is_empty()),
            ("[[link]]", self.links.is_empty()),
            ("[[workload]]", self.workloads.is_empty()),
        ] {
            if empty {
                return Some((Mark::Key(what), format!("{what}: at least one is needed")));
            }
        }
        let seen = twice(self.subjects.iter().cloned());
        seen.map(|(_, name)| (Mark::Key("subjects"), format!("subjects: {name} is there twice"))).or_else(
            || {
                let unknown = self.study.as_ref().filter(|name| published::study(name).is_none())?;
                Some((Mark::Key("study"), format!("study: nothing is known of {unknown}")))
            },
        )
    }
}

/// The part of a plan that has a fault.
#[derive(Clone, Copy, Debug)]
enum Mark {
    Key(&'static str),
    /// The how-manieth, from 0.
    Link(usize),
    Workload(usize),
    Limit(usize),
}

impl Mark {
    /// Where that begins in a plan's text, from 1.
    fn line(self, text: &str) -> usize {
        let (start, nth) = match self {
            Mark::Key(key) => (key, 0),
            Mark::Link(nth) => ("[[link]]", nth),
            Mark::Workload(nth) => ("[[workload]]", nth),
            Mark::Limit(nth) => ("[[limit]]", nth),
        };
        let mut found = text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with(start));
        found.nth(nth).map_or(1, |(index, _)| index + 1)
    }
}

/// The first that was there before, and its place.
fn twice(names: impl Iterator<Item = String>) -> Option<(usize, String)> {
    let mut seen = std::collections::BTreeSet::new();
    names.enumerate().find(|(_, name)| !seen.insert(name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Payload;

    const SMALL: &str = "title = 'x'\nsubjects = ['veth']\n[[workload]]\nkind = 'tcp'\n";

    #[test]
    fn what_is_left_out_has_its_default() {
        let plan = Plan::parse("small", SMALL).unwrap();
        assert_eq!((plan.rounds, plan.seconds), (5, 5));
        assert_eq!(plan.links, unlimited());
        assert_eq!(plan.workloads, [Workload::Tcp { write: None, payload: Payload::Random }]);
        let again = Plan::parse("again", &toml::to_string(&plan).unwrap()).unwrap();
        assert_eq!(again, plan);
    }

    #[test]
    fn a_share_says_so() {
        let plan = Plan::parse("small", SMALL).unwrap().scaled(0.1);
        assert_eq!((plan.rounds, plan.seconds), (5, 2));
        assert!(plan.about.contains("at 0.1 of"), "{}", plan.about);
    }

    #[test]
    fn faults_are_told_with_their_place() {
        for (text, part) in [
            ("title = 3\n".to_owned(), "bad.toml:1: "),
            (format!("{SMALL}sizes = 3\n"), "sizes"),
            (SMALL.replace("'tcp'", "'tpc'"), "tpc"),
            (format!("study = 'mine'\n{SMALL}"), "nothing is known of mine"),
            (SMALL.replace("['veth']", "[]"), "subjects: at least one"),
            (SMALL.replace("['veth']", "['veth', 'veth']"), "veth is there twice"),
            (format!("rounds = 0\n{SMALL}"), "rounds and seconds"),
            (format!("{SMALL}[[link]]\nname = 'a'\nonly = ['udp-64']\n"), "no workload is called udp-64"),
            (format!("{SMALL}[[link]]\nname = 'a'\nloss = 1.5\n"), "loss must be"),
            (format!("{SMALL}[[link]]\nname = 'a'\nrate = 10\n"), "bits a second"),
            (format!("{SMALL}[[link]]\nname = 'a'\n[[link]]\nname = 'a'\n"), "two are called"),
            (format!("{SMALL}[[workload]]\nkind = 'udp'\nsize = 0\n"), "size must be"),
            (
                format!("{SMALL}[[limit]]\nsubject = 'veth'\nbeside = 'null'\nfigures = ['up_mbit']\n"),
                "bad.toml:5: [[limit]]: null is not among",
            ),
        ] {
            let error = Plan::parse("bad.toml", &text).unwrap_err().to_string();
            assert!(error.starts_with("bad.toml:") && error.contains(part), "{text}\n{error}");
        }
    }
}
