//! The requests to the adapter about children that come up and go down.

use adit_core::PeerId;

use super::child_sa::ChildSa;
use super::context::Context;
use super::params::{Child, ChildUp, Request};
use super::sa::IkeSa;
use super::shared::{Event, Shared};

impl IkeSa {
    /// Has the adapter run the program of a child whose first child SA is there.
    pub(crate) fn tell_up(&self, cx: &mut Context<'_>, of: &ChildSa) {
        let Some(number) = self.connection else { return };
        let (Some(connection), Some(state)) = (cx.connections.get(number), cx.peers.get(&number)) else {
            return;
        };
        let child = connection.children.get(of.number);
        let program = child.and_then(|child| Some((child, child.updown.clone()?)));
        let (Some((child, program)), Some(remote_identity)) = (program, self.peer_identity.clone()) else {
            return;
        };
        let inner = |is_there: bool| if is_there { state.inner.clone() } else { Vec::new() };
        let up = ChildUp {
            program,
            peer: PeerId(number as u32),
            child: child.name.clone(),
            device: connection.device,
            path: self.path,
            local_address: cx.shared.local_of(self.path).map(|local| local.ip().to_canonical()),
            local_identity: connection.local_auth.identity.clone(),
            remote_identity,
            own_inner: inner(connection.inner.asks()),
            peer_inner: inner(connection.inner.gives()),
            dns: state.assigned.as_ref().map(|assigned| assigned.dns.clone()).unwrap_or_default(),
            is_encapsulated: of.is_encapsulated,
            local: of.local.to_vec(),
            remote: of.remote.to_vec(),
        };
        cx.shared.emit(Event::Request(Request::ChildUp(Box::new(up))));
    }
}

impl Shared {
    /// Has the adapter run the program of a child that has no child SA any more.
    pub(crate) fn tell_down(&mut self, peer: PeerId, child: &Child) {
        if child.updown.is_some() {
            self.emit(Event::Request(Request::ChildDown { peer, child: child.name.clone() }));
        }
    }
}
