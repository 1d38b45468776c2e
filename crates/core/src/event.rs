use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::{Ended, Install, Path, PeerId, PeerInfo, PeerOrder, Protocol, SessionId, TunnelSettings};

/// An order or a message of a protocol to the data plane, the driver or the protocol's adapter.
///
/// `R` is [`Protocol::Request`], `C` is [`Protocol::Codec`], `D` is [`Protocol::Detail`]; [`EventOf`] names all three
/// by the protocol.
#[derive(Clone, Debug)]
pub enum Event<R, C, D> {
    /// An order for the data plane.
    Data(DataEvent<C>),
    /// The protocol wants a path to its remote number `remote` (an index into the configured remotes). The driver
    /// resolves, opens, and answers with [`Command::Opened`] or [`Command::OpenFailed`].
    Open {
        /// Index of the remote.
        remote: usize,
    },
    /// The path is not used any more: close its connection (TCP), or its socket if it was opened by
    /// [`Event::Open`]. Datagrams that `poll_transmit` gave before the event are still sent.
    Close {
        /// The path.
        path: Path,
    },
    /// The tunnel is up with these settings (an initiator: after each successful connect, perhaps changed; a
    /// responder: once at its start). Answered with [`Command::NotUp`] where the system refuses what they cannot be
    /// without.
    Up(TunnelSettings),
    /// The tunnel is down (an initiator between two connections).
    Down,
    /// A peer finished its handshake.
    PeerUp {
        /// The peer.
        peer: PeerId,
        /// The peer as `status` and the log show it.
        info: Box<PeerInfo<D>>,
    },
    /// A peer is gone; its sessions were removed.
    PeerDown {
        /// The peer.
        peer: PeerId,
        /// Why, for the log.
        reason: String,
    },
    /// Peers of other endpoints of the tunnel were evicted from the pool that they share ([`crate::SharedPool`]). The
    /// driver has those endpoints look, by [`Command::LeasesMoved`].
    LeasesMoved,
    /// A request to the protocol's adapter, which may answer by [`Protocol::handle_reply`].
    Request(R),
    /// A line for the log.
    Report(Report),
    /// The machine has ended and wants nothing any more.
    Ended(Ended),
}

/// The events of protocol `P`.
pub type EventOf<P> = Event<<P as Protocol>::Request, <P as Protocol>::Codec, <P as Protocol>::Detail>;

/// A protocol's orders to the data plane. `C` is [`Protocol::Codec`].
#[derive(Clone, Debug)]
pub enum DataEvent<C> {
    /// A change of a peer.
    Peer(PeerOrder),
    /// A new session; opens at once, seals when activated, or from its first opened packet on
    /// ([`crate::OnFirstOpened`]). One with the same id is replaced.
    Install(Box<Install<C>>),
    /// A session of that id may come by [`DataEvent::Install`]. Its peer can seal with it before this end has the keys: a few
    /// datagrams that name it wait for it, for a short time.
    Expect(SessionId),
    /// Seal with this session from now on, in place of the one of its series that sealed before ([`Install::series`]). Where one
    /// of the series that was installed later seals since its first opened packet ([`crate::OnFirstOpened`]), nothing changes: that
    /// packet came after the order was given.
    Activate {
        /// The peer.
        peer: PeerId,
        /// The session.
        session: SessionId,
    },
    /// No session of the peer seals packets from now on, nor begins to by the first packet that it opens: they wait as before
    /// the peer's first session (`staging` of its configuration in the data plane), or are dropped. All of its sessions open as before, and
    /// [`DataEvent::InjectInto`] seals.
    Deactivate(PeerId),
    /// The session is forgotten.
    Retire {
        /// The peer.
        peer: PeerId,
        /// The session.
        session: SessionId,
    },
    /// Seal this payload, a message of the protocol's own, with the session that seals the peer's packets and send it. Of several
    /// sessions, that of the first series seals it.
    Inject {
        /// The peer.
        peer: PeerId,
        /// The payload.
        payload: Vec<u8>,
    },
    /// Seals a message of the protocol's own in the session of that id, which need not be active: a protocol may have
    /// to send a message in a session that carries no packets yet.
    InjectInto {
        /// The peer.
        peer: PeerId,
        /// The session.
        session: SessionId,
        /// The payload.
        payload: Vec<u8>,
    },
}

