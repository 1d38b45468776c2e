//! The keys: what becomes of each, and of wrong values.

use adit_core::configuration::Kind;

use super::world::{World, config, problems};
use crate::keys::all;
use crate::{
    Action, Childless, DscpCopy, Fragmentation, Host, InterfaceId, Method, Padding, PoolAddresses,
    Revocation, SendCertificate, Unique,
};

/// The problems of a line of a connection, which is line 2.
fn of_connection(line: &str) -> Vec<String> {
    problems(format!("connections {{ a {{\n{line}\n}} }}"))
}

/// The problems of a line of a child, which is line 2.
fn of_child(line: &str) -> Vec<String> {
    problems(format!("connections {{ a {{ children {{ b {{\n{line}\n}} }} }} }}"))
}

#[test]
fn the_defaults_are_those_of_the_original() {
    let config = config("connections { a { children { b { } } } }");
    let connection = &config.connections[0];
    let seconds = |time: Option<std::time::Duration>| time.map(|time| time.as_secs());
    assert_eq!((seconds(connection.rekey_time), seconds(connection.reauth_time)), (Some(14_400), None));
    assert_eq!((connection.over_time.as_secs(), connection.rand_time.as_secs()), (1440, 1440));
    assert!(connection.mobike && connection.send_certreq && !connection.encap && !connection.ppk_required);
    assert_eq!((connection.keyingtries, connection.remote_port, connection.dpd_delay), (Some(1), 500, None));
    assert_eq!(connection.unique, Unique::No);
    let defaults = (adit_ike::suite::ike_proposals("default"), adit_ike::suite::esp_proposals("default"));
    assert_eq!(Ok(&connection.proposals), defaults.0.as_ref());
    assert_eq!(connection.local[0].auth, Method::default());
    let child = &connection.children[0];
    assert_eq!(Ok(&child.esp_proposals), defaults.1.as_ref());
    assert_eq!((child.time.rekey, child.time.life, child.time.random), (Some(3600), Some(3960), 360));
    assert_eq!((child.bytes.rekey, child.bytes.life, child.bytes.random), (None, None, 0));
    assert_eq!(child.local_ts, [crate::TrafficSelector::DYNAMIC]);
    assert!(child.policies && child.copy_df && child.copy_ecn && !child.icmp);
}

#[test]
fn times_follow_from_those_that_the_file_has() {
    let times = |lines: &str| {
        let config = config(&format!("connections {{ a {{\n{lines}\n}} }}"));
        let one = &config.connections[0];
        let seconds = |time: Option<std::time::Duration>| time.map_or(0, |time| time.as_secs());
        (seconds(one.rekey_time), seconds(one.reauth_time), one.over_time.as_secs(), one.rand_time.as_secs())
    };
    assert_eq!(times("reauth_time = 1h"), (0, 3600, 360, 360));
    assert_eq!(times("rekey_time = 0"), (0, 0, 0, 0));
    assert_eq!(times("rekey_time = 100s\nreauth_time = 1h"), (100, 3600, 360, 50));
    assert_eq!(times("rekey_time = 100s\nover_time = 7\nrand_time = 3"), (100, 0, 7, 3));
    let limits = |lines: &str| {
        let config = config(&format!("connections {{ a {{ children {{ b {{\n{lines}\n}} }} }} }}"));
        let child = &config.connections[0].children[0];
        (child.time, child.bytes, child.packets)
    };
    let (time, bytes, packets) =
        limits("life_time = 1100\nrekey_bytes = 1000\nlife_packets = 0\nrand_time = 5");
    assert_eq!((time.rekey, time.life, time.random), (Some(1000), Some(1100), 5));
    assert_eq!((bytes.rekey, bytes.life, bytes.random), (Some(1000), Some(1100), 100));
    assert_eq!((packets.rekey, packets.life), (None, None));
    let (time, ..) = limits("rekey_time = 0");
    assert_eq!((time.rekey, time.life), (None, None), "without a rekey no lifetime ends a child SA");
}

