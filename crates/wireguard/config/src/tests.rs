use adit_core::configuration::Problem;
use adit_wireguard::{AllowedIp, PrivateKey, PublicKey};
use proptest::prelude::*;

use super::*;

const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const OTHER: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";

fn read(text: &str) -> Parsed {
    parse(text.as_bytes(), "wg0.conf").unwrap_or_else(|failure| panic!("{failure}"))
}

fn problems(text: &str) -> Vec<String> {
    let failure = parse(text.as_bytes(), "wg0.conf").expect_err(text);
    failure.problems.iter().map(Problem::to_string).collect()
}

fn nets(list: &[&str]) -> Vec<adit_core::IpNet> {
    list.iter().map(|net| net.parse().expect("a network")).collect()
}

#[test]
fn every_key_is_read() {
    let text = format!(
        "\u{feff}# a comment\n[Interface]\nPrivateKey = {KEY} # ours\nListenPort=51820\nFwMark = 0xCA6C\n\
         Address = 10.0.0.2/24, fd00::2/64\nAddress = 10.1.0.1\nMTU = 1380\n\
         DNS = 10.0.0.1, fd00::1, corp.example\nTable = 1234\nPreUp = echo one # kept; echo %i\n\
         PostUp = iptables -A FORWARD -i %i -j ACCEPT\nPostUp = two\nPreDown = three\nPostDown = four\n\
         SaveConfig = true\n\n[peer]\r\npublickey = {OTHER}\r\nPresharedKey={KEY}\n\
         AllowedIPs = 10.0.0.0/24, fd00::/64\nALLOWEDIPS = -10.0.0.9/32,+192.168.0.0/16\n\
         Endpoint = [2001:db8::1]:51820\nPersistentKeepalive = 25\n"
    );
    let Parsed { config: Config { interface, peers }, report, warnings } = read(&text);
    assert_eq!(interface.private_key, PrivateKey::new([1; 32]));
    assert_eq!(
        (interface.listen_port, interface.fwmark, interface.mtu),
        (Some(51820), Some(0xca6c), Some(1380))
    );
    assert_eq!(interface.addresses, nets(&["10.0.0.2/24", "fd00::2/64", "10.1.0.1/32"]));
    assert_eq!((interface.dns.len(), interface.search), (2, vec!["corp.example".to_owned()]));
    assert_eq!((interface.table, interface.save_config), (Table::Number(1234), true));
    assert_eq!(interface.pre_up, ["echo one # kept; echo %i"]);
    assert_eq!(interface.post_up, ["iptables -A FORWARD -i %i -j ACCEPT", "two"]);
    assert_eq!(
        (interface.pre_down, interface.post_down),
        (vec!["three".to_owned()], vec!["four".to_owned()])
    );
    let [peer] = &peers[..] else { panic!("one peer") };
    assert_eq!(
        (peer.public_key, peer.preshared_key.as_ref().map(|key| key.as_bytes()[0])),
        (PublicKey([2; 32]), Some(1))
    );
    let [a, b, c, d] = nets(&["10.0.0.0/24", "fd00::/64", "10.0.0.9/32", "192.168.0.0/16"])[..] else {
        panic!("four")
    };
    let expected = [AllowedIp::Add(a), AllowedIp::Add(b), AllowedIp::Remove(c), AllowedIp::Add(d)];
    assert_eq!(peer.allowed_ips, expected);
    assert_eq!(peer.endpoint, Some(Endpoint { host: "2001:db8::1".to_owned(), port: 51820 }));
    assert_eq!((peer.persistent_keepalive, peer.line), (Some(25), 18));
    assert_eq!((report.len(), warnings), (20, vec![]));
    assert!(!format!("{report:?}{peer:?}").contains("AQEB"), "a key shows");
}

