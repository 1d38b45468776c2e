use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use adit_core::{
    Cipher, CompressionFraming, Digest, Dns, DnsOptions, Ipv4Net, Ipv6Net, ReplayWindow, Route,
    SessionLimits, Transport,
};

use super::lexer::{At, Inline};
use super::management::ManagementDraft;
use super::model::{
    Access, AuthRetry, CertProfile, Crl, Family, Frequency, KeyDirection, KeyPassword, Liveness, Mssfix,
    NamedRoute, PeerCheck, Process, PullFilter, RedirectGateway, Rekey, SocketOptions, StaticChallenge,
    TlsName, TlsVersion, UserPass,
};

/// The state of a file read so far: what was said, before defaults and checks.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) sides: Sides,
    pub(super) device: DeviceDraft,
    pub(super) tls: TlsDraft,
    pub(super) data: DataDraft,
    pub(super) liveness: Liveness,
    pub(super) limits: SessionLimits,
    pub(super) keepalive: Option<(Duration, Duration)>,
    pub(super) rekey: Rekey,
    pub(super) socket: SocketOptions,
    pub(super) routes: Vec<Route>,
    pub(super) named_routes: Vec<NamedRoute>,
    pub(super) process: Process,
    /// The name that `daemon` gives to the log, if it gives one.
    pub(super) daemon: Option<Option<String>>,
    pub(super) status: Option<(PathBuf, Option<Duration>)>,
    pub(super) status_version: Option<u8>,
    pub(super) management: ManagementDraft,
    pub(super) client: ClientDraft,
    pub(super) server: ServerDraft,
    pub(super) access: Access,
    /// Where scripts stand, with the `script-security` that they need.
    pub(super) access_at: Vec<(At, u8)>,
    pub(super) certificates_at: Option<At>,
    pub(super) crresponse_at: Option<At>,
    /// What only works where something judges usernames and passwords.
    pub(super) needs_judge_at: Vec<At>,
    pub(super) script_security: Option<u8>,
    pub(super) token_secret: Option<Material>,
    /// What holds outside `<connection>` blocks.
    pub(super) general: Scope,
    /// The `<connection>` block being read.
    pub(super) block: Option<Scope>,
    /// Where relative paths start (`cd`).
    pub(super) directory: PathBuf,
}

impl Draft {
    /// Where a directive allowed in `<connection>` blocks puts its value.
    pub(super) fn scope(&mut self) -> &mut Scope {
        self.block.as_mut().unwrap_or(&mut self.general)
    }
}

/// Directives that say which side this is.
#[derive(Default)]
pub(super) struct Sides {
    pub(super) client: Option<At>,
    pub(super) pull: bool,
    pub(super) tls_client: Option<At>,
    pub(super) tls_server: Option<At>,
    /// `proto` says that we are the listening end of TCP, or the connecting one.
    pub(super) tcp_end: Option<(bool, At)>,
    pub(super) server: Option<At>,
    /// `allow-deprecated-insecure-static-crypto`.
    pub(super) static_keys: bool,
}

impl Sides {
    /// Whether any of them is there.
    pub(super) fn are_said(&self) -> bool {
        let said = [&self.client, &self.tls_client, &self.tls_server, &self.server];
        said.iter().any(|at| at.is_some())
    }
}

#[derive(Default)]
pub(super) struct DeviceDraft {
    pub(super) name: Option<(String, At)>,
    pub(super) is_tun: bool,
    pub(super) mtu: Option<u16>,
    pub(super) told_mtu: Option<u16>,
    pub(super) ifconfig_nowarn: bool,
    pub(super) txqueuelen: Option<u32>,
    pub(super) ifconfig: Option<(Ipv4Addr, Ipv4Addr, At)>,
    pub(super) ifconfig_ipv6: Option<(Ipv6Net, Ipv6Addr)>,
    pub(super) subnet: Option<bool>,
    /// Where `topology` stands.
    pub(super) topology_at: Option<At>,
}

/// What can differ from one `<connection>` to the next.
#[derive(Clone, Default)]
pub(super) struct Scope {
    pub(super) proto: Option<(Transport, Family)>,
    pub(super) remote_port: Option<u16>,
    pub(super) local_port: Option<u16>,
    pub(super) nobind: Option<bool>,
    pub(super) locals: Vec<LocalDraft>,
    pub(super) connect_timeout: Option<Duration>,
    pub(super) exit_notify: Option<u8>,
    /// `remote` within this block.
    pub(super) remote: Option<RemoteDraft>,
}

#[derive(Clone)]
pub(super) struct RemoteDraft {
    pub(super) host: String,
    pub(super) port: Option<u16>,
    pub(super) proto: Option<(Transport, Family)>,
}

