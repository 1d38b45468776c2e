//! An initiator behind a router that translates addresses.

use adit_testbed::{Namespace, connect, program};

use super::bed::{End, ROLES, Settings, apart, is_ready};

#[test]
fn an_initiator_behind_a_nat_is_answered_and_reached() {
    if !is_ready("ipsec NAT") {
        return;
    }
    for programs in ROLES {
        let mut ends = apart(programs);
        let _router = router(&ends);
        let settings = Settings::default();
        ends[0].write(&settings, ["10.0.0.100", "%any"]);
        ends[1].write(&settings, ["10.0.0.100", "192.168.1.100"]);
        ends.iter_mut().for_each(End::start);
        let [first, second] = &ends;
        second.reaches(first);
        first.reaches(second);
    }
}

/// `192.168.1.100` of the second end becomes `10.0.0.1` where the first end is `10.0.0.100`.
fn router(ends: &[End; 2]) -> Namespace {
    let [first, second] = ends;
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
    router.enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap().unwrap();
    router
}
