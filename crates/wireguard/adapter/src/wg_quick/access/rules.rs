//! The peers that are to be blocked, and why: no clock, no effects.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use adit_core::Instant;
use adit_wireguard::PublicKey;
use adit_wireguard_config::{Config, Peer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Why a peer is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The peer's time ended then, since 1970-01-01T00:00:00Z.
    Expired(Duration),
    /// The peer was connected for as long as it may be.
    SessionLimit(Duration),
    /// `client-connect` refused it.
    Refused,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Expired(then) => {
                let seconds = i64::try_from(then.as_secs()).unwrap_or(i64::MAX);
                let then = OffsetDateTime::from_unix_timestamp(seconds).ok();
                let then = then.and_then(|then| then.format(&Rfc3339).ok()).unwrap_or_default();
                write!(f, "it expired at {then}")
            }
            Reason::SessionLimit(limit) => {
                write!(
                    f,
                    "its session limit of {} s is reached; `adit allow` lets it connect again",
                    limit.as_secs()
                )
            }
            Reason::Refused => f.write_str("client-connect refused it"),
        }
    }
}

/// The time by both clocks.
#[derive(Clone, Copy)]
pub(super) struct Now {
    /// Since 1970-01-01T00:00:00Z, by the system's clock, which may be set.
    pub(super) wall: Duration,
    /// By the clock that only goes forward.
    pub(super) at: Instant,
}

/// The limits of a peer in the file.
struct Limits {
    name: Option<String>,
    expires: Option<Duration>,
    session: Option<Duration>,
}

/// The state of a peer.
#[derive(Default)]
struct State {
    /// Since when it is connected, or was first since it was allowed to.
    since: Option<Instant>,
    refused_until: Option<Instant>,
    /// The interface was ordered to block it.
    blocked: Option<Reason>,
}

/// The limits of all peers, and where each stands.
pub(super) struct Rules {
    limits: BTreeMap<PublicKey, Limits>,
    states: BTreeMap<PublicKey, State>,
}

impl Rules {
    pub(super) fn new(config: &Config) -> Self {
        let mut rules = Rules { limits: BTreeMap::new(), states: BTreeMap::new() };
        rules.replace(config);
        rules
    }

    /// The file says this now.
    pub(super) fn replace(&mut self, config: &Config) {
        let limits = |peer: &Peer| {
            let session = peer.session_limit;
            let limits = Limits { name: peer.name.clone(), expires: peer.expires, session };
            (peer.public_key, limits)
        };
        self.limits = config.peers.iter().map(limits).collect();
    }

    /// The name of the peer: the name in the file, or else the key.
    pub(super) fn called(&self, key: &PublicKey) -> String {
        let name = self.limits.get(key).and_then(|limits| limits.name.clone());
        name.unwrap_or_else(|| key.to_string())
    }

    /// The peer has connected.
    pub(super) fn connected(&mut self, key: PublicKey, at: Instant) {
        self.states.entry(key).or_default().since.get_or_insert(at);
    }

    /// `client-connect` refused the peer.
    pub(super) fn refuse(&mut self, key: PublicKey, until: Instant) {
        self.states.entry(key).or_default().refused_until = Some(until);
    }

    /// The peers that the interface was ordered to block.
    pub(super) fn blocked(&self) -> Vec<PublicKey> {
        self.states.iter().filter(|(_, state)| state.blocked.is_some()).map(|(key, _)| *key).collect()
    }

    /// Takes the interface's state of a peer that it was ordered to block. True if the peer may connect again, as
    /// another unblocked it.
    pub(super) fn found(&mut self, key: PublicKey, is_blocked: bool) -> bool {
        let Some(state) = self.states.get_mut(&key).filter(|_| !is_blocked) else { return false };
        // One that expired is blocked again.
        let expired = matches!(state.blocked, Some(Reason::Expired(_)));
        *state = State::default();
        !expired
    }

    /// The orders to the interface: the peers to block and why, and those to let connect again. They count as given.
    pub(super) fn changes(&mut self, now: Now) -> Vec<(PublicKey, Option<Reason>)> {
        let mut changes = Vec::new();
        let limits_of = |key: &PublicKey| self.limits.get(key);
        for key in self.limits.keys() {
            self.states.entry(*key).or_default();
        }
        for (key, state) in &mut self.states {
            state.refused_until.take_if(|until| *until <= now.at);
            let expired =
                limits_of(key).and_then(|limits| limits.expires).is_some_and(|then| then <= now.wall);
            if matches!(state.blocked, Some(Reason::Expired(_))) && !expired {
                // The time before it expired does not count.
                state.since = None;
            }
            let reason = reason(limits_of(key), state, now);
            if reason.is_some() != state.blocked.is_some() {
                changes.push((*key, reason));
            }
            state.blocked = reason;
        }
        let limits = &self.limits;
        self.states.retain(|key, state| limits.contains_key(key) || state.blocked.is_some());
        changes
    }

    /// How long nothing changes by itself. `None`: as long as nothing happens.
    pub(super) fn wait(&self, now: Now) -> Option<Duration> {
        let waits = self.states.iter().filter_map(|(key, state)| {
            let limits = self.limits.get(key);
            let expires = limits.and_then(|it| it.expires).map(|then| then.saturating_sub(now.wall));
            let session =
                limits.and_then(|it| it.session).zip(state.since).map(|(limit, since)| since + limit);
            let due = session.into_iter().chain(state.refused_until).map(|at| at.saturating_since(now.at));
            let is_blocked = state.blocked.is_some();
            let due = due.chain(expires).filter(|wait| !(is_blocked && wait.is_zero()));
            // Another may unblock it at any time.
            due.chain(is_blocked.then_some(Duration::MAX)).min()
        });
        waits.min()
    }
}

