//! When a frame arrives, and how often: the pure part of a wire.

use std::ops::{AddAssign, Sub};
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore as _, SeedableRng as _};

use crate::layout::{QUEUE, QUEUE_FRAMES};
use crate::link::Link;

/// A frame that is to arrive behind its successors is held back by as much.
const HELD_BACK: Duration = Duration::from_millis(2);
/// The bytes that Ethernet adds to a frame that a device is handed: preamble 8, checksum 4, gap 12 (IEEE 802.3 clauses
/// 3 and 4).
pub(crate) const FRAMING: u32 = 24;
/// The least that a frame takes of the wire: 64 bytes, preamble and gap.
const LEAST: u32 = 84;
/// A full frame as a device is handed it.
const FULL: u32 = 1514;

/// The counts of the frames of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Frames handed over.
    pub(crate) handed: u64,
    /// Frames lost because the link loses some.
    pub(crate) lost: u64,
    /// Frames lost because too many waited in front of the rate.
    pub(crate) queue_full: u64,
    /// Frames held back behind their successors.
    pub(crate) reordered: u64,
    /// Frames that arrived twice.
    pub(crate) duplicated: u64,
}

impl Counts {
    fn merge(self, other: Counts, with: fn(u64, u64) -> u64) -> Counts {
        Counts {
            handed: with(self.handed, other.handed),
            lost: with(self.lost, other.lost),
            queue_full: with(self.queue_full, other.queue_full),
            reordered: with(self.reordered, other.reordered),
            duplicated: with(self.duplicated, other.duplicated),
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        *self = self.merge(other, u64::saturating_add);
    }
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(self, other: Counts) -> Counts {
        self.merge(other, u64::saturating_sub)
    }
}

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Schedule {
    delay: Duration,
    jitter: Duration,
    loss: f64,
    reorder: f64,
    duplicate: f64,
    rate: Option<u64>,
    /// When the frames that were accepted so far have left.
    busy_until: Duration,
    /// When the last frame that was not held back arrives.
    last: Duration,
    random: ChaCha8Rng,
    counts: Counts,
}

impl Schedule {
    /// `seed` makes two directions differ.
    pub(crate) fn new(link: &Link, seed: u64) -> Schedule {
        Schedule {
            delay: Duration::from_secs_f64(link.delay_ms / 1e3),
            jitter: Duration::from_secs_f64(link.jitter_ms / 1e3),
            loss: link.loss,
            reorder: link.reorder,
            duplicate: link.duplicate,
            rate: link.rate,
            busy_until: Duration::ZERO,
            last: Duration::ZERO,
            random: ChaCha8Rng::seed_from_u64(seed),
            counts: Counts::default(),
        }
    }

    /// The counts of all frames so far.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// When a frame that was handed over at `now` arrives: never, once, or twice.
    pub(crate) fn arrivals(&mut self, now: Duration, bytes: usize) -> [Option<Duration>; 2] {
        self.counts.handed += 1;
        if self.happens(self.loss) {
            self.counts.lost += 1;
            return [None; 2];
        }
        let Some(left) = self.departure(now, bytes) else {
            self.counts.queue_full += 1;
            return [None; 2];
        };
        // Jitter makes a frame late, and those behind it with it: the order is another setting.
        let arrival = (left + self.delay + self.more()).max(self.last);
        let first = if self.happens(self.reorder) {
            self.counts.reordered += 1;
            arrival + HELD_BACK
        } else {
            self.last = arrival;
            arrival
        };
        let twice = self.happens(self.duplicate);
        self.counts.duplicated += u64::from(twice);
        [Some(first), twice.then_some(first)]
    }

    /// When its last bit has left, behind all before it; nothing if too many wait.
    fn departure(&mut self, now: Duration, bytes: usize) -> Option<Duration> {
        let Some(rate) = self.rate else { return Some(now) };
        let time = |bytes: f64| Duration::from_secs_f64(bytes * 8.0 / rate as f64);
        let start = self.busy_until.max(now);
        let frame = time(f64::from(FULL + FRAMING));
        let [least, most] = QUEUE_FRAMES.map(|frames| frame * frames);
        if start - now > QUEUE.clamp(least, most) {
            return None;
        }
        let bytes = (bytes as f64 + f64::from(FRAMING)).max(f64::from(LEAST));
        self.busy_until = start + time(bytes);
        Some(self.busy_until)
    }

    /// A part of the jitter, any as likely as any other.
    fn more(&mut self) -> Duration {
        if self.jitter.is_zero() {
            return Duration::ZERO;
        }
        self.jitter.mul_f64(self.share())
    }

    fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && self.share() < share
    }

