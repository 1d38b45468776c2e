use std::time::Duration;

use adit_core::{Instant, Rejected};

use super::WrapId;

/// Size of the window in packet ids.
const WINDOW: u32 = 64;
/// A late datagram may come at most this long after the first that overtook it.
const MAX_LATENESS: Duration = Duration::from_secs(15);

/// Tells replayed control datagrams from new ones.
///
/// A window of 64 ids: each is accepted once, late ones only within 15 seconds of an overtaker's arrival. A
/// later time stamp (the peer started over) starts a new window; an earlier one is a replay. Source of the
/// rules: OpenVPN packet_id.c, long form with backtracking.
#[derive(Clone, Debug, Default)]
pub struct WrapReplay {
    time: u32,
    /// Highest id accepted; 0 before the first.
    highest: u32,
    /// Bit n: `highest - n` was accepted.
    seen: u64,
    /// When each of the accepted ids came, indexed like the bits of `seen`.
    arrivals: Vec<Instant>,
}

impl WrapReplay {
    /// A window that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts an authenticated packet id once.
    ///
    /// # Errors
    /// [`Rejected::Replayed`] for an id that was seen, is too old, or is zero.
    pub fn check(&mut self, now: Instant, id: WrapId) -> Result<(), Rejected> {
        if id.id == 0 {
            return Err(Rejected::Replayed);
        }
        if self.highest == 0 || id.time > self.time {
            *self = WrapReplay { time: id.time, highest: id.id, seen: 1, arrivals: vec![now] };
            return Ok(());
        }
        if id.time < self.time {
            return Err(Rejected::Replayed);
        }
        if id.id > self.highest {
            self.advance(now, id.id);
            return Ok(());
        }
        let age = self.highest - id.id;
        if age >= WINDOW || self.seen & (1 << age) != 0 || self.overtaken_long_ago(now, age) {
            return Err(Rejected::Replayed);
        }
        self.seen |= 1 << age;
        self.set_arrival(age, now);
        Ok(())
    }

    fn advance(&mut self, now: Instant, id: u32) {
        let step = id - self.highest;
        self.seen = if step >= WINDOW { 1 } else { (self.seen << step) | 1 };
        self.highest = id;
        let kept = WINDOW.saturating_sub(step) as usize;
        self.arrivals.truncate(kept);
        // Places of ids not seen hold a time that nothing reads: `seen` guards them.
        self.arrivals.splice(0..0, std::iter::repeat_n(now, step.min(WINDOW) as usize));
    }

    fn set_arrival(&mut self, age: u32, now: Instant) {
        let index = age as usize;
        if self.arrivals.len() <= index {
            self.arrivals.resize(index + 1, now);
        }
        if let Some(arrival) = self.arrivals.get_mut(index) {
            *arrival = now;
        }
    }

    /// True if some id above the one of that age came more than [`MAX_LATENESS`] ago.
    fn overtaken_long_ago(&self, now: Instant, age: u32) -> bool {
        self.arrivals
            .iter()
            .enumerate()
            .take(age as usize)
            .any(|(index, arrival)| self.seen & (1 << index) != 0 && now - *arrival > MAX_LATENESS)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    const START: Instant = Instant::from_nanos(1_000_000_000);

    fn id(id: u32, time: u32) -> WrapId {
        WrapId { id, time }
    }

    #[test]
    fn once_each_and_late_ones_within_the_window() {
        let mut window = WrapReplay::new();
        for (number, fresh) in [(0, false), (5, true), (5, false), (3, true), (3, false), (80, true)] {
            assert_eq!(window.check(START, id(number, 9)).is_ok(), fresh, "id {number}");
        }
        assert_eq!(window.check(START, id(16, 9)), Err(Rejected::Replayed));
        assert_eq!(window.check(START, id(17, 9)), Ok(()));
        assert_eq!(window.check(START, id(17, 9)), Err(Rejected::Replayed));
    }

    #[test]
    fn a_late_datagram_expires() {
        let mut window = WrapReplay::new();
        window.check(START, id(1, 9)).unwrap();
        window.check(START, id(4, 9)).unwrap();
        assert_eq!(window.check(START + Duration::from_secs(15), id(3, 9)), Ok(()));
        assert_eq!(window.check(START + Duration::from_secs(16), id(2, 9)), Err(Rejected::Replayed));
        assert_eq!(window.check(START + Duration::from_secs(16), id(5, 9)), Ok(()));
    }

    #[test]
    fn a_later_time_starts_over_and_an_earlier_is_refused() {
        let mut window = WrapReplay::new();
        window.check(START, id(7, 100)).unwrap();
        assert_eq!(window.check(START, id(1, 101)), Ok(()));
        assert_eq!(window.check(START, id(8, 100)), Err(Rejected::Replayed));
        assert_eq!(window.check(START, id(1, 101)), Err(Rejected::Replayed));
        assert_eq!(window.check(START, id(u32::MAX, 101)), Ok(()));
        assert_eq!(window.check(START, id(2, 101)), Err(Rejected::Replayed));
    }

    proptest! {
        #[test]
        fn no_id_passes_twice_and_new_ones_in_the_window_pass(ids in prop::collection::vec(1u32..300, 1..400)) {
            let mut window = WrapReplay::new();
            let mut passed = BTreeSet::new();
            for number in ids {
                let highest = passed.last().copied().unwrap_or(0);
                let expected = !passed.contains(&number) && number + WINDOW > highest;
                prop_assert_eq!(window.check(START, id(number, 1)).is_ok(), expected);
                if expected {
                    passed.insert(number);
                }
            }
        }
    }
}