#[test]
fn values_are_those_of_wg() {
    let interface = |line: &str| read(&format!("[Interface]\n{line}\n")).config.interface;
    assert_eq!(interface("FwMark = OFF").fwmark, Some(0));
    assert_eq!(interface("FwMark = 51820").fwmark, Some(51820));
    assert_eq!(interface("Table = off").table, Table::Off);
    assert_eq!(interface("Table = auto").table, Table::Auto);
    assert_eq!(interface("Table = vpn").table, Table::Name("vpn".to_owned()));
    assert_eq!(interface("Private Key = x".trim_start_matches("Private Key = x")), Interface::default());
    let peer =
        |line: &str| read(&format!("[Interface]\n[Peer]\nPublicKey={KEY}\n{line}\n")).config.peers.remove(0);
    assert_eq!(peer("PersistentKeepalive = off").persistent_keepalive, Some(0));
    assert_eq!(peer("AllowedIPs =").allowed_ips, []);
    let endpoint = |text: &str| peer(&format!("Endpoint = {text}")).endpoint.expect("an endpoint");
    for (text, host, port) in [
        ("192.0.2.1:1", "192.0.2.1", 1),
        ("vpn.example.org:65535", "vpn.example.org", 65535),
        ("[fe80::1%eth0]:51820", "fe80::1%eth0", 51820),
        ("vpn . example.org : 7", "vpn.example.org", 7),
    ] {
        assert_eq!(endpoint(text), Endpoint { host: host.to_owned(), port }, "{text}");
    }
}

#[test]
fn bits_beyond_a_prefix_are_cut_and_told() {
    let text = format!(
        "[Interface]\nPrivateKey={KEY}\nListenPort=1\n[Peer]\nPublicKey={KEY}\nAllowedIPs=10.0.0.9/24,10.2.0.0/16\n"
    );
    let Parsed { config, warnings, .. } = read(&text);
    let [first, second] = nets(&["10.0.0.0/24", "10.2.0.0/16"])[..] else { panic!("two") };
    assert_eq!(config.peers[0].allowed_ips, [AllowedIp::Add(first), AllowedIp::Add(second)]);
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert_eq!(
        warning.to_string(),
        "wg0.conf:6: AllowedIPs: bits beyond the prefix length are cut: it is taken as 10.0.0.0/24"
    );
}

#[test]
fn all_problems_are_named_by_line() {
    let text = format!(
        "PrivateKey = {KEY}\n[Interface]\nPrivateKey = short\nnonsense\nEndpoint = 1.2.3.4:5\nMTU = 20\n[Peer]\n\
         AllowedIPs = 10.0.0.0/33\nAddress = 1.2.3.4\nEndpoint = 2001:db8::g:5\n[Other]\nx = y\n[Peer]\n\
         PublicKey = {KEY}x\n"
    );
    let found = problems(&text);
    let starts = [
        "wg0.conf:1: PrivateKey: it stands before any section",
        "wg0.conf:3: PrivateKey: a key is 32 bytes",
        "wg0.conf:4: a line is a key",
        "wg0.conf:5: Endpoint: it belongs into [Peer]",
        "wg0.conf:6: MTU: an MTU is",
        "wg0.conf:7: [Peer] has no PublicKey",
        "wg0.conf:8: AllowedIPs: 10.0.0.0/33: it is a list",
        "wg0.conf:9: Address: it belongs into [Interface]",
        "wg0.conf:10: Endpoint: an endpoint is",
        "wg0.conf:11: [Other] is no section",
        "wg0.conf:13: [Peer] has no PublicKey",
        "wg0.conf:14: PublicKey: a key is 32 bytes",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (problem, start) in found.iter().zip(starts) {
        assert!(problem.starts_with(start), "{problem:?} is not {start:?}");
        assert!(!problem.contains("AQEB"), "{problem}: a key shows");
    }
}

/// A key that stands by mistake where another word belongs.
#[test]
fn keys_in_wrong_places_are_not_shown() {
    for line in [KEY.to_owned(), format!("{KEY} = x"), format!("AllowedIPs = {KEY}"), format!("[{KEY}]")] {
        for text in [line.clone(), format!("[Interface]\n{line}\n[Peer]\n{line}\nDNS = {KEY}")] {
            let found = problems(&text);
            assert!(!found.iter().any(|problem| problem.contains("AQEB")), "{found:?}");
        }
    }
    assert!(problems("[Interface]\na\tb\u{1b}=1")[0].starts_with("wg0.conf:2: a_b_: "));
}

#[test]
fn wrong_values_are_refused() {
    for line in [
        "ListenPort = 65536",
        "ListenPort = -1",
        "ListenPort = +5",
        "FwMark = 0x100000000",
        "FwMark = 0x+1",
        "Address = 10.0.0.1/+8",
        "DNS = 10.0.0.1; 10.0.0.2",
        "SaveConfig = yes",
        "PreUpp = x",
        "MTU = 65536",
    ] {
        assert_eq!(problems(&format!("[Interface]\n{line}\n")).len(), 1, "{line}");
    }
    for line in [
        "Endpoint = :5",
        "Endpoint = a",
        "Endpoint = a:0",
        "Endpoint = [::1:5",
        "Endpoint = ::1]:5",
        "Endpoint = a:b:5",
        "Endpoint = [::1%]:5",
        "PersistentKeepalive = 65536",
        "AllowedIPs = --10.0.0.0/8",
        "AllowedIPs = x",
    ] {
        let text = format!("[Interface]\n[Peer]\nPublicKey = {KEY}\n{line}\n");
        assert_eq!(problems(&text).len(), 1, "{line}");
    }
    assert_eq!(problems("").len(), 1);
    for text in [&b"[Interface]\n\xff"[..], b"[Interface]\nDNS = \xe9 # x", b"[Interface]\nPostUp = a # \xe9"]
    {
        let failure = parse(text, "wg0.conf").expect_err("no text");
        assert_eq!(failure.problems[0].line, Some(2));
    }
    let utf_16: Vec<u8> = "[Interface]\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(
        parse(&utf_16, "wg0.conf").expect_err("no UTF-8").to_string(),
        "wg0.conf: this file is in UTF-16; save it as UTF-8"
    );
}

