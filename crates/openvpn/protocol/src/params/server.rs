use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use adit_core::{Ipv4Net, Ipv6Net, PeerLimits, PoolEntry, Rate, Route, RouteTable};

use super::{ControlParams, DataParams, Keepalive, LocalSettings, ScriptParams};
use crate::access::AccessParams;
use crate::wrap::v2::ServerKey;

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
    /// First IPv6 address for clients, with the prefix length that is sent to them (`ifconfig-ipv6-pool`).
    pub pool6: Option<Ipv6Net>,
    /// All options that are pushed to every client, each one option line; those that differ from client to
    /// client (`ifconfig`, `peer-id`, `cipher`, ...) are added.
    pub push: Vec<String>,
    /// Routes of the server's own system into the tunnel.
    pub routes: Vec<Route>,
    /// `route-table`: where those routes go.
    pub table: RouteTable,
    /// The server's own side of `keepalive`.
    pub keepalive: Keepalive,
    /// `inactive` and `session-timeout`: clients whose time is over are dropped.
    pub limits: PeerLimits,
    /// `client-to-client`.
    pub client_to_client: bool,
    /// `duplicate-cn`: one name may be connected many times.
    pub duplicate_cn: bool,
    /// `max-clients`. Default 1024.
    pub max_clients: usize,
    /// `explicit-exit-notify`: tell UDP clients when we stop; 2 sends them to their next remote.
    pub exit_notify: ExitNotify,
    /// The settings that differ from client to client.
    pub per_client: PerClientParams,
    /// The conditions for clients to be let in, besides TLS, and the scripts that run for it.
    pub access: AccessParams,
    /// How initial packets of unauthenticated peers are answered.
    pub admission: AdmissionParams,
    /// Point-to-point: one peer, to which nothing is pushed. Pool, push and clients' settings then mean nothing.
    pub point_to_point: Option<PointToPointParams>,
    /// Programs run when the tunnel comes up and goes down.
    pub scripts: Option<Arc<ScriptParams>>,
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
            table: RouteTable::Main,
            keepalive: Keepalive::default(),
            limits: PeerLimits::default(),
            client_to_client: false,
            duplicate_cn: false,
            max_clients: 1024,
            exit_notify: ExitNotify::default(),
            per_client: PerClientParams::default(),
            access: AccessParams::default(),
            admission: AdmissionParams::default(),
            point_to_point: None,
            scripts: None,
        }
    }
}

/// The listening end of a point-to-point tunnel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PointToPointParams {
    /// Our own end of the tunnel.
    pub local: LocalSettings,
    /// The only outer addresses that the peer may have (`remote` without `float`), until
    /// [`crate::request::Reply::PeerAddresses`] names others; `None`: any.
    pub only_from: Option<Vec<IpAddr>>,
    /// `explicit-exit-notify`: send the exit notice.
    pub exit_notify: bool,
    /// `single-session`: while the peer is connected, no other takes its place.
    pub single: bool,
}

/// The settings that differ from client to client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerClientParams {
    /// `client-config-dir`: ask with [`crate::request::Request::PeerSettings`] before a client is let in.
    pub ask: bool,
    /// `ifconfig-pool-persist`: the names that had the addresses of the pool before.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsCryptV2 {
    /// The key that wraps clients' keys.
    pub key: Arc<ServerKey>,
    /// Turn away clients that cannot bring their key twice (OpenVPN before 2.6), which cost memory before their
    /// address is proven (`force-cookie`).
    pub force_cookie: bool,
    /// Turn away keys that are older, or have no date (`tls-crypt-v2-max-age`).
    pub max_age: Option<Duration>,
}

/// The exit notice of a stopping server to its clients.
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
