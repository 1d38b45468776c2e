//! The configuration, as the state machines take it.

mod client;
mod scripts;
mod server;
mod static_tunnel;
mod user_auth;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use adit_core::{
    Cipher, Digest, Dns, Instant, IpNet, Redirect, ReplayWindow, Route, RouteTable, Transport, UnixTime,
};
use adit_pki::{NameFields, Revocations};
use rustls::pki_types::CertificateDer;

use crate::codec::Compression;
use crate::tls::TlsConfig;
use crate::usage::UseLimits;
use crate::wrap::WrapConfig;

pub use adit_core::Rate;

pub(crate) use self::client::MAX_PUSHED_MTU;
pub use self::client::{ClientParams, PullAction, PullFilter, RemoteParams};
pub use self::scripts::ScriptParams;
pub use self::server::{
    AdmissionParams, ExitNotify, PerClientParams, PointToPointParams, ServerParams, TlsCryptV2,
};
pub use self::static_tunnel::StaticParams;
pub use self::user_auth::{AuthRetry, StaticChallenge, UserAuth};

/// When keys are renewed, and how long that may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rekey {
    /// Longest life of a key (`reneg-sec`, default 3600 s); `None` (0) leaves it to the peer.
    pub after: Option<Duration>,
    /// `reneg-bytes` and `reneg-pkts`.
    pub limits: UseLimits,
    /// How long the old key still opens (`tran-window`, default 3600 s).
    pub transition: Duration,
    /// How long a key exchange may take (`hand-window`, default 60 s).
    pub handshake: Duration,
    /// First wait before a control datagram is sent again (`tls-timeout`, default 2 s).
    pub retransmit: Duration,
}

impl Default for Rekey {
    fn default() -> Self {
        Rekey {
            after: Some(Duration::from_secs(3600)),
            limits: UseLimits::default(),
            transition: Duration::from_secs(3600),
            handshake: Duration::from_secs(60),
            retransmit: Duration::from_secs(2),
        }
    }
}

/// The parameters of the control channel for both roles.
#[derive(Clone)]
pub struct ControlParams {
    /// `tls-auth`, `tls-crypt` or neither.
    pub wrap: WrapConfig,
    /// Our side of TLS.
    pub tls: TlsConfig,
    /// When keys are renewed, and how long that may take.
    pub rekey: Rekey,
    /// `max-packet-size`: the largest control datagram with its IP and UDP headers. Default 1250.
    pub max_packet_size: usize,
    /// The wall clock at [`adit_core::Instant::ORIGIN`]; stamps wrapped control packets.
    pub wall_at_origin: UnixTime,
    /// The lists that `tls` judges by, to be replaced by [`crate::request::Reply::RevocationList`].
    pub revocations: Option<Revocations>,
    /// `x509-username-field`: the fields that name the peer.
    pub name_fields: NameFields,
    /// The trusted authorities (`ca`), for scripts that are given the issuer of the peer's certificate.
    pub authorities: Vec<CertificateDer<'static>>,
    /// A client says nothing of itself before scripts have judged the server's certificates (`tls-verify`).
    pub holds_hello: bool,
    /// A client's private key is held elsewhere ([`crate::credentials::client_tls_with_external_key`]): the adapter makes the
    /// steps of the TLS handshake ([`crate::request::Request::TlsStep`]).
    pub signs_outside: bool,
}

impl ControlParams {
    /// OpenVPN's defaults around that wrapping and TLS side.
    pub fn new(wrap: WrapConfig, tls: TlsConfig, wall_at_origin: UnixTime) -> Self {
        ControlParams {
            wrap,
            tls,
            rekey: Rekey::default(),
            max_packet_size: 1250,
            wall_at_origin,
            revocations: None,
            name_fields: NameFields::default(),
            authorities: Vec::new(),
            holds_hello: false,
            signs_outside: false,
        }
    }

    /// The wall clock at `now`.
    pub(crate) fn wall(&self, now: Instant) -> UnixTime {
        UnixTime(self.wall_at_origin.0.saturating_add((now - Instant::ORIGIN).as_secs()))
    }
}

/// The parameters of the data channel for both roles.
#[derive(Clone, Debug)]
pub struct DataParams {
    /// `data-ciphers`, most wanted first.
    pub ciphers: Vec<Cipher>,
    /// `data-ciphers-fallback`: for peers that cannot negotiate.
    pub fallback: Option<Cipher>,
    /// `cipher`: the cipher of the options string without a fallback.
    pub cipher: Option<Cipher>,
    /// `auth`: authenticates with ciphers that are no AEAD. Default SHA1.
    pub digest: Digest,
    /// The compression framing our configuration names; a server's push may change a client's.
    pub compression: Compression,
    /// Our configuration names an algorithm (`comp-lzo`, `compress lzo|lz4|lz4-v2`): packets that the peer compressed
    /// are decompressed. We compress nothing.
    pub decompress: bool,
    /// The client's reaction to compression that its server pushes.
    pub pushed_compression: PushedCompression,
    /// `fragment`, over UDP.
    pub fragment: Option<Fragment>,
    /// `compress migrate`, on a server whose own framing is [`Compression::None`]: clients whose options string
    /// names compression are pushed a framing that compresses nothing.
    pub migrate: bool,
    /// `compat-mode`: offer nothing that came after OpenVPN 2.5, and take no such offer; data keys come from
    /// OpenVPN's own PRF then.
    pub before_2_6: bool,
    /// `compat-mode`: neither offer nor take the epoch data format, which came with OpenVPN 2.7.
    pub before_2_7: bool,
    /// `tun-mtu`. Default 1500.
    pub tun_mtu: u16,
    /// The second value of `tun-mtu`, which the options string has in its place.
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
            digest: Digest::Sha1,
            compression: Compression::None,
            decompress: false,
            pushed_compression: PushedCompression::default(),
            fragment: None,
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

impl DataParams {
    /// `fragment` where that carries the datagrams.
    pub(crate) fn fragment_over(&self, transport: Transport) -> Option<Fragment> {
        self.fragment.filter(|_| transport == Transport::Udp)
    }
}

/// The reaction of a client to a pushed algorithm (`comp-lzo yes`, `compress lz4` and the like). Framings that compress
/// nothing are always taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PushedCompression {
    /// Its framing is taken; packets that the server then compresses are dropped.
    #[default]
    FramingAlone,
    /// Packets that the server compresses are decompressed: our configuration names an algorithm too, or lets one be
    /// pushed (`compress`, `allow-compression asym`).
    Decompressed,
    /// The connection ends (`allow-compression no`).
    Refused,
}

/// `fragment`: the largest datagram of the data channel, in bytes. Larger payloads are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment {
    /// The size without its outer IP and UDP headers.
    Payload(u16),
    /// The size with them (`mtu`).
    Mtu(u16),
}

/// The forms of `mssfix`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MssFix {
    /// Not given: the value of `fragment` if there is one; else `1492 mtu` with a tun-mtu of 1500, otherwise the tun-mtu,
    /// fixed.
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

/// The settings of the tunnel in a client's own file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalSettings {
    /// `route` and `route-ipv6`.
    pub routes: Vec<Route>,
    /// `route-table`: where all routes into the tunnel go, those that are pushed too.
    pub table: RouteTable,
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
    /// `ifconfig-nowarn`: our addresses are not in the options string for the other end of a point-to-point
    /// tunnel.
    pub untold: bool,
    /// Programs run when the tunnel comes up and goes down.
    pub scripts: Option<Arc<ScriptParams>>,
}
