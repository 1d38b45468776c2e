//! Packets of all sizes, where they may come from, and keys that change.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use adit_testbed::{Ping, can_run, program, transfer, wait_until};

use crate::wireguard::bed::{End, PORT, PROGRAMS, Program, WAIT, pair};
use crate::wireguard::configuration::nobody;

with_linux! {
    counters as every_byte_is_counted_at_once,
    large_packets as packets_of_34_736_bytes_pass,
    padding as padding_ends_at_the_devices_mtu,
    inner_source as the_inner_source_decides_who_is_heard_and_the_endpoint_moves_all_the_same,
}

/// The device's MTU that fills datagrams of 34,816 bytes and more.
const LARGE: &str = "34736";

/// The end reaches the other with one ping, before a handshake is tried again (5 s).
#[track_caller]
pub(super) fn reaches_at_once(end: &End, target: std::net::IpAddr) {
    let ping = Ping { timeout: Duration::from_secs(4), ..Ping::new(1, Duration::ZERO) };
    let report = ping.run(&end.namespace, target).unwrap();
    assert_eq!(report.received, 1, "{target}: {report:?}");
}

/// All that is sent is counted: data with its header, padding and tag, and handshakes.
fn counters(programs: [Program; 2]) {
    let [first, second] = pair(programs);
    let report = Ping::new(10, Duration::from_millis(1)).run(&second.namespace, first.inner()).unwrap();
    assert!(report.is_clean(), "{report:?}");
    let transfer = |end: &End, other: &End| {
        let line = end.wg("show DEV transfer").unwrap();
        line.trim().strip_prefix(&format!("{}\t", other.public_key)).unwrap().to_owned()
    };
    // An initiation of 148 bytes, a response of 92, ten packets of 84 bytes in datagrams of 128 each way; perhaps a keepalive
    // of 32 that confirms the keys before the first packet does.
    let sent = transfer(&second, &first);
    assert!(["1372\t1428", "1372\t1460"].contains(&sent.as_str()), "{sent}");
    let expected: Vec<&str> = sent.split('\t').rev().collect();
    assert_eq!(transfer(&first, &second), expected.join("\t"));
}

fn large_packets(programs: [Program; 2]) {
    // An emulator takes its time.
    let bytes = if programs == [Program::Adit; 2] { 20_000_000 } else { 300_000 };
    let [first, second] = &pair(programs);
    for end in [first, second] {
        end.namespace.ip(&["link", "set", "wire", "mtu", "65535"]).unwrap();
        end.namespace.ip(&["link", "set", &end.device, "mtu", LARGE]).unwrap();
    }
    for endpoint in [first.outer(), first.outer_v6()] {
        second.add_peer(first, Some(endpoint));
        for [from, to] in [[first, second], [second, first]] {
            second.reaches(first);
            for target in [to.inner(), to.inner_v6()] {
                let ping = Ping { size: 34_600, ..Ping::new(5, Duration::from_millis(100)) };
                let report = ping.run(&from.namespace, target).unwrap();
                assert!(report.is_clean(), "{report:?}");
                assert!(transfer(&from.namespace, &to.namespace, target, bytes).unwrap().intact);
            }
        }
    }
}

#[test]
fn fifty_connections_pass_at_once() {
    if !can_run("fifty_connections_pass_at_once", &PROGRAMS) {
        return;
    }
    let [first, second] = &pair([Program::Adit; 2]);
    second.reaches(first);
    std::thread::scope(|scope| {
        for number in 0..50 {
            let [from, to] = if number % 2 == 0 { [first, second] } else { [second, first] };
            let send = move || transfer(&from.namespace, &to.namespace, to.inner(), 500_000).unwrap();
            scope.spawn(move || assert!(send().intact));
        }
    });
}

/// Has all that comes by the wire and is longer dropped, by its length with the outer headers.
fn drop_longer(end: &End, length: u32) {
    for words in [
        "add table inet large".to_owned(),
        "add chain inet large in { type filter hook input priority 0; }".to_owned(),
        "flush chain inet large in".to_owned(),
        format!("add rule inet large in iifname wire meta length > {length} drop"),
    ] {
        let mut nft = program("nft").unwrap();
        nft.arg(words);
        end.namespace.run(nft).unwrap();
    }
}

