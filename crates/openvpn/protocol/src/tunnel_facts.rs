//! Our end of the tunnel in the words of scripts (OpenVPN's manual, "Environmental Variables"; route.c, tun.c, dns.c).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_core::{IpNet, Ipv6Net, Redirect, Route, RouteVia, TunnelSettings};

use crate::dns::{DnsOptions, DnsServer};
use crate::environment::Environment;
use crate::params::ScriptParams;
use crate::request::{GatewayVariable, TunnelFacts};

/// The networks for which `redirect-gateway ipv6` stands: all that is in use of IPv6 (OpenVPN's init.c).
const ALL_IPV6: [(u16, u8); 4] = [(0, 3), (0x2000, 4), (0x3000, 4), (0xfc00, 7)];

/// The way of a route, as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hop {
    Tunnel,
    System,
    Address(IpAddr),
}

/// A route as it was asked for, with its metric.
pub(crate) type AskedRoute = (IpNet, Hop, Option<u32>);

/// The facts of our end for scripts, besides its settings.
pub(crate) struct Told<'a> {
    pub(crate) settings: &'a TunnelSettings,
    pub(crate) routes: Vec<AskedRoute>,
    pub(crate) redirect: Option<Redirect>,
    /// The gateway in the tunnel, if one was named.
    pub(crate) gateway: Option<Ipv4Addr>,
    pub(crate) peer_ipv6: Option<Ipv6Addr>,
    /// `dhcp-option`s.
    pub(crate) dhcp_options: Vec<String>,
    pub(crate) dns: &'a DnsOptions,
    /// `setenv-safe`.
    pub(crate) variables: &'a [(String, String)],
}

impl<'a> Told<'a> {
    /// Where nothing is pushed.
    pub(crate) fn by_file(
        settings: &'a TunnelSettings,
        scripts: &ScriptParams,
        none: &'a DnsOptions,
    ) -> Self {
        Told {
            settings,
            routes: settings.routes.iter().map(asked).collect(),
            redirect: settings.redirect,
            gateway: scripts.gateway,
            peer_ipv6: scripts.peer_ipv6,
            dhcp_options: scripts.dhcp_options.clone(),
            dns: none,
            variables: &[],
        }
    }

    /// The facts, with the variables of `scripts`.
    pub(crate) fn facts(self, scripts: &ScriptParams) -> TunnelFacts {
        let mut facts = TunnelFacts::default();
        let mut env = Environment::new(&scripts.env);
        self.addresses(&mut env, &mut facts);
        self.names(&mut env);
        self.variables.iter().for_each(|(name, value)| env.set(name, value));
        let mut routes = Environment::default();
        self.ipv4_routes(&mut routes, &mut facts.gateways);
        self.ipv6_routes(&mut routes, &mut facts.gateways);
        (facts.env, facts.routes) = (env.into_list(), routes.into_list());
        facts
    }

    fn peer_ipv4(&self) -> Option<IpAddr> {
        self.settings.peer_address.filter(IpAddr::is_ipv4)
    }

    fn addresses(&self, env: &mut Environment, facts: &mut TunnelFacts) {
        for address in &self.settings.addresses {
            match address {
                IpNet::V4(own) => {
                    facts.local = own.addr().to_string();
                    env.set("ifconfig_local", &facts.local);
                    let (name, other) = match self.peer_ipv4() {
                        Some(peer) => ("ifconfig_remote", peer.to_string()),
                        None => ("ifconfig_netmask", own.netmask().to_string()),
                    };
                    env.set(name, &other);
                    facts.remote = other;
                }
                IpNet::V6(own) => {
                    env.set("ifconfig_ipv6_local", &own.addr().to_string());
                    env.set("ifconfig_ipv6_netbits", &own.prefix_len().to_string());
                    if let Some(peer) = self.peer_ipv6 {
                        env.set("ifconfig_ipv6_remote", &peer.to_string());
                    }
                }
            }
        }
    }

    /// Sets the variables of `dhcp-option`s; where `dns` lines name a server, these lines take the place of
    /// `dhcp-option`s.
    fn names(&self, env: &mut Environment) {
        let mut options: Vec<String> = self.dhcp_options.clone();
        if self.dns.servers().next().is_some() {
            let addresses = self.dns.servers().flat_map(|server| &server.addresses);
            options = addresses.map(|(address, _)| format!("DNS {address}")).collect();
            options.extend(self.dns.search_domains().iter().map(|domain| format!("DOMAIN-SEARCH {domain}")));
        }
        for (number, option) in (1..).zip(options) {
            env.set(&format!("foreign_option_{number}"), &format!("dhcp-option {option}"));
        }
        for (number, domain) in (1..).zip(self.dns.search_domains()) {
            env.set(&format!("dns_search_domain_{number}"), domain);
        }
        for (place, server) in (1..).zip(self.dns.servers()) {
            name_server(place, server, env);
        }
    }

