use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use adit_core::Rate;
use adit_core::{Cipher, Digest, Dns, IpNet, Ipv4Net, Ipv6Net, PeerLimits, ReplayWindow, Route, Transport};
use adit_openvpn::codec::Compression;
use adit_openvpn::dns::DnsOptions;
use adit_openvpn::params::{AuthRetry, Fragment, Keepalive, MssFix, PullFilter, Rekey, StaticChallenge};
use adit_openvpn::wrap::KeyDirection;

use crate::lexer::{At, Inline};
use crate::model::{
    Access, CertProfile, Crl, Family, HttpAuthentication, KeyPassword, ManagementAddress, NamedRoute,
    PeerCheck, PortShare, Process, RedirectGateway, SignatureForms, SocketOptions, TlsName, TlsVersion,
    TunnelScripts, UserPass,
};

/// The directives of a file that were read so far, before defaults and checks.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) sides: Sides,
    pub(crate) device: DeviceDraft,
    pub(crate) tls: TlsDraft,
    pub(crate) data: DataDraft,
    pub(crate) liveness: Keepalive,
    pub(crate) limits: PeerLimits,
    pub(crate) keepalive: Option<(Duration, Duration)>,
    pub(crate) rekey: Rekey,
    pub(crate) socket: SocketOptions,
    pub(crate) routes: Vec<Route>,
    pub(crate) named_routes: Vec<NamedRoute>,
    pub(crate) process: Process,
    /// The name that `daemon` gives to the log, if it gives one.
    pub(crate) daemon: Option<Option<String>>,
    pub(crate) status: Option<(PathBuf, Option<Duration>)>,
    pub(crate) status_version: Option<u8>,
    pub(crate) management: ManagementDraft,
    pub(crate) client: ClientDraft,
    pub(crate) server: ServerDraft,
    pub(crate) scripts: ScriptsDraft,
    pub(crate) access: Access,
    /// Where scripts stand, with the `script-security` that they need.
    pub(crate) access_at: Vec<(At, u8)>,
    pub(crate) certificates_at: Option<At>,
    pub(crate) crresponse_at: Option<At>,
    /// Directives that need a script or management client that verifies usernames and passwords.
    pub(crate) needs_verifier_at: Vec<At>,
    pub(crate) script_security: Option<u8>,
    pub(crate) token_secret: Option<Material>,
    /// The directives outside `<connection>` blocks.
    pub(crate) general: Scope,
    /// The `<connection>` block being read.
    pub(crate) block: Option<Scope>,
    /// Where relative paths start (`cd`).
    pub(crate) directory: PathBuf,
}

impl Draft {
    /// Where a directive allowed in `<connection>` blocks puts its value.
    pub(crate) fn scope(&mut self) -> &mut Scope {
        self.block.as_mut().unwrap_or(&mut self.general)
    }
}

/// Directives that say which side this is.
#[derive(Default)]
pub(crate) struct Sides {
    pub(crate) client: Option<At>,
    pub(crate) pull: bool,
    pub(crate) tls_client: Option<At>,
    pub(crate) tls_server: Option<At>,
    /// `proto tcp-server` (true) or `proto tcp-client`.
    pub(crate) tcp_end: Option<(bool, At)>,
    pub(crate) server: Option<At>,
    /// `allow-deprecated-insecure-static-crypto`.
    pub(crate) static_keys: bool,
}

impl Sides {
    /// Whether any of them is there.
    pub(crate) fn are_given(&self) -> bool {
        let given = [&self.client, &self.tls_client, &self.tls_server, &self.server];
        given.iter().any(|at| at.is_some())
    }
}

#[derive(Default)]
pub(crate) struct DeviceDraft {
    pub(crate) name: Option<(String, At)>,
    pub(crate) is_tun: bool,
    pub(crate) is_null: bool,
    pub(crate) mtu: Option<u16>,
    pub(crate) told_mtu: Option<u16>,
    pub(crate) ifconfig_nowarn: bool,
    pub(crate) txqueuelen: Option<u32>,
    pub(crate) route_table: Option<u32>,
    pub(crate) ifconfig: Option<(Ipv4Addr, Ipv4Addr, At)>,
    pub(crate) ifconfig_ipv6: Option<(Ipv6Net, Ipv6Addr)>,
    pub(crate) subnet: Option<bool>,
    /// Where `topology` stands.
    pub(crate) topology_at: Option<At>,
}