/// Forms that wg (1.0.20210914, config.c) and wg-quick take, beside the usual ones.
#[test]
fn every_form_that_wg_quick_runs_is_taken() {
    let interface = |line: &str| read(&format!("[Interface]\n{line}\n")).config.interface;
    for nothing in ["MTU =", "Table =", "DNS =", "Address =", "MTU = 1400\nMTU =", "Table = 5\nTable ="] {
        assert_eq!(interface(nothing), Interface::default(), "{nothing}");
    }
    for (table, number) in [("0x10", 16), ("010", 8), ("4294967295", u32::MAX), ("0", 0)] {
        assert_eq!(interface(&format!("Table = {table}")).table, Table::Number(number), "{table}");
    }
    assert_eq!(interface("Table = 0xvpn").table, Table::Name("0xvpn".to_owned()));
    for value in ["True", "TRUE"] {
        assert!(interface(&format!("SaveConfig = {value}")).save_config);
    }
    assert_eq!(interface("Listen Port = 5").listen_port, Some(5));
    assert_eq!(interface("ListenPort = 010").listen_port, Some(10));
    assert_eq!(interface("ListenPort = https").listen_port, Some(443));
    assert_eq!(interface("MTU = 0x578").mtu, Some(1400));
    let two = nets(&["10.0.0.1/32", "10.0.0.2/24"]);
    for list in ["10.0.0.1,,10.0.0.2/24", "10.0.0.1 10.0.0.2/24", "10.0.0.1, 10.0.0.2/255.255.255.0,"] {
        assert_eq!(interface(&format!("Address = {list}")).addresses, two, "{list}");
    }
    let of_dns = interface("DNS = 10.0.0.1 fd00::1,corp.example  home.example");
    assert_eq!((of_dns.dns.len(), of_dns.search.len()), (2, 2));
    let peer = |line: &str| {
        let text = format!("[Peer]\nPublic Key={KEY}\n{line}\n");
        read(&text).config.peers.remove(0)
    };
    for (text, host, port) in [
        ("2001:db8::7d0:6001:51820", "2001:db8::7d0:6001", 51820),
        ("::1:5", "::1", 5),
        ("fe80::1%eth0:5", "fe80::1%eth0", 5),
        ("[vpn.example]:5", "vpn.example", 5),
        ("[192.0.2.1]:5", "192.0.2.1", 5),
        ("127.1:5", "127.1", 5),
        ("vpn.example:domain", "vpn.example", 53),
    ] {
        let endpoint = peer(&format!("Endpoint = {text}")).endpoint;
        assert_eq!(endpoint, Some(Endpoint { host: host.to_owned(), port }), "{text}");
    }
    let [net] = nets(&["10.0.0.0/24"])[..] else { panic!("one") };
    assert_eq!(peer("Allowed IPs = 10.0.0.0/024").allowed_ips, [AllowedIp::Add(net)]);
    assert_eq!(peer("PersistentKeepalive = 025").persistent_keepalive, Some(25));
    // Comments in any encoding.
    let latin_1 = [b"# caf\xe9\n[Interface] # \xe9\nMTU = 1400 # \xe9\n[Peer]\nPublicKey = ", KEY.as_bytes()];
    let parsed = parse(&latin_1.concat(), "wg0.conf").expect("a good file");
    assert_eq!((parsed.config.interface.mtu, parsed.config.peers.len()), (Some(1400), 1));
}

