//! The facts of a WireGuard file that the host compares with those of other files.

use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

use adit_core::{IpNet, Transport};
use adit_wireguard::AllowedIp;
use adit_wireguard_config::{Config, Interface, Table, interface_name};

use super::forwarding;
use adit_host::facts::{AddressFamily, Endpoint, EndpointRole, Facts, Join, Resource, ResourceKind, Stated};

/// The facts of a file.
pub(super) fn of(file: &Path, config: &Config) -> Facts {
    let device = file.to_str().and_then(interface_name).unwrap_or_default();
    let addresses = &config.interface.addresses;
    Facts {
        protocol: super::NAME,
        resources: resources(device, &config.interface),
        networks: addresses.iter().map(|address| Stated::by(&["Address"], *address)).collect(),
        default_routes: default_routes(config),
        excludes_networks: true,
        endpoint: Some(Endpoint {
            device: device.to_owned(),
            role: EndpointRole::Joins(join(&config.interface)),
        }),
        forwarding: forwarding::of(config, device),
        ..Facts::default()
    }
}

fn resources(device: &str, interface: &Interface) -> Vec<Stated<Resource>> {
    // The name of the file is the name of the device.
    let device = Stated::by(&[], ResourceKind::Device(device.to_owned()).shared());
    let all = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let udp = interface.listen_port.filter(|port| *port != 0).map(|port| {
        Stated::by(&["ListenPort"], ResourceKind::Address(Transport::Udp, all, port).exclusive())
    });
    let tcp = interface.listen_tcp.map(|address| {
        let address = ResourceKind::Address(Transport::Tcp, address.ip(), address.port());
        Stated::by(&["listen-tcp"], address.exclusive())
    });
    std::iter::once(device).chain(udp).chain(tcp).collect()
}

fn default_routes(config: &Config) -> Vec<Stated<AddressFamily>> {
    if config.interface.table != Table::Auto {
        return Vec::new();
    }
    let all = |family: AddressFamily| {
        config.peers.iter().flat_map(|peer| &peer.allowed_ips).any(|change| match change {
            AllowedIp::Add(net) => {
                net.prefix_len() == 0 && net.addr().is_ipv4() == (family == AddressFamily::V4)
            }
            AllowedIp::Remove(_) => false,
        })
    };
    let families = [AddressFamily::V6, AddressFamily::V4].into_iter().filter(|family| all(*family));
    families.map(|family| Stated::by(&["AllowedIPs"], family)).collect()
}

/// An interface whose name is the device of a tunnel is an endpoint of that tunnel.
fn join(interface: &Interface) -> Join {
    let mut addresses = interface.addresses.clone();
    addresses.sort_unstable();
    let list = |all: &[IpNet]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let addresses_text = match addresses.is_empty() {
        true => "no `Address`".to_owned(),
        false => format!("`Address = {}`", list(&addresses)),
    };
    let marked = interface.fwmark.is_some_and(|mark| mark != 0);
    Join {
        addresses: Some(Stated::by(&["Address"], addresses)),
        addresses_text,
        mtu: interface.mtu.map(|mtu| Stated::by(&["MTU"], mtu)),
        marked_port: interface.listen_port.filter(|_| marked).map(|port| Stated::by(&["FwMark"], port)),
    }
}

#[cfg(test)]
mod tests;
