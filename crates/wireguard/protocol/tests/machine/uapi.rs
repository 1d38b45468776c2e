//! The cross-platform interface's text.
#![allow(clippy::panic, reason = "tests")]

use std::time::Duration;

use adit_core::IpNet;
use adit_wireguard::uapi::{
    MAX_OPERATION, Operation, Reader, Refusal, parse, print_outcome, print_refusal, print_status,
};
use adit_wireguard::{
    AllowedIp, Changes, ConfigureError, PeerChange, PeerDetail, PeerStatus, PresharedKey, PrivateKey,
    PublicKey, Status,
};
use proptest::prelude::*;

/// The example of https://www.wireguard.com/xplatform/.
const EXAMPLE: &str = "set=1
private_key=e84b5a6d2717c1003a13b431570353dbaca9146cf150c5f8575680feba52027a
fwmark=0
listen_port=12912
replace_peers=true
public_key=b85996fecc9c7f1fc6d2572a76eda11d59bcd20be8e543b15ce4bd85a8e75a33
preshared_key=188515093e952f5f22e865cef3012e72f8b5f0b598ac0309d5dacce3b70fcf52
replace_allowed_ips=true
allowed_ip=192.168.4.4/32
endpoint=[abcd:23::33%2]:51820
public_key=58402e695ba1772b1cc9309755f043251ea77fdcf10fbe63989ceb7e19321376
replace_allowed_ips=true
allowed_ip=192.168.4.6/32
persistent_keepalive_interval=111
endpoint=182.122.22.19:3233
public_key=662e14fd594556f522604703340351258903b64f35553763f19426ab2a515c58
endpoint=5.152.198.39:51820
replace_allowed_ips=true
allowed_ip=192.168.4.10/32
allowed_ip=192.168.4.11/32
public_key=e818b58db5274087fcc1be5dc728cf53d3b5726b4cef6b9bab8f8f8c2452c25c
remove=true

";

/// A machine with one interface.
fn scope_of(zone: &str) -> Option<u32> {
    if zone == "eth0" { Some(7) } else { zone.parse().ok() }
}

fn changes(text: &str) -> Changes {
    match parse(text.as_bytes(), &scope_of) {
        Ok(Operation::Set(changes)) => *changes,
        other => panic!("{text:?}: {other:?}"),
    }
}

fn refused(lines: &str) -> Refusal {
    parse(format!("set=1\n{lines}\n\n").as_bytes(), &scope_of).expect_err(lines)
}

fn net(text: &str) -> IpNet {
    text.parse().expect("a network")
}

#[test]
fn the_example_of_the_page_is_read() {
    let changes = changes(EXAMPLE);
    let key = PrivateKey::new([0xe8; 32]);
    assert_ne!(changes.private_key, Some(key));
    assert_eq!(changes.private_key.as_ref().map(Option::is_some), Some(true));
    assert_eq!((changes.fwmark, changes.listen_port, changes.replace_peers), (Some(0), Some(12912), true));
    let [first, second, third, fourth] = &changes.peers[..] else { panic!("four peers") };
    assert_eq!(first.public_key.0[..2], [0xb8, 0x59]);
    assert_eq!(first.preshared_key.as_ref().map(|key| key.as_bytes()[31]), Some(0x52));
    assert_eq!(first.endpoint.map(|it| it.to_string()), Some("[abcd:23::33%2]:51820".to_owned()));
    assert_eq!(first.allowed_ips, [AllowedIp::Add(net("192.168.4.4/32"))]);
    assert_eq!((second.persistent_keepalive, second.replace_allowed_ips), (Some(111), true));
    assert_eq!(third.allowed_ips.len(), 2);
    assert_eq!((fourth.remove, third.remove, fourth.update_only), (true, false, false));
}

#[test]
fn zeros_remove_keys_and_marks() {
    let zeros = "0".repeat(64);
    let changes = changes(&format!("set=1\nprivate_key={zeros}\nfwmark=0\nlisten_port=0\n\n"));
    assert_eq!((changes.private_key, changes.fwmark, changes.listen_port), (Some(None), Some(0), Some(0)));
    assert_eq!(self::changes("set=1\n\n"), Changes::default());
}

