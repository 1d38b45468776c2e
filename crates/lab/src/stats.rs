//! Medians, intervals and percentiles.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore as _, SeedableRng as _};

/// Resamples of a bootstrap.
const RESAMPLES: usize = 2000;
/// The probability outside an interval, at each side.
const TAIL: f64 = 0.025;

/// A 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Interval {
    /// How much the lower end is below the upper.
    pub(crate) fn width(self) -> f64 {
        self.high - self.low
    }
}

/// The middle value, or the mean of the two in the middle. Nothing of nothing. NaN is left out.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(middle.checked_sub(1)?)?;
    Some(f64::midpoint(lower, upper))
}

/// The value that a share of all do not exceed, by nearest rank (RFC 2330 §11.3).
pub(crate) fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let sorted = sorted(values);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// The interval of the median, by the percentile bootstrap (Efron 1979). The same values always give the same
/// interval. `None` for fewer than three values, which say nothing of their spread.
pub(crate) fn median_interval(values: &[f64]) -> Option<Interval> {
    if values.len() < 3 {
        return None;
    }
    let mut random = generator(values);
    interval((0..RESAMPLES).filter_map(|_| median(&resample(values, &mut random))).collect())
}

/// The ratio of two medians, and where it lies. Both sides are resampled.
pub(crate) fn ratio(above: &[f64], below: &[f64]) -> Option<(f64, Option<Interval>)> {
    let ratio_of = |above: &[f64], below: &[f64]| {
        let below = median(below).filter(|below| *below != 0.0)?;
        Some(median(above)? / below)
    };
    let ratio = ratio_of(above, below)?;
    if above.len() < 3 || below.len() < 3 {
        return Some((ratio, None));
    }
    let mut random = generator(above);
    let all = (0..RESAMPLES)
        .filter_map(|_| {
            let above = resample(above, &mut random);
            ratio_of(&above, &resample(below, &mut random))
        })
        .collect();
    Some((ratio, interval(all)))
}

fn interval(values: Vec<f64>) -> Option<Interval> {
    Some(Interval { low: percentile(&values, TAIL)?, high: percentile(&values, 1.0 - TAIL)? })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// Seeded by the number of values, so that a report made twice is the same.
fn generator(values: &[f64]) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(values.len() as u64)
}

fn resample(values: &[f64], random: &mut ChaCha8Rng) -> Vec<f64> {
    let count = values.len() as u64;
    (0..count).filter_map(|_| values.get((random.next_u64() % count) as usize).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 2.0, f64::NAN]), Some(2.0));
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!(percentile(&values, 0.5), Some(500.0));
        assert_eq!(percentile(&values, 0.99), Some(990.0));
        assert_eq!(percentile(&values, 0.999), Some(999.0));
        assert_eq!(percentile(&values, 1.0), Some(1000.0));
        assert_eq!(percentile(&values, 0.0), Some(1.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn an_interval_holds_the_median_and_narrows_with_more_values() {
        let few: Vec<f64> = (0..5).map(|number| 100.0 + f64::from(number * 7 % 5)).collect();
        let many: Vec<f64> = (0..500).map(|number| 100.0 + f64::from(number * 7 % 5)).collect();
        let (few, many) = (median_interval(&few).unwrap(), median_interval(&many).unwrap());
        assert!(few.low <= 102.0 && 102.0 <= few.high);
        assert!(many.high - many.low <= few.high - few.low);
        assert_eq!(median_interval(&[1.0, 2.0]), None);
    }

    #[test]
    fn twice_as_much_is_twice_as_much() {
        let (above, below) = ([20.0, 20.2, 19.8, 20.0], [10.0, 10.1, 9.9, 10.0]);
        let (ratio, interval) = ratio(&above, &below).unwrap();
        let interval = interval.unwrap();
        assert!((ratio - 2.0).abs() < 1e-9);
        assert!(interval.low > 1.9 && interval.high < 2.1);
        assert_eq!(super::ratio(&above, &[0.0, 0.0, 0.0]), None);
    }

    proptest! {
        #[test]
        fn intervals_lie_within_what_was_measured(values in prop::collection::vec(0.0..1e9_f64, 3..20)) {
            let interval = median_interval(&values).unwrap();
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(0.0, f64::max);
            prop_assert!(least <= interval.low && interval.low <= interval.high && interval.high <= most);
        }
    }
}
