//! The facts of an OpenVPN configuration that the host compares with those of other files.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use adit_core::{IpNet, Transport};
use adit_openvpn_config::{Config, Family, Listen, Log, ManagementAddress, Process, Role, ServerConfig};

use super::{forwarding, translate};
use adit_host::facts::{
    AddressFamily, DeviceTerms, Endpoint, EndpointRole, Facts, Lead, Resource, ResourceKind, Stated,
};
use adit_host::log::{LogPlace, LogSettings};

/// The rule for servers that have one device.
const RULE: &str = "servers with the same `dev` are endpoints of one tunnel, and must agree; correct one of them, or give it a \
                    device of its own";
/// The name that a device without a name is likely to have.
const FIRST_DEVICE: &str = "tun0";

/// The facts of a configuration.
pub(super) fn of(config: &Config) -> Facts {
    let device = config.device.name.as_deref().unwrap_or(FIRST_DEVICE);
    Facts {
        protocol: super::NAME,
        resources: resources(config),
        networks: networks(config),
        default_routes: default_routes(config),
        excludes_networks: false,
        process_settings: process_settings(&config.process),
        endpoint: endpoint(config),
        forwarding: forwarding::of(config, device),
        log: Stated::by(&["log-append", "log"], log(&config.process)),
    }
}

/// The settings of the log.
pub(super) fn log(process: &Process) -> LogSettings {
    let place = process.log.as_ref().map(|log| match log {
        Log::File { path, append } => LogPlace::File { path: path.clone(), append: *append },
        Log::Syslog(name) => LogPlace::System(name.clone()),
    });
    LogSettings { place, verb: process.verb, stamps: process.stamps, mute: process.mute }
}

fn resources(config: &Config) -> Vec<Stated<Resource>> {
    const ADDRESS: &[&str] = &["local", "port", "lport", "proto", "server", "remote"];
    let mut resources = Vec::new();
    if let Some(name) = &config.device.name {
        resources.push(Stated::by(&["dev"], ResourceKind::Device(name.clone()).shared()));
    }
    let address = |kind: ResourceKind| Stated::by(ADDRESS, kind.exclusive());
    match &config.role {
        Role::Server(server) => resources.extend(server.listen.iter().filter_map(listened).map(address)),
        Role::PointToPoint(point) => {
            resources.extend(point.listen.iter().filter_map(listened).map(address));
        }
        Role::Client(client) => {
            let bound = client.remotes.iter().filter(|remote| remote.transport == Transport::Udp);
            let bound = bound.filter_map(|remote| {
                let bind = remote.bind.filter(|bind| bind.port != 0)?;
                let own = bind.address.unwrap_or_else(|| unspecified(remote.family));
                Some(address(ResourceKind::Address(remote.transport, own, bind.port)))
            });
            // Several servers are reached from the same port, one after another.
            resources.extend(bound.take(1));
        }
    }
    resources.extend(files(&config.process));
    if let Role::Server(server) = &config.role
        && let Some(pool) = server.per_client.pool_file.as_ref().filter(|pool| pool.every.is_some())
    {
        let file = ResourceKind::File(absolute(&pool.path)).shared();
        resources.push(Stated::by(&["ifconfig-pool-persist"], file));
    }
    resources
}

