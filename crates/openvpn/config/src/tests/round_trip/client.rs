//! Any client.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use adit_core::{Dns, Transport};
use adit_openvpn::params::{AuthRetry, PullAction, PullFilter, StaticChallenge};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::{family, net6, seconds, static_ipv4, text, transport};
use crate::Secret;
use crate::model::*;

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
        option::weighted(0.3, proxy()),
    )
        .prop_map(|(host, port, transport, family, bind, connect_timeout, exit_notify, proxy)| Remote {
            // An HTTP proxy carries TCP alone.
            proxy: proxy.filter(|proxy| proxy.kind == ProxyKind::Socks || transport == Transport::Tcp),
            host,
            port,
            transport,
            family,
            bind,
            connect_timeout,
            exit_notify: if transport == Transport::Udp { exit_notify } else { 0 },
        })
}

fn proxy() -> impl Strategy<Value = Proxy> {
    let file = || "/[a-z]{1,9}".prop_map(|path| UserPass::File(path.into()));
    let http = prop_oneof![
        Just((HttpAuthentication::None, None)),
        Just((HttpAuthentication::Any, Some(UserPass::Prompt))),
        Just((HttpAuthentication::Digest, Some(UserPass::Prompt))),
        Just((HttpAuthentication::Basic, Some(UserPass::Prompt))),
        file().prop_map(|file| (HttpAuthentication::Basic, Some(file))),
        file().prop_map(|file| (HttpAuthentication::Digest, Some(file))),
    ];
    let socks = option::of(prop_oneof![Just(UserPass::Prompt), file()]);
    let http = (http, "[0-9]\\.[0-9]", vec("[A-Za-z-]{1,9}: [ -~]{0,9}", 0..3)).prop_map(
        |((authentication, credentials), version, headers)| {
            (ProxyKind::Http(HttpProxy { authentication, version, headers }), credentials)
        },
    );
    let kind = prop_oneof![http, socks.prop_map(|credentials| (ProxyKind::Socks, credentials))];
    ("[a-z0-9.:-]{1,30}", 1..=u16::MAX, kind).prop_map(|(host, port, (kind, credentials))| Proxy {
        host,
        port,
        kind,
        credentials,
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

pub(crate) fn client() -> impl Strategy<Value = ClientConfig> {
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
    let third =
        (vec(("UV_[A-Z]{1,9}|IV_SSO", "[ -~]{0,9}"), 0..3), any::<bool>(), 576..=9000u16, any::<bool>());
    (first, second, third).prop_map(|(first, second, third)| {
        let (peer_info, tls_exit, max_pushed_mtu, block_ipv6) = third;
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
            block_ipv6,
            dns,
            ipv4,
            ipv6,
            auth,
            peer_info,
            tls_exit,
            ends_when_lost: tls_exit != block_ipv6,
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
