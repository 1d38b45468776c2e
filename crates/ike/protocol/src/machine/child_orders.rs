//! Orders to single child SAs, and to the children that packets bring up.

use adit_core::{PeerId, PeerOrder, SessionId};

use super::child_sa::ChildPhase;
use super::context::Context;
use super::endpoint::Endpoint;
use super::orders::known;
use super::peer::Place;
use super::sa::IkeSa;
use super::shared::DataEvent;

/// A child SA, for an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildSelection {
    /// The peer.
    pub peer: PeerId,
    /// The SPI of received packets.
    pub spi: u32,
}

/// Whether packets bring a child up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrapOrder {
    /// The connection's name.
    pub connection: String,
    /// The child's name.
    pub child: String,
    /// Whether packets bring it up from now on.
    pub is_installed: bool,
}

impl Endpoint {
    pub(super) fn rekey_child(&mut self, child: ChildSelection) {
        let session = SessionId(child.spi.into());
        self.with_session(child.peer, session, |sa, cx, spi| sa.rekey_child_now(cx, spi));
    }

    pub(super) fn delete_child(&mut self, child: ChildSelection) {
        let session = SessionId(child.spi.into());
        self.with_session(child.peer, session, |sa, cx, spi| sa.terminate_child(cx, spi));
    }

    pub(super) fn reauthenticate_peer(&mut self, peer: PeerId) {
        let now = self.shared.now;
        let spi = self.current(peer);
        spi.into_iter().for_each(|spi| {
            self.with_sa(spi, |sa, cx| {
                sa.reauthentication_at = Some(now);
                sa.next_task(cx);
            });
        });
    }

    pub(super) fn set_trap(&mut self, order: &TrapOrder) -> Result<(), String> {
        let number = self.connections.number_of(&order.connection);
        let Some((number, connection)) =
            number.and_then(|number| Some((number, self.connections.get(number)?)))
        else {
            return known(&order.connection, false);
        };
        let child = connection.children.iter().position(|child| child.name == order.child);
        let child =
            child.ok_or_else(|| format!("{}: there is no child {}", order.connection, order.child))?;
        let Some(state) = self.peers.get_mut(&number) else { return known(&order.connection, false) };
        let has_changed = match order.is_installed {
            true => state.traps.insert(child),
            false => state.traps.remove(&child),
        };
        let is_without_traffic = state.traps.is_empty() && state.installed.is_empty();
        if is_without_traffic && state.entry.take().is_some() {
            self.shared.order(DataEvent::Peer(PeerOrder::Remove(PeerId(number as u32))));
        }
        if has_changed {
            match state.sa {
                Some(spi) => self.with_sa(spi, |sa, cx| sa.order_entry(cx)),
                None => self.run(None, |cx, _| cx.order_entry(number, Place::default(), None)),
            }
        }
        Ok(())
    }
}

impl IkeSa {
    /// Asks the peer to delete a child SA. Its child takes no action, as it is this end that ends the child SA.
    fn terminate_child(&mut self, cx: &mut Context<'_>, spi: u32) {
        let child = self.children.get(&spi).filter(|child| child.phase == ChildPhase::Active);
        let Some(child) = child.map(|child| child.number) else { return };
        if let Some(state) = self.connection.and_then(|number| cx.peers.get_mut(&number)) {
            state.up.remove(&child);
            state.wanted.remove(&child);
        }
        self.delete_child(spi);
        self.next_task(cx);
    }
}
