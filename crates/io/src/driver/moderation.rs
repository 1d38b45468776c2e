//! Moderation of wake-ups, as network drivers moderate interrupts (NAPI): while control datagrams come by the ten
//! thousands, a thread rests for a moment before it asks for more, and takes many at once.
//!
//! A thread that keeps up with a flood is woken for each datagram, which costs several times as much as the datagram
//! itself: that time is missing where clients connect. The senders of so many are unauthenticated as a rule, and a
//! client that connects meanwhile waits a fraction of a millisecond longer for each message.

use std::time::Duration;

use adit_core::Instant;

/// Datagrams by which the rate is measured.
const SAMPLE: usize = 64;
/// The time that such a number of datagrams takes at the least rate that is moderated: 20,000 a second.
const WINDOW: Duration = Duration::from_micros(3200);

/// The rate of control datagrams at a thread.
#[derive(Debug)]
pub(super) struct Moderation {
    rest: Duration,
    high: bool,
    /// Datagrams since then.
    counted: usize,
    since: Instant,
}

impl Moderation {
    /// The moderation of a thread that rests for that long.
    pub(super) fn new(rest: Duration, now: Instant) -> Self {
        Moderation { rest, high: false, counted: 0, since: now }
    }

    /// Counts control datagrams that came.
    pub(super) fn add(&mut self, datagrams: usize, now: Instant) {
        self.counted += datagrams;
        if self.counted >= SAMPLE {
            self.high = now - self.since <= WINDOW;
            self.counted = 0;
            self.since = now;
        }
    }

    /// Whether they came by the ten thousands when the rate was last measured.
    #[inline]
    pub(super) fn is_high(&self) -> bool {
        self.high
    }

    /// Stops, as there is something else to do: no rest until the rate was measured once more.
    #[inline]
    pub(super) fn stop(&mut self) {
        self.high = false;
    }

    /// How long to rest before more is asked for.
    #[inline]
    pub(super) fn rest(&self, now: impl FnOnce() -> Instant) -> Option<Duration> {
        // Where fewer came than make a sample since, the flood is over.
        (self.high && now() - self.since <= WINDOW).then_some(self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Duration = Duration::from_micros(100);

    fn at(micros: u64) -> Instant {
        Instant::ORIGIN + Duration::from_micros(micros)
    }

    fn flooded() -> Moderation {
        let mut moderation = Moderation::new(REST, at(0));
        moderation.add(SAMPLE, at(3200));
        moderation
    }

    #[test]
    fn a_thread_rests_from_twenty_thousand_a_second_on() {
        assert_eq!(flooded().rest(|| at(3300)), Some(REST));
        let mut slower = Moderation::new(REST, at(0));
        slower.add(SAMPLE, at(3201));
        assert_eq!(slower.rest(|| at(3300)), None);
        let mut fewer = Moderation::new(REST, at(0));
        fewer.add(SAMPLE - 1, at(1));
        assert_eq!(fewer.rest(|| at(2)), None);
        fewer.add(1, at(3));
        assert_eq!(fewer.rest(|| at(4)), Some(REST));
    }

    #[test]
    fn the_rest_ends_with_the_flood() {
        let moderation = flooded();
        assert_eq!(moderation.rest(|| at(6400)), Some(REST));
        assert_eq!(moderation.rest(|| at(6401)), None);
        let mut moderation = flooded();
        moderation.add(SAMPLE, at(10_000));
        assert_eq!(moderation.rest(|| at(10_001)), None);
    }

    #[test]
    fn other_work_ends_the_rest() {
        let mut moderation = flooded();
        moderation.stop();
        assert_eq!(moderation.rest(|| at(3300)), None);
        moderation.add(SAMPLE, at(4000));
        assert_eq!(moderation.rest(|| at(4001)), Some(REST), "the flood goes on");
    }
}
