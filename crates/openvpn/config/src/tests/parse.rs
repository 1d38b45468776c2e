//! The meaning of each directive: defaults, values, blocks, both sides.

mod keys;
mod management;

use std::collections::BTreeSet;

use adit_core::RouteVia;
use adit_core::configuration::Kind;
use adit_openvpn::params::MssFix;
use adit_pki::NameField;

use crate::*;

const KEY: &str = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
const CERT: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

fn load(path: &Path) -> Result<Vec<u8>, String> {
    match path.strip_prefix("/etc").unwrap_or(path).to_str() {
        Some("ca.crt" | "cert.crt") => Ok(CERT.into()),
        Some("key.key") => Ok(KEY.into()),
        Some("secrets") => Ok(format!("<key>\n{KEY}</key>\n").into()),
        Some("self") => Ok("config self\n".into()),
        _ => Err("no such file".into()),
    }
}

const FILES: &str = "ca ca.crt\ncert cert.crt\nkey key.key\n";

fn good(text: &str) -> Parsed {
    parse("test.conf", format!("{text}\n{FILES}").as_bytes(), &load)
        .unwrap_or_else(|failure| panic!("{failure}"))
}

fn bad(text: &str) -> Vec<String> {
    match parse("test.conf", format!("{text}\n{FILES}").as_bytes(), &load) {
        Ok(_) => panic!("should fail: {text}"),
        Err(failure) => failure.problems.iter().map(ToString::to_string).collect(),
    }
}

fn client(text: &str) -> (Config, ClientConfig) {
    let config = good(&format!("client\nremote vpn.example\nremote-cert-tls server\n{text}")).config;
    match config.role.clone() {
        Role::Client(client) => (config, *client),
        _ => panic!("a client"),
    }
}

fn server(text: &str) -> (Config, ServerConfig) {
    let config = good(&format!("server 10.8.0.0 255.255.255.0\n{text}")).config;
    match config.role.clone() {
        Role::Server(server) => (config, *server),
        _ => panic!("a server"),
    }
}

#[test]
fn smallest_client() {
    let (config, client) = client("dev tun\nnobind");
    assert_eq!(
        client.remotes,
        [Remote {
            host: "vpn.example".into(),
            port: 1194,
            transport: adit_core::Transport::Udp,
            family: Family::Any,
            bind: None,
            connect_timeout: std::time::Duration::from_secs(120),
            proxy: None,
            exit_notify: 0,
        }]
    );
    assert!(config.tls.peer.usage);
    assert_eq!(config.tls.identity.unwrap().cert.text(), CERT);
    assert_eq!(config.wrap, Wrap::None);
}

/// OpenVPN's `loopback-client` and `loopback-server` have no addresses either.
#[test]
fn a_tunnel_without_a_device() {
    let device = |text: &str| good(text).config.device;
    assert!(client("dev null").0.device.is_null && client("dev null0").0.device.is_null);
    assert!(client("dev x\ndev-type null").0.device.is_null);
    let named = client("dev null\ndev-type tun").0.device;
    assert_eq!((named.is_null, named.name.as_deref()), (false, Some("null")));
    assert!(device("dev null\ntls-server").is_null);
    assert!(device("dev null\ntls-client\nremote localhost\nremote-cert-tls server").is_null);
}

#[test]
fn two_points() {
    let point = |text: &str| {
        let parsed = good(&format!("tls-server\nifconfig 10.4.0.1 10.4.0.2\n{text}"));
        match parsed.config.role.clone() {
            Role::PointToPoint(point) => (parsed, *point),
            _ => panic!("a point"),
        }
    };
    let (parsed, west) = point("proto tcp-server\nremote 192.0.2.1\nkeepalive 10 60\nfloat");
    let [local, peer] = ["10.4.0.1", "10.4.0.2"].map(|address| address.parse().unwrap());
    assert_eq!(west.ipv4, Some(StaticIpv4::PointToPoint { local, peer }));
    assert_eq!(
        (west.remotes[0].as_str(), west.listen[0].transport),
        ("192.0.2.1", adit_core::Transport::Tcp)
    );
    assert_eq!(parsed.config.liveness.timeout, Some(std::time::Duration::from_secs(60)), "not doubled");
    assert!(parsed.config.socket.float);
    let (parsed, _) = point("remote peer.example");
    assert!(parsed.warnings.iter().any(|warning| warning.text.contains("`remote peer.example`")));

    let east = good("tls-client\nremote west.example\nifconfig 10.4.0.2 10.4.0.1").config;
    let Role::Client(east) = east.role else { panic!("a client") };
    assert!(!east.pull);
    assert_eq!(east.remotes[0].bind, Some(Bind { address: None, port: 1194 }), "the other end may go by it");

    assert!(
        bad("tls-server\nifconfig 10.4.0.1 10.4.0.2\nproto tcp-client")[0]
            .contains("must be the `tcp-server`")
    );
    assert!(
        bad("tls-client\nremote a\nproto tcp-server\nifconfig 10.4.0.2 10.4.0.1")[0].contains("tcp-client")
    );
    assert!(bad("tls-server")[0].contains("nothing gives this end an address"));
    assert!(
        bad("tls-server\nifconfig 10.4.0.1 10.4.0.2\npush \"route 10.0.0.0\"")[0].contains("`push` belongs")
    );
    assert!(
        bad("tls-server\nifconfig 10.4.0.1 10.4.0.2\nauth-user-pass")[0].contains("`auth-user-pass` belongs")
    );
}