fn files(process: &Process) -> Vec<Stated<Resource>> {
    let file = |path: &Path| ResourceKind::File(absolute(path)).exclusive();
    let management = match process.management.as_ref().map(|management| &management.address) {
        Some(ManagementAddress::Tcp(host, port)) if *port != 0 => {
            Some(ResourceKind::ManagementPort(host.clone(), *port).exclusive())
        }
        Some(ManagementAddress::Unix(path)) => Some(file(path)),
        Some(ManagementAddress::Tcp(..)) | None => None,
    };
    let management = management.map(|resource| Stated::by(&["management"], resource));
    let status = process.status.as_ref().map(|status| Stated::by(&["status"], file(&status.path)));
    let pid_file = process.pid_file.as_ref().map(|path| Stated::by(&["writepid"], file(path)));
    [management, status, pid_file].into_iter().flatten().collect()
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// `None` if the system chooses the port.
fn listened(listen: &Listen) -> Option<ResourceKind> {
    let address = listen.address.unwrap_or_else(|| unspecified(listen.family));
    (listen.port != 0).then_some(ResourceKind::Address(listen.transport, address, listen.port))
}

fn unspecified(family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Family::Any | Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

/// The networks of a server. A client gets its network from the server.
fn networks(config: &Config) -> Vec<Stated<IpNet>> {
    let Role::Server(server) = &config.role else { return Vec::new() };
    let v4 = server.ipv4.map(|own| Stated::by(&["server", "ifconfig"], IpNet::V4(own.address)));
    let v6 = server.ipv6.map(|own| Stated::by(&["server-ipv6", "ifconfig-ipv6"], IpNet::V6(own.address)));
    v4.into_iter().chain(v6).collect()
}

fn default_routes(config: &Config) -> Vec<Stated<AddressFamily>> {
    match &config.role {
        Role::Client(client) if client.redirect_gateway.is_some() => {
            vec![Stated::by(&["redirect-gateway"], AddressFamily::V4)]
        }
        _ => Vec::new(),
    }
}

/// The settings of the process, as far as a configuration has them.
fn process_settings(process: &Process) -> Vec<Stated<String>> {
    let syslog = match &process.log {
        Some(Log::Syslog(name)) => Some(name.clone().unwrap_or_default()),
        Some(Log::File { .. }) | None => None,
    };
    let nice = (process.nice != 0).then(|| process.nice.to_string());
    let all: [(&'static [&'static str], Option<String>); 4] = [
        (&["user"], process.user.clone()),
        (&["group"], process.group.clone()),
        (&["nice"], nice),
        (&["syslog", "daemon"], syslog),
    ];
    all.into_iter().filter_map(|(directives, value)| Some(Stated::by(directives, value?))).collect()
}

/// Servers with the same `dev` are endpoints of one tunnel.
fn endpoint(config: &Config) -> Option<Endpoint> {
    let Role::Server(server) = &config.role else { return None };
    let lead = Lead {
        terms: DeviceTerms {
            mtu: config.device.mtu,
            txqueuelen: translate::txqueuelen(config),
            client_to_client: server.client_to_client,
        },
        mtu_directives: &["tun-mtu", "dev"],
        addresses: Stated::by(&["server", "ifconfig", "server-ipv6", "ifconfig-ipv6"], addresses(server)),
        udp_ports: Stated::by(&["port", "lport", "proto"], udp_ports(server)),
        agreement: agreement(config, server),
        rule: RULE,
    };
    Some(Endpoint { device: config.device.name.clone()?, role: EndpointRole::Leads(lead) })
}

fn addresses(server: &ServerConfig) -> Vec<IpNet> {
    let v4 = server.ipv4.map(|own| IpNet::V4(own.address));
    let v6 = server.ipv6.map(|own| IpNet::V6(own.address));
    let mut addresses: Vec<IpNet> = v4.into_iter().chain(v6).collect();
    addresses.sort_unstable();
    addresses
}

fn udp_ports(server: &ServerConfig) -> Vec<u16> {
    let udp = server.listen.iter().filter(|listen| listen.transport == Transport::Udp);
    udp.map(|listen| listen.port).collect()
}

/// The settings that the device and the pool have once. Where none of the directives is there, the place is that of `dev`.
fn agreement(config: &Config, server: &ServerConfig) -> Vec<Stated<String>> {
    let flag = |on: bool, name: &str| if on { format!("`{name}`") } else { format!("no `{name}`") };
    vec![
        Stated::by(&["server", "ifconfig", "dev"], network(server)),
        Stated::by(&["server-ipv6", "ifconfig-ipv6", "dev"], network_v6(server)),
        Stated::by(&["ifconfig-pool", "server", "dev"], pool(server)),
        Stated::by(&["ifconfig-ipv6-pool", "server-ipv6", "dev"], pool_v6(server)),
        Stated::by(&["tun-mtu", "dev"], format!("the MTU {}", config.device.mtu)),
        Stated::by(&["txqueuelen", "dev"], format!("`txqueuelen {}`", translate::txqueuelen(config))),
        Stated::by(&["client-to-client", "dev"], flag(server.client_to_client, "client-to-client")),
        Stated::by(&["duplicate-cn", "dev"], flag(server.duplicate_cn, "duplicate-cn")),
    ]
}

fn network(server: &ServerConfig) -> String {
    server.ipv4.map_or("no IPv4 network".to_owned(), |own| format!("the server's address {}", own.address))
}

fn network_v6(server: &ServerConfig) -> String {
    server.ipv6.map_or("no IPv6 network".to_owned(), |own| format!("the server's address {}", own.address))
}

fn pool(server: &ServerConfig) -> String {
    let range = server.ipv4.and_then(|own| own.pool);
    range.map_or("no IPv4 pool".to_owned(), |(first, last)| format!("the pool {first} to {last}"))
}

fn pool_v6(server: &ServerConfig) -> String {
    let first = server.ipv6.and_then(|own| own.pool);
    first.map_or("no IPv6 pool".to_owned(), |first| format!("the pool from {first}"))
}

#[cfg(test)]
mod tests;
