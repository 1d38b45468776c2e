//! The settings in a file of its own end of the tunnel: addresses, routes, name servers.

use std::net::{IpAddr, Ipv6Addr};

use adit_core::{Dns, IpNet, Ipv4Net, Ipv6Net, RouteTable};
use adit_openvpn::params::LocalSettings;
use adit_openvpn_config as file;
use adit_openvpn_config::{ClientConfig, Config, PointToPointConfig};

use super::client_options;
use super::script_facts::script_params;

/// The settings in the file itself of the client's end of the tunnel.
pub(crate) fn local_settings(config: &Config, client: &ClientConfig) -> LocalSettings {
    let (addresses, peer_address) = own_addresses(client.ipv4, client.ipv6);
    LocalSettings {
        routes: config.routes.clone(),
        table: route_table(config),
        redirect: client.redirect_gateway.map(client_options::redirect),
        block_ipv6: client.block_ipv6,
        dns: client.dns.clone(),
        addresses,
        peer_address,
        route_metric: client.route_metric,
        untold: config.device.ifconfig_nowarn,
        scripts: script_params(config, client.ipv6.map(|(_, peer)| peer), &client.dns),
    }
}

/// The settings in the file of the waiting end of a point-to-point tunnel.
pub(crate) fn point_to_point_settings(config: &Config, point: &PointToPointConfig) -> LocalSettings {
    let (addresses, peer_address) = own_addresses(point.ipv4, point.ipv6);
    LocalSettings {
        routes: config.routes.clone(),
        table: route_table(config),
        addresses,
        peer_address,
        untold: config.device.ifconfig_nowarn,
        scripts: script_params(config, point.ipv6.map(|(_, peer)| peer), &Dns::default()),
        ..LocalSettings::default()
    }
}

/// `route-table`.
pub(super) fn route_table(config: &Config) -> RouteTable {
    /// linux/rtnetlink.h `RT_TABLE_MAIN`.
    const MAIN: u32 = 254;
    config.device.route_table.filter(|table| *table != MAIN).map_or(RouteTable::Main, RouteTable::Number)
}

/// Our addresses, and the other end's, as `ifconfig` and `ifconfig-ipv6` say.
fn own_addresses(
    ipv4: Option<file::StaticIpv4>,
    ipv6: Option<(Ipv6Net, Ipv6Addr)>,
) -> (Vec<IpNet>, Option<IpAddr>) {
    let (address4, peer_address) = match ipv4 {
        None => (None, None),
        Some(file::StaticIpv4::Subnet(network)) => (Some(network), None),
        Some(file::StaticIpv4::PointToPoint { local, peer }) => {
            (Ipv4Net::new(local, 32).ok(), Some(IpAddr::V4(peer)))
        }
    };
    let address6 = ipv6.map(|(network, _)| IpNet::V6(network));
    (address4.map(IpNet::V4).into_iter().chain(address6).collect(), peer_address)
}