#[test]
fn compat_mode_keeps_from_what_came_later() {
    let before = |text: &str| {
        let data = client(text).0.data;
        (data.before_2_6, data.before_2_7)
    };
    assert_eq!(before("compat-mode 2.5.9"), (true, true));
    assert_eq!(before("compat-mode 2.6.14"), (false, true));
    assert_eq!(before("compat-mode 2.7.0"), (false, false));
    assert_eq!(before(""), (false, false));
}

#[test]
fn smallest_server() {
    let (config, server) = server("keepalive 10 60\npush \"route 10.1.0.0 255.255.0.0\"");
    assert_eq!(
        server.ipv4,
        Some(ServerIpv4 {
            address: "10.8.0.1/24".parse().unwrap(),
            pool: Some(("10.8.0.2".parse().unwrap(), "10.8.0.254".parse().unwrap())),
        })
    );
    assert_eq!(
        server.push,
        [
            "route 10.1.0.0 255.255.0.0",
            "ping 10",
            "ping-restart 60",
            "route-gateway 10.8.0.1",
            "topology subnet"
        ]
    );
    let seconds = std::time::Duration::from_secs;
    assert_eq!(config.liveness.ping, Some(seconds(10)));
    assert_eq!(config.liveness.timeout, Some(std::time::Duration::from_secs(120)));
    assert_eq!(server.listen.len(), 1);
}

#[test]
fn a_server_of_the_old_topology_serves_subnet() {
    let (_, server) = server("topology net30");
    let parsed = good("server 10.8.0.0 255.255.255.0\ntopology net30");
    assert!(server.push.iter().any(|option| option == "topology subnet"));
    assert!(
        parsed.warnings.iter().any(|warning| warning.text.contains("clients are told `topology subnet`"))
    );
}

#[test]
fn everything_wrong_is_told_at_once() {
    let problems = bad("client\nremot vpn.example\nproto ipx\nverb\nca missing.crt\nkey nokey\nsecret x");
    let text = problems.join("\n");
    for part in [
        "test.conf:2: there is no directive `remot`; did you mean `remote`?",
        "test.conf:3: `proto`: found `ipx`; write `udp` or `tcp`",
        "test.conf:4: `verb` takes LEVEL; found none",
        "test.conf:7: `secret` cannot be used unless the file says `allow-deprecated-insecure-static-crypto`",
        "test.conf: `remote` is missing",
    ] {
        assert!(text.contains(part), "{part}\nin\n{text}");
    }
}

#[test]
fn hints_end_in_a_file_of_nonsense() {
    let problems = bad(&"remot x\n".repeat(60));
    assert!(problems[49].ends_with("did you mean `remote`?"));
    assert!(problems[50].ends_with("there is no directive `remot`"), "{}", problems[50]);
}

#[test]
fn one_side_a_file() {
    assert!(bad("client\nremote a\nserver 10.8.0.0 255.255.255.0")[0].contains("line 1 made it a client"));
    assert!(bad("remote a")[0].contains("`client` is missing"));
    assert!(bad("dev tun")[0].contains("neither a client nor a server"));
    assert!(bad("client\nremote a\npush x")[0].contains(":3: `push` belongs into a server's file"));
}

#[test]
fn missing_files() {
    let failure = parse("f", b"client\nremote a\nca nofile\ncert cert.crt\n", &load).unwrap_err();
    let text = failure.to_string();
    assert!(text.contains("f:3: `nofile` cannot be read: no such file"), "{text}");
    assert!(text.contains("f: `key` is missing"), "{text}");
}

