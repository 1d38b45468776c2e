//! Addresses of both ends, places to listen, and routes.

use std::net::{Ipv4Addr, Ipv6Addr};

use adit_core::{IpNet, Ipv4Net, Ipv6Net, Route, RouteVia, Transport};

use super::Out;
use crate::model::*;

pub(crate) fn protocol(transport: Transport, family: Family) -> &'static str {
    match (transport, family) {
        (Transport::Udp | Transport::Ip(_), Family::Any) => "udp",
        (Transport::Udp | Transport::Ip(_), Family::V4) => "udp4",
        (Transport::Udp | Transport::Ip(_), Family::V6) => "udp6",
        (Transport::Tcp, Family::Any) => "tcp",
        (Transport::Tcp, Family::V4) => "tcp4",
        (Transport::Tcp, Family::V6) => "tcp6",
    }
}

/// `ifconfig` and `ifconfig-ipv6`.
pub(crate) fn print_addresses(out: &mut Out, ipv4: Option<StaticIpv4>, ipv6: Option<(Ipv6Net, Ipv6Addr)>) {
    match ipv4 {
        None => {}
        Some(StaticIpv4::Subnet(net)) => {
            out.one("topology", "subnet");
            print_ifconfig(out, net);
        }
        Some(StaticIpv4::PointToPoint { local, peer }) => {
            out.line("ifconfig", &[local.to_string(), peer.to_string()]);
        }
    }
    if let Some((net, peer)) = ipv6 {
        out.line("ifconfig-ipv6", &[net.to_string(), peer.to_string()]);
    }
}

pub(crate) fn print_ifconfig(out: &mut Out, net: Ipv4Net) {
    out.line("ifconfig", &[net.addr().to_string(), net.netmask().to_string()]);
}

/// OpenVPN 2.6 knows one place to listen; 2.7 knows several, with a port and a protocol each.
pub(crate) fn print_listen(out: &mut Out, listen: &[Listen]) {
    if let [Listen { address, port, transport, family }] = listen {
        out.one("port", port);
        out.one("proto", protocol(*transport, *family));
        if let Some(address) = address {
            out.one("local", address);
        }
        return;
    }
    for Listen { address, port, transport, family } in listen {
        let address = address.map_or("*".to_string(), |address| address.to_string());
        out.line("local", &[&address, &port.to_string(), protocol(*transport, *family)]);
    }
}

pub(crate) fn print_route(out: &mut Out, route: &Route) {
    let (name, mut words) = match route.destination {
        IpNet::V4(net) => ("route", vec![net.addr().to_string(), net.netmask().to_string()]),
        IpNet::V6(net) => ("route-ipv6", vec![net.to_string()]),
    };
    let via = gateway(route.via);
    if route.metric.is_some() || route.via != RouteVia::Tunnel {
        words.push(via);
    }
    words.extend(route.metric.map(|metric| metric.to_string()));
    out.line(name, &words);
}

pub(crate) fn print_named_route(out: &mut Out, route: &NamedRoute) {
    let mut words = vec![route.host.clone()];
    let name = if route.ipv6 {
        "route-ipv6"
    } else {
        words.push(ipv4_mask(route.prefix).to_string());
        "route"
    };
    words.push(gateway(route.via));
    words.extend(route.metric.map(|metric| metric.to_string()));
    out.line(name, &words);
}

/// The netmask of that many ones.
fn ipv4_mask(prefix: u8) -> Ipv4Addr {
    Ipv4Addr::from(u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0))
}

fn gateway(via: RouteVia) -> String {
    match via {
        RouteVia::Tunnel => "vpn_gateway".to_string(),
        RouteVia::SystemGateway => "net_gateway".to_string(),
        RouteVia::Gateway(address) => address.to_string(),
    }
}