#[test]
fn every_key_of_a_connection_is_read() {
    let text = "\
connections {
  a {
    version = 2
    local_addrs = 192.0.2.1, fd00::1
    remote_addrs = vpn.example.org
    local_port = 4500
    remote_port = 4500
    proposals = aes256gcm16-prfsha384-ecp384
    vips = 0.0.0.0, ::
    aggressive = no
    pull = yes
    dscp = 101110
    encap = yes
    Mobike = no
    dpd_delay = 30s
    dpd_timeout = 150s
    fragmentation = force
    childless = prefer
    send_certreq = no
    send_cert = always
    ocsp = never
    ppk_id = ppk@example.org
    ppk_required = yes
    keyingtries = 0
    unique = replace
    reauth_time = 3h
    rekey_time = 1h
    over_time = 10m
    rand_time = 5m
    pools = v4, v6
    if_id_in = 7
    if_id_out = %unique
    mediation = no
    remote {
      auth = psk
      id = *.example.org
      revocation = strict
      ca_id = \"C=CH, O=Example, CN=*\"
    }
    remote-0 { round = 0
               auth = psk }
    remote-1 { round = 1 }
    local { round = 3
            id = laptop@example.org
            auth = ike:pubkey-sha384
            eap_id = x }
    children {
      net {
        esp_proposals = chacha20poly1305-x25519-esn-noesn
        sha256_96 = no
        local_ts = dynamic[tcp/80], 10.1.0.0/16
        remote_ts = 10.2.0.1-10.2.0.9
        updown = /usr/lib/updown iptables
        hostaccess = yes
        mode = tunnel
        policies = no
        policies_fwd_out = no
        dpd_action = restart
        ipcomp = no
        inactivity = 1h
        reqid = 5
        priority = 1
        mark_in = 0/0x0
        mark_in_sa = no
        if_id_in = 42
        tfc_padding = mtu
        replay_window = 2048
        per_cpu_sas = encap
        hw_offload = auto
        copy_df = no
        copy_ecn = no
        copy_dscp = yes
        icmp = yes
        start_action = trap|start
        close_action = none
      }
    }
  }
}
secrets {
  ike-1 { id = laptop@example.org
          id-2 = *.example.org
          secret = 0s/Q== }
  ppk { id = ppk@example.org
        secret = 0x0102 }
  eap { id = carol
        secret = x }
}
pools {
  v4 { addrs = 10.9.0.0/24
       dns = 10.9.0.1
       subnet = 10.0.0.0/8, fd00::/8
       25 = corp.example.org, example.net }
  v6 { addrs = fd00::10-fd00::99
       split_include = 10.0.0.0/8 }
}
";
    let parsed = World::default().parse(text).unwrap_or_else(|failure| panic!("{failure}"));
    let (config, report) = (parsed.config, parsed.report);
    let one = &config.connections[0];
    assert_eq!(one.remote_addrs, [Host::Name("vpn.example.org".to_owned())]);
    assert_eq!((one.local_addrs.len(), one.local_port, one.remote_port), (2, Some(4500), 4500));
    assert_eq!((one.dscp, one.encap, one.mobike, one.keyingtries), (46, true, false, None));
    assert_eq!((one.fragmentation, one.childless), (Fragmentation::Yes, Childless::Prefer));
    assert_eq!((one.send_cert, one.unique), (SendCertificate::Always, Unique::Replace));
    assert_eq!((one.if_id_in, one.if_id_out), (InterfaceId::Number(7), InterfaceId::Unique));
    let rounds: Vec<&str> = one.remote.iter().map(|round| round.name.as_str()).collect();
    assert_eq!(rounds, ["remote", "remote-0", "remote-1"], "sorted by round, else as in the file");
    assert_eq!(one.remote[0].revocation, Revocation::Strict);
    let child = &one.children[0];
    let both = Action { start: true, trap: true };
    assert_eq!((child.start_action, child.dpd_action), (both, Action { start: true, trap: false }));
    assert_eq!((child.local_ts.len(), child.remote_ts.len(), child.replay_window), (2, 1, Some(2048)));
    assert_eq!((child.tfc_padding, child.copy_dscp, child.policies), (Padding::ToMtu, DscpCopy::Both, false));
    assert_eq!(child.if_id_in, InterfaceId::Number(42));
    assert_eq!(config.shared_keys[0].owners.len(), 2);
    assert_eq!(config.shared_keys[0].secret.bytes().as_slice(), [0xfd]);
    assert_eq!(config.passwords[0].secret.bytes().as_slice(), b"x");
    assert_eq!(config.post_quantum_keys.len(), 1);
    let pool = config.pool("v4").expect("a pool");
    assert_eq!(pool.addrs, PoolAddresses::Network("10.9.0.0/24".parse().expect("a network")));
    assert_eq!((pool.subnet.len(), pool.attributes.len(), pool.attributes[1].kind), (2, 2, 25));
    assert_eq!(pool.attributes[1].value, b"example.net");
    // Each line with a key is in the report, and in its order.
    let keys: Vec<u32> =
        text.lines().zip(1..).filter(|(line, _)| line.contains(" = ")).map(|(_, line)| line).collect();
    assert_eq!(report.iter().map(|entry| entry.line).collect::<Vec<_>>(), keys);
    let unused: Vec<&str> = report
        .iter()
        .filter(|entry| entry.kind == Kind::Ignored)
        .map(|entry| entry.directive.as_str())
        .collect();
    let expected = [
        "pull",
        "dpd_timeout",
        "ocsp",
        "hostaccess",
        "policies_fwd_out",
        "reqid",
        "priority",
        "mark_in_sa",
        "per_cpu_sas",
        "hw_offload",
        "split_include",
    ];
    assert_eq!(unused, expected);
    assert_eq!(one.places.of("mobike").line, 14, "it is written Mobike");
    assert_eq!((one.places.of("none").line, child.places.section().line), (2, 48));
}

