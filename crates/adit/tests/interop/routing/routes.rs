//! Routes that the server pushes and routes of the client's own: set, used, and taken back.

use std::time::Duration;

use adit_testbed::{MAX_WAIT, Namespace, can_run, wait_until, wait_until_reachable};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program};

/// Networks behind the server, and an address in each.
const BEHIND: [(&str, &str); 4] = [
    ("10.50.0.0/16", "10.50.0.1"),
    ("10.51.0.0/16", "10.51.0.1"),
    ("fd00:50::/32", "fd00:50::1"),
    ("fd00:51::/32", "fd00:51::1"),
];
const TIMEOUT: Duration = MAX_WAIT;

#[test]
fn pushed_and_local_routes_come_and_go() {
    let server = "push \"route 10.50.0.0 255.255.0.0\"\npush \"route-ipv6 fd00:50::/32\"\n";
    let client = "route 10.51.0.0 255.255.0.0\nroute-ipv6 fd00:51::/32\n";
    for part in [Program::OpenVpn, Program::Adit] {
        check(part, server, client, &BEHIND);
    }
}

/// The name is one that the system's resolver knows without a query, and that is no address to adit.
#[test]
fn a_route_to_a_host_by_name_comes_and_goes() {
    check(Program::OpenVpn, "", "route 10.51.0x1\n", &BEHIND[1..2]);
}

#[test]
fn a_redirected_gateway_comes_and_goes() {
    let server = "push \"redirect-gateway def1 ipv6\"\n";
    for part in [Program::OpenVpn, Program::Adit] {
        check(part, server, "", &BEHIND);
    }
}

/// A client without IPv6 passes over the pushed settings of IPv6 with one warning, and IPv4 comes up.
#[test]
fn a_client_without_ipv6_comes_up_with_ipv4() {
    if !can_run("a_client_without_ipv6_comes_up_with_ipv4", &PROGRAMS) {
        return;
    }
    let mut bed = Bed::build_with(&Options::BASE, Program::OpenVpn, &[Program::Adit], |_, [server, _]| {
        server.push_str("push \"redirect-gateway def1 ipv6\"\npush \"route-ipv6 fd00:50::/32\"\n");
    })
    .unwrap();
    bed.server.namespace.ip(&["address", "add", BEHIND[0].1, "dev", "lo"]).unwrap();
    bed.server.start().unwrap();
    let client = &bed.clients[0].namespace;
    client
        .enter(|| {
            for device in ["all", "default"] {
                std::fs::write(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"), "1").unwrap();
            }
        })
        .unwrap();
    bed.clients[0].start().unwrap();
    let client = &bed.clients[0].namespace;
    wait_until_reachable(client, BEHIND[0].1.parse().unwrap(), TIMEOUT)
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.logs()));
    let logs = bed.logs();
    let said = logs.matches("the tunnel is without IPv6").count();
    assert!(said == 1 && !logs.contains("cannot add the route") && !logs.contains("cannot give"), "{logs}");
    bed.clients[0].stop().unwrap();
    bed.server.stop().unwrap();
}

/// With these lines added to the configurations, the client reaches `behind` by the tunnel and the server's outer
/// address around it. Afterwards its routes are as they were before.
fn check(server: Program, server_lines: &str, client_lines: &str, behind: &[(&str, &str)]) {
    if !can_run("routes", &PROGRAMS) {
        return;
    }
    let mut bed = Bed::build_with(&Options::BASE, server, &[Program::Adit], |_, [server, client]| {
        server.push_str(server_lines);
        client.push_str(client_lines);
    })
    .unwrap();
    for (_, address) in behind {
        let arguments = ["address", "add", address, "dev", "lo"];
        bed.server
            .namespace
            .ip(&[&arguments[..], &["nodad"][..usize::from(address.contains(':'))]].concat())
            .unwrap();
    }
    let client = &bed.clients[0].namespace;
    client.ip(&["route", "add", "default", "via", "10.9.1.1"]).unwrap();
    client.ip(&["-6", "route", "add", "default", "via", "fd00:9:1::1"]).unwrap();
    let before = routes(client);

    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let client = &bed.clients[0].namespace;
    for (network, address) in behind {
        // Without the tunnel the default route may lead there too.
        let inside = || client.ip(&["route", "get", address]).is_ok_and(|way| way.contains("dev tun0"));
        wait_until("a route into the tunnel", TIMEOUT, inside)
            .and_then(|()| wait_until_reachable(client, address.parse().unwrap(), TIMEOUT))
            .unwrap_or_else(|error| panic!("{network}: {error}\n{}\n{}", routes(client), bed.logs()));
    }
    let outer = client.ip(&["route", "get", "10.9.1.1"]).unwrap();
    assert!(outer.contains("dev wire1"), "the server's own address goes into the tunnel: {outer}");

    bed.clients[0].stop().unwrap();
    assert_eq!(routes(&bed.clients[0].namespace), before, "{}", bed.logs());
    bed.server.stop().unwrap();
}

