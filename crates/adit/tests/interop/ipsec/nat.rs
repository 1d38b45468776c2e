//! Initiators behind a router that translates addresses.

use std::thread;
use std::time::Duration;

use adit_testbed::{Namespace, connect, program, wait_until};

use super::bed::{End, Program, Settings, WAIT, apart, is_ready, row, row_of};

/// Seconds after which the router forgets a flow, and longer than that.
const FORGOTTEN: &str = "2";
const SILENCE: Duration = Duration::from_millis(3500);
/// The rule of a router that keeps ports as far as it can, and of one that gives each flow another port.
pub(super) const KEEPS_PORTS: &str = "snat to 10.0.0.1";
const CHANGES_PORTS: &str = "meta l4proto udp snat to 10.0.0.1:20000-60000 fully-random";

#[test]
fn an_initiator_behind_a_nat_is_answered_and_reached() {
    if !is_ready("ipsec NAT") {
        return;
    }
    row("initiator behind a NAT", Program::StrongSwan, |programs| {
        let (ends, _router) = translated(programs, &Settings::default(), KEEPS_PORTS);
        let [first, second] = &ends;
        second.reaches(first);
        first.reaches(second);
    });
}

#[test]
fn an_initiator_whose_nat_changes_its_port_is_reached_again() {
    if !is_ready("ipsec NAT that changes ports") {
        return;
    }
    // Without MOBIKE the addresses of a request of the initiator count (RFC 7296 section 2.23). The plugin `kernel-libipsec` follows
    // no packet.
    let asks = ["mobike = no", "mobike = no\n dpd_delay = 3s"].map(str::to_owned);
    row("NAT that changes its port", Program::StrongSwan, |programs| {
        let settings = Settings { connection: asks.clone(), ..Settings::default() };
        let (ends, _router) = translated(programs, &settings, CHANGES_PORTS);
        let [first, second] = &ends;
        second.reaches(first);
        thread::sleep(SILENCE);
        let is_back = |one: &End, other: &End| wait_until("a packet", WAIT, || one.is_answered(other));
        if let Err(error) = is_back(second, first).and(is_back(first, second)) {
            panic!("{programs:?}: {error}\n{}\n====\n{}", first.log(), second.log());
        }
    });
}

#[test]
fn two_initiators_behind_one_nat_are_told_apart() {
    if !is_ready("ipsec two initiators behind a NAT") {
        return;
    }
    for third in [Program::Adit, Program::StrongSwan] {
        row_of(
            &format!("two initiators behind one NAT, the other is {third}"),
            [Program::Adit, Program::StrongSwan],
            |_| {
                let mut ends = [
                    End::create(1, Program::Adit),
                    End::create(2, Program::StrongSwan),
                    End::create(3, third),
                ];
                let _router = router(&ends, KEEPS_PORTS);
                let answers = [connection("%any", 1, 2, "none"), connection("%any", 1, 3, "none")].concat();
                ends[0].write_text(&file(&answers), "", "");
                for end in &ends[1..] {
                    end.write_text(&file(&connection("10.0.0.100", end.number(), 1, "start")), "", "");
                }
                ends.iter_mut().for_each(End::start);
                let [first, second, third] = &ends;
                for end in [second, third, second] {
                    end.reaches(first);
                    first.reaches(end);
                }
            },
        );
    }
}

fn file(connections: &str) -> String {
    format!("connections {{\n{connections}}}\nsecrets {{\n ike-1 {{\n secret = one key\n }}\n}}\n")
}

/// A connection of the end `own` to the end `other`.
fn connection(remote: &str, own: usize, other: usize, start: &str) -> String {
    let networks = |end: usize| format!("10.77.{end}.0/24, fd00:77:{end}::/64");
    format!(
        "t{other} {{\n version = 2\n remote_addrs = {remote}\n proposals = aes256gcm16-prfsha384-x25519\n local {{\n auth = psk\n \
         id = end{own}.example\n }}\n remote {{\n auth = psk\n id = end{other}.example\n }}\n children {{\n c {{\n local_ts = {}\n \
         remote_ts = {}\n esp_proposals = aes256gcm16\n start_action = {start}\n }}\n }}\n}}\n",
        networks(own),
        networks(other),
    )
}

/// Two ends with a router between them, which run.
fn translated(programs: [Program; 2], settings: &Settings, rule: &str) -> ([End; 2], Namespace) {
    let mut ends = apart(programs);
    let router = router(&ends, rule);
    ends[0].write(settings, ["10.0.0.100", "%any"]);
    ends[1].write(settings, ["10.0.0.100", "192.168.2.100"]);
    ends.iter_mut().for_each(End::start);
    (ends, router)
}

/// `192.168.N.100` of the other ends becomes `10.0.0.1` where the first end is `10.0.0.100`.
pub(super) fn router(ends: &[End], rule: &str) -> Namespace {
    let (first, others) = ends.split_first().unwrap();
    let router = Namespace::create("router").unwrap();
    connect(&router, &["10.0.0.1/24"], &first.namespace, &["10.0.0.100/24"], "outside").unwrap();
    for end in others {
        let (own, net) = (format!("inside{}", end.number()), format!("192.168.{}", end.number()));
        let (inner, outer) = (format!("{net}.100/24"), format!("{net}.1/24"));
        connect(&router, &[&outer], &end.namespace, &[&inner], &own).unwrap();
        end.namespace.ip(&["route", "add", "default", "via", &format!("{net}.1")]).unwrap();
    }
    let nft = |words: &str| {
        let mut command = program("nft").unwrap();
        command.arg(words);
        router.run(command).unwrap();
    };
    nft("add table ip nat");
    nft("add chain ip nat post { type nat hook postrouting priority 100; }");
    nft(&format!("add rule ip nat post ip saddr 192.168.0.0/16 oifname outside {rule}"));
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
