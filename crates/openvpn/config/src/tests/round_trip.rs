//! Any configuration prints to text that reads back as the same configuration; any text reads without a
//! panic.

mod client;
mod data;
mod server;
mod system;
mod tls;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use adit_core::{Cipher, Ipv4Net, Ipv6Net, RouteVia, Transport};
use adit_openvpn::params::{MssFix, Rekey, TlsCryptV2};
use adit_openvpn::static_key::StaticKey;
use adit_pki::CertificateDemand;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use self::client::client;
use self::data::{data, timers};
use self::server::{admission, server};
use self::system::{device, named_route, process, route, scripts, socket};
use self::tls::{external, tls, wrap};
use crate::*;

fn nothing(_: &Path) -> Result<Vec<u8>, String> {
    Err("no such file".into())
}

/// Text as it may stand in a file: anything but control characters.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[ -~]{1,40}", "[^\\p{Cc}]{1,20}", "[a-z/._]{1,20}"]
}

fn seconds(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_secs)
}

fn family() -> impl Strategy<Value = Family> {
    select(vec![Family::Any, Family::V4, Family::V6])
}

fn transport() -> impl Strategy<Value = Transport> {
    select(vec![Transport::Udp, Transport::Tcp])
}

fn net4() -> impl Strategy<Value = Ipv4Net> {
    (any::<Ipv4Addr>(), 0..=32u8).prop_map(|(address, bits)| Ipv4Net::new(address, bits).unwrap())
}

fn net6() -> impl Strategy<Value = Ipv6Net> {
    (any::<Ipv6Addr>(), 0..=128u8).prop_map(|(address, bits)| Ipv6Net::new(address, bits).unwrap())
}

fn static_ipv4() -> impl Strategy<Value = StaticIpv4> {
    prop_oneof![
        net4().prop_map(StaticIpv4::Subnet),
        any::<(Ipv4Addr, Ipv4Addr)>().prop_map(|(local, peer)| StaticIpv4::PointToPoint { local, peer }),
    ]
}

fn point_to_point() -> impl Strategy<Value = PointToPointConfig> {
    let remotes = vec("[a-z]{1,9}|10\\.0\\.0\\.[1-9]|fd00::[1-9]", 0..3);
    let addresses = (static_ipv4(), option::of((net6(), any::<Ipv6Addr>())));
    (vec(listen(), 1..3), remotes, addresses, (0..3u8, any::<bool>()), admission()).prop_map(
        |(listen, remotes, (ipv4, ipv6), (exit_notify, single), admission)| PointToPointConfig {
            single,
            listen,
            remotes,
            ipv4: Some(ipv4),
            ipv6,
            exit_notify,
            tls_crypt_v2: admission.tls_crypt_v2.map(|v2| TlsCryptV2 { max_age: None, ..v2 }),
        },
    )
}

fn listen() -> impl Strategy<Value = Listen> {
    (option::of(any::<IpAddr>()), 1..=u16::MAX, transport(), family()).prop_map(
        |(address, port, transport, family)| Listen {
            address,
            port,
            transport,
            family: if address.is_some() { Family::Any } else { family },
        },
    )
}

fn secret() -> impl Strategy<Value = SharedSecret> {
    let cipher = select(vec![Cipher::Aes128Cbc, Cipher::Aes192Cbc, Cipher::Aes256Cbc]);
    (any::<u8>(), tls::direction(), cipher).prop_map(|(byte, direction, cipher)| SharedSecret {
        key: StaticKey::from_bytes(&[byte; 256]),
        direction,
        cipher,
    })
}

