//! `#adit: forward`, which OpenVPN passes over.

use std::path::Path;

use adit_core::configuration::Kind;

use crate::*;

const MATERIAL: &str = "<ca>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</ca>\n\
                        <cert>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</cert>\n\
                        <key>\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n</key>\n";
const SERVER: &str = "server 10.8.0.0 255.255.255.0\nserver-ipv6 fd00:8::/64\n";

fn read(lines: &str) -> Result<Parsed, String> {
    let none = |_: &Path| Err("no such file".to_owned());
    parse("f", format!("{lines}\n{MATERIAL}").as_bytes(), &none).map_err(|failure| failure.to_string())
}

fn server(lines: &str) -> (ServerConfig, Parsed) {
    let parsed = read(&format!("{SERVER}{lines}")).unwrap_or_else(|why| panic!("{why}"));
    match &parsed.config.role {
        Role::Server(server) => ((**server).clone(), parsed),
        _ => panic!("a server"),
    }
}

fn pushed(lines: &str) -> Vec<String> {
    let beside = ["route-gateway ", "topology ", "tun-ipv6"];
    let push = server(lines).0.push;
    push.into_iter().filter(|option| !beside.iter().any(|it| option.starts_with(it))).collect()
}

#[test]
fn clients_are_told_of_what_is_forwarded() {
    let (config, parsed) = server("#adit: forward = internet\n# Adit: forward=192.168.1.0/24, fd00:1::/64");
    let expected = ["0.0.0.0/0", "::/0", "192.168.1.0/24", "fd00:1::/64"].map(|net| net.parse().unwrap());
    assert_eq!(config.forward, expected);
    let report: Vec<_> = parsed.report.iter().filter(|entry| entry.directive == "forward").collect();
    assert!(report.len() == 2 && report[0].kind == Kind::Used && report[0].line == 3);
    let again = parse("g", parsed.config.to_text().as_bytes(), &|_| Err(String::new())).unwrap();
    assert_eq!(again.config, parsed.config);
    assert_eq!(
        pushed("#adit: forward = internet, 192.168.1.0/24, fd00:1::/64"),
        ["redirect-gateway def1 ipv6", "route 192.168.1.0 255.255.255.0", "route-ipv6 fd00:1::/64"]
    );
    assert_eq!(pushed("#adit: forward = 0.0.0.0/0"), ["redirect-gateway def1"]);
    assert_eq!(pushed("#adit: forward = ::/0"), ["redirect-gateway def1 ipv6 !ipv4"]);
}

#[test]
fn what_the_file_pushes_itself_stays() {
    let redirect = "push \"redirect-gateway def1 bypass-dhcp\"\n#adit: forward = internet";
    assert_eq!(pushed(redirect), ["redirect-gateway def1 bypass-dhcp"]);
    let route = "push \"route 192.168.1.0 255.255.255.0\"\n#adit: forward = 192.168.1.0/24";
    assert_eq!(pushed(route), ["route 192.168.1.0 255.255.255.0"]);
}

#[test]
fn other_settings_and_places_are_refused() {
    for (lines, expected) in [
        ("#adit: forwrad = internet", "f:3: forwrad: adit has no such setting; there is forward"),
        ("#adit: forward", "f:3: forward: a setting of adit is `#adit: key = value`"),
        ("#adit: forward = lan", "f:3: forward: it is `internet`, or networks"),
    ] {
        let why = read(&format!("{SERVER}{lines}")).expect_err(lines);
        assert!(why.contains(expected), "{why}");
    }
    let why =
        read("client\nremote a\nremote-cert-tls server\n#adit: forward = internet").expect_err("a client");
    assert!(why.contains("f:4: forward: a server forwards"), "{why}");
    // Plain comments stay comments.
    assert!(read(&format!("{SERVER}# adit forward = x\n;adit: y\nport 1194 #adit: z")).is_ok());
    let (_, doubts) = parse_client_file("c", b"#adit: forward = internet\n").unwrap();
    assert!(doubts[0].to_string().contains("c:1: forward: a setting of adit has no place"), "{doubts:?}");
}
