//! The sessions that were chosen for packets of the main device since the last order.

use adit_core::Instant;

use crate::headers::{Address, Ip};
use crate::recent::Recent;
use crate::selectors::Fields;

/// The session that seals a packet.
#[derive(Clone, Copy)]
pub(super) struct Chosen {
    /// The peer's slot.
    pub(super) slot: u32,
    /// The session's index among the peer's.
    pub(super) session: usize,
    /// When the session seals no more.
    pub(super) expires: Option<Instant>,
}

/// The sessions that were chosen of late.
#[derive(Default)]
pub(super) struct Choices {
    /// By the destination alone: those that depend on no selector.
    by_destination: Recent<Address, Chosen>,
    /// Those that selectors chose.
    by_flow: Recent<Fields, Chosen>,
}

impl Choices {
    /// The session of a packet, if it is known and still seals.
    #[inline]
    pub(super) fn get(&self, ip: &Ip, packet: &[u8], now: Instant) -> Option<Chosen> {
        let chosen = match self.by_destination.get(&ip.destination) {
            None if self.by_flow.is_empty() => None,
            None => self.by_flow.get(&Fields::of(ip, packet)?),
            found => found,
        };
        chosen.copied().filter(|chosen| chosen.expires.is_none_or(|expires| now < expires))
    }

    /// Notes the session of all packets to a destination.
    pub(super) fn note_destination(&mut self, destination: Address, chosen: Chosen) {
        self.by_destination.note(destination, chosen);
    }

    /// Notes the session of a packet that selectors chose.
    pub(super) fn note_flow(&mut self, ip: &Ip, packet: &[u8], chosen: Chosen) {
        if let Some(fields) = Fields::of(ip, packet) {
            self.by_flow.note(fields, chosen);
        }
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.by_destination.clear();
        self.by_flow.clear();
    }
}
