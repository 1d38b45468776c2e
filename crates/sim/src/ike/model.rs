//! The conditions that must hold for packets, child SAs, keys, sequence numbers and IKE messages.

use std::collections::{BTreeMap, BTreeSet};

use adit_core::{Install, Instant, SessionId};
use adit_ike::crypto::DirectionKeys;
use adit_ike::machine::Codec;
use adit_ike::wire::{ExchangeType, Message, Spi};

use super::settings::child_of;
use crate::packets::Packets;
use crate::violation::{Violation, ensure};

/// Child SAs of a child at one end: the one in use, those of rekeys that collide, of reauthentications and of IKE SAs that were
/// made at once, and those that wait for the peer's DELETE.
const CHILD_SAS: usize = 12;
/// The bytes of an initialization vector that are compared: all of an AEAD's.
const VECTOR: usize = 8;
/// IKE messages of an end in a second on a clean net, without an attacker.
const MESSAGES: u32 = 100;

/// The keys of a child SA in one direction, for comparison.
type Keys = Vec<u8>;

fn keys(keys: &DirectionKeys) -> Keys {
    [keys.encryption.as_slice(), keys.salt.as_slice(), keys.integrity.as_slice()].concat()
}

/// A child SA at one end.
struct Session {
    child: usize,
    outbound_spi: u32,
    seal: Keys,
    open: Keys,
}

/// The key of a direction, and the sequence number of the next packet.
struct SealKey {
    end: usize,
    next: u64,
}

/// The child SA with which an end sealed last, by the SPIs of both ends.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sealing {
    own: u32,
    peer: u32,
}

/// One IKE message: its IKE SA, sender, kind, number, and the number of the fragment with that of all. A message may be sent anew in
/// shorter fragments, of which there are more (RFC 7383 section 2.5.1).
type MessageKey = ([Spi; 2], usize, bool, u32, (u16, u16));

/// Knows all packets, keys and sequence numbers.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) packets: Packets,
    sessions: BTreeMap<(usize, u32), Session>,
    /// All keys that were ever given to a data plane to seal, and to open, with the end that got them.
    sealers: BTreeMap<Keys, SealKey>,
    openers: BTreeMap<Keys, usize>,
    /// The packets of ESP that were sealed: end, SPI, and the sequence number's lower half, with the keys.
    sealed: BTreeMap<(usize, [u8; 8]), Keys>,
    sealing: BTreeMap<(usize, usize), Sealing>,
    /// The initialization vectors of IKE messages, by IKE SA and sender.
    vectors: BTreeMap<([Spi; 2], usize, Vec<u8>), u64>,
    messages: BTreeMap<MessageKey, u64>,
    count: [u32; 2],
    /// Whether the ends make further IKE SAs while they have one.
    has_further_ike_sas: bool,
}

