//! The changes to an endpoint's IKE SAs when one is established, replaced or removed.

use std::time::Duration;

use adit_core::{PeerId, PeerOrder, Severity};

use super::endpoint::Endpoint;
use super::sa::{IkeSa, Phase, REPLACED_FOR};
use super::shared::{DataEvent, Event};
use crate::wire::Spi;

/// If each end initiated an IKE SA within this time, one of the two is deleted; the nonces decide which.
const AT_ONCE: Duration = Duration::from_secs(30);

impl Endpoint {
    /// The peer has authenticated. An IKE SA that it had before is removed: the peer has restarted (RFC 7296 section 2.4). If both
    /// ends initiated at once, the IKE SA with the lower nonce is removed, as after rekeys (section 2.8.2): both ends keep the
    /// other one.
    pub(super) fn established(&mut self, spi: Spi, is_initial_contact: bool) {
        self.forget_half_open(spi);
        let Some(sa) = self.sas.get(&spi) else { return };
        let Some(state) = sa.connection.and_then(|index| self.peers.get_mut(index)) else { return };
        state.initiate_at = None;
        let Some(old) = state.sa.replace(spi).filter(|old| *old != spi) else { return };
        let Some(before) = self.sas.get(&old) else { return };
        let is_recent = self.shared.now.saturating_since(before.made_at) < AT_ONCE;
        if before.is_initiator != sa.is_initiator && is_recent && sa.lowest_nonce < before.lowest_nonce {
            state.sa = Some(old);
            self.with_sa(spi, |sa, cx| sa.close(cx, "another IKE SA of the peer stays"));
            self.with_sa(old, IkeSa::activate_again);
        } else if is_initial_contact {
            self.with_sa(old, |_, cx| cx.remove("the peer has started anew"));
        } else {
            self.with_sa(old, |sa, cx| sa.close(cx, "the peer has another IKE SA"));
        }
    }

    pub(super) fn move_children(&mut self, from: Spi, to: Spi) {
        if !self.sas.contains_key(&to) {
            return self.with_sa(from, |sa, cx| sa.close(cx, "its successor is gone"));
        }
        let Some(old) = self.sas.get_mut(&from) else { return };
        let (children, to_delete) = (std::mem::take(&mut old.children), std::mem::take(&mut old.to_delete));
        let connection = old.connection;
        let Some(new) = self.sas.get_mut(&to) else { return };
        new.children.extend(children);
        new.to_delete.extend(to_delete);
        new.is_waiting = false;
        if let Some(state) = connection.and_then(|index| self.peers.get_mut(index))
            && state.sa == Some(from)
        {
            state.sa = Some(to);
        }
        self.with_sa(to, |sa, cx| sa.next_task(cx));
    }

    pub(super) fn expire(&mut self, spi: Spi) {
        let ends_at = self.shared.now + REPLACED_FOR;
        self.with_sa(spi, |sa, _| sa.ends_at = Some(ends_at));
    }

    /// The IKE SA of a peer is of no use any more. An end that initiates tries again.
    pub(super) fn down(&mut self, spi: Spi, reason: &str) {
        let Some(index) = self.sas.get(&spi).and_then(|sa| sa.connection) else { return };
        let (Some(state), Some(connection)) = (self.peers.get_mut(index), self.connections.get(index)) else {
            return;
        };
        let is_connecting = state.sa.is_none();
        if state.sa != Some(spi) && !is_connecting {
            return;
        }
        state.sa = None;
        if connection.remote.is_some() && !self.has_ended {
            state.initiate_at = Some(self.shared.now + connection.times.retry);
        }
        if std::mem::take(&mut state.is_up) {
            let peer = PeerId(index as u32);
            self.shared.order(DataEvent::Peer(PeerOrder::Remove(peer)));
            self.shared.emit(Event::PeerDown { peer, reason: reason.to_owned() });
        } else if is_connecting {
            let text = format!("{}: {reason}", connection.name);
            let path = self.sas.get(&spi).map(|sa| sa.path);
            self.shared.report(Severity::Error, path, text);
        }
    }

    pub(super) fn remove(&mut self, spi: Spi, reason: &str) {
        let is_in_use = self.sas.get(&spi).is_some_and(|sa| {
            matches!(sa.phase, Phase::Connecting | Phase::Established) && sa.connection.is_some()
        });
        self.with_sa(spi, IkeSa::remove_children);
        if is_in_use {
            self.down(spi, reason);
        }
        self.forget_half_open(spi);
        self.sas.remove(&spi);
        if let Some(due) = self.due.remove(&spi) {
            self.schedule.remove(&(due, spi));
        }
    }

    pub(super) fn forget_half_open(&mut self, spi: Spi) {
        if let Some(first) = self.half_open.remove(&spi) {
            self.first_requests.remove(&first);
        }
    }
}
