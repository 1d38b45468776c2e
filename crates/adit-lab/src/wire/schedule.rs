//! When a frame arrives, if it does: the pure part of a wire.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore as _, SeedableRng as _};

use crate::plan::Link;

/// A frame that is to arrive behind its successors is held back by as much.
const HELD_BACK: Duration = Duration::from_millis(2);
/// What waits in front of a rate before more is dropped, as time that it takes to send.
const QUEUE: Duration = Duration::from_millis(100);

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Schedule {
    delay: Duration,
    loss: f64,
    reorder: f64,
    rate: Option<u64>,
    /// When what was accepted so far has left.
    busy_until: Duration,
    random: ChaCha8Rng,
}

impl Schedule {
    /// `seed` makes two directions differ.
    pub(crate) fn new(link: &Link, seed: u64) -> Schedule {
        Schedule {
            delay: Duration::from_secs_f64(link.delay_ms / 1e3),
            loss: link.loss,
            reorder: link.reorder,
            rate: link.rate,
            busy_until: Duration::ZERO,
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// When a frame that was handed over at `now` arrives; nothing if it is lost.
    pub(crate) fn arrival(&mut self, now: Duration, bytes: usize) -> Option<Duration> {
        if self.happens(self.loss) {
            return None;
        }
        let left = self.departure(now, bytes)?;
        let held = if self.happens(self.reorder) { HELD_BACK } else { Duration::ZERO };
        Some(left + self.delay + held)
    }

    /// When its last bit has left, behind all before it; nothing if too many wait.
    fn departure(&mut self, now: Duration, bytes: usize) -> Option<Duration> {
        let Some(rate) = self.rate else { return Some(now) };
        let start = self.busy_until.max(now);
        if start - now > QUEUE {
            return None;
        }
        self.busy_until = start + Duration::from_secs_f64(bytes as f64 * 8.0 / rate as f64);
        Some(self.busy_until)
    }

    fn happens(&mut self, share: f64) -> bool {
        // 53 bits are what a double holds.
        share > 0.0 && ((self.random.next_u64() >> 11) as f64) < share * (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(change: impl FnOnce(&mut Link)) -> Schedule {
        let mut link = Link {
            name: "x".to_owned(),
            rate: None,
            delay_ms: 0.0,
            loss: 0.0,
            reorder: 0.0,
            queue: None,
            segmentation: false,
        };
        change(&mut link);
        Schedule::new(&link, 7)
    }

    #[test]
    fn a_delay_is_that_delay() {
        let mut schedule = schedule(|link| link.delay_ms = 10.0);
        for now in (0..50).map(Duration::from_millis) {
            assert_eq!(schedule.arrival(now, 1500), Some(now + Duration::from_millis(10)));
        }
    }

    #[test]
    fn one_in_a_hundred_is_one_in_a_hundred() {
        let mut schedule = schedule(|link| link.loss = 0.01);
        let lost = (0..100_000).filter(|_| schedule.arrival(Duration::ZERO, 100).is_none()).count();
        assert!((900..1100).contains(&lost), "{lost}");
    }

    #[test]
    fn some_arrive_behind_their_successors() {
        let mut schedule = schedule(|link| link.reorder = 0.1);
        let arrivals: Vec<Duration> =
            (0..1000).filter_map(|now| schedule.arrival(Duration::from_micros(now * 100), 100)).collect();
        let behind = arrivals.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!((60..140).contains(&behind), "{behind}");
    }

    #[test]
    fn a_rate_lets_through_that_rate_and_drops_the_rest() {
        let mut schedule = schedule(|link| link.rate = Some(8_000_000));
        // Twice the rate: 1000 bytes each half millisecond, for ten seconds.
        let arrivals: Vec<Duration> =
            (0..20_000).filter_map(|now| schedule.arrival(Duration::from_micros(now * 500), 1000)).collect();
        let within = arrivals.iter().filter(|arrival| **arrival <= Duration::from_secs(10)).count();
        assert!((9_990..=10_000).contains(&within), "{within}");
        assert!(arrivals.is_sorted());
    }
}
