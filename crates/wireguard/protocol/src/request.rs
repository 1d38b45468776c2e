//! The messages between an interface and its adapter, the program's part that knows WireGuard.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use adit_core::{Instant, IpNet, ReplayWindow, Transport, TunnelSettings};
use zeroize::Zeroizing;

use crate::keys::{KEY_LEN, PresharedKey, PrivateKey, PublicKey};
use crate::params::{Changes, ConfigureError, Sockets};
use crate::tai64n::{Tai64n, WallClock};

/// The events of an interface.
pub type Event = adit_core::Event<Request, Codec, PeerDetail>;
/// Its orders to the data plane.
pub type DataEvent = adit_core::DataEvent<Codec>;
/// A peer as `status` and the log show it.
pub type PeerInfo = adit_core::PeerInfo<PeerDetail>;

/// A request of an interface to its adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The sockets are to be bound anew, or marked. Answered with [`Reply::Rebound`].
    Rebind {
        /// The new port, if it changes; 0: one that the system chooses.
        listen_port: Option<u16>,
        /// The new firewall mark, if it changes; 0: none.
        fwmark: Option<u32>,
    },
    /// The result of [`Reply::Configure`] with that number.
    Configured {
        /// The number.
        id: u64,
        /// Whether all was taken; or why nothing was.
        outcome: Result<(), ConfigureError>,
    },
    /// A timestamp that no later run may go below ([`crate::Params::timestamp_floor`]): to be saved before the
    /// datagrams that follow are sent. It lies a minute ahead, so that this is seldom asked.
    SaveTimestamp(Tai64n),
}

/// The adapter's answers to requests, and its orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Changes of the configuration. Answered with [`Request::Configured`]; those that come in the meantime wait.
    Configure {
        /// A number for the answer.
        id: u64,
        /// The changes.
        changes: Box<Changes>,
    },
    /// The answer to [`Request::Rebind`].
    Rebound(Result<Sockets, ConfigureError>),
    /// The system's clock was set.
    Clock(WallClock),
    /// The tunnel's settings for the system from now on, for [`adit_core::Event::Up`]. Its MTU is that of
    /// [`crate::Params::mtu`].
    Tunnel(TunnelSettings),
    /// Whether senders of handshake messages must prove their address by a cookie, whatever the interface counts.
    UnderLoad(bool),
}

/// The parameters of a session's wire form, for the data plane.
#[derive(Clone)]
pub struct Codec {
    /// The receiver index that the peer chose: written into sent datagrams.
    pub remote_index: u32,
    /// The tunnel's MTU in bytes, beyond which no payload is padded.
    pub mtu: u16,
    /// The key of ChaCha20-Poly1305 for sent datagrams.
    pub seal: Zeroizing<[u8; KEY_LEN]>,
    /// The key for received datagrams.
    pub open: Zeroizing<[u8; KEY_LEN]>,
    /// The time from which nothing is sealed or opened any more (`Reject-After-Time`).
    pub expires: Instant,
}

impl Codec {
    /// How late packets may come: upstream's windows take packets up to 8128 behind the newest, 8129 values in all.
    pub const REPLAY_WINDOW: ReplayWindow = ReplayWindow { packets: 8129, time: Duration::ZERO };
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec").field("remote_index", &self.remote_index).finish_non_exhaustive()
    }
}

/// The part of a peer in `status` and the log beside the part that the peers of all protocols have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerDetail {
    /// Its public key.
    pub public_key: PublicKey,
    /// Its name, if it was given one ([`crate::PeerChange::name`]).
    pub name: Option<String>,
    /// Where it is, if that is known.
    pub endpoint: Option<SocketAddr>,
    /// The carrier of the datagrams to the peer. `None`: it cannot be reached.
    pub transport: Option<Transport>,
    /// When the last handshake was complete, since 1970-01-01T00:00:00Z by the system's clock of that moment.
    pub last_handshake: Option<Duration>,
    /// Bytes received: data datagrams and handshake messages, whole.
    pub received_bytes: u64,
    /// Bytes sent, counted likewise.
    pub sent_bytes: u64,
    /// The interval of persistent keepalives in seconds; 0: none.
    pub persistent_keepalive: u16,
    /// Its allowed IPs.
    pub allowed_ips: Vec<IpNet>,
    /// The greatest timestamp received from it, to be saved over a restart.
    pub last_timestamp: Option<Tai64n>,
    /// Initiations that were sent since the last handshake that was complete.
    pub unanswered: u32,
    /// The peer is blocked ([`crate::PeerChange::blocked`]).
    pub blocked: bool,
    /// Whether the handshake of the current session used a post-quantum key; `None` where none is agreed on.
    pub post_quantum: Option<bool>,
}

impl PeerDetail {
    /// Its name in the log and in `status`: the name that it was given, or else its key.
    pub fn called(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.public_key.to_base64())
    }
}

/// All of an interface, its secrets included: the answer to the cross-platform interface's `get` operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The private key, if there is one.
    pub private_key: Option<PrivateKey>,
    /// The port in use; 0: none.
    pub listen_port: u16,
    /// The firewall mark; 0: none.
    pub fwmark: u32,
    /// All peers, in the order in which they were added.
    pub peers: Vec<PeerStatus>,
}

/// A peer, its secret included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// The part that is no secret.
    pub detail: PeerDetail,
    /// The preshared key; zeros if there is none.
    pub preshared_key: PresharedKey,
}