#[test]
fn rounds_are_sorted_by_their_numbers() {
    let text = "connections { a { remote-b { round = 2\n} remote-a { round = 1\n} remote { } local-b { round = 1\n} local-a { } } }";
    let connection = config(text).connections.remove(0);
    let remote: Vec<&str> = connection.remote.iter().map(|round| round.name.as_str()).collect();
    let local: Vec<&str> = connection.local.iter().map(|round| round.name.as_str()).collect();
    assert_eq!((remote, local), (vec!["remote", "remote-a", "remote-b"], vec!["local-a", "local-b"]));
}

#[test]
fn what_adit_does_not_have_is_refused_with_the_way_out() {
    for (line, part) in [
        ("version = 1", "`version`: `1` is refused: adit has no IKEv1; write 2, at both ends"),
        ("aggressive = yes", "aggressive mode is a part of IKEv1"),
        ("mediation = yes", "write an address of the peer in `remote_addrs`"),
        ("mediated_by = x", "`mediated_by`: it is refused: adit mediates no connections"),
        ("local { auth = eap-ttls\n}", "adit has eap-mschapv2 and eap-tls; write one of them, pubkey or psk"),
        ("remote { auth = xauth\n}", "XAuth is a part of IKEv1"),
        ("remote { groups = sales\n}", "name the peers by `id`"),
        ("remote { cert_policy = 1.2.3\n}", "name the authority of the peers by `cacerts`"),
    ] {
        let found = of_connection(line);
        assert!(
            found.len() == 1 && found[0].starts_with("swanctl.conf:2: ") && found[0].contains(part),
            "{found:?}"
        );
    }
    for (line, part) in [
        ("ah_proposals = sha256", "adit has no AH; write `esp_proposals`"),
        ("mode = transport", "`transport` is refused: adit has the mode tunnel alone"),
        ("mode = pass", "belong outside of the selectors"),
        ("ipcomp = yes", "adit compresses no packets"),
        ("sha256_96 = yes", "as RFC 4868 has it"),
        ("mark_in = 42", "tell children apart by `local_ts` and `remote_ts`"),
        ("set_mark_out = %same", "adit gives packets no marks"),
        ("interface = eth0", "write the addresses in `local_ts`"),
        ("label = system_u:object_r:ipsec_spd_t:s0", "adit has no security labels"),
        ("esp_proposals = aes128-md5", "`md5` is not supported; write sha256"),
    ] {
        let found = of_child(line);
        assert!(
            found.len() == 1 && found[0].starts_with("swanctl.conf:2: ") && found[0].contains(part),
            "{found:?}"
        );
    }
    let report = World::default().parse("connections { a { version = 1\n} }").expect_err("refused").report;
    assert_eq!(report[0].kind, Kind::Refused);
}

