//! The address from which a peer is answered.

use std::net::IpAddr;
use std::time::Duration;

use adit_testbed::{connect, wait_until, wait_until_reachable};

use super::traffic::reaches_at_once;
use crate::wireguard::bed::{End, PORT, Program, WAIT, pair};

with_linux! {
    address_goes as a_source_address_that_goes_is_replaced_at_once,
    answered_address as a_peer_is_answered_from_the_address_that_it_writes_to,
    better_route as a_better_route_takes_the_source_address_with_it,
}

/// Two ends whose wire carries IPv6 by now: the first second's solicitations of neighbours may go unanswered.
fn ends(programs: [Program; 2]) -> [End; 2] {
    let ends = pair(programs);
    wait_until_reachable(&ends[0].namespace, "fd00:9::2".parse().unwrap(), WAIT).unwrap();
    wait_until_reachable(&ends[1].namespace, "fd00:9::1".parse().unwrap(), WAIT).unwrap();
    ends
}

/// Has the end write to that address of the other.
fn aim(end: &End, other: &End, address: &str) {
    end.wg(&format!("set DEV peer {} endpoint {address}:{PORT}", other.public_key)).unwrap();
}

fn change(end: &End, order: &str, address: &str, device: &str) {
    let mut words = vec!["address", order, address, "dev", device];
    if order == "add" && address.contains(':') {
        words.push("nodad");
    }
    end.namespace.ip(&words).unwrap();
}

fn address_goes(programs: [Program; 2]) {
    let [first, second] = &ends(programs);
    let promote = || std::fs::write("/proc/sys/net/ipv4/conf/wire/promote_secondaries", "1");
    first.namespace.enter(promote).unwrap().unwrap();
    for (address, new, old) in [
        (second.outer(), "10.9.0.10/24", "10.9.0.1/24"),
        (second.outer_v6(), "fd00:9::10/64", "fd00:9::1/64"),
    ] {
        aim(first, second, &address);
        reaches_at_once(first, second.inner());
        change(first, "add", new, "wire");
        change(first, "delete", old, "wire");
        reaches_at_once(first, second.inner());
    }
    assert_eq!(second.endpoint(first), format!("[fd00:9::10]:{PORT}"));
}

fn answered_address(programs: [Program; 2]) {
    let [first, second] = &ends(programs);
    change(first, "add", "10.9.0.3/24", "wire");
    change(first, "add", "fd00:9::3/64", "wire");
    // An address of another device than that of the way back.
    first.namespace.ip(&["link", "add", "other", "type", "veth", "peer", "name", "apart2"]).unwrap();
    change(first, "add", "10.50.0.1/24", "other");
    first.namespace.ip(&["link", "set", "other", "up"]).unwrap();
    second.namespace.ip(&["route", "add", "10.50.0.0/24", "dev", "wire"]).unwrap();
    for address in ["10.9.0.1", "[fd00:9::1]", "10.9.0.3", "[fd00:9::3]", "10.50.0.1"] {
        aim(second, first, address);
        reaches_at_once(second, first.inner());
        assert_eq!(second.endpoint(first), format!("{address}:{PORT}"));
    }
}

fn better_route(programs: [Program; 2]) {
    let [first, second] = &ends(programs);
    connect(&first.namespace, &["10.9.0.3/24"], &second.namespace, &[], "wire2").unwrap();
    for end in [first, second] {
        let path = |device: &str| format!("/proc/sys/net/ipv4/conf/{device}/rp_filter");
        let loose = || ["all", "wire", "wire2"].map(|device| std::fs::write(path(device), "0"));
        end.namespace.enter(loose).unwrap().into_iter().collect::<Result<(), _>>().unwrap();
    }
    let ip = |words: &str| first.namespace.ip(&words.split(' ').collect::<Vec<_>>()).unwrap();
    ip("route flush dev wire proto kernel scope link");
    ip("route flush dev wire2 proto kernel scope link");
    ip("route add 10.9.0.0/24 dev wire src 10.9.0.1 metric 2");
    aim(first, second, "10.9.0.2");
    let target: IpAddr = second.inner();
    reaches_at_once(first, target);
    assert_eq!(second.endpoint(first), format!("10.9.0.1:{PORT}"));
    ip("route add 10.9.0.0/24 dev wire2 src 10.9.0.3 metric 1");
    let better = format!("10.9.0.3:{PORT}");
    // Sooner than datagrams count as unanswered.
    wait_until("datagrams to leave from 10.9.0.3", Duration::from_secs(3), || {
        reaches_at_once(first, target);
        second.endpoint(first) == better
    })
    .unwrap();
    reaches_at_once(second, first.inner());
    // Packets that the other end sent to the old address meanwhile do not bring it back.
    std::thread::sleep(Duration::from_secs(1));
    reaches_at_once(first, target);
    assert_eq!(second.endpoint(first), better);
}
