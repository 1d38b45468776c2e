use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use adit_core::{
    Cipher, CompressionFraming, Digest, Dns, Ipv4Net, Ipv6Net, RedirectGateway, ReplayWindow, Route,
    RouteVia, SessionLimits, Transport,
};

pub use adit_core::{AuthRetry, NameField, StaticChallenge};

pub use super::peer::{NameCheck, NameKind, PeerCheck};
use crate::{Pem, Secret, StaticKey, TlsCryptV2Key, TokenSecret};

/// An OpenVPN configuration with every value checked and every default filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Client or server, with what belongs to one side only.
    pub role: Role,
    /// The TUN device.
    pub device: Device,
    /// Certificates and TLS. Nothing of it is used beside a [`Config::secret`].
    pub tls: Tls,
    /// The key that takes the place of TLS (`secret`). The role is then a client that does not pull, or a point.
    pub secret: Option<SharedSecret>,
    /// What wraps control datagrams.
    pub wrap: Wrap,
    /// The data channel.
    pub data: DataChannel,
    /// Pings and what their absence means.
    pub liveness: Liveness,
    /// How long a session may last.
    pub limits: SessionLimits,
    /// When keys are renewed.
    pub rekey: Rekey,
    /// Options of the outer sockets.
    pub socket: SocketOptions,
    /// Routes of our own file (`route`, `route-ipv6`), without what a server pushes.
    pub routes: Vec<Route>,
    /// Such routes to hosts whose addresses are still to be looked up.
    pub named_routes: Vec<NamedRoute>,
    /// The process: user, log, status.
    pub process: Process,
}

/// A static key that both ends of a tunnel share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedSecret {
    /// The key.
    pub key: StaticKey,
    /// Which half is for which direction; `None`: the first for both.
    pub direction: Option<KeyDirection>,
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
    /// We wait for the one other end of a point-to-point tunnel (`tls-server` without `server`, or `secret` without
    /// `remote`). Its other end is a client that does not pull.
    Point(Box<PointConfig>),
}

/// What belongs to the listening end of a point-to-point tunnel only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointConfig {
    /// Where to listen; at least one.
    pub listen: Vec<Listen>,
    /// Where the other end is, as names or addresses (`remote`); empty if it may be anywhere.
    pub remotes: Vec<String>,
    /// Our IPv4 address (`ifconfig`).
    pub ipv4: Option<StaticIpv4>,
    /// Our IPv6 address and the peer's (`ifconfig-ipv6`).
    pub ipv6: Option<(Ipv6Net, Ipv6Addr)>,
    /// Say goodbye on exit (`explicit-exit-notify`); 0 not at all.
    pub exit_notify: u8,
    /// The other end has a key of its own (`tls-crypt-v2`).
    pub tls_crypt_v2: Option<TlsCryptV2>,
    /// While the other end is here, nobody takes its place (`single-session`).
    pub single: bool,
}

/// What belongs to a client only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// Whom to try, in this order; at least one.
    pub remotes: Vec<Remote>,
    /// Start with a random remote (`remote-random`).
    pub remote_random: bool,
    /// Put random letters before the names of remotes (`remote-random-hostname`).
    pub remote_random_hostname: bool,
    /// How long to try to resolve a name: `None` without end (`resolv-retry`).
    pub resolve_retry: Option<Duration>,
    /// Wait between two rounds over the remotes (`connect-retry`, first value; default 1 s).
    pub connect_retry: Duration,
    /// The wait doubles up to this (`connect-retry`, second value; default 300 s).
    pub connect_retry_longest: Duration,
    /// Give up after so many rounds (`connect-retry-max`); `None` never.
    pub connect_retry_max: Option<u32>,
    /// Ask the server for settings (`client`, `pull`). Without, the tunnel is point-to-point.
    pub pull: bool,
    /// Take no routes, gateways and DNS from the server (`route-nopull`).
    pub route_nopull: bool,
    /// Which pushed options to take, in order; the first match decides (`pull-filter`).
    pub pull_filters: Vec<PullFilter>,
    /// Metric of pushed routes that name none (`route-metric`).
    pub route_metric: Option<u32>,
    /// Send all traffic into the tunnel, by our own file.
    pub redirect_gateway: Option<RedirectGateway>,
    /// Name servers and domains of our own file (`dhcp-option`).
    pub dns: Dns,
    /// Our IPv4 address if the server does not give one (`ifconfig`).
    pub ipv4: Option<StaticIpv4>,
    /// Our IPv6 address and the peer's (`ifconfig-ipv6`).
    pub ipv6: Option<(Ipv6Net, Ipv6Addr)>,
    /// Username and password (`auth-user-pass`).
    pub auth: Option<UserAuth>,
    /// What the server is told besides what it needs: `UV_…` of `setenv` (with `push-peer-info`), `IV_GUI_VER`.
    pub peer_info: Vec<(String, String)>,
    /// End when a TLS handshake fails (`tls-exit`).
    pub tls_exit: bool,
    /// The largest MTU to take by push (`tun-mtu-max`, default 1600).
    pub max_pushed_mtu: u16,
}