/// A narrow link on the way whose ICMP messages get lost: only datagrams that may be cut come through.
#[test]
fn datagrams_may_be_cut_on_their_way() {
    if !can_run("datagrams_may_be_cut_on_their_way", &[PROGRAMS[0], "nft"]) {
        return;
    }
    let [first, second] = &pair([Program::Adit; 2]);
    for end in [first, second] {
        for words in [
            "add table inet narrow".to_owned(),
            "add chain inet narrow in { type filter hook input priority 0; }".to_owned(),
            format!("add rule inet narrow in udp dport {PORT} ip frag-off & 0x4000 != 0 drop"),
        ] {
            let mut nft = program("nft").unwrap();
            nft.arg(words);
            end.namespace.run(nft).unwrap();
        }
    }
    second.reaches(first);
    let ping = Ping { size: 1372, ..Ping::new(5, Duration::from_millis(20)) };
    let report = ping.run(&second.namespace, first.inner()).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

/// An MTU of 1412, as PPPoE needs it, set while the interfaces run: no datagram is longer than 1,492 bytes over IPv6.
#[test]
fn padding_follows_a_change_of_the_mtu() {
    if !can_run("padding_follows_a_change_of_the_mtu", &[PROGRAMS[0], "nft"]) {
        return;
    }
    let [first, second] = &pair([Program::Adit; 2]);
    second.add_peer(first, Some(first.outer_v6()));
    second.reaches(first);
    for end in [first, second] {
        drop_longer(end, 1492);
        end.namespace.ip(&["link", "set", &end.device, "mtu", "1412"]).unwrap();
    }
    let passes = |size, timeout| {
        let ping = Ping { size, timeout, ..Ping::new(1, Duration::ZERO) };
        ping.run(&second.namespace, first.inner()).unwrap().is_clean()
    };
    // Both daemons follow it.
    wait_until("the padding to be cut", WAIT, || passes(1384, Duration::from_millis(500))).unwrap();
    for size in [1360, 1377, 1380, 1381, 1383, 1384] {
        assert!(passes(size, WAIT), "{size}");
    }
}

/// Behind an end whose device takes shorter packets, or where the way is narrow, ICMP's word of it is often lost.
#[test]
fn tcp_segments_fit_the_devices_mtu_which_may_change() {
    if !can_run("tcp_segments_fit_the_devices_mtu_which_may_change", &[PROGRAMS[0], "nft"]) {
        return;
    }
    let [first, second] = &pair([Program::Adit; 2]);
    second.reaches(first);
    let nft = |words: &str| {
        let mut nft = program("nft").unwrap();
        nft.arg(words);
        first.namespace.run(nft).unwrap()
    };
    nft("add table inet seen");
    nft("add chain inet seen in { type filter hook input priority 0; }");
    for target in [first.inner(), first.inner_v6()] {
        let overhead = if target.is_ipv4() { 40 } else { 60 };
        let listener = first.namespace.enter(|| TcpListener::bind((target, 0)).unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        for mtu in [1420, 1300] {
            first.namespace.ip(&["link", "set", &first.device, "mtu", &mtu.to_string()]).unwrap();
            nft("flush chain inet seen in");
            let size = mtu - overhead;
            nft(&format!("add rule inet seen in tcp flags syn tcp option maxseg size {size} counter"));
            // The daemon follows the MTU a moment later.
            wait_until("a SYN with the MSS", WAIT, || {
                let connect = || TcpStream::connect_timeout(&(target, port).into(), WAIT).unwrap();
                drop(second.namespace.enter(connect).unwrap());
                !nft("list chain inet seen in").contains("packets 0")
            })
            .unwrap();
        }
    }
}

/// Linux pads to the MTU of the packet's route at most. A program does not see the route.
fn padding(programs: [Program; 2]) {
    let [first, second] = &pair(programs);
    for end in [first, second] {
        // 1,420 bytes, 32 of WireGuard, 28 of IPv4 and UDP are 1,480. With padding to 16 they were 1,484.
        drop_longer(end, 1480);
    }
    second.reaches(first);
    for size in [1380, 1389, 1392] {
        let report =
            Ping { size, ..Ping::new(1, Duration::ZERO) }.run(&second.namespace, first.inner()).unwrap();
        assert!(report.is_clean(), "{size}: {report:?}");
    }
}

fn inner_source(programs: [Program; 2]) {
    let [first, second] = &pair(programs);
    second.reaches(first);
    first.wg(&format!("set DEV peer {} allowed-ips 10.77.0.0/24", second.public_key)).unwrap();
    let receiver = first.namespace.enter(|| UdpSocket::bind("10.77.0.1:1111").unwrap()).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let sender = second.namespace.enter(|| UdpSocket::bind("10.77.0.2:0").unwrap()).unwrap();
    let is_heard = || {
        sender.send_to(b"X", "10.77.0.1:1111").unwrap();
        receiver.recv(&mut [0; 8]).is_ok()
    };
    assert!(is_heard());
    let other = nobody(1);
    first.wg(&format!("set DEV peer {other} allowed-ips 10.77.0.2/32")).unwrap();
    second.wg("set DEV listen-port 9997").unwrap();
    assert!(!is_heard(), "the address is another peer's");
    first.wg(&format!("set DEV peer {other} remove")).unwrap();
    assert_eq!(first.endpoint(second), format!("{}:9997", second.outer()));
    assert!(is_heard());
}

#[test]
fn a_handshake_follows_a_new_private_key_at_once() {
    if !can_run("a_handshake_follows_a_new_private_key_at_once", &PROGRAMS) {
        return;
    }
    let [first, second] = &pair([Program::Adit; 2]);
    first.wg(&format!("set DEV peer {} endpoint {}:{PORT}", second.public_key, second.outer())).unwrap();
    first.reaches(second);
    let third = End::create(3, Program::Adit);
    first.wg(&format!("set DEV private-key {}", third.key_file.display())).unwrap();
    let (new, old) = (&third.public_key, &first.public_key);
    second.wg(&format!("set DEV peer {new} allowed-ips 10.77.0.1/32 peer {old} remove")).unwrap();
    reaches_at_once(first, second.inner());
    reaches_at_once(second, first.inner());
    wait_until("the endpoint", WAIT, || second.endpoint(&third).starts_with(&first.outer())).unwrap();
}
