//! Tunnel settings applied to the system, and taken back.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_core::{RedirectGateway, Report, Route, RouteVia, Severity, TunnelSettings};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::netlink::{KernelRoute, Netlink, NextHop};

/// What was done and is to be undone.
#[derive(Debug)]
enum Done {
    Address(IpNet, Option<IpAddr>),
    Route(KernelRoute),
}

/// The system's addresses and routes as far as this tunnel changed them. What was changed is changed back
/// when this value is dropped.
#[derive(Debug)]
pub struct Routing {
    netlink: Netlink,
    device: u32,
    name: String,
    applied: Option<TunnelSettings>,
    done: Vec<Done>,
}

impl Routing {
    /// For the TUN device `name`, in the network namespace of the caller.
    pub fn new(name: &str) -> io::Result<Routing> {
        let mut netlink = Netlink::open()?;
        let device = netlink.link(name)?.index;
        Ok(Routing { netlink, device, name: name.to_owned(), applied: None, done: Vec::new() })
    }

    /// Sets how many packets wait in the device before it drops.
    pub fn set_txqueuelen(&mut self, packets: u32) -> io::Result<()> {
        self.netlink.set_txqueuelen(self.device, packets)
    }

    /// Packets that the device's queue dropped because it was full; 0 if the kernel does not say.
    pub fn tx_dropped(&mut self) -> u64 {
        self.netlink.link(&self.name).map(|link| link.tx_dropped).unwrap_or(0)
    }

    /// Makes the system look as `settings` say, instead of what was applied before. Goes on after a
    /// failure; gives a report for each.
    pub fn apply(&mut self, settings: &TunnelSettings) -> Vec<Report> {
        let mut reports = Vec::new();
        if self.applied.as_ref() == Some(settings) {
            return reports;
        }
        self.undo();
        // Asked before anything changes, for afterwards the answer may be the tunnel itself.
        let around = self.ways_around(settings, &mut reports);
        self.set_device(settings, &mut reports);
        for route in around {
            self.add(route, &mut reports);
        }
        for route in &settings.routes {
            if let Some(route) = self.tunnel_route(settings, route) {
                self.add(route, &mut reports);
            }
        }
        if let Some(redirect) = &settings.redirect_gateway {
            for destination in redirect_destinations(redirect) {
                let device = Some(self.device);
                self.add(KernelRoute { destination, gateway: None, device, metric: None }, &mut reports);
            }
            warn_unsupported(redirect, &mut reports);
        }
        self.applied = Some(settings.clone());
        reports
    }

    /// Takes back what `apply` did, the last first. What is gone already is no error.
    pub fn undo(&mut self) {
        while let Some(done) = self.done.pop() {
            // Nothing can be done about a failure here: the kernel refuses to remove only what someone
            // else has changed since.
            let _ = match done {
                Done::Address(address, peer) => self.netlink.remove_address(self.device, address, peer),
                Done::Route(route) => self.netlink.remove_route(&route),
            };
        }
        self.applied = None;
    }

    fn set_device(&mut self, settings: &TunnelSettings, reports: &mut Vec<Report>) {
        if settings.mtu != 0 {
            let result = self.netlink.set_mtu(self.device, u32::from(settings.mtu));
            note(result, &format!("set the MTU of {} to {}", self.name, settings.mtu), reports);
        }
        for address in &settings.addresses {
            let peer = settings.peer_address.filter(|peer| peer.is_ipv4() == address.addr().is_ipv4());
            let result = self.netlink.add_address(self.device, *address, peer);
            if result.is_ok() {
                self.done.push(Done::Address(*address, peer));
            }
            note(result, &format!("give {} the address {address}", self.name), reports);
        }
        let result = self.netlink.set_up(self.device, true);
        note(result, &format!("take {} up", self.name), reports);
    }