#[test]
fn nested_files_and_cd() {
    assert_eq!(good("client\nremote a\nconfig secrets").config.tls.identity.unwrap().key.text(), KEY);
    let (config, _) = client("log x.log\ncd /etc\nwritepid /run/x.pid");
    assert_eq!(config.process.log, Some(Log::File { path: "/etc/x.log".into(), append: false }));
    assert_eq!(config.process.pid_file, Some("/run/x.pid".into()));
    assert!(bad("client\nremote a\nconfig self").iter().any(|text| text.contains("nested deeper")));
    assert!(bad("client\nremote a\nconfig gone").iter().any(|text| text.contains("cannot read `gone`")));
}

#[test]
fn connections() {
    let (_, client) = client(
        "proto tcp\nexplicit-exit-notify 2\n<connection>\nremote b 443\n</connection>\n\
         <connection>\nremote c\nproto udp6\nrport 53\nconnect-timeout 7\nlocal ::1\n</connection>",
    );
    let hosts: Vec<_> =
        client.remotes.iter().map(|r| (r.host.as_str(), r.port, r.transport, r.exit_notify)).collect();
    use adit_core::Transport::{Tcp, Udp};
    assert_eq!(hosts, [("b", 443, Tcp, 0), ("c", 53, Udp, 2)]);
    assert_eq!(client.remotes[1].bind, Some(Bind { address: Some("::1".parse().unwrap()), port: 1194 }));
    assert_eq!(client.remotes[1].connect_timeout.as_secs(), 7);
    // A setting behind a block does not hold for the block, and a setting in a block holds for no other block.
    let (_, client) = self::client(
        "port 5\n<connection>\nremote b\nproto tcp\n</connection>\nproto udp6\nport 7\nconnect-timeout 9\n\
         <connection>\nremote c\n</connection>",
    );
    let of =
        |remote: &Remote| (remote.port, remote.transport, remote.family, remote.connect_timeout.as_secs());
    assert_eq!(of(&client.remotes[0]), (5, Tcp, Family::Any, 120));
    assert_eq!(of(&client.remotes[1]), (7, Udp, Family::V6, 9));
    let parsed = good("client\nremote a\n<connection>\nremote b\n</connection>\nremote c 443");
    let remotes: Vec<_> = parsed
        .report
        .iter()
        .filter(|entry| entry.directive == "remote")
        .map(|it| (it.line, it.kind))
        .collect();
    assert_eq!(remotes, [(2, Kind::Ignored), (4, Kind::Used), (6, Kind::Ignored)]);
    assert!(
        parsed.warnings[0].to_string().contains("test.conf:2: `remote a`: it is not used"),
        "{:?}",
        parsed.warnings
    );
    let problems = bad(
        "client\nremote a\n<connection>\nremote b\nverb 3\n</connection>\n<connection>\nrport 5\n</connection>",
    );
    assert!(problems[0].contains("test.conf:5: `verb` cannot stand in a `<connection>`"), "{problems:?}");
    assert!(
        problems[1].contains("test.conf:7: the `<connection>` block has no `remote HOST`"),
        "{problems:?}"
    );
}

#[test]
fn what_may_be_unknown() {
    let parsed = good(
        "client\nremote a\nignore-unknown-option foo client-nat\nfoo bar\nclient-nat snat 10.0.0.0\n\
         setenv opt frob 1\nsetenv opt block-outside-dns\nsetenv opt verb 4\nsetenv CLIENT_CERT 0",
    );
    let kinds: Vec<_> = parsed.report.iter().map(|d| (d.directive.as_str(), d.kind)).collect();
    for name in ["foo", "client-nat", "frob", "block-outside-dns", "setenv"] {
        assert!(kinds.contains(&(name, Kind::Ignored)), "{name}: {kinds:?}");
    }
    assert!(kinds.contains(&("verb", Kind::Used)));
    assert_eq!(parsed.config.process.verb, 4);
    assert_eq!(parsed.warnings.len(), 1, "no remote-cert-tls");
}

