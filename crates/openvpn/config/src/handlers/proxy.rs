//! Proxies by which servers are reached.

use crate::Secret;
use crate::directives::args::Args;
use crate::directives::{Effect, done};
use crate::draft::{Draft, ProxyDraft};
use crate::model::{HttpAuthentication, UserPass};

type Done = Result<Effect, String>;

/// IANA's port of SOCKS, OpenVPN's default.
const SOCKS_PORT: u16 = 1080;
/// Headers at most, as in OpenVPN (proxy.h `MAX_CUSTOM_HTTP_HEADER`).
const MOST_HEADERS: usize = 10;

pub(crate) fn http_proxy(draft: &mut Draft, args: &Args<'_>) -> Done {
    let (authentication, credentials) = http_authentication(args)?;
    set(draft, args, args.port(1)?, Some(authentication), credentials)
}

/// The third and the fourth argument: a file and the use of its content, or the ways that may be used when the proxy
/// asks.
fn http_authentication(args: &Args<'_>) -> Result<(HttpAuthentication, Option<UserPass>), String> {
    let Some(third) = args.opt(2) else { return Ok((HttpAuthentication::None, None)) };
    if third == "none" && args.opt(3).is_none() {
        return Ok((HttpAuthentication::None, None));
    }
    let asked = match third {
        "auto" => Some(HttpAuthentication::Any),
        "auto-nct" => Some(HttpAuthentication::Digest),
        _ => None,
    };
    if let Some(authentication) = asked {
        // OpenVPN takes any word after these, and heeds none.
        return Ok((authentication, Some(UserPass::Prompt)));
    }
    if third.is_empty() {
        return Err(args.bad(third, "a file with a username and a password, `auto` or `auto-nct`"));
    }
    let method = match args.opt(3) {
        None | Some("basic") => HttpAuthentication::Basic,
        Some("digest") => HttpAuthentication::Digest,
        Some("none") => return Ok((HttpAuthentication::None, None)),
        Some(ntlm @ ("ntlm" | "ntlm2")) => {
            return Err(args.bad(
                ntlm,
                "`basic` or `digest`: adit has no NTLM, as OpenVPN since 2.7; for a proxy that takes nothing else, run a \
                 program beside adit that speaks NTLM to it (cntlm), and name that here",
            ));
        }
        Some(other) => return Err(args.bad(other, "`none`, `basic` or `digest`")),
    };
    let source = if third == "stdin" { UserPass::Prompt } else { UserPass::File(third.into()) };
    Ok((method, Some(source)))
}

pub(crate) fn socks_proxy(draft: &mut Draft, args: &Args<'_>) -> Done {
    let port = if args.opt(1).is_some() { args.port(1)? } else { SOCKS_PORT };
    let credentials = match args.opt(2) {
        None => None,
        Some("") => return Err(args.bad("", "a file with a username and a password, or `stdin`")),
        Some("stdin") => Some(UserPass::Prompt),
        Some(file) => Some(UserPass::File(file.into())),
    };
    set(draft, args, port, None, credentials)
}

/// `http` is there for an HTTP proxy.
fn set(
    draft: &mut Draft,
    args: &Args<'_>,
    port: u16,
    http: Option<HttpAuthentication>,
    credentials: Option<UserPass>,
) -> Done {
    let host = args.get(0)?;
    let odd = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%'));
    if host.is_empty() || host.len() > 253 || host.contains(odd) {
        return Err(args.bad(host, "a host name or an IP address"));
    }
    let scope = draft.scope();
    if let Some(other) = scope.proxy.as_ref().filter(|other| other.http.is_some() != http.is_some()) {
        return Err(format!(
            "`{}`: line {} names another proxy already, and adit goes by one; remove one of the two",
            args.name(),
            other.at.line
        ));
    }
    let at = args.entry.at.clone();
    scope.proxy = Some(ProxyDraft { at, host: host.to_owned(), port, http, credentials });
    done()
}

pub(crate) fn http_proxy_option(draft: &mut Draft, args: &Args<'_>) -> Done {
    let values = args.all().get(1..).unwrap_or_default();
    let is_plain = |text: &str| !text.is_empty() && !text.contains(char::is_control);
    if let Some(odd) = values.iter().find(|value| !is_plain(value)) {
        return Err(args.bad(odd.escape_debug(), "text on one line"));
    }
    let scope = draft.scope();
    match (args.get(0)?, values) {
        ("VERSION", [version]) => {
            let digits = version.split_once('.').map(|(major, minor)| [major, minor]);
            let is_digit = |text: &str| text.len() == 1 && text.as_bytes()[0].is_ascii_digit();
            if !digits.is_some_and(|digits| digits.into_iter().all(is_digit)) {
                return Err(args.bad(version, "a version of HTTP such as `1.0`"));
            }
            scope.http_version = Some(version.clone());
        }
        ("AGENT", [agent]) => scope.http_headers.push(format!("User-Agent: {agent}")),
        // OpenVPN takes both forms, and these names.
        ("CUSTOM-HEADER" | "EXT1" | "EXT2", [name, value]) => {
            scope.http_headers.push(header(args, &format!("{name}: {value}"))?);
        }
        ("CUSTOM-HEADER" | "EXT1" | "EXT2", [line]) => scope.http_headers.push(header(args, line)?),
        ("VERSION" | "AGENT" | "CUSTOM-HEADER" | "EXT1" | "EXT2", _) => return Err(args.usage()),
        (other, _) => return Err(args.bad(other, "`VERSION`, `AGENT` or `CUSTOM-HEADER`")),
    }
    match scope.http_headers.len() > MOST_HEADERS {
        true => Err(format!("`{}`: there are more than {MOST_HEADERS} headers; remove some", args.name())),
        false => done(),
    }
}

/// A line `Name: value` (RFC 9110 §5.1).
fn header(args: &Args<'_>, line: &str) -> Result<String, String> {
    let is_token = |name: &str| {
        let odd = |c: char| !(c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c));
        !name.is_empty() && !name.contains(odd)
    };
    match line.split_once(':') {
        Some((name, _)) if is_token(name) => Ok(line.to_owned()),
        _ => Err(args.bad(line, "a header such as `CUSTOM-HEADER X-Name value`")),
    }
}

pub(crate) fn http_proxy_user_pass(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.client.proxy_user = Some(match (args.inline(), args.opt(0)) {
        (Some(block), _) if block.text.lines().next().is_none_or(str::is_empty) => {
            return Err(
                "`<http-proxy-user-pass>` wants the username on its first line, the password on its second"
                    .into(),
            );
        }
        (Some(block), _) => UserPass::Inline(Secret::new(&block.text)),
        (None, Some(file)) if !file.is_empty() => UserPass::File(file.into()),
        (None, _) => return Err(args.usage()),
    });
    done()
}
