//! The gate of a peer: where connections must be admitted ([`crate::Changes::gated`]), no packet of the peer passes from its first
//! session on until its adapter has admitted the connection. Handshakes and keepalives go on.
//!
//! The data plane has no routes of the peer meanwhile, so that it takes no packets from the peer, and no session seals.
//! Without sessions the peer has its routes: a packet for it waits, and makes a handshake begin.

use adit_core::{Instant, IpNet, PeerOrder};

use super::Peer;
use crate::request::DataEvent;
use crate::shared::Shared;

/// Where the gate of a peer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Gate {
    /// Nothing is to be kept out: there is no session, or no gate.
    #[default]
    Idle,
    /// There are sessions, and their connection was not admitted.
    Closed,
    /// The connection was admitted.
    Admitted,
}

impl Peer {
    /// Whether packets wait for the connection to be admitted.
    pub(super) fn awaits_admission(&self) -> bool {
        self.gate == Gate::Closed
    }

    /// The routes that the data plane has of it.
    pub(super) fn routes(&self) -> Vec<IpNet> {
        if self.awaits_admission() { Vec::new() } else { self.allowed_ips.iter().copied().collect() }
    }

    /// A session is about to be installed.
    pub(super) fn close_gate(&mut self, shared: &mut Shared) {
        if !shared.gated || self.gate != Gate::Idle {
            return;
        }
        self.gate = Gate::Closed;
        for &route in &self.allowed_ips {
            shared.order(DataEvent::Peer(PeerOrder::RemoveRoute { peer: self.id, route }));
        }
    }

    /// The peer has its routes, and packets pass in its sessions.
    fn open_gate(&mut self, shared: &mut Shared, gate: Gate) {
        if std::mem::replace(&mut self.gate, gate) != Gate::Closed {
            return;
        }
        for &route in &self.allowed_ips {
            shared.order(DataEvent::Peer(PeerOrder::AddRoute { peer: self.id, route }));
        }
        if let Some(current) = self.sessions.current {
            self.activate(shared, current);
        }
    }

    /// Its sessions are gone, and their connection with them.
    pub(super) fn forget_admission(&mut self, shared: &mut Shared) {
        self.open_gate(shared, Gate::Idle);
    }

    /// The connection that began at that moment is admitted. One that ended meanwhile is not.
    pub(crate) fn admit(&mut self, shared: &mut Shared, since: Instant) {
        if self.up.as_ref().is_some_and(|up| up.since == since) {
            self.open_gate(shared, Gate::Admitted);
        }
    }

    /// Connections must be admitted from now on, or need not be any more. Those that are there are admitted.
    pub(crate) fn set_gated(&mut self, shared: &mut Shared) {
        match (shared.gated, self.up.is_some()) {
            (true, true) => self.gate = Gate::Admitted,
            (true, false) if !self.sessions.is_empty() => self.close_gate(shared),
            (true, false) => {}
            (false, _) => self.open_gate(shared, Gate::Idle),
        }
    }

    /// A prefix is the peer's from now on, which was that of no peer, or of one that had it in the data plane or not.
    pub(crate) fn add_allowed_ip(&mut self, shared: &mut Shared, route: IpNet, before: Option<&mut Peer>) {
        let routed_before = before.and_then(|before| {
            before.allowed_ips.remove(&route);
            (!before.awaits_admission()).then_some(before.id)
        });
        self.allowed_ips.insert(route);
        if !self.awaits_admission() {
            // It moves there from the peer that had it.
            shared.order(DataEvent::Peer(PeerOrder::AddRoute { peer: self.id, route }));
        } else if let Some(peer) = routed_before {
            shared.order(DataEvent::Peer(PeerOrder::RemoveRoute { peer, route }));
        }
    }

    /// A prefix is the peer's no more.
    pub(crate) fn remove_allowed_ip(&mut self, shared: &mut Shared, route: IpNet) {
        self.allowed_ips.remove(&route);
        if !self.awaits_admission() {
            shared.order(DataEvent::Peer(PeerOrder::RemoveRoute { peer: self.id, route }));
        }
    }
}