#[test]
fn unknown_names_are_errors_with_the_nearest_known_one() {
    for (line, expected) in [
        (
            "remote_addr = a",
            "swanctl.conf:2: `remote_addr`: there is no such key here; `remote_addrs` is one",
        ),
        ("frobnicate = a", "swanctl.conf:2: `frobnicate`: there is no such key here"),
        (
            "remote_ts = a",
            "swanctl.conf:2: `remote_ts`: it has no place here; it belongs into `children.<name>`",
        ),
        ("frobnicate =", "swanctl.conf:2: `frobnicate`: there is no such key here"),
        ("childen { }", "swanctl.conf:2: `childen` is no section here; `children` is one"),
        ("local { certificate { } }", "swanctl.conf:2: the section has no `file`"),
        ("local { x { } }", "swanctl.conf:2: `x` is no section here; there are cert"),
        ("children { a { b { } } }", "swanctl.conf:2: `b` is no section here"),
        ("children { a = b\n }", "swanctl.conf:2: `a`: there is no such key here"),
    ] {
        assert_eq!(of_connection(line), [expected], "{line}");
    }
    assert_eq!(
        problems("\nconnection { }"),
        [
            "swanctl.conf:2: `connection` is no section of this file, and none refers to it by `:`; `connections` is one"
        ]
    );
    assert_eq!(
        problems("mobike = no"),
        [
            "swanctl.conf:1: `mobike` stands outside of all sections; there are connections, secrets, pools, authorities"
        ]
    );
    let secrets = "secrets {\n password { secret = x\n }\n ike { secrets = x\n } }";
    let expected = [
        "swanctl.conf:2: `password` is no section here; there are eap, xauth, ntlm, ike, ppk, private, rsa, ecdsa, pkcs8, \
         pkcs12, token",
        "swanctl.conf:4: `secrets`: there is no such key here; `secret` is one",
    ];
    assert_eq!(problems(secrets), expected);
}

#[test]
fn wrong_values_are_errors_with_their_line() {
    for (line, part) in [
        ("mobike = perhaps", "`mobike`: `perhaps` is not yes or no"),
        ("rekey_time = 4 hours", "`rekey_time`: `4 hours` is not a time, such as 30s, 20m, 4h or 1d"),
        ("remote_port = 0", "a port from 1 to 65535 is needed"),
        ("unique = always", "`always` is not never, no, keep or replace"),
        ("remote_addrs = 192.0.2.1, 192.0.2.300", "`192.0.2.300` is not an address, a network"),
        ("proposals = aes256-sha256-modp1024", "`modp1024` is not supported"),
        ("proposals = \"aes\u{1b}256\"", "`aes\\u{1b}256` is not supported"),
        ("proposals = aes256gcm16", "has no PRF, such as prfsha256"),
        ("vips = any", "`any` is not an address"),
        ("pools = none", "`pools`: there is no section `none` in `pools`"),
        ("local { auth = pubkey id = x\n}", "is no method"),
        ("local { id = *.example.org\n}", "stands for several identities; one is needed here"),
        (
            "mobike = no; encap = yes",
            "`no; encap = yes` is not yes or no; each `key = value` stands on a line of its own",
        ),
        ("mobike = no;", "`no;` is not yes or no; a `;` ends no line"),
    ] {
        let found = of_connection(line);
        assert!(
            found.len() == 1 && found[0].starts_with("swanctl.conf:2: ") && found[0].contains(part),
            "{found:?}"
        );
    }
    for (line, part) in [
        ("local_ts = 10.0.0.0/8, lan", "`local_ts`: `lan` is not a network such as"),
        ("start_action = trap|stat", "`stat` is not none, trap, start"),
        ("replay_window = many", "is not a number from 0 to 4294967295"),
        ("tfc_padding = 65536", "is not mtu, or a number of bytes from 0 to 65535"),
        ("per_cpu_sas = all", "`all` is not yes, no or encap"),
        ("updown = \"a\\nb\"", "has characters that are not printable"),
    ] {
        let found = of_child(line);
        assert!(
            found.len() == 1 && found[0].starts_with("swanctl.conf:2: ") && found[0].contains(part),
            "{found:?}"
        );
    }
    assert!(problems("pools { a {\naddrs = lan\n} }")[0].contains(":2: `addrs`: `lan` is not a network"));
    assert!(problems("pools { a { dns = 10.0.0.1\n} }")[0].contains("the pool has no `addrs`"));
    assert!(problems("pools { a { 40000 = x\n} }")[0].contains("`40000`: there is no such key here"));
}