#[test]
fn ciphers() {
    use adit_core::Cipher::*;
    let (config, _) =
        client("data-ciphers ?CHACHA20-POLY1305:AES-256-CBC:?FOO-1:DEFAULT\ncipher AES-256-CBC");
    assert_eq!(config.data.ciphers, [ChaCha20Poly1305, Aes256Cbc, Aes256Gcm, Aes128Gcm]);
    assert_eq!((config.data.cipher, config.data.fallback), (Some(Aes256Cbc), None));
    let text = "data-ciphers BF-CBC:aes-192-gcm\ndata-ciphers-fallback AES-128-CBC\nauth sha224";
    let (config, _) = client(text);
    assert_eq!((config.data.ciphers, config.data.fallback), (vec![Aes192Gcm], Some(Aes128Cbc)));
    assert_eq!(config.data.auth, adit_core::Digest::Sha224);
    let report = good(&format!("client\nremote a\n{text}")).report;
    assert!(report.iter().any(|line| line.reason.contains("SWEET32")), "{report:?}");
    let small = &bad("client\nremote a\ndata-ciphers BF-CBC:DES-EDE3-CBC")[0];
    assert!(small.contains("at least one of") && small.contains("SWEET32"), "{small}");
    client("auth none\ndata-ciphers AES-256-GCM");
    for open in ["data-ciphers AES-256-CBC", "data-ciphers-fallback AES-256-CBC"] {
        let problems = bad(&format!("client\nremote a\nauth none\n{open}"));
        assert!(problems.iter().any(|problem| problem.contains("`auth none`")), "{problems:?}");
    }
    client("auth none\nauth SHA256\ndata-ciphers AES-256-CBC");
    assert!(bad("client\nremote a\ndata-ciphers AES-257-GCM:FOO-1")[0].contains("FOO-1"));
}

#[test]
fn key_files() {
    let swapped =
        parse("f", b"client\nremote a\nca ca.crt\ncert key.key\nkey cert.crt\n", &load).unwrap_err();
    assert_eq!(swapped.problems.len(), 2, "{swapped}");
    assert!(bad("client\nremote a\n<tls-crypt>\nx\n</tls-crypt>")[0].contains("BEGIN OpenVPN Static key"));
}

/// The scripts of a client with these lines.
fn scripts(lines: &str) -> TunnelScripts {
    client(lines).0.scripts
}

#[test]
fn scripts_need_to_be_allowed() {
    for name in ["up", "down", "route-up", "route-pre-down", "ipchange", "tls-verify", "dns-updown"] {
        let line = format!("{name} \"/etc/openvpn/run 'a b' c\"\n");
        let problem = bad(&format!("client\nremote a\nremote-cert-tls server\n{line}"));
        assert!(problem.iter().any(|it| it.contains("f:4: write `script-security 2`")), "{problem:?}");
        let scripts = scripts(&format!("script-security 2\n{line}"));
        let argv: Vec<&Vec<String>> = scripts.commands().collect();
        assert_eq!(argv, [&["/etc/openvpn/run".to_owned(), "a b".to_owned(), "c".to_owned()]], "{name}");
    }
    // A profile of a provider for systems where something else sets the name servers.
    let without = scripts("up /etc/openvpn/update-resolv-conf\ndown /etc/openvpn/update-resolv-conf");
    assert!(without.commands().next().is_none() && without.names == NameServerSetting::Force);
    let with = scripts("script-security 2\nup /etc/openvpn/update-resolv-conf");
    assert!(with.commands().count() == 1 && with.leaves_names());
}

#[test]
fn who_sets_the_name_servers() {
    let up = "script-security 2\nup /up\n";
    for (lines, others) in [
        ("", false),
        (up, true),
        ("script-security 2\nup /up\ndns-updown force\n", false),
        ("dns-updown disable\n", true),
        ("script-security 2\ndns-updown /set\n", true),
    ] {
        assert_eq!(scripts(lines).leaves_names(), others, "{lines}");
    }
}

#[test]
fn variables_of_a_client_go_to_its_scripts_and_some_to_the_server() {
    let (config, client) = client("push-peer-info\nsetenv UV_X 1\nsetenv PLAIN 2\nsetenv-safe Y 3\n");
    let env = config.scripts.env.iter().map(|(name, value)| format!("{name}={value}"));
    assert_eq!(env.collect::<Vec<_>>(), ["PLAIN=2", "OPENVPN_Y=3"]);
    assert_eq!(client.peer_info, [("UV_X".to_owned(), "1".to_owned())]);
}

#[test]
fn every_directive_has_one_definition() {
    let mut names = BTreeSet::new();
    for directive in directives() {
        assert!(names.insert(directive.name), "{} stands twice", directive.name);
        let (least, most) = directive.arity();
        assert!(most.is_none_or(|most| most >= least), "{}", directive.name);
        assert_eq!(directive.reason().is_empty(), directive.kind() == Kind::Used, "{}", directive.name);
    }
}