/// How a client authenticates itself by username and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAuth {
    /// Where they come from.
    pub source: UserPass,
    /// What to do when the server refuses them (`auth-retry`).
    pub retry: AuthRetry,
    /// Forget them once they were used (`auth-nocache`).
    pub nocache: bool,
    /// A question whose answer goes with the password (`static-challenge`).
    pub challenge: Option<StaticChallenge>,
}

/// Where username and password come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserPass {
    /// They are asked for on the terminal.
    Prompt,
    /// From a file: the username on its first line, the password on its second; without a second line the
    /// password is asked for.
    File(PathBuf),
    /// The same within the configuration.
    Inline(Secret),
}

/// One server to try, with all that holds for it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// UDP or TCP.
    pub transport: Transport,
    /// Restricts the addresses that `host` may resolve to.
    pub family: Family,
    /// The local end, unless the system chooses one (`nobind`).
    pub bind: Option<Bind>,
    /// How long one attempt may take until the server answers (`connect-timeout`; default 120 s).
    pub connect_timeout: Duration,
    /// How many times to say goodbye on exit over UDP (`explicit-exit-notify`); 0 not at all.
    pub exit_notify: u8,
}

/// A local end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bind {
    /// Address; `None` for any.
    pub address: Option<IpAddr>,
    /// Port; 0 for any.
    pub port: u16,
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

/// A rule of `pull-filter`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullFilter {
    /// What to do with an option that matches.
    pub action: PullAction,
    /// The option matches if it starts with this text.
    pub prefix: String,
}

/// What a `pull-filter` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PullAction {
    /// Take the option.
    Accept,
    /// Go on without it.
    Ignore,
    /// Restart the connection.
    Reject,
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

/// What belongs to a server only. Its topology is always `subnet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Where to listen; at least one.
    pub listen: Vec<Listen>,
    /// Our IPv4 address and the addresses for clients.
    pub ipv4: Option<ServerIpv4>,
    /// Our IPv6 address and the addresses for clients.
    pub ipv6: Option<ServerIpv6>,
    /// The options to push, in order, as text: those of the file and those that `server`, `server-ipv6`,
    /// `keepalive` and `tcp-nodelay` stand for. Without `ifconfig`, `peer-id` and `cipher`, which differ from
    /// client to client.
    pub push: Vec<String>,
    /// Carry packets from client to client (`client-to-client`).
    pub client_to_client: bool,
    /// Let several clients use the same certificate name (`duplicate-cn`).
    pub duplicate_cn: bool,
    /// How many clients at once (default 1024).
    pub max_clients: u32,
    /// What strangers get.
    pub admission: Admission,
    /// Tell clients on shutdown to reconnect (1) or to take their next remote (2); 0 tell nothing
    /// (`explicit-exit-notify`).
    pub exit_notify: u8,
    /// What differs from client to client.
    pub per_client: PerClient,
    /// Who is let in, and which scripts run.
    pub access: Access,
}

/// Who is let in by a server besides what certificates say, and which scripts run for it. Each command is a
/// program and its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether clients must show certificates (`verify-client-cert`).
    pub certificates: ClientCertificates,
    /// Who judges usernames and passwords (`auth-user-pass-verify`).
    pub verify: Option<PasswordScript>,
    /// Clients without them are judged too (`auth-user-pass-optional`).
    pub optional: bool,
    /// A client's name is its username (`username-as-common-name`).
    pub username_as_name: bool,
    /// Clients get tokens in place of their passwords (`auth-gen-token`).
    pub tokens: Option<TokenTimes>,
    /// The key of the tokens (`auth-gen-token-secret`); without, each start makes a new one.
    pub token_secret: Option<TokenSecret>,
    /// Judges each certificate (`tls-verify`).
    pub tls_verify: Option<Vec<String>>,
    /// It gets the certificate in a file (`tls-export-cert`).
    pub export_certificates: bool,
    /// Judges what clients' own tls-crypt-v2 keys say of themselves (`tls-crypt-v2-verify`).
    pub key_verify: Option<Vec<String>>,
    /// Judges what clients answer to a question of [`Access::verify`] (`client-crresponse`).
    pub client_crresponse: Option<Vec<String>>,
    /// Judges each client that has its addresses (`client-connect`).
    pub client_connect: Option<Vec<String>>,
    /// Is told of each client that goes (`client-disconnect`).
    pub client_disconnect: Option<Vec<String>>,
    /// Is told of each address that clients get and give up (`learn-address`).
    pub learn_address: Option<Vec<String>>,
    /// Environment of all scripts (`setenv`).
    pub env: Vec<(String, String)>,
}

