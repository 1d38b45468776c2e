//! Routes to hosts by name.

use std::net::{IpAddr, ToSocketAddrs as _};

use adit_core::{IpNet, Route};
use adit_openvpn_config::NamedRoute;

/// Routes to the addresses that these hosts have now, while no route leads into the tunnel. As in OpenVPN, a name that
/// cannot be looked up costs its own route alone: a sentence reports it.
pub(crate) fn look_up(routes: &[NamedRoute]) -> (Vec<Route>, Vec<String>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for route in routes {
        let directive = if route.ipv6 { "route-ipv6" } else { "route" };
        match (route.host.as_str(), 0).to_socket_addrs() {
            Ok(addresses) => {
                let before = found.len();
                found.extend(addresses.filter_map(|address| to(route, address.ip())));
                if found.len() == before {
                    let family = if route.ipv6 { "IPv6" } else { "IPv4" };
                    missing.push(format!("{directive} {}: the host has no {family} address", route.host));
                }
            }
            Err(error) => missing.push(format!("{directive} {}: {error}", route.host)),
        }
    }
    (found, missing)
}

fn to(route: &NamedRoute, address: IpAddr) -> Option<Route> {
    let destination = IpNet::new(address, route.prefix).ok()?.trunc();
    (address.is_ipv6() == route.ipv6).then_some(Route { destination, via: route.via, metric: route.metric })
}

#[cfg(test)]
mod tests {
    use adit_core::RouteVia;

    use super::*;

    #[test]
    fn a_name_becomes_routes_of_its_family() {
        let route = |host: &str, prefix, ipv6| NamedRoute {
            host: host.to_owned(),
            ipv6,
            prefix,
            via: RouteVia::SystemGateway,
            metric: Some(7),
        };
        let (found, missing) = look_up(&[route("localhost", 16, false), route("nowhere.invalid", 32, false)]);
        assert!(found.iter().all(|route| route.destination.to_string() == "127.0.0.0/16"), "{found:?}");
        assert!(!found.is_empty() && found[0].metric == Some(7));
        assert!(missing.len() == 1 && missing[0].starts_with("route nowhere.invalid: "), "{missing:?}");
    }
}
