//! The settings that the system is to have for a tunnel: routes to the networks behind the peers.

use std::collections::BTreeSet;
use std::net::IpAddr;

use adit_core::{IpNet, Redirect, Route, RouteVia, TunnelSettings};
use adit_ike::machine::Connection;
use adit_ike::suite::Algorithms;
use adit_ike::wire::TransformType;

use crate::translate::Planned;

/// The MTU of a path that is not known.
const USUAL_MTU: u32 = 1500;
/// Bytes around a packet with an AEAD, at most: IPv6 (40), UDP (8), SPI and sequence number (8), initialization vector (8), padding
/// (3), its length and the next header (2), tag (16).
const AROUND_AEAD: u32 = 85;
/// Bytes around a packet with CBC and HMAC-SHA2-512-256, at most: IPv6 (40), UDP (8), SPI and sequence number (8), initialization
/// vector (16), padding (15), its length and the next header (2), tag (32).
const AROUND_CBC: u32 = 121;
/// The bytes of IPv4 and TCP headers in a packet, without options (RFC 9293 section 3.7.1).
pub(crate) const IPV4_AND_TCP: u16 = 40;
/// The least MTU that IPv6 allows (RFC 8200 section 5).
const LEAST_MTU: u32 = 1280;

/// The MTU of the device in bytes: what is left of the path to the peers with any proposal of the connections.
pub(crate) fn mtu(planned: &[Planned], path: Option<u32>) -> u16 {
    let children = planned.iter().flat_map(|planned| &planned.connection.children);
    let has_cbc = children.flat_map(|child| &child.esp).any(has_cbc);
    let around = if has_cbc { AROUND_CBC } else { AROUND_AEAD };
    let left = path.unwrap_or(USUAL_MTU).saturating_sub(around).max(LEAST_MTU);
    u16::try_from(left).unwrap_or(u16::MAX)
}

/// The settings for these connections, whose peers have these addresses. `addresses` are those of the device.
pub(crate) fn settings(
    planned: &[Planned],
    connections: &[Connection],
    addresses: Vec<IpNet>,
    mtu: u16,
) -> TunnelSettings {
    let by_policy = || planned.iter().filter(|planned| planned.is_policy_based());
    let fixed = by_policy().filter(|planned| !planned.asks_for_addresses());
    let pools = by_policy().flat_map(|planned| &planned.pool_networks).copied();
    let networks = once_each(fixed.flat_map(Planned::remote_networks).chain(pools));
    let (all, some): (Vec<IpNet>, _) = networks.into_iter().partition(|network| network.prefix_len() == 0);
    let has = |is_ipv4| all.iter().any(|network| network.addr().is_ipv4() == is_ipv4);
    let redirect = Redirect { ipv4: has(true), ipv6: has(false), ..Redirect::default() };
    let redirect = (redirect.ipv4 || redirect.ipv6).then_some(redirect);
    let route = |destination| Route { destination, via: RouteVia::Tunnel, metric: None };
    TunnelSettings {
        addresses,
        mtu,
        server: caught(connections, &some),
        routes: some.into_iter().map(route).collect(),
        guards_addresses: redirect.is_some(),
        redirect,
        ..TunnelSettings::default()
    }
}

/// The single addresses behind the peers that get none of a pool: a pool of the tunnel leases none of them.
pub(crate) fn hosts(planned: &[Planned]) -> BTreeSet<IpAddr> {
    let has_own = |planned: &&Planned| {
        planned.is_policy_based() && planned.pool_networks.is_empty() && !planned.asks_for_addresses()
    };
    let networks = planned.iter().filter(has_own).flat_map(Planned::remote_networks);
    networks.filter(|net| net.prefix_len() == net.max_prefix_len()).map(|net| net.addr()).collect()
}

