use std::time::Duration;

use adit_core::{PeerLimits, Transport};

use super::{ControlParams, DataParams, Keepalive, LocalSettings, UserAuth};
use crate::codec::LONGEST_PAYLOAD;

/// The largest `tun-mtu` we take by push, unless `tun-mtu-max` says otherwise; said to servers as `IV_MTU`.
pub(crate) const MAX_PUSHED_MTU: u16 = LONGEST_PAYLOAD;

/// One entry of a client's list of servers, as far as the protocol cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteParams {
    /// As the user wrote it, for messages: `vpn.example.org:1194 (udp)`.
    pub name: String,
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The protocol in the words of a `remote` line.
    pub protocol: &'static str,
    /// UDP or TCP.
    pub transport: Transport,
    /// `server-poll-timeout`: how long this server may take for its first answer. OpenVPN's default: 120 s.
    pub poll_timeout: Duration,
    /// `explicit-exit-notify`: send the exit notice over UDP.
    pub exit_notify: bool,
}

impl RemoteParams {
    /// A server of that name with OpenVPN's defaults.
    pub fn new(name: String, transport: Transport) -> Self {
        let protocol = match transport {
            Transport::Udp | Transport::Ip(_) => "udp",
            Transport::Tcp => "tcp-client",
        };
        let (host, poll_timeout) = (name.clone(), Duration::from_secs(120));
        RemoteParams { name, host, port: 1194, protocol, transport, poll_timeout, exit_notify: false }
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
    /// The keepalive of the file; a server's push replaces each part it names.
    pub keepalive: Keepalive,
    /// `inactive` and `session-timeout`, from the file; a server's push replaces each that it names.
    pub limits: PeerLimits,
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
    pub pull_filters: Vec<PullFilter>,
    /// The settings of the file: addresses, routes, DNS, redirect-gateway. Pushed settings are added.
    pub local: LocalSettings,
    /// Extra `IV_` and `UV_` lines for the server (from `setenv UV_...`).
    pub peer_info: Vec<(String, String)>,
    /// `auth-user-pass`.
    pub auth: Option<UserAuth>,
    /// `tls-exit`: a TLS handshake that fails is the end.
    pub tls_exit: bool,
    /// `remap-usr1 SIGTERM`: a connection that is lost, or an attempt that fails, is the end, as on request.
    pub ends_when_lost: bool,
    /// `tun-mtu-max`: the largest MTU to take by push. Default 1600.
    pub max_pushed_mtu: u16,
    /// Ask by [`crate::request::Request::MayGoOn`] before each attempt but the first (`management-hold`).
    pub asks_to_go_on: bool,
    /// Ask by [`crate::request::Request::Remote`] before each attempt (`management-query-remote`).
    pub asks_for_remote: bool,
    /// Ask by [`crate::request::Request::ProxyCredentials`] where a proxy wants a username and a password; otherwise such an
    /// attempt has failed.
    pub asks_for_proxy_credentials: bool,
    /// `pull`: the server pushes the tunnel's settings. Without, both ends' files do (point-to-point).
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
            limits: PeerLimits::default(),
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
            ends_when_lost: false,
            max_pushed_mtu: MAX_PUSHED_MTU,
            asks_to_go_on: false,
            asks_for_remote: false,
            asks_for_proxy_credentials: false,
            pull: true,
        }
    }
}

/// A rule of `pull-filter`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullFilter {
    /// The action for an option that matches.
    pub action: PullAction,
    /// The option matches if it starts with this text.
    pub prefix: String,
}

/// The action of a `pull-filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullAction {
    /// Takes it.
    Accept,
    /// Goes on without it.
    Ignore,
    /// Gives the connection up.
    Reject,
}
