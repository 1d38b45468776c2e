//! Limits on the rate of answers to unauthenticated peers and of new clients.

use std::time::Duration;

use crate::Instant;

/// Counters for addresses; each address has two of them. Enough that 100,000 addresses a second, each heard
/// once, fill none.
const PLACES: usize = 1 << 16;

/// A limit that is reached is worth a line in the log no more often than this.
const LEAST_SILENCE: Duration = Duration::from_secs(10);

/// A number of events in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many.
    pub count: u32,
    /// The time.
    pub period: Duration,
}

/// The verdict of a limit on one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// The one more is within the limit.
    Granted,
    /// The one more is too many.
    Refused {
        /// This is the first refusal in a while, which is worth a line in the log.
        first: bool,
    },
}

/// A limit on answers to packets of unproven senders, for each address.
///
/// With one count for all addresses, an attacker who forges some packets a second would shut all others out. The limit keeps answers to forged packets from flooding a third party, and that takes one
/// count for each address. Its memory is fixed: an address has two counters, shared with others, and the
/// lower one counts.
pub struct AnswerLimit {
    rate: Rate,
    period_end: Instant,
    silent_until: Instant,
    counts: Vec<u16>,
}

impl AnswerLimit {
    /// A limit of so many answers to each address.
    pub fn new(rate: Rate) -> Self {
        let start = Instant::ORIGIN;
        AnswerLimit { rate, period_end: start, silent_until: start, counts: vec![0; PLACES] }
    }

    /// One more answer to the address with these places, which a keyed hash of it gives, so that no sender can aim at
    /// another's counters.
    pub fn ask(&mut self, now: Instant, places: [usize; 2]) -> Permit {
        self.begin_period(now);
        let count = self.change(places, |count| count.saturating_add(1));
        self.judge(now, u32::from(count))
    }

    /// The verdict on one more answer, without counting it.
    pub fn foresee(&mut self, now: Instant, places: [usize; 2]) -> Permit {
        self.begin_period(now);
        let count = self.change(places, |count| count);
        self.judge(now, u32::from(count) + 1)
    }

    fn begin_period(&mut self, now: Instant) {
        if now >= self.period_end {
            self.period_end = now + self.rate.period;
            self.counts.fill(0);
        }
    }

    fn judge(&mut self, now: Instant, count: u32) -> Permit {
        if count <= self.rate.count {
            return Permit::Granted;
        }
        let first = now >= self.silent_until;
        if first {
            self.silent_until = now + silence(self.rate.period);
        }
        Permit::Refused { first }
    }

    /// An answer was followed by a client that proved its address: it does not count.
    pub fn credit(&mut self, places: [usize; 2]) {
        self.change(places, |count| count.saturating_sub(1));
    }

    /// Changes both counters, and gives the lower one.
    fn change(&mut self, places: [usize; 2], change: impl Fn(u16) -> u16) -> u16 {
        let [first, second] = places;
        let mut lowest = u16::MAX;
        for place in if first == second { &places[..1] } else { &places[..] } {
            if let Some(count) = self.counts.get_mut(place % PLACES) {
                *count = change(*count);
                lowest = lowest.min(*count);
            }
        }
        lowest
    }
}

/// A limit on new clients, all together.
pub struct ClientLimit {
    rate: Option<Rate>,
    period_end: Instant,
    count: u32,
}

impl ClientLimit {
    /// A limit of so many new clients; `None`: no limit.
    pub fn new(rate: Option<Rate>) -> Self {
        ClientLimit { rate, period_end: Instant::ORIGIN, count: 0 }
    }

    /// One more client.
    pub fn ask(&mut self, now: Instant) -> Permit {
        let Some(rate) = self.rate else { return Permit::Granted };
        if now >= self.period_end {
            self.period_end = now + rate.period;
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        if self.count <= rate.count {
            return Permit::Granted;
        }
        Permit::Refused { first: self.count == rate.count + 1 }
    }
}

/// How long nothing more is said of a limit with that period.
pub fn silence(period: Duration) -> Duration {
    period.max(LEAST_SILENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { count: 2, period: Duration::from_secs(10) };

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    #[test]
    fn each_address_has_its_own_limit() {
        let mut limit = AnswerLimit::new(RATE);
        let (one, other) = ([1, 2], [3, 4]);
        assert_eq!([limit.ask(at(1), one), limit.ask(at(1), one)], [Permit::Granted; 2]);
        assert_eq!(limit.ask(at(2), one), Permit::Refused { first: true });
        assert_eq!(limit.ask(at(2), one), Permit::Refused { first: false });
        assert_eq!(limit.ask(at(2), other), Permit::Granted);
        // One counter of two may be full of others.
        assert_eq!(limit.ask(at(2), [1, 5]), Permit::Granted);
        assert_eq!(limit.ask(at(11), one), Permit::Granted, "a new period");
    }

    #[test]
    fn what_is_foreseen_does_not_count() {
        let mut limit = AnswerLimit::new(RATE);
        assert!((0..10).all(|_| limit.foresee(at(1), [1, 2]) == Permit::Granted));
        assert_eq!([limit.ask(at(1), [1, 2]), limit.ask(at(1), [1, 2])], [Permit::Granted; 2]);
        assert_eq!(limit.foresee(at(2), [1, 2]), Permit::Refused { first: true });
        assert_eq!(limit.foresee(at(2), [1, 2]), Permit::Refused { first: false });
        assert_eq!(limit.foresee(at(11), [1, 2]), Permit::Granted, "a new period");
    }

    #[test]
    fn a_short_period_makes_no_more_lines() {
        let mut limit = AnswerLimit::new(Rate { count: 1, period: Duration::from_secs(1) });
        let mut lines = 0;
        for time in 0..20 {
            assert_eq!(limit.ask(at(time), [1, 2]), Permit::Granted, "each second is a new one");
            lines += usize::from(limit.ask(at(time), [1, 2]) == Permit::Refused { first: true });
        }
        assert_eq!(lines, 2);
    }

    #[test]
    fn who_connects_is_not_counted() {
        let mut limit = AnswerLimit::new(RATE);
        for _ in 0..100 {
            assert_eq!(limit.ask(at(1), [7, 7]), Permit::Granted);
            limit.credit([7, 7]);
        }
    }

    #[test]
    fn a_flood_from_everywhere_fills_no_counters() {
        let mut limit = AnswerLimit::new(Rate { count: 100, period: Duration::from_secs(10) });
        let mut state = 1_u64;
        let mut place = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 48) as usize
        };
        let refused = (0..1_000_000).filter(|_| limit.ask(at(1), [place(), place()]) != Permit::Granted);
        assert_eq!(refused.count(), 0);
    }

    #[test]
    fn new_clients_are_counted_together() {
        let mut limit = ClientLimit::new(Some(RATE));
        let first: Vec<Permit> = (0..4).map(|_| limit.ask(at(1))).collect();
        assert_eq!(first[..2], [Permit::Granted; 2]);
        assert_eq!(first[2..], [Permit::Refused { first: true }, Permit::Refused { first: false }]);
        assert_eq!(limit.ask(at(11)), Permit::Granted);
        assert!((0..1000).all(|_| ClientLimit::new(None).ask(at(1)) == Permit::Granted));
    }
}