/// All routes of a namespace, of all tables but the local one's, and all rules, sorted.
fn routes(namespace: &Namespace) -> String {
    let both = [
        &["-4", "route", "show", "table", "all"][..],
        &["-6", "route", "show", "table", "all"],
        &["-4", "rule", "show"],
        &["-6", "rule", "show"],
    ];
    let both = both.map(|family| namespace.ip(family).unwrap());
    let mut lines: Vec<&str> = both.iter().flat_map(|text| text.lines()).map(str::trim_end).collect();
    lines.retain(|line| !line.contains("table local") && !line.contains("fe80::"));
    lines.sort_unstable();
    lines.join("\n")
}

/// All traffic goes into the tunnel; then the server the client is connected to goes, and the next one is reached by
/// another network than the first.
#[test]
fn a_redirected_client_changes_its_server_and_its_network() {
    if !can_run("moving", &PROGRAMS) {
        return;
    }
    let mut bed = Bed::build_with(&Options::BASE, Program::Adit, &[Program::Adit], |_, [server, client]| {
        // A socket for each address, so that answers come from where the questions went.
        server.push_str("push \"redirect-gateway def1\"\nlocal 10.9.1.1\nlocal 10.9.77.1\n");
        client.push_str("remote 10.9.77.1 1194\nserver-poll-timeout 2\nconnect-retry 0 1\n");
        client.push_str("pull-filter ignore ping-restart\nping-restart 4\n");
    })
    .unwrap();
    let router = &bed.server.namespace;
    router.ip(&["address", "add", "10.9.77.1/32", "dev", "lo"]).unwrap();
    for address in ["10.9.1.99/24", "10.50.0.1/32"] {
        router
            .ip(&["address", "add", address, "dev", if address.ends_with("24") { "wire1" } else { "lo" }])
            .unwrap();
    }
    bed.clients[0].namespace.ip(&["route", "add", "default", "via", "10.9.1.1"]).unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let reach = |bed: &Bed, what: &str| {
        wait_until_reachable(&bed.clients[0].namespace, "10.50.0.1".parse().unwrap(), TIMEOUT)
            .unwrap_or_else(|error| panic!("{what}: {error}\n{}", bed.logs()));
    };
    let inside =
        |bed: &Bed| bed.clients[0].namespace.ip(&["route", "get", "10.50.0.1"]).unwrap().contains("tun0");
    wait_until("the tunnel", TIMEOUT, || inside(&bed))
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.logs()));
    reach(&bed, "at first");

    // Another router: the server's own route must follow it.
    bed.clients[0].namespace.ip(&["route", "replace", "default", "via", "10.9.1.99"]).unwrap();
    // The first server's address is gone from the network of the client.
    bed.server.namespace.ip(&["address", "delete", "10.9.1.1/24", "dev", "wire1"]).unwrap();
    bed.server.namespace.ip(&["address", "add", "10.9.1.99/24", "dev", "wire1"]).unwrap();
    let connected = || bed.logs().matches("tunnel up").count() >= 3;
    wait_until("the other server", TIMEOUT, connected)
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.logs()));
    reach(&bed, "by the other server");
    assert!(inside(&bed), "the gateway is redirected still");
    let way = |more: &[&str]| {
        let arguments = [&["route", "get", "10.9.77.1"], more].concat();
        bed.clients[0].namespace.ip(&arguments).unwrap()
    };
    let own = way(&["mark", "0x61646974"]);
    assert!(own.contains("via 10.9.1.99 dev wire1"), "the tunnel's own datagrams: {own}");
    assert!(way(&[]).contains("tun0"), "other programs: {}", way(&[]));
    bed.clients[0].stop().unwrap();
    let left = routes(&bed.clients[0].namespace);
    assert!(!left.contains("tun0") && !left.contains("10.9.77.1"), "{left}");
}
