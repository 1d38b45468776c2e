//! The driver's settings: sockets, the device, the remotes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use adit_dataplane as dataplane;
use adit_dataplane::codec::Demultiplexer;
use adit_io::{
    Buffers, DriverConfig, Execution, Family, Listen, OffloadSwitches, PortShare, Remote, StreamOptions,
    TunConfig,
};
use adit_openvpn_config as file;
use adit_openvpn_config::{ClientConfig, Config, MtuDiscovery};
use adit_system::{Fragmentation, SocketRouting};

use crate::proxies;

/// OpenVPN's own default would be 100, which drops packets of fast senders.
const TXQUEUELEN: u32 = 1000;

/// The driver's settings for `config`.
pub(crate) fn driver_config(config: &Config, offloads: OffloadSwitches, workers: usize) -> DriverConfig {
    let (client_to_client, listen, remotes) = match &config.role {
        file::Role::Client(client) => (false, Vec::new(), remotes(client)),
        file::Role::Server(server) => {
            (server.client_to_client, server.listen.iter().map(listen).collect(), Vec::new())
        }
        file::Role::PointToPoint(point) => (false, point.listen.iter().map(listen).collect(), Vec::new()),
    };
    DriverConfig {
        tun: TunConfig {
            name: config.device.name.clone(),
            is_null: config.device.is_null,
            txqueuelen: txqueuelen(config),
            offloads,
            ..TunConfig::default()
        },
        single_peer: matches!(config.role, file::Role::Client(_)),
        changes_routing: matches!(config.role, file::Role::Client(_)) && !config.device.is_null,
        listen,
        multihome: config.socket.multihome,
        remotes,
        buffers: Buffers {
            sndbuf: config.socket.sndbuf.and_then(|size| usize::try_from(size).ok()),
            rcvbuf: config.socket.rcvbuf.and_then(|size| usize::try_from(size).ok()),
        },
        port_share: port_share(&config.role),
        socket_routing: SocketRouting {
            mark: config.socket.mark,
            device: config.socket.device,
            fragmentation: fragmentation(config.socket.mtu_disc),
        },
        // One peer is served by one worker.
        max_connections: max_connections(&config.role),
        workers: if matches!(config.role, file::Role::PointToPoint(_)) { 1 } else { workers },
        resolv_conf: None,
        kill_switch: false,
        dataplane: dataplane::Config { client_to_client, ..dataplane::Config::of(demultiplexer(config)) },
        execution: execution(config),
        demultiplexers: BTreeMap::new(),
        streams: StreamOptions::default(),
    }
}

/// `mtu-disc`, as OpenVPN's `set_mtu_discover_type` (mtu.c) sets it.
fn fragmentation(mtu_disc: Option<MtuDiscovery>) -> Fragmentation {
    match mtu_disc {
        None => Fragmentation::System,
        Some(MtuDiscovery::No) => Fragmentation::Allowed,
        Some(MtuDiscovery::Maybe) => Fragmentation::ByPath,
        Some(MtuDiscovery::Yes) => Fragmentation::Forbidden,
    }
}

/// The settings that are left to scripts, and whether these are asked first.
fn execution(config: &Config) -> Execution {
    let scripts = &config.scripts;
    Execution {
        leaves_device: scripts.leaves_device,
        leaves_routes: scripts.leaves_routes,
        leaves_names: scripts.leaves_names(),
        in_stages: scripts.commands().next().is_some() || scripts.route_delay.is_some(),
    }
}

/// `port-share`.
fn port_share(role: &file::Role) -> Option<PortShare> {
    let file::Role::Server(server) = role else { return None };
    server.port_share.as_ref().map(|share| PortShare {
        host: share.host.clone(),
        port: share.port,
        journal: share.journal.clone(),
    })
}

/// Packets that may wait in the device.
pub(crate) fn txqueuelen(config: &Config) -> u32 {
    config.device.txqueuelen.unwrap_or(TXQUEUELEN)
}