    fn ipv4_routes(&self, env: &mut Environment, gateways: &mut Vec<GatewayVariable>) {
        let routes = self.routes.iter().filter_map(|(to, hop, metric)| match to {
            IpNet::V4(to) => Some((*to, *hop, *metric)),
            IpNet::V6(_) => None,
        });
        let routes: Vec<_> = routes.collect();
        if routes.is_empty() && self.redirect.is_none() {
            return;
        }
        let own = self.gateway.map(IpAddr::V4).or(self.peer_ipv4());
        // As OpenVPN, where the system has none.
        env.append("route_net_gateway".to_owned(), Ipv4Addr::UNSPECIFIED.to_string());
        gateways.push(GatewayVariable { name: "route_net_gateway".to_owned(), ipv6: false });
        if let Some(gateway) = own {
            env.append("route_vpn_gateway".to_owned(), gateway.to_string());
        }
        for (number, (to, hop, metric)) in (1..).zip(routes) {
            env.append(format!("route_network_{number}"), to.network().to_string());
            env.append(format!("route_netmask_{number}"), to.netmask().to_string());
            let name = format!("route_gateway_{number}");
            match hop {
                Hop::System => gateways.push(GatewayVariable { name, ipv6: false }),
                Hop::Address(gateway) => env.append(name, gateway.to_string()),
                Hop::Tunnel => {
                    if let Some(gateway) = own {
                        env.append(name, gateway.to_string());
                    }
                }
            }
            if let Some(metric) = metric {
                env.append(format!("route_metric_{number}"), metric.to_string());
            }
        }
    }

    fn ipv6_routes(&self, env: &mut Environment, gateways: &mut Vec<GatewayVariable>) {
        let mut routes: Vec<(Ipv6Net, Hop, Option<u32>)> = Vec::new();
        for (to, hop, metric) in &self.routes {
            if let IpNet::V6(to) = to {
                routes.push((*to, *hop, *metric));
            }
        }
        if self.redirect.is_some_and(|redirect| redirect.ipv6) {
            let all = ALL_IPV6.iter().filter_map(|(first, length)| {
                Ipv6Net::new(Ipv6Addr::new(*first, 0, 0, 0, 0, 0, 0, 0), *length).ok()
            });
            routes.extend(all.map(|network| (network, Hop::Tunnel, None)));
        }
        if routes.is_empty() {
            return;
        }
        gateways.push(GatewayVariable { name: "net_gateway_ipv6".to_owned(), ipv6: true });
        for (number, (to, hop, metric)) in (1..).zip(routes) {
            env.append(format!("route_ipv6_network_{number}"), to.to_string());
            let name = format!("route_ipv6_gateway_{number}");
            match hop {
                Hop::System => gateways.push(GatewayVariable { name, ipv6: true }),
                Hop::Address(gateway) => env.append(name, gateway.to_string()),
                Hop::Tunnel => {
                    if let Some(gateway) = self.peer_ipv6 {
                        env.append(name, gateway.to_string());
                    }
                }
            }
            if let Some(metric) = metric {
                env.append(format!("route_ipv6_metric_{number}"), metric.to_string());
            }
        }
    }
}

/// One server of `dns` lines (OpenVPN dns.c `setenv_dns_options`).
fn name_server(place: usize, server: &DnsServer, env: &mut Environment) {
    let mut set = |what: String, value: &str| env.set(&format!("dns_server_{place}_{what}"), value);
    for (number, (address, port)) in (1..).zip(&server.addresses) {
        set(format!("address_{number}"), &address.to_string());
        if let Some(port) = port {
            set(format!("port_{number}"), &port.to_string());
        }
    }
    for (number, domain) in (1..).zip(&server.domains) {
        set(format!("resolve_domain_{number}"), domain);
    }
    let words = [("dnssec", server.dnssec), ("transport", server.transport), ("sni", server.sni.as_deref())];
    for (what, value) in words {
        if let Some(value) = value {
            set(what.to_owned(), value);
        }
    }
}

fn asked(route: &Route) -> AskedRoute {
    let hop = match route.via {
        RouteVia::Tunnel => Hop::Tunnel,
        RouteVia::SystemGateway => Hop::System,
        RouteVia::Gateway(gateway) => Hop::Address(gateway),
    };
    (route.destination, hop, route.metric)
}
