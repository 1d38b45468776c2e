//! A protocol's orders, divided between the two halves.

use adit_core::{DataEvent, IpNet, Path, PeerConfig, PeerId, SessionId};

use crate::framing::{OpenSession, SealSession};

/// A peer as both halves know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerRoutes {
    /// The peer.
    pub peer: PeerId,
    /// Where it is.
    pub path: Path,
    /// Inner addresses behind it.
    pub routes: Vec<IpNet>,
    /// Largest TCP MSS for IPv4 that may pass.
    pub max_mss: Option<u16>,
    /// Whether it is followed before the protocol confirms that it moved.
    pub roams: bool,
}

impl From<PeerConfig> for PeerRoutes {
    fn from(config: PeerConfig) -> Self {
        let PeerConfig { peer, path, routes, max_mss, roams } = config;
        PeerRoutes { peer, path, routes, max_mss, roams }
    }
}

/// An order to [`crate::Egress`].
#[derive(Debug)]
pub enum EgressEvent {
    /// A new peer, or new facts about one.
    AddPeer(PeerRoutes),
    /// A peer that another worker serves: its routes are known here, its sessions are not.
    AddForeign {
        /// The peer.
        peer: PeerRoutes,
        /// Who serves it.
        worker: u32,
    },
    /// The peer and its sessions go.
    RemovePeer(PeerId),
    /// The peer is reached there from now on.
    MovePeer {
        /// The peer.
        peer: PeerId,
        /// Its new path.
        path: Path,
    },
    /// A session that may be activated.
    Install {
        /// Whose.
        peer: PeerId,
        /// Its id.
        session: SessionId,
        /// Key, counter and framing.
        seal: Box<SealSession>,
    },
    /// Seal with this session from now on.
    Activate {
        /// The peer.
        peer: PeerId,
        /// The session.
        session: SessionId,
    },
    /// The session is forgotten.
    Retire {
        /// The peer.
        peer: PeerId,
        /// The session.
        session: SessionId,
    },
    /// Seal this payload and send it.
    Inject {
        /// The peer.
        peer: PeerId,
        /// The payload.
        payload: Vec<u8>,
    },
}

/// An order to [`crate::Ingress`].
#[derive(Debug)]
pub enum IngressEvent {
    /// A new peer, or new facts about one.
    AddPeer(PeerRoutes),
    /// A peer that another worker serves: its routes and its path are known here, its sessions are not.
    AddForeign {
        /// The peer.
        peer: PeerRoutes,
        /// Who serves it.
        worker: u32,
    },
    /// The peer and its sessions go.
    RemovePeer(PeerId),
    /// The peer is there from now on.
    MovePeer {
        /// The peer.
        peer: PeerId,
        /// Its new path.
        path: Path,
    },
    /// A session that opens at once.
    Install {
        /// Whose.
        peer: PeerId,
        /// Its id.
        session: SessionId,
        /// Key, replay window and framing.
        open: Box<OpenSession>,
    },
    /// The session is forgotten.
    Retire {
        /// The peer.
        peer: PeerId,
        /// The session.
        session: SessionId,
    },
}

/// What the halves of all workers but `worker` must know of a peer that `worker` serves. The halves of
/// `worker` itself get what [`split`] makes of [`DataEvent::AddPeer`], and they alone get its sessions, so
/// that no counter is ever used twice.
pub fn foreign(config: PeerConfig, worker: u32) -> (EgressEvent, IngressEvent) {
    let peer = PeerRoutes::from(config);
    (EgressEvent::AddForeign { peer: peer.clone(), worker }, IngressEvent::AddForeign { peer, worker })
}

/// Divides an order for the two halves. Keys are expanded here, off the packet path, and what they were
/// made from is zeroized. An install whose keys do not fit its cipher yields nothing, so that its packets
/// count as [`crate::Drop::NoSession`]; the key schedules of the protocols always fit.
pub fn split(event: DataEvent) -> (Option<EgressEvent>, Option<IngressEvent>) {
    match event {
        DataEvent::AddPeer(config) => {
            let peer = PeerRoutes::from(config);
            (Some(EgressEvent::AddPeer(peer.clone())), Some(IngressEvent::AddPeer(peer)))
        }
        DataEvent::RemovePeer(peer) => {
            (Some(EgressEvent::RemovePeer(peer)), Some(IngressEvent::RemovePeer(peer)))
        }
        DataEvent::MovePeer { peer, path } => {
            (Some(EgressEvent::MovePeer { peer, path }), Some(IngressEvent::MovePeer { peer, path }))
        }
        DataEvent::Install(install) => {
            let (peer, session) = (install.peer, install.session);
            let seal = SealSession::new(install.framing, install.cipher, &install.seal);
            let open =
                OpenSession::new(install.framing, install.cipher, &install.open, install.replay_window);
            let (Ok(mut seal), Ok(open)) = (seal, open) else { return (None, None) };
            seal.follow(&open);
            (
                Some(EgressEvent::Install { peer, session, seal: Box::new(seal) }),
                Some(IngressEvent::Install { peer, session, open: Box::new(open) }),
            )
        }
        DataEvent::Activate { peer, session } => (Some(EgressEvent::Activate { peer, session }), None),
        DataEvent::Retire { peer, session } => {
            (Some(EgressEvent::Retire { peer, session }), Some(IngressEvent::Retire { peer, session }))
        }
        DataEvent::Inject { peer, payload } => (Some(EgressEvent::Inject { peer, payload }), None),
    }
}
