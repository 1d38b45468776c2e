//! Commands about a client's connections: when it connects and where, and its answers to the server.
//!
//! Source: OpenVPN doc/management-notes.txt, and manage.c for what is answered.

use adit_io::{HttpAuthentication, HttpProxy, Proxy, ProxyKind};
use adit_openvpn::request::{RemoteDecision, Reply};
use adit_openvpn_config as file;
use base64ct::{Base64, Encoding as _};
use zeroize::Zeroizing;

use super::{CommandContext, Topic};
use crate::management::output::Output;
use crate::management::output::unsupported;
use crate::status_file::Form;

/// Longest name of a host (RFC 1035 section 2.3.4).
const MAX_HOST: usize = 253;
/// Longest answer to a server's question, in base64: a control message of OpenVPN holds no more (common.h,
/// `PUSH_BUNDLE_SIZE`).
const MAX_ANSWER: usize = 1000;

/// `hold`.
pub(super) fn hold(given: Option<&str>, context: &CommandContext, out: &mut Output) {
    match given {
        None => out.line(&format!("SUCCESS: hold={}", u8::from(context.questions.hold()))),
        Some("on") => {
            context.questions.set_hold(true);
            out.line("SUCCESS: hold flag set to ON");
        }
        Some("off") => {
            context.questions.set_hold(false);
            out.line("SUCCESS: hold flag set to OFF");
        }
        Some("release") => {
            if context.questions.release()
                && let Some(tunnel) = context.tunnel().as_ref()
            {
                tunnel.reply(Reply::GoOn { at_once: true });
            }
            out.line("SUCCESS: hold release succeeded");
        }
        Some(_) => out.line("ERROR: bad hold command parameter"),
    }
}

/// `remote`: the answer to `>REMOTE:`.
pub(super) fn remote(arguments: &[&str], context: &CommandContext, out: &mut Output) {
    let tunnel = context.tunnel();
    if tunnel.as_ref().is_some_and(|tunnel| matches!(tunnel.form(), Form::Clients(_))) {
        return out.line(&unsupported("remote"));
    }
    let decided = decision(arguments).and_then(|decision| {
        let tunnel = tunnel.as_ref()?;
        let query = context.questions.take_remote()?;
        let instead = match &decision {
            RemoteDecision::Try { instead } => instead.clone(),
            RemoteDecision::Skip(_) => None,
        };
        let replaced = tunnel.replace_remote(query.remote, instead);
        if !replaced {
            // The question stands.
            context.questions.ask_for_remote(query);
        }
        (replaced && tunnel.reply(Reply::Remote(decision))).then_some(())
    });
    match decided {
        Some(()) => out.line("SUCCESS: remote command succeeded"),
        None => out.line("ERROR: remote command failed"),
    }
}

fn decision(arguments: &[&str]) -> Option<RemoteDecision> {
    match arguments {
        ["ACCEPT", ..] => Some(RemoteDecision::Try { instead: None }),
        ["SKIP"] => Some(RemoteDecision::Skip(1)),
        ["SKIP", places, ..] => Some(RemoteDecision::Skip(places.parse().ok().filter(|places| *places > 0)?)),
        ["MOD", host, port, ..] => {
            let port = port.parse().ok().filter(|port| *port > 0)?;
            is_host(host).then(|| RemoteDecision::Try { instead: Some(((*host).to_owned(), port)) })
        }
        _ => None,
    }
}

/// `proxy`: the answer to `>PROXY:`.
pub(super) fn proxy(arguments: &[&str], context: &CommandContext, out: &mut Output) {
    let tunnel = context.tunnel();
    if tunnel.as_ref().is_some_and(|tunnel| matches!(tunnel.form(), Form::Clients(_))) {
        return out.line(&unsupported("proxy"));
    }
    let decided = chosen_proxy(arguments).and_then(|proxy| {
        let tunnel = tunnel.as_ref()?;
        let query = context.questions.take_proxy()?;
        let topic = proxy.as_ref().map(|proxy| match proxy.kind {
            ProxyKind::Http(_) => Topic::HttpProxy,
            ProxyKind::Socks => Topic::SocksProxy,
        });
        // An HTTP proxy carries TCP alone.
        let fits = topic != Some(Topic::HttpProxy) || query.protocol.starts_with("tcp");
        let remote = query.remote;
        if !fits || !tunnel.replace_proxy(remote, proxy) {
            // The question stands.
            context.questions.ask_for_proxy(query);
            return None;
        }
        context.questions.name_proxy(remote, topic);
        tunnel.reply(Reply::Remote(RemoteDecision::Try { instead: None })).then_some(())
    });
    match decided {
        Some(()) => out.line("SUCCESS: proxy command succeeded"),
        None => out.line("ERROR: proxy command failed"),
    }
}

/// The proxy that was named, or none besides that of the file; `None` if it is no answer.
fn chosen_proxy(arguments: &[&str]) -> Option<Option<Proxy>> {
    let (kind, host, port) = match arguments {
        ["NONE", ..] => return Some(None),
        ["HTTP", host, port, rest @ ..] => {
            let authentication = match rest.first() {
                Some(&"nct") => HttpAuthentication::Digest,
                _ => HttpAuthentication::Any,
            };
            let version = file::HttpProxy::VERSION.to_owned();
            (ProxyKind::Http(HttpProxy { authentication, version, headers: Vec::new() }), host, port)
        }
        ["SOCKS", host, port, ..] => (ProxyKind::Socks, host, port),
        _ => return None,
    };
    let port = port.parse().ok().filter(|port| *port > 0)?;
    is_host(host).then(|| Some(Proxy { host: (*host).to_owned(), port, kind, credentials: None }))
}

/// Whether this can be the name or address of a host.
fn is_host(host: &str) -> bool {
    !host.is_empty() && host.len() <= MAX_HOST && !host.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// `cr-response`: the answer to a question of the server's (`CR_TEXT`).
pub(super) fn respond(answer: &str, context: &CommandContext, out: &mut Output) {
    let tunnel = context.tunnel();
    let client = tunnel.as_ref().filter(|tunnel| tunnel.form() == Form::Statistics);
    let Some(client) = client else { return out.line(&unsupported("cr-response")) };
    let decoded = Base64::decode_vec(answer).map(Zeroizing::new);
    let is_good = decoded.is_ok() && answer.len() <= MAX_ANSWER;
    match is_good && client.reply(Reply::ServerResponse(Zeroizing::new(answer.to_owned()))) {
        true => out.line("SUCCESS: command succeeded"),
        false => out.line("ERROR: command failed"),
    }
}

/// `forget-passwords`.
pub(super) fn forget_passwords(context: &CommandContext, out: &mut Output) {
    if let Some(tunnel) = context.tunnel().as_ref() {
        tunnel.reply(Reply::ForgetPasswords);
    }
    out.line("SUCCESS: Passwords were forgotten");
}
