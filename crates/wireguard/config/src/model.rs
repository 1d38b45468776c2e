//! What a file says, with every value checked.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use adit_core::IpNet;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The sections `[Interface]`, taken together.
    pub interface: Interface,
    /// The sections `[Peer]`, in the order of the file.
    pub peers: Vec<Peer>,
}

impl Config {
    /// What holds for a peer: its own setting, or else the interface's.
    pub fn post_quantum(&self, peer: &Peer) -> PostQuantum {
        peer.post_quantum.or(self.interface.post_quantum).unwrap_or_default()
    }
}

/// Our end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// `PrivateKey`. Without one nothing is sent or taken.
    pub private_key: Option<Key>,
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
    /// `client-disconnect`: the program, and its arguments, that is told of a peer that has disconnected.
    pub client_disconnect: Option<Vec<String>>,
    /// `listen-tcp`: where peers may come by TCP. `[::]`: at all addresses, also of IPv4.
    pub listen_tcp: Option<SocketAddr>,
    /// `forward`: where the packets of peers are forwarded to; a prefix of length 0 is the internet.
    pub forward: Vec<IpNet>,
    /// `post-quantum`: what holds for peers whose section says nothing else.
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

/// Whether post-quantum preshared keys are agreed on with a peer (docs/use/WIREGUARD.md, "The post-quantum key exchange").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PostQuantum {
    /// No.
    #[default]
    Off,
    /// If the peer does, too.
    On,
    /// The same; and no packet is sent to it without such a key.
    Required,
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The line of its section, from 1.
    pub line: u32,
    /// `PublicKey`.
    pub public_key: [u8; 32],
    /// `PresharedKey`.
    pub preshared_key: Option<Key>,
    /// `AllowedIPs`, in the order of the file.
    pub allowed_ips: Vec<AllowedIp>,
    /// `Endpoint`.
    pub endpoint: Option<Endpoint>,
    /// `PersistentKeepalive` in seconds; 0 (`off`): none.
    pub persistent_keepalive: Option<u16>,
    /// `name`: what its owner calls it.
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

/// A prefix behind a peer, without bits beyond its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedIp {
    /// The peer has it (also written with `+`).
    Add(IpNet),
    /// The peer has it not (written with `-`).
    Remove(IpNet),
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
    /// What the request's header `Host` is: host and port as they were written.
    pub authority: String,
    /// The path with its query, from its `/` on.
    pub target: String,
}

/// A private or preshared key. Wiped when dropped, compared in constant time, never shown.
#[derive(Clone)]
pub struct Key(pub(super) Zeroizing<[u8; 32]>);

impl Key {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&*other.0).into()
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}
