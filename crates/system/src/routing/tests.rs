use adit_core::{Redirect, RouteVia};

use super::bypass::{has_bypass_routes, is_caught};
use super::*;
use crate::netlink::RouteWatch;
use crate::testing::{Device, in_fresh_network};

#[test]
fn only_routes_of_the_main_table_catch_the_server() {
    let server: IpAddr = "192.168.5.1".parse().unwrap();
    let mut settings = TunnelSettings::default();
    assert!(!is_caught(&settings, server));
    let destination = "192.168.5.0/24".parse().unwrap();
    settings.routes = vec![Route { destination, via: RouteVia::Tunnel, metric: None }];
    assert!(is_caught(&settings, server));
    settings.redirect = Some(Redirect { ipv6: true, ..Redirect::default() });
    assert!(is_caught(&settings, server), "only IPv6 has a table of its own");
    settings.redirect = Some(Redirect { ipv4: true, ..Redirect::default() });
    assert!(!is_caught(&settings, server));
    settings.redirect = None;
    settings.routes[0].via = RouteVia::SystemGateway;
    assert!(!is_caught(&settings, server));
}

#[test]
fn only_ways_around_the_tunnel_follow_the_network() {
    let server: IpAddr = "192.168.5.1".parse().unwrap();
    let by = |destination: &str, via| Route { destination: destination.parse().unwrap(), via, metric: None };
    let plain = TunnelSettings {
        server: Some(server),
        routes: vec![by("10.0.0.0/8", RouteVia::Tunnel)],
        ..TunnelSettings::default()
    };
    assert!(!has_bypass_routes(&plain, &[]));
    assert!(has_bypass_routes(&plain, &["10.1.2.3".parse().unwrap()]));
    for route in [by("192.168.5.0/24", RouteVia::Tunnel), by("198.51.100.0/24", RouteVia::SystemGateway)] {
        assert!(has_bypass_routes(&TunnelSettings { routes: vec![route], ..plain.clone() }, &[]));
    }
    let private = Redirect { block_local: true, ..Redirect::default() };
    assert!(has_bypass_routes(&TunnelSettings { redirect: Some(private), ..plain }, &[]));
}

/// A second TUN device that plays the system's way to the world: 192.168.5.0/24 with a router at .1.
pub(crate) fn world() -> Device {
    let world = Device::new("world");
    let mut netlink = Netlink::open().unwrap();
    let device = netlink.link("world").unwrap().index;
    netlink.add_address(device, "192.168.5.7/24".parse().unwrap(), None).unwrap();
    netlink.add_address(device, "fd00:5::7/64".parse().unwrap(), None).unwrap();
    netlink.set_up(device, true).unwrap();
    for (destination, gateway) in [("0.0.0.0/0", "192.168.5.1"), ("::/0", "fd00:5::1")] {
        let gateway = Some(gateway.parse().unwrap());
        let destination = destination.parse().unwrap();
        netlink.add_route(&KernelRoute { destination, gateway, device: Some(device), metric: None }).unwrap();
    }
    world
}

pub(super) fn full_settings() -> TunnelSettings {
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
        redirect: Some(Redirect { ipv4: true, ipv6: true, ..Redirect::default() }),
        server: Some("198.51.100.9".parse().unwrap()),
        ..TunnelSettings::default()
    }
}

#[test]
fn settings_are_applied_and_undone() {
    in_fresh_network(|| {
        let _world = world();
        let tun = Device::new("tun%d");
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
        for address in ["203.0.113.77", "192.168.5.1", "fd00:5::9"] {
            assert_eq!(device(address).unwrap(), outside, "{address}");
        }
        let server = "198.51.100.9";
        assert_eq!(device(server).unwrap(), inside, "other programs' packets to the server");
        let own = Netlink::open().unwrap().next_hop_of_own(server.parse().unwrap());
        assert_eq!(own.unwrap().device, outside, "the tunnel's own");

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
        for family in IpFamily::BOTH {
            assert!(gone.rules(family).unwrap().iter().all(|rule| rule.own.is_none()));
            assert!(gone.all_routes(family).unwrap().iter().all(|listed| listed.route.table < 0x6100_0000));
        }
        assert_eq!(gone.next_hop("10.8.0.1".parse().unwrap()).unwrap().device, outside);
    });
}

