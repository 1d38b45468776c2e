//! Datagrams of sessions that are to come: a peer can seal with a session before this end has its keys.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use adit_core::{Instant, SessionId};

/// Most sessions that are expected at once. Of more, the one that was expected first gives way.
const MOST_SESSIONS: usize = 1024;
/// The time for which a session is expected.
const EXPECTED_FOR: Duration = Duration::from_secs(90);
/// Most datagrams that are held of a session, and of all sessions.
const MOST_OF_SESSION: usize = 64;
const MOST: usize = 512;
/// The time for which a datagram is held.
const HELD_FOR: Duration = Duration::from_secs(3);

/// A datagram that came before its session. `S`: where it came from.
struct Held<S> {
    session: SessionId,
    until: Instant,
    source: S,
    bytes: Vec<u8>,
}

/// The sessions that are expected, and the datagrams that name them, in the order in which they came.
pub(crate) struct Expected<S> {
    /// The sessions, each with the end of its time.
    sessions: BTreeMap<SessionId, Instant>,
    held: VecDeque<Held<S>>,
    /// The datagrams whose sessions have come.
    released: VecDeque<Held<S>>,
}

impl<S> Default for Expected<S> {
    fn default() -> Self {
        Expected { sessions: BTreeMap::new(), held: VecDeque::new(), released: VecDeque::new() }
    }
}

impl<S> Expected<S> {
    /// A session may come.
    pub(crate) fn expect(&mut self, session: SessionId, now: Instant) {
        if self.sessions.len() >= MOST_SESSIONS && !self.sessions.contains_key(&session) {
            let first = self.sessions.iter().min_by_key(|(_, until)| **until).map(|(first, _)| *first);
            if let Some(first) = first {
                self.sessions.remove(&first);
            }
        }
        self.sessions.insert(session, now + EXPECTED_FOR);
    }

    /// Holds a datagram of a session that is expected. Gives whether it did.
    pub(crate) fn hold(&mut self, session: SessionId, now: Instant, source: S, bytes: &[u8]) -> bool {
        let is_expected = self.sessions.get(&session).is_some_and(|until| now < *until);
        if !is_expected || self.held.len() >= MOST {
            return false;
        }
        let of_session = self.held.iter().filter(|held| held.session == session).count();
        if of_session >= MOST_OF_SESSION {
            return false;
        }
        self.held.push_back(Held { session, until: now + HELD_FOR, source, bytes: bytes.to_vec() });
        true
    }

    /// The session has come, or does not come any more. Its datagrams are released.
    pub(crate) fn came(&mut self, session: SessionId) {
        if self.sessions.remove(&session).is_none() {
            return;
        }
        let (released, held) =
            std::mem::take(&mut self.held).into_iter().partition(|it| it.session == session);
        self.held = held;
        let released: VecDeque<Held<S>> = released;
        self.released.extend(released);
    }

    /// A datagram whose session has come: its bytes, and where it came from.
    pub(crate) fn next_released(&mut self) -> Option<(S, Vec<u8>)> {
        self.released.pop_front().map(|held| (held.source, held.bytes))
    }

    /// Whether there is a datagram whose session has come.
    pub(crate) fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Drops the datagrams that were held too long, and forgets the sessions that have not come. Gives the number of those datagrams.
    pub(crate) fn tick(&mut self, now: Instant) -> u64 {
        if self.sessions.is_empty() && self.held.is_empty() {
            return 0;
        }
        self.sessions.retain(|_, until| now < *until);
        let before = self.held.len();
        self.held.retain(|held| now < held.until);
        (before - self.held.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(1_000_000_000);

    /// The session gave way to others, which have come.
    #[test]
    fn datagrams_go_though_no_session_is_expected_any_more() {
        let mut expected = Expected::default();
        expected.expect(SessionId(0), START);
        assert!(expected.hold(SessionId(0), START, (), &[1]));
        let others = (1..=1024).map(SessionId);
        others.clone().for_each(|session| expected.expect(session, START + Duration::from_millis(1)));
        others.for_each(|session| expected.came(session));
        assert_eq!(expected.tick(START + HELD_FOR), 1);
    }
}
