//! The tunnel that follows from the pushed options and from the file: for the operating system, and for
//! scripts.

use std::net::{IpAddr, Ipv4Addr};

use adit_core::{IpNet, Ipv4Net, Route, RouteVia, TunnelSettings};

use super::{Gateway, Pushed, Topology};
use crate::dns::DnsOptions;
use crate::params::{LocalSettings, ScriptParams};
use crate::request::TunnelFacts;
use crate::tunnel_facts::{Hop, Told};

impl Pushed {
    /// The tunnel as the operating system shall have it, with the settings of the file.
    pub(crate) fn settings(
        &self,
        local: &LocalSettings,
        route_nopull: bool,
        mtu: u16,
        server: IpAddr,
    ) -> TunnelSettings {
        let mut settings =
            TunnelSettings { mtu, server: Some(server), dns: local.dns.clone(), ..TunnelSettings::default() };
        settings.table = local.table;
        settings.redirect = local.redirect;
        settings.block_ipv6 = local.block_ipv6;
        let needed = |address: &&IpNet| match address {
            IpNet::V4(_) => self.ifconfig.is_none(),
            IpNet::V6(_) => self.ifconfig6.is_none(),
        };
        settings.addresses = local.addresses.iter().filter(needed).copied().collect();
        settings.peer_address = local.peer_address.filter(|_| self.ifconfig.is_none());
        settings.routes = self.routes_of_file(local, route_nopull);
        if let Some((address, second)) = self.ifconfig {
            self.add_ipv4(&mut settings, address, second);
        }
        if let Some(network) = self.ifconfig6 {
            settings.addresses.push(IpNet::V6(network));
        }
        if !route_nopull {
            let routes = self.routes.iter().map(|(destination, gateway, metric)| Route {
                destination: *destination,
                via: self.via(*gateway),
                metric: metric.or(self.route_metric).or(local.route_metric),
            });
            settings.routes.extend(routes);
            settings.redirect = self.redirect_gateway.or(settings.redirect);
            settings.block_ipv6 |= self.block_ipv6;
            self.dns.settle(&mut settings.dns, &self.dhcp);
        }
        settings
    }

    /// The facts of the pushed options, in the words of scripts. `settings` follow from these options.
    pub(crate) fn facts(
        &self,
        scripts: &ScriptParams,
        (local, settings): (&LocalSettings, &TunnelSettings),
        route_nopull: bool,
    ) -> TunnelFacts {
        let none = DnsOptions::default();
        let own = TunnelSettings { routes: self.routes_of_file(local, route_nopull), ..settings.clone() };
        let mut told = Told { settings, ..Told::by_file(&own, scripts, &none) };
        told.peer_ipv6 = self.peer_ipv6.or(told.peer_ipv6);
        // As in OpenVPN, `route-nopull` does not concern it.
        told.gateway = self.route_gateway.or(told.gateway);
        if !route_nopull {
            told.dhcp_options.extend(self.dhcp_options.iter().cloned());
            told.dns = &self.dns;
            told.routes.extend(self.routes.iter().map(|(to, gateway, metric)| {
                let hop = match gateway {
                    Gateway::Tunnel => Hop::Tunnel,
                    Gateway::System => Hop::System,
                    Gateway::Address(address) => Hop::Address(*address),
                };
                (*to, hop, metric.or(self.route_metric).or(local.route_metric))
            }));
        }
        told.variables = &self.variables;
        told.facts(scripts)
    }

    /// The file's routes. Those that have no metric of their own get the pushed one (OpenVPN's init.c, `do_init_route_list`).
    fn routes_of_file(&self, local: &LocalSettings, route_nopull: bool) -> Vec<Route> {
        let pushed = self.route_metric.filter(|_| !route_nopull);
        let metric_of = |route: &Route| match pushed {
            Some(_) if route.metric == local.route_metric && route.via != RouteVia::SystemGateway => pushed,
            _ => route.metric,
        };
        local.routes.iter().map(|route| Route { metric: metric_of(route), ..*route }).collect()
    }

    fn add_ipv4(&self, settings: &mut TunnelSettings, address: Ipv4Addr, second: Ipv4Addr) {
        let prefix = match self.topology {
            Topology::Subnet => ipnet::ipv4_mask_to_prefix(second).unwrap_or(32),
            Topology::PointToPoint => {
                settings.peer_address = Some(IpAddr::V4(second));
                32
            }
        };
        if let Ok(network) = Ipv4Net::new(address, prefix) {
            settings.addresses.push(IpNet::V4(network));
        }
    }

    fn via(&self, gateway: Gateway) -> RouteVia {
        let in_tunnel = |address: IpAddr| {
            let remote = match self.topology {
                Topology::PointToPoint => self.ifconfig.map(|(_, remote)| remote),
                Topology::Subnet => None,
            };
            self.route_gateway.map(IpAddr::V4) == Some(address)
                || remote.map(IpAddr::V4) == Some(address)
                || address.is_ipv6()
        };
        match gateway {
            Gateway::Tunnel => RouteVia::Tunnel,
            Gateway::System => RouteVia::SystemGateway,
            Gateway::Address(address) if in_tunnel(address) => RouteVia::Tunnel,
            Gateway::Address(address) => RouteVia::Gateway(address),
        }
    }
}
