//! Any server.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use adit_core::Rate;
use adit_core::{Ipv4Net, Ipv6Net, Transport};
use adit_openvpn::access::PasswordScript;
use adit_openvpn::params::TlsCryptV2;
use adit_openvpn::wrap::v2::ServerKey;
use adit_pki::CertificateDemand;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::{listen, seconds, text};
use crate::TokenSecret;
use crate::model::*;

/// A server's address, and a pool of the addresses above it.
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

pub(crate) fn server() -> impl Strategy<Value = ServerConfig> {
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
        (1..100_000u32, admission(), option::of(port_share())),
        0..3u8,
        (per_client(), access()),
    )
        .prop_map(
            |(
                listen,
                (ipv4, ipv6),
                push,
                flags,
                (max_clients, admission, port_share),
                exit_notify,
                (per_client, access),
            )| {
                let [client_to_client, duplicate_cn] = flags;
                let is_tcp = |listen: &Listen| listen.transport == Transport::Tcp;
                ServerConfig {
                    ipv4,
                    ipv6,
                    push,
                    client_to_client,
                    forward: Vec::new(),
                    duplicate_cn,
                    port_share: port_share.filter(|_| listen.iter().any(is_tcp)),
                    listen,
                    max_clients,
                    admission,
                    exit_notify,
                    per_client,
                    access,
                }
            },
        )
}

fn port_share() -> impl Strategy<Value = PortShare> {
    let journal = option::of("/[a-z]{1,9}".prop_map(PathBuf::from));
    ("[a-z0-9.:-]{1,30}", 1..=u16::MAX, journal).prop_map(|(host, port, journal)| PortShare {
        host,
        port,
        journal,
    })
}

fn access() -> impl Strategy<Value = Access> {
    let argv = || {
        ("/[a-z /]{1,9}", vec("[ -~]{0,9}", 0..2)).prop_map(|(program, mut rest)| {
            rest.insert(0, program);
            rest
        })
    };
    let verify = (argv(), any::<bool>()).prop_map(|(argv, by_file)| PasswordScript { argv, by_file });
    let back_end = prop_oneof![
        ("[a-z]{1,9}", vec(("[ -~]{1,9}", "[ -~]{0,9}"), 0..3))
            .prop_map(|(service, answers)| PasswordBackEnd::Pam { service, answers }),
        text().prop_map(|file| PasswordBackEnd::Ldap { file: file.into() }),
    ];
    let times = (option::of(seconds(1..99)), option::of(seconds(1..99)), any::<bool>())
        .prop_map(|(lifetime, renewal, external)| TokenTimes { lifetime, renewal, external });
    let secret = any::<[u8; 32]>().prop_map(|part| {
        let mut bytes = [0; 128];
        bytes.iter_mut().zip(part.iter().cycle()).for_each(|(byte, part)| *byte = *part);
        TokenSecret::from_bytes(bytes)
    });
    let modes = vec![CertificateDemand::Require, CertificateDemand::Optional, CertificateDemand::None];
    (
        (option::of(verify), vec(back_end, 0..3), any::<[bool; 4]>(), select(modes)),
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
                (verify, back_ends, [management, optional, username_as_name, export_certificates], mode),
                (tokens, token_secret),
                scripts,
                env,
            )| {
                let has_verify = verify.is_some();
                let is_judged = has_verify || management || !back_ends.is_empty();
                let certificates = if is_judged { mode } else { CertificateDemand::Require };
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
                    back_ends,
                    management,
                    optional: optional && is_judged,
                    username_as_name: username_as_name && is_judged,
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

pub(crate) fn admission() -> impl Strategy<Value = Admission> {
    let days = option::of((1..1000u32).prop_map(|days| Duration::from_secs(86_400) * days));
    let v2 = (vec(any::<u8>(), 128), any::<bool>(), days).prop_map(|(key, force_cookie, max_age)| {
        TlsCryptV2 { key: Arc::new(ServerKey::from_bytes(&key.try_into().unwrap())), force_cookie, max_age }
    });
    let frequency =
        || option::of((1..1000u32, seconds(1..1000)).prop_map(|(count, period)| Rate { count, period }));
    (option::of(v2), frequency(), frequency()).prop_map(
        |(tls_crypt_v2, connect_freq, connect_freq_initial)| Admission {
            tls_crypt_v2,
            connect_freq,
            connect_freq_initial,
        },
    )
}
