//! The figures of two builds, paired round by round.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::metrics::{BENCH_ROW, METRICS, Metric};
use crate::commands::output::{cell, spread, table};

/// A build: the earlier or the later one.
pub(super) const BUILDS: [&str; 2] = ["before", "after"];

/// All figures of a comparison.
#[derive(Serialize)]
pub(super) struct Comparison {
    pub(super) machine: Vec<String>,
    pub(super) rounds: u32,
    /// By figure and pair: before and after.
    figures: BTreeMap<String, BTreeMap<u32, [Option<f64>; 2]>>,
    /// By row of `adit bench`, the work and pair.
    bench: BTreeMap<String, BTreeMap<u32, [Option<f64>; 2]>>,
    pub(super) failures: Vec<String>,
}

/// The values of one figure in all pairs.
struct Pairs {
    before: Vec<f64>,
    after: Vec<f64>,
    /// The ratios of each pair that has both: after over before.
    ratios: Vec<f64>,
}

impl Pairs {
    fn of(pairs: &BTreeMap<u32, [Option<f64>; 2]>) -> Pairs {
        let both = |[before, after]: &[Option<f64>; 2]| Some((*before)?).zip(*after);
        let pairs: Vec<(f64, f64)> = pairs.values().filter_map(both).collect();
        Pairs {
            before: pairs.iter().map(|(before, _)| *before).collect(),
            after: pairs.iter().map(|(_, after)| *after).collect(),
            ratios: pairs.iter().map(|(before, after)| after / before).collect(),
        }
    }

    /// The median of the ratios.
    fn ratio(&self) -> f64 {
        spread(&self.ratios).map_or(f64::NAN, |[_, median, _]| median)
    }

    /// Where the median of many more such pairs lies, with 95 % confidence: between two of the sorted ratios, by the
    /// binomial distribution's normal approximation. Fewer than six pairs do not tell.
    fn interval(&self) -> String {
        let mut sorted = self.ratios.clone();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len() as f64;
        let beyond = ((count - 1.96 * count.sqrt()) / 2.0).floor();
        if count < 6.0 || beyond < 0.0 {
            return "–".to_owned();
        }
        let beyond = beyond as usize;
        match (sorted.get(beyond), sorted.iter().rev().nth(beyond)) {
            (Some(low), Some(high)) => format!("{low:.3}–{high:.3}"),
            _ => "–".to_owned(),
        }
    }
}

impl Comparison {
    pub(super) fn new(machine: Vec<String>, rounds: u32) -> Comparison {
        let (figures, bench, failures) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Comparison { machine, rounds, figures, bench, failures }
    }

    /// A figure of a build (0 is before) in a pair.
    pub(super) fn note(&mut self, name: &str, pair: u32, build: usize, value: f64) {
        set(&mut self.figures, name, pair, build, value);
    }

    /// A row of `adit bench`.
    pub(super) fn note_bench(&mut self, name: &str, pair: u32, build: usize, value: f64) {
        set(&mut self.bench, name, pair, build, value);
    }

    pub(super) fn fail(&mut self, round: u32, build: usize, what: &str, why: &str) {
        let build = BUILDS.get(build).copied().unwrap_or_default();
        self.failures.push(format!("round {}, {build}, {what}: {why}", round + 1));
    }

    /// Figures that were measured, each with its pairs.
    fn measured(&self) -> impl Iterator<Item = (&'static Metric, Pairs)> {
        METRICS.iter().filter_map(move |metric| Some((metric, Pairs::of(self.figures.get(metric.name)?))))
    }

    /// Whether all was measured, and each figure is within its limit.
    pub(super) fn is_good(&self) -> bool {
        self.failures.is_empty() && self.measured().all(|(metric, pairs)| metric.limit.allows(pairs.ratio()))
    }

    pub(super) fn markdown(&self) -> String {
        let mut text = self.machine.join("; ") + "\n\n";
        let _ = write!(
            text,
            "Medians over the pairs of {} rounds (least–most). The ratio is after over before within each pair; its median is judged. The interval is that of the median, with 95 % confidence.\n\n",
            self.rounds
        );
        let rows = self.measured().map(|(metric, pairs)| {
            let verdict = if metric.limit.allows(pairs.ratio()) { "pass" } else { "**FAIL**" };
            let [before, after] = [&pairs.before, &pairs.after].map(|values| cell(values, metric.decimals));
            let ratio = cell(&pairs.ratios, 3);
            let (count, limit) = (pairs.ratios.len().to_string(), metric.limit.to_string());
            let judged = [ratio, pairs.interval(), limit, verdict.to_owned()];
            [metric.words.to_owned(), count, before, after].into_iter().chain(judged).collect()
        });
        let columns = ["figure", "pairs", "before", "after", "ratio", "interval", "limit", "verdict"];
        text += &table(&columns, &rows.collect::<Vec<_>>());
        text += &self.bench_table();
        for failure in &self.failures {
            let _ = write!(text, "\n**NOT MEASURED: {}**\n", failure.trim());
        }
        text
    }

