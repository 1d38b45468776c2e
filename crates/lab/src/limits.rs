//! The verdicts on the limits of a run's plan.

use std::fmt;

use crate::limit::Limit;
use crate::results::Results;
use crate::stats;

/// The ratios of the rounds of one figure, beside their limit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// The subjects, the link, the workload and the figure.
    place: String,
    /// Least, median and greatest of the rounds' ratios. `None`: no round measured both subjects.
    ratios: Option<[f64; 3]>,
    limit: String,
    /// Whether the median keeps the limit. A limit that was not measured is not kept.
    pub(crate) is_kept: bool,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { place, ratios, limit, is_kept } = self;
        let word = if *is_kept { "ok    " } else { "FAILED" };
        match ratios {
            Some([least, median, most]) => {
                write!(f, "{word} {place}: {median:.3} ({least:.3} to {most:.3}), limit {limit}")
            }
            None => write!(f, "{word} {place}: not measured, limit {limit}"),
        }
    }
}

/// The verdicts on all limits of a run's plan, in the order of the plan.
pub(crate) fn verdicts(results: &Results) -> Vec<Verdict> {
    results.plan.limits.iter().flat_map(|limit| of_limit(results, limit)).collect()
}

fn of_limit(results: &Results, limit: &Limit) -> Vec<Verdict> {
    let mut found: Vec<Verdict> = Vec::new();
    for figure in &limit.figures {
        let before = found.len();
        for link in &results.plan.links {
            let carried = results.plan.workloads.iter().map(|load| load.name());
            for load in carried.filter(|load| link.carries(load)) {
                let ratios = ratios(results, limit, &link.name, &load, figure);
                if let Some(spread) = spread(&ratios) {
                    let place =
                        format!("{} / {}, {}, {load}, {figure}", limit.subject, limit.beside, link.name);
                    let is_kept = limit.is_kept(spread[1]);
                    found.push(Verdict { place, ratios: Some(spread), limit: limit.words(), is_kept });
                }
            }
        }
        if found.len() == before {
            let place = format!("{} / {}, {figure}", limit.subject, limit.beside);
            let is_kept = limit.at_least.is_none() && limit.at_most.is_none();
            found.push(Verdict { place, ratios: None, limit: limit.words(), is_kept });
        }
    }
    found
}

/// The ratios of the rounds in which both subjects have the figure.
fn ratios(results: &Results, limit: &Limit, link: &str, load: &str, figure: &str) -> Vec<f64> {
    let ratio = |record: &crate::record::Record| {
        let mut beside = results.records_of(link, load, &limit.beside);
        let other = beside.find(|other| other.cell.round == record.cell.round)?;
        let other = other.outcome.figures.get(figure).filter(|other| **other != 0.0)?;
        Some(record.outcome.figures.get(figure)? / other)
    };
    results.records_of(link, load, &limit.subject).filter_map(ratio).collect()
}

/// Least, median and greatest.
fn spread(values: &[f64]) -> Option<[f64; 3]> {
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    let most = values.iter().copied().max_by(f64::total_cmp)?;
    Some([least, stats::median(values)?, most])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::made_up;

    fn run(limit: &str) -> Vec<Verdict> {
        let plan = format!(
            "title = 'x'\nsubjects = ['veth', 'null', 'tinc']\n[[workload]]\nkind = 'tcp'\n[[limit]]\n{limit}"
        );
        let all = [
            ("veth", "no limit", "tcp", "up_mbit", &[100.0, 200.0, 400.0][..]),
            ("null", "no limit", "tcp", "up_mbit", &[95.0, 180.0, 400.0]),
        ];
        verdicts(&made_up(&plan, &all))
    }

    #[test]
    fn the_median_of_the_ratios_of_rounds_is_judged() {
        let at_least = |least| {
            run(&format!("subject = 'null'\nbeside = 'veth'\nfigures = ['up_mbit']\nat-least = {least}\n"))
        };
        let kept = at_least(0.95);
        let line = "ok     null / veth, no limit, tcp, up_mbit: 0.950 (0.900 to 1.000), limit ≥ 0.95";
        assert_eq!(kept.iter().map(ToString::to_string).collect::<Vec<_>>(), [line]);
        assert!(!at_least(0.96)[0].is_kept);
        let at_most = run("subject = 'null'\nbeside = 'veth'\nfigures = ['up_mbit']\nat-most = 0.94\n");
        assert!(!at_most[0].is_kept);
    }

    #[test]
    fn a_limit_that_was_not_measured_is_not_kept_and_a_ratio_without_one_is_shown() {
        let limited = run("subject = 'tinc'\nbeside = 'veth'\nfigures = ['up_mbit']\nat-least = 0.1\n");
        assert!(!limited[0].is_kept && limited[0].to_string().contains("not measured"), "{limited:?}");
        let shown = run("subject = 'null'\nbeside = 'veth'\nfigures = ['up_mbit']\n");
        assert!(shown[0].is_kept && shown[0].to_string().ends_with("limit none"), "{shown:?}");
    }
}