    /// The routes that keep something outside the tunnel.
    fn ways_around(&mut self, settings: &TunnelSettings, reports: &mut Vec<Report>) -> Vec<KernelRoute> {
        let mut routes = Vec::new();
        if let Some(server) = settings.server.filter(|server| needs_way_around(settings, *server)) {
            match self.netlink.next_hop(server) {
                Ok(hop) => routes.extend(self.server_route(settings, server, &hop)),
                Err(error) => reports.push(failure(&format!("find the way to the server {server}"), &error)),
            }
        }
        for route in settings.routes.iter().filter(|route| route.via == RouteVia::SystemGateway) {
            let destination = route.destination;
            match self.netlink.default_route(destination.addr(), self.device) {
                Ok(Some(NextHop { gateway, device, .. })) => {
                    let device = Some(device);
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
        routes
    }

    fn server_route(&self, settings: &TunnelSettings, server: IpAddr, hop: &NextHop) -> Option<KernelRoute> {
        let autolocal = settings.redirect_gateway.is_some_and(|redirect| redirect.autolocal);
        if hop.local || hop.device == self.device || (autolocal && hop.gateway.is_none()) {
            return None;
        }
        let destination = IpNet::from(server);
        Some(KernelRoute { destination, gateway: hop.gateway, device: Some(hop.device), metric: None })
    }

    /// The kernel's form of a route into the tunnel.
    fn tunnel_route(&self, settings: &TunnelSettings, route: &Route) -> Option<KernelRoute> {
        let (gateway, device) = match route.via {
            RouteVia::SystemGateway => return None,
            RouteVia::Tunnel => (None, Some(self.device)),
            // Behind a TUN device there are no neighbours to ask for: a gateway there is the device.
            RouteVia::Gateway(gateway) if in_tunnel(settings, gateway) => (None, Some(self.device)),
            RouteVia::Gateway(gateway) => (Some(gateway), None),
        };
        Some(KernelRoute { destination: route.destination, gateway, device, metric: route.metric })
    }

    fn add(&mut self, route: KernelRoute, reports: &mut Vec<Report>) {
        match self.netlink.add_route(&route) {
            Ok(()) => self.done.push(Done::Route(route)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => reports.push(Report {
                severity: Severity::Warning,
                path: None,
                text: format!(
                    "the system has a route to {} already, which stays: traffic to it may not go into the \
                     tunnel",
                    route.destination
                ),
            }),
            Err(error) => reports.push(failure(&format!("add the route to {}", route.destination), &error)),
        }
    }
}

impl Drop for Routing {
    fn drop(&mut self) {
        self.undo();
    }
}

fn in_tunnel(settings: &TunnelSettings, gateway: IpAddr) -> bool {
    settings.peer_address == Some(gateway)
        || settings.addresses.iter().any(|address| address.contains(&gateway))
}

/// Whether a route into the tunnel would catch the tunnel's own datagrams to `server`.
fn needs_way_around(settings: &TunnelSettings, server: IpAddr) -> bool {
    let redirected = settings.redirect_gateway.is_some_and(|redirect| {
        !redirect.local && if server.is_ipv4() { redirect.ipv4 } else { redirect.ipv6 }
    });
    let caught = |route: &Route| {
        let inward = match route.via {
            RouteVia::Tunnel => true,
            RouteVia::Gateway(gateway) => in_tunnel(settings, gateway),
            RouteVia::SystemGateway => false,
        };
        inward && route.destination.contains(&server)
    };
    redirected || settings.routes.iter().any(caught)
}

/// Two halves win over any default route and leave it in place, so nothing has to be restored; that is
/// what `def1` asks for, and it does no harm where it is not asked for. For IPv6 the four nets together
/// are all global and unique local addresses, and win over a default route written as 2000::/3.
fn redirect_destinations(redirect: &RedirectGateway) -> Vec<IpNet> {
    let v4 = [(0, 1), (128, 1)]
        .map(|(first, length)| Ipv4Net::new(Ipv4Addr::new(first, 0, 0, 0), length).map(IpNet::V4));
    let v6 = [(0, 3), (0x2000, 4), (0x3000, 4), (0xfc00, 7)].map(|(first, length)| {
        Ipv6Net::new(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0), length).map(IpNet::V6)
    });
    let v4 = v4.into_iter().filter(|_| redirect.ipv4);
    let v6 = v6.into_iter().filter(|_| redirect.ipv6);
    v4.chain(v6).flatten().collect()
}

fn warn_unsupported(redirect: &RedirectGateway, reports: &mut Vec<Report>) {
    let flags = [
        (redirect.block_local, "block-local", "the local network stays reachable"),
        (redirect.bypass_dhcp, "bypass-dhcp", "DHCP renewals by unicast go through the tunnel"),
        (redirect.bypass_dns, "bypass-dns", "queries to the old name servers go through the tunnel"),
    ];
    for (_, flag, effect) in flags.into_iter().filter(|(on, ..)| *on) {
        reports.push(Report {
            severity: Severity::Warning,
            path: None,
            text: format!("redirect-gateway {flag} is not supported yet: {effect}"),
        });
    }
}

fn note(result: io::Result<()>, what: &str, reports: &mut Vec<Report>) {
    if let Err(error) = result {
        reports.push(failure(what, &error));
    }
}

fn failure(what: &str, error: &io::Error) -> Report {
    let way_out = match error.raw_os_error() {
        Some(libc::EPERM) => "; run as root, or grant CAP_NET_ADMIN",
        Some(libc::EACCES | libc::EOPNOTSUPP | libc::EAFNOSUPPORT) => {
            "; if this is IPv6, it may be disabled here (sysctl net.ipv6.conf.all.disable_ipv6)"
        }
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => "; is there a route to the gateway?",
        Some(libc::ENODEV) => "; the device is gone: was it deleted by another program?",
        _ => "",
    };
    Report { severity: Severity::Error, path: None, text: format!("cannot {what}: {error}{way_out}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_fresh_network;
    use crate::tun::{Tun, TunConfig};

    #[test]
    fn redirect_covers_everything() {
        let redirect = RedirectGateway { ipv4: true, ipv6: true, ..RedirectGateway::default() };
        let nets = redirect_destinations(&redirect);
        for address in ["1.1.1.1", "192.0.2.1", "2001:db8::1", "3fff::1", "64:ff9b::1", "fd00::1"] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(nets.iter().filter(|net| net.contains(&address)).count(), 1, "{address}");
        }
        assert!(redirect_destinations(&RedirectGateway::default()).is_empty());
    }

    #[test]
    fn the_server_stays_outside() {
        let server: IpAddr = "192.0.2.1".parse().unwrap();
        let mut settings = TunnelSettings::default();
        assert!(!needs_way_around(&settings, server));
        settings.redirect_gateway = Some(RedirectGateway { ipv6: true, ..RedirectGateway::default() });
        assert!(!needs_way_around(&settings, server), "only IPv6 is redirected");
        let destination = "192.0.2.0/24".parse().unwrap();
        settings.routes = vec![Route { destination, via: RouteVia::Tunnel, metric: None }];
        assert!(needs_way_around(&settings, server));
        settings.routes[0].via = RouteVia::SystemGateway;
        assert!(!needs_way_around(&settings, server));
    }

    /// A second TUN device that plays the system's way to the world: 192.0.2.0/24 with a router at .1.
    fn world() -> Tun {
        let config = TunConfig { name: Some("world".to_owned()), ..TunConfig::default() };
        let world = Tun::create(&config).unwrap();
        let mut netlink = Netlink::open().unwrap();
        let device = netlink.link("world").unwrap().index;
        netlink.add_address(device, "192.0.2.7/24".parse().unwrap(), None).unwrap();
        netlink.add_address(device, "2001:db8:1::7/64".parse().unwrap(), None).unwrap();
        netlink.set_up(device, true).unwrap();
        for (destination, gateway) in [("0.0.0.0/0", "192.0.2.1"), ("::/0", "2001:db8:1::1")] {
            let gateway = Some(gateway.parse().unwrap());
            let destination = destination.parse().unwrap();
            netlink
                .add_route(&KernelRoute { destination, gateway, device: Some(device), metric: None })
                .unwrap();
        }
        world
    }

    fn full_settings() -> TunnelSettings {
        let route =
            |destination: &str, via| Route { destination: destination.parse().unwrap(), via, metric: None };
        TunnelSettings {
            addresses: vec!["10.8.0.2/24".parse().unwrap(), "fd00:8::2/64".parse().unwrap()],
            peer_address: None,
            mtu: 1420,
            routes: vec![
                route("172.20.0.0/16", RouteVia::Gateway("10.8.0.1".parse().unwrap())),
                route("fd00:20::/32", RouteVia::Tunnel),
                route("203.0.113.0/24", RouteVia::SystemGateway),
            ],
            redirect_gateway: Some(RedirectGateway { ipv4: true, ipv6: true, ..RedirectGateway::default() }),
            server: Some("198.51.100.9".parse().unwrap()),
            ..TunnelSettings::default()
        }
    }

    #[test]
    fn settings_are_applied_and_undone() {
        in_fresh_network(|| {
            let _world = world();
            let tun = Tun::create(&TunConfig::default()).unwrap();
            let mut routing = Routing::new(tun.name()).unwrap();
            let mut netlink = Netlink::open().unwrap();
            let outside = netlink.link("world").unwrap().index;
            let inside = netlink.link(tun.name()).unwrap().index;
            let mut device = |address: &str| netlink.next_hop(address.parse().unwrap()).map(|hop| hop.device);
            assert_eq!(device("8.8.8.8").unwrap(), outside);

            assert_eq!(routing.apply(&full_settings()), []);
            for address in ["8.8.8.8", "192.168.1.1", "172.20.1.1", "10.8.0.1", "2a00::1", "fd00:20::1"] {
                assert_eq!(device(address).unwrap(), inside, "{address}");
            }
            for address in ["198.51.100.9", "203.0.113.77", "192.0.2.1", "2001:db8:1::9"] {
                assert_eq!(device(address).unwrap(), outside, "{address}");
            }

            // Other settings replace the first ones whole.
            let fewer = TunnelSettings {
                addresses: vec!["10.8.0.3/24".parse().unwrap()],
                mtu: 1300,
                ..TunnelSettings::default()
            };
            assert_eq!(routing.apply(&fewer), []);
            for address in ["8.8.8.8", "172.20.1.1", "2a00::1", "198.51.100.9"] {
                assert_eq!(device(address).unwrap(), outside, "{address}");
            }
            assert_eq!(device("10.8.0.1").unwrap(), inside);
            let mut other = Netlink::open().unwrap();
            assert_eq!(other.link(tun.name()).unwrap().mtu, 1300);
            assert!(!other.next_hop("10.8.0.2".parse().unwrap()).unwrap().local);

            assert_eq!(routing.apply(&full_settings()), []);
            drop(routing);
            let mut gone = Netlink::open().unwrap();
            let around = KernelRoute {
                destination: "198.51.100.9/32".parse().unwrap(),
                gateway: Some("192.0.2.1".parse().unwrap()),
                device: Some(outside),
                metric: None,
            };
            gone.add_route(&around).expect("the route around the tunnel was removed");
            gone.remove_route(&around).unwrap();
            gone.remove_route(&around).expect("removing twice is no error");
            assert_eq!(gone.next_hop("10.8.0.1".parse().unwrap()).unwrap().device, outside);
        });
    }

    #[test]
    fn a_point_to_point_address_reaches_its_peer() {
        in_fresh_network(|| {
            let tun = Tun::create(&TunConfig::default()).unwrap();
            let mut routing = Routing::new(tun.name()).unwrap();
            let settings = TunnelSettings {
                addresses: vec!["10.8.0.6/30".parse().unwrap()],
                peer_address: Some("10.8.0.5".parse().unwrap()),
                mtu: 1500,
                ..TunnelSettings::default()
            };
            assert_eq!(routing.apply(&settings), []);
            let mut netlink = Netlink::open().unwrap();
            assert!(netlink.next_hop("10.8.0.5".parse().unwrap()).is_ok());
            assert!(netlink.next_hop("10.8.0.4".parse().unwrap()).is_err());
        });
    }

    #[test]
    fn what_cannot_be_set_is_said_and_the_rest_is_set() {
        in_fresh_network(|| {
            let _world = world();
            let tun = Tun::create(&TunConfig::default()).unwrap();
            let mut routing = Routing::new(tun.name()).unwrap();
            let mut settings = full_settings();
            let unreachable = RouteVia::Gateway("10.77.0.1".parse().unwrap());
            settings.routes[0].via = unreachable;
            settings.mtu = 10;
            settings.redirect_gateway =
                Some(RedirectGateway { ipv4: true, block_local: true, ..RedirectGateway::default() });
            settings.routes.push(settings.routes[1].clone());
            let texts: Vec<String> = routing.apply(&settings).iter().map(Report::to_string).collect();
            for (text, part) in texts.iter().zip(["MTU", "172.20.0.0/16", "fd00:20::/32", "block-local"]) {
                assert!(text.contains(part), "{text} should speak of {part}");
            }
            assert_eq!(texts.len(), 4, "{texts:?}");
            let mut netlink = Netlink::open().unwrap();
            let inside = netlink.link(tun.name()).unwrap().index;
            assert_eq!(netlink.next_hop("8.8.8.8".parse().unwrap()).unwrap().device, inside);
        });
    }
}