#[test]
fn allowed_ips_are_added_and_removed_in_order() {
    let key = "ab".repeat(32);
    let text = format!(
        "set=1\npublic_key={key}\nallowed_ip=10.0.0.0/8\nreplace_allowed_ips=true\nallowed_ip=fd00::/8\n\
         allowed_ip=-10.1.0.0/16\nprotocol_version=1\nupdate_only=true\n\n"
    );
    let peer = changes(&text).peers.remove(0);
    let expected = [AllowedIp::Add(net("fd00::/8")), AllowedIp::Remove(net("10.1.0.0/16"))];
    assert_eq!((&peer.allowed_ips[..], peer.update_only), (&expected[..], true));
}

/// `wg` writes the interface's name behind an address of one link. In the answer to `get` there is a number, which it reads as well.
#[test]
fn a_zone_is_the_name_of_an_interface_or_a_number() {
    let endpoint = |text: &str| {
        let operation = format!("set=1\npublic_key={}\nendpoint={text}\n\n", "ab".repeat(32));
        changes(&operation).peers[0].endpoint.map(|it| it.to_string())
    };
    assert_eq!(endpoint("[fe80::1%eth0]:51820").as_deref(), Some("[fe80::1%7]:51820"));
    assert_eq!(endpoint("[fe80::1%7]:51820").as_deref(), Some("[fe80::1%7]:51820"));
    assert_eq!(endpoint("[fe80::1]:51820").as_deref(), Some("[fe80::1]:51820"));
}

/// Each line that is wrong has its number, and 22 (EINVAL) or 71 (EPROTO).
#[test]
fn what_is_wrong_is_named() {
    let key = "ab".repeat(32);
    let peer = format!("public_key={key}\n");
    let rows = [
        ("listen_port=65536", 22, 2),
        ("listen_port=+1", 22, 2),
        ("listen_port=", 22, 2),
        ("fwmark=0x10", 22, 2),
        ("replace_peers=false", 22, 2),
        ("private_key=00", 22, 2),
        ("endpoint=1.2.3.4:5", 22, 2),
        ("nonsense", 71, 2),
        ("fwmark=1\nnonsense=1", 22, 3),
        (&format!("public_key={}", &key[1..]), 22, 2),
        (&format!("public_key={}g", &key[1..]), 22, 2),
        (&format!("{peer}allowed_ip=10.0.0.0"), 22, 3),
        (&format!("{peer}allowed_ip=10.0.0.0/33"), 22, 3),
        (&format!("{peer}allowed_ip=--10.0.0.0/8"), 22, 3),
        (&format!("{peer}endpoint=1.2.3.4"), 22, 3),
        (&format!("{peer}endpoint=name.example:1"), 22, 3),
        (&format!("{peer}endpoint=[fe80::1%eth1]:1"), 22, 3),
        (&format!("{peer}endpoint=[fe80::1%]:1"), 22, 3),
        (&format!("{peer}endpoint=[fe80::1%eth0]"), 22, 3),
        (&format!("{peer}endpoint=[fe80::1%eth0]:65536"), 22, 3),
        (&format!("{peer}endpoint=fe80::1%eth0:1"), 22, 3),
        (&format!("{peer}endpoint=[1.2.3.4%eth0]:1"), 22, 3),
        (&format!("{peer}persistent_keepalive_interval=65536"), 22, 3),
        (&format!("{peer}remove=1"), 22, 3),
        (&format!("{peer}protocol_version=2"), 22, 3),
        (&format!("{peer}listen_port=1"), 22, 3),
    ];
    for (lines, errno, line) in rows {
        let refusal = refused(lines);
        assert_eq!((refusal.errno, refusal.line), (errno, line), "{lines:?}: {refusal}");
        assert!(!refusal.to_string().contains("abab"), "{refusal}: a key shows");
    }
    for operation in [&b"get=2\n\n"[..], b"\n\n", b"set=1x\n\n", b"get=1\nx=1\n\n", b"\xff\n\n"] {
        assert!(parse(operation, &scope_of).is_err(), "{operation:?}");
    }
}

#[test]
fn operations_are_cut_however_they_arrive() {
    let stream = format!("get=1\n\n{EXAMPLE}set=1\nnonsense\n\nget=1\n\n");
    for size in [1, 2, 3, 7, 64, 10_000] {
        let (mut reader, mut found) = (Reader::default(), Vec::new());
        for piece in stream.as_bytes().chunks(size) {
            reader.push(piece).expect("short enough");
            found.extend(std::iter::from_fn(|| reader.next_operation(&scope_of)));
        }
        let [Ok(Operation::Get), Ok(Operation::Set(set)), Err(_), Ok(Operation::Get)] = &found[..] else {
            panic!("pieces of {size}: {found:?}")
        };
        assert_eq!(**set, changes(EXAMPLE));
    }
}