#[test]
fn a_point_to_point_address_reaches_its_peer() {
    in_fresh_network(|| {
        let tun = Device::new("tun%d");
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
        let tun = Device::new("tun%d");
        let mut routing = Routing::new(tun.name()).unwrap();
        let mut settings = full_settings();
        let unreachable = RouteVia::Gateway("10.77.0.1".parse().unwrap());
        settings.routes[0].via = unreachable;
        settings.mtu = 10;
        settings.redirect = Some(Redirect { ipv4: true, ..Redirect::default() });
        settings.routes.push(settings.routes[1].clone());
        let texts: Vec<String> = routing.apply(&settings).iter().map(Report::to_string).collect();
        for (text, part) in texts.iter().zip(["MTU", "172.20.0.0/16", "`block-ipv6`"]) {
            assert!(text.contains(part), "{text} should speak of {part}");
        }
        assert_eq!(texts.len(), 3, "{texts:?}");
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
        let tun = Device::new("tun%d");
        let mut routing = Routing::new(tun.name()).unwrap();
        let mut netlink = Netlink::open().unwrap();
        let server: IpAddr = "198.51.100.9".parse().unwrap();
        let inside = netlink.link(tun.name()).unwrap().index;
        let watch = RouteWatch::new().unwrap();
        assert!(!routing.depends_on_network());
        assert_eq!(routing.apply(&full_settings()), []);
        assert!(routing.depends_on_network());
        let router = |netlink: &mut Netlink, address: IpAddr| netlink.next_hop(address).unwrap().gateway;
        let own = |netlink: &mut Netlink| netlink.next_hop_of_own(server).map(|hop| hop.gateway);
        assert_eq!(own(&mut netlink).unwrap(), "192.168.5.1".parse().ok());

        move_world(&mut netlink, "192.168.5.2");
        watch.drain();
        routing.follow();
        assert_eq!(own(&mut netlink).unwrap(), "192.168.5.2".parse().ok());
        assert_eq!(router(&mut netlink, "203.0.113.1".parse().unwrap()), "192.168.5.2".parse().ok());

        // Without a network the server is unreachable, and not in the tunnel.
        let world = netlink.link("world").unwrap().index;
        netlink.set_up(world, false).unwrap();
        routing.follow();
        assert!(own(&mut netlink).is_err());
        assert_eq!(netlink.next_hop("8.8.8.8".parse().unwrap()).unwrap().device, inside);
        netlink.set_up(world, true).unwrap();
        move_world(&mut netlink, "192.168.5.3");
        routing.follow();
        assert_eq!(own(&mut netlink).unwrap(), "192.168.5.3".parse().ok());
        assert_eq!(router(&mut netlink, "203.0.113.1".parse().unwrap()), "192.168.5.3".parse().ok());
    });
}

/// Some routes go into the tunnel, and catch the server.
fn split_settings() -> TunnelSettings {
    let destination = "198.51.100.0/24".parse().unwrap();
    TunnelSettings {
        routes: vec![Route { destination, via: RouteVia::Tunnel, metric: None }],
        redirect: None,
        ..full_settings()
    }
}

#[test]
fn without_redirection_the_server_has_a_route_of_its_own() {
    in_fresh_network(|| {
        let _world = world();
        let tun = Device::new("tun%d");
        let mut routing = Routing::new(tun.name()).unwrap();
        let mut netlink = Netlink::open().unwrap();
        let server: IpAddr = "198.51.100.9".parse().unwrap();
        let inside = netlink.link(tun.name()).unwrap().index;
        assert_eq!(routing.apply(&split_settings()), []);
        assert!(routing.depends_on_network());
        let router = |netlink: &mut Netlink, address: IpAddr| netlink.next_hop(address).unwrap().gateway;
        assert_eq!(router(&mut netlink, server), "192.168.5.1".parse().ok());
        move_world(&mut netlink, "192.168.5.2");
        routing.follow();
        assert_eq!(router(&mut netlink, server), "192.168.5.2".parse().ok());

        // Another server is tried.
        let next: IpAddr = "198.51.100.77".parse().unwrap();
        assert_eq!(netlink.next_hop(next).unwrap().device, inside);
        routing.bypass(&[next, "192.168.5.99".parse().unwrap()]);
        assert_eq!(router(&mut netlink, next), "192.168.5.2".parse().ok());
        let settings = TunnelSettings { server: Some(next), ..split_settings() };
        assert_eq!(routing.apply(&settings), []);
        assert_eq!(router(&mut netlink, next), "192.168.5.2".parse().ok());
        assert_eq!(netlink.next_hop(server).unwrap().device, inside);
    });
}

/// A route by a router of the local network, as the settings name it, beside one into the tunnel.
fn settings_by_router() -> TunnelSettings {
    let by = |destination: &str, via| Route { destination: destination.parse().unwrap(), via, metric: None };
    let router = RouteVia::Gateway("192.168.5.77".parse().unwrap());
    let routes = vec![by("172.17.5.0/24", router), by("172.20.0.0/16", RouteVia::Tunnel)];
    TunnelSettings { routes, redirect: None, ..full_settings() }
}

