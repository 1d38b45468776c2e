//! How many clients a server takes, which ones, how often, and the settings of each.

use std::cell::RefCell;
use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Ping, Scratch, can_run, wait_until, wait_until_reachable};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program, SERVER_INNER};

const WAIT: Duration = MAX_WAIT;
const BOTH: [Program; 2] = [Program::OpenVpn, Program::Adit];

/// A server with these lines, and clients that stay as they are.
fn bed(options: &Options, server: Program, clients: &[Program], lines: &str) -> Bed {
    let built = Bed::build_with(options, server, clients, |_, [server, _]| {
        if !server.ends_with(lines) {
            server.push_str(lines);
        }
    });
    built.unwrap()
}

/// Starts the server and waits until these clients are up, one after the other.
fn start(bed: &mut Bed, order: &[(usize, Program)]) {
    bed.server.start().unwrap();
    for (number, program) in order {
        bed.clients[*number].start().unwrap();
        let came = bed.clients[*number].process().wait_for_line(0, program.up_line(), WAIT);
        assert!(came.is_ok(), "client {number}: {}", bed.logs());
    }
}

/// Two clients with one certificate.
fn twins(lines: &str) -> Bed {
    let first = RefCell::new(String::new());
    let built = Bed::build_with(&Options::BASE, Program::Adit, &BOTH, |_, [server, client]| {
        if first.borrow().is_empty() {
            server.push_str(lines);
            first.borrow_mut().clone_from(client);
        } else {
            *client = first.borrow().replace("remote 10.9.1.1", "remote 10.9.2.1");
        }
    });
    built.unwrap()
}

#[test]
fn duplicate_cn_admits_one_name_twice() {
    if !can_run("duplicate-cn", &PROGRAMS) {
        return;
    }
    let mut bed = twins("duplicate-cn\n");
    start(&mut bed, &[(0, BOTH[0]), (1, BOTH[1])]);
    let mut addresses = Vec::new();
    for client in &bed.clients {
        let inner = client.inner_addresses().unwrap();
        for address in &inner {
            let there = wait_until_reachable(&bed.server.namespace, *address, WAIT);
            assert!(there.is_ok(), "{}", bed.logs());
        }
        addresses.extend(inner);
    }
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 4, "{addresses:?}\n{}", bed.logs());
}

#[test]
fn without_duplicate_cn_the_newer_session_replaces_the_older() {
    if !can_run("one name twice", &PROGRAMS) {
        return;
    }
    let mut bed = twins("");
    start(&mut bed, &[(0, BOTH[0]), (1, BOTH[1])]);
    let replaced = "client1: replaced by a new connection of the same client";
    let reported = bed.server.process().wait_for_line(0, replaced, WAIT);
    assert!(reported.is_ok(), "{}", bed.logs());
    let newer = bed.clients[1].inner_addresses().unwrap();
    assert!(newer.contains(&"10.8.0.2".parse().unwrap()), "the name keeps its address: {newer:?}");
    wait_until_reachable(&bed.clients[1].namespace, SERVER_INNER[0].parse().unwrap(), WAIT).unwrap();
}

/// The third is refused with the reason, and connects when one has gone.
#[test]
fn max_clients_is_a_limit() {
    if !can_run("max-clients", &PROGRAMS) {
        return;
    }
    for late in BOTH {
        let mut bed = bed(&Options::BASE, Program::Adit, &[Program::Adit, late], "max-clients 1\n");
        start(&mut bed, &[(0, Program::Adit)]);
        bed.clients[1].start().unwrap();
        let reported = bed.clients[1].process().wait_for_line(0, "AUTH_FAILED,TEMP", WAIT);
        assert!(reported.is_ok(), "{}", bed.logs());
        assert_eq!(bed.clients[1].process().count_lines(0, late.up_line()), 0, "{}", bed.logs());
        bed.clients[0].stop().unwrap();
        let came = bed.clients[1].process().wait_for_line(0, late.up_line(), WAIT);
        assert!(came.is_ok(), "{}", bed.logs());
    }
}

