//! Tunnel settings applied to the system, kept true when the network changes, and taken back.

mod around;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_core::{RedirectGateway, Report, Route, RouteVia, Severity, TunnelSettings};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::netlink::{KernelRoute, Netlink, Whose};

/// An address of the device, and the other end's if it is a point-to-point link.
type Address = (IpNet, Option<IpAddr>);

/// The system's addresses and routes as far as this tunnel changed them. What was changed is changed back
/// when this value is dropped.
#[derive(Debug)]
pub struct Routing {
    netlink: Netlink,
    device: u32,
    name: String,
    applied: Option<TunnelSettings>,
    /// Further addresses that must stay outside the tunnel: servers that are being tried.
    detours: Vec<IpAddr>,
    /// Name servers that the system had before.
    name_servers: Vec<IpAddr>,
    addresses: Vec<Address>,
    routes: Vec<KernelRoute>,
}

impl Routing {
    /// For the TUN device `name`, in the network namespace of the caller.
    pub fn new(name: &str) -> io::Result<Routing> {
        let mut netlink = Netlink::open()?;
        let device = netlink.link(name)?.index;
        Ok(Routing {
            netlink,
            device,
            name: name.to_owned(),
            applied: None,
            detours: Vec::new(),
            name_servers: Vec::new(),
            addresses: Vec::new(),
            routes: Vec::new(),
        })
    }

    /// Index of the device.
    pub fn device(&self) -> u32 {
        self.device
    }

    /// The addresses of all devices.
    pub fn addresses(&mut self) -> io::Result<Vec<IpAddr>> {
        self.netlink.addresses()
    }

    /// Tells which name servers the system has without the tunnel; for `redirect-gateway bypass-dns`.
    pub fn set_name_servers(&mut self, servers: Vec<IpAddr>) {
        self.name_servers = servers;
    }

    /// Sets how many packets wait in the device before it drops.
    pub fn set_txqueuelen(&mut self, packets: u32) -> io::Result<()> {
        self.netlink.set_txqueuelen(self.device, packets)
    }

    /// Makes the system look as `settings` say, instead of what was applied before. What both have in common
    /// is not touched, so that no packet meanwhile leaves beside the tunnel. Goes on after a failure; gives a
    /// report for each.
    pub fn apply(&mut self, settings: &TunnelSettings) -> Vec<Report> {
        let mut reports = Vec::new();
        self.detours.clear();
        if self.applied.as_ref() == Some(settings) {
            self.follow();
            return reports;
        }
        let around = self.around(settings, &mut reports);
        let mut wanted: Vec<(KernelRoute, bool)> = around.into_iter().map(|route| (route, false)).collect();
        let inward = settings.routes.iter().filter_map(|route| self.tunnel_route(settings, route));
        wanted.extend(inward.map(|route| (route, true)));
        if let Some(redirect) = &settings.redirect_gateway {
            let device = Some(self.device);
            let route =
                |destination| (KernelRoute { destination, gateway: None, device, metric: None }, true);
            wanted.extend(redirect_destinations(redirect).into_iter().map(route));
        }
        self.set_device(settings, &mut reports);
        self.set_routes(wanted, &mut reports);
        self.applied = Some(settings.clone());
        reports
    }

    /// Lets these addresses be reached beside the tunnel that is set up now, until the next `apply`: a client
    /// tries to connect there.
    pub fn detour(&mut self, addresses: &[IpAddr]) {
        let Some(settings) = self.applied.clone() else { return };
        for address in addresses.iter().filter(|address| around::is_caught(&settings, **address)) {
            if !self.detours.contains(address) {
                self.detours.push(*address);
            }
        }
        self.follow();
    }

    /// Whether what was applied has ways around the tunnel, which change with the network.
    pub fn depends_on_network(&self) -> bool {
        self.applied.as_ref().is_some_and(|settings| around::has_ways(settings, &self.detours))
    }

