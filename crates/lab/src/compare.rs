//! Two runs beside each other.

use std::fmt;

use crate::record::Cell;
use crate::results::{Place, Results};
use crate::stats::{self, Interval};

/// How one figure changed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) place: Place,
    /// The median now over the median before.
    pub(crate) ratio: f64,
    pub(crate) interval: Option<Interval>,
    pub(crate) verdict: Verdict,
}

/// The meaning of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Within the threshold, or the interval does not exclude that.
    Same,
    /// Better by more than the threshold.
    Better,
    /// Worse by more than the threshold.
    Worse,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { link, workload, figure, subject } = &self.place;
        let word = match self.verdict {
            Verdict::Same => "",
            Verdict::Better => "  better",
            Verdict::Worse => "  WORSE",
        };
        write!(f, "{subject}, {link}, {workload}, {figure}: {:.3} x", self.ratio)?;
        if let Some(Interval { low, high }) = self.interval {
            write!(f, " ({low:.3} to {high:.3})")?;
        }
        f.write_str(word)
    }
}

/// A measurement that was made before, was to be made again, and was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    subject: String,
    link: String,
    workload: String,
    why: String,
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gone { subject, link, workload, why } = self;
        write!(f, "{subject}, {link}, {workload}: was measured before, and is not now: {why}  WORSE")
    }
}

/// Whether more of a figure is better; nothing of one that is neither, such as an offered load.
pub(crate) fn more_is_better(figure: &str) -> Option<bool> {
    let neither = ["_percent", "_bytes"].iter().any(|unit| figure.ends_with(unit));
    if neither
        || figure.contains("offered")
        || ["link_", "tunnel_"].iter().any(|what| figure.starts_with(what))
    {
        return None;
    }
    let less =
        ["_us", "_ms", "_s_per_gb", "_lost", "_dropped", "_kib"].iter().any(|unit| figure.ends_with(unit));
    Some(!less)
}

/// Compares all figures that both runs have. A figure is worse when its whole interval lies beyond the
/// threshold; without an interval, when the ratio does.
pub(crate) fn compare(before: &Results, after: &Results, threshold: f64) -> Vec<Change> {
    let old = before.figures();
    let changes = after.figures().into_iter().filter_map(|(place, values)| {
        let better_up = more_is_better(&place.figure)?;
        let (ratio, interval) = stats::ratio(&values, old.get(&place)?)?;
        let verdict = verdict(ratio, interval, better_up, threshold);
        Some(Change { place, ratio, interval, verdict })
    });
    changes.collect()
}

/// The measurements that both runs were to make and that only the earlier one made.
pub(crate) fn gone(before: &Results, after: &Results) -> Vec<Gone> {
    let said = |results: &Results, wanted: &Cell| {
        let same = |cell: &Cell| {
            (&cell.subject, &cell.link, &cell.workload) == (&wanted.subject, &wanted.link, &wanted.workload)
        };
        results.records.iter().any(|record| same(&record.cell) && record.outcome.says_something())
    };
    let wanted = |cell: &&Cell| {
        let plan = &after.plan;
        plan.subjects.contains(&cell.subject)
            && plan.links.iter().any(|link| link.name == cell.link && link.carries(&cell.workload))
            && plan.workloads.iter().any(|load| load.name() == cell.workload)
    };
    let mut cells: Vec<Cell> =
        before.records.iter().map(|record| Cell { round: 0, ..record.cell.clone() }).collect();
    cells.sort();
    cells.dedup();
    let gone = cells.iter().filter(wanted).filter(|cell| said(before, cell) && !said(after, cell));
    gone.map(|cell| {
        let mut records = after.records_of(&cell.link, &cell.workload, &cell.subject);
        let why = records.find_map(|record| record.outcome.failure.as_ref());
        let why = why.and_then(|why| why.lines().next()).unwrap_or("the run did not come to it").to_owned();
        let Cell { subject, link, workload, .. } = cell.clone();
        Gone { subject, link, workload, why }
    })
    .collect()
}

fn verdict(ratio: f64, interval: Option<Interval>, better_up: bool, threshold: f64) -> Verdict {
    let Interval { low, high } = interval.unwrap_or(Interval { low: ratio, high: ratio });
    let (fell, rose) = (high < 1.0 - threshold, low > 1.0 + threshold);
    match (fell, rose, better_up) {
        (true, _, true) | (_, true, false) => Verdict::Worse,
        (true, _, false) | (_, true, true) => Verdict::Better,
        _ => Verdict::Same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::made_up;
    use crate::record::Outcome;

    #[test]
    fn direction_depends_on_the_unit() {
        assert_eq!(more_is_better("up_mbit"), Some(true));
        assert_eq!(more_is_better("kept"), Some(true));
        assert_eq!(more_is_better("idle_p99_us"), Some(false));
        assert_eq!(more_is_better("up_cpu_s_per_gb"), Some(false));
        assert_eq!(more_is_better("double_offered_pps"), None);
        assert_eq!(more_is_better("up_busy_percent"), None);
        assert_eq!(more_is_better("tunnel_queue"), None);
    }

    #[test]
    fn a_verdict_needs_the_whole_interval() {
        let interval = |low, high| Some(Interval { low, high });
        assert_eq!(verdict(0.8, interval(0.75, 0.85), true, 0.1), Verdict::Worse);
        assert_eq!(verdict(0.8, interval(0.75, 0.95), true, 0.1), Verdict::Same);
        assert_eq!(verdict(0.8, interval(0.75, 0.85), false, 0.1), Verdict::Better);
        assert_eq!(verdict(1.3, None, false, 0.1), Verdict::Worse);
        assert_eq!(verdict(1.05, None, true, 0.1), Verdict::Same);
    }

    #[test]
    fn what_is_no_longer_measured_is_told() {
        let plan = "title = 'x'\nsubjects = ['tinc', 'vtun']\n[[workload]]\nkind = 'tcp'\n";
        let all = [
            ("tinc", "no limit", "tcp", "up_mbit", &[1.0][..]),
            ("vtun", "no limit", "tcp", "up_mbit", &[1.0]),
        ];
        let (before, mut after) = (made_up(plan, &all), made_up(plan, &all));
        assert_eq!(gone(&before, &after), []);
        after.records[1].outcome = Outcome::failed("no device\nand more");
        let told: Vec<String> = gone(&before, &after).iter().map(Gone::to_string).collect();
        assert_eq!(told, ["vtun, no limit, tcp: was measured before, and is not now: no device  WORSE"]);
        after.records.pop();
        assert!(gone(&before, &after)[0].to_string().contains("did not come to it"));
        after.plan.subjects.pop();
        assert_eq!(gone(&before, &after), [], "it was not asked for");
        assert_eq!(gone(&after, &before), [], "it is there now");
    }
}
