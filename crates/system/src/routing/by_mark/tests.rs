use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use super::super::Routing;
use super::super::tests::world;
use super::*;
use crate::firewall::nft;
use crate::testing::{Device, in_fresh_network};

const MARK: u32 = 51_820;

fn settings(table: RouteTable, destinations: &[&str]) -> TunnelSettings {
    let route = |destination: &&str| Route {
        destination: destination.parse().unwrap(),
        via: RouteVia::Tunnel,
        metric: None,
    };
    TunnelSettings {
        addresses: vec!["10.8.0.2/24".parse().unwrap(), "fd00:8::2/64".parse().unwrap()],
        mtu: 1420,
        routes: destinations.iter().map(route).collect(),
        table,
        ..TunnelSettings::default()
    }
}

/// The rules, routes and firewall as other programs see them.
fn state() -> (Vec<String>, Vec<TableRoute>, String, String) {
    let mut netlink = Netlink::open().unwrap();
    let rules = IpFamily::BOTH.map(|family| netlink.rules(family).unwrap());
    let shown_rule = |rule: Rule| format!("{}: {}", rule.priority, shown(&rule));
    let rules = rules.into_iter().flatten().filter_map(|rule| rule.own).map(shown_rule).collect();
    let routes = IpFamily::BOTH.map(|family| netlink.all_routes(family).unwrap());
    let of_table = |route: &TableRoute| ![MAIN, 255].contains(&route.table);
    let routes = routes.into_iter().flatten().map(|listed| listed.route).filter(of_table).collect();
    let valid_mark = std::fs::read_to_string(SOURCE_VALID_MARK).unwrap();
    (rules, routes, nft(&["list", "ruleset"], "").unwrap_or_default(), valid_mark)
}

fn has_nft() -> bool {
    let found = nft(&["list", "tables"], "").is_ok() || std::env::var_os("CI").is_some();
    if !found {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("NOT TESTED: policy routing by mark needs nft");
        }
    }
    found
}

fn device(address: &str) -> u32 {
    Netlink::open().unwrap().next_hop(address.parse::<IpAddr>().unwrap()).unwrap().device
}

#[test]
fn default_routes_go_into_a_table_by_mark() {
    in_fresh_network(|| {
        if !has_nft() {
            return;
        }
        let (_world, tun) = (world(), Device::new("tun%d"));
        let before = state();
        let mut routing = Routing::new(tun.name()).unwrap();
        let wanted = settings(RouteTable::ByMark(MARK), &["0.0.0.0/0", "::/0", "172.20.0.0/16"]);
        assert_eq!(Routing::free_table(MARK).unwrap(), MARK);
        assert_eq!((routing.apply(&wanted), routing.lacks()), (Vec::new(), None));
        assert_eq!(Routing::free_table(MARK).unwrap(), MARK + 1);
        let (rules, routes, firewall, valid_mark) = state();
        assert_eq!(
            rules,
            [
                "32764: \"lookup main suppress_prefixlength 0\" (V4)",
                "32765: \"not fwmark 0xca6c lookup 51820\" (V4)",
                "32764: \"lookup main suppress_prefixlength 0\" (V6)",
                "32765: \"not fwmark 0xca6c lookup 51820\" (V6)",
            ]
        );
        let inside = routing.device();
        assert!(routes.len() == 2 && routes.iter().all(|route| route.device == Some(inside)), "{routes:?}");
        for line in [
            "ip daddr 10.8.0.2 fib saddr type != local drop",
            "ip6 daddr fd00:8::2 fib saddr type != local drop",
            "meta mark 0x0000ca6c ct mark set meta mark",
            "meta mark set ct mark",
        ] {
            assert!(firewall.contains(line), "{line}\n{firewall}");
        }
        assert_eq!(valid_mark.trim(), "1");
        for address in ["8.8.8.8", "2a00::1", "172.20.0.1", "10.8.0.9"] {
            assert_eq!(device(address), inside, "{address}");
        }
        assert_ne!(device("192.168.5.9"), inside, "the main table has a route to it");

        // One family less.
        assert_eq!(routing.apply(&settings(RouteTable::ByMark(MARK), &["0.0.0.0/0"])), []);
        let (rules, routes, firewall, _) = state();
        assert_eq!((rules.len(), routes.len(), firewall.contains("table ip6")), (2, 1, false), "{firewall}");
        routing.undo();
        assert_eq!(state(), before);
    });
}