#[test]
fn an_endpoint_in_the_files_own_routes_is_told() {
    let warnings = |interface: &str, allowed: &str, endpoint: &str| {
        let text = format!(
            "[Interface]\nPrivateKey={KEY}\n{interface}\n[Peer]\nPublicKey={KEY}\nAllowedIPs={allowed}\n\
             Endpoint={endpoint}\n"
        );
        read(&text).warnings.iter().map(Problem::to_string).collect::<Vec<_>>()
    };
    let told = warnings("", "10.0.0.0/8, 192.0.2.0/24", "192.0.2.1:5");
    let [warning] = &told[..] else { panic!("{told:?}") };
    assert!(
        warning.starts_with("wg0.conf:4: Endpoint: 192.0.2.1 lies in 192.0.2.0/24 of AllowedIPs"),
        "{warning}"
    );
    assert_eq!(warnings("", "2001:db8::/32", "[2001:db8::1]:5").len(), 1);
    for (interface, allowed, endpoint) in [
        ("", "10.0.0.0/8", "192.0.2.1:5"),
        ("", "192.0.2.0/24", "vpn.example:5"),
        ("", "0.0.0.0/0, 192.0.2.0/24", "192.0.2.1:5"),
        ("Table = off", "192.0.2.0/24", "192.0.2.1:5"),
        ("Table = 5", "192.0.2.0/24", "192.0.2.1:5"),
    ] {
        assert_eq!(warnings(interface, allowed, endpoint), [""; 0], "{interface} {allowed}");
    }
}

#[test]
fn peers_with_the_same_key_are_told() {
    let peer = format!("[Peer]\nPublicKey = {KEY}\n");
    let parsed = read(&format!("[Interface]\nPrivateKey={KEY}\nListenPort=1\n{peer}{peer}"));
    assert_eq!((parsed.config.peers.len(), parsed.warnings.len()), (2, 1));
    assert_eq!(parsed.warnings[0].line, Some(6));
}

#[test]
fn names_of_interfaces_are_those_of_wg_quick() {
    for (path, name) in [
        ("/etc/wireguard/wg0.conf", Some("wg0")),
        ("a_=+.-Z9.conf", Some("a_=+.-Z9")),
        ("123456789012345.conf", Some("123456789012345")),
        ("1234567890123456.conf", None),
        (".conf", None),
        ("wg0", None),
        ("wg 0.conf", None),
    ] {
        assert_eq!(interface_name(path), name, "{path}");
    }
}

/// The warnings about a file, without its name.
fn warnings(text: &str) -> Vec<String> {
    read(text).warnings.iter().map(Problem::to_string).collect()
}

