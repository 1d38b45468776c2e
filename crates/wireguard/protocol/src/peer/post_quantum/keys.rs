//! The post-quantum keys of a peer: three at most.

use crate::crypto::Secret;
use crate::hybrid::Agreed;
use crate::keys::PresharedKey;
use crate::mark;
use crate::tai64n::Tai64n;

/// The result of an exchange.
#[derive(Clone)]
pub(super) struct Key {
    pub(super) preshared: PresharedKey,
    pub(super) mark: Secret,
    /// A session was made with it.
    used: bool,
    /// A newer one is known to be the peer's.
    is_older: bool,
}

impl Key {
    pub(super) fn new(agreed: Agreed) -> Self {
        Key { preshared: agreed.preshared, mark: agreed.mark, used: false, is_older: false }
    }
}

#[derive(Default)]
pub(super) struct Keys {
    /// The newest that the peer is known to have: our initiations name it.
    newest: Option<Key>,
    /// The one before. The peer names it until it knows that we have the newest, and that may be on its way when we learn that it
    /// knows: initiations cross each other.
    before: Option<Key>,
    /// One that we have, and the peer perhaps not: it names it when it does.
    unconfirmed: Option<Key>,
}

impl Keys {
    pub(super) const fn newest(&self) -> Option<&Key> {
        self.newest.as_ref()
    }

    /// The peer proved that it has the key.
    pub(super) fn confirmed(&mut self, key: Key) {
        self.before = self.newest.replace(key);
        if let Some(older) = &mut self.unconfirmed {
            older.is_older = true;
        }
    }

    /// We have the key, and the message is on its way by which the peer gets it.
    pub(super) fn derived_first(&mut self, key: Key) {
        self.unconfirmed = Some(key);
    }

    /// The key that an initiation of the peer names. If the peer was not known to have it, ours name it as well from now on,
    /// unless they name a newer one.
    pub(super) fn named_by(&mut self, timestamp: Tai64n) -> Option<PresharedKey> {
        let is_confirmed = |key: &mut Key| !key.is_older && mark::has(&key.mark, timestamp);
        if let Some(key) = self.unconfirmed.take_if(is_confirmed) {
            self.confirmed(key);
        }
        let mut known = [&mut self.newest, &mut self.before, &mut self.unconfirmed].into_iter().flatten();
        let named = known.find(|key| mark::has(&key.mark, timestamp))?;
        named.used = true;
        Some(named.preshared.clone())
    }

    /// A handshake of ours was complete with the key that it named.
    pub(super) fn used_by_both(&mut self, named: &PresharedKey) {
        for key in [&mut self.newest, &mut self.before].into_iter().flatten() {
            key.used |= key.preshared == *named;
        }
    }

    /// The peer does not have the key that our initiation named: it has none, unless it proved another since.
    pub(super) fn peer_lacks(&mut self, named: &PresharedKey) {
        match self.newest.as_ref().is_some_and(|newest| newest.preshared == *named) {
            true => *self = Keys::default(),
            false => self.before = None,
        }
    }

    /// The peer made a session without naming a key: it has none that it knows us to have.
    pub(super) fn peer_has_none(&mut self) {
        (self.newest, self.before) = (None, None);
    }

    /// Forgets the keys of sessions. If the one that is left is not known to be the peer's, it is so in all likelihood.
    pub(super) fn forget_used(&mut self) {
        for place in [&mut self.newest, &mut self.before, &mut self.unconfirmed] {
            place.take_if(|key| key.used);
        }
        if self.newest.is_none() {
            self.newest = self.unconfirmed.take();
        }
    }
}
