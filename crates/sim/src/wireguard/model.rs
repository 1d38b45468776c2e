//! The conditions that must hold for packets, keys, counters and handshake messages.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use adit_core::{Install, Instant, PeerId, SessionId};
use adit_wireguard::Codec;

use crate::packets::Packets;
use crate::violation::{Violation, ensure};

/// `Reject-After-Time`.
pub(crate) const REJECT_AFTER: Duration = Duration::from_secs(180);
/// Keys are forgotten three times that after the last of them were made.
const WIPE_AFTER: Duration = Duration::from_secs(540);
/// `Rekey-Timeout`: the least time between initiations, but for one with a cookie after one without.
const REKEY_TIMEOUT: Duration = Duration::from_secs(5);
/// Initiations that may follow each other sooner for the sake of post-quantum keys: one that names no key after one that
/// named a key which the other end had lost, and one that names the key that was agreed on then.
const EARLY_INITIATIONS: u32 = 2;
/// How much later than it is due something may be found to be done.
const SLACK: Duration = Duration::from_secs(1);
/// Sessions of a peer: of previous, current, next and superseded at most three.
const SESSIONS: usize = 3;
/// Type, receiver index and counter; and the tag.
const HEADER: usize = 16;
const TAG: usize = 16;
const PADDING: usize = 16;

/// A key to seal with.
struct SealKey {
    key: [u8; 32],
    mtu: usize,
    expires: Instant,
    next_counter: u64,
}

/// The sessions of an end with one peer, and when they were made.
struct Sessions {
    held: BTreeMap<SessionId, Instant>,
    active: Option<SessionId>,
    last: Instant,
}

/// Knows all packets, keys and counters.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) packets: Packets,
    /// The keys by the end that has each, and the index in front of the datagrams that it seals.
    keys: BTreeMap<(usize, u32), SealKey>,
    /// All keys that were ever installed to seal.
    used: BTreeSet<[u8; 32]>,
    /// All keys that were ever installed to open, each with the end that installed it.
    openers: BTreeMap<[u8; 32], usize>,
    sessions: BTreeMap<(usize, PeerId), Sessions>,
    /// When an end last sent an initiation to an address, whether that had a cookie, and how many in a row were early.
    initiations: BTreeMap<(usize, SocketAddr), (Instant, bool, u32)>,
    /// Ends may agree on post-quantum keys.
    post_quantum: bool,
    /// Several peers may be at one address.
    ignores_initiations: bool,
}

impl Model {
    /// Keys that were installed so far.
    pub(crate) fn keys(&self) -> u64 {
        self.used.len() as u64
    }

    /// A machine made a session.
    pub(crate) fn install(
        &mut self,
        now: Instant,
        end: usize,
        install: &Install<Codec>,
    ) -> Result<(), Violation> {
        let Codec { remote_index, mtu, seal, open, expires } = &install.codec;
        ensure(self.used.insert(**seal), || format!("end {end} seals with a key that was used before"))?;
        ensure(seal != open, || format!("end {end} seals and opens with one key"))?;
        ensure(*expires == now + REJECT_AFTER, || format!("end {end}'s session ends at {expires:?}"))?;
        self.openers.insert(**open, end);
        let key = SealKey { key: **seal, mtu: usize::from(*mtu), expires: *expires, next_counter: 0 };
        self.keys.insert((end, *remote_index), key);
        let new = || Sessions { held: BTreeMap::new(), active: None, last: now };
        let sessions = self.sessions.entry((end, install.peer)).or_insert_with(new);
        sessions.held.insert(install.session, now);
        sessions.last = now;
        Ok(())
    }

    /// A machine seals with that session from now on.
    pub(crate) fn activate(&mut self, end: usize, peer: PeerId, session: SessionId) -> Result<(), Violation> {
        let sessions = self.sessions.get_mut(&(end, peer));
        let sessions = sessions.filter(|sessions| sessions.held.contains_key(&session));
        let unknown = || Violation::new(format!("end {end} activates a session that it does not have"));
        sessions.ok_or_else(unknown)?.active = Some(session);
        Ok(())
    }

    /// A machine seals packets with no session from now on.
    pub(crate) fn deactivate(&mut self, end: usize, peer: PeerId) {
        if let Some(sessions) = self.sessions.get_mut(&(end, peer)) {
            sessions.active = None;
        }
    }

    /// A machine ended a session.
    pub(crate) fn retire(&mut self, end: usize, peer: PeerId, session: SessionId) {
        if let Some(sessions) = self.sessions.get_mut(&(end, peer)) {
            sessions.held.remove(&session);
            sessions.active = sessions.active.filter(|active| *active != session);
        }
    }

    /// A machine removed a peer.
    pub(crate) fn remove(&mut self, end: usize, peer: PeerId) {
        self.sessions.remove(&(end, peer));
    }

