//! `inactive` and `session-timeout`: no connection ends by them before its time, and none lasts longer.

use std::collections::VecDeque;
use std::time::Duration;

use adit_core::{Instant, PeerLimits};

use crate::openvpn::model::Tunnel;
use crate::openvpn::scenario::Scenario;
use crate::violation::Violation;

/// The side of a tunnel that is the client's; [`SERVER`](crate::openvpn::model::SERVER) is the other.
pub(crate) const CLIENT: usize = 1;
/// The protocol gets counters of traffic once a second.
const NOTICE: Duration = Duration::from_secs(1);
/// A client's exit notification takes that long at most.
const EXIT_NOTIFY: Duration = Duration::from_secs(1);
/// Longer than it takes to end a connection whose time is over: to learn of the traffic, and to notify the peer.
const ENDING: Duration = Duration::from_secs(5);
/// Longer than any packet is in transit on a clean net.
const MAX_TRANSIT: Duration = Duration::from_secs(1);

/// The state of one side of a tunnel.
#[derive(Clone, Debug, Default)]
struct Side {
    /// When its last connection began.
    since: Option<Instant>,
    /// When packets passed there lately, and when the last one did before those.
    recent: VecDeque<Instant>,
    earlier: Instant,
}

impl Side {
    fn active(&self) -> Instant {
        self.recent.back().copied().unwrap_or(self.earlier)
    }

    /// When a packet last passed at least that long ago.
    fn active_before(&self, now: Instant, time: Duration) -> Instant {
        let known = self.recent.iter().rev().copied().find(|at| *at + time <= now);
        known.unwrap_or(self.earlier)
    }
}

/// How long connections last.
#[derive(Debug)]
pub(crate) struct Limits {
    limits: PeerLimits,
    /// Which sides end a connection.
    enforces: [bool; 2],
    /// How much later things are done than they are due.
    lag: Duration,
    /// The sides of each client: the server's side, its own.
    sides: Vec<[Side; 2]>,
    /// When each client's connection was last over by these limits.
    over: Vec<Option<Instant>>,
}

