//! The settings of a driver, given at its start.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use adit_core::{Dns, Preamble, Transport, TunnelSettings};
use adit_dataplane::codec::Demultiplexer;
use adit_system::SocketRouting;
use serde::{Deserialize, Serialize};

use crate::port_share::PortShare;
use crate::proxy::Proxy;
use crate::tls::TlsClient;
use crate::tun::TunConfig;

/// The things that the driver owns, and their settings.
#[derive(Clone, Debug)]
pub struct DriverConfig {
    /// The TUN device.
    pub tun: TunConfig,
    /// The tunnel has one peer, on one path: one worker serves it, and packets wait in the device while the path is
    /// full. Otherwise packets for a full path are dropped, as others go elsewhere.
    pub single_peer: bool,
    /// The tunnel may change how this machine reaches other networks: settings that an earlier run left behind are
    /// undone at the start, and the kill switch lets out packets into the device.
    pub changes_routing: bool,
    /// Where to wait for peers.
    pub listen: Vec<Listen>,
    /// Answer UDP peers from the address that they wrote to, also where `listen` names none: each address that
    /// the machine has at the start gets a socket of its own.
    pub multihome: bool,
    /// Peers to reach; [`adit_core::Event::Open`] names them by index.
    pub remotes: Vec<Remote>,
    /// Sizes of the socket buffers.
    pub buffers: Buffers,
    /// How the system routes the datagrams of the sockets of [`DriverConfig::listen`] and
    /// [`DriverConfig::remotes`].
    pub socket_routing: SocketRouting,
    /// Threads that move packets, up to [`crate::MAX_WORKERS`]; a single peer has one in any case.
    pub workers: usize,
    /// The other server that gets connections to TCP listeners whose first bytes are not of the protocol
    /// ([`Demultiplexer::begins_stream`]). `None`: all are the protocol's.
    pub port_share: Option<PortShare>,
    /// TCP connections that listeners hold at once; more are refused. The protocol makes room before that: it closes
    /// connections of unauthenticated peers by source (`adit_core::prefix_table`).
    pub max_connections: usize,
    /// The file to write name servers to, in place of `/etc/resolv.conf` and of systemd-resolved.
    pub resolv_conf: Option<PathBuf>,
    /// A firewall lets nothing out but the tunnel's packets and marked datagrams ([`adit_system::KillSwitch`]).
    pub kill_switch: bool,
    /// The data plane.
    pub dataplane: adit_dataplane::Config,
    /// The parts of the tunnel's settings that the driver leaves to the program and others.
    pub execution: Execution,
    /// UDP sockets at which another demultiplexer than that of the data plane tells datagrams apart.
    pub demultiplexers: BTreeMap<UdpSource, Arc<dyn Demultiplexer>>,
    /// How TCP connections begin.
    pub streams: StreamOptions,
}

/// How TCP connections begin. By default they begin with their records.
#[derive(Clone, Debug, Default)]
pub struct StreamOptions {
    /// The preamble on connections that listeners accept, before their records.
    pub accepted: Option<Arc<dyn Preamble>>,
    /// The preambles on connections to remotes, by their index into [`DriverConfig::remotes`].
    pub remotes: BTreeMap<usize, Arc<dyn Preamble>>,
    /// TLS around connections to remotes, by the same index, with the preamble before the records. Each of these
    /// remotes is in [`StreamOptions::remotes`], too: the answer to its preamble shows that the handshake is complete.
    pub tls: BTreeMap<usize, TlsClient>,
    /// The firewall mark of the packets of accepted connections; 0: none. Connections to remotes have [`Remote::mark`].
    pub mark: u32,
}

/// How much of [`adit_core::TunnelSettings`] the driver carries out, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Execution {
    /// Another program gives the device its addresses and its MTU and takes it up.
    pub leaves_device: bool,
    /// Another program sets the routes.
    pub leaves_routes: bool,
    /// Another program sets the name servers.
    pub leaves_names: bool,
    /// The program is asked ([`crate::Observer::device_ready`]) before routes and name servers are set.
    pub in_stages: bool,
}

impl Execution {
    /// The part of these settings that the driver carries out. ([`adit_system::Routing::leave_device`] does
    /// the rest.)
    pub(crate) fn own_part(&self, settings: &TunnelSettings) -> TunnelSettings {
        let mut own = settings.clone();
        if self.leaves_routes {
            own.routes.clear();
            own.redirect = None;
        }
        if self.leaves_names {
            own.dns = Dns::default();
        }
        own
    }
}

/// The part of these settings that concerns the device alone.
pub(crate) fn of_device(settings: &TunnelSettings) -> TunnelSettings {
    TunnelSettings {
        addresses: settings.addresses.clone(),
        peer_address: settings.peer_address,
        mtu: settings.mtu,
        server: settings.server,
        ..TunnelSettings::default()
    }
}

impl DriverConfig {
    /// The demultiplexer of that socket's own, if it has one.
    pub(crate) fn demultiplexer(&self, source: UdpSource) -> Option<Arc<dyn Demultiplexer>> {
        self.demultiplexers.get(&source).map(Arc::clone)
    }
}

/// The purpose of a UDP socket in the configuration: an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UdpSource {
    /// Into [`DriverConfig::listen`].
    Listen(usize),
    /// Into [`DriverConfig::remotes`].
    Remote(usize),
    /// The number of a port that is bound by [`crate::Driver::bind_udp`] ([`crate::UdpBinding::number`]).
    Bound(usize),
    /// The number of an IP protocol whose sockets are bound by [`crate::Driver::bind_ip`].
    Ip(u8),
}

/// A local address to wait at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// UDP, TCP, or an IP protocol.
    pub transport: Transport,
    /// The address and port; an IP protocol has no port. `[::]` takes IPv4 peers too, and becomes `0.0.0.0` on a machine without IPv6; but `[::]` of an IP protocol
    /// is IPv6 alone.
    pub address: SocketAddr,
}

/// A peer to reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remote {
    /// Name or address.
    pub host: String,
    /// Put random letters and a dot before a name, so that no cache of a resolver answers.
    pub random_hostname: bool,
    /// Port.
    pub port: u16,
    /// UDP, TCP, or an IP protocol, which has no port.
    pub transport: Transport,
    /// Which of its addresses may be used.
    pub family: Family,
    /// The local address to use; port 0 takes any.
    pub bind: Option<SocketAddr>,
    /// How long a TCP connection may take to come about, for each address; by a proxy, with all that is said to it.
    pub connect_timeout: Duration,
    /// The proxy by which it is reached; `None`: directly.
    pub proxy: Option<Proxy>,
    /// The firewall mark of the packets to it. `None`: that of all tunnels of this program.
    pub mark: Option<u32>,
}

/// A choice of address family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Family {
    /// Whatever the name resolves to.
    #[default]
    Any,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Sizes of the socket buffers in bytes; `None` leaves the choice to adit (UDP) or the kernel (TCP).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffers {
    /// Send buffer.
    pub sndbuf: Option<usize>,
    /// Receive buffer.
    pub rcvbuf: Option<usize>,
}
