//! The replay window: a ring of bits (the idea of RFC 6479), any size, one word cleared per 64 packets.

/// The largest window.
pub(crate) const MAX_WINDOW: u32 = 65_536;

/// Which counters were seen, of the last `size` up to the highest one.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// Bit `c % (64 × words)` says that counter `c` was seen. There is one word more than the window
    /// needs, so that the word being entered never holds live bits.
    words: Vec<u64>,
    mask: u64,
    size: u64,
    /// The highest counter seen. Counter 0 is below every window: no protocol of ours uses it on the wire
    /// but WireGuard, which shifts its counters by one.
    highest: u64,
}

/// What the window says of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// Not seen, and higher than all before.
    Newest,
    /// Not seen, and inside the window.
    Late,
    /// Seen before, or too old to tell.
    Replayed,
}

impl Window {
    /// An empty window of `size` packets (made to fit 1..=65,536).
    pub(crate) fn new(size: u32) -> Self {
        let size = size.clamp(1, MAX_WINDOW);
        let words = (size as usize).div_ceil(64).saturating_add(1).next_power_of_two();
        Window { words: vec![0; words], mask: words as u64 - 1, size: u64::from(size), highest: 0 }
    }

    /// Judges an authenticated counter (at least 1) and marks it as seen.
    #[inline]
    pub(crate) fn accept(&mut self, counter: u64) -> Freshness {
        if counter == 0 || self.highest.saturating_sub(counter) >= self.size {
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

    #[test]
    fn edges() {
        let mut window = Window::new(64);
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
            let mut window = Window::new(size);
            let mut naive = Naive { seen: BTreeSet::new(), highest: 0, size: u64::from(size) };
            for (forward, distance) in steps {
                let counter = if forward { naive.highest + distance } else { naive.highest.saturating_sub(distance) };
                prop_assert_eq!(window.accept(counter), naive.accept(counter), "counter {}", counter);
            }
        }
    }
}
