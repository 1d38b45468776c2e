//! The sessions of a peer: previous, current, next (whitepaper §6.4; wireguard-go device/keypair.go).

use std::time::Duration;

use adit_core::{Install, Instant, OnFirstOpened, SessionId};

use super::Peer;
use super::initiation_mark::Mark;
use super::timers::{REKEY_AFTER_TIME, REKEY_TIMEOUT};
use crate::noise::SessionKeys;
use crate::request::{Codec, DataEvent};
use crate::shared::Shared;

/// `Reject-After-Time`: a session neither seals nor opens after this.
pub(crate) const REJECT_AFTER_TIME: Duration = Duration::from_secs(180);

/// A session that the data plane has the keys of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Session {
    /// The receiver index that we chose: its id.
    pub(super) index: u32,
    pub(super) is_initiator: bool,
    pub(super) made: Instant,
    /// Its last second has come, or so many messages were sealed: new keys are due.
    pub(super) worn: bool,
    /// Its handshake used a post-quantum key.
    pub(super) post_quantum: bool,
    /// As its responder we offer to agree on the next such key.
    pub(super) offers: bool,
}

impl Session {
    /// How old it was at a moment.
    pub(super) fn age(&self, at: Instant) -> Duration {
        at - self.made
    }
}

/// At most three sessions.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    pub(super) previous: Option<Session>,
    /// The one that seals.
    pub(super) current: Option<Session>,
    /// One that we made as responder, and that the initiator did not use yet.
    pub(super) next: Option<Session>,
    /// One that is neither of these, where sessions follow each other faster than datagrams come: both ends began at
    /// once, or the handshake for the sake of post-quantum keys followed another. Datagrams that the other end has
    /// sealed with it may still be on their way. Upstream has ended it by then.
    superseded: Option<Session>,
}

impl Sessions {
    /// The session that can seal now.
    pub(super) fn usable(&self, now: Instant) -> Option<&Session> {
        self.current.as_ref().filter(|session| session.age(now) < REJECT_AFTER_TIME)
    }

    /// Whether our next message wants new keys: the initiator's session is old, or either end's is used up.
    pub(super) fn wants_rekey(&self, at: Instant) -> bool {
        let is_old = |session: &Session| session.is_initiator && session.age(at) >= REKEY_AFTER_TIME;
        self.current.as_ref().is_some_and(|session| session.worn || is_old(session))
    }

    /// A session that we made as initiator. Gives those that end by it. The one before a current one that is young stays:
    /// the other end may seal with it until it knows the current one.
    fn add_current(&mut self, session: Session) -> [Option<Session>; 2] {
        let current = self.current.replace(session);
        let (previous, superseded) = match self.next.take() {
            Some(next) => (Some(next), current),
            None => (current, self.previous.take_if(|_| is_young(current, session))),
        };
        [std::mem::replace(&mut self.previous, previous), std::mem::replace(&mut self.superseded, superseded)]
    }

    /// A session that we made as responder. Gives those that end by it. While the current one is so young that the
    /// other end may not know it yet, the one before stays; so does one that is still to be used, as packets that its
    /// initiator sealed with it may come later than the initiation of this one.
    fn add_next(&mut self, session: Session) -> [Option<Session>; 3] {
        let unused = self.next.replace(session);
        if is_young(unused, session) {
            return [self.previous.take(), std::mem::replace(&mut self.superseded, unused), None];
        }
        let current = self.current;
        let previous = self.previous.take_if(|_| !is_young(current, session));
        [unused, previous, self.superseded.take()]
    }

    /// The session that its initiator uses from now on, if it was not used before: the next one; or one that the next one has
    /// superseded, which the data plane seals with by then, as it is later than the current one.
    fn take_unused(&mut self, id: SessionId) -> Option<Session> {
        let is_it = |session: &mut Session| id_of(session.index) == id;
        let current = self.current.map(|current| current.made);
        let is_later =
            |session: &mut Session| !session.is_initiator && current.is_none_or(|made| made < session.made);
        self.next
            .take_if(is_it)
            .or_else(|| self.superseded.take_if(|session| is_it(session) && is_later(session)))
    }

    /// The initiator used that session, which was not used before. Gives those that end by it.
    fn confirm(&mut self, used: Session) -> Option<Session> {
        let previous = std::mem::replace(&mut self.previous, self.current.replace(used))?;
        self.superseded.replace(previous)
    }

