use super::*;
use adit_host::status::report::{Direction, Expiring, Session, Table};

/// A report with something in every place, and what a terminal would obey in every text.
pub(in crate::status) fn wild_report() -> Report {
    let wild = |text: &str| format!("{text}\n  alice\u{1b}[2J\u{202e}");
    let drops = || BTreeMap::from([(wild("reason"), 1)]);
    let counts = || Direction { packets: 0, bytes: 0, drops: drops() };
    let each = Peer {
        name: wild("bob"),
        transport: wild("udp"),
        networks: vec![wild("10.9.0.0/24")],
        cipher: wild("AES-256-GCM"),
        tls: wild("TLS 1.3\r"),
        sessions: vec![session(&wild("net"))],
        ..peer("", [192, 0, 2, 1])
    };
    let expiring =
        Expiring { what: wild("the CA"), at: wild("2026"), days_left: 1, renew: wild("adit renew") };
    Report {
        name: wild("office"),
        pid: 1,
        role: wild("server"),
        device: wild("tun0"),
        endpoints: vec![wild("office"), wild("tcp")],
        offloads: BTreeMap::from([(wild("tun-tso"), Switch::Failed { why: wild("why") })]),
        gso_limited_destinations: 1,
        sent: counts(),
        received: counts(),
        workers: Vec::new(),
        losses: drops(),
        expiring: vec![expiring],
        tables: vec![table(9)],
        sandbox: BTreeMap::new(),
        peers: vec![each],
        unconnected: vec![Unconnected {
            name: wild("carol"),
            public_key: Some(wild("key")),
            remote: None,
            networks: vec![wild("10.9.1.0/24")],
            unanswered: 2,
            blocked: false,
        }],
    }
}

fn table(evicted: u64) -> Table {
    Table { name: "handshakes".to_owned(), entries: 3, share: 128, limit: 1024, evicted, refused: 0 }
}

fn peer(name: &str, remote: [u8; 4]) -> Peer {
    Peer {
        id: 0,
        name: name.to_owned(),
        public_key: None,
        transport: "udp".to_owned(),
        remote: (remote, 1194).into(),
        addresses: vec![[10, 8, 0, 2].into()],
        networks: Vec::new(),
        cipher: "AES-256-GCM".to_owned(),
        tls: "TLS 1.3".to_owned(),
        connected_seconds: 7_260,
        rekeys: 0,
        last_handshake_seconds_ago: 0,
        last_heard_seconds_ago: Some(3),
        packets_sent: 0,
        bytes_sent: 12_345_678,
        packets_received: 0,
        bytes_received: 999,
        sessions: Vec::new(),
    }
}

fn session(name: &str) -> Session {
    Session {
        name: name.to_owned(),
        id_in: "c0ffee00".to_owned(),
        id_out: "00000012".to_owned(),
        cipher: "AES-256-GCM".to_owned(),
        in_udp: true,
        seals: true,
        local: vec!["10.1.0.0/16".to_owned()],
        remote: vec!["10.2.0.0/16".to_owned(), "10.3.0.0/16".to_owned()],
        age_seconds: 65,
        renewed_in_seconds: Some(3000),
        packets_in: 1,
        bytes_in: 84,
        packets_out: 2,
        bytes_out: 168,
    }
}

#[test]
fn sessions_of_a_peer_are_in_the_details() {
    let mut each = peer("b.example", [192, 0, 2, 1]);
    let carried = "      carried  2 packets sent (168 bytes), 1 received (84 bytes)";
    each.sessions = vec![session("net"), Session { seals: false, in_udp: false, ..session("old") }];
    let text = tunnel(&[&calm("ipsec", vec![each])], true);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("    session ")).collect();
    assert_eq!(
        lines,
        [
            "    session    net: 10.1.0.0/16 to 10.2.0.0/16, 10.3.0.0/16, AES-256-GCM, c0ffee00 in, 00000012 out, in UDP, \
             1 min 5 s old, renewed in 50 min 0 s",
            "    session    old: 10.1.0.0/16 to 10.2.0.0/16, 10.3.0.0/16, AES-256-GCM, c0ffee00 in, 00000012 out, \
             1 min 5 s old, renewed in 50 min 0 s, not in use"
        ]
    );
    assert_eq!(text.lines().filter(|line| *line == carried).count(), 2, "{text}");
}

/// A tunnel where all is well.
fn calm(role: &str, peers: Vec<Peer>) -> Report {
    let counts = || Direction { packets: 0, bytes: 0, drops: BTreeMap::new() };
    Report {
        name: "office".to_owned(),
        role: role.to_owned(),
        device: "tun0".to_owned(),
        endpoints: Vec::new(),
        offloads: BTreeMap::from([("tun-tso".to_owned(), Switch::On)]),
        gso_limited_destinations: 0,
        sent: counts(),
        received: counts(),
        losses: BTreeMap::new(),
        expiring: Vec::new(),
        tables: vec![table(0)],
        peers,
        unconnected: Vec::new(),
        ..wild_report()
    }
}

