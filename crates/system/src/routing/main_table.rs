//! Routes of the main table: those that the settings name, and the bypass routes. A route is replaced and removed only where an
//! adit set it, which its protocol number shows.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_core::{Report, Route, RouteVia, TunnelSettings};

use super::{Routing, failure, in_tunnel, taken};
use crate::mark::DEVICE_GROUP;
use crate::netlink::{KernelRoute, Whose};

/// A route of the main table that this tunnel set, or is to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MainRoute {
    pub(super) route: KernelRoute,
    pub(super) purpose: Purpose,
}

/// The purpose of a route of the main table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The settings name it: by the tunnel, or by a gateway wherever that is.
    Named,
    /// A bypass route, which follows the network ([`super::bypass`]).
    Bypass,
}

impl Routing {
    /// Adds the routes that are missing, then removes those that are not wanted any more.
    pub(super) fn set_routes(&mut self, wanted: Vec<MainRoute>, reports: &mut Vec<Report>) {
        let before = std::mem::take(&mut self.routes);
        for own in wanted {
            let route = &own.route;
            if self.routes.iter().any(|known| known.route == *route) {
                continue;
            }
            // One of ours in this place is replaced, whether the kernel still has it or not.
            let ours = before.iter().any(|old| old.route.same_place(route));
            let result = match route.device == Some(self.device) {
                _ if ours => self.netlink.replace_route(route),
                true => self.netlink.add_route(route),
                false => self.put(route),
            };
            match result {
                Ok(()) => self.routes.push(own),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match self.is_shared(route) {
                    true => self.routes.push(own),
                    false => reports.push(taken(route.destination)),
                },
                Err(error) => {
                    reports.push(failure(&format!("add the route to {}", route.destination), &error))
                }
            }
        }
        let is_kept = |old: &MainRoute| self.routes.iter().any(|new| new.route.same_place(&old.route));
        for old in before.iter().rev().filter(|old| !is_kept(old)) {
            let _ = self.netlink.remove_route(&old.route);
        }
    }

    /// The kernel's form of a route that the settings name; `None` for a bypass route.
    pub(super) fn named_route(&self, settings: &TunnelSettings, route: &Route) -> Option<KernelRoute> {
        let (gateway, device) = match route.via {
            RouteVia::SystemGateway => return None,
            RouteVia::Tunnel => (None, Some(self.device)),
            // Behind a TUN device there are no neighbours to ask for: a gateway there is the device.
            RouteVia::Gateway(gateway) if in_tunnel(settings, gateway) => (None, Some(self.device)),
            RouteVia::Gateway(gateway) => (Some(gateway), None),
        };
        Some(KernelRoute { destination: route.destination, gateway, device, metric: route.metric })
    }

    /// Sets a route that does not lead into the tunnel, in place of one that an adit set: this one, or one whose process
    /// was killed. Fails with `AlreadyExists` where another program's route is.
    pub(super) fn put(&mut self, route: &KernelRoute) -> io::Result<()> {
        match self.netlink.add_route(route) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.is_adits(route)? => {
                self.netlink.replace_route(route)
            }
            result => result,
        }
    }

    /// Whether the route in that place was set by an adit, and leads into no tunnel.
    fn is_adits(&mut self, route: &KernelRoute) -> io::Result<bool> {
        let tunnels = self.netlink.links_of_group(DEVICE_GROUP)?;
        let own = self.netlink.routes(route.destination.addr(), Whose::Adits)?;
        let leads_out = |there: &KernelRoute| !there.device.is_some_and(|device| tunnels.contains(&device));
        Ok(own.iter().any(|there| there.same_place(route) && leads_out(there)))
    }

    pub(super) fn main_routes(&mut self) -> Vec<KernelRoute> {
        let mut routes = Vec::new();
        for like in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
            routes.extend(self.netlink.routes(like, Whose::All).unwrap_or_default());
        }
        routes
    }

    /// Whether a route is left to the end of a device that other endpoints use.
    pub(super) fn goes_with_device(&self, route: &KernelRoute) -> bool {
        self.shares_device && route.device == Some(self.device)
    }

    /// Whether another endpoint of the tunnel has set that route.
    fn is_shared(&mut self, route: &KernelRoute) -> bool {
        let is_same = |there: &KernelRoute| there.same_place(route) && there.device == route.device;
        self.goes_with_device(route) && self.main_routes().iter().any(is_same)
    }
}
