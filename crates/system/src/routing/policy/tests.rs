use std::thread;
use std::time::Duration;

use adit_core::{Redirect, Route};

use super::super::Routing;
use super::super::tests::{full_settings, world};
use super::*;
use crate::netlink::KernelRoute;
use crate::testing::{Device, in_fresh_network};

/// A tunnel that takes all traffic, beside a network with a router.
struct Bed {
    _world: Device,
    tun: Device,
    routing: Routing,
    netlink: Netlink,
    inside: u32,
    outside: u32,
}

impl Bed {
    fn new(settings: &TunnelSettings) -> Self {
        let (world, tun) = (world(), Device::new("tun%d"));
        let mut routing = Routing::new(tun.name()).unwrap();
        let mut netlink = Netlink::open().unwrap();
        let inside = netlink.link(tun.name()).unwrap().index;
        let outside = netlink.link("world").unwrap().index;
        assert_eq!((routing.apply(settings), routing.lacks()), (Vec::new(), None));
        Bed { _world: world, tun, routing, netlink, inside, outside }
    }

    /// The device by which other programs' packets to `address` leave; `None` if they do not.
    fn device(&mut self, address: &str) -> Option<u32> {
        self.netlink.next_hop(address.parse().unwrap()).ok().map(|hop| hop.device)
    }

    /// A route of the main table, as a DHCP client sets it.
    fn main_route(&mut self, destination: &str, gateway: Option<&str>) -> KernelRoute {
        let route = KernelRoute {
            destination: destination.parse().unwrap(),
            gateway: gateway.map(|gateway| gateway.parse().unwrap()),
            device: Some(self.outside),
            metric: None,
        };
        self.netlink.add_route(&route).unwrap();
        route
    }

    fn own_rules(&mut self) -> Vec<Rule> {
        let both = IpFamily::BOTH.map(|family| self.netlink.rules(family).unwrap());
        both.into_iter().flatten().filter_map(|listed| listed.own).collect()
    }

    fn own_routes(&mut self) -> Vec<TableRoute> {
        let both = IpFamily::BOTH.map(|family| self.netlink.all_routes(family).unwrap());
        both.into_iter()
            .flatten()
            .map(|listed| listed.route)
            .filter(|route| route.table >= FIRST_TABLE)
            .collect()
    }
}

const FAR: [&str; 3] = ["8.8.8.8", "200.1.2.3", "2a00::1"];

#[test]
fn everything_is_everything() {
    for address in ["0.0.0.1", "1.1.1.1", "223.0.0.1", "::2", "2001:db8::1", "fd00::1"] {
        let address: IpAddr = address.parse().unwrap();
        let nets = everything(IpFamily::of(address));
        assert_eq!(nets.iter().filter(|net| net.contains(&address)).count(), 2, "{address}");
    }
}

/// M7: TunnelVision (CVE-2024-3661).
#[test]
fn routes_of_a_dhcp_server_do_not_win() {
    in_fresh_network(|| {
        let mut bed = Bed::new(&full_settings());
        let router = Some("192.168.5.1");
        for (destination, gateway) in [
            ("0.0.0.0/1", router),
            ("128.0.0.0/1", router),
            ("8.8.8.8/32", router),
            ("200.1.2.0/24", None),
            ("2000::/3", Some("fd00:5::1")),
            ("2a00::1/128", Some("fd00:5::1")),
        ] {
            bed.main_route(destination, gateway);
        }
        let inside = Some(bed.inside);
        for _ in 0..2 {
            for address in FAR {
                assert_eq!(bed.device(address), inside, "{address}");
            }
            bed.routing.follow();
        }
        // They were there before the tunnel as well.
        bed.routing.undo();
        assert_eq!(bed.routing.apply(&full_settings()), []);
        assert_eq!(FAR.map(|address| bed.device(address)), [inside; 3]);
    });
}

/// M7: TunnelCrack (CVE-2023-36672, CVE-2023-36673).
#[test]
fn neither_the_servers_address_nor_a_false_local_network_leads_past_the_tunnel() {
    in_fresh_network(|| {
        let mut bed = Bed::new(&full_settings());
        let (inside, outside) = (bed.inside, bed.outside);
        bed.main_route("198.51.100.9/32", Some("192.168.5.1"));
        bed.netlink.add_address(outside, "9.9.9.7/24".parse().unwrap(), None).unwrap();
        bed.netlink.add_address(outside, "2620:fe::7/64".parse().unwrap(), None).unwrap();
        bed.netlink.add_address(outside, "10.66.0.7/24".parse().unwrap(), None).unwrap();
        bed.routing.follow();
        for address in ["198.51.100.9", "9.9.9.9", "2620:fe::fe"] {
            assert_eq!(bed.device(address), Some(inside), "{address}");
        }
        assert_eq!(bed.device("10.66.0.9"), Some(outside), "a network of private addresses");
    });
}