#[test]
fn a_prefix_of_two_peers_is_told() {
    let file = |first: &str, second: &str, key: &str| {
        format!(
            "[Interface]\nPrivateKey={KEY}\nListenPort=1\n[Peer]\nPublicKey={KEY}\n{first}\n\
             [Peer]\nPublicKey={key}\n{second}\n"
        )
    };
    let both = "AllowedIPs=10.0.0.0/24,fd00::/64";
    assert_eq!(
        warnings(&file(both, both, OTHER)),
        [
            "wg0.conf:9: AllowedIPs: 10.0.0.0/24 moves to this peer: the peer of line 6 loses it",
            "wg0.conf:9: AllowedIPs: fd00::/64 moves to this peer: the peer of line 6 loses it",
        ]
    );
    for (first, second) in [
        // The longest prefix decides.
        (both, "AllowedIPs=10.0.0.0/25,0.0.0.0/0"),
        // It was given back before.
        ("AllowedIPs=10.0.0.0/24,-10.0.0.0/24", "AllowedIPs=10.0.0.0/24"),
        // The peer never had this network.
        ("AllowedIPs=10.0.0.0/24", "AllowedIPs=-10.0.0.0/24"),
    ] {
        assert_eq!(warnings(&file(first, second, OTHER)), [""; 0], "{first} {second}");
    }
    assert_eq!(warnings(&file(both, both, KEY)).len(), 1, "one peer, in two sections");
}

#[test]
fn an_mtu_that_does_not_fit_is_told() {
    let with = |mtu: u16, address: &str| {
        warnings(&format!("[Interface]\nPrivateKey={KEY}\nMTU={mtu}\nAddress={address}\n"))
    };
    for (mtu, address, expected) in [
        (1440, "fd00::1", 0),
        (1441, "10.0.0.1", 1),
        (1280, "fd00::1", 0),
        (1279, "fd00::1", 1),
        (68, "10.0.0.1", 0),
    ] {
        let found = with(mtu, address);
        assert_eq!(found.len(), expected, "{mtu} {address}: {found:?}");
        assert!(found.iter().all(|warning| warning.starts_with("wg0.conf:3: MTU: ")), "{found:?}");
    }
}

#[test]
fn an_interface_that_cannot_work_is_told() {
    let peer = format!("[Peer]\nPublicKey={KEY}\n");
    let keyed = format!("[Interface]\nPrivateKey={KEY}\n");
    assert!(warnings("[Interface]\n")[0].contains("no PrivateKey"));
    assert!(warnings(&format!("{keyed}{peer}"))[0].contains("neither end knows where the other is"));
    for rest in ["ListenPort=5\n".to_owned() + &peer, peer.clone() + "Endpoint=a:1\n", String::new()] {
        assert_eq!(warnings(&format!("{keyed}{rest}")), [""; 0], "{rest}");
    }
}

#[test]
fn files_are_told_from_those_of_openvpn() {
    for text in ["[Interface]\n", "\u{feff}\r\n  # x\n\t[ peer ]\r\n", "#[x]\n[Interfce]"] {
        assert!(is_recognized(text.as_bytes()), "{text:?}");
    }
    for text in ["", "# [Interface]\n", "client\n[Interface]\n", "; x\n<ca>\n", "PrivateKey = x\n[Interface]"]
    {
        assert!(!is_recognized(text.as_bytes()), "{text:?}");
    }
}

proptest! {
    #[test]
    fn nothing_panics(bytes: Vec<u8>, text in "(\\[(Interface|Peer)\\]|[A-Za-z]{0,12} ?= ?[ -~é]{0,30}|\n){0,20}") {
        let _ = (is_recognized(&bytes), parse(&bytes, "wg0.conf"));
        let _ = parse(text.as_bytes(), "wg0.conf");
    }
}

#[test]
fn programs_in_comments_are_named() {
    let text = "[Interface]\nListenPort = 7\n#adit: client-connect = /bin/a b\n#adit: Client-Disconnect = /bin/c\n\
                #adit: post-quantum = on\n";
    let parsed = parse(text.as_bytes(), "wg0.conf").unwrap();
    let named: Vec<String> = parsed.warnings.iter().map(ToString::to_string).collect();
    let of = |line: u32, key: &str, program: &str| {
        format!(
            "wg0.conf:{line}: {key}: this comment is a setting of adit, and has it run a program as root: {program}"
        )
    };
    for warning in [of(3, "client-connect", "/bin/a b"), of(4, "Client-Disconnect", "/bin/c")] {
        assert!(named.contains(&warning), "{named:?}");
    }
    assert!(!named.iter().any(|warning| warning.contains("post-quantum")), "{named:?}");
}