    /// The network changed: leads what must stay outside the tunnel by the way that is there now.
    pub fn follow(&mut self) {
        let Some(settings) = self.applied.clone() else { return };
        // What cannot be found now will be when the network is back; until then the server is unreachable.
        let around = self.around(&settings, &mut Vec::new());
        let (inward, outward): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.routes).into_iter().partition(|route| route.device == Some(self.device));
        self.routes = inward;
        for route in &around {
            let there = outward.contains(route) && self.is_there(route);
            if there || self.netlink.replace_route(route).is_ok() {
                self.routes.push(route.clone());
            }
        }
        for route in outward.iter().filter(|old| !around.iter().any(|new| new.same_place(old))) {
            let _ = self.netlink.remove_route(route);
        }
    }

    fn is_there(&mut self, route: &KernelRoute) -> bool {
        // The fallback needs nobody and stays; the kernel takes back others with their device.
        around::is_fallback(route)
            || self.netlink.routes(route.destination.addr(), Whose::All).is_ok_and(|routes| {
                routes.iter().any(|there| {
                    there.same_place(route) && there.gateway == route.gateway && there.device == route.device
                })
            })
    }

    fn is_others(&mut self, route: &KernelRoute) -> bool {
        let routes = self.netlink.routes(route.destination.addr(), Whose::Others);
        routes.is_ok_and(|routes| routes.iter().any(|there| there.same_place(route)))
    }

    /// Takes back what `apply` did. What is gone already is no error.
    pub fn undo(&mut self) {
        // Nothing can be done about a failure here: the kernel refuses to remove only what someone else has
        // changed since.
        for route in std::mem::take(&mut self.routes).iter().rev() {
            let _ = self.netlink.remove_route(route);
        }
        for (address, peer) in std::mem::take(&mut self.addresses) {
            let _ = self.netlink.remove_address(self.device, address, peer);
        }
        self.applied = None;
        self.detours.clear();
    }

    fn set_device(&mut self, settings: &TunnelSettings, reports: &mut Vec<Report>) {
        if settings.mtu != 0 {
            let result = self.netlink.set_mtu(self.device, u32::from(settings.mtu));
            note(result, &format!("set the MTU of {} to {}", self.name, settings.mtu), reports);
        }
        let with_peer = |address: &IpNet| {
            let peer = settings.peer_address.filter(|peer| peer.is_ipv4() == address.addr().is_ipv4());
            (*address, peer)
        };
        let wanted: Vec<Address> = settings.addresses.iter().map(with_peer).collect();
        let mut there = Vec::new();
        for (address, peer) in &wanted {
            let result = self.netlink.add_address(self.device, *address, *peer);
            if result.is_ok() {
                there.push((*address, *peer));
            }
            note(result, &format!("give {} the address {address}", self.name), reports);
        }
        let stale: Vec<Address> = std::mem::replace(&mut self.addresses, there)
            .into_iter()
            .filter(|old| !wanted.contains(old))
            .collect();
        for (address, peer) in &stale {
            let _ = self.netlink.remove_address(self.device, *address, *peer);
        }
        if !stale.is_empty() {
            // With the first address of a network the kernel removes the others of it.
            for (address, peer) in &self.addresses {
                let _ = self.netlink.add_address(self.device, *address, *peer);
            }
        }
        let result = self.netlink.set_up(self.device, true);
        note(result, &format!("take {} up", self.name), reports);
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

    /// Adds what is not there, then removes what is not wanted any more.
    fn set_routes(&mut self, wanted: Vec<(KernelRoute, bool)>, reports: &mut Vec<Report>) {
        let before = std::mem::take(&mut self.routes);
        for (route, inward) in wanted {
            if self.routes.contains(&route) {
                continue;
            }
            // One of ours in this place is replaced, whether the kernel still has it or not.
            let ours = before.iter().any(|old| old.same_place(&route));
            let result =
                if ours { self.netlink.replace_route(&route) } else { self.netlink.add_route(&route) };
            match result {
                Ok(()) => self.routes.push(route),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // What an adit that was killed left behind is in nobody's way.
                    let left_behind = !inward && !self.is_others(&route);
                    if left_behind && self.netlink.replace_route(&route).is_ok() {
                        self.routes.push(route);
                    } else {
                        reports.push(taken(&route));
                    }
                }
                Err(error) => {
                    reports.push(failure(&format!("add the route to {}", route.destination), &error))
                }
            }
        }
        for old in before.iter().rev().filter(|old| !self.routes.iter().any(|new| new.same_place(old))) {
            let _ = self.netlink.remove_route(old);
        }
    }
}

impl Drop for Routing {
    fn drop(&mut self) {
        self.undo();
    }
}

fn taken(route: &KernelRoute) -> Report {
    let text = format!(
        "the system has a route to {} already, which stays: traffic to it may not go the way that is meant",
        route.destination
    );
    Report { severity: Severity::Warning, path: None, text }
}

