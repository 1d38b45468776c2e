use crate::{IpNet, Path, PeerConfig, PeerId};

/// A change of a peer, which both halves of the data plane follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerOrder {
    /// A peer, before its first session. Adding one that exists replaces its path, routes, selectors and MSS, and
    /// keeps its sessions. It takes back routes that moved to other peers: [`PeerOrder::SetMaxMss`] does not.
    Add(PeerConfig),
    /// The peer and all its sessions go.
    Remove(PeerId),
    /// The peer is reached by this path from now on. The path that it had before, once more, refuses the move of
    /// [`crate::Notice::Moved`].
    Move {
        /// The peer.
        peer: PeerId,
        /// Its path.
        path: Path,
    },
    /// The largest MSS of packets to and from a peer ([`PeerConfig::max_mss`]). Its routes stay as they are.
    SetMaxMss {
        /// The peer.
        peer: PeerId,
        /// The MSS, in bytes.
        max_mss: Option<u16>,
    },
    /// One more route of a peer. A prefix that another peer had moves, unless both have selectors ([`PeerConfig::selectors`]).
    AddRoute {
        /// The peer.
        peer: PeerId,
        /// The prefix behind it.
        route: IpNet,
    },
    /// One route of a peer less. A prefix that moved to another peer stays with the other peer.
    RemoveRoute {
        /// The peer.
        peer: PeerId,
        /// The prefix.
        route: IpNet,
    },
}

impl PeerOrder {
    /// The peer that it is about.
    pub fn peer(&self) -> PeerId {
        match self {
            PeerOrder::Add(config) => config.peer,
            PeerOrder::Remove(peer)
            | PeerOrder::Move { peer, .. }
            | PeerOrder::SetMaxMss { peer, .. }
            | PeerOrder::AddRoute { peer, .. }
            | PeerOrder::RemoveRoute { peer, .. } => *peer,
        }
    }

    /// The order for another peer.
    #[must_use]
    pub fn for_peer(mut self, other: PeerId) -> Self {
        match &mut self {
            PeerOrder::Add(config) => config.peer = other,
            PeerOrder::Remove(peer)
            | PeerOrder::Move { peer, .. }
            | PeerOrder::SetMaxMss { peer, .. }
            | PeerOrder::AddRoute { peer, .. }
            | PeerOrder::RemoveRoute { peer, .. } => *peer = other,
        }
        self
    }
}