/// How the data plane tells apart what arrives at the sockets.
fn demultiplexer(config: &Config) -> Arc<dyn Demultiplexer> {
    match (&config.secret, &config.role) {
        (Some(_), _) => Arc::new(adit_openvpn_codec::StaticKey),
        (None, file::Role::Server(_)) => Arc::new(adit_openvpn_codec::Server),
        // One peer, whatever peer-id it sends.
        (None, file::Role::Client(_) | file::Role::PointToPoint(_)) => Arc::new(adit_openvpn_codec::Client),
    }
}

/// More than the protocol lets there be: clients that are in, that wait for a person, that are in their handshake, and
/// connections without a session (adit-openvpn's `server/limits.rs`).
fn max_connections(role: &file::Role) -> usize {
    const UNAUTHENTICATED: usize = 4096;
    let clients = match role {
        file::Role::Server(server) => usize::try_from(server.max_clients).unwrap_or(usize::MAX),
        file::Role::Client(_) | file::Role::PointToPoint(_) => 1,
    };
    clients.saturating_mul(2).saturating_add(UNAUTHENTICATED)
}

fn listen(listen: &file::Listen) -> Listen {
    let any = match listen.family {
        file::Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        file::Family::Any | file::Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    Listen {
        transport: listen.transport,
        address: SocketAddr::new(listen.address.unwrap_or(any), listen.port),
    }
}

/// The remotes, as the helper and the driver reach them.
pub(crate) fn remotes(client: &ClientConfig) -> Vec<Remote> {
    let remote = |remote: &file::Remote| Remote {
        host: remote.host.clone(),
        random_hostname: client.remote_random_hostname,
        port: remote.port,
        transport: remote.transport,
        family: family(remote.family),
        bind: remote.bind.and_then(|bind| local_end(bind, remote.family)),
        connect_timeout: remote.connect_timeout,
        proxy: remote.proxy.as_ref().map(proxies::proxy),
        mark: None,
    };
    client.remotes.iter().map(remote).collect()
}

/// Where the client binds; nothing if the system chooses (`nobind`, or `lport 0`). An unspecified address takes the family of the server's.
fn local_end(bind: file::Bind, family: file::Family) -> Option<SocketAddr> {
    let any = match family {
        file::Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        file::Family::Any | file::Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    match bind {
        file::Bind { address: None, port: 0 } => None,
        file::Bind { address, port } => Some(SocketAddr::new(address.unwrap_or(any), port)),
    }
}

fn family(family: file::Family) -> Family {
    match family {
        file::Family::Any => Family::Any,
        file::Family::V4 => Family::V4,
        file::Family::V6 => Family::V6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pulling client with these lines.
    fn config(lines: &str) -> Config {
        let text = format!("client\ndev tun\nremote vpn.example\nca ca.crt\nauth-user-pass\n{lines}\n");
        let certificate = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let parsed = adit_openvpn_config::parse("test.ovpn", text.as_bytes(), &|_| Ok(certificate.to_vec()));
        parsed.expect("a configuration").config
    }

    /// Where it binds.
    fn bound(lines: &str) -> Option<SocketAddr> {
        let file::Role::Client(client) = config(lines).role else { panic!("not a client") };
        remotes(&client)[0].bind
    }

    #[test]
    fn datagrams_are_cut_as_the_file_says() {
        let fragmentation = |lines: &str| {
            let offloads = OffloadSwitches::default();
            driver_config(&config(lines), offloads, 1).socket_routing.fragmentation
        };
        assert_eq!(fragmentation(""), Fragmentation::System);
        assert_eq!(fragmentation("mtu-disc no"), Fragmentation::Allowed);
        assert_eq!(fragmentation("mtu-disc maybe"), Fragmentation::ByPath);
        assert_eq!(fragmentation("mtu-disc yes"), Fragmentation::Forbidden);
    }

    #[test]
    fn a_pulling_client_binds_where_its_file_says() {
        assert_eq!(bound(""), None, "two clients on one machine are usual");
        assert_eq!(bound("nobind"), None);
        assert_eq!(bound("lport 0"), None);
        assert_eq!(bound("lport 4000"), Some(([0, 0, 0, 0], 4000).into()));
        assert_eq!(bound("bind"), Some(([0, 0, 0, 0], 1194).into()));
        assert_eq!(bound("local 192.0.2.9"), Some(([192, 0, 2, 9], 1194).into()));
    }
}
