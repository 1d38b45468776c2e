//! WireGuard within WireGuard, policy routing, and errors that find their way back.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

use adit_testbed::{Namespace, Ping, connect, program, transfer, wait_until_reachable};

use super::traffic::reaches_at_once;
use crate::wireguard::bed::{End, PORT, Program, WAIT, joined, pair};

with_linux! {
    within as wireguard_passes_through_wireguard,
    behind_another as a_peer_may_be_behind_another_of_the_same_interface,
    marks as routes_by_mark_lead_everything_into_the_tunnel,
    error_through_nat as an_error_finds_its_way_back_through_nat,
    moved as sockets_stay_where_a_device_was_made,
}

/// A second interface of the program of `outer` beside it, in its namespace, with this address. `outer` configures it.
pub(super) fn beside(outer: &End, number: u8, address: &str) -> End {
    let end = End::create(number, outer.program);
    match end.program {
        Program::Kernel => outer.namespace.ip(&["link", "add", &end.device, "type", "wireguard"]).unwrap(),
        _ => outer.namespace.run(end.command()).unwrap(),
    };
    let ip = |words: &[&str]| outer.namespace.ip(words).unwrap();
    ip(&["address", "add", address, "dev", &end.device]);
    ip(&["link", "set", &end.device, "mtu", "1340", "up"]);
    end
}

fn within(programs: [Program; 2]) {
    // An emulator takes its time.
    let bytes = if programs == [Program::Adit; 2] { 5_000_000 } else { 100_000 };
    let [first, second] = &pair(programs);
    second.reaches(first);
    let inner = [beside(first, 3, "10.78.0.1/24"), beside(second, 4, "10.78.0.2/24")];
    for (outer, end, other, endpoint, address) in [
        (first, &inner[0], &inner[1], second.inner(), "10.78.0.2/32"),
        (second, &inner[1], &inner[0], first.inner(), "10.78.0.1/32"),
    ] {
        let (device, key) = (&end.device, end.key_file.display());
        let peer = format!("peer {} allowed-ips {address} endpoint {endpoint}:5", other.public_key);
        outer.wg(&format!("set {device} private-key {key} listen-port 5 {peer}")).unwrap();
    }
    let target = "10.78.0.2".parse().unwrap();
    reaches_at_once(first, target);
    assert!(transfer(&first.namespace, &second.namespace, target, bytes).unwrap().intact);
}

fn behind_another(programs: [Program; 2]) {
    let [first, second] = &pair(programs);
    second.reaches(first);
    let behind = beside(second, 3, "10.79.0.2/24");
    let (device, key) = (&behind.device, behind.key_file.display());
    let peer = format!("peer {} allowed-ips 10.79.0.1/32", first.public_key);
    second.wg(&format!("set {device} private-key {key} listen-port 5 {peer}")).unwrap();
    first.namespace.ip(&["address", "add", "10.79.0.1/24", "dev", &first.device]).unwrap();
    let key = &behind.public_key;
    let endpoint = second.inner();
    first.wg(&format!("set DEV peer {key} allowed-ips 10.79.0.2/32 endpoint {endpoint}:5")).unwrap();
    let target = "10.79.0.2".parse().unwrap();
    reaches_at_once(first, target);
}

/// As wg-quick routes everything into a tunnel: the tunnel's own datagrams have a mark.
fn marks(programs: [Program; 2]) {
    let count = if programs == [Program::Adit; 2] { 100 } else { 10 };
    let [first, second] = &pair(programs);
    let targets = ["192.0.2.7", "2001:db8:99::7"];
    for target in targets {
        second.namespace.ip(&["address", "add", target, "dev", &second.device]).unwrap();
    }
    let key = &second.public_key;
    let endpoint = second.outer();
    first
        .wg(&format!("set DEV fwmark 51820 peer {key} allowed-ips 0.0.0.0/0,::/0 endpoint {endpoint}:{PORT}"))
        .unwrap();
    for family in ["-4", "-6"] {
        let ip = |words: &str| {
            first.namespace.ip(&[&[family], &words.split(' ').collect::<Vec<_>>()[..]].concat()).unwrap();
        };
        ip(&format!("route add default dev {} table 51820", first.device));
        ip("rule add not fwmark 51820 table 51820");
        ip("rule add table main suppress_prefixlength 0");
    }
    for target in targets {
        let ping = Ping::new(count, Duration::from_millis(1));
        let report = ping.run(&first.namespace, target.parse().unwrap()).unwrap();
        assert!(report.is_clean(), "{target}: {report:?}");
    }
}

/// A host behind the second end, whose address is translated there, gets the error that there is no peer.
fn error_through_nat(programs: [Program; 2]) {
    let [first, second] = &pair(programs);
    second.reaches(first);
    let host = Namespace::create("host").unwrap();
    connect(&host, &["10.5.0.1/24"], &second.namespace, &["10.5.0.100/24"], "behind").unwrap();
    host.ip(&["route", "add", "default", "via", "10.5.0.100"]).unwrap();
    let forward = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
    second.namespace.enter(forward).unwrap().unwrap();
    for words in [
        "add table ip nat".to_owned(),
        "add chain ip nat post { type nat hook postrouting priority 100; }".to_owned(),
        format!(
            "add rule ip nat post ip saddr 10.5.0.0/24 oifname {} snat to {}",
            second.device,
            second.inner()
        ),
    ] {
        let mut nft = program("nft").unwrap();
        nft.arg(words);
        second.namespace.run(nft).unwrap();
    }
    let target = format!("{}:9", first.inner()).parse().unwrap();
    let connect = || host.enter(|| TcpStream::connect_timeout(&target, WAIT).unwrap_err().kind()).unwrap();
    assert_eq!(connect(), ErrorKind::ConnectionRefused, "the way there and back");
    second.wg(&format!("set DEV peer {} remove", first.public_key)).unwrap();
    assert_eq!(connect(), ErrorKind::HostUnreachable);
}

/// The namespaces of Linux's test: the devices are moved into namespaces without a network, and their datagrams pass where the devices
/// were made.
fn moved(programs: [Program; 2]) {
    let ends = joined(programs);
    let insides = [1, 2].map(|number| Namespace::create(&format!("inside{number}")).unwrap());
    for (end, other) in [(&ends[0], &ends[1]), (&ends[1], &ends[0])] {
        end.start().unwrap();
        end.set_key();
        end.add_peer(other, Some(other.outer()));
    }
    for (end, inside) in ends.iter().zip(&insides) {
        end.namespace.ip(&["link", "set", &end.device, "netns", inside.name()]).unwrap();
        let address = format!("{}/24", end.inner());
        inside.ip(&["address", "add", &address, "dev", &end.device]).unwrap();
        inside.ip(&["link", "set", &end.device, "mtu", "1420", "up"]).unwrap();
    }
    let ping = Ping::new(5, Duration::from_millis(10));
    for (inside, other) in insides.iter().zip([&ends[1], &ends[0]]) {
        wait_until_reachable(inside, other.inner(), WAIT).unwrap();
        assert!(ping.run(inside, other.inner()).unwrap().is_clean());
    }
}
