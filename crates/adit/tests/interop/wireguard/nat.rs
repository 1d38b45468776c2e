//! An end behind a router that translates addresses and forgets UDP flows after 2 s.

use std::time::Duration;

use adit_testbed::{Namespace, connect, program, wait_until};

use super::bed::{End, PORT, Program, WAIT};
use super::others::with_each;

/// How long the router remembers a flow.
const FORGOTTEN: &str = "2";
/// Longer than that.
const SILENCE: Duration = Duration::from_millis(3500);

with_each! {
    super::translated as a_persistent_keepalive_keeps_the_way_in_open,
}

/// The second end is behind the router.
fn translated(programs: [Program; 2]) {
    let ends = [End::create(1, programs[0]), End::create(2, programs[1])];
    let [first, second] = &ends;
    let router = router(first, second);
    for end in &ends {
        end.start().unwrap();
        end.set_key();
    }
    first.add_peer(second, None);
    second.add_peer(first, None);
    second.replace_peer(first, &format!("endpoint 10.0.0.100:{PORT} persistent-keepalive 1"));
    ends.iter().for_each(End::bring_up);
    second.reaches(first);
    first.reaches(second);
    let outside = |end: &End| end.endpoint(second).starts_with("10.0.0.1:");
    assert!(outside(first), "{programs:?}: {}", first.endpoint(second));
    std::thread::sleep(SILENCE);
    // On a slow machine the router may forget between two keepalives.
    let comes_in = wait_until("a way in", WAIT, || first.is_answered(second.inner()));
    assert!(comes_in.is_ok(), "{programs:?}: nothing came in");
    if programs[1] == Program::Adit {
        second.wg(&format!("set DEV peer {} persistent-keepalive off", first.public_key)).unwrap();
        std::thread::sleep(SILENCE);
        assert!(!first.is_answered(second.inner()), "the router does not forget");
    }
    drop(router);
}

/// `192.168.1.100` of the second end becomes `10.0.0.1` where the first is `10.0.0.100`.
fn router(first: &End, second: &End) -> Namespace {
    let router = Namespace::create("router").unwrap();
    connect(&router, &["10.0.0.1/24"], &first.namespace, &["10.0.0.100/24"], "outside").unwrap();
    connect(&router, &["192.168.1.1/24"], &second.namespace, &["192.168.1.100/24"], "inside").unwrap();
    second.namespace.ip(&["route", "add", "default", "via", "192.168.1.1"]).unwrap();
    let nft = |words: &str| {
        let mut command = program("nft").unwrap();
        command.arg(words);
        router.run(command).unwrap();
    };
    nft("add table ip nat");
    nft("add chain ip nat post { type nat hook postrouting priority 100; }");
    nft("add rule ip nat post ip saddr 192.168.1.0/24 oifname outside snat to 10.0.0.1");
    let settings = [
        ("ipv4/ip_forward", "1"),
        ("netfilter/nf_conntrack_udp_timeout", FORGOTTEN),
        ("netfilter/nf_conntrack_udp_timeout_stream", FORGOTTEN),
    ];
    for (name, value) in settings {
        router.enter(|| std::fs::write(format!("/proc/sys/net/{name}"), value)).unwrap().unwrap();
    }
    router
}
