//! What the configuration says, as the state machines take it.

mod user_auth;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use adit_core::{
    Cipher, CompressionFraming, Digest, Dns, Instant, IpNet, Ipv4Net, Ipv6Net, PoolEntry, Redirect,
    ReplayWindow, Route, SessionLimits, Transport, UnixTime,
};
use adit_pki::{NameFields, Revocations};

use crate::access::AccessParams;
use crate::pushed::MAX_PUSHED_MTU;
use crate::static_key::StaticKey;
use crate::tls::TlsConfig;
use crate::usage::UseLimits;
use crate::wrap::v2::ServerKey;
use crate::wrap::{KeyDirection, WrapConfig};

pub use adit_core::Rate;

pub use self::user_auth::{AuthRetry, StaticChallenge, UserAuth};

/// What both roles need for the control channel.
#[derive(Clone)]
pub struct ControlParams {
    /// `tls-auth`, `tls-crypt` or neither.
    pub wrap: WrapConfig,
    /// Our side of TLS.
    pub tls: TlsConfig,
    /// `hand-window`: a key exchange that takes longer has failed. Default 60 s.
    pub hand_window: Duration,
    /// `reneg-sec`: new keys after this time; `None` (0) leaves it to the peer. Default 3600 s.
    pub reneg: Option<Duration>,
    /// `reneg-bytes` and `reneg-pkts`.
    pub reneg_use: UseLimits,
    /// `tran-window`: how long old keys still open. Default 3600 s.
    pub tran_window: Duration,
    /// `max-packet-size`: the largest control datagram with its IP and UDP headers. Default 1250.
    pub max_packet_size: usize,
    /// `tls-timeout`: the first wait before a control packet is sent again. Default 2 s.
    pub retransmit: Duration,
    /// The wall clock at [`adit_core::Instant::ORIGIN`]; stamps wrapped control packets.
    pub wall_at_origin: UnixTime,
    /// The lists that `tls` judges by, to be replaced by [`crate::request::Reply::RevocationList`].
    pub revocations: Option<Revocations>,
    /// `x509-username-field`: what names the peer.
    pub name_fields: NameFields,
}

impl ControlParams {
    /// OpenVPN's defaults around that wrapping and TLS side.
    pub fn new(wrap: WrapConfig, tls: TlsConfig, wall_at_origin: UnixTime) -> Self {
        ControlParams {
            wrap,
            tls,
            hand_window: Duration::from_secs(60),
            reneg: Some(Duration::from_secs(3600)),
            reneg_use: UseLimits::default(),
            tran_window: Duration::from_secs(3600),
            max_packet_size: 1250,
            retransmit: Duration::from_secs(2),
            wall_at_origin,
            revocations: None,
            name_fields: NameFields::default(),
        }
    }

    /// The wall clock at `now`.
    pub(crate) fn wall(&self, now: Instant) -> UnixTime {
        UnixTime(self.wall_at_origin.0.saturating_add((now - Instant::ORIGIN).as_secs()))
    }
}

/// What both roles need for the data channel.
#[derive(Clone, Debug)]
pub struct DataParams {
    /// `data-ciphers`, most wanted first.
    pub ciphers: Vec<Cipher>,
    /// `data-ciphers-fallback`: for peers that cannot negotiate.
    pub fallback: Option<Cipher>,
    /// `cipher`: what the options string says without a fallback.
    pub cipher: Option<Cipher>,
    /// `auth`: authenticates with ciphers that are no AEAD. Default SHA1.
    pub digest: Digest,
    /// The compression framing our configuration names; a server's push may change a client's.
    pub compression: CompressionFraming,
    /// `compress migrate`, on a server whose own framing is [`CompressionFraming::None`]: clients whose options string
    /// names compression are pushed a framing that compresses nothing.
    pub migrate: bool,
    /// `compat-mode`: offer nothing that came after OpenVPN 2.5, and take no such offer; data keys come from
    /// OpenVPN's own PRF then.
    pub before_2_6: bool,
    /// `compat-mode`: neither offer nor take the epoch data format, which came with OpenVPN 2.7.
    pub before_2_7: bool,
    /// `tun-mtu`. Default 1500.
    pub tun_mtu: u16,
    /// The second value of `tun-mtu`: what the options string says in its place.
    pub told_mtu: Option<u16>,
    /// `mssfix`.
    pub mssfix: MssFix,
    /// `replay-window`.
    pub replay_window: ReplayWindow,
}

