//! Timestamps of initiations (whitepaper §5.1, §5.4.2; <https://cr.yp.to/libtai/tai64.html>): they only ever grow.

use std::time::Duration;

use adit_core::Instant;

/// The label of 1970-01-01T00:00:00Z. libtai adds ten seconds, the difference of TAI and UTC in 1972; WireGuard does
/// the same, without leap seconds.
const EPOCH: u64 = (1 << 62) + 10;
/// Nanoseconds are cut to multiples of this, so that a timestamp tells little of the sender's clock (as Linux:
/// `tai64n_now` in drivers/net/wireguard/noise.c).
const STEP: u64 = 1 << 24;
const SECOND: u64 = 1_000_000_000;

/// A timestamp: later ones are greater, as values and as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tai64n(pub [u8; 12]);

impl Tai64n {
    /// The timestamp of a time since 1970-01-01T00:00:00Z, cut to the step of 16.8 ms.
    pub fn of(since_1970: Duration) -> Self {
        let seconds = EPOCH.saturating_add(since_1970.as_secs());
        let nanos = u64::from(since_1970.subsec_nanos()) / STEP * STEP;
        Tai64n::from_parts(seconds, nanos)
    }

    /// The next one by the step.
    #[must_use]
    pub fn next(self) -> Self {
        let (seconds, nanos) = self.parts();
        let nanos = (nanos / STEP + 1) * STEP;
        match nanos < SECOND {
            true => Tai64n::from_parts(seconds, nanos),
            false => Tai64n::from_parts(seconds.saturating_add(1), 0),
        }
    }

    /// The timestamp so many seconds later.
    #[must_use]
    pub fn after(self, seconds: u64) -> Self {
        let (own, nanos) = self.parts();
        Tai64n::from_parts(own.saturating_add(seconds), nanos)
    }

    fn parts(self) -> (u64, u64) {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = self.0;
        let seconds = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        (seconds, u64::from(u32::from_be_bytes([i, j, k, l])))
    }

    fn from_parts(seconds: u64, nanos: u64) -> Self {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&seconds.to_be_bytes());
        bytes[8..].copy_from_slice(&(nanos as u32).to_be_bytes());
        Tai64n(bytes)
    }
}

/// The time of the system's clock at a moment of the monotonic one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallClock {
    /// The moment.
    pub at: Instant,
    /// Time since 1970-01-01T00:00:00Z.
    pub since_1970: Duration,
}

impl WallClock {
    /// The time that it shows now.
    pub fn read(&self, now: Instant) -> Duration {
        self.since_1970 + (now - self.at)
    }
}

/// Gives timestamps that never go back, whatever the clock does.
///
/// A receiver refuses an initiation that is not newer than the last, so a clock that starts in 1970 after a restart
/// would shut its peers out until it has passed the last timestamp sent. The greatest one is therefore kept over
/// restarts; as it cannot be saved with each initiation, timestamps are reserved ahead.
#[derive(Debug)]
pub(crate) struct SentTimestamps {
    clock: WallClock,
    last: Option<Tai64n>,
    reserved: Option<Tai64n>,
}

/// How far ahead timestamps are reserved, in seconds: no more than one write to the disk in this time.
const RESERVE: u64 = 60;

impl SentTimestamps {
    /// `floor`: the greatest timestamp that was reserved before.
    pub(crate) fn new(clock: WallClock, floor: Option<Tai64n>) -> Self {
        SentTimestamps { clock, last: floor, reserved: floor }
    }

    pub(crate) fn set_clock(&mut self, clock: WallClock) {
        self.clock = clock;
    }

    /// The time of the system's clock.
    pub(crate) fn wall(&self, now: Instant) -> Duration {
        self.clock.read(now)
    }

    /// A timestamp greater than all before; and the one that is to be saved before it is sent, if that
    /// changed.
    pub(crate) fn take(&mut self, now: Instant) -> (Tai64n, Option<Tai64n>) {
        let wall = Tai64n::of(self.clock.read(now));
        let timestamp = self.last.map_or(wall, |last| wall.max(last.next()));
        self.last = Some(timestamp);
        if self.reserved.is_some_and(|reserved| timestamp <= reserved) {
            return (timestamp, None);
        }
        let reserved = timestamp.after(RESERVE);
        self.reserved = Some(reserved);
        (timestamp, Some(reserved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ORIGIN;

    fn clock(seconds: u64) -> WallClock {
        WallClock { at: NOW, since_1970: Duration::from_secs(seconds) }
    }

    #[test]
    fn labels_agree_with_upstream() {
        let known = Tai64n::of(Duration::new(1_000_000_000, 0x0123_4567));
        assert_eq!(known.0, [0x40, 0, 0, 0, 0x3b, 0x9a, 0xca, 0x0a, 0x01, 0, 0, 0]);
        assert_eq!(Tai64n::of(Duration::ZERO).0, [0x40, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0]);
    }

    /// wireguard-go tai64n/tai64n_test.go: within one step of 16.8 ms timestamps are the same.
    #[test]
    fn nanoseconds_are_cut() {
        let at = |nanos| Tai64n::of(Duration::new(9, nanos));
        assert_eq!(at(0), at(STEP as u32 - 1));
        assert!(at(0) < at(STEP as u32));
    }

    #[test]
    fn the_next_is_greater_over_a_second() {
        let mut last = Tai64n::of(Duration::new(5, 0));
        for _ in 0..1000 {
            let next = last.next();
            assert!(next > last && next.parts().1 < SECOND, "{next:?}");
            last = next;
        }
        assert_eq!(last.parts().0 - EPOCH, 5 + 1000 / (SECOND / STEP + 1));
    }

    #[test]
    fn a_clock_that_goes_back_is_outlasted() {
        let mut sent = SentTimestamps::new(clock(1_700_000_000), None);
        let (first, save) = sent.take(NOW);
        assert_eq!(save, Some(first.after(RESERVE)));
        sent.set_clock(clock(3));
        let (second, save) = sent.take(NOW);
        assert!(second > first);
        assert_eq!(save, None, "it was reserved");
        sent.set_clock(clock(1_800_000_000));
        assert_eq!(sent.take(NOW).0, Tai64n::of(Duration::from_secs(1_800_000_000)), "follows the clock");
    }

    #[test]
    fn a_restart_goes_on_after_what_was_saved() {
        let mut sent = SentTimestamps::new(clock(1_700_000_000), None);
        let mut saved = None;
        let mut last = None;
        for second in 0..500 {
            let (timestamp, save) = sent.take(NOW + Duration::from_secs(second));
            saved = save.or(saved);
            assert!(saved >= Some(timestamp), "saved before it is sent");
            last = Some(timestamp);
        }
        let mut again = SentTimestamps::new(clock(0), saved);
        assert!(Some(again.take(NOW).0) > last);
    }
}
