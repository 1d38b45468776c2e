//! The parameters of an endpoint, of its connections and of its sessions, and the details of a peer in a status.

mod check;
mod connection;
mod counters;
mod credentials;
mod detail;
mod inner;
mod request;
mod traffic;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use adit_core::{Cipher, Digest, Path, PrefixShares, Selector, TunnelSettings, UnixTime};

pub use check::BadParams;
pub(crate) use check::{MAX_CONNECTIONS, MAX_GIVING, check};
pub use connection::{
    Child, Childless, Connection, EndAction, EspLimits, FullTranscript, StartAction, Times, Unique,
};
pub use counters::{ChildCounters, DirectionCount, DirectionCounter};
pub use credentials::{
    CertificatePolicy, EapUsers, LocalAuth, LocalProof, OwnCertificate, PeerCertificates, PeerIdentity, Ppk,
    RemoteAuth, RemoteProof, SharedKey,
};
pub use detail::{ChildDetail, PeerDetail};
pub use inner::{Inner, Pool};
pub use request::{ChildUp, Request};
pub use traffic::{Addresses, Traffic};

use crate::crypto::DirectionKeys;

/// The number of ESP among IP protocols (RFC 4303 section 2).
const ESP: u8 = 50;

/// The parameters of an endpoint.
#[derive(Clone, Debug)]
pub struct Params {
    /// The connections. The index is the peer's [`adit_core::PeerId`].
    pub connections: Vec<Connection>,
    /// The sockets.
    pub sockets: Sockets,
    /// Limits on what peers that have not authenticated can cause.
    pub limits: Limits,
    /// The settings of the tunnel, for [`adit_core::Event::Up`]. `None`: the endpoint does not emit that event.
    pub tunnel: Option<TunnelSettings>,
    /// The time of the system's clock at [`adit_core::Instant::ORIGIN`], by which certificates are judged.
    pub wall_at_origin: UnixTime,
}

/// The driver's numbers of the sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sockets {
    /// The sockets for IKE messages alone (port 500).
    pub plain: FamilySockets,
    /// The sockets for ESP in UDP, on which IKE messages have a marker in front (port 4500, RFC 3948).
    pub marked: FamilySockets,
    /// The sockets for ESP as IP protocol 50. Without one for a family, ESP to addresses of the family goes in UDP, as by
    /// [`Connection::forces_encapsulation`].
    pub esp: FamilySockets,
}

/// The sockets of one purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilySockets {
    /// For IPv4.
    pub ipv4: Option<u32>,
    /// For IPv6.
    pub ipv6: Option<u32>,
}

impl FamilySockets {
    fn has(&self, socket: u32) -> bool {
        self.numbers().any(|own| own == socket)
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        [self.ipv4, self.ipv6].into_iter().flatten()
    }

    /// The socket for an address.
    fn socket_to(&self, remote: IpAddr) -> Option<u32> {
        match remote.to_canonical() {
            IpAddr::V4(_) => self.ipv4,
            IpAddr::V6(_) => self.ipv6,
        }
    }

    /// The path to an address by these sockets, which are for UDP.
    pub(crate) fn path_to(&self, remote: SocketAddr) -> Option<Path> {
        self.socket_to(remote.ip()).map(|socket| Path::Udp { socket, remote })
    }

    /// The path to an address by these sockets, which are for ESP in IP.
    pub(crate) fn raw_path_to(&self, remote: IpAddr) -> Option<Path> {
        let remote = SocketAddr::new(remote, 0);
        self.socket_to(remote.ip()).map(|socket| Path::Ip { socket, protocol: ESP, remote })
    }
}

impl Sockets {
    /// Whether that is the number of a socket, not of an address that a socket has learned.
    pub(crate) fn has(&self, socket: u32) -> bool {
        self.plain.has(socket) || self.marked.has(socket) || self.esp.has(socket)
    }

    /// Whether messages on that path have a marker in front.
    pub(crate) fn is_marked(&self, path: Path) -> bool {
        matches!(path, Path::Udp { socket, .. } if self.marked.has(socket))
    }
}

/// Limits on what peers that have not authenticated can cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most IKE SAs of peers that have not authenticated.
    pub half_open: PrefixShares,
    /// The number of these IKE SAs in all from which on initiators must return a cookie first.
    pub cookies_from: usize,
    /// The number of these IKE SAs from one IPv4 address or IPv6 /64 from which on initiators there must return a cookie first.
    pub cookies_from_source: usize,
    /// The time within which an initiator must authenticate.
    pub half_open_for: Duration,
}

impl Default for Limits {
    /// 8 for a source and 4096 in all; cookies from 30 in all or 3 of a source; 30 s.
    fn default() -> Self {
        Limits {
            half_open: PrefixShares::new(8, 4096),
            cookies_from: 30,
            cookies_from_source: 3,
            half_open_for: Duration::from_secs(30),
        }
    }
}

/// The parameters of a child SA for the data plane. The session's number is the SPI of received packets.
#[derive(Clone)]
pub struct Codec {
    /// The SPI of sent packets.
    pub outbound_spi: u32,
    /// The cipher.
    pub cipher: Cipher,
    /// The digest of the HMAC beside a cipher that is no AEAD.
    pub integrity: Option<Digest>,
    /// Whether sequence numbers have 64 bits.
    pub has_extended_sequence_numbers: bool,
    /// The keys of sent packets.
    pub seal: DirectionKeys,
    /// The keys of received packets.
    pub open: DirectionKeys,
    /// The selectors of the packets that the session may carry.
    pub selectors: Arc<[Selector]>,
    /// Whether ESP goes in UDP.
    pub is_encapsulated: bool,
    /// The limits of its use.
    pub limits: EspLimits,
    /// The counters of its packets.
    pub counters: Arc<ChildCounters>,
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec")
            .field("outbound_spi", &self.outbound_spi)
            .field("cipher", &self.cipher)
            .field("selectors", &self.selectors)
            .field("is_encapsulated", &self.is_encapsulated)
            .finish_non_exhaustive()
    }
}
