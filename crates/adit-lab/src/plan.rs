//! Plans: what is measured, as a TOML file that a researcher can write.

use serde::{Deserialize, Serialize};

use crate::link::Link;
use crate::published;
use crate::workload::Workload;

/// What is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Plan {
    /// A line for the head of the report.
    pub(crate) title: String,
    /// What it is for, and what it repeats.
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
    /// Who is measured, by the names that `adit-lab list` shows.
    pub(crate) subjects: Vec<String>,
    /// Between which ends. One without limits if none is named.
    #[serde(default = "unlimited", rename = "link")]
    pub(crate) links: Vec<Link>,
    /// How.
    #[serde(rename = "workload")]
    pub(crate) workloads: Vec<Workload>,
}

fn five() -> u32 {
    5
}

fn unlimited() -> Vec<Link> {
    vec![Link::plain("no limit")]
}

/// What is wrong with a plan.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    /// Not TOML, or not ours: the text has the line and what would be right.
    #[error("{file}: {source}")]
    Syntax {
        /// The plan's file or name.
        file: String,
        /// What the parser says, with the line.
        source: Box<toml::de::Error>,
    },
    /// A value that cannot be.
    #[error("{file}: {what}")]
    Value {
        /// The plan's file or name.
        file: String,
        /// What is wrong and what would be right.
        what: String,
    },
}

impl Plan {
    /// Reads a plan; `file` names it in errors.
    pub(crate) fn parse(file: &str, text: &str) -> Result<Plan, PlanError> {
        let plan: Plan = toml::from_str(text)
            .map_err(|source| PlanError::Syntax { file: file.to_owned(), source: Box::new(source) })?;
        plan.check(file)?;
        Ok(plan)
    }

    /// An error for values that cannot be; also for those that the command line put in their place.
    pub(crate) fn check(&self, file: &str) -> Result<(), PlanError> {
        self.fault().map_or(Ok(()), |what| Err(PlanError::Value { file: file.to_owned(), what }))
    }

    fn fault(&self) -> Option<String> {
        if self.rounds == 0 || self.seconds == 0 {
            return Some("rounds and seconds must be 1 or more".to_owned());
        }
        for (what, empty) in [
            ("subjects", self.subjects.is_empty()),
            ("[[link]]", self.links.is_empty()),
            ("[[workload]]", self.workloads.is_empty()),
        ] {
            if empty {
                return Some(format!("{what}: at least one is needed"));
            }
        }
        twice(self.subjects.iter().cloned())
            .map(|name| format!("subjects: {name} is there twice"))
            .or_else(|| {
                twice(self.links.iter().map(|link| link.name.clone()))
                    .map(|name| format!("[[link]]: two are called {name:?}"))
            })
            .or_else(|| {
                twice(self.workloads.iter().map(Workload::name))
                    .map(|name| format!("[[workload]]: {name} is there twice"))
            })
            .or_else(|| {
                let unknown = self.study.as_ref().filter(|name| published::study(name).is_none())?;
                Some(format!("study: nothing is known of {unknown}"))
            })
            .or_else(|| self.links.iter().find_map(Link::fault))
            .or_else(|| self.workloads.iter().find_map(Workload::fault))
    }
}

fn twice(names: impl Iterator<Item = String>) -> Option<String> {
    let mut seen = std::collections::BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(name.clone()))
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
    fn faults_are_told_with_their_place() {
        for (text, part) in [
            ("title = 3\n".to_owned(), "line 1"),
            (format!("{SMALL}sizes = 3\n"), "sizes"),
            (SMALL.replace("'tcp'", "'tpc'"), "tpc"),
            (format!("study = 'mine'\n{SMALL}"), "nothing is known of mine"),
            (SMALL.replace("['veth']", "[]"), "subjects: at least one"),
            (SMALL.replace("['veth']", "['veth', 'veth']"), "veth is there twice"),
            (format!("rounds = 0\n{SMALL}"), "rounds and seconds"),
            (format!("{SMALL}[[link]]\nname = 'a'\nloss = 1.5\n"), "loss must be"),
            (format!("{SMALL}[[link]]\nname = 'a'\nrate = 10\n"), "bits a second"),
            (format!("{SMALL}[[link]]\nname = 'a'\n[[link]]\nname = 'a'\n"), "two are called"),
            (format!("{SMALL}[[workload]]\nkind = 'udp'\nsize = 0\n"), "size must be"),
        ] {
            let error = Plan::parse("bad.toml", &text).unwrap_err().to_string();
            assert!(error.starts_with("bad.toml: ") && error.contains(part), "{text}\n{error}");
        }
    }
}