    /// The rows behind the means of `adit bench`: a single one is not judged, as 2 % are within the noise of one row.
    fn bench_table(&self) -> String {
        if self.bench.is_empty() {
            return String::new();
        }
        let rows: Vec<(&String, Pairs)> =
            self.bench.iter().map(|(name, rounds)| (name, Pairs::of(rounds))).collect();
        let beyond = rows.iter().filter(|(_, pairs)| !BENCH_ROW.allows(pairs.ratio())).count();
        let lines = rows.iter().map(|(name, pairs)| {
            let [before, after] = [&pairs.before, &pairs.after].map(|values| cell(values, 1));
            vec![(*name).clone(), before, after, cell(&pairs.ratios, 3)]
        });
        format!(
            "\n`adit bench`, nanoseconds a packet; {beyond} of {} rows are not {BENCH_ROW}:\n\n{}",
            rows.len(),
            table(&["row", "before", "after", "ratio"], &lines.collect::<Vec<_>>())
        )
    }
}

fn set(
    figures: &mut BTreeMap<String, BTreeMap<u32, [Option<f64>; 2]>>,
    name: &str,
    pair: u32,
    build: usize,
    value: f64,
) {
    let pair = figures.entry(name.to_owned()).or_default().entry(pair).or_default();
    if let Some(slot) = pair.get_mut(build) {
        *slot = Some(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(pairs: &[[f64; 2]]) -> Comparison {
        let mut comparison = Comparison::new(vec!["here".to_owned()], pairs.len() as u32);
        for (round, pair) in (0..).zip(pairs) {
            for (build, value) in pair.iter().enumerate() {
                comparison.note("udp_up_mbit", round, build, *value);
            }
        }
        comparison
    }

    #[test]
    fn pairs_are_formed_before_they_are_judged() {
        // The machine became slower from pair to pair; the later build is 1 % slower in each.
        let comparison = compared(&[[1000.0, 990.0], [500.0, 495.0], [100.0, 99.0]]);
        let text = comparison.markdown();
        assert!(comparison.is_good(), "{text}");
        let row = "| UDP, one TCP flow to the server, Mbit/s | 3 | 500 (100–1000) | 495 (99–990) | 0.990 (0.990–0.990) | – | ≥ 0.98 | pass |";
        assert!(text.contains(row), "{text}");
    }

    #[test]
    fn slower_than_the_limit_fails() {
        let comparison = compared(&[[1000.0, 970.0], [1000.0, 975.0], [1000.0, 1200.0]]);
        assert!(!comparison.is_good());
        assert!(comparison.markdown().contains("0.975 (0.970–1.200) | – | ≥ 0.98 | **FAIL** |"));
    }

    #[test]
    fn one_side_is_no_pair_and_a_failure_is_shown() {
        let mut comparison = compared(&[[1000.0, 1000.0]]);
        comparison.note("udp_up_mbit", 1, 0, 9000.0);
        assert!(comparison.markdown().contains("| 1 | 1000 | 1000 | 1.000 |"));
        assert!(comparison.is_good());
        comparison.fail(1, 1, "UDP", "no reply");
        assert!(!comparison.is_good());
        assert!(comparison.markdown().contains("**NOT MEASURED: round 2, after, UDP: no reply**"));
    }

    #[test]
    fn a_figure_without_a_pair_fails() {
        let mut comparison = Comparison::new(Vec::new(), 1);
        comparison.note("handshakes", 0, 0, 100.0);
        assert!(!comparison.is_good());
    }

    #[test]
    fn many_pairs_tell_where_the_median_lies() {
        let pairs: Vec<[f64; 2]> = (0..25).map(|pair| [100.0, 88.0 + f64::from(pair)]).collect();
        // 25 ratios from 0.88 to 1.12: (25 - 1.96 * 5) / 2 = 7.6, so the eighth from each end.
        assert!(compared(&pairs).markdown().contains("| 0.950–1.050 |"));
    }

    #[test]
    fn rows_of_bench_stand_below() {
        let mut comparison = compared(&[[1.0, 1.0]]);
        for (build, value) in [100.0, 150.0].into_iter().enumerate() {
            comparison.note_bench("packets/64 seal", 0, build, value);
            comparison.note_bench("packets/64 open", 0, build, 100.0);
        }
        let text = comparison.markdown();
        assert!(
            text.contains("1 of 2 rows are not ≤ 1.02")
                && text.contains("| packets/64 seal | 100.0 | 150.0 | 1.500 |")
        );
        assert!(comparison.is_good(), "only the means are judged");
    }
}
