//! A file's content, with every value checked.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use adit_core::IpNet;
use adit_wireguard::{AllowedIp, PostQuantum, PresharedKey, PrivateKey, PublicKey};

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The sections `[Interface]`, taken together.
    pub interface: Interface,
    /// The sections `[Peer]`, in the order of the file.
    pub peers: Vec<Peer>,
}

impl Config {
    /// The post-quantum setting of a peer: its own, or else the interface's.
    pub fn post_quantum(&self, peer: &Peer) -> PostQuantum {
        peer.post_quantum.or(self.interface.post_quantum).unwrap_or_default()
    }
}

/// Our end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// `PrivateKey`. Without one, or with one of zeros, nothing is sent or taken.
    pub private_key: Option<PrivateKey>,
    /// `ListenPort`; `None` and 0: one that the system chooses.
    pub listen_port: Option<u16>,
    /// `FwMark`; 0 (`off`): none. `None`: wg-quick chooses one if it needs one.
    pub fwmark: Option<u32>,
    /// `Address`.
    pub addresses: Vec<IpNet>,
    /// `MTU` in bytes.
    pub mtu: Option<u16>,
    /// The addresses in `DNS`.
    pub dns: Vec<IpAddr>,
    /// The other words in `DNS`: search domains.
    pub search: Vec<String>,
    /// `Table`.
    pub table: Table,
    /// `PreUp`: commands before the interface is up, with `%i` for its name.
    pub pre_up: Vec<String>,
    /// `PostUp`.
    pub post_up: Vec<String>,
    /// `PreDown`.
    pub pre_down: Vec<String>,
    /// `PostDown`.
    pub post_down: Vec<String>,
    /// `SaveConfig`: the file is written anew from the running state when the interface goes down.
    pub save_config: bool,
    /// `client-connect`: the program, and its arguments, that is asked about a peer that connects.
    pub client_connect: Option<Vec<String>>,
    /// `client-disconnect`: the program, and its arguments, that runs when a peer has disconnected.
    pub client_disconnect: Option<Vec<String>>,
    /// `listen-tcp`: where peers may come by TCP. `[::]`: at all addresses, also of IPv4.
    pub listen_tcp: Option<SocketAddr>,
    /// `forward`: where the packets of peers are forwarded to; a prefix of length 0 is the internet.
    pub forward: Vec<IpNet>,
    /// `post-quantum`: the setting for peers whose section has none.
    pub post_quantum: Option<PostQuantum>,
    /// `full-tunnel`: how default routes into the tunnel are made. `None`: [`FullTunnel::Strict`].
    pub full_tunnel: Option<FullTunnel>,
    /// adit's own settings as they stand behind `#adit:`, for a file that is written anew.
    pub directives: Vec<String>,
}

/// How a default route into the tunnel (`Table = auto`) is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FullTunnel {
    /// No route of the system leads traffic beside the tunnel, but for local networks of private addresses and other
    /// tunnels.
    #[default]
    Strict,
    /// By wg-quick's rules: all routes of the main table but its default routes go before the tunnel.
    WgQuick,
}

/// Where the routes of allowed IPs go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Table {
    /// The main table; a default route into a table of its own, with rules.
    #[default]
    Auto,
    /// No routes.
    Off,
    /// The table with this number.
    Number(u32),
    /// The table with this name (`/etc/iproute2/rt_tables`).
    Name(String),
}

/// A peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The line of its section, from 1.
    pub line: u32,
    /// `PublicKey`.
    pub public_key: PublicKey,
    /// `PresharedKey`.
    pub preshared_key: Option<PresharedKey>,
    /// `AllowedIPs`, in the order of the file, without bits beyond the prefixes (also written with `+`; removed: with `-`).
    pub allowed_ips: Vec<AllowedIp>,
    /// `Endpoint`.
    pub endpoint: Option<Endpoint>,
    /// `PersistentKeepalive` in seconds; 0 (`off`): none.
    pub persistent_keepalive: Option<u16>,
    /// `name`: its owner's name for it.
    pub name: Option<String>,
    /// `expires`: from when on it is refused, since 1970-01-01T00:00:00Z.
    pub expires: Option<Duration>,
    /// `tcp`: where it is reached over TCP, in place of `Endpoint`.
    pub tcp: Option<HttpUrl>,
    /// `tcp-ca`: the file with the authorities of which the server of an `https://` URL has its certificate. `None`: those of
    /// the system.
    pub tcp_ca: Option<PathBuf>,
    /// `session-limit`: how long after its first handshake it is refused, until it is allowed anew.
    pub session_limit: Option<Duration>,
    /// `post-quantum` of this peer.
    pub post_quantum: Option<PostQuantum>,
    /// adit's own settings as they stand behind `#adit:`, for a file that is written anew.
    pub directives: Vec<String>,
}

impl Peer {
    /// A peer with that key whose section begins on that line, and of which nothing else is said.
    pub fn new(line: u32, public_key: PublicKey) -> Self {
        Peer {
            line,
            public_key,
            preshared_key: None,
            allowed_ips: Vec::new(),
            endpoint: None,
            persistent_keepalive: None,
            name: None,
            expires: None,
            tcp: None,
            tcp_ca: None,
            session_limit: None,
            post_quantum: None,
            directives: Vec::new(),
        }
    }
}

/// Where a peer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// An address, with its scope if it has one (`fe80::1%eth0`), or a name that is to be resolved.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Where an HTTP server is, which switches to WireGuard's datagrams (ProxyGuard).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl {
    /// `https://`: TLS is around all that passes.
    pub tls: bool,
    /// An address without brackets, or a name that is to be resolved.
    pub host: String,
    /// The port. Where none is written: 80, with TLS 443.
    pub port: u16,
    /// The value of the request's header `Host`: host and port as they were written.
    pub authority: String,
    /// The path with its query, from its `/` on.
    pub target: String,
}
