//! The parameters of an endpoint, of its connections and of its sessions, and the details of a peer in a status.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use adit_core::{Cipher, Digest, IpNet, Path, PrefixShares, Selector, TunnelSettings};

use crate::crypto::{DirectionKeys, Secret};
use crate::suite::Algorithms;
use crate::wire::{AddressRange, Identification, Spi, TrafficSelector};

/// The parameters of an endpoint.
#[derive(Clone, Debug)]
pub struct Params {
    /// The peers. The index is the peer's [`adit_core::PeerId`].
    pub connections: Vec<Connection>,
    /// The sockets.
    pub sockets: Sockets,
    /// Limits on what peers that have not authenticated can cause.
    pub limits: Limits,
    /// The settings of the tunnel, for [`adit_core::Event::Up`]. `None`: the endpoint does not emit that event.
    pub tunnel: Option<TunnelSettings>,
}

/// The driver's numbers of the sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sockets {
    /// The sockets for IKE messages alone (port 500).
    pub plain: FamilySockets,
    /// The sockets for ESP in UDP, on which IKE messages have a marker in front (port 4500, RFC 3948).
    pub marked: FamilySockets,
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
        self.ipv4 == Some(socket) || self.ipv6 == Some(socket)
    }

    /// The path to an address by these sockets.
    pub(crate) fn path_to(&self, remote: SocketAddr) -> Option<Path> {
        let socket = match remote.ip().to_canonical() {
            IpAddr::V4(_) => self.ipv4,
            IpAddr::V6(_) => self.ipv6,
        };
        socket.map(|socket| Path::Udp { socket, remote })
    }
}

impl Sockets {
    /// Whether messages on that path have a marker in front.
    pub(crate) fn is_marked(&self, path: Path) -> bool {
        matches!(path, Path::Udp { socket, .. } if self.marked.has(socket))
    }
}

/// A peer, with its keys, proposals and traffic. Peers are distinguished by both identities, never by address.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Its name in the log.
    pub name: String,
    /// The address that this end initiates to. The port decides the kind of socket: messages to 4500 have the marker. `None`: the
    /// peer initiates.
    pub remote: Option<SocketAddr>,
    /// The identity that this end proves.
    pub local_id: Identification,
    /// The identity that the peer must prove.
    pub remote_id: Identification,
    /// The pre-shared key.
    pub shared_key: SharedKey,
    /// Proposals for the IKE SA, in order of preference.
    pub ike: Vec<Algorithms>,
    /// Proposals for child SAs, in order of preference.
    pub esp: Vec<Algorithms>,
    /// The packets of this end that the tunnel carries.
    pub local: Vec<Traffic>,
    /// The packets of the peer's end that the tunnel carries.
    pub remote_traffic: Vec<Traffic>,
    /// Whether ESP is sent in UDP even without a NAT. The notifies of this end then make the peer detect a NAT (RFC 7296
    /// section 2.23).
    pub forces_encapsulation: bool,
    /// The longest datagram in bytes. Longer messages are sent in fragments if the peer takes fragments (RFC 7383). `None`:
    /// fragments are neither sent nor taken.
    pub longest_datagram: Option<usize>,
    /// Its times.
    pub times: Times,
}

/// A pre-shared key.
#[derive(Clone)]
pub struct SharedKey(pub Secret);

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedKey(..)")
    }
}

/// Packets of one end, by network, IP protocol and ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The addresses.
    pub network: IpNet,
    /// The IP protocol; 0: any.
    pub protocol: u8,
    /// The least and the greatest port.
    pub ports: (u16, u16),
}

impl Traffic {
    /// All packets of a network.
    pub const fn all_of(network: IpNet) -> Self {
        Traffic { network, protocol: 0, ports: (0, u16::MAX) }
    }

    pub(crate) fn selector(&self) -> TrafficSelector {
        let addresses = match self.network {
            IpNet::V4(network) => AddressRange::V4(network.network(), network.broadcast()),
            IpNet::V6(network) => AddressRange::V6(network.network(), network.broadcast()),
        };
        let (first_port, last_port) = self.ports;
        TrafficSelector { protocol: self.protocol, first_port, last_port, addresses }
    }
}

/// Times of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The time from the making of an IKE SA to its rekey, less up to a tenth.
    pub ike_rekey: Duration,
    /// The time from the making of a child SA to its rekey, less up to a tenth.
    pub child_rekey: Duration,
    /// The time of silence after which a peer is asked for a sign of life. `None`: the peer is not asked.
    pub dead_peer_detection: Option<Duration>,
    /// The time from a request to its first retransmission. Each further interval is 1.8 times as long as the one before.
    pub retransmission: Duration,
    /// The number of retransmissions of a request that is not answered.
    pub retransmissions: u32,
    /// The time after which an initiator that failed tries again.
    pub retry: Duration,
}

impl Default for Times {
    /// Rekeys after 4 hours and 1 hour, a sign of life after 30 s, retransmissions after 2 s and up to 82 s in all.
    fn default() -> Self {
        Times {
            ike_rekey: Duration::from_secs(4 * 3600),
            child_rekey: Duration::from_secs(3600),
            dead_peer_detection: Some(Duration::from_secs(30)),
            retransmission: Duration::from_secs(2),
            retransmissions: 5,
            retry: Duration::from_secs(5),
        }
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

/// The details of a peer's IKE SA in a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerDetail {
    /// Whether this end initiated the IKE SA, or its last rekey.
    pub is_initiator: bool,
    /// The SPI that this end chose.
    pub own_spi: Spi,
    /// The SPI that the peer chose.
    pub peer_spi: Spi,
}
