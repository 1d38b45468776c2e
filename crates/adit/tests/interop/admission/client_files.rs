//! A server's files on its clients, with both programs at either end.

use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Scratch, can_run, wait_until, wait_until_reachable};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program, SERVER_INNER};

const TIMEOUT: Duration = MAX_WAIT;

/// Addresses of its own, a network behind the client, one route less; and the pool's memory.
#[test]
fn a_client_has_a_file_of_its_own() {
    for pair in
        [[Program::Adit, Program::OpenVpn], [Program::Adit, Program::Adit], [Program::OpenVpn, Program::Adit]]
    {
        check(pair);
    }
}

fn check([server, client]: [Program; 2]) {
    if !can_run("per_client", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("ccd").unwrap();
    let (ccd, pool) = (scratch.path().join("ccd"), scratch.path().join("pool.txt"));
    fs::create_dir(&ccd).unwrap();
    let own = "ifconfig-push 10.8.0.77 255.255.255.0\niroute 10.60.0.0 255.255.0.0\niroute-ipv6 fd00:60::/32\n\
               push \"route 10.70.0.0 255.255.0.0\"\npush-remove \"route 10.71.\"\n";
    fs::write(ccd.join("client1"), own).unwrap();
    fs::write(ccd.join("DEFAULT"), "disable\n").unwrap();
    fs::write(&pool, "client1,10.8.0.9,fd00:8::1007\n").unwrap();
    let mut bed = Bed::build_with(&Options::BASE, server, &[client], |_, [server, _]| {
        server.push_str(&format!(
            "client-config-dir {}\nifconfig-pool-persist {} 1\nroute 10.60.0.0 255.255.0.0\n\
             route-ipv6 fd00:60::/32\npush \"route 10.71.0.0 255.255.0.0\"\n",
            ccd.display(),
            pool.display()
        ));
    })
    .unwrap();
    let behind = ["10.60.0.1", "fd00:60::1"];
    bed.clients[0].namespace.ip(&["address", "add", behind[0], "dev", "lo"]).unwrap();
    bed.clients[0].namespace.ip(&["address", "add", behind[1], "dev", "lo", "nodad"]).unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    for address in SERVER_INNER {
        wait_until_reachable(&bed.clients[0].namespace, address.parse().unwrap(), TIMEOUT)
            .unwrap_or_else(|error| panic!("{server:?}: {error}\n{}", bed.logs()));
    }
    // The pool gave the other family the address of its file: the same offset for both.
    let addresses: Vec<IpAddr> = ["10.8.0.77", "fd00:8::1007"].map(|a| a.parse().unwrap()).to_vec();
    let found = bed.clients[0].inner_addresses().unwrap();
    assert!(addresses.iter().all(|address| found.contains(address)), "{found:?}\n{}", bed.logs());
    for address in behind {
        wait_until_reachable(&bed.server.namespace, address.parse().unwrap(), TIMEOUT)
            .unwrap_or_else(|error| panic!("behind the client: {error}\n{}", bed.logs()));
    }
    let routes = bed.clients[0].namespace.ip(&["route", "show"]).unwrap();
    assert!(routes.contains("10.70.0.0/16") && !routes.contains("10.71.0.0/16"), "{routes}");
    bed.clients[0].stop().unwrap();
    bed.server.stop().unwrap();
    let written = fs::read_to_string(&pool).unwrap();
    // OpenVPN's server has forgotten its only client by then.
    let remembers = written.starts_with("client1,10.8.0.9,fd00:8::1007");
    assert!(remembers || server == Program::OpenVpn, "{written}");
}

/// `DEFAULT` says `disable`: a client without a file of its own is refused, and gets the reason.
#[test]
fn a_disabled_client_gets_the_reason() {
    if !can_run("disabled", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("ccd").unwrap();
    scratch.write("DEFAULT", "disable\n").unwrap();
    for client in [Program::OpenVpn, Program::Adit] {
        let mut bed = Bed::build_with(&Options::BASE, Program::Adit, &[client], |_, [server, _]| {
            server.push_str(&format!("client-config-dir {}\n", scratch.path().display()));
        })
        .unwrap();
        bed.server.start().unwrap();
        bed.clients[0].start().unwrap();
        let refused = || bed.logs().contains("AUTH_FAILED");
        wait_until("the client to be refused", TIMEOUT, refused)
            .unwrap_or_else(|error| panic!("{error}\n{}", bed.logs()));
        assert!(bed.logs().contains("says `disable`"), "{}", bed.logs());
    }
}
