//! Two runs beside each other.

use std::fmt;

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

/// What a change means.
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

/// Whether more of a figure is better; nothing of one that is neither, such as an offered load.
pub(crate) fn more_is_better(figure: &str) -> Option<bool> {
    let neither = ["_percent", "_bytes"].iter().any(|unit| figure.ends_with(unit));
    if neither || figure.contains("offered") || figure.starts_with("link_") {
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

    #[test]
    fn direction_depends_on_the_unit() {
        assert_eq!(more_is_better("up_mbit"), Some(true));
        assert_eq!(more_is_better("kept"), Some(true));
        assert_eq!(more_is_better("idle_p99_us"), Some(false));
        assert_eq!(more_is_better("up_cpu_s_per_gb"), Some(false));
        assert_eq!(more_is_better("double_offered_pps"), None);
        assert_eq!(more_is_better("up_busy_percent"), None);
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
}
