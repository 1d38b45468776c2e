//! The ids of peers and sessions of several endpoints in one data plane.
//!
//! Each protocol numbers its peers and sessions by itself. Towards the data plane an endpoint's number stands above them,
//! so that no id of one endpoint is one of another. The first endpoint's number is 0, which changes no id.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use adit_core::{DataEvent, Notice, PeerConfig, PeerId, SessionId};
use adit_dataplane::Snapshot;
use adit_dataplane::codec::{Class, Demultiplexer, Steering, StreamAdvice};

/// An order that installs nothing: sessions are installed by another way (`Workers::install`).
pub(super) type Order = DataEvent<Infallible>;

/// Bits of a peer's id within its endpoint, see [`PeerId`].
const PEER_BITS: u32 = 24;
/// Bits of a session's id within its endpoint, see [`SessionId`].
const SESSION_BITS: u32 = 48;

/// An endpoint's number within its tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndpointId(pub(super) u8);

impl EndpointId {
    /// The endpoint of a peer of the data plane.
    pub(super) fn of(peer: PeerId) -> Self {
        EndpointId((peer.0 >> PEER_BITS) as u8)
    }

    /// A peer's id in the data plane.
    pub(super) fn peer(self, own: PeerId) -> PeerId {
        debug_assert!(own.0 >> PEER_BITS == 0, "{own:?} has more than {PEER_BITS} bits");
        PeerId(u32::from(self.0) << PEER_BITS | own.0)
    }

    /// A session's id in the data plane.
    pub(super) fn session(self, own: SessionId) -> SessionId {
        debug_assert!(own.0 >> SESSION_BITS == 0, "{own:?} has more than {SESSION_BITS} bits");
        SessionId(u64::from(self.0) << SESSION_BITS | own.0)
    }

    /// An order with the ids of the data plane.
    pub(super) fn order(self, event: Order) -> Order {
        match event {
            DataEvent::Peer(order) => {
                let peer = self.peer(order.peer());
                DataEvent::Peer(order.for_peer(peer))
            }
            DataEvent::Install(install) => match install.codec {},
            DataEvent::Expect(session) => DataEvent::Expect(self.session(session)),
            DataEvent::Activate { peer, session } => {
                DataEvent::Activate { peer: self.peer(peer), session: self.session(session) }
            }
            DataEvent::Deactivate(peer) => DataEvent::Deactivate(self.peer(peer)),
            DataEvent::Retire { peer, session } => {
                DataEvent::Retire { peer: self.peer(peer), session: self.session(session) }
            }
            DataEvent::Inject { peer, payload } => DataEvent::Inject { peer: self.peer(peer), payload },
            DataEvent::InjectInto { peer, session, payload } => {
                DataEvent::InjectInto { peer: self.peer(peer), session: self.session(session), payload }
            }
        }
    }

    /// A peer's configuration with its id in the data plane.
    pub(super) fn config(self, config: PeerConfig) -> PeerConfig {
        PeerConfig { peer: self.peer(config.peer), ..config }
    }

    /// Leaves the endpoint's peers in a snapshot, with their own ids. The totals are those of all endpoints.
    pub(super) fn narrow(self, snapshot: &mut Snapshot) {
        snapshot.peers.retain(|peer| EndpointId::of(peer.peer) == self);
        snapshot.peers.iter_mut().for_each(|peer| peer.peer = own_peer(peer.peer));
    }

    /// The demultiplexer of the endpoint's sockets: `own`, with the ids of the data plane.
    pub(super) fn demultiplexer(self, own: &Arc<dyn Demultiplexer>) -> Arc<dyn Demultiplexer> {
        match self.0 {
            0 => Arc::clone(own),
            _ => Arc::new(Numbered { endpoint: self, own: Arc::clone(own) }),
        }
    }
}

impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn own_peer(peer: PeerId) -> PeerId {
    PeerId(peer.0 & ((1 << PEER_BITS) - 1))
}

fn own_session(session: SessionId) -> SessionId {
    SessionId(session.0 & ((1 << SESSION_BITS) - 1))
}

/// A notice of the data plane with the ids of the endpoint that it is for.
pub(super) fn own_notice(mut notice: Notice) -> Notice {
    match &mut notice {
        Notice::Traffic { peer, .. } | Notice::Moved { peer, .. } | Notice::Wanted { peer, .. } => {
            *peer = own_peer(*peer);
        }
        Notice::FirstOpened { peer, session }
        | Notice::Message { peer, session, .. }
        | Notice::LimitNear { peer, session } => {
            *peer = own_peer(*peer);
            *session = own_session(*session);
        }
    }
    notice
}

/// A demultiplexer whose sessions are those of an endpoint that is not the first.
#[derive(Debug)]
struct Numbered {
    endpoint: EndpointId,
    own: Arc<dyn Demultiplexer>,
}

impl Demultiplexer for Numbered {
    fn classify(&self, datagram: &[u8]) -> Class {
        match self.own.classify(datagram) {
            Class::Session(session) if session.0 >> SESSION_BITS == 0 => {
                Class::Session(self.endpoint.session(session))
            }
            Class::Session(_) => Class::Malformed,
            other => other,
        }
    }

    fn session_of(&self, peer: PeerId, datagram: &[u8]) -> Option<SessionId> {
        self.own.session_of(own_peer(peer), datagram).map(|session| self.endpoint.session(session))
    }

    fn recognises(&self) -> Option<fn(&[u8]) -> bool> {
        self.own.recognises()
    }

    fn follows_streams(&self) -> bool {
        self.own.follows_streams()
    }

    fn longest_first_record(&self) -> Option<usize> {
        self.own.longest_first_record()
    }

    fn stream_advice(&self) -> StreamAdvice {
        self.own.stream_advice()
    }

    fn steering(&self) -> Option<Steering> {
        self.own.steering()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_endpoint_changes_no_id_and_others_are_apart() {
        let (peer, session) = (PeerId(0xFF_FFFF), SessionId(u64::from(u32::MAX)));
        assert_eq!((EndpointId(0).peer(peer), EndpointId(0).session(session)), (peer, session));
        let [first, last] = [EndpointId(1), EndpointId(u8::MAX)];
        assert_eq!(first.peer(PeerId(5)), PeerId(0x0100_0005));
        assert_eq!(EndpointId::of(last.peer(peer)), last);
        assert_ne!(first.session(session), last.session(session));
        let notice = Notice::LimitNear { peer: last.peer(peer), session: last.session(session) };
        assert_eq!(own_notice(notice), Notice::LimitNear { peer, session });
    }
}
