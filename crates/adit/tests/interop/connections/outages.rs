//! Ends that vanish and addresses that change: the tunnel comes back by itself.

use std::net::IpAddr;
use std::time::Duration;

use adit_testbed::{MAX_WAIT, can_run, wait_until_reachable};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program, SERVER_INNER, Transport};

const PAIRS: [[Program; 2]; 3] =
    [[Program::Adit, Program::OpenVpn], [Program::OpenVpn, Program::Adit], [Program::Adit, Program::Adit]];

/// Brings a tunnel up between each pair, breaks it, and waits until packets pass again.
fn check(name: &str, transport: Transport, break_it: impl Fn(&mut Bed)) {
    if !can_run(name, &PROGRAMS) {
        return;
    }
    for [server, client] in PAIRS {
        let mut bed = Bed::build(&Options { transport, ..Options::BASE }, server, &[client]).unwrap();
        bed.server.start().unwrap();
        bed.clients[0].start().unwrap();
        reach(name, &bed);
        break_it(&mut bed);
        // `keepalive 1 5` gives up after 5 seconds; the rest is for the next connection.
        reach(name, &bed);
        bed.clients[0].stop().unwrap_or_else(|error| panic!("{name}: {error}\n{}", bed.logs()));
    }
}

fn reach(name: &str, bed: &Bed) {
    for address in SERVER_INNER {
        let target: IpAddr = address.parse().unwrap();
        wait_until_reachable(&bed.clients[0].namespace, target, MAX_WAIT)
            .unwrap_or_else(|error| panic!("{name}: {error}\n{}", bed.logs()));
    }
}

/// The server is killed without a word and comes back without a memory.
fn kill_the_server(bed: &mut Bed) {
    bed.server.process().kill().unwrap();
    bed.server.start().unwrap();
}

#[test]
fn a_server_that_vanishes_udp() {
    check("a_server_that_vanishes_udp", Transport::Udp4, kill_the_server);
}

#[test]
fn a_server_that_vanishes_tcp() {
    check("a_server_that_vanishes_tcp", Transport::Tcp4, kill_the_server);
}

/// As a laptop that changes networks, or a NAT that forgets: the same client from another address.
#[test]
fn a_client_whose_address_changes() {
    check("a_client_whose_address_changes", Transport::Udp4, |bed| {
        let client = &bed.clients[0].namespace;
        client.ip(&["address", "add", "10.9.1.3/24", "dev", "wire1"]).unwrap();
        client.ip(&["address", "delete", "10.9.1.2/24", "dev", "wire1"]).unwrap();
        // Deleting the first address deletes the others of its network with it.
        let _ = client.ip(&["address", "add", "10.9.1.3/24", "dev", "wire1"]);
    });
}

#[test]
fn a_link_that_is_down_for_a_while() {
    check("a_link_that_is_down_for_a_while", Transport::Udp4, |bed| {
        let client = &bed.clients[0].namespace;
        client.ip(&["link", "set", "wire1", "down"]).unwrap();
        std::thread::sleep(Duration::from_secs(12));
        client.ip(&["link", "set", "wire1", "up"]).unwrap();
    });
}
