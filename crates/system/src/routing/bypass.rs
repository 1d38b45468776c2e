//! The addresses that stay outside the tunnel, and their next hops.

use std::io;
use std::net::IpAddr;

use adit_core::{Report, Route, RouteVia, Severity, TunnelSettings};
use ipnet::IpNet;

use super::{Routing, failure, in_main, in_tunnel};
use crate::netlink::{KernelRoute, Whose};

/// The metric of a route that only counts when there is no other route to the server.
const LAST: u32 = 0xFFFF_FF00;

/// A route that keeps the tunnel's own datagrams out of the tunnel while there is no route to the server:
/// they would go round in it for ever.
fn fallback(server: IpAddr) -> KernelRoute {
    KernelRoute { destination: IpNet::from(server), gateway: None, device: None, metric: Some(LAST) }
}

pub(super) fn is_fallback(route: &KernelRoute) -> bool {
    route.metric == Some(LAST)
}

/// Whether a route into the tunnel would catch datagrams to `address`. (Not one of a table of our own, which
/// the tunnel's datagrams do not see.)
pub(super) fn is_caught(settings: &TunnelSettings, address: IpAddr) -> bool {
    let caught = |route: &Route| {
        let inward = match route.via {
            RouteVia::Tunnel => true,
            RouteVia::Gateway(gateway) => in_tunnel(settings, gateway),
            RouteVia::SystemGateway => false,
        };
        inward && route.destination.contains(&address)
    };
    in_main(settings, address) && settings.routes.iter().any(caught)
}

/// Whether there are bypass routes, for the tunnel's server or one of `bypassed`, or for others.
pub(super) fn has_bypass_routes(settings: &TunnelSettings, bypassed: &[IpAddr]) -> bool {
    let redirect = settings.redirect.unwrap_or_default();
    redirect.block_local
        || settings.server.iter().chain(bypassed).any(|server| is_caught(settings, *server))
        || settings.routes.iter().any(|route| route.via == RouteVia::SystemGateway)
}

impl Routing {
    /// The bypass routes, as the network is now.
    pub(super) fn bypass_routes(
        &mut self,
        settings: &TunnelSettings,
        reports: &mut Vec<Report>,
    ) -> Vec<KernelRoute> {
        let mut routes = Vec::new();
        let servers = settings.server.into_iter().chain(self.bypassed.clone());
        let redirect = settings.redirect.unwrap_or_default();
        // Blocking local networks would block the route to a server as well.
        let blocks = |server: &IpAddr| redirect.block_local && in_main(settings, *server);
        for server in servers.filter(|server| blocks(server) || is_caught(settings, *server)) {
            if routes.contains(&fallback(server)) {
                continue;
            }
            match self.next_hop(server) {
                Ok(NextHop::Local) => continue,
                Ok(NextHop::By(route)) => {
                    // A server on a connected network is reached by that network's own route.
                    let by_network = redirect.server_on_link && route.gateway.is_none();
                    if !by_network {
                        routes.push(to(server, &route));
                    }
                    if blocks(&server) {
                        self.block_local(&route, &mut routes, reports);
                    }
                    if by_network {
                        continue;
                    }
                }
                Ok(NextHop::None) => {
                    let none = io::Error::from_raw_os_error(libc::ENETUNREACH);
                    reports.push(failure(&format!("find a route to the server {server}"), &none));
                }
                Err(error) => reports.push(failure(&format!("find a route to the server {server}"), &error)),
            }
            routes.push(fallback(server));
        }
        if settings.redirect.is_some_and(|redirect| redirect.bypass_dns) {
            self.bypass_name_servers(settings, &mut routes);
        }
        self.system_gateways(settings, &mut routes, reports);
        routes
    }

