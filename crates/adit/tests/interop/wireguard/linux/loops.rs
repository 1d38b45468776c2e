//! Datagrams of a tunnel that are routed into a tunnel, which must not go round for ever.

use std::thread;
use std::time::Duration;

use adit_testbed::{Ping, can_run, wait_until};

use super::routing::beside;
use crate::wireguard::bed::{End, PORT, PROGRAMS, Program, WAIT, pair};

/// Bytes that Linux's test allows.
const LIMIT: u64 = 70_000;

/// Bytes that the interface has sent.
fn sent(end: &End) -> u64 {
    end.wg("show DEV transfer").unwrap().split_whitespace().last().unwrap().parse().unwrap()
}

/// Ten pings are not answered, cost less than the limit, and nothing goes on after them.
#[track_caller]
fn ends(looping: &[&End], pings: &End, target: std::net::IpAddr) {
    let all = || looping.iter().map(|end| sent(end)).sum::<u64>();
    let before = all();
    let ping = Ping { timeout: Duration::from_millis(200), ..Ping::new(10, Duration::from_millis(1)) };
    assert_eq!(ping.run(&pings.namespace, target).unwrap().received, 0);
    let after = all();
    assert!((1..LIMIT).contains(&(after - before)), "{} bytes", after - before);
    // A full packet is cut at each round, and its rest goes round as well.
    let ping = Ping { size: 1300, ..Ping::new(1, Duration::ZERO) };
    let ping = Ping { timeout: Duration::from_millis(200), ..ping };
    assert_eq!(ping.run(&pings.namespace, target).unwrap().received, 0);
    // A handshake may come in between. On a slow machine the last rounds take their time.
    let is_quiet = || {
        let after = all();
        thread::sleep(Duration::from_millis(300));
        all() - after < 5000
    };
    assert!(wait_until("the loop to end", WAIT, is_quiet).is_ok(), "it goes on: {} bytes", all() - before);
}

#[test]
fn a_loop_of_one_interface_ends() {
    if !can_run("a_loop_of_one_interface_ends", &PROGRAMS) {
        return;
    }
    let [first, second] = &pair([Program::Adit; 2]);
    second.reaches(first);
    let (key, inner, endpoint) = (&first.public_key, first.inner(), first.outer());
    second.wg(&format!("set DEV peer {key} allowed-ips {inner}/32,{endpoint}/32")).unwrap();
    second.namespace.ip(&["route", "add", &endpoint, "dev", &second.device]).unwrap();
    ends(&[second], second, inner);
    // Nothing of it stays.
    second.namespace.ip(&["route", "delete", &endpoint, "dev", &second.device]).unwrap();
    second.reaches_v4(first);
}

#[test]
fn a_loop_of_two_interfaces_ends() {
    if !can_run("a_loop_of_two_interfaces_ends", &PROGRAMS) {
        return;
    }
    let [first, second] = &pair([Program::Adit; 2]);
    second.reaches(first);
    // The other interface finds its peer at an address of its own.
    first.namespace.ip(&["address", "add", "10.9.0.101/32", "dev", "wire"]).unwrap();
    second.namespace.ip(&["route", "add", "10.9.0.101", "dev", "wire"]).unwrap();
    let other = beside(second, 3, "10.78.0.1/24");
    let peer = beside(first, 4, "10.78.0.2/24");
    for (end, far, allowed, endpoint) in [
        (&other, &peer, "10.78.0.2/32,10.9.0.1/32", " endpoint 10.9.0.101:5"),
        (&peer, &other, "10.78.0.1/32", ""),
    ] {
        let key = end.key_file.display();
        let far = &far.public_key;
        end.wg(&format!(
            "set DEV private-key {key} listen-port 5 peer {far} allowed-ips {allowed}{endpoint}"
        ))
        .unwrap();
    }
    super::traffic::reaches_at_once(second, "10.78.0.2".parse().unwrap());
    let (key, inner) = (&first.public_key, first.inner());
    second
        .wg(&format!("set DEV peer {key} allowed-ips {inner}/32,10.9.0.101/32 endpoint 10.9.0.1:{PORT}"))
        .unwrap();
    let ip = |words: &[&str]| second.namespace.ip(words).unwrap();
    ip(&["route", "add", "10.9.0.1", "dev", &other.device]);
    ip(&["route", "replace", "10.9.0.101", "dev", &second.device]);
    ends(&[second, &other], second, inner);
}
