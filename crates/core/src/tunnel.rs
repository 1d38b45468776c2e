use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{Cipher, Path};

/// Our end of the tunnel, as the operating system is to have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelSettings {
    /// Our addresses with their prefix lengths.
    pub addresses: Vec<IpNet>,
    /// The other end's address of a point-to-point IPv4 tunnel.
    pub peer_address: Option<IpAddr>,
    /// MTU of the TUN device in bytes.
    pub mtu: u16,
    /// Routes into the tunnel, and bypass routes.
    pub routes: Vec<Route>,
    /// Where the routes into the tunnel go.
    pub table: RouteTable,
    /// The traffic that goes into the tunnel whatever other routes say.
    pub redirect: Option<Redirect>,
    /// The firewall drops packets to [`TunnelSettings::addresses`] that come by another device, where all traffic of the
    /// address's family goes into the tunnel (`redirect`; CVE-2019-14899).
    pub guards_addresses: bool,
    /// No IPv6 leaves this machine, neither by the tunnel nor beside it: it is unreachable at once. The tunnel's own
    /// datagrams are excepted.
    pub block_ipv6: bool,
    /// Name resolution through the tunnel.
    pub dns: Dns,
    /// The outer addresses of the server, which must stay outside the tunnel.
    pub server: Option<IpAddr>,
    /// The peers whose own outer addresses are in the tunnel: packets to them go into it, but for the tunnel's own datagrams,
    /// which must carry its mark.
    pub peers: Vec<IpAddr>,
}

/// The routing table of the routes into a tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RouteTable {
    /// The system's main table.
    #[default]
    Main,
    /// The table of that number, for which other programs have rules.
    Number(u32),
    /// The main table, but routes of length 0 go into the table of that number, by policy routing: packets that have
    /// not the same number as firewall mark go by that table, unless the main table has more than a default route for
    /// them. The tunnel's own datagrams must carry the mark. The number is not 0, and not that of a table of the system
    /// (253 to 255). Not together with [`TunnelSettings::redirect`].
    ByMark(u32),
}

/// One route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Where to.
    pub destination: IpNet,
    /// By which way.
    pub via: RouteVia,
    /// Metric, if one was given.
    pub metric: Option<u32>,
}

/// The way a route takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RouteVia {
    /// Into the tunnel device.
    Tunnel,
    /// A next hop, whichever device it is on (within the tunnel, usually).
    Gateway(IpAddr),
    /// A bypass route, by the gateway that the system had before.
    SystemGateway,
}

/// Traffic that takes the tunnel whatever other routes say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirect {
    /// All IPv4.
    pub ipv4: bool,
    /// All IPv6.
    pub ipv6: bool,
    /// A server on a connected network is reached by that network's own route, without one to the server alone.
    pub server_on_link: bool,
    /// The local network goes into the tunnel too, but not its router.
    pub block_local: bool,
    /// Name servers that the system had before stay outside the tunnel.
    pub bypass_dns: bool,
}

/// Name servers and search domains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dns {
    /// Servers in order of preference.
    pub servers: Vec<IpAddr>,
    /// Domains that names are searched in.
    pub search: Vec<String>,
    /// The domains whose names are resolved by these servers; empty: all names.
    pub only_for: Vec<String>,
}

/// A peer as `status` and the log show it. `D` is [`crate::Protocol::Detail`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo<D> {
    /// The name it proved (certificate common name), or the one that stands for it.
    pub name: String,
    /// Where it is.
    pub path: Path,
    /// Its inner addresses.
    pub addresses: Vec<IpAddr>,
    /// The data cipher.
    pub cipher: Cipher,
    /// Rekeys completed.
    pub rekeys: u64,
    /// When the last handshake ended.
    pub last_handshake: crate::Instant,
    /// When this peer came up.
    pub since: crate::Instant,
    /// When it was last heard.
    pub heard: crate::Instant,
    /// Networks behind it, besides its inner addresses.
    pub routes: Vec<IpNet>,
    /// The part of a peer that only its protocol has.
    pub detail: D,
}

/// Why a machine ended for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The driver or the host ordered the shutdown.
    Shutdown,
    /// The machine failed in a way that trying again cannot mend; the text has the failure, its reason and
    /// the way out.
    Failed(String),
}