/// Each client has networks behind it, which the other reaches; neither is sent to its own by the tunnel.
#[test]
fn clients_reach_the_networks_behind_each_other() {
    if !can_run("iroute between clients", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("ccd").unwrap();
    let networks = |number| [format!("10.6{number}.0.0 255.255.0.0"), format!("fd00:6{number}::/32")];
    let mut lines = format!("client-config-dir {}\n", scratch.path().display());
    for number in [1, 2] {
        let [v4, v6] = networks(number);
        scratch.write(&format!("client{number}"), &format!("iroute {v4}\niroute-ipv6 {v6}\n")).unwrap();
        lines.push_str(&format!(
            "route {v4}\nroute-ipv6 {v6}\npush \"route {v4}\"\npush \"route-ipv6 {v6}\"\n"
        ));
    }
    let options = Options { client_to_client: true, ..Options::BASE };
    let mut bed = bed(&options, Program::Adit, &BOTH, &lines);
    for (number, client) in (1..).zip(&bed.clients) {
        client.namespace.ip(&["address", "add", &format!("10.6{number}.0.1"), "dev", "lo"]).unwrap();
        let v6 = format!("fd00:6{number}::1");
        client.namespace.ip(&["address", "add", &v6, "dev", "lo", "nodad"]).unwrap();
    }
    start(&mut bed, &[(0, BOTH[0]), (1, BOTH[1])]);
    for (own, other) in [(1, 2), (2, 1)] {
        let client = &bed.clients[own - 1].namespace;
        for address in [format!("10.6{other}.0.1"), format!("fd00:6{other}::1")] {
            let there = wait_until_reachable(client, address.parse().unwrap(), WAIT);
            assert!(there.is_ok(), "client{own} to {address}\n{}", bed.logs());
        }
        let routes = client.ip(&["route", "show"]).unwrap() + &client.ip(&["-6", "route", "show"]).unwrap();
        let behind = format!("10.6{own}.0.0/16");
        assert!(!routes.contains(&behind) && !routes.contains(&format!("fd00:6{own}::/32")), "{routes}");
    }
}

/// More routes than fit one push reply.
#[test]
fn a_long_push_comes_in_parts() {
    if !can_run("push-continuation", &PROGRAMS) {
        return;
    }
    const ROUTES: usize = 90;
    let route = |number| format!("push \"route 10.100.{number}.0 255.255.255.0\"\n");
    let lines: String = (0..ROUTES).map(route).collect();
    for [server, client] in
        [[Program::Adit, Program::OpenVpn], [Program::OpenVpn, Program::Adit], [Program::Adit, Program::Adit]]
    {
        let mut bed = bed(&Options::BASE, server, &[client], &lines);
        start(&mut bed, &[(0, client)]);
        let found = || {
            let table = bed.clients[0].namespace.ip(&["route", "show"]).unwrap();
            table.lines().filter(|line| line.starts_with("10.100.")).count()
        };
        let all = wait_until("the routes", WAIT, || found() == ROUTES);
        assert!(all.is_ok(), "{} routes of {server:?} at {client:?}\n{}", found(), bed.logs());
        if client == Program::OpenVpn {
            let log = bed.clients[0].process().log();
            assert!(log.contains("push-continuation 2") && log.contains("push-continuation 1"), "{log}");
        }
    }
}

/// After a restart of the server, names get the addresses that they had, in any order of coming.
#[test]
fn the_pool_keeps_addresses_over_a_restart() {
    if !can_run("ifconfig-pool-persist", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("pool").unwrap();
    let file = scratch.path().join("pool.txt");
    let lines = format!("ifconfig-pool-persist {} 1\n", file.display());
    let mut bed = bed(&Options::BASE, Program::Adit, &BOTH, &lines);
    let addresses = |bed: &Bed| -> Vec<Vec<IpAddr>> {
        bed.clients.iter().map(|it| it.inner_addresses().unwrap()).collect()
    };
    start(&mut bed, &[(1, BOTH[1]), (0, BOTH[0])]);
    let before = addresses(&bed);
    assert_eq!(before[1][0], IpAddr::from([10, 8, 0, 2]), "{before:?}");
    for host in [1, 0] {
        bed.clients[host].stop().unwrap();
    }
    bed.server.stop().unwrap();
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        "client2,10.8.0.2,fd00:8::1000\nclient1,10.8.0.3,fd00:8::1001\n"
    );
    start(&mut bed, &[(0, BOTH[0]), (1, BOTH[1])]);
    assert_eq!(addresses(&bed), before, "{}", bed.logs());
}

/// `DEFAULT` does not count as a client's own file.
#[test]
fn ccd_exclusive_refuses_clients_without_a_file() {
    if !can_run("ccd-exclusive", &PROGRAMS) {
        return;
    }
    for [own, other] in [BOTH, [BOTH[1], BOTH[0]]] {
        let scratch = Scratch::create("ccd").unwrap();
        scratch.write("client1", "").unwrap();
        scratch.write("DEFAULT", "").unwrap();
        let lines = format!("client-config-dir {}\nccd-exclusive\n", scratch.path().display());
        let mut bed = bed(&Options::BASE, Program::Adit, &[own, other], &lines);
        start(&mut bed, &[(0, own)]);
        bed.clients[1].start().unwrap();
        let reported = bed.clients[1].process().wait_for_line(0, "AUTH_FAILED", WAIT);
        let noted = bed.server.process().wait_for_line(0, "has no file for it (ccd-exclusive)", WAIT);
        assert!(reported.is_ok() && noted.is_ok(), "{}", bed.logs());
        assert_eq!(bed.clients[1].process().count_lines(0, other.up_line()), 0, "{}", bed.logs());
    }
}

/// One new client in a period: the second has to try again, and comes in later.
#[test]
fn connect_freq_keeps_clients_apart() {
    if !can_run("connect-freq", &PROGRAMS) {
        return;
    }
    for late in BOTH {
        let mut bed = bed(&Options::BASE, Program::Adit, &[Program::Adit, late], "connect-freq 1 2\n");
        bed.server.start().unwrap();
        // One right after the other: on a slow machine the first may be up when the period is over.
        for client in &mut bed.clients {
            client.start().unwrap();
        }
        let noted = bed.server.process().wait_for_line(0, "more than 1 in 2 s (connect-freq)", WAIT);
        let first = bed.clients[0].process().wait_for_line(0, Program::Adit.up_line(), WAIT);
        let came = bed.clients[1].process().wait_for_line(0, late.up_line(), WAIT);
        assert!(first.is_ok() && noted.is_ok() && came.is_ok(), "{}", bed.logs());
        // A client that is in is not disturbed.
        let ping = Ping::new(20, Duration::from_millis(5));
        let report = ping.run(&bed.clients[0].namespace, SERVER_INNER[0].parse().unwrap()).unwrap();
        assert!(report.is_clean(), "{report:?}\n{}", bed.logs());
    }
}
