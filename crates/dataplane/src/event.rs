//! A protocol's orders, divided between the two halves.

use std::sync::Arc;

use adit_access::Rules;
use adit_core::{DataEvent, Install, OnFirstOpened, PeerConfig, PeerId, PeerOrder, SessionId};

use crate::aead::AeadError;
use crate::codec::{OpenSession, SealSession, SessionCodec};

/// An order to [`crate::Egress`].
#[derive(Debug)]
pub enum EgressEvent {
    /// The MTU of the TUN device, in bytes: for the sessions that are there, and those that come.
    SetMtu(u16),
    /// Judge packets for peers by these access rules from now on. Packets that earlier rules let pass, too, go on to pass.
    SetRules(Arc<Rules>),
    /// A change of a peer.
    Peer(PeerOrder),
    /// A peer that another worker serves: its routes are known here, its sessions are not.
    AddRemotePeer {
        /// The peer.
        peer: PeerConfig,
        /// The number of the worker that serves it.
        worker: u32,
    },
    /// A session that may be activated.
    Install {
        /// The peer.
        peer: PeerId,
        /// Its id.
        session: SessionId,
        /// Its series.
        series: u32,
        /// The change that [`EgressEvent::FirstOpened`] makes.
        on_first_opened: OnFirstOpened,
        /// Its codec.
        seal: SealSession,
    },
    /// Seal with this session of its series from now on, unless one that was installed later seals since its first opened packet.
    Activate {
        /// The peer.
        peer: PeerId,
        /// The session.
        session: SessionId,
    },
    /// The session opened its first packet.
    FirstOpened {
        /// The peer.
        peer: PeerId,
        /// The session.
        session: SessionId,
    },
    /// No session of the peer seals packets from now on.
    Deactivate(PeerId),
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
        /// The session to seal with; `None`: the one of the first series that seals.
        session: Option<SessionId>,
        /// The payload.
        payload: Vec<u8>,
    },
}

/// An order to [`crate::Ingress`].
#[derive(Debug)]
pub enum IngressEvent {
    /// Judge packets of peers by these access rules from now on. Packets that earlier rules let pass, too, go on to pass.
    SetRules(Arc<Rules>),
    /// A change of a peer.
    Peer(PeerOrder),
    /// A peer that another worker serves: its routes, its path and the ids of its sessions are known here, its keys
    /// are not.
    AddRemotePeer {
        /// The peer.
        peer: PeerConfig,
        /// The number of the worker that serves it.
        worker: u32,
    },
    /// A session that opens at once.
    Install {
        /// The peer.
        peer: PeerId,
        /// Its id.
        session: SessionId,
        /// Its series.
        series: u32,
        /// Its codec.
        open: OpenSession,
    },
    /// A session of that id may come: a few datagrams that name it wait for it, for a short time.
    Expect(SessionId),
    /// A session of a peer that another worker serves: its datagrams are for that worker.
    InstallRemote {
        /// The peer.
        peer: PeerId,
        /// The session's id.
        session: SessionId,
    },
    /// The session is forgotten.
    Retire {
        /// The peer.
        peer: PeerId,
        /// The session.
        session: SessionId,
    },
}

/// The events by which the halves of all workers but `worker` learn of a peer that `worker` serves. The
/// halves of `worker` itself get the events that [`split`] makes of [`PeerOrder::Add`], and they alone get
/// its sessions, so that no counter is ever used twice. The others learn the sessions' ids by
/// [`IngressEvent::InstallRemote`].
pub fn remote_peer(peer: PeerConfig, worker: u32) -> (EgressEvent, IngressEvent) {
    (EgressEvent::AddRemotePeer { peer: peer.clone(), worker }, IngressEvent::AddRemotePeer { peer, worker })
}

/// Gives both halves of a worker these access rules. All workers of a data plane must have the same ones.
pub fn set_rules(rules: Arc<Rules>) -> (EgressEvent, IngressEvent) {
    (EgressEvent::SetRules(Arc::clone(&rules)), IngressEvent::SetRules(rules))
}

/// Gives both halves of the peer's worker a session with that codec.
pub fn install(install: Install<SessionCodec>) -> (EgressEvent, IngressEvent) {
    let Install { peer, session, series, on_first_opened, codec } = install;
    let (seal, open) = codec.halves();
    let egress = EgressEvent::Install { peer, session, series, on_first_opened, seal };
    (egress, IngressEvent::Install { peer, session, series, open })
}

/// Divides an order for the two halves. `make_codec` makes the codec of a session from its parameters. An install for
/// which there is none yields nothing, so that its packets count as [`crate::DropReason::NoSession`]; the key schedules
/// of the protocols always fit.
pub fn split<C>(
    event: DataEvent<C>,
    make_codec: impl FnOnce(&Install<C>) -> Result<SessionCodec, AeadError>,
) -> (Option<EgressEvent>, Option<IngressEvent>) {
    match event {
        DataEvent::Peer(order) => (Some(EgressEvent::Peer(order.clone())), Some(IngressEvent::Peer(order))),
        DataEvent::Install(install) => {
            let Ok(codec) = make_codec(&install) else { return (None, None) };
            let Install { peer, session, series, on_first_opened, .. } = *install;
            let (egress, ingress) = self::install(Install { peer, session, series, on_first_opened, codec });
            (Some(egress), Some(ingress))
        }
        DataEvent::Expect(session) => (None, Some(IngressEvent::Expect(session))),
        DataEvent::Activate { peer, session } => (Some(EgressEvent::Activate { peer, session }), None),
        DataEvent::Deactivate(peer) => (Some(EgressEvent::Deactivate(peer)), None),
        DataEvent::Retire { peer, session } => {
            (Some(EgressEvent::Retire { peer, session }), Some(IngressEvent::Retire { peer, session }))
        }
        DataEvent::Inject { peer, payload } => {
            (Some(EgressEvent::Inject { peer, session: None, payload }), None)
        }
        DataEvent::InjectInto { peer, session, payload } => {
            (Some(EgressEvent::Inject { peer, session: Some(session), payload }), None)
        }
    }
}