#[test]
fn a_route_by_another_router_stays_while_the_tunnel_is_up() {
    in_fresh_network(|| {
        let _world = world();
        let tun = Device::new("tun%d");
        let mut routing = Routing::new(tun.name()).unwrap();
        let mut netlink = Netlink::open().unwrap();
        let router = |netlink: &mut Netlink| netlink.next_hop("172.17.5.9".parse().unwrap()).unwrap().gateway;
        let (named, default) = ("192.168.5.77".parse().ok(), "192.168.5.1".parse().ok());
        assert_eq!(routing.apply(&settings_by_router()), []);
        for _ in 0..2 {
            assert_eq!(router(&mut netlink), named);
            routing.follow();
        }
        // A route that goes when its device is set down is put back when the device is up again.
        let world = netlink.link("world").unwrap().index;
        netlink.set_up(world, false).unwrap();
        routing.follow();
        netlink.set_up(world, true).unwrap();
        routing.follow();
        assert_eq!(router(&mut netlink), named);
        let all = KernelRoute { metric: None, ..default_by_world(world) };
        netlink.add_route(&all).unwrap();
        let fewer = TunnelSettings { routes: Vec::new(), ..settings_by_router() };
        assert_eq!(routing.apply(&fewer), []);
        assert_eq!(router(&mut netlink), default);
        assert_eq!(routing.apply(&settings_by_router()), []);
        drop(routing);
        assert_eq!(router(&mut netlink), default);
    });
}

fn default_by_world(world: u32) -> KernelRoute {
    KernelRoute {
        destination: "0.0.0.0/0".parse().unwrap(),
        gateway: "192.168.5.1".parse().ok(),
        device: Some(world),
        metric: None,
    }
}