impl Default for DataParams {
    fn default() -> Self {
        DataParams {
            ciphers: vec![Cipher::Aes256Gcm, Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305],
            fallback: None,
            cipher: None,
            digest: Digest::default(),
            compression: CompressionFraming::None,
            migrate: false,
            before_2_6: false,
            before_2_7: false,
            tun_mtu: 1500,
            told_mtu: None,
            mssfix: MssFix::Default,
            replay_window: ReplayWindow::default(),
        }
    }
}

/// The forms of `mssfix`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MssFix {
    /// Not given: `1492 mtu` with a tun-mtu of 1500, otherwise the tun-mtu, fixed.
    #[default]
    Default,
    /// `mssfix 0`: leave MSS alone.
    Off,
    /// `mssfix N`: the largest datagram without its outer IP and UDP (TCP) headers.
    Payload(u16),
    /// `mssfix N mtu`: the largest outer IP packet.
    Mtu(u16),
    /// `mssfix N fixed`: the largest inner IPv4 packet.
    Fixed(u16),
}

/// `ping`, `ping-restart`, `ping-exit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keepalive {
    /// Send a ping after this long without sending anything.
    pub ping: Option<Duration>,
    /// Give the peer up after this long without hearing from it.
    pub timeout: Option<Duration>,
    /// End instead of starting over (`ping-exit`). A server of many clients does not.
    pub exit: bool,
}

/// One entry of a client's list of servers, as far as the protocol cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteParams {
    /// As the user wrote it, for messages: `vpn.example.org:1194 (udp)`.
    pub name: String,
    /// UDP or TCP.
    pub transport: Transport,
    /// `server-poll-timeout`: how long this server may take for its first answer. OpenVPN's default: 120 s.
    pub poll_timeout: Duration,
    /// `explicit-exit-notify`: say goodbye over UDP.
    pub exit_notify: bool,
}

impl RemoteParams {
    /// A server with OpenVPN's defaults.
    pub fn new(name: String, transport: Transport) -> Self {
        RemoteParams { name, transport, poll_timeout: Duration::from_secs(120), exit_notify: false }
    }
}

/// A client.
#[derive(Clone)]
pub struct ClientParams {
    /// The control channel.
    pub control: ControlParams,
    /// The data channel.
    pub data: DataParams,
    /// The servers, in the order to try them.
    pub remotes: Vec<RemoteParams>,
    /// From the file; a server's push replaces each part it names.
    pub keepalive: Keepalive,
    /// `inactive` and `session-timeout`, from the file; a server's push replaces each that it names.
    pub limits: SessionLimits,
    /// `connect-retry`: the first wait between attempts, and the longest. Defaults 1 s and 300 s.
    pub retry: (Duration, Duration),
    /// `connect-retry-max`: give up after so many rounds through all remotes.
    pub retry_max: Option<u32>,
    /// `resolv-retry`: how long a client that was never up tries on while none of its servers' names exists;
    /// `None` without end. Default: not at all.
    pub resolve_timeout: Option<Duration>,
    /// `float`: follow a server that answers, or sends data, from another address.
    pub float: bool,
    /// `route-nopull`: take no routes and no DNS from the server.
    pub route_nopull: bool,
    /// `pull-filter`: which pushed options to take. The first that fits the beginning of an option decides.
    pub pull_filters: Vec<(PullAction, String)>,
    /// From the file: addresses, routes, DNS, redirect-gateway. What is pushed is added.
    pub local: LocalSettings,
    /// Extra `IV_` and `UV_` lines for the server (from `setenv UV_...`).
    pub peer_info: Vec<(String, String)>,
    /// `auth-user-pass`.
    pub auth: Option<UserAuth>,
    /// `tls-exit`: a TLS handshake that fails is the end.
    pub tls_exit: bool,
    /// `tun-mtu-max`: the largest MTU to take by push. Default 1600.
    pub max_pushed_mtu: u16,
    /// `pull`: the server says what the tunnel is like. Without, both ends' files do (point-to-point).
    pub pull: bool,
}

impl ClientParams {
    /// OpenVPN's defaults around that control channel and those servers.
    pub fn new(control: ControlParams, remotes: Vec<RemoteParams>) -> Self {
        ClientParams {
            control,
            data: DataParams::default(),
            remotes,
            keepalive: Keepalive::default(),
            limits: SessionLimits::default(),
            retry: (Duration::from_secs(1), Duration::from_secs(300)),
            retry_max: None,
            resolve_timeout: Some(Duration::ZERO),
            float: false,
            route_nopull: false,
            pull_filters: Vec::new(),
            local: LocalSettings::default(),
            peer_info: Vec::new(),
            auth: None,
            tls_exit: false,
            max_pushed_mtu: MAX_PUSHED_MTU,
            pull: true,
        }
    }
}