impl DeviceDraft {
    /// Whether there is to be no device: `dev null` (OpenVPN tun.c `is_dev_type`).
    pub(crate) fn is_absent(&self) -> bool {
        let is_named_so = self.name.as_ref().is_some_and(|(name, _)| name.starts_with("null"));
        self.is_null || (is_named_so && !self.is_tun)
    }
}

/// The settings that can differ from one `<connection>` to the next.
#[derive(Clone, Default)]
pub(crate) struct Scope {
    pub(crate) proto: Option<(Transport, Family)>,
    pub(crate) remote_port: Option<u16>,
    pub(crate) local_port: Option<u16>,
    pub(crate) nobind: Option<bool>,
    pub(crate) locals: Vec<LocalDraft>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) exit_notify: Option<u8>,
    pub(crate) proxy: Option<ProxyDraft>,
    pub(crate) http_version: Option<String>,
    pub(crate) http_headers: Vec<String>,
    /// `remote` within this block.
    pub(crate) remote: Option<RemoteDraft>,
}

#[derive(Clone)]
pub(crate) struct RemoteDraft {
    pub(crate) at: At,
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    pub(crate) proto: Option<(Transport, Family)>,
}

/// `http-proxy` or `socks-proxy`.
#[derive(Clone)]
pub(crate) struct ProxyDraft {
    pub(crate) at: At,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The kinds of authentication that are allowed, if the proxy is an HTTP proxy.
    pub(crate) http: Option<HttpAuthentication>,
    pub(crate) credentials: Option<UserPass>,
}

#[derive(Clone)]
pub(crate) struct LocalDraft {
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: Option<u16>,
    pub(crate) proto: Option<(Transport, Family)>,
}

/// Text given inline or in a file.
#[derive(Clone)]
pub(crate) struct Material {
    pub(crate) at: At,
    pub(crate) source: Source,
}

#[derive(Clone)]
pub(crate) enum Source {
    Inline(Inline),
    File(PathBuf),
}

#[derive(Default)]
pub(crate) struct TlsDraft {
    pub(crate) ca: Option<Material>,
    pub(crate) capath: Option<Material>,
    pub(crate) cert: Option<Material>,
    pub(crate) extra: Option<Material>,
    pub(crate) key: Option<Material>,
    pub(crate) pkcs12: Option<Material>,
    pub(crate) external: ExternalDraft,
    pub(crate) key_password: KeyPassword,
    /// `secret`, which takes the place of TLS.
    pub(crate) secret: Option<Material>,
    pub(crate) tls_auth: Option<Material>,
    pub(crate) tls_crypt: Option<Material>,
    pub(crate) tls_crypt_v2: Option<Material>,
    pub(crate) force_cookie: bool,
    pub(crate) client_key_max_age: Option<Duration>,
    pub(crate) direction: KeyDirection,
    pub(crate) version_min: Option<TlsVersion>,
    pub(crate) version_max: Option<TlsVersion>,
    pub(crate) ciphers: Vec<TlsName>,
    pub(crate) suites: Vec<TlsName>,
    pub(crate) groups: Vec<TlsName>,
    /// The certificate that `remote-cert-tls` or `remote-cert-eku` demands: a server's, or a client's.
    pub(crate) wants_server: Option<(bool, At)>,
    pub(crate) peer: PeerCheck,
    pub(crate) cert_profile: CertProfile,
    pub(crate) crl: Option<Crl>,
}

#[derive(Default)]
pub(crate) struct DataDraft {
    pub(crate) ciphers: Option<Vec<Cipher>>,
    pub(crate) cipher: Option<Cipher>,
    pub(crate) fallback: Option<Cipher>,
    pub(crate) auth: Option<Digest>,
    /// Where `auth none` stands.
    pub(crate) no_auth: Option<At>,
    pub(crate) compression: Compression,
    /// Where an algorithm is named that compresses.
    pub(crate) algorithm: Option<At>,
    /// `allow-compression`: whether it allows any.
    pub(crate) allow_compression: Option<(bool, At)>,
    pub(crate) fragment: Option<(Fragment, At)>,
    /// `compress migrate`.
    pub(crate) migrate: bool,
    /// `compat-mode`, as ten thousand times the first number and so on.
    pub(crate) compat: Option<u32>,
    pub(crate) replay_window: Option<ReplayWindow>,
    pub(crate) mssfix: MssFix,
}

