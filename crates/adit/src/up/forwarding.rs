//! Forwarding for the clients of a server, who reach networks beyond this machine (`#adit: forward`): the networks and ports of a
//! file, the helper that forwards, and the name servers that clients are given.

use std::net::IpAddr;
use std::path::Path;
use std::sync::OnceLock;

use adit_config::openvpn::{Config, Role};
use adit_config::wireguard;
use adit_core::{IpNet, Report, RouteVia, Severity, Transport};
use adit_io::{Forwarding, Helper, Policy};

use super::wireguard::allowed_ips;
use super::{Args, Failure, privileges};
use crate::configuration::{self, Dialect};
use crate::helper;
use crate::log::Logger;

/// The file that the C library reads (resolv.conf(5)), and the file in which systemd-resolved has the servers that it asks itself.
const RESOLV_CONF: [&str; 2] = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];
/// The most name servers that clients are given.
const MAX_NAME_SERVERS: usize = 3;

/// The forwarding of an OpenVPN server; `None`: it forwards nothing.
pub(super) fn of_openvpn(config: &Config, device: &str) -> Option<Forwarding> {
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

/// The forwarding of a WireGuard interface; `None`: it forwards nothing.
pub(super) fn of_wireguard(config: &wireguard::Config, device: &str) -> Option<Forwarding> {
    let interface = &config.interface;
    if interface.forward.is_empty() {
        return None;
    }
    let peers = allowed_ips(config).into_iter().filter(|net| net.prefix_len() > 0);
    let udp = interface.listen_port.filter(|port| *port != 0).map(|port| (Transport::Udp, port));
    let tcp = interface.listen_tcp.map(|address| (Transport::Tcp, address.port()));
    Some(Forwarding {
        device: device.to_owned(),
        networks: interface.addresses.iter().copied().chain(peers).collect(),
        destinations: interface.forward.clone(),
        ports: udp.into_iter().chain(tcp).collect(),
    })
}

/// The forwarding of one tunnel whose endpoints are these files; `None`: it forwards nothing.
pub(super) fn of_all<'a>(endpoints: impl Iterator<Item = (&'a Path, &'a Dialect)>) -> Option<Forwarding> {
    let all: Vec<Forwarding> = endpoints.filter_map(|(file, dialect)| of(dialect, file)).collect();
    let mut all = all.into_iter();
    let mut together = all.next()?;
    for one in all {
        together.networks.extend(one.networks);
        together.destinations.extend(one.destinations);
        together.ports.extend(one.ports);
    }
    Some(together)
}

/// The forwarding of a file's tunnel, with the name that its device has, or is likely to have.
fn of(dialect: &Dialect, file: &Path) -> Option<Forwarding> {
    match dialect {
        Dialect::OpenVpn(parsed) => {
            let device = parsed.config.device.name.as_deref().unwrap_or("tun0");
            of_openvpn(&parsed.config, device)
        }
        Dialect::WireGuard(parsed) => {
            let device = file.to_str().and_then(wireguard::interface_name).unwrap_or_default();
            of_wireguard(&parsed.config, device)
        }
    }
}

/// The lines of `adit check` about forwarding: the packets that a start would forward, the obstacles, and the name servers of
/// clients whose traffic all goes through this machine.
pub(crate) fn survey(dialect: &Dialect, file: &Path) -> Vec<String> {
    let reports = of(dialect, file).map(|forwarding| forwarding.survey()).unwrap_or_default();
    let line = |report: Report| match report.severity {
        Severity::Debug | Severity::Info => format!("{}: {}", file.display(), report.text),
        Severity::Warning | Severity::Error => format!("{}: {} (warning)", file.display(), report.text),
    };
    let mut lines: Vec<String> = reports.into_iter().map(line).collect();
    if let Dialect::OpenVpn(parsed) = dialect {
        lines.extend(told_name_servers(&parsed.config).map(|text| format!("{}: {text}", file.display())));
    }
    lines
}

/// The obstacles to the forwarding of a server's file, one line each; none if the file cannot be read.
pub(crate) fn obstacles(file: &Path) -> Vec<String> {
    let Ok(dialect) = configuration::read(file) else { return Vec::new() };
    let reports = of(&dialect, file).map(|forwarding| forwarding.survey()).unwrap_or_default();
    reports.into_iter().filter(|it| it.severity == Severity::Warning).map(|it| it.text).collect()
}

/// The name servers of clients whose traffic all goes through this machine, in words.
fn told_name_servers(config: &Config) -> Option<String> {
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

/// Starts the helper that forwards. When the helper ends, it takes back all that it changed.
pub(super) fn start(
    forwarding: Option<Forwarding>,
    device: &str,
    args: &Args,
    log: &mut Logger,
) -> Result<Option<Helper>, Failure> {
    let Some(mut forwarding) = forwarding else { return Ok(None) };
    device.clone_into(&mut forwarding.device);
    let policy =
        Policy { forwarding: Some(forwarding), without_sandbox: args.no_sandbox, ..Policy::default() };
    // The helper reads no configuration, so that its dialect does not matter.
    let started = privileges::start_helper(helper::Dialect::OpenVpn, policy, args.in_background);
    let mut helper = started.map_err(Failure::World)?;
    helper.reports().into_iter().for_each(|report| log.log(report.severity, report));
    Ok(Some(helper))
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

/// The name servers that this machine asks and that others can ask through it.
pub(crate) fn name_servers() -> Vec<IpAddr> {
    let of = |path: &str| reachable(&std::fs::read_to_string(path).unwrap_or_default());
    RESOLV_CONF.into_iter().map(of).find(|found| !found.is_empty()).unwrap_or_default()
}

/// The name servers of a resolv.conf(5), without those that other machines cannot reach; at most [`MAX_NAME_SERVERS`].
fn reachable(text: &str) -> Vec<IpAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        let address = words.next().filter(|word| *word == "nameserver").and_then(|_| words.next())?;
        let address: IpAddr = address.parse().ok()?;
        let is_link_local = match address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        (!address.is_loopback() && !address.is_unspecified() && !is_link_local).then_some(address)
    };
    text.lines().filter_map(server).take(MAX_NAME_SERVERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_that_others_cannot_reach_are_left_out() {
        let text = "# a\nnameserver 127.0.0.53\nnameserver ::1\nnameserver fe80::1%eth0\nnameserver fe80::1\nsearch x\n\
                    nameserver 192.0.2.53\nnameserver 2001:db8::53 # b\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n";
        let expected = ["192.0.2.53", "2001:db8::53", "10.0.0.2"].map(|text| text.parse::<IpAddr>());
        assert_eq!(reachable(text).into_iter().map(Ok).collect::<Vec<_>>(), expected);
    }
}
