//! The payloads of a message, found by their kinds.

use crate::wire::{KeyExchange, Notify, NotifyType, Payload, Proposal, TrafficSelector};

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