    /// An end's process is gone, and with it its state.
    pub(crate) fn forget(&mut self, end: usize) {
        self.keys.retain(|(owner, _), _| *owner != end);
        self.sessions.retain(|(owner, _), _| *owner != end);
        self.forget_initiations(end);
        // It has lost the post-quantum keys of all others.
        self.initiations.values_mut().for_each(|(_, _, early)| *early = 0);
    }

    /// An end may send initiations at once.
    pub(crate) fn forget_initiations(&mut self, end: usize) {
        self.initiations.retain(|(owner, _), _| *owner != end);
    }

    /// The post-quantum keys of `other` are lost at another end: `other` may send [`EARLY_INITIATIONS`] initiations
    /// once more.
    pub(crate) fn lost_keys(&mut self, other: usize) {
        let of_other = self.initiations.iter_mut().filter(|((owner, _), _)| *owner == other);
        of_other.for_each(|(_, (_, _, early))| *early = 0);
    }

    /// From now on several peers may be at one address: the sender of an initiation is not known.
    pub(crate) fn ignore_initiations(&mut self) {
        self.ignores_initiations = true;
    }

    /// Ends may agree on post-quantum keys.
    pub(crate) fn expect_post_quantum(&mut self) {
        self.post_quantum = true;
    }

    /// How old the session is that an end seals with, if there is one.
    pub(crate) fn age(&self, now: Instant, end: usize, peer: PeerId) -> Option<Duration> {
        let sessions = self.sessions.get(&(end, peer))?;
        Some(now - *sessions.held.get(&sessions.active?)?)
    }

    /// An end sealed a datagram.
    pub(crate) fn sealed(&mut self, now: Instant, end: usize, datagram: &[u8]) -> Result<(), Violation> {
        let Some((&[4, 0, 0, 0, a, b, c, d, ref counter @ ..], rest)) =
            datagram.split_first_chunk::<HEADER>()
        else {
            return Err(Violation::new(format!("end {end} sealed a datagram without a header")));
        };
        let index = u32::from_le_bytes([a, b, c, d]);
        let counter = counter.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
        let Some(key) = self.keys.get_mut(&(end, index)) else {
            return Err(Violation::new(format!("end {end} sealed without a key")));
        };
        ensure(now < key.expires, || format!("end {end} sealed after the end of a session"))?;
        ensure(counter == key.next_counter, || {
            format!("end {end} sealed with the counter {counter}, not {}", key.next_counter)
        })?;
        key.next_counter += 1;
        let opens = self.openers.get(&key.key).is_some_and(|owner| *owner != end);
        ensure(opens, || format!("end {end} sealed with a key that the other end never had"))?;
        let padded = rest.len().saturating_sub(TAG);
        ensure(padded <= key.mtu && (padded % PADDING == 0 || padded == key.mtu), || {
            format!("end {end} sealed {padded} bytes with the MTU {}", key.mtu)
        })
    }

    /// An end sent a handshake message.
    pub(crate) fn control(
        &mut self,
        now: Instant,
        end: usize,
        to: SocketAddr,
        message: &[u8],
    ) -> Result<(), Violation> {
        let kind = message.first().copied().unwrap_or_default();
        let fits = matches!((kind, message.len()), (1, 148) | (2, 92) | (3, 64));
        ensure(fits, || format!("end {end} sent {} bytes of type {kind}", message.len()))?;
        if kind != 1 || self.ignores_initiations {
            return Ok(());
        }
        let has_cookie = message.last_chunk::<TAG>().is_some_and(|mac2| *mac2 != [0; TAG]);
        let last = self.initiations.get(&(end, to)).copied();
        let is_early =
            |(last, had, _): (Instant, bool, u32)| now - last < REKEY_TIMEOUT && (!has_cookie || had);
        let early = last.filter(|last| is_early(*last)).map_or(0, |(_, _, early)| early + 1);
        self.initiations.insert((end, to), (now, has_cookie, early));
        let most = if self.post_quantum { EARLY_INITIATIONS } else { 0 };
        ensure(early <= most, || format!("end {end} sent {} initiations to {to} within 5 s", early + 1))
    }

    /// An end gave a packet to its device. Returns its sender, and when it was sent.
    pub(crate) fn deliver(&mut self, end: usize, bytes: &[u8]) -> Result<(usize, Instant), Violation> {
        let (sent, name) = self.packets.find(end, bytes)?;
        ensure(end == sent.to, || format!("{name} arrived at end {end}"))?;
        let found = (sent.from, sent.at);
        self.packets.deliver(bytes);
        Ok(found)
    }

    /// Checks the conditions that hold at each second of an end that has been awake for a while.
    pub(crate) fn check(&self, now: Instant, end: usize) -> Result<(), Violation> {
        for ((_, peer), sessions) in self.sessions.range((end, PeerId(0))..=(end, PeerId(u32::MAX))) {
            let count = sessions.held.len();
            ensure(count <= SESSIONS, || format!("end {end} has {count} sessions with peer {}", peer.0))?;
            ensure(count == 0 || now <= sessions.last + WIPE_AFTER + SLACK, || {
                format!("end {end} keeps keys with peer {} for more than 540 s", peer.0)
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