/// A configuration with a static key, without the settings of TLS.
fn with_secret(config: Config, secret: SharedSecret) -> Config {
    let role = match config.role {
        Role::Client(client) => {
            let ipv4 = StaticIpv4::PointToPoint { local: [10, 4, 0, 1].into(), peer: [10, 4, 0, 2].into() };
            Role::Client(Box::new(ClientConfig {
                pull: false,
                ipv4: client.ipv4.or(Some(ipv4)),
                auth: None,
                peer_info: Vec::new(),
                tls_exit: false,
                ends_when_lost: false,
                ..*client
            }))
        }
        Role::PointToPoint(point) => {
            Role::PointToPoint(Box::new(PointToPointConfig { tls_crypt_v2: None, single: false, ..*point }))
        }
        Role::Server(_) => return config,
    };
    let data = DataChannel { cipher: Some(secret.cipher), ..config.data };
    let tls = Tls::default();
    Config { role, tls, data, secret: Some(secret), wrap: Wrap::None, rekey: Rekey::default(), ..config }
}

fn config() -> impl Strategy<Value = Config> {
    (tls_config(), option::weighted(0.2, secret())).prop_map(|(config, secret)| match secret {
        None => config,
        Some(secret) => with_secret(config, secret),
    })
}

fn tls_config() -> impl Strategy<Value = Config> {
    // On the heap: without optimization they would fill a thread's stack.
    let role = prop_oneof![
        client().prop_map(|client| Role::Client(Box::new(client))).boxed(),
        server().prop_map(|server| Role::Server(Box::new(server))).boxed(),
        point_to_point().prop_map(|point| Role::PointToPoint(Box::new(point))).boxed(),
    ];
    let routes = (vec(route(), 0..4), vec(named_route(), 0..2));
    // The configurations made of them are large: on the heap, they leave the test's stack to the rest.
    let process = (process().boxed(), scripts().boxed());
    let (tls, data) = ((tls(), option::of(external())).boxed(), data().boxed());
    (role, device(), tls, wrap(), data, timers(), socket(), routes, process).prop_map(
        |(
            mut role,
            mut device,
            (mut tls, external),
            mut wrap,
            mut data,
            timers,
            mut socket,
            (mut routes, mut named_routes),
            (process, mut scripts),
        )| {
            let (liveness, limits, rekey) = timers;
            // A server's tls-crypt-v2 stands beside the wrapping.
            if let (Role::Server(_) | Role::PointToPoint(_), Wrap::TlsCryptV2 { .. }) = (&role, &wrap) {
                wrap = Wrap::None;
            }
            // Parts are for datagrams.
            let by_tcp = match &role {
                Role::Client(client) => {
                    client.remotes.iter().any(|remote| remote.transport == Transport::Tcp)
                }
                Role::Server(server) => server.listen.iter().any(|place| place.transport == Transport::Tcp),
                Role::PointToPoint(point) => {
                    point.listen.iter().any(|place| place.transport == Transport::Tcp)
                }
            };
            data.fragment = data.fragment.filter(|_| !by_tcp);
            if let (Some(size), MssFix::Default) = (socket.control_size, data.mssfix) {
                data.mssfix = MssFix::Mtu(size.max(576));
            }
            // A file without a management socket has no management client that judges clients.
            if let (Role::Server(server), None) = (&mut role, &process.management) {
                server.access.management = false;
                if server.access.verify.is_none() && server.access.back_ends.is_empty() {
                    server.access.certificates = CertificateDemand::Require;
                    (server.access.optional, server.access.username_as_name) = (false, false);
                }
            }
            // A client's key may be held at the socket that is there.
            if let (Role::Client(_), Some(_), Some(external)) = (&role, &process.management, external) {
                tls = Tls { identity: None, pkcs12: None, external: Some(external), ..tls };
            }
            socket.multihome &= matches!(role, Role::Server(_));
            device.is_null &= !matches!(role, Role::Server(_));
            // A default metric holds for every route that names none.
            let metric = match &role {
                Role::Client(client) => client.route_metric,
                Role::Server(_) | Role::PointToPoint(_) => None,
            };
            for route in routes.iter_mut().filter(|route| route.via != RouteVia::SystemGateway) {
                route.metric = route.metric.or(metric);
            }
            for route in named_routes.iter_mut().filter(|route| route.via != RouteVia::SystemGateway) {
                route.metric = route.metric.or(metric);
            }
            // A server has both elsewhere.
            if matches!(role, Role::Server(_)) {
                (scripts.tls_verify, scripts.env) = (None, Vec::new());
            }
            Config {
                role,
                device,
                tls,
                secret: None,
                wrap,
                data,
                liveness,
                limits,
                rekey,
                socket,
                routes,
                named_routes,
                scripts,
                process,
            }
        },
    )
}

