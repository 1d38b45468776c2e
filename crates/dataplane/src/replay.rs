//! The replay window: a ring of bits (the idea of RFC 6479), any size, one word cleared per 64 packets. It is limited
//! in time too: now and then it notes which counter was the highest, and when that is too long ago, datagrams with
//! counters up to that one are too late.

use std::collections::VecDeque;
use std::time::Duration;

use adit_core::{Instant, ReplayWindow};

/// The largest window.
pub(crate) const MAX_WINDOW: u32 = 65_536;

/// Which counters were seen, of the last `size` up to the highest one.
#[derive(Clone, Debug)]
pub struct Window {
    /// Bit `c % (64 × words)` says that counter `c` was seen. There is one word more than the window
    /// needs, so that the word being entered never holds live bits.
    words: Vec<u64>,
    mask: u64,
    size: u64,
    /// The highest counter seen. Counter 0 is below every window: a codec whose counters start with it on the wire
    /// gives them out plus one.
    highest: u64,
    /// Counters up to this one came, or are too late.
    floor: u64,
    age: Age,
}

/// How high the highest counter was, when.
#[derive(Clone, Debug)]
struct Age {
    /// Zero: however late, it may come.
    most: Duration,
    notes: VecDeque<(Instant, u64)>,
}

/// Notes at a time, at most: a late datagram is refused when it is a quarter later than it may be, at the latest.
const NOTES: u32 = 4;

/// The window's verdict on a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Not seen, and higher than all before.
    Newest,
    /// Not seen, and inside the window.
    Late,
    /// Seen before, or too old to tell.
    Replayed,
}

impl Window {
    /// An empty window of that many packets (made to fit 1..=65,536).
    pub fn new(window: ReplayWindow) -> Self {
        let size = window.packets.clamp(1, MAX_WINDOW);
        let words = (size as usize).div_ceil(64).saturating_add(1).next_power_of_two();
        let notes = if window.time.is_zero() { 0 } else { NOTES as usize + 1 };
        Window {
            words: vec![0; words],
            mask: words as u64 - 1,
            size: u64::from(size),
            highest: 0,
            floor: 0,
            age: Age { most: window.time, notes: VecDeque::with_capacity(notes) },
        }
    }

    /// The time goes on.
    pub fn tick(&mut self, now: Instant) {
        let Age { most, notes } = &mut self.age;
        if most.is_zero() {
            return;
        }
        while let Some((at, highest)) = notes.front().copied()
            && at + *most <= now
        {
            self.floor = highest;
            notes.pop_front();
        }
        let (noted_at, noted) = notes.back().copied().unwrap_or((Instant::ORIGIN, self.floor));
        if self.highest > noted && (notes.is_empty() || noted_at + *most / NOTES <= now) {
            notes.push_back((now, self.highest));
        }
    }

    /// Judges an authenticated counter (at least 1) and marks it as seen.
    #[inline]
    pub fn accept(&mut self, counter: u64) -> Freshness {
        if counter <= self.floor || self.highest.saturating_sub(counter) >= self.size {
            return Freshness::Replayed;
        }
        let mut freshness = Freshness::Late;
        if counter > self.highest {
            let current = self.highest / 64;
            let steps = (counter / 64 - current).min(self.mask + 1);
            for step in 1..=steps {
                *self.word(current.wrapping_add(step)) = 0;
            }
            self.highest = counter;
            freshness = Freshness::Newest;
        }
        let bit = 1u64 << (counter % 64);
        let word = self.word(counter / 64);
        if *word & bit != 0 {
            return Freshness::Replayed;
        }
        *word |= bit;
        freshness
    }

    /// The counter whose lowest 32 bits are `low`: the one that lies within the window or ahead of it, by less than
    /// 2^32 in all (RFC 4303, appendix A2.1). It is a guess, until a tag that covers the whole counter verifies.
    #[inline]
    pub fn infer(&self, low: u32) -> u64 {
        let bottom = self.highest.saturating_sub(self.size - 1);
        bottom.saturating_add(u64::from(low.wrapping_sub(bottom as u32)))
    }

