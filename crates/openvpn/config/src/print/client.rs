//! The ends that connect: a client, and one end of a point-to-point tunnel. The other end waits.

use adit_core::{Dns, Transport};
use adit_openvpn::params::{AuthRetry, PullAction, StaticChallenge};

use super::Out;
use super::net::{print_addresses, print_listen, protocol};
use super::server::print_admission;
use crate::model::*;

pub(crate) fn print_client(out: &mut Out, client: &ClientConfig, has_secret: bool) {
    if !has_secret {
        out.flag(if client.pull { "client" } else { "tls-client" });
    }
    for remote in &client.remotes {
        print_remote(out, remote, client.pull);
    }
    print_proxy_user(out, client);
    if client.remote_random_hostname {
        out.flag("remote-random-hostname");
    }
    if client.remote_random {
        out.flag("remote-random");
    }
    if let Some(limit) = client.resolve_retry {
        out.seconds("resolv-retry", limit);
    }
    let (first, longest) = (client.connect_retry.as_secs(), client.connect_retry_longest.as_secs());
    out.line("connect-retry", &[first.to_string(), longest.to_string()]);
    if let Some(rounds) = client.connect_retry_max {
        out.one("connect-retry-max", rounds);
    }
    if client.route_nopull {
        out.flag("route-nopull");
    }
    for filter in &client.pull_filters {
        let action = match filter.action {
            PullAction::Accept => "accept",
            PullAction::Ignore => "ignore",
            PullAction::Reject => "reject",
        };
        out.line("pull-filter", &[action, &filter.prefix]);
    }
    if let Some(metric) = client.route_metric {
        out.one("route-metric", metric);
    }
    if let Some(flags) = &client.redirect_gateway {
        print_redirect(out, flags);
    }
    if client.block_ipv6 {
        out.flag("block-ipv6");
    }
    print_dns(out, &client.dns);
    if client.peer_info.iter().any(|(name, _)| name.starts_with("UV_")) {
        out.flag("push-peer-info");
    }
    for (name, value) in &client.peer_info {
        out.line("setenv", &[name, value]);
    }
    if client.tls_exit {
        out.flag("tls-exit");
    }
    if client.ends_when_lost {
        out.one("remap-usr1", "SIGTERM");
    }
    out.one("tun-mtu-max", client.max_pushed_mtu);
    print_addresses(out, client.ipv4, client.ipv6);
    if let Some(auth) = &client.auth {
        match &auth.source {
            UserPass::Prompt => out.flag("auth-user-pass"),
            UserPass::File(path) => out.one("auth-user-pass", path.display()),
            UserPass::Inline(text) => out.block("auth-user-pass", text.text()),
        }
        match auth.retry {
            AuthRetry::None => {}
            AuthRetry::NoInteract => out.one("auth-retry", "nointeract"),
            AuthRetry::Interact => out.one("auth-retry", "interact"),
        }
        if auth.nocache {
            out.flag("auth-nocache");
        }
        if let Some(StaticChallenge { text, echo, concat }) = &auth.challenge {
            let echo = if *echo { "1" } else { "0" };
            out.line("static-challenge", &[text.as_str(), echo, if *concat { "concat" } else { "scrv1" }]);
        }
    }
}

pub(crate) fn print_point_to_point(out: &mut Out, point: &PointToPointConfig, has_secret: bool) {
    match has_secret {
        false => out.flag("tls-server"),
        // An end with `remote` connects, unless this line comes first.
        true if !point.remotes.is_empty() => out.one("proto", "tcp-server"),
        true => {}
    }
    print_listen(out, &point.listen);
    if let [Listen { transport: Transport::Tcp, family, .. }] = point.listen[..] {
        out.one("proto", format!("{}-server", protocol(Transport::Tcp, family)));
    }
    for host in &point.remotes {
        out.one("remote", host);
    }
    print_addresses(out, point.ipv4, point.ipv6);
    print_admission(out, &Admission { tls_crypt_v2: point.tls_crypt_v2.clone(), ..Admission::default() });
    if point.exit_notify > 0 {
        out.one("explicit-exit-notify", point.exit_notify);
    }
    if point.single {
        out.flag("single-session");
    }
}

