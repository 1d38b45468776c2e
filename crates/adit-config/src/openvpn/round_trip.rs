//! Any configuration prints to text that reads back as the same configuration; any text reads without a
//! panic.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use adit_core::{
    Cipher, CompressionFraming, Digest, Dns, IdleLimit, IpNet, Ipv4Net, Ipv6Net, RedirectGateway,
    ReplayWindow, Route, RouteVia, SessionLimits, Transport,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;
use crate::{KeyOwner, Pem, Secret, StaticKey, TlsCryptV2Key, TokenSecret};

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

fn remote() -> impl Strategy<Value = Remote> {
    let bind = (option::of(any::<IpAddr>()), any::<u16>()).prop_map(|(address, port)| Bind { address, port });
    (
        "[a-z0-9.:-]{1,30}",
        1..=u16::MAX,
        transport(),
        family(),
        option::of(bind),
        seconds(0..1000),
        any::<u8>(),
    )
        .prop_map(|(host, port, transport, family, bind, connect_timeout, exit_notify)| Remote {
            host,
            port,
            transport,
            family,
            bind,
            connect_timeout,
            exit_notify: if transport == Transport::Udp { exit_notify } else { 0 },
        })
}

fn redirect() -> impl Strategy<Value = RedirectGateway> {
    any::<[bool; 8]>().prop_map(
        |[ipv4, ipv6, def1, local, autolocal, block_local, bypass_dhcp, bypass_dns]| RedirectGateway {
            ipv4,
            ipv6,
            def1,
            local,
            autolocal,
            block_local,
            bypass_dhcp,
            bypass_dns,
        },
    )
}

fn dns() -> impl Strategy<Value = Dns> {
    let domains = || {
        vec("[a-z]{1,9}\\.[a-z]{2}", 0..3).prop_map(|mut domains| {
            let mut seen = BTreeSet::new();
            domains.retain(|domain| seen.insert(domain.clone()));
            domains
        })
    };
    (vec(any::<IpAddr>(), 0..3), domains(), domains()).prop_map(|(mut servers, search, only_for)| {
        let mut seen = BTreeSet::new();
        servers.retain(|server| seen.insert(*server));
        Dns { servers, search, only_for }
    })
}