fn reason(limits: Option<&Limits>, state: &State, now: Now) -> Option<Reason> {
    if let Some(then) = limits.and_then(|limits| limits.expires).filter(|then| *then <= now.wall) {
        return Some(Reason::Expired(then));
    }
    let session = limits.and_then(|limits| limits.session).zip(state.since);
    if let Some((limit, _)) = session.filter(|(limit, since)| *since + *limit <= now.at) {
        return Some(Reason::SessionLimit(limit));
    }
    state.refused_until.map(|_| Reason::Refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: PublicKey = PublicKey([1; 32]);
    const OTHER: PublicKey = PublicKey([2; 32]);
    /// 2027-01-31T00:00:00Z.
    const DAY: Duration = Duration::from_secs(1_801_353_600);

    fn rules(directives: &str) -> Rules {
        Rules::new(&config(directives))
    }

    fn config(directives: &str) -> Config {
        let text =
            format!("[Interface]\n[Peer]\nPublicKey = {KEY}\n{directives}\n[Peer]\nPublicKey = {OTHER}\n");
        adit_wireguard_config::parse(text.as_bytes(), "wg0.conf").expect("a good file").config
    }

    /// So many seconds after the day and the start.
    fn now(seconds: u64) -> Now {
        let after = Duration::from_secs(seconds);
        Now { wall: DAY + after, at: Instant::from_nanos(0) + after }
    }

    #[test]
    fn a_peer_expires_by_the_systems_clock() {
        let mut rules = rules("#adit: expires = 2027-01-31T00:00:10Z");
        assert_eq!(rules.called(&KEY), KEY.to_string());
        assert!(rules.changes(now(9)).is_empty());
        assert_eq!(rules.wait(now(9)), Some(Duration::from_secs(1)));
        let reason = Reason::Expired(DAY + Duration::from_secs(10));
        assert_eq!(rules.changes(now(10)), [(KEY, Some(reason))]);
        assert_eq!(reason.to_string(), "it expired at 2027-01-31T00:00:10Z");
        assert!(rules.changes(now(11)).is_empty());
        assert_eq!((rules.blocked(), rules.wait(now(11))), (vec![KEY], Some(Duration::MAX)));
        // Unblocking it achieves nothing.
        assert!(!rules.found(KEY, true) && rules.changes(now(12)).is_empty());
        assert!(!rules.found(KEY, false));
        assert_eq!(rules.changes(now(12)), [(KEY, Some(reason))]);
        // The clock was set back; or the file has another day.
        assert_eq!(rules.changes(now(3)), [(KEY, None)]);
        assert_eq!(rules.changes(now(10)).len(), 1);
        rules.connected(KEY, now(3).at);
        rules.replace(&config("#adit: expires = 2028-01-01\n#adit: session-limit = 1s"));
        assert_eq!(rules.changes(now(10)), [(KEY, None)]);
    }

    #[test]
    fn a_session_ends_at_its_limit_until_the_peer_is_allowed() {
        let mut rules = rules("#adit: name = phone\n#adit: session-limit = 60s");
        assert!(rules.changes(now(500)).is_empty());
        assert_eq!((rules.wait(now(500)), rules.called(&KEY).as_str()), (None, "phone"));
        rules.connected(KEY, now(500).at);
        // It comes back in between: the time goes on.
        rules.connected(KEY, now(530).at);
        assert!(rules.changes(now(559)).is_empty());
        assert_eq!(rules.wait(now(559)), Some(Duration::from_secs(1)));
        let reason = Reason::SessionLimit(Duration::from_secs(60));
        assert_eq!(rules.changes(now(560)), [(KEY, Some(reason))]);
        assert_eq!(rules.wait(now(10_000)), Some(Duration::MAX));
        assert!(rules.changes(now(10_000)).is_empty());
        assert!(rules.found(KEY, false));
        assert!(rules.changes(now(10_001)).is_empty());
        rules.connected(KEY, now(10_002).at);
        assert_eq!(rules.wait(now(10_002)), Some(Duration::from_secs(60)));
    }

    #[test]
    fn who_is_refused_may_try_again_later() {
        let mut rules = rules("");
        rules.connected(OTHER, now(1).at);
        rules.refuse(OTHER, now(11).at);
        assert_eq!(rules.changes(now(1)), [(OTHER, Some(Reason::Refused))]);
        assert_eq!(rules.wait(now(2)), Some(Duration::from_secs(9)));
        assert!(rules.changes(now(10)).is_empty());
        assert_eq!(rules.changes(now(11)), [(OTHER, None)]);
        assert_eq!(rules.wait(now(11)), None);
        // A peer that is not in the file, as `wg` added it.
        let strange = PublicKey([3; 32]);
        rules.refuse(strange, now(20).at);
        assert_eq!(rules.changes(now(12)).len(), 1);
        assert_eq!(rules.changes(now(20)), [(strange, None)]);
        assert_eq!(rules.states.len(), 2);
    }
}