/// Deleted rules and routes are restored, and nothing leaves meanwhile, whichever was deleted.
#[test]
fn whatever_is_deleted_nothing_leaves_beside_the_tunnel() {
    in_fresh_network(|| {
        let mut bed = Bed::new(&full_settings());
        let (rules, routes) = (bed.own_rules(), bed.own_routes());
        assert_eq!(rules.len(), 8);
        // One that wins over the system's default route.
        bed.main_route("0.0.0.0/1", Some("192.168.5.1"));
        let stays = |bed: &mut Bed, what: &str| {
            for address in FAR {
                let device = bed.device(address);
                assert_ne!(device, Some(bed.outside), "{address} without {what}");
            }
        };
        for rule in &rules {
            bed.netlink.remove_rule(rule).unwrap();
            stays(&mut bed, &shown(rule));
            bed.routing.follow();
            assert_eq!(bed.own_rules(), rules);
        }
        let by_tunnel = |route: &&TableRoute| route.device == Some(bed.inside);
        let inward: Vec<TableRoute> = routes.iter().filter(by_tunnel).cloned().collect();
        for route in &routes {
            bed.netlink.remove_table_route(route).unwrap();
            stays(&mut bed, &route.destination.to_string());
            bed.routing.follow();
            assert_eq!(bed.own_routes().len(), routes.len());
        }
        let of_first = |route: &&TableRoute| route.table < UNREACHABLE_TABLE;
        routes.iter().filter(of_first).for_each(|route| bed.netlink.remove_table_route(route).unwrap());
        assert_eq!(FAR.map(|address| bed.device(address)), [None; 3], "the whole table is gone");
        bed.routing.follow();
        inward.iter().for_each(|route| bed.netlink.remove_table_route(route).unwrap());
        assert_eq!(FAR.map(|address| bed.device(address)), [None; 3], "no route into the tunnel is left");
        bed.routing.follow();
        bed.netlink.set_up(bed.inside, false).unwrap();
        stays(&mut bed, "the device");
        bed.routing.follow();
        assert_eq!(FAR.map(|address| bed.device(address)), [Some(bed.inside); 3]);
    });
}

/// The kernel checks a new route's gateway by the same rules.
#[test]
fn other_programs_can_still_set_routes() {
    in_fresh_network(|| {
        let mut bed = Bed::new(&full_settings());
        let outside = bed.outside;
        bed.netlink.add_address(outside, "9.9.9.7/24".parse().unwrap(), None).unwrap();
        bed.main_route("198.18.0.0/15", Some("9.9.9.1"));
        let own = bed.netlink.next_hop_of_own("198.18.0.1".parse().unwrap()).unwrap();
        assert_eq!(own.gateway, "9.9.9.1".parse().ok(), "the tunnel's own datagrams go by it");
        assert_eq!(bed.device("198.18.0.1"), Some(bed.inside));
    });
}

/// With or without redirection, no IPv6 goes anywhere, and the sender gets the error at once.
#[test]
fn blocked_ipv6_is_unreachable() {
    let full = TunnelSettings { block_ipv6: true, ..full_settings() };
    let alone = TunnelSettings { redirect: None, ..full.clone() };
    for settings in [full, alone] {
        in_fresh_network(move || {
            let redirected = settings.redirect.is_some();
            let mut bed = Bed::new(&settings);
            bed.main_route("2000::/3", Some("fd00:5::1"));
            for address in ["2a00::1", "fd00:5::1", "fd00:8::1", "fd00:20::1"] {
                assert_eq!(bed.device(address), None, "{address}");
            }
            let error = std::net::UdpSocket::bind("[::]:0").unwrap().connect("[2a00::1]:9").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NetworkUnreachable);
            let own = bed.netlink.next_hop_of_own("2a00::1".parse().unwrap()).unwrap();
            assert_eq!(own.device, bed.outside, "a server that is reached over IPv6");
            let expected = if redirected { bed.inside } else { bed.outside };
            assert_eq!(bed.device("8.8.8.8"), Some(expected));
            for rule in bed.own_rules().into_iter().filter(|rule| rule.family == IpFamily::V6) {
                bed.netlink.remove_rule(&rule).unwrap();
            }
            bed.routing.follow();
            assert_eq!(bed.device("2a00::1"), None, "it was put back");
            bed.routing.undo();
            assert_eq!(bed.device("2a00::1"), Some(bed.outside));
        });
    }
}

