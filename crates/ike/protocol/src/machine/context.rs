//! The context of an IKE SA: the parts of its endpoint that it sees, and its orders to the endpoint.

use adit_core::{Cipher, Instant};
use rand_core::RngCore as _;

use super::params::Connection;
use super::sa::IkeSa;
use super::shared::Shared;
use crate::wire::{KeyExchange, Notify, NotifyType, Payload, Proposal, Spi, TrafficSelector};

/// The state of a peer at an endpoint.
#[derive(Debug, Default)]
pub(crate) struct PeerState {
    /// The IKE SA that has the child SAs.
    pub(crate) sa: Option<Spi>,
    /// The time when this end initiates.
    pub(crate) initiate_at: Option<Instant>,
    /// Whether the data plane has the peer.
    pub(crate) is_up: bool,
    pub(crate) since: Instant,
    pub(crate) last_handshake: Instant,
    pub(crate) rekeys: u64,
    pub(crate) cipher: Option<Cipher>,
}

/// An order of an IKE SA to its endpoint, which carries it out after the call.
pub(crate) enum Effect {
    /// One more IKE SA, from a rekey.
    Add(Box<IkeSa>),
    /// The peer has authenticated.
    Established {
        /// The peer says that it has no other IKE SA with this end.
        is_initial_contact: bool,
    },
    /// The child SAs belong to that IKE SA from now on (RFC 7296 section 2.18).
    MoveChildren(Spi),
    /// That IKE SA is redundant; the peer deletes it.
    Expire(Spi),
    /// The peer is not reached by this IKE SA any more.
    Down(String),
    /// The IKE SA is gone.
    Remove(String),
}

pub(crate) struct Context<'a> {
    pub(crate) shared: &'a mut Shared,
    pub(crate) connections: &'a [Connection],
    pub(crate) peers: &'a mut [PeerState],
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl Context<'_> {
    pub(crate) const fn now(&self) -> Instant {
        self.shared.now
    }

    pub(crate) fn fill(&mut self) -> impl FnMut(&mut [u8]) {
        |bytes| self.shared.rng.fill_bytes(bytes)
    }

    pub(crate) fn remove(&mut self, reason: impl Into<String>) {
        self.effects.push(Effect::Remove(reason.into()));
    }
}

/// The payloads of a message, found by kind. Where there are several of a kind that a message has once, the first counts.
#[derive(Clone, Copy)]
pub(crate) struct Payloads<'a>(pub(crate) &'a [Payload]);

impl<'a> Payloads<'a> {
    fn find<T>(self, pick: impl FnMut(&'a Payload) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(pick)
    }

    pub(crate) fn proposals(self) -> Option<&'a [Proposal]> {
        self.find(|payload| match payload {
            Payload::SecurityAssociation(proposals) => Some(proposals.as_slice()),
            _ => None,
        })
    }

    pub(crate) fn key_exchange(self) -> Option<&'a KeyExchange> {
        self.find(|payload| match payload {
            Payload::KeyExchange(exchange) => Some(exchange),
            _ => None,
        })
    }

    pub(crate) fn nonce(self) -> Option<&'a [u8]> {
        self.find(|payload| match payload {
            Payload::Nonce(nonce) => Some(nonce.as_slice()),
            _ => None,
        })
    }

    pub(crate) fn selectors(self) -> Option<[&'a [TrafficSelector]; 2]> {
        let initiator = self.find(|payload| match payload {
            Payload::SelectorsInitiator(selectors) => Some(selectors.as_slice()),
            _ => None,
        })?;
        let responder = self.find(|payload| match payload {
            Payload::SelectorsResponder(selectors) => Some(selectors.as_slice()),
            _ => None,
        })?;
        Some([initiator, responder])
    }

    pub(crate) fn notifies(self) -> impl Iterator<Item = &'a Notify> {
        self.0.iter().filter_map(|payload| match payload {
            Payload::Notify(notify) => Some(notify),
            _ => None,
        })
    }

    pub(crate) fn notify(self, kind: NotifyType) -> Option<&'a Notify> {
        self.notifies().find(|notify| notify.kind == kind)
    }

    /// The first error.
    pub(crate) fn error(self) -> Option<&'a Notify> {
        self.notifies().find(|notify| notify.kind.is_error())
    }
}

/// An error or a status without an SPI.
pub(crate) const fn notify(kind: NotifyType, data: Vec<u8>) -> Payload {
    Payload::Notify(Notify::new(kind, data))
}
