//! The plan of a client.

use std::time::Duration;

use adit_core::Transport;

use super::{PORT, point_to_point};
use crate::draft::{Draft, ProxyDraft, RemoteDraft, Scope};
use crate::model::*;
use crate::parser::Parser;

pub(super) fn client(draft: &mut Draft, file: &str, parser: &mut Parser<'_>) -> Option<ClientConfig> {
    let before = parser.problems.len();
    if draft.client.remotes.is_empty() {
        parser.problem_in(file, "`remote` is missing: write `remote HOST [PORT] [PROTOCOL]`");
    }
    let mut remotes = Vec::new();
    for (remote, block) in std::mem::take(&mut draft.client.remotes) {
        let scope = block.unwrap_or_else(|| draft.general.clone());
        let mut remote = resolve_remote(remote, &scope, draft.sides.pull);
        remote.proxy = proxy(&remote, &scope, draft, parser);
        remotes.push(remote);
    }
    let ipv4 = point_to_point::static_ipv4(draft, parser);
    if !draft.sides.pull {
        point_to_point::check_tcp_end(draft, false, parser);
    }
    let has_address = ipv4.is_some() || draft.device.ifconfig_ipv6.is_some() || draft.device.is_absent();
    if !draft.sides.pull && !has_address {
        let text = match draft.tls.secret {
            None => "nothing gives this side an address: write `client` to ask the server for one",
            Some(_) => "nothing gives this end an address: write `ifconfig OURS THEIRS`",
        };
        parser.problem_in(file, text);
    }
    let retry = draft.client.retry.unwrap_or(Duration::from_secs(1)).min(Duration::from_secs(0xFFFF));
    let mut client = std::mem::take(&mut draft.client);
    // OpenVPN ssl.c `push_peer_info`.
    let is_sent = |name: &str| {
        matches!(name, "IV_GUI_VER" | "IV_SSO") || (client.push_peer_info && name.starts_with("UV_"))
    };
    let peer_info = draft.access.env.iter().filter(|(name, _)| is_sent(name)).cloned().collect();
    let by_dhcp = std::mem::take(&mut client.dns);
    client.dns_options.settle(&mut client.dns, &by_dhcp);
    let config = ClientConfig {
        remotes,
        remote_random: client.random,
        remote_random_hostname: client.random_hostname,
        resolve_retry: client.resolve_retry,
        connect_retry: retry,
        connect_retry_longest: client.retry_longest.unwrap_or(Duration::from_secs(300)).max(retry),
        connect_retry_max: client.retry_max,
        pull: draft.sides.pull,
        route_nopull: client.route_nopull,
        pull_filters: client.pull_filters,
        route_metric: client.route_metric,
        redirect_gateway: client.redirect_gateway,
        block_ipv6: client.block_ipv6,
        dns: client.dns,
        ipv4,
        ipv6: draft.device.ifconfig_ipv6,
        auth: client.auth.map(|source| UserAuth {
            source: match source {
                UserPass::File(path) => UserPass::File(draft.directory.join(path)),
                other => other,
            },
            retry: client.auth_retry,
            nocache: client.auth_nocache,
            challenge: client.auth_challenge,
        }),
        peer_info,
        tls_exit: client.tls_exit,
        ends_when_lost: client.ends_when_lost.is_some(),
        max_pushed_mtu: client.max_pushed_mtu.unwrap_or(1600),
    };
    (parser.problems.len() == before).then_some(config)
}

/// One remote: the settings of its line, then those of its block or of the file, then defaults.
fn resolve_remote(remote: RemoteDraft, scope: &Scope, pull: bool) -> Remote {
    let (transport, family) = remote.proto.or(scope.proto).unwrap_or((Transport::Udp, Family::Any));
    let local = scope.locals.last();
    let local_port = local.and_then(|local| local.port).or(scope.local_port);
    let nobind = scope.nobind;
    // The other point may go by our port.
    let says_where = !pull || nobind.is_some() || local.is_some() || local_port.is_some();
    let binds = nobind != Some(true) && says_where;
    Remote {
        host: remote.host,
        port: remote.port.or(scope.remote_port).unwrap_or(PORT),
        transport,
        family,
        bind: binds.then(|| Bind {
            address: local.and_then(|local| local.address),
            port: local_port.unwrap_or(PORT),
        }),
        connect_timeout: scope.connect_timeout.unwrap_or(Duration::from_secs(120)),
        exit_notify: match transport {
            Transport::Udp | Transport::Ip(_) => scope.exit_notify.unwrap_or(0),
            Transport::Tcp => 0,
        },
        proxy: None,
    }
}

/// The proxy by which a server is reached.
fn proxy(remote: &Remote, scope: &Scope, draft: &Draft, parser: &mut Parser<'_>) -> Option<Proxy> {
    let ProxyDraft { at, host, port, http, credentials } = scope.proxy.as_ref()?;
    let from_user_pass = http.and(draft.client.proxy_user.clone());
    let file = match credentials {
        Some(UserPass::Prompt) | None => from_user_pass.or(credentials.clone()),
        other => other.clone(),
    };
    let kind = match http {
        None => ProxyKind::Socks,
        Some(_) if remote.transport == Transport::Udp => {
            parser.problems.push(at.problem(format!(
                "an HTTP proxy carries TCP alone, and the server `{}` is reached over UDP: write `proto tcp`, or \
                 `socks-proxy` for a proxy that carries both",
                remote.host
            )));
            return None;
        }
        Some(authentication) => ProxyKind::Http(HttpProxy {
            // A username and a password are there to be used.
            authentication: match authentication {
                HttpAuthentication::None if file.is_some() => HttpAuthentication::Any,
                other => *other,
            },
            version: scope.http_version.clone().unwrap_or_else(|| HttpProxy::VERSION.to_owned()),
            headers: scope.http_headers.clone(),
        }),
    };
    let credentials = file.map(|source| match source {
        UserPass::File(path) => UserPass::File(draft.directory.join(path)),
        other => other,
    });
    Some(Proxy { host: host.clone(), port: *port, kind, credentials })
}