#[test]
fn two_tunnels_do_not_take_each_others_rules() {
    in_fresh_network(|| {
        let mut bed = Bed::new(&full_settings());
        let of_others = Rule {
            family: IpFamily::V4,
            priority: LAST_PRIORITY - PRIORITIES - 1,
            except_mark: Some(7),
            target: RuleTarget::Table(8),
        };
        bed.netlink.add_rule(&of_others).unwrap();
        let second = Device::new("tun%d");
        let mut routing = Routing::new(second.name()).unwrap();
        assert_eq!(routing.apply(&full_settings()), []);
        let newest = Some(routing.device());
        assert_eq!(FAR.map(|address| bed.device(address)), [newest; 3], "that came last");
        bed.routing.follow();
        routing.follow();
        assert_eq!(bed.own_rules().len(), 17);
        drop(routing);
        assert_eq!(bed.own_rules().len(), 9);
        assert_eq!(FAR.map(|address| bed.device(address)), [Some(bed.inside); 3]);
    });
}

#[test]
fn rules_of_a_killed_process_are_removed_by_the_next() {
    in_fresh_network(|| {
        let Bed { _world, tun, routing, .. } = Bed::new(&full_settings());
        std::mem::forget(routing);
        drop(tun);
        let mut netlink = Netlink::open().unwrap();
        let own = |netlink: &mut Netlink| {
            let rules = IpFamily::BOTH.map(|family| netlink.rules(family).unwrap());
            rules.iter().flatten().filter(|rule| rule.own.is_some()).count()
        };
        assert_eq!(own(&mut netlink), 8);
        // A process that another test is starting may hold the device until it has begun.
        let is_closed = (0..1500).any(|_| {
            thread::sleep(Duration::from_millis(20));
            netlink.next_hop("8.8.8.8".parse().unwrap()).is_err()
        });
        assert!(is_closed, "nothing leaves meanwhile");
        let tun = Device::new("tun%d");
        let _routing = Routing::new(tun.name()).unwrap();
        assert_eq!(own(&mut netlink), 0);
        for family in IpFamily::BOTH {
            let routes = netlink.all_routes(family).unwrap();
            assert!(routes.iter().all(|listed| listed.route.table < FIRST_TABLE), "{routes:?}");
        }
    });
}

/// Rules of the owner, as ip-rule(8) sets them.
fn ip(line: &str) {
    let status = std::process::Command::new("ip").args(line.split(' ')).status().unwrap();
    assert!(status.success(), "{line}");
}