/// Every remote in a block of its own, so that nothing of one holds for another.
fn print_remote(out: &mut Out, remote: &Remote, pull: bool) {
    out.flag("<connection>");
    let proto = protocol(remote.transport, remote.family);
    // In a point-to-point tunnel OpenVPN requires the name of the end that connects.
    let side = if !pull && remote.transport == Transport::Tcp { "-client" } else { "" };
    out.line("remote", &[&remote.host, &remote.port.to_string(), &format!("{proto}{side}")]);
    match remote.bind {
        None => out.flag("nobind"),
        Some(bind) => {
            if let Some(address) = bind.address {
                out.one("local", address);
            }
            out.one("lport", bind.port);
        }
    }
    if let Some(proxy) = &remote.proxy {
        print_proxy(out, proxy);
    }
    out.seconds("connect-timeout", remote.connect_timeout);
    if remote.exit_notify > 0 {
        out.one("explicit-exit-notify", remote.exit_notify);
    }
    out.flag("</connection>");
}

fn print_proxy(out: &mut Out, proxy: &Proxy) {
    let mut words = vec![proxy.host.clone(), proxy.port.to_string()];
    let source = |source: &UserPass| match source {
        UserPass::File(path) => path.display().to_string(),
        UserPass::Prompt | UserPass::Inline(_) => "stdin".to_owned(),
    };
    let ProxyKind::Http(http) = &proxy.kind else {
        words.extend(proxy.credentials.as_ref().map(source));
        return out.line("socks-proxy", &words);
    };
    match (http.authentication, &proxy.credentials) {
        (HttpAuthentication::None, _) | (HttpAuthentication::Basic, None) => {}
        (HttpAuthentication::Basic, Some(from)) => words.extend([source(from), "basic".to_owned()]),
        (HttpAuthentication::Digest, Some(from @ UserPass::File(_))) => {
            words.extend([source(from), "digest".to_owned()]);
        }
        (HttpAuthentication::Digest, _) => words.push("auto-nct".to_owned()),
        (HttpAuthentication::Any, _) => words.push("auto".to_owned()),
    }
    out.line("http-proxy", &words);
    out.line("http-proxy-option", &["VERSION", &http.version]);
    for header in &http.headers {
        out.line("http-proxy-option", &["CUSTOM-HEADER", header]);
    }
}

/// `http-proxy-user-pass`, which holds for all servers.
fn print_proxy_user(out: &mut Out, client: &ClientConfig) {
    let by_itself = |proxy: &&Proxy| match (&proxy.kind, &proxy.credentials) {
        (ProxyKind::Http(http), Some(UserPass::File(_))) => http.authentication == HttpAuthentication::Any,
        (ProxyKind::Http(_), Some(UserPass::Inline(_))) => true,
        _ => false,
    };
    let mut proxies = client.remotes.iter().filter_map(|remote| remote.proxy.as_ref());
    match proxies.find(by_itself).and_then(|proxy| proxy.credentials.as_ref()) {
        Some(UserPass::File(path)) => out.one("http-proxy-user-pass", path.display()),
        Some(UserPass::Inline(text)) => out.block("http-proxy-user-pass", text.text()),
        Some(UserPass::Prompt) | None => {}
    }
}

fn print_dns(out: &mut Out, dns: &Dns) {
    dns.servers.iter().for_each(|server| out.line("dhcp-option", &["DNS", &server.to_string()]));
    dns.search.iter().for_each(|domain| out.line("dhcp-option", &["DOMAIN", domain]));
    dns.only_for.iter().for_each(|domain| out.line("dhcp-option", &["DOMAIN-ROUTE", domain]));
}

fn print_redirect(out: &mut Out, flags: &RedirectGateway) {
    let words = [
        (!flags.ipv4, "!ipv4"),
        (flags.ipv6, "ipv6"),
        (flags.def1, "def1"),
        (flags.local, "local"),
        (flags.autolocal, "autolocal"),
        (flags.block_local, "block-local"),
        (flags.bypass_dhcp, "bypass-dhcp"),
        (flags.bypass_dns, "bypass-dns"),
    ];
    let words: Vec<_> = words.iter().filter(|(set, _)| *set).map(|(_, word)| *word).collect();
    out.line("redirect-gateway", &words);
}