/// `verify-client-cert`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientCertificates {
    /// Every client must show one.
    #[default]
    Require,
    /// One that is shown must be good.
    Optional,
    /// They are not asked for.
    None,
}

/// `auth-user-pass-verify`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordScript {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Username and password come in a file (`via-file`), not in the environment (`via-env`).
    pub by_file: bool,
}

/// `auth-gen-token`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenTimes {
    /// How long tokens are good after the first authentication; `None` without end.
    pub lifetime: Option<Duration>,
    /// Half of how long one token is good; `None` for as long as a key lives.
    pub renewal: Option<Duration>,
    /// The script judges tokens too (`external-auth`).
    pub external: bool,
}

/// What a server has for single clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerClient {
    /// A directory with a file for each client (`client-config-dir`), which [`crate::openvpn::parse_client_file`]
    /// reads.
    pub directory: Option<PathBuf>,
    /// Clients without a file of their own are not let in (`ccd-exclusive`).
    pub exclusive: bool,
    /// Where it is written who has which address of the pool (`ifconfig-pool-persist`).
    pub pool_file: Option<PoolFile>,
}

/// `ifconfig-pool-persist`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolFile {
    /// Which file.
    pub path: PathBuf,
    /// How often it is written; `None` never.
    pub every: Option<Duration>,
}

/// How a server meets clients that it does not know yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// Clients with a key of their own (`tls-crypt-v2`), beside those whose wrapping [`Config::wrap`] names.
    pub tls_crypt_v2: Option<TlsCryptV2>,
    /// New clients at most (`connect-freq`); `None` without limit.
    pub connect_freq: Option<Frequency>,
    /// Answers at most to first packets from one address (`connect-freq-initial`); `None` for the default, 100 in
    /// 10 s.
    pub connect_freq_initial: Option<Frequency>,
}

/// `tls-crypt-v2` of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsCryptV2 {
    /// The key that wraps the clients' keys.
    pub key: TlsCryptV2Key,
    /// Turn away clients before OpenVPN 2.6 (`force-cookie`).
    pub force_cookie: bool,
    /// Turn away keys that are older (`tls-crypt-v2-max-age`).
    pub max_age: Option<Duration>,
}

/// So many in such a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frequency {
    /// How many, from 1.
    pub count: u32,
    /// In which time, from 1 s.
    pub period: Duration,
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

/// A server's inner IPv4 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerIpv4 {
    /// Our address with the network's prefix length.
    pub address: Ipv4Net,
    /// First and last address for clients, within the network; `None` gives out none.
    pub pool: Option<(Ipv4Addr, Ipv4Addr)>,
}

/// A server's inner IPv6 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerIpv6 {
    /// Our address with the network's prefix length.
    pub address: Ipv6Net,
    /// First address for clients, with the prefix length they are told; the pool ends with the network.
    pub pool: Option<Ipv6Net>,
}

/// The TUN device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name; `None` lets the system number it (`dev tun`).
    pub name: Option<String>,
    /// MTU in bytes (default 1500); a server may push another.
    pub mtu: u16,
    /// Length of its transmit queue in packets, if given.
    pub txqueuelen: Option<u32>,
}