    /// A random number from 0 to 1, without 1: a double holds 53 bits.
    fn share(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(change: impl FnOnce(&mut Link)) -> Schedule {
        let mut link = Link::plain("x");
        change(&mut link);
        Schedule::new(&link, 7)
    }

    fn first(schedule: &mut Schedule, now: Duration, bytes: usize) -> Option<Duration> {
        schedule.arrivals(now, bytes)[0]
    }

    #[test]
    fn a_delay_is_that_delay() {
        let mut schedule = schedule(|link| link.delay_ms = 10.0);
        for now in (0..50).map(Duration::from_millis) {
            assert_eq!(schedule.arrivals(now, 1500), [Some(now + Duration::from_millis(10)), None]);
        }
    }

    #[test]
    fn one_in_a_hundred_is_one_in_a_hundred() {
        let mut schedule = schedule(|link| link.loss = 0.01);
        let lost = (0..100_000).filter(|_| first(&mut schedule, Duration::ZERO, 100).is_none()).count();
        assert!((900..1100).contains(&lost), "{lost}");
        let counts = schedule.counts();
        assert_eq!((counts.handed, counts.lost, counts.queue_full), (100_000, lost as u64, 0));
    }

    #[test]
    fn some_arrive_behind_their_successors() {
        let mut schedule = schedule(|link| link.reorder = 0.1);
        let arrivals: Vec<Duration> =
            (0..1000).filter_map(|now| first(&mut schedule, Duration::from_micros(now * 100), 100)).collect();
        let behind = arrivals.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!((60..140).contains(&behind), "{behind}");
        assert!((60..140).contains(&schedule.counts().reordered));
    }

    #[test]
    fn some_arrive_twice() {
        let mut schedule = schedule(|link| link.duplicate = 0.05);
        let twice = (0..10_000).filter(|_| schedule.arrivals(Duration::ZERO, 100)[1].is_some()).count();
        assert!((400..600).contains(&twice), "{twice}");
        assert_eq!(schedule.counts().duplicated, twice as u64);
    }

    #[test]
    fn jitter_spreads_the_delay_and_keeps_the_order() {
        let mut schedule = schedule(|link| (link.delay_ms, link.jitter_ms) = (10.0, 5.0));
        let taken: Vec<Duration> = (0..1000)
            .map(Duration::from_millis)
            .filter_map(|now| first(&mut schedule, now * 10, 100).map(|arrival| arrival - now * 10))
            .collect();
        let (least, most) = (taken.iter().min().unwrap(), taken.iter().max().unwrap());
        assert!(*least >= Duration::from_millis(10) && *least < Duration::from_micros(10_100), "{least:?}");
        assert!(*most < Duration::from_millis(15) && *most > Duration::from_micros(14_900), "{most:?}");
        let close: Vec<Duration> = (0..1000)
            .filter_map(|now| first(&mut schedule, Duration::from_micros(20_000_000 + now), 100))
            .collect();
        assert!(close.is_sorted());
    }

    #[test]
    fn a_rate_lets_through_that_rate_and_drops_the_rest() {
        let mut schedule = schedule(|link| link.rate = Some(8_000_000));
        // Twice the rate: 1000 bytes each half millisecond, for ten seconds.
        let arrivals: Vec<Duration> = (0..20_000)
            .filter_map(|now| first(&mut schedule, Duration::from_micros(now * 500), 1000 - 24))
            .collect();
        let within = arrivals.iter().filter(|arrival| **arrival <= Duration::from_secs(10)).count();
        assert!((9_990..=10_000).contains(&within), "{within}");
        assert!(arrivals.is_sorted());
        assert_eq!(schedule.counts().queue_full, 20_000 - arrivals.len() as u64);
    }

    #[test]
    fn a_small_frame_takes_as_much_as_the_least() {
        let mut schedule = schedule(|link| link.rate = Some(84 * 8));
        assert_eq!(first(&mut schedule, Duration::ZERO, 42), Some(Duration::from_secs(1)));
        assert_eq!(first(&mut schedule, Duration::ZERO, 60), Some(Duration::from_secs(2)));
    }

    #[test]
    fn a_slow_link_lets_a_few_frames_wait() {
        // One frame takes more than a second.
        let mut schedule = schedule(|link| link.rate = Some(10_300));
        let accepted = (0..20).filter(|_| first(&mut schedule, Duration::ZERO, 1514).is_some()).count();
        assert_eq!(accepted, 9);
    }

    #[test]
    fn the_same_seed_gives_the_same_wire() {
        let run = || {
            let mut schedule = schedule(|link| (link.loss, link.jitter_ms, link.reorder) = (0.1, 3.0, 0.1));
            (0..500).map(|now| schedule.arrivals(Duration::from_millis(now), 100)).collect::<Vec<_>>()
        };
        assert_eq!(run(), run());
    }
}