    pub(super) fn is_empty(&self) -> bool {
        [self.previous, self.current, self.next, self.superseded].iter().all(Option::is_none)
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Session> + use<> {
        let Sessions { previous, current, next, superseded } = std::mem::take(self);
        [previous, current, next, superseded].into_iter().flatten()
    }
}

/// Whether a session was made so shortly before another that datagrams of its handshake may still be on their way.
fn is_young(session: Option<Session>, other: Session) -> bool {
    session.is_some_and(|session| session.age(other.made) < REKEY_TIMEOUT)
}

impl Peer {
    fn install(&mut self, shared: &mut Shared, session: Session, remote_index: u32, keys: SessionKeys) {
        self.close_gate(shared);
        let SessionKeys { seal, open } = keys;
        let expires = session.made + REJECT_AFTER_TIME;
        let codec = Codec { remote_index, mtu: shared.mtu, seal, open, expires };
        let on_first_opened = match session.is_initiator {
            true => OnFirstOpened::Nothing,
            false if self.is_held(session) => OnFirstOpened::Deactivate,
            false => OnFirstOpened::Activate,
        };
        let install = Install { on_first_opened, ..Install::new(self.id, id_of(session.index), codec) };
        shared.order(DataEvent::Install(Box::new(install)));
    }

    pub(super) fn retire(&self, shared: &mut Shared, session: Session) {
        shared.free_index(session.index);
        shared.order(DataEvent::Retire { peer: self.id, session: id_of(session.index) });
    }

    /// The session seals from now on, unless packets wait for one with a post-quantum key. Then those before it do not
    /// seal either, as the other end, which has no key, may have lost them; but they open packets that it sealed before
    /// it knew this one.
    pub(super) fn activate(&mut self, shared: &mut Shared, session: Session) {
        if self.is_held(session) {
            return shared.order(DataEvent::Deactivate(self.id));
        }
        self.wanted = false;
        shared.order(DataEvent::Activate { peer: self.id, session: id_of(session.index) });
    }

    /// The session of a response that came: it seals at once.
    pub(super) fn begin_as_initiator(
        &mut self,
        shared: &mut Shared,
        (index, remote_index): (u32, u32),
        keys: SessionKeys,
        post_quantum: bool,
    ) -> Session {
        let made = shared.now;
        let session = Session { index, is_initiator: true, made, worn: false, post_quantum, offers: false };
        self.install(shared, session, remote_index, keys);
        let ended = self.sessions.add_current(session);
        self.activate(shared, session);
        ended.into_iter().flatten().for_each(|session| self.retire(shared, session));
        self.timers.session_derived(shared.now);
        session
    }

    /// The session of a response that we send: it seals once the initiator has used it.
    pub(super) fn begin_as_responder(
        &mut self,
        shared: &mut Shared,
        (index, remote_index): (u32, u32),
        keys: SessionKeys,
        mark: &Mark,
    ) {
        let session = Session {
            index,
            is_initiator: false,
            made: shared.now,
            worn: false,
            post_quantum: mark.key.is_some(),
            offers: mark.present,
        };
        self.install(shared, session, remote_index, keys);
        let ended = self.sessions.add_next(session);
        ended.into_iter().flatten().for_each(|session| self.retire(shared, session));
        self.timers.session_derived(shared.now);
    }

    /// A session opened its first packet. If it is one that we made as responder, the initiator has its keys, and the data plane
    /// seals with it since that packet.
    pub(crate) fn first_opened(&mut self, shared: &mut Shared, session: SessionId) {
        let Some(used) = self.sessions.take_unused(session) else { return };
        let ended = self.sessions.confirm(used);
        self.activate(shared, used);
        ended.into_iter().for_each(|session| self.retire(shared, session));
        // A response that came now would be to an initiation older than this session.
        self.drop_pending(shared);
        self.handshake_complete(shared);
        self.session_began(shared, used, false);
    }