/// By the protocol number, which says that an adit set it.
#[test]
fn only_routes_that_an_adit_set_are_replaced_and_removed() {
    in_fresh_network(|| {
        let _world = world();
        let mut netlink = Netlink::open().unwrap();
        let ip = |line: &str| {
            let status = std::process::Command::new("ip").args(line.split(' ')).status().unwrap();
            assert!(status.success(), "{line}");
        };
        let shown = |destination: &str| {
            let output =
                std::process::Command::new("ip").args(["route", "show", destination]).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        // The owner's own routes: by the same router, and to the server.
        for line in ["172.17.5.0/24 via 192.168.5.77", "198.51.100.9 via 192.168.5.3"] {
            ip(&format!("route add {line}"));
        }
        let before = ["172.17.5.0/24", "198.51.100.9"].map(shown);
        let tun = Device::new("tun%d");
        let mut routing = Routing::new(tun.name()).unwrap();
        let mut settings = settings_by_router();
        settings.routes.push(split_settings().routes[0].clone());
        let reports = routing.apply(&settings);
        assert!(reports.iter().all(|report| report.text.contains("has a route to")), "{reports:?}");
        assert_eq!(reports.len(), 2);
        routing.follow();
        drop(routing);
        assert_eq!(["172.17.5.0/24", "198.51.100.9"].map(shown), before);
        before.iter().for_each(|line| ip(&format!("route del {line}")));

        // Those of a process that was killed.
        let mut routing = Routing::new(tun.name()).unwrap();
        assert_eq!(routing.apply(&settings), []);
        std::mem::forget(routing);
        let mut routing = Routing::new(tun.name()).unwrap();
        let named = |reports: &[Report]| reports.iter().any(|report| report.text.contains("172.17.5.0/24"));
        assert!(!named(&routing.apply(&settings)));
        drop(routing);
        assert_eq!(["172.17.5.0/24", "198.51.100.9"].map(shown), ["", ""]);
        // A tunnel that lives keeps its routes.
        let second = Device::new("tun%d");
        let mut other = Routing::new(second.name()).unwrap();
        other.set_tunnel_group().unwrap();
        let mut into_second = settings.clone();
        into_second.addresses = vec!["10.9.0.2/24".parse().unwrap()];
        into_second.routes[0].via = RouteVia::Tunnel;
        assert_eq!(other.apply(&into_second), []);
        let mut routing = Routing::new(tun.name()).unwrap();
        assert!(named(&routing.apply(&settings_by_router())));
        drop(routing);
        assert!(shown("172.17.5.0/24").contains(second.name()));
        assert_eq!(netlink.links_of_group(DEVICE_GROUP).unwrap(), [other.device()]);
    });
}

/// Routes are restored when another program deletes them, without redirection.
#[test]
fn a_pushed_route_that_is_deleted_is_put_back() {
    in_fresh_network(|| {
        let _world = world();
        let tun = Device::new("tun%d");
        let mut routing = Routing::new(tun.name()).unwrap();
        let mut netlink = Netlink::open().unwrap();
        let inside = netlink.link(tun.name()).unwrap().index;
        assert_eq!(routing.apply(&split_settings()), []);
        let route = KernelRoute {
            destination: "198.51.100.0/24".parse().unwrap(),
            gateway: None,
            device: Some(inside),
            metric: None,
        };
        let device =
            |netlink: &mut Netlink| netlink.next_hop("198.51.100.1".parse().unwrap()).unwrap().device;
        netlink.remove_route(&route).unwrap();
        assert_ne!(device(&mut netlink), inside);
        routing.follow();
        assert_eq!(device(&mut netlink), inside);
        // With the device down all its routes and addresses go.
        netlink.set_up(inside, false).unwrap();
        routing.follow();
        assert_eq!(device(&mut netlink), inside);
    });
}

#[test]
fn local_networks_are_blocked_and_name_servers_bypassed() {
    in_fresh_network(|| {
        let _world = world();
        let tun = Device::new("tun%d");
        let mut routing = Routing::new(tun.name()).unwrap();
        routing.set_name_servers(vec!["9.9.9.9".parse().unwrap(), "127.0.0.53".parse().unwrap()]);
        let redirect = Redirect { ipv4: true, block_local: true, bypass_dns: true, ..Redirect::default() };
        let settings = TunnelSettings { redirect: Some(redirect), ..full_settings() };
        assert_eq!(routing.apply(&settings).len(), 1, "IPv6 is not redirected");
        let mut netlink = Netlink::open().unwrap();
        let inside = netlink.link(tun.name()).unwrap().index;
        let mut device = |address: &str| netlink.next_hop(address.parse().unwrap()).unwrap().device;
        for address in ["192.168.5.9", "192.168.5.200", "198.51.100.9", "8.8.8.8"] {
            assert_eq!(device(address), inside, "{address}");
        }
        for address in ["192.168.5.1", "9.9.9.9"] {
            assert_ne!(device(address), inside, "{address}");
        }
    });
}

#[test]
fn the_flags_of_redirect_gateway_do_what_they_say() {
    let none = Redirect::default();
    // Flags, the server, and which of server, 8.8.8.8, 2001:db8:9::1 and 192.168.5.200 go into the tunnel.
    for (flags, server, expected) in [
        (Redirect { ipv4: true, ..none }, "198.51.100.9", [true, true, false, false]),
        (Redirect { ipv6: true, ..none }, "198.51.100.9", [false, false, true, false]),
        (Redirect { ipv4: true, ..none }, "192.168.5.50", [false, true, false, false]),
        (Redirect { ipv4: true, server_on_link: true, ..none }, "192.168.5.50", [false, true, false, false]),
        (Redirect { ipv4: true, server_on_link: true, ..none }, "198.51.100.9", [true, true, false, false]),
        // `redirect-private`
        (Redirect { block_local: true, ..none }, "198.51.100.9", [false, false, false, true]),
    ] {
        in_fresh_network(move || {
            let _world = world();
            let tun = Device::new("tun%d");
            let mut routing = Routing::new(tun.name()).unwrap();
            let settings = TunnelSettings {
                redirect: Some(flags),
                server: server.parse().ok(),
                routes: Vec::new(),
                ..full_settings()
            };
            let texts: Vec<String> = routing.apply(&settings).iter().map(Report::to_string).collect();
            // A report says so where IPv6 is forgotten.
            assert_eq!(texts.len(), usize::from(flags.ipv4), "{texts:?}");
            assert!(texts.iter().all(|text| text.contains("`block-ipv6`")), "{texts:?}");
            let mut netlink = Netlink::open().unwrap();
            let inside = netlink.link(tun.name()).unwrap().index;
            let found = [server, "8.8.8.8", "2001:db8:9::1", "192.168.5.200"]
                .map(|to| netlink.next_hop(to.parse().unwrap()).unwrap().device == inside);
            assert_eq!(found, expected, "{flags:?} {server}");
        });
    }
}

#[test]
fn what_a_killed_adit_left_behind_is_replaced() {
    in_fresh_network(|| {
        let _world = world();
        let tun = Device::new("tun%d");
        let mut routing = Routing::new(tun.name()).unwrap();
        let mut netlink = Netlink::open().unwrap();
        let mut old = KernelRoute {
            destination: "198.51.100.9/32".parse().unwrap(),
            gateway: "192.168.5.66".parse().ok(),
            device: Some(netlink.link("world").unwrap().index),
            metric: None,
        };
        netlink.add_route(&old).unwrap();
        assert_eq!(routing.apply(&split_settings()), []);
        let hop = netlink.next_hop("198.51.100.9".parse().unwrap()).unwrap();
        assert_eq!(hop.gateway, "192.168.5.1".parse().ok());
        drop(routing);
        old.gateway = "192.168.5.1".parse().ok();
        netlink.add_route(&old).expect("it is gone");
    });
}