/// An order or a message of the driver or the host to any protocol. Answers that only one protocol understands are its
/// [`Protocol::Reply`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A UDP socket, or one for an IP protocol, is bound, or datagrams came to another local address of one that learns them, which from now on is as
    /// a socket to the protocol. Said before any datagram of it, and before [`Command::Opened`] of a path on it.
    ///
    /// A protocol that must know its local address (NAT detection, RFC 7296 section 2.23) or keep to one (a sticky source
    /// address) remembers it by the number, and chooses it by the number in the [`Path`] that it sends on.
    SocketBound {
        /// The number of the socket in [`Path::Udp`] or [`Path::Ip`].
        socket: u32,
        /// The address and port that it is bound to. Where the address is unspecified (`0.0.0.0`, `::`), the system
        /// chooses the source address of each datagram by its routes, and the protocol does not learn it. A socket for
        /// an IP protocol has port 0.
        local: SocketAddr,
    },
    /// A path asked for by [`Event::Open`] is there, or a listener accepted a TCP connection.
    Opened {
        /// The path.
        path: Path,
    },
    /// The preamble of a connection ([`crate::Preamble`]) is complete: its records may begin. This command reports a
    /// connection that was requested by [`Event::Open`] and has a preamble, in place of [`Command::Opened`]; for a
    /// connection that a listener accepted it follows [`Command::Opened`].
    Prepared {
        /// The path.
        path: Path,
        /// Index of the remote that [`Event::Open`] named. `None`: a listener accepted the connection.
        remote: Option<usize>,
    },
    /// The remote could not be reached.
    OpenFailed {
        /// Index of the remote.
        remote: usize,
        /// Why.
        failure: OpenFailure,
    },
    /// The path broke: a TCP connection closed or failed, or the address of a UDP path refuses datagrams (ICMP), and the remote
    /// has others.
    Closed {
        /// The path.
        path: Path,
        /// Why.
        reason: String,
    },
    /// The system refused something that the settings of [`Event::Up`] cannot be without, such as the routes of a full
    /// tunnel: the tunnel is not up, and the connection is of no use. The command comes before any later event is
    /// polled.
    NotUp {
        /// The setting that was refused, and why.
        reason: String,
    },
    /// Send all peers the exit notice and end.
    Shutdown,
    /// Drop all connections and start over.
    Restart,
    /// Start new keys with a peer.
    Rekey {
        /// The peer.
        peer: PeerId,
    },
    /// Disconnect a peer.
    Disconnect {
        /// The peer.
        peer: PeerId,
    },
    /// Another endpoint of the tunnel evicted peers from the pool: those of this endpoint
    /// ([`crate::EndpointPool::evictions`]) are to go.
    LeasesMoved,
    /// The MTU of the device changed. Only drivers that follow it tell.
    MtuChanged {
        /// The MTU in bytes. `None`: not known, as while the device is in another network namespace.
        mtu: Option<u16>,
    },
    /// The MTU of the path to an address, as ICMP said it (RFC 1191, RFC 8201) or a route has it. Drivers send it for
    /// addresses to which datagrams did not fit, and repeat it every ten seconds. Datagrams to a peer at that address
    /// should fit.
    PathMtu {
        /// The address.
        remote: IpAddr,
        /// The MTU in bytes. `None`: as large as links allow.
        mtu: Option<u16>,
    },
    /// A route changed, so that it leads to a peer by another device than that of the local address which the peer's path names
    /// ([`Command::SocketBound`]). A protocol that keeps to one source address for as long as that is of use lets the system choose
    /// one from now on.
    RouteChanged {
        /// The peer.
        peer: PeerId,
        /// Its path when the route was looked at.
        path: Path,
    },
}

/// Why a remote could not be reached. The text names the remote and the cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpenFailure {
    /// The resolver answered for certain that the name does not exist (`EAI_NONAME`).
    UnknownName(String),
    /// Anything else: the resolver did not answer, the connection was refused or timed out, ...
    Unreachable(String),
    /// Something on the way, such as a proxy, asks for a username and a password that there are not, or refuses those that
    /// there are.
    NeedsCredentials {
        /// The name of the party that asks, such as a proxy, and its message.
        text: String,
        /// There were credentials, and they were refused.
        refused: bool,
    },
}

impl OpenFailure {
    /// The failure, in words for people.
    pub fn text(&self) -> &str {
        match self {
            OpenFailure::UnknownName(text)
            | OpenFailure::Unreachable(text)
            | OpenFailure::NeedsCredentials { text, .. } => text,
        }
    }
}

/// How much a report matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Severity {
    /// Only when looking for a fault.
    Debug,
    /// The normal course of things.
    Info,
    /// Something is wrong, but the tunnel goes on.
    Warning,
    /// A connection failed.
    Error,
}

/// A line for the log, with the path that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How much it matters.
    pub severity: Severity,
    /// The path it is about, if any.
    pub path: Option<Path>,
    /// The event, its reason, and the way out.
    pub text: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{path}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}