/// wireguard-go's netns.sh sets as many.
#[test]
fn many_allowed_ips_fit() {
    let mut text = format!("set=1\npublic_key={}\n", "ab".repeat(32));
    for a in 0..510_u32 {
        for b in 0..256 {
            text.push_str(&format!("allowed_ip=10.{}.{}.{b}/32\n", a / 256, a % 256));
        }
    }
    text.push('\n');
    let mut reader = Reader::default();
    for piece in text.as_bytes().chunks(65_536) {
        assert!(reader.next_operation(&scope_of).is_none());
        reader.push(piece).expect("it fits");
    }
    let Some(Ok(Operation::Set(changes))) = reader.next_operation(&scope_of) else { panic!("a set") };
    assert_eq!(changes.peers[0].allowed_ips.len(), 130_560);
    assert!(reader.push(&vec![b'x'; MAX_OPERATION]).is_ok());
    assert!(reader.push(b"x").is_err());
}

fn status() -> Status {
    let detail = PeerDetail {
        name: None,
        public_key: PublicKey([0xab; 32]),
        endpoint: Some("[fe80::1%3]:51820".parse().expect("an address")),
        transport: None,
        last_handshake: Some(Duration::new(1_700_000_000, 5)),
        received_bytes: 7,
        sent_bytes: 8,
        persistent_keepalive: 25,
        allowed_ips: vec![net("10.0.0.2/32"), net("fd00::/64")],
        last_timestamp: None,
        unanswered: 0,
        blocked: false,
        post_quantum: None,
    };
    let silent = PeerDetail {
        public_key: PublicKey([0xcd; 32]),
        endpoint: None,
        last_handshake: None,
        allowed_ips: Vec::new(),
        ..detail.clone()
    };
    Status {
        private_key: PrivateKey::new([0x40; 32]),
        listen_port: 51820,
        fwmark: 0,
        peers: vec![
            PeerStatus { detail, preshared_key: PresharedKey::new([1; 32]) },
            PeerStatus { detail: silent, preshared_key: PresharedKey::default() },
        ],
    }
}

#[test]
fn a_status_is_printed_as_wg_reads_it() {
    let expected = format!(
        "private_key={}\nlisten_port=51820\npublic_key={}\npreshared_key={}\nprotocol_version=1\n\
         endpoint=[fe80::1%3]:51820\nlast_handshake_time_sec=1700000000\nlast_handshake_time_nsec=5\n\
         tx_bytes=8\nrx_bytes=7\npersistent_keepalive_interval=25\nallowed_ip=10.0.0.2/32\n\
         allowed_ip=fd00::/64\npublic_key={}\npreshared_key={}\nprotocol_version=1\n\
         last_handshake_time_sec=0\nlast_handshake_time_nsec=0\ntx_bytes=8\nrx_bytes=7\n\
         persistent_keepalive_interval=25\nerrno=0\n\n",
        "40".repeat(32),
        "ab".repeat(32),
        "01".repeat(32),
        "cd".repeat(32),
        "00".repeat(32),
    );
    assert_eq!(*print_status(&status()), expected);
    let marked = Status { fwmark: 51820, private_key: None, peers: Vec::new(), ..status() };
    assert_eq!(*print_status(&marked), "listen_port=51820\nfwmark=51820\nerrno=0\n\n");
}

/// `wg set` takes the negative of what it reads for the error's number.
#[test]
fn errors_of_set_are_negative() {
    assert_eq!(print_outcome(Ok(())), "errno=0\n\n");
    let in_use = ConfigureError::Socket { errno: 98, text: String::new() };
    assert_eq!(print_outcome(Err(in_use.errno())), "errno=-98\n\n");
}

/// `wg` reads digits alone in an answer to `get`, and expects a minus sign in one to `set`. The answer to an operation
/// that is neither has the sign of `set`.
#[test]
fn refusals_have_the_sign_of_their_operation() {
    let answer =
        |operation: &[u8]| print_refusal(&parse(operation, &scope_of).expect_err("a wrong operation"));
    assert_eq!(answer(b"get=1\nx=1\n\n"), "errno=22\n\n");
    assert_eq!(answer(b"get=1\n\xff\n\n"), "errno=71\n\n");
    assert_eq!(answer(b"set=1\nx=1\n\n"), "errno=-22\n\n");
    assert_eq!(answer(b"set=1\nx\n\n"), "errno=-71\n\n");
    assert_eq!(answer(b"get=2\n\n"), "errno=-71\n\n");
}

