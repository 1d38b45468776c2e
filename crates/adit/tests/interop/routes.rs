//! Routes that the server pushes and routes of the client's own: set, used, and taken back.

use std::time::Duration;

use adit_testbed::{Namespace, can_run, wait_until, wait_until_reachable};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program};

/// Networks behind the server, and an address in each.
const BEHIND: [(&str, &str); 4] = [
    ("10.50.0.0/16", "10.50.0.1"),
    ("10.51.0.0/16", "10.51.0.1"),
    ("fd00:50::/32", "fd00:50::1"),
    ("fd00:51::/32", "fd00:51::1"),
];
const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn pushed_and_local_routes_come_and_go() {
    let server = "push \"route 10.50.0.0 255.255.0.0\"\npush \"route-ipv6 fd00:50::/32\"\n";
    let client = "route 10.51.0.0 255.255.0.0\nroute-ipv6 fd00:51::/32\n";
    for part in [Program::OpenVpn, Program::Adit] {
        check(part, server, client, &BEHIND);
    }
}

#[test]
fn a_redirected_gateway_comes_and_goes() {
    let server = "push \"redirect-gateway def1 ipv6\"\n";
    for part in [Program::OpenVpn, Program::Adit] {
        check(part, server, "", &BEHIND);
    }
}

/// With these lines added to the configurations, the client reaches `behind` by the tunnel and the server's outer
/// address around it. Afterwards its routes are what they were.
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
        wait_until("a route into the tunnel", PATIENCE, inside)
            .and_then(|()| wait_until_reachable(client, address.parse().unwrap(), PATIENCE))
            .unwrap_or_else(|error| panic!("{network}: {error}\n{}\n{}", routes(client), bed.logs()));
    }
    let outer = client.ip(&["route", "get", "10.9.1.1"]).unwrap();
    assert!(outer.contains("dev wire1"), "the server's own address goes into the tunnel: {outer}");

    bed.clients[0].stop().unwrap();
    assert_eq!(routes(&bed.clients[0].namespace), before, "{}", bed.logs());
    bed.server.stop().unwrap();
}

/// All routes of a namespace, sorted.
fn routes(namespace: &Namespace) -> String {
    let both =
        [&["-4", "route", "show"], &["-6", "route", "show"]].map(|family| namespace.ip(family).unwrap());
    let mut lines: Vec<&str> = both.iter().flat_map(|text| text.lines()).map(str::trim_end).collect();
    lines.sort_unstable();
    lines.join("\n")
}