/// How the system would route an answer from this address of its own.
fn answer(from: &str) -> String {
    let words = ["route", "get", "8.8.8.8", "from", from];
    let output = std::process::Command::new("ip").args(words).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_owners_rules_hold_whichever_came_first() {
    in_fresh_network(|| {
        let rule = "rule add from 192.168.5.7 lookup 128";
        let set = || {
            ip("route add default via 192.168.5.1 dev world table 128");
            ip(rule);
            // It would lead all traffic past the tunnel.
            ip("rule add lookup 128 priority 32700");
            ip("rule add not fwmark 5 lookup 128 priority 32701");
        };
        let world = world();
        set();
        let tun = Device::new("tun%d");
        let mut routing = Routing::new(tun.name()).unwrap();
        let mut netlink = Netlink::open().unwrap();
        let inside = routing.device();
        assert_eq!(routing.apply(&full_settings()), []);
        let device = |netlink: &mut Netlink| netlink.next_hop("8.8.8.8".parse().unwrap()).unwrap().device;
        assert!(answer("192.168.5.7").contains("via 192.168.5.1"), "the rule was there before");
        assert_eq!(device(&mut netlink), inside);
        let jumps = |netlink: &mut Netlink| {
            let listed = netlink.rules(IpFamily::V4).unwrap();
            listed.iter().filter(|rule| rule.is_adits && rule.jump.is_some()).count()
        };
        let own = |netlink: &mut Netlink| {
            let listed = netlink.rules(IpFamily::V4).unwrap();
            listed.iter().filter(|rule| rule.own.is_some()).count()
        };
        assert_eq!((jumps(&mut netlink), own(&mut netlink)), (1, 7));
        routing.follow();
        assert_eq!((jumps(&mut netlink), own(&mut netlink)), (1, 7));
        ip("route del default via 192.168.5.1 dev world table 128");
        assert!(
            !answer("192.168.5.7").contains("via"),
            "what the owner's rule does not decide goes into the tunnel"
        );
        ip("route add default via 192.168.5.1 dev world table 128");
        ip(&rule.replace("add", "del"));
        routing.follow();
        assert!(!answer("192.168.5.7").contains("via"), "{}", answer("192.168.5.7"));
        assert_eq!((jumps(&mut netlink), own(&mut netlink)), (0, 4));
        // Later, and at a priority behind the tunnel's.
        ip(&format!("{rule} priority 32500"));
        ip("rule add fwmark 9 lookup 128 priority 32400");
        routing.follow();
        assert!(answer("192.168.5.7").contains("via 192.168.5.1"));
        let marked = netlink.next_hop_of_marked("8.8.8.8".parse().unwrap(), 9).unwrap();
        assert_ne!(marked.device, inside);
        assert_eq!((jumps(&mut netlink), device(&mut netlink)), (2, inside));
        routing.undo();
        assert_eq!((jumps(&mut netlink), own(&mut netlink)), (0, 0));
        assert!(answer("192.168.5.7").contains("via 192.168.5.1"), "the owner's own is there");

        // A killed process leaves its jumps.
        assert_eq!(routing.apply(&full_settings()), []);
        std::mem::forget(routing);
        netlink.set_up(inside, false).unwrap();
        remove_table(&mut netlink, IpFamily::V4, FIRST_TABLE + inside);
        assert_eq!((jumps(&mut netlink), own(&mut netlink)), (0, 0));
        drop((world, tun));
    });
}

/// CVE-2019-14899: the rule of the firewall, which goes with the tunnel or is found when its process was killed.
#[test]
fn the_firewall_guards_the_tunnels_addresses() {
    in_fresh_network(|| {
        let firewall = || crate::firewall::nft(&["list", "ruleset"], "");
        if firewall().is_err() && std::env::var_os("CI").is_none() {
            #[allow(clippy::print_stderr)]
            {
                eprintln!("NOT TESTED: the firewall's rules need nft");
            }
            return;
        }
        let guarded = TunnelSettings { guards_addresses: true, ..full_settings() };
        let mut bed = Bed::new(&guarded);
        let rules = firewall().unwrap();
        for line in [
            "ip daddr 10.8.0.2 fib saddr type != local drop",
            "ip6 daddr fd00:8::2 fib saddr type != local drop",
        ] {
            assert!(rules.contains(line), "{line}\n{rules}");
        }
        Routing::recover();
        assert_eq!(firewall().unwrap(), rules, "the tunnel runs");
        let split = TunnelSettings { redirect: None, ..guarded.clone() };
        assert_eq!(bed.routing.apply(&split), []);
        assert_eq!(firewall().unwrap(), "");
        assert_eq!(bed.routing.apply(&guarded), []);
        let links = bed.netlink.links().unwrap().len();
        let Bed { _world, tun, routing, mut netlink, .. } = bed;
        std::mem::forget(routing);
        drop(tun);
        // A process that another test is starting may hold the device until it has begun.
        let is_closed = (0..1500).any(|_| {
            thread::sleep(Duration::from_millis(20));
            netlink.links().unwrap().len() < links
        });
        assert!(is_closed && firewall().unwrap() != "");
        Routing::recover();
        assert_eq!(firewall().unwrap(), "", "the process was killed");
    });
}

/// The rules of policy routing keep IPv6 in, also where the tunnel's device alone has none.
#[test]
fn ipv6_does_not_leave_beside_a_tunnel_without_ipv6() {
    in_fresh_network(|| {
        let _world = world();
        let tun = Device::new("tun%d");
        let off = format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", tun.name());
        std::fs::write(off, "1").unwrap();
        let mut routing = Routing::new(tun.name()).unwrap();
        assert_eq!(routing.apply(&full_settings()).len(), 1);
        assert_eq!(routing.lacks(), None);
        let mut netlink = Netlink::open().unwrap();
        assert!(netlink.next_hop("2a00::1".parse().unwrap()).is_err());
        assert_eq!(netlink.next_hop("8.8.8.8".parse().unwrap()).unwrap().device, routing.device());
        routing.undo();
        // By a table and a mark IPv6 would leave: there is no tunnel.
        let route =
            |text: &str| Route { destination: text.parse().unwrap(), via: RouteVia::Tunnel, metric: None };
        let by_mark = TunnelSettings {
            redirect: None,
            table: adit_core::RouteTable::ByMark(51_820),
            routes: vec![route("0.0.0.0/0"), route("::/0")],
            ..full_settings()
        };
        routing.apply(&by_mark);
        assert!(routing.lacks().is_some());
    });
}

/// Several servers may be anywhere, where none is named.
#[test]
fn strict_filters_are_loosened_on_each_way_to_a_server() {
    in_fresh_network(|| {
        let world = world();
        let mut netlink = Netlink::open().unwrap();
        let second = Device::new("tun%d");
        let other = netlink.link(second.name()).unwrap().index;
        netlink.add_address(other, "198.51.100.7/24".parse().unwrap(), None).unwrap();
        netlink.set_up(other, true).unwrap();
        netlink.set_reverse_path_filter(other, STRICT).unwrap();
        let tun = Device::new("tun%d");
        let mut routing = Routing::new(tun.name()).unwrap();
        assert_eq!(routing.apply(&TunnelSettings { server: None, ..full_settings() }), []);
        assert_eq!(netlink.reverse_path_filter(other).unwrap(), LOOSE);
        routing.undo();
        assert_eq!(netlink.reverse_path_filter(other).unwrap(), STRICT);
        drop(world);
    });
}

/// The answers of the server pass a strict filter, which is as it was afterwards.
#[test]
fn a_strict_reverse_path_filter_is_loosened() {
    in_fresh_network(|| {
        let world = world();
        let mut netlink = Netlink::open().unwrap();
        let outside = netlink.link("world").unwrap().index;
        netlink.set_reverse_path_filter(outside, STRICT).unwrap();
        let tun = Device::new("tun%d");
        let mut routing = Routing::new(tun.name()).unwrap();
        assert_eq!(routing.apply(&full_settings()), []);
        assert_eq!(netlink.reverse_path_filter(outside).unwrap(), LOOSE);
        routing.undo();
        assert_eq!(netlink.reverse_path_filter(outside).unwrap(), STRICT);
        drop(world);
    });
}

/// M7: a tunnel that cannot have its routes says which.
#[test]
fn what_cannot_be_had_is_named() {
    in_fresh_network(|| {
        let _world = world();
        let tun = Device::new("tun%d");
        let mut routing = Routing::new(tun.name()).unwrap();
        drop(tun);
        routing.apply(&full_settings());
        let lacks = routing.lacks().expect("there is no device").to_owned();
        assert!(lacks.contains("the route to 0.0.0.0/0 by tun"), "{lacks}");
        let mut netlink = Netlink::open().unwrap();
        assert!(netlink.next_hop("8.8.8.8".parse().unwrap()).is_ok(), "the system is as it was");
        let redirect = Redirect { ipv6: true, ..Redirect::default() };
        routing.apply(&TunnelSettings { redirect: Some(redirect), ..full_settings() });
        assert!(routing.lacks().is_some_and(|lacks| lacks.contains("::/0")), "{:?}", routing.lacks());
    });
}

/// No packet of a family that is off can leave.
#[test]
fn a_system_without_ipv6_is_no_obstacle() {
    in_fresh_network(|| {
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").unwrap();
        let tun = Device::new("tun%d");
        let mut routing = Routing::new(tun.name()).unwrap();
        let redirect = Redirect { ipv4: true, ipv6: true, ..Redirect::default() };
        let settings = TunnelSettings { redirect: Some(redirect), ..full_settings() };
        let _world = Device::new("world");
        ip("address add 192.168.5.7/24 dev world");
        ip("link set world up");
        ip("route add default via 192.168.5.1");
        let reports = routing.apply(&settings);
        assert_eq!(routing.lacks(), None);
        let texts: Vec<&str> = reports.iter().map(|report| report.text.as_str()).collect();
        assert_eq!(texts.len(), 1, "{texts:?}");
        let passed_over = "disable_ipv6): passed over are fd00:8::2/64, fd00:20::/32, ::/0";
        assert!(texts[0].ends_with(passed_over) && reports[0].severity == Severity::Warning, "{texts:?}");
        assert_eq!(routing.missing_addresses(), ["fd00:8::2/64".parse().unwrap()]);
        assert_eq!(routing.apply(&TunnelSettings { mtu: 1300, ..settings }), [], "it is said once");
        let mut netlink = Netlink::open().unwrap();
        let device = netlink.next_hop("8.8.8.8".parse().unwrap()).unwrap().device;
        assert_eq!(device, routing.device());
    });
}
