//! `inactive` and `session-timeout`: how long a peer may stay connected.

use std::time::Duration;

use adit_core::{IdleLimit, Instant, PeerLimits};

use crate::key_state::earliest;

/// Watches how long a peer has been connected, and whether it is used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lifetime {
    idle: Option<IdleLimit>,
    began: Instant,
    ends_at: Option<Instant>,
    /// When enough had passed for the last time, and how many bytes in all until then.
    active_at: Instant,
    counted: u64,
}

impl Lifetime {
    /// The lifetime of a connection that begins now.
    pub(crate) fn new(now: Instant, limits: PeerLimits) -> Self {
        let mut lifetime = Lifetime { began: now, active_at: now, ..Lifetime::default() };
        lifetime.set_limits(limits);
        lifetime
    }

    /// Takes other limits, which count from the beginning of the connection, and from when it was used last.
    pub(crate) fn set_limits(&mut self, limits: PeerLimits) {
        self.idle = limits.idle.filter(|idle| !idle.after.is_zero());
        self.ends_at = limits.length.filter(|length| !length.is_zero()).map(|length| self.began + length);
    }

    /// Takes the bytes of packets that passed since the connection began. As OpenVPN (forward.h `register_activity`),
    /// bytes count from the last time that enough had passed, however long ago that was. `at`: when the last packet
    /// passed, which may be long ago after the machine has slept.
    pub(crate) fn traffic(&mut self, at: Instant, bytes: u64) {
        let passed = bytes.saturating_sub(self.counted);
        if self.idle.is_some_and(|idle| passed >= idle.bytes.max(1)) {
            (self.active_at, self.counted) = (at.max(self.active_at), bytes);
        }
    }

    /// Why the connection is over, if it is.
    pub(crate) fn over(&self, now: Instant) -> Option<String> {
        if self.ends_at.is_some_and(|at| now >= at) {
            return Some("the connection has lasted as long as it may (session-timeout)".to_owned());
        }
        let idle = self.idle.filter(|_| self.idle_at().is_some_and(|at| now >= at))?;
        let seconds = idle.after.as_secs();
        Some(match idle.bytes {
            0 => format!("no packet for {seconds} s (inactive)"),
            bytes => format!("less than {bytes} bytes of packets for {seconds} s (inactive)"),
        })
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        earliest(self.ends_at, self.idle_at())
    }

    fn idle_at(&self) -> Option<Instant> {
        self.idle.map(|idle| self.active_at + idle.after)
    }
}

/// The word of scripts for the reason of [`Lifetime::over`].
pub(crate) fn signal_of(why: &str) -> &'static str {
    if why.contains("session-timeout") { "session-timeout" } else { "inactive" }
}

/// A time as `inactive` and `session-timeout` take it: whole seconds.
pub(crate) fn whole_seconds(word: &str) -> Option<Duration> {
    word.parse::<u32>().ok().map(|seconds| Duration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    fn idle(seconds: u64, bytes: u64) -> PeerLimits {
        let idle = IdleLimit { after: Duration::from_secs(seconds), bytes };
        PeerLimits { idle: Some(idle), length: None }
    }

    #[test]
    fn an_unused_connection_ends() {
        let mut lifetime = Lifetime::new(at(0), idle(10, 0));
        assert_eq!(lifetime.over(at(9)), None);
        lifetime.traffic(at(5), 1);
        lifetime.traffic(at(8), 1);
        assert_eq!((lifetime.over(at(14)), lifetime.poll_timeout()), (None, Some(at(15))));
        assert!(lifetime.over(at(15)).is_some_and(|why| why.contains("(inactive)")));
    }

    #[test]
    fn little_adds_up_until_it_is_enough() {
        let mut lifetime = Lifetime::new(at(0), idle(10, 100));
        lifetime.traffic(at(5), 99);
        assert_eq!(lifetime.poll_timeout(), Some(at(10)));
        lifetime.traffic(at(6), 100);
        lifetime.traffic(at(7), 199);
        assert_eq!(lifetime.poll_timeout(), Some(at(16)));
        assert!(lifetime.over(at(16)).is_some_and(|why| why.contains("100 bytes")));
    }

    #[test]
    fn a_long_connection_ends_however_busy() {
        let limits = PeerLimits { length: Some(Duration::from_secs(60)), ..idle(10, 0) };
        let mut lifetime = Lifetime::new(at(1), limits);
        for second in 2..61 {
            lifetime.traffic(at(second), second);
            assert_eq!(lifetime.over(at(second)), None);
        }
        assert!(lifetime.over(at(61)).is_some_and(|why| why.contains("(session-timeout)")));
    }

    #[test]
    fn other_limits_count_from_the_beginning() {
        let mut lifetime = Lifetime::new(at(1), PeerLimits::default());
        lifetime.traffic(at(30), 5);
        lifetime.set_limits(PeerLimits { length: Some(Duration::from_secs(60)), ..PeerLimits::default() });
        assert_eq!(lifetime.poll_timeout(), Some(at(61)));
        lifetime.set_limits(PeerLimits::default());
        assert_eq!(lifetime.poll_timeout(), None);
    }

    #[test]
    fn what_passed_before_a_sleep_counts_from_then() {
        let mut lifetime = Lifetime::new(at(0), idle(25, 0));
        lifetime.traffic(at(10), 1);
        // It is learnt late, as the machine slept; and nothing goes back.
        lifetime.traffic(at(20), 2);
        lifetime.traffic(at(5), 3);
        assert_eq!(lifetime.poll_timeout(), Some(at(45)));
    }

    #[test]
    fn zero_is_without_end() {
        let file = PeerLimits { length: Some(Duration::from_secs(60)), ..idle(10, 0) };
        let none = PeerLimits { length: Some(Duration::ZERO), ..idle(0, 0) };
        let lifetime = Lifetime::new(at(0), file.merged(none));
        assert_eq!((lifetime.over(at(1_000_000)), lifetime.poll_timeout()), (None, None));
        assert_eq!(file.merged(PeerLimits::default()), file);
    }
}