#[test]
fn what_the_peer_must_show() {
    let hash: Vec<u8> = (0..32).collect();
    let pairs: Vec<String> = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let pairs = pairs.join(":");
    let (config, _) = client(&format!(
        "peer-fingerprint {pairs}\n<peer-fingerprint>\n# spare\n\n{pairs}\n</peer-fingerprint>\n\
         remote-cert-ku a0 88\nremote-cert-eku \"TLS Web Server Authentication\"\n\
         x509-username-field uid ext:subjectAltName serialNumber 1.2.3\n"
    ));
    let peer = config.tls.peer;
    assert_eq!(peer.fingerprints, [hash.clone(), hash]);
    assert_eq!(peer.key_usages, Some(vec![0xa0, 0x88]));
    assert_eq!(peer.extended_usage.as_deref(), Some("1.3.6.1.5.5.7.3.1"));
    let subject = |oid: &str| NameField::Subject(oid.to_owned());
    assert_eq!(
        peer.name_fields,
        [subject("0.9.2342.19200300.100.1.1"), NameField::SubjectEmail, NameField::Serial, subject("1.2.3")]
    );
    let sha1 = "00:".repeat(19) + "ff";
    let (config, _) = client(&format!("verify-hash {sha1}\nverify-hash {pairs} SHA256"));
    let lengths: Vec<_> = config.tls.peer.issuer_fingerprints.iter().map(Vec::len).collect();
    assert_eq!(lengths, [20, 32]);
}

/// By OpenSSL's short name, its long name, or either in other letters.
#[test]
fn a_certificates_name_may_be_any_attribute_that_openssl_names() {
    let (config, _) = client("x509-username-field CN streetAddress gn houseIdentifier postalcode\n");
    let oids = ["2.5.4.3", "2.5.4.9", "2.5.4.42", "2.5.4.51", "2.5.4.17"];
    assert_eq!(config.tls.peer.name_fields, oids.map(|oid| NameField::Subject(oid.to_owned())));
}

#[test]
fn a_fingerprint_stands_in_for_an_authority() {
    let pairs = "00:".repeat(31) + "ff";
    let text = format!("client\nremote a\ncert cert.crt\nkey key.key\npeer-fingerprint {pairs}\n");
    let parsed = parse("test.conf", text.as_bytes(), &load).unwrap();
    assert!(parsed.config.tls.ca.is_none() && parsed.warnings.is_empty());
    let text = text.replace("peer-fingerprint", "verify-hash");
    assert!(parse("test.conf", text.as_bytes(), &load).is_err());
}

#[test]
fn tls_lists() {
    let ids = |names: &[TlsName]| -> Vec<u16> { names.iter().map(|name| name.id).collect() };
    let (config, _) = client(
        "tls-cipher ECDHE-RSA-AES256-GCM-SHA384:TLS-ECDHE-RSA-WITH-AES-128-GCM-SHA256:AES256-SHA:!aNULL\n\
         tls-ciphersuites TLS_CHACHA20_POLY1305_SHA256\ntls-groups X25519MLKEM768:?X448:P-256\n\
         tls-cert-profile suiteb\ntls-version-min 1.2 or-highest\n",
    );
    assert_eq!(ids(&config.tls.ciphers), [0xC030, 0xC02F]);
    assert_eq!(ids(&config.tls.suites), [0x1303]);
    assert_eq!(ids(&config.tls.groups), [0x11EC, 0x0017]);
    assert_eq!(config.tls.cert_profile, CertProfile::SuiteB);
    // Words that stand for many leave the choice to adit.
    let (config, _) = client("tls-cipher DEFAULT:!EXP:!LOW:!kRSA\ntls-groups DEFAULT");
    assert!(config.tls.ciphers.is_empty() && config.tls.groups.is_empty());
}

#[test]
fn routes_to_hosts_wait_for_their_addresses() {
    let text =
        "route a.example\nroute b.example 255.255.0.0 net_gateway 7\nroute-ipv6 c.example\nroute-metric 5\n";
    let named: Vec<_> = client(text).0.named_routes;
    let told: Vec<_> =
        named.iter().map(|route| (route.host.as_str(), route.ipv6, route.prefix, route.metric)).collect();
    assert_eq!(
        told,
        [
            ("a.example", false, 32, Some(5)),
            ("b.example", false, 16, Some(7)),
            ("c.example", true, 64, Some(5))
        ]
    );
    assert_eq!(named[1].via, RouteVia::SystemGateway);
    // An address with a mistake in it is none of a host's names.
    for wrong in ["10.8.0", "10.8.0.300", "fd00:::1", "a..b"] {
        assert!(bad(&format!("client\nremote a\nroute {wrong}"))[0].contains("`route`: found"), "{wrong}");
    }
}