impl Limits {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Limits {
            limits: scenario.limits,
            enforces: scenario.enforces_limits(),
            lag: scenario.latency.notices + scenario.latency.orders + scenario.latency.wake,
            sides: vec![Default::default(); scenario.clients],
            over: vec![None; scenario.clients],
        }
    }

    /// A connection begins on that side.
    pub(crate) fn begin(&mut self, now: Instant, client: usize, side: usize) {
        self.sides[client - 1][side] = Side { since: Some(now), recent: VecDeque::new(), earlier: now };
    }

    /// A packet passes there.
    pub(crate) fn record_packet(&mut self, now: Instant, client: usize, side: usize) {
        let late = self.late();
        let side = &mut self.sides[client - 1][side];
        while let Some(at) = side.recent.front().copied().filter(|at| *at + late * 2 < now) {
            side.recent.pop_front();
            side.earlier = at;
        }
        side.recent.push_back(now);
    }

    /// The protocol may not know of a packet that passed so shortly before it decided to end the connection.
    fn late(&self) -> Duration {
        NOTICE + EXIT_NOTIFY + self.lag
    }

    /// Whether the connection of that side has lasted as long as it may.
    fn is_old(&self, now: Instant, side: &Side) -> bool {
        self.limits.length.zip(side.since).is_some_and(|(length, since)| since + length <= now)
    }

    /// Whether the protocol can have found that nothing passed for long enough.
    fn is_idle(&self, now: Instant, side: &Side) -> bool {
        let late = self.late();
        let known = side.active_before(now, late);
        self.limits.idle.is_some_and(|idle| known + idle.after <= now + late)
    }

    /// Notes that a side ends the connection by itself, which it may only when the time is over.
    pub(crate) fn end(
        &mut self,
        now: Instant,
        client: usize,
        side: usize,
        awake: Instant,
    ) -> Result<(), Violation> {
        let known = &self.sides[client - 1][side];
        self.over[client - 1] = Some(now);
        // A machine that slept may learn too late of an event just before.
        let slept = awake + self.late() >= now;
        if self.enforces[side] && (self.is_old(now, known) || self.is_idle(now, known) || slept) {
            return Ok(());
        }
        Err(Violation::new(format!(
            "side {side} of client {client} ended its connection too early: {known:?}"
        )))
    }

    /// Whether the end of a client's connection is no fault on a clean net: its time was over at either side, or the
    /// other side is gone already.
    pub(crate) fn is_excused(&mut self, now: Instant, client: usize, tunnel: &Tunnel) -> bool {
        if self.sides[client - 1].iter().any(|side| self.is_old(now, side)) {
            self.over[client - 1] = Some(now);
            return true;
        }
        self.limits.length.is_some() && (tunnel.client.is_none() || tunnel.server.is_none())
    }

    /// Whether that client's connection was over at most `bound` ago, so that it may still be down.
    pub(crate) fn was_over(&self, client: usize, now: Instant, bound: Duration) -> bool {
        self.over[client - 1].is_some_and(|at| at + bound >= now)
    }

    /// Whether that client's connection lasts until a packet that is sent now has arrived.
    pub(crate) fn lasts(&self, now: Instant, client: usize) -> bool {
        self.sides[client - 1].iter().all(|side| !self.is_old(now + MAX_TRANSIT, side))
    }

    /// Checks a side that is up. It must not be, if the time has long been over; `awake`: before that it could do
    /// nothing.
    pub(crate) fn check(
        &self,
        now: Instant,
        client: usize,
        side: usize,
        awake: Instant,
    ) -> Result<(), Violation> {
        let known = &self.sides[client - 1][side];
        let long_over = |from: Instant, time| (from + time).max(awake) + ENDING + self.lag < now;
        let old = self.limits.length.zip(known.since).is_some_and(|(length, since)| long_over(since, length));
        let idle = self.limits.idle.is_some_and(|idle| long_over(known.active(), idle.after));
        if !self.enforces[side] || !(old || idle) {
            return Ok(());
        }
        Err(Violation::new(format!(
            "side {side} of client {client} goes on though its time is over: {known:?}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use adit_core::IdleLimit;

    use super::*;
    use crate::openvpn::model::SERVER;
    use crate::openvpn::scenario::Latency;
    use crate::openvpn::world::START;

    fn at(seconds: u64) -> Instant {
        START + Duration::from_secs(seconds)
    }

    fn limits(idle: Option<u64>, length: Option<u64>) -> Limits {
        let mut scenario = Scenario::from_seed(0);
        scenario.clients = 1;
        scenario.limits = PeerLimits {
            idle: idle.map(|seconds| IdleLimit { after: Duration::from_secs(seconds), bytes: 0 }),
            length: length.map(Duration::from_secs),
        };
        scenario.latency = Latency::default();
        let mut limits = Limits::new(&scenario);
        limits.begin(at(0), 1, SERVER);
        limits
    }

    #[test]
    fn a_connection_ends_when_its_time_is_over() {
        let mut limits = limits(None, Some(60));
        assert_eq!(limits.check(at(65), 1, SERVER, START), Ok(()));
        assert!(limits.check(at(66), 1, SERVER, START).is_err());
        assert_eq!(limits.check(at(66), 1, SERVER, at(62)), Ok(()), "it slept");
        assert!(limits.lasts(at(58), 1) && !limits.lasts(at(59), 1));
        assert!(limits.end(at(59), 1, SERVER, START).is_err());
        assert_eq!(limits.end(at(60), 1, SERVER, START), Ok(()));
        assert!(
            limits.end(at(60), 1, CLIENT, START).is_err(),
            "the server enforces the limit, not the client"
        );
        let bound = Duration::from_secs(5);
        assert!(limits.was_over(1, at(65), bound) && !limits.was_over(1, at(66), bound));
    }

    #[test]
    fn an_idle_connection_ends() {
        let mut limits = limits(Some(20), None);
        limits.record_packet(at(30), 1, SERVER);
        assert_eq!(limits.check(at(55), 1, SERVER, START), Ok(()));
        assert!(limits.check(at(56), 1, SERVER, START).is_err());
        assert!(limits.end(at(47), 1, SERVER, START).is_err());
        assert_eq!(limits.end(at(50), 1, SERVER, START), Ok(()));
        // It cannot know of the last packets.
        limits.record_packet(at(49), 1, SERVER);
        limits.record_packet(at(50), 1, SERVER);
        assert_eq!(limits.end(at(50), 1, SERVER, START), Ok(()));
        assert!(limits.end(at(51), 1, SERVER, START).is_err());
    }

    #[test]
    fn a_clean_net_excuses_what_is_over() {
        let mut limits = limits(None, Some(60));
        let up = Some((at(0), Vec::new()));
        let mut tunnel = Tunnel { client: up.clone(), server: up, ..Tunnel::default() };
        assert!(!limits.is_excused(at(59), 1, &tunnel) && limits.is_excused(at(60), 1, &tunnel));
        tunnel.server = None;
        assert!(limits.is_excused(at(59), 1, &tunnel));
        assert!(!self::limits(Some(20), None).is_excused(at(100), 1, &tunnel));
    }
}