#[derive(Clone)]
pub(super) struct LocalDraft {
    pub(super) address: Option<IpAddr>,
    pub(super) port: Option<u16>,
    pub(super) proto: Option<(Transport, Family)>,
}

/// Text given inline or in a file.
#[derive(Clone)]
pub(super) struct Material {
    pub(super) at: At,
    pub(super) source: Source,
}

#[derive(Clone)]
pub(super) enum Source {
    Inline(Inline),
    File(PathBuf),
}

#[derive(Default)]
pub(super) struct TlsDraft {
    pub(super) ca: Option<Material>,
    pub(super) cert: Option<Material>,
    pub(super) extra: Option<Material>,
    pub(super) key: Option<Material>,
    pub(super) pkcs12: Option<Material>,
    pub(super) key_password: KeyPassword,
    /// `secret`, which takes the place of TLS.
    pub(super) secret: Option<Material>,
    pub(super) tls_auth: Option<Material>,
    pub(super) tls_crypt: Option<Material>,
    pub(super) tls_crypt_v2: Option<Material>,
    pub(super) force_cookie: bool,
    pub(super) client_key_max_age: Option<Duration>,
    pub(super) direction: Option<KeyDirection>,
    pub(super) version_min: Option<TlsVersion>,
    pub(super) version_max: Option<TlsVersion>,
    pub(super) ciphers: Vec<TlsName>,
    pub(super) suites: Vec<TlsName>,
    pub(super) groups: Vec<TlsName>,
    /// What `remote-cert-tls` or `remote-cert-eku` demands: a server's certificate, or a client's.
    pub(super) wants_server: Option<(bool, At)>,
    pub(super) peer: PeerCheck,
    pub(super) cert_profile: CertProfile,
    pub(super) crl: Option<Crl>,
}

#[derive(Default)]
pub(super) struct DataDraft {
    pub(super) ciphers: Option<Vec<Cipher>>,
    pub(super) cipher: Option<Cipher>,
    pub(super) fallback: Option<Cipher>,
    pub(super) auth: Digest,
    /// Where `auth none` stands.
    pub(super) no_auth: Option<At>,
    pub(super) compression: CompressionFraming,
    /// `compress migrate`.
    pub(super) migrate: bool,
    /// `compat-mode`, as ten thousand times the first number and so on.
    pub(super) compat: Option<u32>,
    pub(super) replay_window: Option<ReplayWindow>,
    pub(super) mssfix: Mssfix,
}

#[derive(Default)]
pub(super) struct ClientDraft {
    /// Remotes in the order of the file, each with its block if it has one.
    pub(super) remotes: Vec<(RemoteDraft, Option<Scope>)>,
    pub(super) random: bool,
    pub(super) random_hostname: bool,
    pub(super) resolve_retry: Option<Duration>,
    pub(super) retry: Option<Duration>,
    pub(super) retry_longest: Option<Duration>,
    pub(super) retry_max: Option<u32>,
    pub(super) route_nopull: bool,
    pub(super) pull_filters: Vec<PullFilter>,
    pub(super) route_metric: Option<u32>,
    pub(super) redirect_gateway: Option<RedirectGateway>,
    pub(super) block_ipv6: bool,
    pub(super) dns: Dns,
    /// `dns`, which goes before `dhcp-option`.
    pub(super) dns_options: DnsOptions,
    pub(super) auth: Option<UserPass>,
    pub(super) auth_retry: AuthRetry,
    pub(super) auth_nocache: bool,
    pub(super) auth_challenge: Option<StaticChallenge>,
    pub(super) push_peer_info: bool,
    pub(super) tls_exit: bool,
    pub(super) max_pushed_mtu: Option<u16>,
}

#[derive(Default)]
pub(super) struct ServerDraft {
    pub(super) network: Option<(Ipv4Net, bool)>,
    pub(super) network6: Option<Ipv6Net>,
    pub(super) pool: Option<(Ipv4Addr, Ipv4Addr, At)>,
    pub(super) pool6: Option<(Ipv6Net, At)>,
    pub(super) push: Vec<String>,
    pub(super) client_to_client: bool,
    pub(super) duplicate_cn: bool,
    pub(super) max_clients: Option<u32>,
    pub(super) connect_freq: Option<Frequency>,
    pub(super) connect_freq_initial: Option<Frequency>,
    pub(super) push_nodelay: bool,
    pub(super) client_files: Option<PathBuf>,
    pub(super) ccd_exclusive: Option<At>,
    pub(super) single: bool,
    pub(super) pool_file: Option<(PathBuf, Duration)>,
}
