//! Servers with several `local` lines: one socket for UDP and one for TCP, in one process.

use std::net::IpAddr;

use adit_testbed::{MAX_WAIT, Root, can_run, transfer, wait_until_reachable};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{NEWER, Options, Program, SERVER_INNER};

/// Makes the server listen at the addresses of both clients' links, and the second client connect by TCP.
fn change(texts: &mut [String; 2]) {
    for text in texts.iter_mut() {
        // TCP has no exit notice.
        *text = text.replace("explicit-exit-notify 1\n", "");
    }
    let [server, client] = texts;
    *server = server
        .replace("proto udp4\n", "local 10.9.1.1 1194 udp4\nlocal 10.9.2.1 1195 tcp4\n")
        .replace("port 1194\n", "client-to-client\n");
    if client.contains("remote 10.9.2.1") {
        *client = client.replace("proto udp4\n", "proto tcp4-client\n").replace(" 1194\n", " 1195\n");
    }
}

#[test]
fn clients_of_both_sockets_reach_each_other() {
    let name = "clients_of_both_sockets_reach_each_other";
    if !can_run(name, &PROGRAMS) || Root::for_test(name, NEWER).is_none() {
        return;
    }
    for [server, client] in [[Program::Adit, Program::NewerOpenVpn], [Program::NewerOpenVpn, Program::Adit]] {
        let build = Bed::build_with(&Options::BASE, server, &[client, client], |_, texts| change(texts));
        let mut bed = build.unwrap();
        bed.server.start().unwrap();
        let target: IpAddr = SERVER_INNER[0].parse().unwrap();
        for number in 0..2 {
            bed.clients[number].start().unwrap();
            let there = wait_until_reachable(&bed.clients[number].namespace, target, MAX_WAIT);
            assert!(there.is_ok(), "{server:?}, client {number}:\n{}", bed.logs());
        }
        let [first, second] = &bed.clients[..] else { unreachable!() };
        let (near, far) = (&first.namespace, &second.namespace);
        let address = second.inner_addresses().unwrap()[0];
        let moved = transfer(near, far, address, 1_000_000);
        assert!(moved.as_ref().is_ok_and(|moved| moved.intact), "{server:?}: {moved:?}\n{}", bed.logs());
        for host in bed.clients.iter_mut().chain([&mut bed.server]) {
            host.stop().unwrap();
        }
    }
}