    #[inline]
    fn word(&mut self, block: u64) -> &mut u64 {
        &mut self.words[(block & self.mask) as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The window by its definition.
    struct Naive {
        seen: BTreeSet<u64>,
        highest: u64,
        size: u64,
    }

    impl Naive {
        fn accept(&mut self, counter: u64) -> Freshness {
            if counter == 0 || (counter <= self.highest && self.highest - counter >= self.size) {
                return Freshness::Replayed;
            }
            if !self.seen.insert(counter) {
                return Freshness::Replayed;
            }
            if counter > self.highest {
                self.highest = counter;
                return Freshness::Newest;
            }
            Freshness::Late
        }
    }

    fn packets(packets: u32) -> ReplayWindow {
        ReplayWindow { packets, time: Duration::ZERO }
    }

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_late_for_too_long_is_refused() {
        for ticks in [1, 2, 3] {
            let mut window = Window::new(ReplayWindow { packets: 64, time: Duration::from_secs(12) });
            let mut refused_at = None;
            for second in (100..130).step_by(ticks) {
                // Three of each ten counters are late.
                let base = (second - 100) * 10;
                for counter in [1, 2, 3, 4, 5, 6, 10] {
                    window.accept(base + counter);
                }
                window.tick(at(second));
                // One that is long overdue, and lies within the window.
                let mut copy = window.clone();
                copy.size = 1000;
                if copy.accept(7) == Freshness::Replayed && refused_at.is_none() {
                    refused_at = Some(second - 100);
                }
                if second < 110 {
                    assert_eq!(copy.accept(base + 8), Freshness::Late, "not late yet");
                }
            }
            let refused_at = refused_at.unwrap();
            assert!((12..=12 + 3 + 2 * ticks as u64).contains(&refused_at), "{refused_at}");
            assert!(window.age.notes.len() <= NOTES as usize + 1);
        }
    }

    #[test]
    fn a_counter_is_inferred_from_its_low_half() {
        let mut window = Window::new(packets(64));
        let infer = |window: &Window, counter: u64| window.infer(counter as u32);
        for counter in [1, 2, 63, 64, 1000, 0xffff_ffff] {
            assert_eq!(infer(&window, counter), counter, "nothing was seen yet");
        }
        // Across the first wrap, late ones included; then far on.
        for highest in [0xffff_fff0_u64, 0x1_0000_0005, 0x1_0000_0100, 0x7_ffff_ffff, 0x8_0000_0000] {
            window.accept(highest);
            for counter in [highest - 63, highest - 1, highest, highest + 1, highest + 0xffff_ff00] {
                assert_eq!(infer(&window, counter), counter, "{counter:#x} after {highest:#x}");
            }
            assert_eq!(
                infer(&window, highest - 64),
                highest - 64 + (1 << 32),
                "too late: taken for a later one"
            );
        }
    }

    #[test]
    fn time_alone_refuses_nothing_new() {
        let mut window = Window::new(ReplayWindow { packets: 64, time: Duration::from_secs(15) });
        window.accept(10);
        window.tick(at(1));
        window.tick(at(10_000));
        assert_eq!(window.accept(9), Freshness::Replayed, "late by hours");
        assert_eq!(window.accept(10), Freshness::Replayed);
        assert_eq!(window.accept(11), Freshness::Newest);
        let mut patient = Window::new(packets(64));
        patient.accept(10);
        patient.tick(at(1));
        patient.tick(at(10_000));
        assert_eq!(patient.accept(9), Freshness::Late, "0 seconds are no limit");
    }

    #[test]
    fn edges() {
        let mut window = Window::new(packets(64));
        assert_eq!(window.accept(0), Freshness::Replayed);
        assert_eq!(window.accept(1), Freshness::Newest);
        assert_eq!(window.accept(1), Freshness::Replayed);
        assert_eq!(window.accept(65), Freshness::Newest);
        assert_eq!(window.accept(1), Freshness::Replayed);
        assert_eq!(window.accept(2), Freshness::Late);
        assert_eq!(window.accept(u64::MAX), Freshness::Newest);
        assert_eq!(window.accept(u64::MAX), Freshness::Replayed);
        assert_eq!(window.accept(u64::MAX - 63), Freshness::Late);
        assert_eq!(window.accept(u64::MAX - 64), Freshness::Replayed);
    }

    proptest! {
        #[test]
        fn equals_the_naive_window(
            size in prop_oneof![1u32..300, Just(4096u32), Just(65_536u32)],
            steps in proptest::collection::vec((any::<bool>(), prop_oneof![0u64..4, 0u64..200, 0u64..140_000]), 1..300),
        ) {
            let mut window = Window::new(packets(size));
            let mut naive = Naive { seen: BTreeSet::new(), highest: 0, size: u64::from(size) };
            for (forward, distance) in steps {
                let counter = if forward { naive.highest + distance } else { naive.highest.saturating_sub(distance) };
                prop_assert_eq!(window.accept(counter), naive.accept(counter), "counter {}", counter);
            }
        }
    }
}