#[derive(Default)]
pub(crate) struct ClientDraft {
    /// Remotes in the order of the file, each with its block if it has one.
    pub(crate) remotes: Vec<(RemoteDraft, Option<Scope>)>,
    pub(crate) random: bool,
    pub(crate) random_hostname: bool,
    pub(crate) resolve_retry: Option<Duration>,
    pub(crate) retry: Option<Duration>,
    pub(crate) retry_longest: Option<Duration>,
    pub(crate) retry_max: Option<u32>,
    pub(crate) route_nopull: bool,
    pub(crate) pull_filters: Vec<PullFilter>,
    pub(crate) route_metric: Option<u32>,
    pub(crate) redirect_gateway: Option<RedirectGateway>,
    pub(crate) block_ipv6: bool,
    pub(crate) dns: Dns,
    /// `dns`, which goes before `dhcp-option`.
    pub(crate) dns_options: DnsOptions,
    /// `http-proxy-user-pass`.
    pub(crate) proxy_user: Option<UserPass>,
    pub(crate) auth: Option<UserPass>,
    pub(crate) auth_retry: AuthRetry,
    pub(crate) auth_nocache: bool,
    pub(crate) auth_challenge: Option<StaticChallenge>,
    pub(crate) push_peer_info: bool,
    pub(crate) tls_exit: bool,
    /// Where `remap-usr1 SIGTERM` stands.
    pub(crate) ends_when_lost: Option<At>,
    pub(crate) max_pushed_mtu: Option<u16>,
}

#[derive(Default)]
pub(crate) struct ServerDraft {
    pub(crate) network: Option<(Ipv4Net, bool)>,
    pub(crate) network6: Option<Ipv6Net>,
    pub(crate) pool: Option<(Ipv4Addr, Ipv4Addr, At)>,
    pub(crate) pool6: Option<(Ipv6Net, At)>,
    pub(crate) push: Vec<String>,
    pub(crate) client_to_client: bool,
    /// Where packets of clients are forwarded to, and where that stands first.
    pub(crate) forward: Vec<IpNet>,
    pub(crate) forward_at: Option<At>,
    pub(crate) duplicate_cn: bool,
    pub(crate) port_share: Option<(PortShare, At)>,
    pub(crate) max_clients: Option<u32>,
    pub(crate) connect_freq: Option<Rate>,
    pub(crate) connect_freq_initial: Option<Rate>,
    pub(crate) push_nodelay: bool,
    pub(crate) client_files: Option<PathBuf>,
    pub(crate) ccd_exclusive: Option<At>,
    pub(crate) single: bool,
    pub(crate) pool_file: Option<(PathBuf, Duration)>,
}

/// The holder of our key, if it is not here.
#[derive(Default)]
pub(crate) struct ExternalDraft {
    /// `management-external-key`.
    pub(crate) key: Option<(SignatureForms, At)>,
    /// `management-external-cert`.
    pub(crate) certificate: Option<(String, At)>,
    /// `pkcs11-providers`.
    pub(crate) providers: Option<(Vec<PathBuf>, At)>,
    /// `pkcs11-id`.
    pub(crate) id: Option<(String, At)>,
    /// `pkcs11-id-management`.
    pub(crate) id_by_management: Option<At>,
    /// `pkcs11-protected-authentication`, for the providers in their order.
    pub(crate) protected: Vec<bool>,
    /// `pkcs11-cert-private`, likewise.
    pub(crate) private_certificates: Vec<bool>,
    /// `pkcs11-pin-cache`.
    pub(crate) pin_cache: Option<Duration>,
}

/// The directives on the management socket.
#[derive(Default)]
pub(crate) struct ManagementDraft {
    pub(crate) address: Option<ManagementAddress>,
    pub(crate) password: Option<PathBuf>,
    pub(crate) log_cache: Option<u32>,
    pub(crate) hold: bool,
    pub(crate) query_passwords: bool,
    pub(crate) signal: bool,
    pub(crate) query_remote: bool,
    pub(crate) query_proxy: bool,
    pub(crate) up_down: bool,
    pub(crate) forget_disconnect: bool,
    pub(crate) as_client: bool,
    pub(crate) client_user: Option<String>,
    pub(crate) client_group: Option<String>,
    /// The first line that means nothing without a socket.
    pub(crate) modifier: Option<(String, At)>,
    /// The line that restricts the processes that may connect.
    pub(crate) client_at: Option<At>,
}

/// The scripts' directives, as they are read before the whole file is known.
#[derive(Default)]
pub(crate) struct ScriptsDraft {
    pub(crate) scripts: TunnelScripts,
    /// Where scripts stand, and whether adit does without the script if scripts are not allowed.
    pub(crate) at: Vec<(At, bool)>,
}