/// The address of a peer that a route into the tunnel would catch, or else the first address of a peer.
fn caught(connections: &[Connection], routes: &[IpNet]) -> Option<IpAddr> {
    let mut peers = peer_addresses(connections);
    let first = peers.clone().next();
    peers.find(|peer| routes.iter().any(|route| route.contains(peer))).or(first)
}

/// The outer addresses of peers.
pub(crate) fn peer_addresses(connections: &[Connection]) -> impl Iterator<Item = IpAddr> + Clone {
    connections.iter().flat_map(|connection| &connection.remotes).map(|remote| remote.ip().to_canonical())
}

/// Whether a proposal has a cipher that is no AEAD: such a proposal has integrity algorithms.
fn has_cbc(proposal: &Algorithms) -> bool {
    let transforms = proposal.to_wire(1, &[]).transforms;
    transforms.iter().any(|transform| transform.kind == TransformType::INTEGRITY)
}

fn once_each(networks: impl Iterator<Item = IpNet>) -> Vec<IpNet> {
    networks.fold(Vec::new(), |mut all, network| {
        if !all.contains(&network) {
            all.push(network);
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;
    use crate::testing::planned;

    fn of(connection: &str, child: &str) -> TunnelSettings {
        let planned = planned(connection, child);
        let connections = names::with_stand_ins(&planned);
        settings(&planned, &connections, Vec::new(), mtu(&planned, None))
    }

    #[test]
    fn routes_lead_to_the_networks_behind_the_peers_and_all_traffic_goes_into_a_full_tunnel() {
        let split = of("", "remote_ts = 10.2.0.0/16, 10.2.0.0/16, fd00:2::/64, 10.3.0.1-10.3.0.2");
        let routes: Vec<String> = split.routes.iter().map(|route| route.destination.to_string()).collect();
        assert_eq!(routes, ["10.2.0.0/16", "fd00:2::/64", "10.3.0.1/32", "10.3.0.2/32"]);
        assert_eq!((split.redirect, split.server), (None, Some(IpAddr::from([192, 0, 2, 1]))));
        let full = of("", "remote_ts = 0.0.0.0/0, 10.2.0.0/16");
        let redirect = full.redirect.expect("all of IPv4");
        assert_eq!(
            (redirect.ipv4, redirect.ipv6, full.guards_addresses, full.routes.len()),
            (true, false, true, 1)
        );
    }

    #[test]
    fn what_an_inner_address_comes_with_is_not_there_before_it() {
        let asks = of("vips = 0.0.0.0", "remote_ts = 0.0.0.0/0, 10.2.0.0/16");
        assert_eq!((asks.redirect, asks.routes.len(), asks.guards_addresses), (None, 0, false));
    }

    #[test]
    fn a_connection_with_a_device_of_its_own_has_no_routes() {
        let own = of("", "remote_ts = 0.0.0.0/0, 10.2.0.0/16\n policies = no");
        assert_eq!((own.redirect, own.routes.len(), own.guards_addresses), (None, 0, false));
        assert_eq!(hosts(&planned("", "remote_ts = 10.2.0.1/32\n policies = no")).len(), 0);
    }

    #[test]
    fn the_peer_that_a_route_would_catch_stays_outside_of_the_tunnel() {
        let caught = of("remote_addrs = 198.51.100.1, 192.0.2.9", "remote_ts = 192.0.2.0/24");
        assert_eq!(caught.server, Some(IpAddr::from([192, 0, 2, 9])));
    }

    #[test]
    fn the_mtu_is_what_the_path_leaves_with_the_longest_form_of_esp() {
        let of = |esp: &str, path| mtu(&planned("", &format!("esp_proposals = {esp}")), path);
        assert_eq!(of("aes256gcm16", None), 1415);
        assert_eq!(of("aes256gcm16,aes256-sha512", None), 1379);
        assert_eq!(of("aes256gcm16", Some(9000)), 8915);
        assert_eq!(of("aes256gcm16", Some(576)), 1280);
    }
}