#[test]
fn no_message_quotes_a_secret() {
    for text in [
        "secrets { ike { secret = 0xTOPSECRET\n} }",
        "secrets { ike { secret = 0s!TOPSECRET!\n} }",
        "secrets { private { secret = TOPSECRET\n} }",
        "secrets { ike { secret = TOPSECRET }\n ike2 { id = xmppaddr:x\nsecret = TOPSECRET } }",
    ] {
        let failure = World::default().parse(text).expect_err(text);
        assert!(!format!("{failure}{failure:?}").contains("TOPSECRET"), "{failure:?}");
    }
    let parsed =
        World::default().parse("secrets { ike { secret = TOPSECRET\n} eap { secret = TOPSECRET\n} }");
    assert!(!format!("{parsed:?}").contains("TOPSECRET"));
}

#[test]
fn a_connection_with_a_pre_shared_key_needs_one() {
    let found = of_connection("local { auth = psk\n}");
    assert!(
        found[0]
            .starts_with("swanctl.conf:1: connection `a` has `auth = psk`, and there is no pre-shared key")
    );
    let empty = problems("connections { a { remote { auth = psk\n} } }\nsecrets { ike { id = x\n} }");
    assert!(empty.contains(&"swanctl.conf:3: the section has no `secret`".to_owned()), "{empty:?}");
}

#[test]
fn each_key_stands_once_in_its_table_and_says_why() {
    let known = all();
    assert!(known.len() > 100, "{}", known.len());
    for (index, one) in known.iter().enumerate() {
        let again =
            known.iter().skip(index + 1).find(|other| (other.section, other.name) == (one.section, one.name));
        assert!(again.is_none(), "{} {}", one.section, one.name);
        assert!(one.kind == Kind::Used || !one.reason.is_empty(), "{}", one.name);
    }
}

/// The keys of strongSwan 6.1 by its page swanctl.conf(5), but for those of tokens and of mediation, which are above.
#[test]
fn all_keys_of_the_original_are_known() {
    const KEYS: &str = "version local_addrs remote_addrs local_port remote_port proposals vips aggressive pull dscp encap mobike \
        dpd_delay dpd_timeout fragmentation childless send_certreq send_cert ocsp ppk_id ppk_required keyingtries unique \
        reauth_time rekey_time over_time rand_time pools if_id_in if_id_out mediation mediated_by mediation_peer round certs \
        pubkeys auth id eap_id aaa_id xauth_id groups cert_policy cacerts ca_id revocation ah_proposals esp_proposals sha256_96 \
        local_ts remote_ts life_time rekey_bytes life_bytes rand_bytes rekey_packets life_packets rand_packets updown hostaccess \
        mode policies policies_fwd_out dpd_action ipcomp inactivity reqid priority interface mark_in mark_in_sa mark_out \
        set_mark_in set_mark_out label label_mode tfc_padding replay_window per_cpu_sas hw_offload copy_df copy_ecn copy_dscp icmp \
        start_action close_action secret file handle slot module addrs dns nbns dhcp netmask server subnet split_include \
        split_exclude cacert crl_uris ocsp_uris cert_uri_base";
    let known = all();
    for key in KEYS.split_whitespace() {
        assert!(known.iter().any(|one| one.name == key), "{key}");
    }
}