    /// A session was used so much that new keys are due.
    pub(crate) fn limit_near(&mut self, shared: &mut Shared, session: SessionId) {
        let current = self.sessions.current.as_mut();
        if let Some(current) = current.filter(|current| id_of(current.index) == session) {
            current.worn = true;
            self.initiate(shared, false);
        }
    }
}

pub(super) const fn id_of(index: u32) -> SessionId {
    SessionId(index as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each is made 100 s after the one before.
    fn session(index: u32) -> Session {
        let made = Instant::ORIGIN + Duration::from_secs(100) * index;
        Session { index, is_initiator: true, made, worn: false, post_quantum: false, offers: false }
    }

    fn shape(sessions: &Sessions) -> [Option<u32>; 3] {
        [sessions.previous, sessions.current, sessions.next].map(|session| session.map(|it| it.index))
    }

    /// The initiator uses the next session.
    fn confirm(sessions: &mut Sessions) -> Option<Session> {
        let id = id_of(sessions.next?.index);
        let used = sessions.take_unused(id)?;
        sessions.confirm(used)
    }

    fn ended(sessions: impl IntoIterator<Item = Option<Session>>) -> Vec<u32> {
        sessions.into_iter().flatten().map(|session| session.index).collect()
    }

    #[test]
    fn sessions_follow_each_other() {
        let mut sessions = Sessions::default();
        assert_eq!(ended(sessions.add_current(session(1))), []);
        assert_eq!(ended(sessions.add_current(session(2))), []);
        assert_eq!(shape(&sessions), [Some(1), Some(2), None]);
        assert_eq!(ended(sessions.add_current(session(3))), [1]);
        assert_eq!(ended(sessions.add_next(session(4))), [2]);
        assert_eq!(shape(&sessions), [None, Some(3), Some(4)]);
        assert_eq!(ended(sessions.add_next(session(5))), [4]);
        assert_eq!(ended([confirm(&mut sessions)]), []);
        assert_eq!(shape(&sessions), [Some(3), Some(5), None]);
        assert_eq!(ended([confirm(&mut sessions)]), [], "there is no next one");
        assert_eq!(ended(sessions.add_next(session(6))), [3]);
        // A response that comes while a session waits for its initiator: the one that sealed stays for a while.
        assert_eq!(ended(sessions.add_current(session(7))), []);
        assert_eq!(shape(&sessions), [Some(6), Some(7), None]);
        assert_eq!(ended(sessions.add_current(session(8))), [6, 5]);
        assert_eq!(ended(sessions.add_next(session(9))), [7]);
        assert_eq!(ended(sessions.add_current(session(10))), []);
        assert_eq!(ended(sessions.add_next(session(11))), [9, 8]);
        assert_eq!(shape(&sessions), [None, Some(10), Some(11)]);
        assert_eq!(ended([confirm(&mut sessions)]), []);
        assert_eq!(sessions.take_all().count(), 2);
    }

    /// Both ends began at once: the other end's handshake comes right after the response to ours.
    #[test]
    fn a_session_that_the_other_end_may_still_use_stays() {
        let mut sessions = Sessions::default();
        let at = |index, millis| {
            let made = Instant::ORIGIN + Duration::from_secs(500) + Duration::from_millis(millis);
            Session { made, ..session(index) }
        };
        sessions.add_current(session(1));
        sessions.add_current(at(2, 0));
        assert_eq!(ended(sessions.add_next(at(3, 4999))), []);
        assert_eq!(shape(&sessions), [Some(1), Some(2), Some(3)]);
        assert_eq!(ended([confirm(&mut sessions)]), []);
        assert_eq!(shape(&sessions), [Some(2), Some(3), None]);
        assert_eq!(ended(sessions.add_next(at(4, 9999))), [2, 1]);
        let mut sessions = Sessions::default();
        sessions.add_current(session(1));
        sessions.add_current(at(2, 0));
        assert_eq!(ended(sessions.add_next(at(3, 5000))), [1]);
    }

    /// The handshake for the sake of post-quantum keys follows another at once, and its initiation comes before packets
    /// that its initiator sealed with the session of the first.
    #[test]
    fn sessions_of_handshakes_that_follow_at_once_stay() {
        let at = |index, millis| {
            let made = Instant::ORIGIN + Duration::from_secs(500) + Duration::from_millis(millis);
            Session { made, ..session(index) }
        };
        let mut responder = Sessions::default();
        responder.add_current(session(1));
        assert_eq!(ended(responder.add_next(at(2, 0))), []);
        assert_eq!(ended(responder.add_next(at(3, 4999))), [], "2 was not used yet");
        assert_eq!(ended([confirm(&mut responder)]), []);
        assert_eq!(shape(&responder), [Some(1), Some(3), None]);
        assert_eq!(ended(responder.add_next(session(9))), [1, 2]);
        let mut initiator = Sessions::default();
        initiator.add_current(session(1));
        initiator.add_current(at(2, 0));
        assert_eq!(ended(initiator.add_current(at(3, 4999))), [], "the other end may still use 1");
        assert_eq!(ended(initiator.add_current(session(9))), [2, 1]);
    }

    #[test]
    fn only_the_initiator_rekeys_by_time() {
        let at = |seconds| session(1).made + Duration::from_secs(seconds);
        let mut sessions = Sessions { current: Some(session(1)), ..Sessions::default() };
        assert!(!sessions.wants_rekey(at(119)) && sessions.wants_rekey(at(120)));
        assert!(sessions.usable(at(179)).is_some() && sessions.usable(at(180)).is_none());
        sessions.current = Some(Session { is_initiator: false, ..session(1) });
        assert!(!sessions.wants_rekey(at(179)));
        sessions.current = Some(Session { is_initiator: false, worn: true, ..session(1) });
        assert!(sessions.wants_rekey(at(1)));
    }
}