/// What a `pull-filter` does with an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullAction {
    /// Takes it.
    Accept,
    /// Goes on without it.
    Ignore,
    /// Gives the connection up.
    Reject,
}

/// What a client's own file says about the tunnel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalSettings {
    /// `route` and `route-ipv6`.
    pub routes: Vec<Route>,
    /// `redirect-gateway`.
    pub redirect: Option<Redirect>,
    /// `block-ipv6`.
    pub block_ipv6: bool,
    /// `dhcp-option DNS`, `dhcp-option DOMAIN`.
    pub dns: Dns,
    /// `ifconfig` and `ifconfig-ipv6`: our addresses, if the server gives none.
    pub addresses: Vec<IpNet>,
    /// The other end of a point-to-point `ifconfig`.
    pub peer_address: Option<IpAddr>,
    /// `route-metric`, for pushed routes that name none.
    pub route_metric: Option<u32>,
    /// `ifconfig-nowarn`: the other end of a point-to-point tunnel is told nothing of our addresses.
    pub untold: bool,
}

/// A server.
#[derive(Clone)]
pub struct ServerParams {
    /// The control channel.
    pub control: ControlParams,
    /// The data channel.
    pub data: DataParams,
    /// Our IPv4 address in the tunnel, with the network's prefix length (`server`).
    pub address4: Option<Ipv4Net>,
    /// First and last IPv4 address for clients (`ifconfig-pool`); `None` gives out none.
    pub pool4: Option<(Ipv4Addr, Ipv4Addr)>,
    /// Our IPv6 address in the tunnel, with the network's prefix length (`server-ipv6`).
    pub address6: Option<Ipv6Net>,
    /// First IPv6 address for clients, with the prefix length they are told (`ifconfig-ipv6-pool`).
    pub pool6: Option<Ipv6Net>,
    /// All that is pushed to every client, each one option line; what differs from client to client
    /// (`ifconfig`, `peer-id`, `cipher`, ...) is added.
    pub push: Vec<String>,
    /// Routes of the server's own system into the tunnel.
    pub routes: Vec<Route>,
    /// The server's own side of `keepalive`.
    pub keepalive: Keepalive,
    /// `inactive` and `session-timeout`: clients whose session is over are dropped.
    pub limits: SessionLimits,
    /// `client-to-client`.
    pub client_to_client: bool,
    /// `duplicate-cn`: one name may be connected many times.
    pub duplicate_cn: bool,
    /// `max-clients`. Default 1024.
    pub max_clients: usize,
    /// `explicit-exit-notify`: tell UDP clients when we stop; 2 sends them to their next remote.
    pub exit_notify: ExitNotify,
    /// What differs from client to client.
    pub per_client: PerClientParams,
    /// Who is let in, besides what TLS says, and which scripts run for it.
    pub access: AccessParams,
    /// How initial packets of unauthenticated peers are answered.
    pub admission: AdmissionParams,
    /// Point-to-point: one peer, to which nothing is pushed. Pool, push and clients' settings then mean nothing.
    pub point: Option<PointParams>,
}

impl ServerParams {
    /// OpenVPN's defaults around that control channel: no addresses and nothing pushed.
    pub fn new(control: ControlParams) -> Self {
        ServerParams {
            control,
            data: DataParams::default(),
            address4: None,
            pool4: None,
            address6: None,
            pool6: None,
            push: Vec::new(),
            routes: Vec::new(),
            keepalive: Keepalive::default(),
            limits: SessionLimits::default(),
            client_to_client: false,
            duplicate_cn: false,
            max_clients: 1024,
            exit_notify: ExitNotify::default(),
            per_client: PerClientParams::default(),
            access: AccessParams::default(),
            admission: AdmissionParams::default(),
            point: None,
        }
    }
}

/// The listening end of a point-to-point tunnel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PointParams {
    /// Our own end of the tunnel.
    pub local: LocalSettings,
    /// The only outer addresses that the peer may have (`remote` without `float`), until
    /// [`crate::request::Reply::PeerAddresses`] names others; `None`: any.
    pub only_from: Option<Vec<IpAddr>>,
    /// `explicit-exit-notify`: say goodbye.
    pub exit_notify: bool,
    /// `single-session`: while the peer is connected, no other takes its place.
    pub single: bool,
}

