//! The context of an IKE SA: the parts of its endpoint that it sees, and its orders to the endpoint.

use adit_core::{Identity, Instant, PeerConfig, PeerId, PeerOrder, SessionId};
use rand_core::RngCore as _;

use super::connections::Connections;
use super::peer::{EndKind, Ending, Peers, Place};
use super::sa::IkeSa;
use super::shared::{DataEvent, Shared};
use crate::wire::Spi;

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
    /// The peer is to be authenticated anew.
    Reauthenticate,
    /// The children of the IKE SA that this one replaces are up.
    Reauthenticated,
    /// The peer is not reached by this IKE SA any more.
    Down(Ending),
    /// The IKE SA is gone.
    Remove(Ending),
}

pub(crate) struct Context<'a> {
    pub(crate) shared: &'a mut Shared,
    pub(crate) connections: &'a Connections,
    pub(crate) peers: &'a mut Peers,
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl Context<'_> {
    pub(crate) const fn now(&self) -> Instant {
        self.shared.now
    }

    pub(crate) fn fill(&mut self) -> impl FnMut(&mut [u8]) {
        |bytes| self.shared.rng.fill_bytes(bytes)
    }

    /// A fresh SPI of a child SA, which no child SA of this endpoint has.
    pub(crate) fn child_spi(&mut self) -> u32 {
        loop {
            let spi = self.shared.child_spi();
            if !self.shared.child_spis.contains(&spi) {
                return spi;
            }
        }
    }

    /// A fresh SPI of a child SA that this end asks for. The peer may seal with the child SA before this end has its response.
    pub(crate) fn offered_child_spi(&mut self) -> u32 {
        let spi = self.child_spi();
        self.shared.order(DataEvent::Expect(SessionId(u64::from(spi))));
        spi
    }

    /// Removes the IKE SA: the peer cannot be reached by it.
    pub(crate) fn remove(&mut self, reason: impl Into<String>) {
        self.remove_as(EndKind::DeadPeer, reason);
    }

    pub(crate) fn remove_as(&mut self, kind: EndKind, reason: impl Into<String>) {
        self.effects.push(Effect::Remove(Ending { kind, reason: reason.into() }));
    }

    /// Gives the data plane the peer's entry, if it has changed. A peer without traffic keeps its entry until it is down.
    /// `proven`: the peer as access rules name it, if it has authenticated.
    pub(crate) fn order_entry(&mut self, number: usize, place: Place, proven: Option<Identity>) {
        let (Some(state), Some(connection)) = (self.peers.get_mut(&number), self.connections.get(number))
        else {
            return;
        };
        let shares = self.connections.len() > 1;
        let Some(entry) = state.entry(PeerId(number as u32), connection, Place { shares, ..place }) else {
            return;
        };
        self.shared.are_settings_stale |= connection.changes_settings();
        let identity =
            proven.unwrap_or_else(|| Identity { name: connection.name.clone(), groups: Vec::new() });
        let entry = PeerConfig { max_mss: self.shared.max_mss, identity, ..entry };
        if state.entry.as_ref() != Some(&entry) {
            state.entry = Some(entry.clone());
            self.shared.order(DataEvent::Peer(PeerOrder::Add(entry)));
        }
    }
}
