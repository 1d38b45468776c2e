//! A configuration, with every value checked and every default filled in.

mod back_ends;
mod client;
mod data;
mod external;
mod peer_check;
mod proxy;
mod scripts;
mod server;
mod system;
mod tls;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_core::{Cipher, Ipv4Net, Ipv6Net, PeerLimits, Route, RouteVia, Transport};
use adit_openvpn::params::TlsCryptV2;
use adit_openvpn::params::{Keepalive, Rekey};
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wrap::KeyDirection;

pub use self::back_ends::*;
pub use self::client::*;
pub use self::data::*;
pub use self::external::*;
pub use self::peer_check::*;
pub use self::proxy::*;
pub use self::scripts::*;
pub use self::server::*;
pub use self::system::*;
pub use self::tls::*;

/// An OpenVPN configuration with every value checked and every default filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Client or server, with the settings of one side only.
    pub role: Role,
    /// The TUN device.
    pub device: Device,
    /// Certificates and TLS. Nothing of it is used beside a [`Config::secret`].
    pub tls: Tls,
    /// The key that takes the place of TLS (`secret`). The role is then a client that does not pull, or the listening end
    /// of a point-to-point tunnel.
    pub secret: Option<SharedSecret>,
    /// The wrapping of control datagrams.
    pub wrap: Wrap,
    /// The data channel.
    pub data: DataChannel,
    /// Pings and the meaning of their absence.
    pub liveness: Keepalive,
    /// How long a peer may stay connected.
    pub limits: PeerLimits,
    /// When keys are renewed.
    pub rekey: Rekey,
    /// Options of the outer sockets.
    pub socket: SocketOptions,
    /// Routes of our own file (`route`, `route-ipv6`), without those that a server pushes.
    pub routes: Vec<Route>,
    /// Such routes to hosts whose addresses are still to be looked up.
    pub named_routes: Vec<NamedRoute>,
    /// Programs that are run when the tunnel comes up and goes down.
    pub scripts: TunnelScripts,
    /// The process: user, log, status.
    pub process: Process,
}

/// A static key that both ends of a tunnel share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedSecret {
    /// The key.
    pub key: StaticKey,
    /// Which half is for which direction.
    pub direction: KeyDirection,
    /// The cipher, one of AES-CBC.
    pub cipher: Cipher,
}

/// A route to a host that is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRoute {
    /// The host's name.
    pub host: String,
    /// Which of its addresses count: IPv6 (`route-ipv6`) or IPv4 (`route`).
    pub ipv6: bool,
    /// Length of the network's prefix around each address.
    pub prefix: u8,
    /// By which way.
    pub via: RouteVia,
    /// Metric, if one was given.
    pub metric: Option<u32>,
}

/// Which side we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// We connect.
    Client(Box<ClientConfig>),
    /// We listen.
    Server(Box<ServerConfig>),
    /// The listening end of a point-to-point tunnel (`tls-server` without `server`, or `secret` without
    /// `remote`). Its other end is a client that does not pull.
    PointToPoint(Box<PointToPointConfig>),
}

/// The settings of the listening end of a point-to-point tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointToPointConfig {
    /// Where to listen; at least one.
    pub listen: Vec<Listen>,
    /// Where the other end is, as names or addresses (`remote`); empty if it may be anywhere.
    pub remotes: Vec<String>,
    /// Our IPv4 address (`ifconfig`).
    pub ipv4: Option<StaticIpv4>,
    /// Our IPv6 address and the peer's (`ifconfig-ipv6`).
    pub ipv6: Option<(Ipv6Net, Ipv6Addr)>,
    /// Exit notices to send (`explicit-exit-notify`); 0: none.
    pub exit_notify: u8,
    /// The other end has a key of its own (`tls-crypt-v2`).
    pub tls_crypt_v2: Option<TlsCryptV2>,
    /// No other peer replaces one that is up (`single-session`).
    pub single: bool,
}

/// An address family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4 or IPv6.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only (a listening socket takes IPv4 too, as mapped addresses).
    V6,
}

/// A static IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaticIpv4 {
    /// `topology subnet`: our address with its network.
    Subnet(Ipv4Net),
    /// `topology net30` or `p2p`: our address and the peer's.
    PointToPoint {
        /// Ours.
        local: Ipv4Addr,
        /// The peer's.
        peer: Ipv4Addr,
    },
}

/// A place to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Address; `None` for all.
    pub address: Option<IpAddr>,
    /// Port.
    pub port: u16,
    /// UDP or TCP.
    pub transport: Transport,
    /// Family when `address` is `None`.
    pub family: Family,
}
