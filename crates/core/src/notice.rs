use crate::{Flow, Path, PeerActivity, PeerId, SessionId};

/// A message of the data plane to the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Totals of authenticated datagrams received from and datagrams sent to a peer; given at most once a
    /// second and only when one of them changed. Liveness is judged by it.
    Traffic {
        /// The peer.
        peer: PeerId,
        /// Datagrams opened since the peer was added.
        received: u64,
        /// Datagrams sealed since the peer was added.
        sent: u64,
        /// Bytes received.
        received_bytes: u64,
        /// Bytes sent.
        sent_bytes: u64,
        /// The part of these bytes, in both directions, that carried no packets but the protocol's own
        /// messages.
        message_bytes: u64,
        /// When data, keepalives and the rest passed last, in each direction.
        activity: PeerActivity,
    },
    /// A session opened its first packet: the peer has these keys. The change that this packet makes to the sessions
    /// that seal is done by then ([`crate::OnFirstOpened`]).
    FirstOpened {
        /// The peer.
        peer: PeerId,
        /// The session.
        session: SessionId,
    },
    /// An authenticated data datagram, newer than all before, came from another path than the peer's present one.
    /// If the peer may roam ([`crate::PeerConfig::roams`]), the answer is [`crate::PeerOrder::Move`] in any case,
    /// as the data plane may send to the new path already.
    Moved {
        /// The peer.
        peer: PeerId,
        /// Where it is now.
        path: Path,
    },
    /// An authenticated payload that is no IP packet: a message of the protocol's own.
    Message {
        /// The peer.
        peer: PeerId,
        /// The session that opened it.
        session: SessionId,
        /// The payload, at most 1,280 bytes of it.
        payload: Vec<u8>,
    },
    /// A packet waits for a peer that has no session to seal it with, or no path; at most one such notice comes in a
    /// second for each peer, and for a peer with selectors for each of them. Only for peers with
    /// [`crate::PeerConfig::staging`].
    Wanted {
        /// The peer.
        peer: PeerId,
        /// The packet's addresses, protocol and ports.
        flow: Flow,
    },
    /// The sealing counter, or the failed-tag count, nears its limit: new keys are due.
    LimitNear {
        /// The peer.
        peer: PeerId,
        /// The session.
        session: SessionId,
    },
}

impl Notice {
    /// The peer it is about.
    pub fn peer(&self) -> PeerId {
        match self {
            Notice::Traffic { peer, .. }
            | Notice::FirstOpened { peer, .. }
            | Notice::Moved { peer, .. }
            | Notice::Message { peer, .. }
            | Notice::Wanted { peer, .. }
            | Notice::LimitNear { peer, .. } => *peer,
        }
    }
}