/// Certificates and TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The authorities that the peer's certificate must come from, at least one certificate. `None`:
    /// fingerprints alone decide.
    pub ca: Option<Pem>,
    /// Who we are; a client may be known by its username alone.
    pub identity: Option<Identity>,
    /// The same, and perhaps authorities, in one PKCS#12 file, as base64 (`pkcs12`). Secret.
    pub pkcs12: Option<Secret>,
    /// Where the password is, if the private key or the PKCS#12 file has one (`askpass`).
    pub key_password: KeyPassword,
    /// Oldest TLS version to accept.
    pub version_min: TlsVersion,
    /// Newest, if limited.
    pub version_max: Option<TlsVersion>,
    /// TLS 1.2 suites to allow (`tls-cipher`); empty for all that adit has.
    pub ciphers: Vec<TlsName>,
    /// TLS 1.3 suites to allow (`tls-ciphersuites`); empty for all.
    pub suites: Vec<TlsName>,
    /// Key exchange groups to allow, most wanted first (`tls-groups`, `ecdh-curve`); empty for all.
    pub groups: Vec<TlsName>,
    /// Which certificates and suites are good enough (`tls-cert-profile`).
    pub cert_profile: CertProfile,
    /// What else the peer's certificate must show.
    pub peer: PeerCheck,
    /// Which certificates are revoked (`crl-verify`).
    pub crl: Option<Crl>,
}

impl Default for Tls {
    /// What holds where a file says nothing; without any certificate.
    fn default() -> Self {
        Tls {
            ca: None,
            identity: None,
            pkcs12: None,
            key_password: KeyPassword::default(),
            version_min: TlsVersion::V1_2,
            version_max: None,
            ciphers: Vec::new(),
            suites: Vec::new(),
            groups: Vec::new(),
            cert_profile: CertProfile::default(),
            peer: PeerCheck::default(),
            crl: None,
        }
    }
}

/// Our certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Our certificate, then those that link it to an authority (`cert`, `extra-certs`).
    pub cert: Pem,
    /// Our private key, perhaps encrypted. Secret.
    pub key: Pem,
}

/// `askpass`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeyPassword {
    /// It is asked for on the terminal when it is needed.
    #[default]
    Prompt,
    /// The first line of a file.
    File(PathBuf),
}

/// `crl-verify`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Crl {
    /// Lists in the file itself, which do not change.
    Inline(Pem),
    /// A file of lists, to be read anew when it changes.
    File(PathBuf),
    /// A directory in which a file named after a serial number in decimal revokes that certificate.
    Directory(PathBuf),
}

/// A TLS suite or group by its IANA number and OpenVPN's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TlsName {
    /// The number in the IANA registry "TLS Cipher Suites" or "TLS Supported Groups".
    pub id: u16,
    /// The name.
    pub name: &'static str,
}

/// A TLS version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsVersion {
    /// TLS 1.2.
    V1_2,
    /// TLS 1.3.
    V1_3,
}

/// `tls-cert-profile`: which certificates and suites are good enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CertProfile {
    /// RSA from 2048 bits, ECDSA and Ed25519, with SHA-256 or better (`preferred`; adit does not go below it).
    #[default]
    Preferred,
    /// ECDSA on P-256 and P-384 with AES-GCM alone (`suiteb`).
    SuiteB,
}

/// What wraps control datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrap {
    /// Nothing.
    None,
    /// `tls-auth`: authenticated.
    TlsAuth {
        /// The key that both sides share.
        key: StaticKey,
        /// Which halves to use; `None` the same for both directions.
        direction: Option<KeyDirection>,
    },
    /// `tls-crypt`: authenticated and encrypted.
    TlsCrypt {
        /// The key that all share.
        key: StaticKey,
    },
    /// `tls-crypt-v2` of a client.
    TlsCryptV2 {
        /// The client's own key.
        key: TlsCryptV2Key,
    },
}

/// `key-direction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyDirection {
    /// 0, usually the server.
    Normal,
    /// 1, usually the client.
    Inverse,
}

/// The data channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataChannel {
    /// Ciphers to negotiate, most wanted first; at least one.
    pub ciphers: Vec<Cipher>,
    /// `cipher`: what we tell old peers of ourselves. It decides nothing.
    pub cipher: Option<Cipher>,
    /// For peers that cannot negotiate (`data-ciphers-fallback`).
    pub fallback: Option<Cipher>,
    /// `auth`: for `tls-auth`, and for data ciphers that do not authenticate themselves.
    pub auth: Digest,
    /// The compression byte that the file asks for. adit never compresses.
    pub compression: CompressionFraming,
    /// Speak as OpenVPN before 2.6 did (`compat-mode`): data keys by its own derivation, nothing newer offered.
    pub before_2_6: bool,
    /// No epoch data format, which came with OpenVPN 2.7 (`compat-mode`). True if `before_2_6` is.
    pub before_2_7: bool,
    /// How late packets may come (`replay-window`): 1 to 65536 packets, 0 to 600 seconds.
    pub replay_window: ReplayWindow,
    /// Largest TCP segments inside.
    pub mssfix: Mssfix,
}