fn in_tunnel(settings: &TunnelSettings, gateway: IpAddr) -> bool {
    settings.peer_address == Some(gateway)
        || settings.addresses.iter().any(|address| address.contains(&gateway))
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
    use super::around::{has_ways, is_caught};
    use super::*;
    use crate::netlink::RouteWatch;
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
        assert!(!is_caught(&settings, server));
        settings.redirect_gateway = Some(RedirectGateway { ipv6: true, ..RedirectGateway::default() });
        assert!(!is_caught(&settings, server), "only IPv6 is redirected");
        let destination = "192.0.2.0/24".parse().unwrap();
        settings.routes = vec![Route { destination, via: RouteVia::Tunnel, metric: None }];
        assert!(is_caught(&settings, server));
        settings.routes[0].via = RouteVia::SystemGateway;
        assert!(!is_caught(&settings, server));
    }

    #[test]
    fn only_ways_around_the_tunnel_follow_the_network() {
        let server: IpAddr = "192.0.2.1".parse().unwrap();
        let by =
            |destination: &str, via| Route { destination: destination.parse().unwrap(), via, metric: None };
        let plain = TunnelSettings {
            server: Some(server),
            routes: vec![by("10.0.0.0/8", RouteVia::Tunnel)],
            ..TunnelSettings::default()
        };
        assert!(!has_ways(&plain, &[]));
        assert!(has_ways(&plain, &["10.1.2.3".parse().unwrap()]));
        for route in [by("192.0.2.0/24", RouteVia::Tunnel), by("198.51.100.0/24", RouteVia::SystemGateway)] {
            assert!(has_ways(&TunnelSettings { routes: vec![route], ..plain.clone() }, &[]));
        }
        let all = RedirectGateway::default();
        for (redirect, wanted) in [
            (RedirectGateway { ipv4: true, ..all }, true),
            (RedirectGateway { ipv4: true, local: true, ..all }, false),
            (RedirectGateway { ipv6: true, ..all }, false),
            (RedirectGateway { local: true, block_local: true, ..all }, true),
            (RedirectGateway { local: true, bypass_dns: true, ..all }, true),
        ] {
            let settings = TunnelSettings { redirect_gateway: Some(redirect), ..plain.clone() };
            assert_eq!(has_ways(&settings, &[]), wanted, "{redirect:?}");
        }
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
            settings.redirect_gateway = Some(RedirectGateway { ipv4: true, ..RedirectGateway::default() });
            settings.routes.push(settings.routes[1].clone());
            let texts: Vec<String> = routing.apply(&settings).iter().map(Report::to_string).collect();
            for (text, part) in texts.iter().zip(["MTU", "172.20.0.0/16"]) {
                assert!(text.contains(part), "{text} should speak of {part}");
            }
            assert_eq!(texts.len(), 2, "{texts:?}");
            let mut netlink = Netlink::open().unwrap();
            let inside = netlink.link(tun.name()).unwrap().index;
            assert_eq!(netlink.next_hop("8.8.8.8".parse().unwrap()).unwrap().device, inside);
        });
    }

    /// Moves the world's default route to another router.
    fn move_world(netlink: &mut Netlink, router: &str) {
        let device = Some(netlink.link("world").unwrap().index);
        let route = |gateway: &str| KernelRoute {
            destination: "0.0.0.0/0".parse().unwrap(),
            gateway: gateway.parse().ok(),
            device,
            metric: None,
        };
        netlink.replace_route(&route(router)).unwrap();
    }

    #[test]
    fn the_way_to_the_server_follows_the_network() {
        in_fresh_network(|| {
            let _world = world();
            let tun = Tun::create(&TunConfig::default()).unwrap();
            let mut routing = Routing::new(tun.name()).unwrap();
            let mut netlink = Netlink::open().unwrap();
            let server: IpAddr = "198.51.100.9".parse().unwrap();
            let inside = netlink.link(tun.name()).unwrap().index;
            let watch = RouteWatch::new().unwrap();
            assert!(!routing.depends_on_network());
            assert_eq!(routing.apply(&full_settings()), []);
            assert!(routing.depends_on_network());
            let router = |netlink: &mut Netlink, address: IpAddr| netlink.next_hop(address).unwrap().gateway;
            assert_eq!(router(&mut netlink, server), "192.0.2.1".parse().ok());

            move_world(&mut netlink, "192.0.2.2");
            watch.drain();
            routing.follow();
            assert_eq!(router(&mut netlink, server), "192.0.2.2".parse().ok());
            assert_eq!(router(&mut netlink, "203.0.113.1".parse().unwrap()), "192.0.2.2".parse().ok());

            // Without a network the server is unreachable, and not in the tunnel.
            let world = netlink.link("world").unwrap().index;
            netlink.set_up(world, false).unwrap();
            routing.follow();
            assert!(netlink.next_hop(server).is_err());
            assert_eq!(netlink.next_hop("8.8.8.8".parse().unwrap()).unwrap().device, inside);
            netlink.set_up(world, true).unwrap();
            move_world(&mut netlink, "192.0.2.3");
            routing.follow();
            assert_eq!(router(&mut netlink, server), "192.0.2.3".parse().ok());

            // Another server is tried.
            let next: IpAddr = "198.51.100.77".parse().unwrap();
            assert_eq!(netlink.next_hop(next).unwrap().device, inside);
            routing.detour(&[next, "192.0.2.99".parse().unwrap()]);
            assert_eq!(router(&mut netlink, next), "192.0.2.3".parse().ok());
            let settings = TunnelSettings { server: Some(next), ..full_settings() };
            assert_eq!(routing.apply(&settings), []);
            assert_eq!(router(&mut netlink, next), "192.0.2.3".parse().ok());
            assert_eq!(netlink.next_hop(server).unwrap().device, inside);
        });
    }

    #[test]
    fn local_networks_are_blocked_and_name_servers_bypassed() {
        in_fresh_network(|| {
            let _world = world();
            let tun = Tun::create(&TunConfig::default()).unwrap();
            let mut routing = Routing::new(tun.name()).unwrap();
            routing.set_name_servers(vec!["9.9.9.9".parse().unwrap(), "127.0.0.53".parse().unwrap()]);
            let redirect = RedirectGateway {
                ipv4: true,
                block_local: true,
                bypass_dns: true,
                ..RedirectGateway::default()
            };
            let settings = TunnelSettings { redirect_gateway: Some(redirect), ..full_settings() };
            assert_eq!(routing.apply(&settings), []);
            let mut netlink = Netlink::open().unwrap();
            let inside = netlink.link(tun.name()).unwrap().index;
            let mut device = |address: &str| netlink.next_hop(address.parse().unwrap()).unwrap().device;
            for address in ["192.0.2.9", "192.0.2.200", "8.8.8.8"] {
                assert_eq!(device(address), inside, "{address}");
            }
            for address in ["192.0.2.1", "198.51.100.9", "9.9.9.9"] {
                assert_ne!(device(address), inside, "{address}");
            }
        });
    }

    #[test]
    fn the_flags_of_redirect_gateway_do_what_they_say() {
        let none = RedirectGateway::default();
        // Flags, the server, and which of server, 8.8.8.8, 2001:db8:9::1 and 192.0.2.200 go into the tunnel.
        for (flags, server, expected) in [
            (RedirectGateway { ipv4: true, ..none }, "198.51.100.9", [false, true, false, false]),
            (RedirectGateway { ipv6: true, ..none }, "198.51.100.9", [false, false, true, false]),
            (RedirectGateway { ipv4: true, local: true, ..none }, "198.51.100.9", [true, true, false, false]),
            (RedirectGateway { ipv4: true, local: true, ..none }, "192.0.2.50", [false, true, false, false]),
            (
                RedirectGateway { ipv4: true, autolocal: true, ..none },
                "192.0.2.50",
                [false, true, false, false],
            ),
            (
                RedirectGateway { ipv4: true, autolocal: true, ..none },
                "198.51.100.9",
                [false, true, false, false],
            ),
            // `redirect-private`
            (RedirectGateway { block_local: true, ..none }, "198.51.100.9", [false, false, false, true]),
        ] {
            in_fresh_network(move || {
                let _world = world();
                let tun = Tun::create(&TunConfig::default()).unwrap();
                let mut routing = Routing::new(tun.name()).unwrap();
                let settings = TunnelSettings {
                    redirect_gateway: Some(flags),
                    server: server.parse().ok(),
                    routes: Vec::new(),
                    ..full_settings()
                };
                assert_eq!(routing.apply(&settings), []);
                let mut netlink = Netlink::open().unwrap();
                let inside = netlink.link(tun.name()).unwrap().index;
                let found = [server, "8.8.8.8", "2001:db8:9::1", "192.0.2.200"]
                    .map(|to| netlink.next_hop(to.parse().unwrap()).unwrap().device == inside);
                assert_eq!(found, expected, "{flags:?} {server}");
            });
        }
    }

    #[test]
    fn what_a_killed_adit_left_behind_is_replaced() {
        in_fresh_network(|| {
            let _world = world();
            let tun = Tun::create(&TunConfig::default()).unwrap();
            let mut routing = Routing::new(tun.name()).unwrap();
            let mut netlink = Netlink::open().unwrap();
            let mut old = KernelRoute {
                destination: "198.51.100.9/32".parse().unwrap(),
                gateway: "192.0.2.66".parse().ok(),
                device: Some(netlink.link("world").unwrap().index),
                metric: None,
            };
            netlink.add_route(&old).unwrap();
            assert_eq!(routing.apply(&full_settings()), []);
            let hop = netlink.next_hop("198.51.100.9".parse().unwrap()).unwrap();
            assert_eq!(hop.gateway, "192.0.2.1".parse().ok());
            drop(routing);
            old.gateway = "192.0.2.1".parse().ok();
            netlink.add_route(&old).expect("it is gone");
        });
    }
}