/// An operation that never ends is refused with the sign of its kind.
#[test]
fn an_operation_that_is_too_long_is_refused_with_the_sign_of_its_kind() {
    for (begin, answer) in [("get=1\n", "errno=7\n\n"), ("set=1\n", "errno=-7\n\n")] {
        let mut reader = Reader::default();
        reader.push(begin.as_bytes()).expect("short enough");
        let refusal = reader.push(&vec![b'x'; MAX_OPERATION]).expect_err("too long");
        assert_eq!(print_refusal(&refusal), answer, "{begin:?}");
    }
}

#[test]
fn a_peer_may_be_given_a_name() {
    let order = |name: &str| format!("set=1\npublic_key={}\nadit_name={name}\n\n", "01".repeat(32));
    let named = parse(order("phone@home").as_bytes(), &scope_of);
    let Ok(Operation::Set(changes)) = named else { panic!("{named:?}") };
    assert_eq!(changes.peers[0].name.as_deref(), Some("phone@home"));
    for wrong in ["", "a b", "\u{1b}[31m", &"a".repeat(65)] {
        assert!(parse(order(wrong).as_bytes(), &scope_of).is_err(), "{wrong:?}");
    }
}

/// wireguard-go ends the connection at the first such line.
#[test]
fn lines_that_end_in_cr_lf_are_refused_at_once() {
    for (parts, answer, line) in [
        (&["set=1\r\nlisten_port=0\r\n\r\n"][..], "errno=-71\n\n", 1),
        (&["get=1\r\n\r\n"], "errno=71\n\n", 1),
        (&["set=1\nlisten_port=0\r", "\n"], "errno=-71\n\n", 2),
    ] {
        let mut reader = Reader::default();
        let refusal = parts.iter().find_map(|part| reader.push(part.as_bytes()).err()).expect("refused");
        assert_eq!((print_refusal(&refusal).as_str(), refusal.line), (answer, line), "{parts:?}");
        assert!(refusal.text.contains("CR LF"));
    }
}

proptest! {
    #[test]
    fn nothing_panics(bytes: Vec<u8>) {
        let _ = parse(&bytes, &scope_of);
        let _ = parse(&[b"set=1\n", &bytes[..], b"\n\n"].concat(), &scope_of);
    }

    /// The text of a status can be set, and gives the status again.
    #[test]
    fn what_is_shown_can_be_set(
        key: [u8; 32], preshared: [u8; 32], port: u16, keepalive: u16, host: u32, length in 0..=32_u8,
    ) {
        let prefix = IpNet::new(std::net::Ipv4Addr::from(host).into(), length).expect("a prefix").trunc();
        let endpoint = std::net::SocketAddr::from((host.to_be_bytes(), port));
        let mut shown = status();
        shown.peers.truncate(1);
        shown.peers[0].preshared_key = PresharedKey::new(preshared);
        let detail = &mut shown.peers[0].detail;
        detail.public_key = PublicKey(key);
        (detail.endpoint, detail.persistent_keepalive) = (Some(endpoint), keepalive);
        detail.allowed_ips = vec![prefix];
        let kept = ["private_key", "listen_port", "public_key", "preshared_key", "endpoint", "persistent",
            "allowed_ip"];
        let printed = print_status(&shown);
        let lines = printed.lines().filter(|line| kept.iter().any(|key| line.starts_with(key)));
        let text = format!("set=1\n{}\n\n", lines.collect::<Vec<_>>().join("\n"));
        let expected = Changes {
            private_key: Some(shown.private_key),
            listen_port: Some(51820),
            peers: vec![PeerChange {
                preshared_key: Some(PresharedKey::new(preshared)),
                endpoint: Some(endpoint),
                persistent_keepalive: Some(keepalive),
                allowed_ips: vec![AllowedIp::Add(prefix)],
                ..PeerChange::new(PublicKey(key))
            }],
            ..Changes::default()
        };
        prop_assert_eq!(changes(&text), expected);
    }
}