    /// `net_gateway`: the default route that the system has beside the tunnel.
    fn system_gateways(
        &mut self,
        settings: &TunnelSettings,
        routes: &mut Vec<KernelRoute>,
        reports: &mut Vec<Report>,
    ) {
        let outward = settings.routes.iter().filter(|route| route.via == RouteVia::SystemGateway);
        for route in outward.filter(|route| in_main(settings, route.destination.addr())) {
            let destination = route.destination;
            match self.default_route(destination.addr()) {
                Ok(Some(KernelRoute { gateway, device, .. })) => {
                    routes.push(KernelRoute { destination, gateway, device, metric: route.metric });
                }
                Ok(None) => reports.push(Report {
                    severity: Severity::Error,
                    path: None,
                    text: format!(
                        "cannot route {destination} by net_gateway: the system has no default route of that \
                         address family; remove that route or add a default route"
                    ),
                }),
                Err(error) => reports.push(failure("find the system's default route", &error)),
            }
        }
    }

    /// `bypass-dns`: the name servers that the system had stay where they are.
    fn bypass_name_servers(&mut self, settings: &TunnelSettings, routes: &mut Vec<KernelRoute>) {
        for server in self.name_servers.clone() {
            let caught = !server.is_loopback() && is_caught(settings, server);
            if let (true, Ok(NextHop::By(route))) = (caught, self.next_hop(server))
                && route.gateway.is_some()
            {
                routes.push(to(server, &route));
            }
        }
    }

    /// `block-local`: the network that leads to the server goes into the tunnel, in two halves that win over
    /// its own route; but not its router.
    fn block_local(&mut self, route: &KernelRoute, routes: &mut Vec<KernelRoute>, reports: &mut Vec<Report>) {
        let Some(gateway) = route.gateway else { return };
        let connected = match self.netlink.routes(gateway, Whose::Others) {
            Ok(all) => all,
            Err(error) => return reports.push(failure("find the local networks", &error)),
        };
        routes.push(KernelRoute { destination: IpNet::from(gateway), gateway: None, ..route.clone() });
        for network in connected {
            let local = network.gateway.is_none() && network.device == route.device;
            let length = network.destination.prefix_len();
            if !local || length == 0 || is_link_local(network.destination.addr()) {
                continue;
            }
            for destination in network.destination.subnets(length.saturating_add(1)).into_iter().flatten() {
                let device = Some(self.device);
                routes.push(KernelRoute { destination, gateway: None, device, metric: None });
            }
        }
    }

    /// How the system reaches `address` without the tunnel and our own routes.
    fn next_hop(&mut self, address: IpAddr) -> io::Result<NextHop> {
        if self.netlink.next_hop(address).is_ok_and(|hop| hop.local) {
            return Ok(NextHop::Local);
        }
        let ours = |route: &KernelRoute| {
            route.device == Some(self.device) || self.routes.iter().any(|own| own.route.same_place(route))
        };
        let routes = self.netlink.routes(address, Whose::Others)?;
        let usable = routes.iter().filter(|route| {
            // A route by several ways at once names none here.
            let leads = route.device.is_some() || route.gateway.is_some();
            leads && route.destination.contains(&address) && !ours(route)
        });
        let best = usable.min_by_key(|route| {
            (std::cmp::Reverse(route.destination.prefix_len()), route.metric.unwrap_or(0))
        });
        if let Some(best) = best {
            return Ok(NextHop::By(best.clone()));
        }
        // Perhaps another table knows: rules may lead to one.
        match self.netlink.next_hop(address) {
            Ok(hop) if hop.device != self.device => Ok(NextHop::By(KernelRoute {
                destination: IpNet::from(address),
                gateway: hop.gateway,
                device: Some(hop.device),
                metric: None,
            })),
            _ => Ok(NextHop::None),
        }
    }

    fn default_route(&mut self, like: IpAddr) -> io::Result<Option<KernelRoute>> {
        let routes = self.netlink.routes(like, Whose::Others)?;
        let usable = |route: &&KernelRoute| {
            route.destination.prefix_len() == 0 && route.device.is_some_and(|device| device != self.device)
        };
        Ok(routes.iter().filter(usable).min_by_key(|route| route.metric.unwrap_or(0)).cloned())
    }
}

enum NextHop {
    /// The address is one of this machine's.
    Local,
    By(KernelRoute),
    None,
}

/// A route to that address alone, by the same next hop.
fn to(address: IpAddr, route: &KernelRoute) -> KernelRoute {
    KernelRoute {
        destination: IpNet::from(address),
        gateway: route.gateway,
        device: route.device,
        metric: None,
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address.is_multicast(),
    }
}
