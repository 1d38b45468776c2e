//! The settings of a client.

use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use adit_core::{Dns, Ipv6Net, Transport};
use adit_openvpn::params::{AuthRetry, PullFilter, StaticChallenge};

use super::{Family, Proxy, StaticIpv4};
use crate::Secret;

/// The settings of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// The servers to try, in this order; at least one.
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
    /// Let no IPv6 leave, neither by the tunnel nor beside it (`block-ipv6`).
    pub block_ipv6: bool,
    /// Name servers and domains of our own file (`dhcp-option`).
    pub dns: Dns,
    /// Our IPv4 address if the server does not give one (`ifconfig`).
    pub ipv4: Option<StaticIpv4>,
    /// Our IPv6 address and the peer's (`ifconfig-ipv6`).
    pub ipv6: Option<(Ipv6Net, Ipv6Addr)>,
    /// Username and password (`auth-user-pass`).
    pub auth: Option<UserAuth>,
    /// Additional variables that are sent to the server: `UV_…` of `setenv` (with `push-peer-info`), `IV_GUI_VER`,
    /// `IV_SSO` (the sign-on methods of this user; without it, the program decides).
    pub peer_info: Vec<(String, String)>,
    /// End when a TLS handshake fails (`tls-exit`).
    pub tls_exit: bool,
    /// End, as on request, when the connection is lost or an attempt fails (`remap-usr1 SIGTERM`).
    pub ends_when_lost: bool,
    /// The largest MTU to take by push (`tun-mtu-max`, default 1600).
    pub max_pushed_mtu: u16,
}

/// `redirect-gateway` and its flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedirectGateway {
    /// Redirect IPv4 (`!ipv4` turns it off).
    pub ipv4: bool,
    /// Redirect IPv6 (`ipv6`).
    pub ipv6: bool,
    /// Two half routes instead of replacing the default route (`def1`).
    pub def1: bool,
    /// No host route to the server (`local`).
    pub local: bool,
    /// No host route to the server if it is on a connected network (`autolocal`).
    pub autolocal: bool,
    /// Block access to the local network (`block-local`).
    pub block_local: bool,
    /// Keep DHCP servers outside (`bypass-dhcp`).
    pub bypass_dhcp: bool,
    /// Keep DNS servers outside (`bypass-dns`).
    pub bypass_dns: bool,
}

/// How a client authenticates itself by username and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAuth {
    /// Where they come from.
    pub source: UserPass,
    /// The reaction to the server's refusal of them (`auth-retry`).
    pub retry: AuthRetry,
    /// Forget them once they were used (`auth-nocache`).
    pub nocache: bool,
    /// A question whose answer goes with the password (`static-challenge`).
    pub challenge: Option<StaticChallenge>,
}

/// Where username and password come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserPass {
    /// The user, who is asked for them on the terminal.
    Prompt,
    /// From a file: the username on its first line, the password on its second; without a second line the
    /// password is asked for.
    File(PathBuf),
    /// A username and a password within the configuration.
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
    /// The proxy by which it is reached; `None`: directly.
    pub proxy: Option<Proxy>,
    /// How many exit notices to send over UDP (`explicit-exit-notify`); 0 not at all.
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