/// Lines that look like directives, with arguments from a small set.
fn lines(most: usize) -> impl Strategy<Value = String> {
    let names: Vec<&str> = directives().iter().map(|directive| directive.name).collect();
    let words = vec![
        "",
        "0",
        "1",
        "10",
        "60",
        "1194",
        "65536",
        "-1",
        "udp",
        "tcp",
        "tun",
        "subnet",
        "server",
        "client",
        "10.8.0.0",
        "10.8.0.5",
        "255.255.255.0",
        "fd00::/64",
        "fd00::5/64",
        "fd00::1",
        "default",
        "net_gateway",
        "AES-128-GCM",
        "DNS",
        "no",
        "opt",
        "\"a b\"",
        "'",
        "\\",
        "name",
        "mtu",
        "#",
        "127.0.0.0/8",
        "nopool",
        "/tmp",
        "DEFAULT",
    ];
    let line = (select(names.clone()), vec(select(words), 0..4))
        .prop_map(|(name, words)| format!("{name} {}", words.join(" ")));
    let block =
        (select(names), "[a-z \n<>/-]{0,30}").prop_map(|(name, body)| format!("<{name}>\n{body}\n</{name}>"));
    vec(prop_oneof![8 => line, 1 => block, 1 => "[^\\x00]{0,20}"], 0..=most)
        .prop_map(|lines| lines.join("\n"))
}

const MATERIAL: &str = "\n<ca>\n-----BEGIN CERTIFICATE-----\n</ca>\n<cert>\n-----BEGIN CERTIFICATE-----\n</cert>\n\
                        <key>\n-----BEGIN PRIVATE KEY-----\n</key>\n";

/// Found by the test below.
#[test]
fn an_empty_password_is_printed() {
    let text = format!("client\nremote a\n<auth-user-pass>\nname\n\n</auth-user-pass>\n{MATERIAL}");
    let parsed = parse("empty", text.as_bytes(), &nothing).unwrap();
    let again = parse("printed", parsed.config.to_text().as_bytes(), &nothing).unwrap();
    assert_eq!(again.config, parsed.config);
}

proptest! {
    #[test]
    fn printed_is_read_back(config in config()) {
        let text = config.to_text();
        match parse("printed", text.as_bytes(), &nothing) {
            Ok(parsed) => prop_assert_eq!(parsed.config, config),
            Err(failure) => prop_assert!(false, "{}\n{}", failure, text.as_str()),
        }
    }

    #[test]
    fn any_bytes_are_read(bytes in vec(any::<u8>(), 0..400)) {
        let _ = parse("any", &bytes, &nothing);
    }

    #[test]
    fn what_is_accepted_prints_to_the_same(start in select(vec!["client\nremote a", "server 10.8.0.0 255.255.255.0"]),
                                           lines in lines(3)) {
        let text = format!("{start}\n{lines}\n{MATERIAL}");
        if let Ok(parsed) = parse("lines", text.as_bytes(), &nothing) {
            let printed = parsed.config.to_text();
            match parse("printed", printed.as_bytes(), &nothing) {
                Ok(again) => prop_assert_eq!(again.config, parsed.config),
                Err(failure) => prop_assert!(false, "{}\n{}", failure, printed.as_str()),
            }
        }
    }

    #[test]
    fn one_good_line_is_accepted_or_explained(lines in lines(20)) {
        let text = format!("client\nremote a\n{lines}{MATERIAL}");
        if let Err(failure) = parse("lines", text.as_bytes(), &nothing) {
            prop_assert!(!failure.problems.is_empty());
            for problem in &failure.problems {
                prop_assert!(!problem.text.is_empty() && problem.text.len() < 2000);
            }
        }
    }
}