/// `mssfix`, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mssfix {
    /// As OpenVPN does without the directive: an outer size of 1492 if the TUN's MTU is 1500, else its MTU.
    #[default]
    Default,
    /// Leave segments alone.
    Off,
    /// The datagram without its IP and UDP headers stays within this.
    Payload(u16),
    /// The datagram with its IP and UDP headers stays within this (`mtu`).
    Outer(u16),
    /// The inner packet stays within this (`fixed`).
    Fixed(u16),
}

/// Pings and what their absence means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Liveness {
    /// Ping after so long without sending.
    pub ping: Option<Duration>,
    /// The peer is gone after so long without receiving.
    pub timeout: Option<Duration>,
    /// What then.
    pub on_timeout: OnTimeout,
}

/// What to do when the peer is gone. A server drops the client in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OnTimeout {
    /// Connect anew (`ping-restart`).
    #[default]
    Restart,
    /// End (`ping-exit`).
    Exit,
}

/// When keys are renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rekey {
    /// Longest life of a key (`reneg-sec`, default 3600 s); `None` for ever.
    pub after: Option<Duration>,
    /// After so many bytes in all (`reneg-bytes`); 0: no limit.
    pub bytes: u64,
    /// After so many packets in all (`reneg-pkts`); 0: no limit.
    pub packets: u64,
    /// How long the old key still opens (`tran-window`, default 3600 s).
    pub transition: Duration,
    /// How long a handshake may take (`hand-window`, default 60 s).
    pub handshake: Duration,
    /// First wait before a control datagram is sent again (`tls-timeout`, default 2 s).
    pub retransmit: Duration,
}

impl Default for Rekey {
    fn default() -> Self {
        Rekey {
            after: Some(Duration::from_secs(3600)),
            bytes: 0,
            packets: 0,
            transition: Duration::from_secs(3600),
            handshake: Duration::from_secs(60),
            retransmit: Duration::from_secs(2),
        }
    }
}

/// Options of the outer sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// Send buffer in bytes, if given.
    pub sndbuf: Option<u32>,
    /// Receive buffer in bytes, if given.
    pub rcvbuf: Option<u32>,
    /// Let the peer change its address (`float`; servers always do).
    pub float: bool,
    /// A server answers from the address that was written to (`multihome`).
    pub multihome: bool,
    /// Largest control datagram with its outer headers, 154 to 2048 bytes (`max-packet-size`; default 1250).
    pub control_size: Option<u16>,
    /// Send TCP records at once (`tcp-nodelay`, `socket-flags TCP_NODELAY`).
    pub tcp_nodelay: bool,
}

/// The process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Become this user once all is set up.
    pub user: Option<String>,
    /// Become this group.
    pub group: Option<String>,
    /// How much to log, 0 to 11 (`verb`, default 1).
    pub verb: u8,
    /// Log at most so many alike messages in a row.
    pub mute: Option<u32>,
    /// Put the time before each line of the log (not with `suppress-timestamps`).
    pub stamps: bool,
    /// Where to log; `None` for the standard error.
    pub log: Option<Log>,
    /// Where to write the state now and then.
    pub status: Option<StatusFile>,
    /// Where to write the process id.
    pub pid_file: Option<PathBuf>,
    /// The scheduler's niceness, -20 (urgent) to 19 (`nice`, default 0).
    pub nice: i32,
    /// Keep all memory out of swap (`mlock`).
    pub lock_memory: bool,
    /// Where files for scripts are made (`tmp-dir`).
    pub tmp_dir: Option<PathBuf>,
}

impl Default for Process {
    fn default() -> Self {
        Process {
            user: None,
            group: None,
            verb: 1,
            mute: None,
            stamps: true,
            log: None,
            status: None,
            pid_file: None,
            nice: 0,
            lock_memory: false,
            tmp_dir: None,
        }
    }
}

/// Where the log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Log {
    /// A file.
    File {
        /// Which.
        path: PathBuf,
        /// Keep what is in it (`log-append`).
        append: bool,
    },
    /// The system log, under that name.
    Syslog(Option<String>),
}

/// `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusFile {
    /// Which file.
    pub path: PathBuf,
    /// How often.
    pub every: Duration,
    /// Its form: 1, 2 or 3 (`status-version`, default 1).
    pub version: u8,
}
