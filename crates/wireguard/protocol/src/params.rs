//! The input of an interface: at construction, and as orders while it runs.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use adit_core::{Instant, IpNet, Rate, TunnelSettings};
use thiserror::Error;

use crate::keys::{PresharedKey, PrivateKey, PublicKey};
use crate::tai64n::{Tai64n, WallClock};

/// Most peers of one interface (as wireguard-go: `MaxPeers`).
pub const MAX_PEERS: usize = 1 << 16;

/// The parameters by which an interface is made.
#[derive(Clone, Debug)]
pub struct Params {
    /// The system's clock at the start. [`crate::Reply::Clock`] corrects it later.
    pub clock: WallClock,
    /// The greatest timestamp that [`crate::Request::SaveTimestamp`] asked to save, in whichever run of the program.
    pub timestamp_floor: Option<Tai64n>,
    /// The sockets that are bound already.
    pub sockets: Sockets,
    /// The tunnel's MTU in bytes, beyond which no payload is padded.
    pub mtu: u16,
    /// TCP segments that pass fit the tunnel's MTU, or this one, in bytes, if it is less
    /// ([`adit_core::PeerConfig::max_mss`]). [`adit_core::Command::MtuChanged`] changes the tunnel's. `None`: of any size.
    pub clamp_mss: Option<u16>,
    /// Data threads among which the kernel divides datagrams by their receiver index; at least 1. Indices are chosen
    /// so that the kernel brings a peer's datagrams to the thread that serves it.
    pub workers: u32,
    /// Handshake messages with a valid mac1 in such a time, beyond which their senders must prove their address by a
    /// cookie, for a second after the last that was too many.
    pub load: Rate,
    /// The tunnel's settings for the system, for [`adit_core::Event::Up`]; `None` where others see to that.
    pub tunnel: Option<TunnelSettings>,
    /// Its configuration. The port and the firewall mark in it are ignored: `sockets` are there.
    pub configuration: Changes,
    /// Peers that are blocked from when they are added, until [`PeerChange::blocked`] lets them connect: as was ordered
    /// in an earlier run.
    pub blocked: BTreeSet<PublicKey>,
    /// Each peer is blocked from when it is added: it is not known which ones an earlier run has blocked.
    pub blocks_all: bool,
}

impl Params {
    /// The parameters of an interface without keys, sockets and peers.
    pub fn new(clock: WallClock) -> Self {
        Params {
            clock,
            timestamp_floor: None,
            sockets: Sockets::default(),
            mtu: 1420,
            clamp_mss: None,
            workers: 1,
            load: Rate { count: 1000, period: Duration::from_secs(1) },
            tunnel: None,
            configuration: Changes::default(),
            blocked: BTreeSet::new(),
            blocks_all: false,
        }
    }
}

/// The sockets of an interface: one for each address family, on the same port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sockets {
    /// The port. 0: none is bound.
    pub port: u16,
    /// The driver's number of the socket that sends to IPv4 addresses.
    pub ipv4: Option<u32>,
    /// The number of the socket that sends to IPv6 addresses.
    pub ipv6: Option<u32>,
}

/// Changes of an interface's configuration: all of them are made, or none ([`crate::Request::Configured`] says which).
///
/// The fields are those of the cross-platform interface's `set` operation
/// (<https://www.wireguard.com/xplatform/#configuration-protocol>), and are followed in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// A new private key, or none from now on.
    pub private_key: Option<Option<PrivateKey>>,
    /// A new port; 0: one that the system chooses.
    pub listen_port: Option<u16>,
    /// A new firewall mark of sent datagrams; 0: none.
    pub fwmark: Option<u32>,
    /// All peers are removed before those below are looked at.
    pub replace_peers: bool,
    /// Whether packets of a peer pass only once its connection was admitted ([`PeerChange::admit`]): from the first handshake
    /// on until then it has sessions and keepalives alone. Connections that are there when this begins to hold are admitted.
    pub gated: Option<bool>,
    /// Changes of peers, one after the other. A peer may occur more than once.
    pub peers: Vec<PeerChange>,
}

/// Changes of one peer, which is added if it is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerChange {
    /// Which.
    pub public_key: PublicKey,
    /// The peer is removed.
    pub remove: bool,
    /// If it is not there, nothing is changed.
    pub update_only: bool,
    /// The name that stands in place of its key in the log and in [`adit_core::PeerInfo::name`].
    pub name: Option<String>,
    /// A new preshared key. The running session stays; the next handshake uses it.
    pub preshared_key: Option<PresharedKey>,
    /// Where it is.
    pub endpoint: Option<SocketAddr>,
    /// The number of the driver's remote by which it is reached over TCP. A connection is asked for when something is to be
    /// sent ([`adit_core::Event::Open`]), and has a preamble ([`crate::upgrade`]).
    pub remote: Option<usize>,
    /// A new interval of persistent keepalives in seconds; 0: none.
    pub persistent_keepalive: Option<u16>,
    /// Its allowed IPs are removed before those below are looked at.
    pub replace_allowed_ips: bool,
    /// Changes of its allowed IPs.
    pub allowed_ips: Vec<AllowedIp>,
    /// The greatest timestamp that was received from it in an earlier run ([`crate::PeerDetail::last_timestamp`]).
    pub last_timestamp: Option<Tai64n>,
    /// The connection that began at that moment ([`adit_core::PeerInfo::since`]) is admitted ([`Changes::gated`]). It may have
    /// ended meanwhile: then nothing is admitted.
    pub admit: Option<Instant>,
    /// Whether it is blocked: its sessions end, and no handshake with it begins or is answered. A new peer is not.
    pub blocked: Option<bool>,
    /// Whether post-quantum preshared keys are agreed on with it. With a new peer: [`PostQuantum::Off`].
    pub post_quantum: Option<PostQuantum>,
}

/// Whether post-quantum preshared keys are agreed on with a peer (docs/use/WIREGUARD.md, "The post-quantum key exchange").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PostQuantum {
    /// No. Its initiations are not asked whether it does.
    #[default]
    Off,
    /// If it does, too. Nothing else shows it to a peer that does not.
    On,
    /// Post-quantum keys are agreed on; and no packet is sent to the peer in a session whose handshake used
    /// no such key.
    Required,
}

impl PeerChange {
    /// No change but that the peer is there.
    pub fn new(public_key: PublicKey) -> Self {
        PeerChange {
            public_key,
            remove: false,
            update_only: false,
            name: None,
            preshared_key: None,
            endpoint: None,
            remote: None,
            persistent_keepalive: None,
            replace_allowed_ips: false,
            allowed_ips: Vec::new(),
            last_timestamp: None,
            admit: None,
            blocked: None,
            post_quantum: None,
        }
    }
}

/// A change of a peer's allowed IPs. Bits beyond the prefix are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedIp {
    /// The prefix is the peer's from now on, and no other's.
    Add(IpNet),
    /// The prefix is not the peer's any more.
    Remove(IpNet),
}

/// Why a configuration was not taken. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigureError {
    /// There would be too many peers.
    #[error("there would be more than {MAX_PEERS} peers")]
    TooManyPeers,
    /// The system refused the port or the mark.
    #[error("the system refused the port or the firewall mark: {text}")]
    Socket {
        /// The system's number of the error, positive.
        errno: i32,
        /// The meaning of the error.
        text: String,
    },
}
