//! `ping` and `ping-restart`.

use std::time::Duration;

use adit_core::{Instant, PeerActivity};

use crate::key_state::earliest;
use crate::params::Keepalive;

/// An action that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing was sent for a while: send a ping.
    Ping,
    /// Nothing was heard for too long.
    Timeout,
}

/// Watches the traffic with one peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Liveness {
    keepalive: Keepalive,
    last_sent: Instant,
    last_heard: Instant,
}

impl Liveness {
    pub(crate) fn new(now: Instant, keepalive: Keepalive) -> Self {
        Liveness { keepalive, last_sent: now, last_heard: now }
    }

    /// Takes other times, which count from when something was sent and heard last.
    pub(crate) fn set_keepalive(&mut self, keepalive: Keepalive) {
        self.keepalive = keepalive;
    }

    /// The peer is looked for anew: earlier traffic counts no more.
    pub(crate) fn restart(&mut self, now: Instant) {
        (self.last_sent, self.last_heard) = (now, now);
    }

    /// An authenticated control packet counts as a sign of life.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.last_heard = now;
    }

    /// Takes the activity in the data plane. Anything authentic is a sign of life.
    pub(crate) fn traffic(&mut self, activity: &PeerActivity) {
        self.last_heard = activity.received.last().map_or(self.last_heard, |last| last.max(self.last_heard));
        self.last_sent = activity.sent.last().map_or(self.last_sent, |last| last.max(self.last_sent));
    }

    /// The action that is due now. A ping counts as sent.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Due> {
        if self.timeout_at().is_some_and(|at| now >= at) {
            return Some(Due::Timeout);
        }
        if self.ping_at().is_some_and(|at| now >= at) {
            self.last_sent = now;
            return Some(Due::Ping);
        }
        None
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        earliest(self.ping_at(), self.timeout_at())
    }

    /// When the peer was last heard.
    pub(crate) fn last_heard(&self) -> Instant {
        self.last_heard
    }

    /// How long the peer may be silent, for messages.
    pub(crate) fn timeout(&self) -> Duration {
        self.keepalive.timeout.unwrap_or_default()
    }

    /// A silent peer ends the client (`ping-exit`).
    pub(crate) fn exits(&self) -> bool {
        self.keepalive.exit
    }

    fn ping_at(&self) -> Option<Instant> {
        self.keepalive.ping.map(|interval| self.last_sent + interval)
    }

    fn timeout_at(&self) -> Option<Instant> {
        self.keepalive.timeout.map(|timeout| self.last_heard + timeout)
    }
}

#[cfg(test)]
mod tests {
    use adit_core::Activity;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    /// The last packet received, and the last ping sent.
    fn activity(received: Option<u64>, sent: Option<u64>) -> PeerActivity {
        PeerActivity {
            received: Activity { last_data: received.map(at), ..Activity::default() },
            sent: Activity { last_other: sent.map(at), ..Activity::default() },
        }
    }

    #[test]
    fn a_new_start_takes_no_old_packet_for_a_sign_of_life() {
        let keepalive = Keepalive { timeout: Some(Duration::from_secs(60)), ..Keepalive::default() };
        let mut liveness = Liveness::new(at(0), keepalive);
        liveness.traffic(&activity(Some(1), Some(1)));
        liveness.restart(at(100));
        liveness.traffic(&activity(Some(1), Some(130)));
        assert_eq!((liveness.poll(at(159)), liveness.poll(at(160))), (None, Some(Due::Timeout)));
    }

    #[test]
    fn other_times_count_from_the_last_sign_of_life() {
        let keepalive =
            |timeout| Keepalive { timeout: Some(Duration::from_secs(timeout)), ..Keepalive::default() };
        let mut liveness = Liveness::new(at(0), keepalive(60));
        liveness.heard(at(30));
        liveness.set_keepalive(keepalive(10));
        assert_eq!((liveness.poll(at(39)), liveness.poll(at(40))), (None, Some(Due::Timeout)));
    }

    #[test]
    fn pings_when_silent_and_gives_up_when_unheard() {
        let keepalive = Keepalive {
            ping: Some(Duration::from_secs(10)),
            timeout: Some(Duration::from_secs(60)),
            exit: false,
        };
        let mut liveness = Liveness::new(at(0), keepalive);
        assert_eq!(liveness.poll(at(9)), None);
        assert_eq!(liveness.poll(at(10)), Some(Due::Ping));
        assert_eq!(liveness.poll(at(10)), None);
        liveness.traffic(&activity(Some(15), Some(15)));
        assert_eq!(liveness.poll(at(24)), None);
        assert_eq!(liveness.poll(at(25)), Some(Due::Ping));
        liveness.traffic(&activity(Some(15), Some(74)));
        assert_eq!(liveness.poll(at(75)), Some(Due::Timeout));
    }
}
