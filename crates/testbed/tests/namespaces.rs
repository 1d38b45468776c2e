//! The test bed itself, without any tunnel.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::IpAddr;
use std::time::{Duration, Instant};

use adit_testbed::{
    MAX_WAIT, Namespace, Ping, StreamLoad, Streams, can_run, connect, first_answers, program, transfer,
    wait_until_reachable,
};

fn pair() -> (Namespace, Namespace) {
    let left = Namespace::create("left").unwrap();
    let right = Namespace::create("right").unwrap();
    connect(&left, &["10.90.0.1/24", "fd00:90::1/64"], &right, &["10.90.0.2/24", "fd00:90::2/64"], "wire")
        .unwrap();
    (left, right)
}

#[test]
fn two_namespaces_reach_each_other_and_move_a_file() {
    if !can_run("two_namespaces_reach_each_other_and_move_a_file", &[]) {
        return;
    }
    let (left, right) = pair();
    for address in ["10.90.0.2", "fd00:90::2"] {
        let address: IpAddr = address.parse().unwrap();
        wait_until_reachable(&left, address, MAX_WAIT).unwrap();
        let report = Ping::new(20, Duration::from_millis(10)).run(&left, address).unwrap();
        assert_eq!(report.sent, 20);
        assert!(report.is_clean(), "{report:?}");
        let moved = transfer(&left, &right, address, 3_000_001).unwrap();
        assert!(moved.intact);
        assert_eq!(moved.bytes, 3_000_001);
    }
}

#[test]
fn lost_pings_are_counted() {
    if !can_run("lost_pings_are_counted", &[]) {
        return;
    }
    let (left, right) = pair();
    right.ip(&["route", "add", "blackhole", "10.90.0.1/32"]).unwrap();
    right.ip(&["address", "delete", "10.90.0.2/24", "dev", "wire"]).unwrap();
    let ping = Ping { timeout: Duration::from_millis(500), ..Ping::new(3, Duration::from_millis(10)) };
    let report = ping.run(&left, "10.90.0.2".parse().unwrap()).unwrap();
    assert_eq!(report.lost(), 3);
    assert_eq!(report.missing, [0, 1, 2]);
    assert_eq!(report.round_trip, None);
}

#[test]
fn a_stream_counts_what_it_loses_and_the_others_lose_nothing() {
    if !can_run("a_stream_counts_what_it_loses_and_the_others_lose_nothing", &[]) {
        return;
    }
    let (left, right) = pair();
    right.ip(&["address", "add", "10.90.0.3/24", "dev", "wire"]).unwrap();
    right.ip(&["address", "add", "10.90.0.4/24", "dev", "wire"]).unwrap();
    // No address of the right end: what is sent there is never answered.
    let targets = ["10.90.0.2", "10.90.0.3", "10.90.0.4", "10.90.0.9"].map(|text| text.parse().unwrap());
    let times = [Duration::from_millis(5), Duration::from_secs(2)];
    let first = first_answers(&left, &right, &targets, Instant::now(), times).unwrap();
    assert_eq!(first.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, true, false]);

    let load = StreamLoad { rate: 200, size: 100 };
    let streams = Streams::start(&left, &right, &targets[..3], load).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    // The second target goes away for a while; the third stream ends before.
    let third = streams.close(2, MAX_WAIT);
    right.ip(&["address", "delete", "10.90.0.3/24", "dev", "wire"]).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    right.ip(&["address", "add", "10.90.0.3/24", "dev", "wire"]).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let second = streams.close(1, Duration::from_secs(1));
    let first = streams.close(0, MAX_WAIT);
    assert!(first.is_clean() && first.sent > 100, "{first:?}");
    assert!(third.is_clean() && third.sent < first.sent, "{third:?}");
    assert!(second.lost() > 20 && second.answered > 50 && second.longest_gap == second.lost(), "{second:?}");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(streams.losses(0), first, "a closed stream sends no more");
}

#[test]
fn dropping_a_namespace_ends_what_runs_in_it() {
    if !can_run("dropping_a_namespace_ends_what_runs_in_it", &[]) {
        return;
    }
    let namespace = Namespace::create("busy").unwrap();
    let name = namespace.name().to_owned();
    let mut sleep = program("sleep").unwrap();
    sleep.arg("600");
    let mut process = namespace.spawn("sleep", sleep).unwrap();
    drop(namespace);
    assert!(!process.is_running());
    let left = program("ip").unwrap().args(["netns", "list"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&left.stdout).contains(&name));
}

#[test]
fn a_bound_port_is_seen() {
    if !can_run("a_bound_port_is_seen", &[]) {
        return;
    }
    let namespace = Namespace::create("port").unwrap();
    assert!(!namespace.is_bound(true, 1194).unwrap());
    let listener = namespace.enter(|| std::net::TcpListener::bind("127.0.0.1:1194").unwrap()).unwrap();
    assert!(namespace.is_bound(true, 1194).unwrap());
    assert!(!namespace.is_bound(false, 1194).unwrap());
    let socket = namespace.enter(|| std::net::UdpSocket::bind("[::1]:1195").unwrap()).unwrap();
    assert!(namespace.is_bound(false, 1195).unwrap());
    drop((listener, socket));
}
