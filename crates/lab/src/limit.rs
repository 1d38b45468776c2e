//! A limit of a plan: the bounds of a subject's figures beside another subject's of the same rounds.

use serde::{Deserialize, Serialize};

/// The bounds of the ratio of a subject's figures to another subject's. Without bounds the ratio is shown alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Limit {
    /// The subject whose figures are the numerators.
    pub(crate) subject: String,
    /// The subject whose figures are the denominators.
    pub(crate) beside: String,
    /// The figures, such as `up_mbit`, of each workload and link that has them.
    pub(crate) figures: Vec<String>,
    /// The least median of the rounds' ratios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at_least: Option<f64>,
    /// The greatest median of the rounds' ratios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at_most: Option<f64>,
}

impl Limit {
    /// The limit's fault in a plan with these subjects.
    pub(crate) fn fault(&self, subjects: &[String]) -> Option<String> {
        let unknown = [&self.subject, &self.beside].into_iter().find(|name| !subjects.contains(name));
        if let Some(name) = unknown {
            return Some(format!("[[limit]]: {name} is not among the plan's subjects"));
        }
        self.figures.is_empty().then(|| "[[limit]]: figures: at least one is needed".to_owned())
    }

    /// Whether it concerns subjects that are both measured.
    pub(crate) fn is_among(&self, subjects: &[String]) -> bool {
        [&self.subject, &self.beside].into_iter().all(|name| subjects.contains(name))
    }

    /// Whether a ratio is within the bounds.
    pub(crate) fn is_kept(&self, ratio: f64) -> bool {
        self.at_least.is_none_or(|least| ratio >= least) && self.at_most.is_none_or(|most| ratio <= most)
    }

    /// The bounds, for a person.
    pub(crate) fn words(&self) -> String {
        match (self.at_least, self.at_most) {
            (Some(least), None) => format!("≥ {least}"),
            (None, Some(most)) => format!("≤ {most}"),
            (Some(least), Some(most)) => format!("{least} to {most}"),
            (None, None) => "none".to_owned(),
        }
    }
}
