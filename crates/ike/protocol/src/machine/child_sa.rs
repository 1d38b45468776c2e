//! The state of a child SA.

use std::sync::Arc;
use std::time::Duration;

use adit_core::{Cipher, Digest, Instant};

use super::params::{ChildCounters, ChildDetail, Codec, Connection};
use super::peer::Installed;
use crate::suite::{ChildSuite, Group};
use crate::wire::{Payload, TrafficSelector};

/// The time for which an IKE SA or a child SA that the peer replaced waits for the peer's DELETE. It is longer than peers
/// retransmit the request that replaces the SA (strongSwan: 165 s).
pub(crate) const REPLACED_FOR: Duration = Duration::from_secs(180);

/// The time that a child SA which was not rekeyed in its lifetime goes on while this end asks for a further one.
pub(crate) const EXPIRED_FOR: Duration = Duration::from_secs(10);

/// The phase of a child SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildPhase {
    /// The child SA is in use, or is going to be.
    Active,
    /// Another child SA takes its place, or is to take it. The peer deletes it, or this end when its time is over.
    Replaced,
    /// This end deletes it.
    Deleting,
}

/// The parameters of a child SA that both ends agreed on.
pub(crate) struct Agreed {
    pub(crate) suite: ChildSuite,
    pub(crate) peer_spi: u32,
    pub(crate) local: Vec<TrafficSelector>,
    pub(crate) remote: Vec<TrafficSelector>,
}

/// A child SA.
pub(crate) struct ChildSa {
    /// The number of its child in the connection.
    pub(crate) number: usize,
    /// The SPI of received packets.
    pub(crate) own_spi: u32,
    /// The SPI of sent packets.
    pub(crate) peer_spi: u32,
    pub(crate) phase: ChildPhase,
    /// Whether this end seals with it, or waits until the peer does (RFC 7296 section 2.8).
    pub(crate) is_sealing: bool,
    /// Whether the peer has shown that it has this child SA: by a packet, by a later request, or by its response. Until then the
    /// response of this end may be lost.
    pub(crate) is_known: bool,
    /// Whether the peer takes rekeys without a key exchange: it has asked for such a one, or has taken it after it refused another.
    pub(crate) lacks_exchange: bool,
    pub(crate) made_at: Instant,
    pub(crate) rekey_at: Option<Instant>,
    /// The time when it ends: no rekey has replaced it by then, or the peer, which replaced it, has not deleted it.
    pub(crate) ends_at: Option<Instant>,
    pub(crate) cipher: Cipher,
    pub(crate) integrity: Option<Digest>,
    /// The key exchanges of its own, in order.
    pub(crate) groups: Box<[Group]>,
    pub(crate) has_extended_sequence_numbers: bool,
    pub(crate) is_encapsulated: bool,
    /// The parameters of its session, until the data plane gets them.
    pub(crate) codec: Option<Box<Codec>>,
    /// The counters of its packets, which the data plane has, too.
    pub(crate) counters: Arc<ChildCounters>,
    pub(crate) local: Arc<[TrafficSelector]>,
    pub(crate) remote: Arc<[TrafficSelector]>,
}

impl ChildSa {
    /// The time when it is to be rekeyed. `None` while this end does not seal with it: the peer may not know it yet.
    pub(crate) fn rekey_at(&self) -> Option<Instant> {
        self.rekey_at.filter(|_| self.phase == ChildPhase::Active && self.is_sealing)
    }

    pub(crate) fn is_rekey_due(&self, now: Instant) -> bool {
        self.rekey_at().is_some_and(|at| at <= now)
    }

    /// Whether the peer may not have this child SA yet, as it still sends the request for it.
    pub(crate) fn may_be_unknown(&self, now: Instant) -> bool {
        !self.is_known && now < self.made_at + REPLACED_FOR
    }

    pub(crate) fn is_active(&self) -> bool {
        self.phase == ChildPhase::Active
    }

    /// The peer's rekey takes its place; the peer deletes it.
    pub(crate) fn replace(&mut self, now: Instant) {
        self.phase = ChildPhase::Replaced;
        self.ends_at = Some(now + REPLACED_FOR);
    }

    /// The name of the error in a refusal, for the log.
    pub(crate) fn refusal(error: &Payload) -> String {
        match error {
            Payload::Notify(notify) => notify.kind.to_string(),
            _ => "an error".to_owned(),
        }
    }

    /// Its traffic. `order`: later sessions of the peer have higher numbers.
    pub(crate) fn installed(&self, order: u64) -> Installed {
        Installed { number: self.number, order, local: self.local.clone(), remote: self.remote.clone() }
    }

    pub(crate) fn detail(&self, connection: &Connection) -> ChildDetail {
        let child = connection.children.get(self.number);
        ChildDetail {
            name: child.map_or_else(String::new, |child| child.name.clone()),
            own_spi: self.own_spi,
            peer_spi: self.peer_spi,
            cipher: self.cipher,
            integrity: self.integrity,
            groups: self.groups.to_vec(),
            has_extended_sequence_numbers: self.has_extended_sequence_numbers,
            is_encapsulated: self.is_encapsulated,
            is_sealing: self.is_sealing,
            made_at: self.made_at,
            rekey_at: self.rekey_at(),
            local: self.local.to_vec(),
            remote: self.remote.to_vec(),
            received: self.counters.received.get(),
            sent: self.counters.sent.get(),
        }
    }
}