fn pull_filter() -> impl Strategy<Value = PullFilter> {
    (select(vec![PullAction::Accept, PullAction::Ignore, PullAction::Reject]), text())
        .prop_map(|(action, prefix)| PullFilter { action, prefix })
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

fn point() -> impl Strategy<Value = PointConfig> {
    let remotes = vec("[a-z]{1,9}|10\\.0\\.0\\.[1-9]|fd00::[1-9]", 0..3);
    let addresses = (static_ipv4(), option::of((net6(), any::<Ipv6Addr>())));
    (vec(listen(), 1..3), remotes, addresses, (0..3u8, any::<bool>()), admission()).prop_map(
        |(listen, remotes, (ipv4, ipv6), (exit_notify, single), admission)| PointConfig {
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

fn client() -> impl Strategy<Value = ClientConfig> {
    let first = (
        vec(remote(), 1..4),
        any::<bool>(),
        option::of(seconds(0..1000)),
        (seconds(0..100), seconds(100..400)),
        option::of(1..100u32),
        any::<bool>(),
    );
    let second = (
        any::<bool>(),
        vec(pull_filter(), 0..3),
        option::of(0..1000u32),
        option::of(redirect()),
        dns(),
        option::of(static_ipv4()),
        option::of((net6(), any::<Ipv6Addr>())),
        option::of(user_auth()),
    );
    let third = (vec(("UV_[A-Z]{1,9}", "[ -~]{0,9}"), 0..3), any::<bool>(), 576..=9000u16);
    (first, second, third).prop_map(|(first, second, third)| {
        let (peer_info, tls_exit, max_pushed_mtu) = third;
        let (remotes, remote_random, resolve_retry, retry, connect_retry_max, pull) = first;
        let (route_nopull, pull_filters, route_metric, redirect_gateway, dns, ipv4, ipv6, auth) = second;
        ClientConfig {
            remotes,
            remote_random,
            remote_random_hostname: remote_random != pull,
            resolve_retry,
            connect_retry: retry.0,
            connect_retry_longest: retry.1,
            connect_retry_max,
            pull: pull || (ipv4.is_none() && ipv6.is_none()),
            route_nopull,
            pull_filters,
            route_metric,
            redirect_gateway,
            dns,
            ipv4,
            ipv6,
            auth,
            peer_info,
            tls_exit,
            max_pushed_mtu,
        }
    })
}

fn user_auth() -> impl Strategy<Value = UserAuth> {
    let source = prop_oneof![
        Just(UserPass::Prompt),
        "[a-z/]{1,20}".prop_map(|path| UserPass::File(path.into())),
        "[!-;=-~][ -~]{0,9}\n( [ -~]{0,9}\n)?".prop_map(|text| UserPass::Inline(Secret::new(&text))),
    ];
    let retry = select(vec![AuthRetry::None, AuthRetry::NoInteract, AuthRetry::Interact]);
    let challenge = ("[ -~]{1,20}", any::<bool>(), any::<bool>())
        .prop_map(|(text, echo, concat)| StaticChallenge { text, echo, concat });
    (source, retry, any::<bool>(), option::of(challenge))
        .prop_map(|(source, retry, nocache, challenge)| UserAuth { source, retry, nocache, challenge })
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

/// A server's address, and a pool of what lies above it.
fn server_ipv4() -> impl Strategy<Value = ServerIpv4> {
    (any::<Ipv4Addr>(), 8..=29u8, any::<bool>()).prop_map(|(address, bits, has_pool)| {
        let net = Ipv4Net::new(address, bits).unwrap();
        let first = u32::from(net.network()) + 1;
        let last = (u32::from(net.broadcast()) - 1).min(first + 60_000);
        ServerIpv4 {
            address: Ipv4Net::new(first.into(), bits).unwrap(),
            pool: has_pool.then(|| ((first + 1).into(), last.into())),
        }
    })
}

fn server_ipv6() -> impl Strategy<Value = ServerIpv6> {
    (any::<Ipv6Addr>(), 64..=124u8, any::<bool>()).prop_map(|(address, bits, has_pool)| {
        let net = Ipv6Net::new(address, bits).unwrap();
        ServerIpv6 { address: net, pool: has_pool.then(|| net.trunc()) }
    })
}

fn server() -> impl Strategy<Value = ServerConfig> {
    let networks = prop_oneof![
        server_ipv4().prop_map(|v4| (Some(v4), None)),
        server_ipv6().prop_map(|v6| (None, Some(v6))),
        (server_ipv4(), server_ipv6()).prop_map(|(v4, v6)| (Some(v4), Some(v6))),
    ];
    let push = vec(prop_oneof!["[ -+.-~--]{1,60}", "ping [1-3]", "ping-restart [5-7]"], 0..4);
    let flags = any::<[bool; 2]>();
    (
        vec(listen(), 1..4),
        networks,
        push,
        flags,
        (1..100_000u32, admission()),
        0..3u8,
        (per_client(), access()),
    )
        .prop_map(
            |(
                listen,
                (ipv4, ipv6),
                push,
                flags,
                (max_clients, admission),
                exit_notify,
                (per_client, access),
            )| {
                let [client_to_client, duplicate_cn] = flags;
                ServerConfig {
                    listen,
                    ipv4,
                    ipv6,
                    push,
                    client_to_client,
                    duplicate_cn,
                    max_clients,
                    admission,
                    exit_notify,
                    per_client,
                    access,
                }
            },
        )
}

fn access() -> impl Strategy<Value = Access> {
    let argv = || {
        ("/[a-z /]{1,9}", vec("[ -~]{0,9}", 0..2)).prop_map(|(program, mut rest)| {
            rest.insert(0, program);
            rest
        })
    };
    let verify = (argv(), any::<bool>()).prop_map(|(argv, by_file)| PasswordScript { argv, by_file });
    let times = (option::of(seconds(1..99)), option::of(seconds(1..99)), any::<bool>())
        .prop_map(|(lifetime, renewal, external)| TokenTimes { lifetime, renewal, external });
    let secret = any::<[u8; 32]>().prop_map(|part| {
        let mut bytes = [0; 128];
        bytes.iter_mut().zip(part.iter().cycle()).for_each(|(byte, part)| *byte = *part);
        TokenSecret::from_bytes(bytes)
    });
    let modes = vec![ClientCertificates::Require, ClientCertificates::Optional, ClientCertificates::None];
    (
        (option::of(verify), any::<[bool; 3]>(), select(modes)),
        (option::of(times), option::of(secret)),
        [
            option::of(argv()),
            option::of(argv()),
            option::of(argv()),
            option::of(argv()),
            option::of(argv()),
            option::of(argv()),
        ],
        vec(("[A-Z_]{1,9}", "[ -~]{0,9}"), 0..3),
    )
        .prop_map(
            |(
                (verify, [optional, username_as_name, export_certificates], mode),
                (tokens, token_secret),
                scripts,
                env,
            )| {
                let has_verify = verify.is_some();
                let certificates = if verify.is_some() { mode } else { ClientCertificates::Require };
                let [
                    tls_verify,
                    key_verify,
                    client_crresponse,
                    client_connect,
                    client_disconnect,
                    learn_address,
                ] = scripts;
                let env = env.into_iter().filter(|(name, _)| name != "CLIENT_CERT").collect();
                Access {
                    certificates,
                    verify,
                    optional,
                    username_as_name,
                    tokens,
                    token_secret,
                    tls_verify,
                    export_certificates,
                    key_verify,
                    client_crresponse: client_crresponse.filter(|_| has_verify),
                    client_connect,
                    client_disconnect,
                    learn_address,
                    env,
                }
            },
        )
}

fn per_client() -> impl Strategy<Value = PerClient> {
    let path = || text().prop_map(PathBuf::from);
    let file = (path(), option::of(seconds(1..1000))).prop_map(|(path, every)| PoolFile { path, every });
    (option::of(path()), any::<bool>(), option::of(file)).prop_map(|(directory, exclusive, pool_file)| {
        PerClient { exclusive: exclusive && directory.is_some(), directory, pool_file }
    })
}

fn pem(label: &'static str) -> impl Strategy<Value = Pem> {
    "[A-Za-z0-9+/=]{0,64}"
        .prop_map(move |body| Pem::new(&format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----")))
}

fn tls_names(table: &'static [(u16, &'static str, &'static str)]) -> impl Strategy<Value = Vec<TlsName>> {
    let all: Vec<_> = table.iter().map(|(id, name, _)| TlsName { id: *id, name }).collect();
    subsequence(all, 0..=table.len()).prop_shuffle().prop_map(|mut names| {
        let mut seen = BTreeSet::new();
        names.retain(|name| name.name != "P-256" && seen.insert(name.id));
        names
    })
}

fn crl() -> impl Strategy<Value = Crl> {
    prop_oneof![
        pem("X509 CRL").prop_map(Crl::Inline),
        "[ -Z^-~]{1,40}".prop_map(|path| Crl::File(path.into())),
        "[ -Z^-~]{1,40}".prop_map(|path| Crl::Directory(path.into())),
    ]
}

fn peer_check() -> impl Strategy<Value = PeerCheck> {
    let kind = select(vec![NameKind::Subject, NameKind::Name, NameKind::NamePrefix]);
    let name = (kind, text()).prop_map(|(kind, value)| NameCheck { kind, value: format!("CN={value}") });
    let hash = |length| vec(vec(any::<u8>(), length), 0..3);
    let (own, issuer) = (hash(32..=32), prop_oneof![hash(20..=20), hash(32..=32)]);
    let hashes =
        prop_oneof![own.prop_map(|own| (own, Vec::new())), issuer.prop_map(|hash| (Vec::new(), hash))];
    let field = prop_oneof![
        select(vec!["2.5.4.3", "0.9.2342.19200300.100.1.1", "1.2.3.4"])
            .prop_map(|oid| NameField::Subject(oid.to_owned())),
        select(vec![NameField::Serial, NameField::SubjectEmail, NameField::IssuerEmail]),
    ];
    let usages = option::of(vec(1..=u16::MAX, 0..4));
    let extended = option::of(select(vec!["1.3.6.1.5.5.7.3.3", "1.2.3.4"]).prop_map(str::to_owned));
    (any::<bool>(), usages, extended, hashes, option::of(name), vec(field, 0..4)).prop_map(
        |(usage, key_usages, extended_usage, (fingerprints, issuer_fingerprints), name, name_fields)| {
            PeerCheck {
                usage,
                key_usages,
                extended_usage,
                fingerprints,
                issuer_fingerprints,
                name,
                name_fields,
            }
        },
    )
}

fn tls() -> impl Strategy<Value = Tls> {
    let versions = select(vec![
        (TlsVersion::V1_2, None),
        (TlsVersion::V1_3, None),
        (TlsVersion::V1_2, Some(TlsVersion::V1_2)),
        (TlsVersion::V1_2, Some(TlsVersion::V1_3)),
        (TlsVersion::V1_3, Some(TlsVersion::V1_3)),
    ]);
    (
        (pem("CERTIFICATE"), pem("CERTIFICATE"), pem("EC PRIVATE KEY")),
        versions,
        (tls_names(tls::CIPHERS), tls_names(tls::SUITES), tls_names(tls::GROUPS)),
        (peer_check(), option::of(crl())),
        (any::<bool>(), select(vec![CertProfile::Preferred, CertProfile::SuiteB])),
        (option::of("[A-Za-z0-9+/]{64}\n[A-Za-z0-9+/]{1,64}"), option::of("[ -~]{1,40}")),
    )
        .prop_map(
            |(
                (ca, cert, key),
                (version_min, version_max),
                (ciphers, suites, groups),
                (peer, crl),
                (has_ca, cert_profile),
                (packed, password),
            )| {
                Tls {
                    ca: (has_ca || peer.fingerprints.is_empty()).then_some(ca),
                    identity: packed.is_none().then_some(Identity { cert, key }),
                    pkcs12: packed.map(|text| Secret::new(&text)),
                    key_password: match password {
                        Some(path) if path != "stdin" => KeyPassword::File(path.into()),
                        _ => KeyPassword::Prompt,
                    },
                    version_min,
                    version_max,
                    ciphers,
                    suites,
                    groups,
                    cert_profile,
                    peer,
                    crl,
                }
            },
        )
}

fn wrap() -> impl Strategy<Value = Wrap> {
    let key = || {
        any::<[u8; 32]>().prop_map(|part| {
            let mut bytes = [0; 256];
            bytes.iter_mut().zip(part.iter().cycle()).for_each(|(byte, part)| *byte = *part);
            StaticKey::from_bytes(bytes)
        })
    };
    let direction = option::of(select(vec![KeyDirection::Normal, KeyDirection::Inverse]));
    prop_oneof![
        Just(Wrap::None),
        (key(), direction).prop_map(|(key, direction)| Wrap::TlsAuth { key, direction }),
        key().prop_map(|key| Wrap::TlsCrypt { key }),
        v2_key(KeyOwner::Client, 600).prop_map(|key| Wrap::TlsCryptV2 { key }),
    ]
}

fn v2_key(owner: KeyOwner, length: usize) -> impl Strategy<Value = TlsCryptV2Key> {
    vec(any::<u8>(), length).prop_map(move |bytes| TlsCryptV2Key::from_bytes(owner, &bytes).unwrap())
}

fn admission() -> impl Strategy<Value = Admission> {
    let days = option::of((1..1000u32).prop_map(|days| Duration::from_secs(86_400) * days));
    let v2 = (v2_key(KeyOwner::Server, 128), any::<bool>(), days)
        .prop_map(|(key, force_cookie, max_age)| TlsCryptV2 { key, force_cookie, max_age });
    let frequency =
        || option::of((1..1000u32, seconds(1..1000)).prop_map(|(count, period)| Frequency { count, period }));
    (option::of(v2), frequency(), frequency()).prop_map(
        |(tls_crypt_v2, connect_freq, connect_freq_initial)| Admission {
            tls_crypt_v2,
            connect_freq,
            connect_freq_initial,
        },
    )
}

fn data() -> impl Strategy<Value = DataChannel> {
    let all = Cipher::ALL.to_vec();
    let framings = vec![
        CompressionFraming::None,
        CompressionFraming::LzoNo,
        CompressionFraming::Stub,
        CompressionFraming::StubV2,
    ];
    let mssfix = prop_oneof![
        Just(Mssfix::Default),
        Just(Mssfix::Off),
        (576..=u16::MAX).prop_map(Mssfix::Payload),
        (576..=u16::MAX).prop_map(Mssfix::Outer),
        (576..=u16::MAX).prop_map(Mssfix::Fixed),
    ];
    (
        subsequence(all.clone(), 1..=3).prop_shuffle(),
        option::of(select(all.clone())),
        option::of(select(all)),
        select(&Digest::ALL[..]),
        select(framings),
        (select(vec![(false, false), (false, true), (true, true)]), replay_window()),
        mssfix,
    )
        .prop_map(
            |(
                ciphers,
                cipher,
                fallback,
                auth,
                compression,
                ((before_2_6, before_2_7), replay_window),
                mssfix,
            )| {
                DataChannel {
                    ciphers,
                    cipher,
                    fallback,
                    auth,
                    compression,
                    before_2_6,
                    before_2_7,
                    replay_window,
                    mssfix,
                }
            },
        )
}

fn replay_window() -> impl Strategy<Value = ReplayWindow> {
    (1..=65_536u32, seconds(0..601)).prop_map(|(packets, time)| ReplayWindow { packets, time })
}

fn timers() -> impl Strategy<Value = (Liveness, SessionLimits, Rekey)> {
    let liveness = (
        option::of(seconds(1..100)),
        option::of(seconds(1..100)),
        select(vec![OnTimeout::Restart, OnTimeout::Exit]),
    )
        .prop_map(|(ping, timeout, on_timeout)| Liveness { ping, timeout, on_timeout });
    let rekey = (
        option::of(seconds(1..9000)),
        0..9000u64,
        any::<u64>(),
        seconds(0..9000),
        seconds(1..900),
        seconds(1..9),
    )
        .prop_map(|(after, bytes, packets, transition, handshake, retransmit)| Rekey {
            after,
            bytes,
            packets,
            transition,
            handshake,
            retransmit,
        });
    let idle =
        (seconds(0..9000), any::<u32>()).prop_map(|(after, bytes)| IdleLimit { after, bytes: bytes.into() });
    let limits = (option::of(idle), option::of(seconds(0..9000)))
        .prop_map(|(idle, length)| SessionLimits { idle, length });
    (liveness, limits, rekey)
}

fn socket() -> impl Strategy<Value = SocketOptions> {
    let flags = any::<[bool; 3]>();
    let control_size = option::of(154..=2048u16);
    (option::of(1..1_000_000u32), option::of(1..1_000_000u32), flags, control_size).prop_map(
        |(sndbuf, rcvbuf, [float, multihome, tcp_nodelay], control_size)| SocketOptions {
            control_size,
            sndbuf,
            rcvbuf,
            float,
            multihome,
            tcp_nodelay,
        },
    )
}

fn route() -> impl Strategy<Value = Route> {
    let v4 = (net4(), option::of(any::<Ipv4Addr>()))
        .prop_map(|(net, via)| (IpNet::V4(net.trunc()), via.map(IpAddr::V4)));
    let v6 = (net6(), option::of(any::<Ipv6Addr>()))
        .prop_map(|(net, via)| (IpNet::V6(net.trunc()), via.map(IpAddr::V6)));
    (prop_oneof![v4, v6], any::<bool>(), option::of(0..1000u32)).prop_map(
        |((destination, via), around, metric)| {
            let via = match via {
                Some(address) => RouteVia::Gateway(address),
                None if around => RouteVia::SystemGateway,
                None => RouteVia::Tunnel,
            };
            Route { destination, via, metric }
        },
    )
}

fn named_route() -> impl Strategy<Value = NamedRoute> {
    let via = prop_oneof![
        Just(RouteVia::Tunnel),
        Just(RouteVia::SystemGateway),
        any::<Ipv4Addr>().prop_map(|address| RouteVia::Gateway(address.into()))
    ];
    ("[a-z]{1,9}\\.[a-z]{1,9}", any::<bool>(), 0..=32u8, via, option::of(0..1000u32)).prop_map(
        |(host, ipv6, prefix, via, metric)| {
            let other = ipv6 && matches!(via, RouteVia::Gateway(_));
            let via = if other { RouteVia::Tunnel } else { via };
            NamedRoute { host, ipv6, prefix: if ipv6 { 128 } else { prefix }, via, metric }
        },
    )
}

fn process() -> impl Strategy<Value = Process> {
    let path = || text().prop_map(PathBuf::from);
    let log = prop_oneof![
        (path(), any::<bool>()).prop_map(|(path, append)| Log::File { path, append }),
        option::of(text()).prop_map(Log::Syslog),
    ];
    let status = (path(), seconds(0..100), 1..=3u8).prop_map(|(path, every, version)| StatusFile {
        path,
        every,
        version,
    });
    let user = || option::of("[a-z]{1,9}");
    let rest = (option::of(path()), -20..20i32, any::<[bool; 2]>(), option::of(path()));
    (user(), user(), 0..=15u8, option::of(1..100u32), option::of(log), option::of(status), rest).prop_map(
        |(user, group, verb, mute, log, status, (pid_file, nice, [lock_memory, stamps], tmp_dir))| Process {
            user,
            group,
            verb,
            mute,
            log,
            status,
            pid_file,
            nice,
            lock_memory,
            stamps,
            tmp_dir,
        },
    )
}

fn device() -> impl Strategy<Value = Device> {
    let name = "[a-su-z0-9][a-z0-9]{0,14}|tun[0-9]{1,12}";
    (option::of(name), 68..=u16::MAX, option::of(1..100_000u32)).prop_map(|(name, mtu, txqueuelen)| Device {
        name,
        mtu,
        txqueuelen,
    })
}

fn secret() -> impl Strategy<Value = SharedSecret> {
    let direction = option::of(select(vec![KeyDirection::Normal, KeyDirection::Inverse]));
    let cipher = select(vec![Cipher::Aes128Cbc, Cipher::Aes192Cbc, Cipher::Aes256Cbc]);
    (any::<u8>(), direction, cipher).prop_map(|(byte, direction, cipher)| SharedSecret {
        key: StaticKey::from_bytes([byte; 256]),
        direction,
        cipher,
    })
}

/// The same with a static key, without what belongs to TLS.
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
                ..*client
            }))
        }
        Role::Point(point) => {
            Role::Point(Box::new(PointConfig { tls_crypt_v2: None, single: false, ..*point }))
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
    let role = prop_oneof![
        client().prop_map(|client| Role::Client(Box::new(client))),
        server().prop_map(|server| Role::Server(Box::new(server))),
        point().prop_map(|point| Role::Point(Box::new(point))),
    ];
    let routes = (vec(route(), 0..4), vec(named_route(), 0..2));
    (role, device(), tls(), wrap(), data(), timers(), socket(), routes, process()).prop_map(
        |(
            role,
            device,
            tls,
            mut wrap,
            mut data,
            timers,
            mut socket,
            (mut routes, mut named_routes),
            process,
        )| {
            let (liveness, limits, rekey) = timers;
            // A server's tls-crypt-v2 stands beside the wrapping.
            if let (Role::Server(_) | Role::Point(_), Wrap::TlsCryptV2 { .. }) = (&role, &wrap) {
                wrap = Wrap::None;
            }
            if let (Some(size), Mssfix::Default) = (socket.control_size, data.mssfix) {
                data.mssfix = Mssfix::Outer(size.max(576));
            }
            socket.multihome &= matches!(role, Role::Server(_));
            // A default metric holds for every route that names none.
            let metric = match &role {
                Role::Client(client) => client.route_metric,
                Role::Server(_) | Role::Point(_) => None,
            };
            for route in routes.iter_mut().filter(|route| route.via != RouteVia::SystemGateway) {
                route.metric = route.metric.or(metric);
            }
            for route in named_routes.iter_mut().filter(|route| route.via != RouteVia::SystemGateway) {
                route.metric = route.metric.or(metric);
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