#[test]
fn a_number_of_the_system_is_refused() {
    in_fresh_network(|| {
        let (_world, tun) = (world(), Device::new("tun%d"));
        let before = state();
        let mut routing = Routing::new(tun.name()).unwrap();
        for mark in [0, 253, 254, 255] {
            routing.apply(&settings(RouteTable::ByMark(mark), &["0.0.0.0/0"]));
            assert!(routing.lacks().is_some_and(|lacks| lacks.contains("choose another number")), "{mark}");
            assert_eq!(state(), before, "{mark}");
            routing.undo();
        }
    });
}

#[test]
fn what_another_program_deletes_is_put_back() {
    in_fresh_network(|| {
        if !has_nft() {
            return;
        }
        let (_world, tun) = (world(), Device::new("tun%d"));
        let mut routing = Routing::new(tun.name()).unwrap();
        assert_eq!(routing.apply(&settings(RouteTable::ByMark(MARK), &["0.0.0.0/0", "::/0"])), []);
        assert!(routing.depends_on_network());
        let whole = state();
        let mut netlink = Netlink::open().unwrap();
        for family in IpFamily::BOTH {
            for rule in netlink.rules(family).unwrap().into_iter().filter_map(|rule| rule.own) {
                netlink.remove_rule(&rule).unwrap();
            }
        }
        whole.1.iter().for_each(|route| netlink.remove_table_route(route).unwrap());
        assert_ne!(state(), whole);
        routing.follow();
        assert_eq!(state(), whole);
    });
}

#[test]
fn routes_go_into_the_table_that_is_named() {
    in_fresh_network(|| {
        let (_world, tun) = (world(), Device::new("tun%d"));
        let before = state();
        let mut routing = Routing::new(tun.name()).unwrap();
        let all = ["0.0.0.0/0", "172.20.0.0/16", "fd00:20::/32"];
        assert_eq!(routing.apply(&settings(RouteTable::Number(1234), &all)), []);
        let (rules, routes, firewall, valid_mark) = state();
        assert_eq!((rules, firewall, valid_mark), (before.0.clone(), before.2.clone(), before.3.clone()));
        assert!(routes.len() == 3 && routes.iter().all(|route| route.table == 1234), "{routes:?}");
        assert_ne!(device("172.20.0.1"), routing.device(), "no rule leads there");

        assert_eq!(routing.apply(&settings(RouteTable::Main, &["172.20.0.0/16"])), []);
        assert_eq!((state(), device("172.20.0.1")), (before.clone(), routing.device()));
        drop(routing);
        assert_eq!(state(), before);
    });
}

#[test]
fn the_next_start_removes_what_a_killed_process_left() {
    in_fresh_network(|| {
        if !has_nft() {
            return;
        }
        let (_world, before) = (world(), state());
        let links = Netlink::open().unwrap().links().unwrap().len();
        let tun = Device::new("tun%d");
        let mut routing = Routing::new(tun.name()).unwrap();
        assert_eq!(routing.apply(&settings(RouteTable::ByMark(MARK), &["0.0.0.0/0", "::/0"])), []);
        let whole = state();
        Routing::recover();
        assert_eq!(state(), whole, "the tunnel runs");
        nft(&["flush", "ruleset"], "").unwrap();
        Routing::recover();
        assert_eq!(state().0, whole.0, "the tunnel runs, and the firewall was loaded anew");
        assert_eq!(routing.apply(&settings(RouteTable::ByMark(MARK + 1), &["0.0.0.0/0", "::/0"])), []);
        std::mem::forget(routing);
        drop(tun);
        // A process that another test is starting may hold the device until it has begun.
        let is_closed = (0..1500).any(|_| {
            thread::sleep(Duration::from_millis(20));
            Netlink::open().unwrap().links().unwrap().len() == links
        });
        assert!(is_closed);
        assert_eq!(state().0.len(), 4);
        Routing::recover();
        let after = state();
        assert_eq!((after.0, after.1, after.2), (before.0, before.1, before.2));
    });
}
