//! The forwarding of an OpenVPN server (`#adit: forward`), and the name servers that its clients are given.

use std::net::IpAddr;
use std::sync::OnceLock;

use adit_core::{IpNet, RouteVia};
use adit_openvpn_config::{Config, Role};
use adit_system::Forwarding;

use adit_host::forwarding::name_servers;

/// The forwarding of an OpenVPN server; `None`: it forwards nothing.
pub(crate) fn of(config: &Config, device: &str) -> Option<Forwarding> {
    let Role::Server(server) = &config.role else { return None };
    if server.forward.is_empty() {
        return None;
    }
    let own = server.ipv4.map(|own| IpNet::V4(own.address)).into_iter();
    let own = own.chain(server.ipv6.map(|own| IpNet::V6(own.address)));
    // Networks behind clients (`iroute`) have a route into the tunnel.
    let behind = config.routes.iter().filter(|route| match route.via {
        RouteVia::Tunnel => true,
        RouteVia::Gateway(gateway) => own.clone().any(|net| net.contains(&gateway)),
        RouteVia::SystemGateway => false,
    });
    Some(Forwarding {
        device: device.to_owned(),
        networks: own.clone().chain(behind.map(|route| route.destination)).collect(),
        destinations: server.forward.clone(),
        ports: server.listen.iter().map(|listen| (listen.transport, listen.port)).collect(),
    })
}

/// The name servers of clients whose traffic all goes through this machine, in words.
pub(crate) fn told_name_servers(config: &Config) -> Option<String> {
    let Role::Server(server) = &config.role else { return None };
    if !server.forward.iter().any(|net| net.prefix_len() == 0) {
        return None;
    }
    let names =
        server.push.iter().filter_map(|option| match option.split_whitespace().collect::<Vec<_>>()[..] {
            ["dhcp-option", "DNS" | "DNS6", address] => Some(address.to_owned()),
            ["dns", "server", _, "address", ..] => Some(option.clone()),
            _ => None,
        });
    let names = names.collect::<Vec<_>>().join(", ");
    Some(match names.is_empty() {
        false => format!("clients are told the name servers {names}"),
        true => "clients are told no name server: this machine's own cannot be reached by others; add `push \"dhcp-option \
                 DNS ADDRESS\"` (warning)"
            .to_owned(),
    })
}

/// Pushes this machine's name servers to the clients of an OpenVPN server, if all traffic of the clients goes through this machine
/// and the file names no name server. A file that is read again gets the name servers of the start, as the process that reads it
/// again opens no other file.
pub(crate) fn push_name_servers(config: &mut Config) {
    static OF_THE_START: OnceLock<Vec<IpAddr>> = OnceLock::new();
    let Role::Server(server) = &mut config.role else { return };
    let names = |option: &String| {
        let words: Vec<&str> = option.split_whitespace().collect();
        matches!(words[..], ["dhcp-option", "DNS" | "DNS6", ..] | ["dns", "server", ..])
    };
    if !server.forward.iter().any(|net| net.prefix_len() == 0) || server.push.iter().any(names) {
        return;
    }
    let found = OF_THE_START.get_or_init(name_servers);
    server.push.extend(found.iter().map(|address| format!("dhcp-option {} {address}", dhcp_option(address))));
}

/// The type of the `dhcp-option` that pushes a name server.
pub(crate) fn dhcp_option(address: &IpAddr) -> &'static str {
    if address.is_ipv6() { "DNS6" } else { "DNS" }
}