/// The hash of a message (FNV-1a).
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Model {
    pub(crate) fn new(has_further_ike_sas: bool) -> Self {
        Model { has_further_ike_sas, ..Model::default() }
    }

    /// The number of keys that were installed to seal.
    pub(crate) fn keys(&self) -> u64 {
        self.sealers.len() as u64
    }

    /// A machine gave a child SA to its data plane.
    pub(crate) fn install(&mut self, end: usize, install: &Install<Codec>) -> Result<(), Violation> {
        let Ok(spi) = u32::try_from(install.session.0) else {
            return Err(Violation::new(format!("end {end} has an SPI of more than 32 bits")));
        };
        ensure(spi > 255, || format!("end {end} has the reserved SPI {spi}"))?;
        let codec = &install.codec;
        let session = Session {
            child: install.series as usize,
            outbound_spi: codec.outbound_spi,
            seal: keys(&codec.seal),
            open: keys(&codec.open),
        };
        ensure(session.seal != session.open, || format!("end {end} seals and opens with one key"))?;
        ensure(!self.sealers.contains_key(&session.seal), || {
            format!("end {end} seals with a key that was used before")
        })?;
        ensure(!self.openers.contains_key(&session.open), || {
            format!("end {end} opens with a key that was used before")
        })?;
        self.sealers.insert(session.seal.clone(), SealKey { end, next: 1 });
        self.openers.insert(session.open.clone(), end);
        let before = self.sessions.insert((end, spi), session);
        ensure(before.is_none(), || format!("end {end} uses the SPI {spi:08x} for two child SAs"))
    }

    /// The data plane of an end is to seal with a child SA.
    pub(crate) fn activate(&self, end: usize, session: SessionId) -> Result<(), Violation> {
        let is_there = self.sessions.contains_key(&(end, session.0 as u32));
        ensure(is_there, || format!("end {end} activates a child SA that it does not have"))
    }

    pub(crate) fn retire(&mut self, end: usize, session: SessionId) {
        self.sessions.remove(&(end, session.0 as u32));
    }

    /// All child SAs of an end are gone.
    pub(crate) fn remove_all(&mut self, end: usize) {
        self.sessions.retain(|(owner, _), _| *owner != end);
        self.sealing.retain(|(owner, _), _| *owner != end);
    }

    /// An end sealed a packet of ESP.
    pub(crate) fn sealed(&mut self, end: usize, datagram: &[u8]) -> Result<(), Violation> {
        let Some(esp) = datagram.first_chunk::<8>() else {
            return Err(Violation::new(format!("end {end} sealed a packet without a header")));
        };
        let [s0, s1, s2, s3, n0, n1, n2, n3] = *esp;
        let spi = u32::from_be_bytes([s0, s1, s2, s3]);
        let number = u64::from(u32::from_be_bytes([n0, n1, n2, n3]));
        let of_end = self.sessions.range((end, 0)..=(end, u32::MAX));
        let mut found = of_end.filter(|(_, session)| session.outbound_spi == spi);
        let Some(((_, own), session)) = found.next() else {
            return Err(Violation::new(format!("end {end} sealed without a child SA")));
        };
        ensure(found.next().is_none(), || format!("end {end} has two child SAs for the SPI {spi:08x}"))?;
        let keys = session.seal.clone();
        self.sealing.insert((end, session.child), Sealing { own: *own, peer: spi });
        let sealer = self.sealers.get_mut(&keys).filter(|sealer| sealer.end == end);
        let sealer = sealer.ok_or_else(|| Violation::new(format!("end {end} sealed with another's key")))?;
        ensure(number == sealer.next, || {
            format!("end {end} sealed with the sequence number {number}, not {}", sealer.next)
        })?;
        sealer.next += 1;
        ensure(self.may_seal(end, &keys), || {
            format!("end {end} sealed with keys that the peer does not have yet, and has others of the child")
        })?;
        self.sealed.insert((end, *esp), keys);
        Ok(())
    }

    /// Whether the peer has had the keys, or this end has no child SA of the child that the peer has: a responder seals with a first
    /// child SA at once, as with that of each further IKE SA.
    fn may_seal(&self, end: usize, keys: &Keys) -> bool {
        if self.has_further_ike_sas || self.openers.get(keys).is_some_and(|owner| *owner != end) {
            return true;
        }
        let of = |end: usize| self.sessions.range((end, 0)..=(end, u32::MAX)).map(|(_, session)| session);
        let child = of(end).find(|session| session.seal == *keys).map(|session| session.child);
        let mut others = of(end).filter(|other| Some(other.child) == child);
        !others.any(|other| of(1 - end).any(|session| session.open == other.seal))
    }

    /// An end gave a packet to its device, which came in a packet of ESP with that SPI and number. Returns the time when it
    /// was sent.
    pub(crate) fn deliver(&mut self, end: usize, esp: [u8; 8], bytes: &[u8]) -> Result<Instant, Violation> {
        let (sent, name) = self.packets.find(end, bytes)?;
        ensure(end == sent.to, || format!("{name} arrived at end {end}"))?;
        let (at, child) = (sent.at, child_of(sent.from, sent.source));
        let [s0, s1, s2, s3, ..] = esp;
        let spi = u32::from_be_bytes([s0, s1, s2, s3]);
        let session = self.sessions.get(&(end, spi));
        let Some(session) = session else {
            return Err(Violation::new(format!("{name} was opened with a child SA that was retired")));
        };
        let sealed = self.sealed.get(&(1 - end, esp));
        ensure(sealed == Some(&session.open), || {
            format!("{name} was opened with a child SA that the other end did not seal with")
        })?;
        ensure(child == Some(session.child), || {
            format!("{name} came by child {}, not {child:?}", session.child)
        })?;
        self.packets.deliver(bytes);
        Ok(at)
    }

    /// An end sent an IKE message. No initialization vector protects two messages with one key, and a message that is sent again
    /// is the same (RFC 7296 section 2.1).
    pub(crate) fn control(&mut self, end: usize, message: &[u8]) -> Result<(), Violation> {
        self.count[end] += 1;
        let decoded = Message::decode(message)
            .map_err(|error| Violation::new(format!("end {end} sent no IKE message: {error}")))?;
        let header = &decoded.header;
        let Some(sealed) = decoded.sealed else { return Ok(()) };
        let spis = [header.initiator_spi, header.responder_spi];
        let hash = hash(message);
        let fragment = sealed.fragment.map_or((0, 0), |fragment| (fragment.number, fragment.total));
        let key = (spis, end, header.flags.is_response, header.message_id, fragment);
        let before = self.messages.insert(key, hash);
        ensure(before.is_none_or(|before| before == hash), || {
            format!("end {end} sent message {} of {} anew with another content", header.message_id, spis[0])
        })?;
        // The keys change after it (RFC 9370 section 2.2.2).
        if header.exchange == ExchangeType::IKE_INTERMEDIATE {
            return Ok(());
        }
        let vector = sealed.body.get(..VECTOR).unwrap_or_default().to_vec();
        let before = self.vectors.insert((spis, end, vector), hash);
        ensure(before.is_none_or(|before| before == hash), || {
            format!("end {end} uses an initialization vector twice in {}", spis[0])
        })
    }

    /// Whether both ends seal the packets of each child with the two directions of one child SA.
    pub(crate) fn is_agreed(&self, children: usize) -> bool {
        (0..children).all(|child| {
            let [one, other] = [0, 1].map(|end| self.sealing.get(&(end, child)));
            one.zip(other).is_some_and(|(one, other)| one.own == other.peer && one.peer == other.own)
        })
    }

    /// The number of child SAs of an end.
    pub(crate) fn child_sas(&self, end: usize) -> usize {
        self.sessions.range((end, 0)..=(end, u32::MAX)).count()
    }

    /// Checks the conditions that hold at each second. `is_calm`: nothing disturbs the ends.
    pub(crate) fn check(&mut self, children: usize, is_calm: bool) -> Result<(), Violation> {
        for end in [0, 1] {
            let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
            for session in self.sessions.range((end, 0)..=(end, u32::MAX)).map(|(_, session)| session) {
                *counts.entry(session.child).or_default() += 1;
            }
            let unknown = counts.keys().find(|child| **child >= children);
            ensure(unknown.is_none(), || format!("end {end} has a child SA of no child"))?;
            let most = counts.values().max().copied().unwrap_or_default();
            ensure(most <= CHILD_SAS, || format!("end {end} has {most} child SAs of a child"))?;
            let messages = std::mem::take(&mut self.count[end]);
            ensure(!is_calm || messages <= MESSAGES, || {
                format!("end {end} sent {messages} IKE messages in a second")
            })?;
        }
        self.check_pairs()
    }

    /// Two child SAs that are the two ends of one have the same keys.
    fn check_pairs(&self) -> Result<(), Violation> {
        let mut seen: BTreeSet<&Keys> = BTreeSet::new();
        for ((end, spi), session) in &self.sessions {
            ensure(seen.insert(&session.seal), || format!("end {end} has two child SAs with one key"))?;
            let Some(other) = self.sessions.get(&(1 - end, session.outbound_spi)) else { continue };
            ensure(other.outbound_spi != *spi || other.open == session.seal, || {
                format!("the ends have different keys for the SPI {:08x}", session.outbound_spi)
            })?;
        }
        Ok(())
    }
}
