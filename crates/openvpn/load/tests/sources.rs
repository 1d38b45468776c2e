//! Attackers whose connections come from the addresses of a network.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};

use adit_load_openvpn::attack::{Attack, Sources, Talk};
use adit_testbed::{Namespace, can_run};

const COUNT: usize = 16;

#[test]
fn each_connection_comes_from_another_address_of_the_network() {
    if !can_run("each_connection_comes_from_another_address_of_the_network", &[]) {
        return;
    }
    let network: Ipv6Addr = "2001:db8:8000::".parse().unwrap();
    let namespace = Namespace::create("sources").unwrap();
    namespace.ip(&["-6", "route", "add", "local", "2001:db8:8000::/61", "dev", "lo"]).unwrap();
    let seen = namespace.enter(|| {
        std::fs::write("/proc/sys/net/ipv6/ip_nonlocal_bind", "1").unwrap();
        let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
        let sources = Sources::Prefix(network, 61);
        let attack = Attack::Connections { talk: Talk::Garbage, sources, count: COUNT };
        let load = attack.start(listener.local_addr().unwrap());
        let accept = || {
            let (mut stream, from): (_, SocketAddr) = listener.accept().unwrap();
            let mut record = [0; 66];
            stream.read_exact(&mut record).unwrap();
            assert_eq!(record[..2], [0, 64], "the length of a record that is garbage");
            (from.ip(), stream)
        };
        // Each stays open until all are there, as those that the server closes are replaced.
        let accepted: Vec<_> = (0..COUNT).map(|_| accept()).collect();
        load.stop().unwrap();
        accepted.into_iter().map(|(address, _)| address).collect::<BTreeSet<IpAddr>>()
    });
    let seen = seen.unwrap();
    assert_eq!(seen.len(), COUNT);
    for address in seen {
        let IpAddr::V6(address) = address else { panic!("{address} is IPv4") };
        assert_eq!(address.to_bits() >> 67, network.to_bits() >> 67, "{address}");
    }
}