#[test]
fn an_ipv6_route_without_a_length_is_a_64() {
    let (config, _) = client("route-ipv6 fd66::1\nroute-ipv6 fd67::1/128");
    let routes: Vec<String> = config.routes.iter().map(|route| route.destination.to_string()).collect();
    assert_eq!(routes, ["fd66::/64", "fd67::1/128"]);
}

#[test]
fn names_of_some_domains_alone_are_asked_for() {
    let dns = |text: &str| client(text).1.dns;
    let some =
        dns("dhcp-option DNS 10.8.0.1\ndhcp-option DOMAIN-ROUTE corp.example\ndhcp-option DOMAIN-ROUTE a.b");
    assert_eq!(some.only_for, ["corp.example", "a.b"]);
    assert_eq!(dns("dhcp-option DOMAIN-ROUTE corp.example\ndhcp-option DOMAIN-ROUTE .").only_for, [""; 0]);
    assert!(bad("client\nremote a\ndhcp-option DOMAIN-ROUTE $(reboot)")[0].contains("a domain, or `.`"));
}

#[test]
fn setenv_opt_alone_says_nothing() {
    let parsed = good("client\nremote vpn.example\nremote-cert-tls server\nsetenv opt\nsetenv opt mute 3");
    assert_eq!(parsed.config.process.mute, Some(3));
    assert!(
        parsed.warnings.iter().any(|warning| warning.to_string().starts_with("test.conf:4: `setenv opt`"))
    );
}

#[test]
fn what_the_server_is_told_of_us() {
    let told = |text: &str| client(text).1.peer_info;
    let text = "setenv UV_ID 42\nsetenv IV_GUI_VER \"gui 1\"\nsetenv OTHER x\n";
    assert_eq!(told(text), [("IV_GUI_VER".to_owned(), "gui 1".to_owned())]);
    assert_eq!(told("setenv IV_SSO webauth\n"), [("IV_SSO".to_owned(), "webauth".to_owned())]);
    assert_eq!(told(&format!("{text}push-peer-info"))[0], ("UV_ID".to_owned(), "42".to_owned()));
}

#[test]
fn sizes_of_control_datagrams_hold_for_packets_too() {
    let sizes = |text: &str| {
        let config = client(text).0;
        (config.socket.control_size, config.data.mssfix)
    };
    assert_eq!(sizes("max-packet-size 1300"), (Some(1300), MssFix::Mtu(1300)));
    assert_eq!(sizes("max-packet-size 9000\nmssfix 1200"), (Some(2048), MssFix::Payload(1200)));
}

#[test]
fn path_mtu_discovery_is_as_the_file_says_also_in_a_block() {
    let mode = |text: &str| client(text).0.socket.mtu_disc;
    assert_eq!(mode(""), None);
    let modes = [("no", MtuDiscovery::No), ("maybe", MtuDiscovery::Maybe), ("yes", MtuDiscovery::Yes)];
    for (word, expected) in modes {
        assert_eq!(mode(&format!("mtu-disc {word}")), Some(expected));
    }
    assert_eq!(mode("<connection>\nremote b\nmtu-disc no\n</connection>"), Some(MtuDiscovery::No));
}

#[test]
fn a_lost_connection_is_an_end_if_the_file_says_so() {
    let report = good("client\nremote a\nremote-cert-tls server\nremap-usr1 SIGHUP").report;
    assert!(report.iter().any(|line| line.reason.contains("send it SIGHUP")), "{report:?}");
    let ends =
        |lines: &str| match good(&format!("client\nremote a\nremote-cert-tls server\n{lines}")).config.role {
            Role::Client(client) => client.ends_when_lost,
            _ => false,
        };
    assert!(ends("remap-usr1 SIGTERM") && !ends("") && !ends("remap-usr1 SIGTERM\nremap-usr1 SIGHUP"));
    let server = bad("server 10.8.0.0 255.255.255.0\nremap-usr1 SIGTERM");
    assert!(server.iter().any(|problem| problem.contains("ends a TLS client alone")), "{server:?}");
}