#[test]
fn a_server_is_a_table_of_its_clients() {
    let mut far = peer("Ann", [198, 51, 100, 7]);
    far.addresses.push("fd00::2".parse().expect("an address"));
    far.transport = "tcp".to_owned();
    let text = tunnel(&[&calm("server", vec![peer("bob", [192, 0, 2, 1]), far])], false);
    let expected = "office (server, pid 1) on tun0
  NAME  PROTOCOL     FROM               ADDRESS            SINCE          LAST HEARD     SENT  RECEIVED
  Ann   OpenVPN tcp  198.51.100.7:1194  10.8.0.2, fd00::2  2 h 1 min ago  3 s ago     12.3 MB     999 B
  bob   OpenVPN udp  192.0.2.1:1194     10.8.0.2           2 h 1 min ago  3 s ago     12.3 MB     999 B";
    assert_eq!(text, expected);
    let none = tunnel(&[&calm("server", Vec::new())], false);
    assert_eq!(none, "office (server, pid 1) on tun0\n  no clients connected");
    let none = tunnel(&[&calm("wireguard", Vec::new())], false);
    assert_eq!(none, "office (wireguard, pid 1) on tun0\n  no peers connected");
    let text = tunnel(&[&calm("wireguard", vec![peer("bob", [192, 0, 2, 1])])], false);
    assert!(text.contains("  bob   WireGuard udp  192.0.2.1:1194  "), "{text}");
}

#[test]
fn the_key_of_a_named_peer_is_a_detail() {
    let [named, unnamed] = ["phone", "AQEBAQ=="]
        .map(|name| Peer { public_key: Some("AQEBAQ==".to_owned()), ..peer(name, [192, 0, 2, 1]) });
    let report = calm("wireguard", vec![named, unnamed]);
    assert!(!tunnel(&[&report], false).contains("public key"));
    let details = tunnel(&[&report], true);
    assert_eq!(details.matches("  phone\n    public key AQEBAQ==\n    keys ").count(), 1, "{details}");
    assert!(details.contains("  AQEBAQ==\n    keys "), "{details}");
}

#[test]
fn a_client_names_its_server() {
    let text = tunnel(&[&calm("client", vec![peer("vpn", [192, 0, 2, 1])])], false);
    let expected = "office (client, pid 1) on tun0
  connected to vpn at udp 192.0.2.1:1194
    since      2 h 1 min ago, last heard 3 s ago
    addresses  10.8.0.2
    traffic    12.3 MB sent, 999 B received";
    assert_eq!(text, expected);
    assert_eq!(
        tunnel(&[&calm("client", Vec::new())], false),
        "office (client, pid 1) on tun0\n  not connected"
    );
}

#[test]
fn what_is_not_well_has_a_line_and_the_rest_is_a_detail() {
    let mut report = calm("server", Vec::new());
    let lines =
        |report: &Report| tunnel(&[report], false).lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(&report), [""; 0]);
    report.offloads.insert("tun-uso".to_owned(), Switch::Failed { why: "too old".to_owned() });
    report.offloads.insert("udp-gro".to_owned(), Switch::SwitchedOff);
    report.sandbox.insert("landlock".to_owned(), Switch::Failed { why: "no kernel support".to_owned() });
    report.gso_limited_destinations = 2;
    report.sent.drops.insert("no route".to_owned(), 4);
    report.losses.insert("path closed".to_owned(), 5);
    report.tables.push(table(9));
    assert_eq!(
        lines(&report),
        [
            "  offload: tun-uso is off (too old)",
            "  offload: udp-gro is switched off",
            "  sandbox: landlock is off (no kernel support)",
            "  udp-gso: limited for 2 of the destinations, whose path is narrow",
            "  dropped sending: 4 (no route)",
            "  lost: 5 (path closed)",
            "  limit: handshakes: 3 of 1024 (128 of one source), 9 evicted, 0 refused",
        ]
    );
    let details = tunnel(&[&report], true);
    assert!(
        details.contains("  limit      handshakes: 3 of 1024 (128 of one source), 0 evicted"),
        "{details}"
    );
    assert!(details.contains("  offloads   tun-tso on, tun-uso off (too old)"), "{details}");
}

#[test]
fn a_name_makes_no_line_and_commands_no_terminal() {
    for with_details in [false, true] {
        let text = tunnel(&[&wild_report()], with_details);
        assert!(text.contains("  bob\\n  alice\\u{1b}[2J\\u{202e}  OpenVPN udp"), "{text}");
        assert!(text.contains("handshakes: 3 of 1024 (128 of one source), 9 evicted, 0 refused"), "{text}");
        let carol = "  carol\\n  alice\\u{1b}[2J\\u{202e} no endpoint: 2 initiations without an answer\n";
        assert!(text.contains(&format!("  not connected:{}", &carol[1..])), "{text}");
        assert!(text.split('\n').all(|line| !line.contains(adit_core::is_unprintable)), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("  alice")), "{text}");
    }
}

#[test]
fn endpoints_of_one_tunnel_are_shown_together() {
    let report = |name: &str| Report {
        name: name.to_owned(),
        endpoints: vec!["udp".to_owned(), "tcp".to_owned()],
        ..calm("server", vec![peer("bob", [192, 0, 2, 1])])
    };
    let [udp, tcp] = ["udp", "tcp"].map(report);
    let text = tunnel(&[&udp, &tcp], true);
    assert!(text.starts_with("udp, tcp (server, pid 1), endpoints of one tunnel on tun0\n"), "{text}");
    let lines = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(
        (lines("  NAME "), lines("  sent "), lines("  endpoint   udp"), lines("  endpoint   tcp")),
        (1, 1, 1, 1),
        "{text}"
    );
    assert_eq!(lines("  bob   "), 2, "{text}");
    let alone = tunnel(&[&udp], false);
    assert!(alone.starts_with("udp (server, pid 1) on tun0, one of udp, tcp\n"), "{alone}");
}