/// One end of a tunnel with a static key.
#[derive(Clone, Debug)]
pub struct StaticParams {
    /// `secret`: the key that both ends share.
    pub key: StaticKey,
    /// Which half of it is for which direction.
    pub direction: KeyDirection,
    /// `cipher`. It is no AEAD.
    pub cipher: Cipher,
    /// `auth`.
    pub digest: Digest,
    /// The compression framing that both ends' files name.
    pub compression: CompressionFraming,
    /// `replay-window`.
    pub replay_window: ReplayWindow,
    /// `tun-mtu`.
    pub tun_mtu: u16,
    /// The second value of `tun-mtu`: what the options string says in its place.
    pub told_mtu: Option<u16>,
    /// `mssfix`.
    pub mssfix: MssFix,
    /// `ping`, `ping-restart`, `ping-exit`.
    pub keepalive: Keepalive,
    /// `inactive` and `session-timeout`.
    pub limits: SessionLimits,
    /// Addresses, routes and the rest of our own end.
    pub local: LocalSettings,
    /// Where the peer is, in the order to try. Empty: we wait for it.
    pub remotes: Vec<RemoteParams>,
    /// `float`: follow a peer that moves. Who waits follows anyway, within [`StaticParams::only_from`].
    pub float: bool,
    /// Who waits: the only outer addresses that the peer may have (`remote` without `float`), until
    /// [`crate::request::Reply::PeerAddresses`] names others; `None`: any.
    pub only_from: Option<Vec<IpAddr>>,
    /// Who waits: `explicit-exit-notify`.
    pub exit_notify: bool,
    /// `connect-retry`: the first wait between attempts, and the longest.
    pub retry: (Duration, Duration),
    /// `connect-retry-max`: give up after so many rounds through all remotes.
    pub retry_max: Option<u32>,
    /// `resolv-retry`: how long to try on while none of the remotes' names exists; `None` without end.
    pub resolve_timeout: Option<Duration>,
    /// The wall clock at [`Instant::ORIGIN`].
    pub wall_at_origin: UnixTime,
}

impl StaticParams {
    /// An end that waits, with OpenVPN's defaults around that key and cipher.
    pub fn new(key: StaticKey, direction: KeyDirection, cipher: Cipher, wall_at_origin: UnixTime) -> Self {
        StaticParams {
            key,
            direction,
            cipher,
            digest: Digest::default(),
            compression: CompressionFraming::None,
            replay_window: ReplayWindow::default(),
            tun_mtu: 1500,
            told_mtu: None,
            mssfix: MssFix::Default,
            keepalive: Keepalive::default(),
            limits: SessionLimits::default(),
            local: LocalSettings::default(),
            remotes: Vec::new(),
            float: false,
            only_from: None,
            exit_notify: false,
            retry: (Duration::from_secs(1), Duration::from_secs(300)),
            retry_max: None,
            resolve_timeout: Some(Duration::ZERO),
            wall_at_origin,
        }
    }

    /// Whether the other end comes to us.
    pub(crate) fn waits(&self) -> bool {
        self.remotes.is_empty()
    }
}

/// What differs from client to client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerClientParams {
    /// `client-config-dir`: ask with [`crate::request::Request::PeerSettings`] before a client is let in.
    pub ask: bool,
    /// `ifconfig-pool-persist`: who had which address of the pool before.
    pub remembered: Vec<PoolEntry>,
}

/// How a server meets clients that it does not know yet.
#[derive(Clone, Debug)]
pub struct AdmissionParams {
    /// `tls-crypt-v2`. Clients with a key of their own then come in beside those whose wrapping
    /// [`ControlParams::wrap`] names; if it names none, they alone.
    pub v2: Option<TlsCryptV2>,
    /// `connect-freq-initial`: answers to first packets, as far as they are larger than the packet, for each
    /// IPv4 address or IPv6 /64. Default 100 in 10 s.
    pub answers: Rate,
    /// `connect-freq`: new clients whose address is proven, all together. Default: no limit.
    pub clients: Option<Rate>,
}

impl Default for AdmissionParams {
    fn default() -> Self {
        let answers = Rate { count: 100, period: Duration::from_secs(10) };
        AdmissionParams { v2: None, answers, clients: None }
    }
}

/// `tls-crypt-v2` on a server.
#[derive(Clone, Debug)]
pub struct TlsCryptV2 {
    /// The key that wraps clients' keys.
    pub key: Arc<ServerKey>,
    /// Turn away clients that cannot bring their key twice (OpenVPN before 2.6), which cost memory before their
    /// address is proven (`force-cookie`).
    pub force_cookie: bool,
    /// Turn away keys that are older, or have no date (`tls-crypt-v2-max-age`).
    pub max_age: Option<Duration>,
}

/// What a stopping server tells its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExitNotify {
    /// Nothing.
    #[default]
    Off,
    /// `RESTART`: come back to me.
    Restart,
    /// `RESTART,[N]`: go to your next server.
    NextServer,
}
