//! CONNECT by an HTTP proxy, with Basic (RFC 7617) and Digest (RFC 7616) authentication.

use std::fmt::Write as _;
use std::io;
use std::net::{Ipv6Addr, TcpStream};

use http_auth::basic::encode_credentials;
use http_auth::{ChallengeRef, DigestClient, PasswordParams, parse_challenges};
use zeroize::Zeroizing;

use super::{Conversation, CredentialsWanted, HttpAuthentication, HttpProxy, ProxyCredentials};

const METHOD: &str = "CONNECT";
/// The head of an answer has no more bytes.
const LONGEST_HEAD: usize = 16 << 10;
/// ... and no more headers.
const MOST_HEADERS: usize = 64;
const AUTHENTICATION_REQUIRED: u16 = 407;
/// The status of tinyproxy for a wrong password (its reqs.c).
const UNAUTHORIZED: u16 = 401;

/// The answer of a proxy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) reason: String,
    /// The values of its `Proxy-Authenticate` headers.
    pub(super) challenges: Vec<String>,
}

/// Has the proxy connect. A request that answers its challenge goes over a connection of its own, as a proxy of HTTP/1.0 closes
/// the first.
pub(super) fn connect(
    http: &HttpProxy,
    credentials: Option<&ProxyCredentials>,
    (host, port): (&str, u16),
    dial: &mut impl FnMut() -> io::Result<Conversation>,
) -> io::Result<TcpStream> {
    let target = target(host, port);
    let first = match (http.authentication, credentials) {
        (HttpAuthentication::Basic, Some(credentials)) => Some(basic(credentials)),
        (HttpAuthentication::Basic, None) => return Err(no_credentials()),
        _ => None,
    };
    let has_answered = first.is_some();
    let (conversation, answer) = ask(http, &target, first, dial)?;
    if has_answered && is_refusal(&answer) {
        return Err(wrong_credentials());
    }
    if answer.code != AUTHENTICATION_REQUIRED {
        return finish(conversation, &answer);
    }
    drop(conversation);
    let authorization = answer_to(&answer.challenges, http.authentication, credentials, &target)?;
    let (conversation, answer) = ask(http, &target, Some(authorization), dial)?;
    match is_refusal(&answer) {
        true => Err(wrong_credentials()),
        false => finish(conversation, &answer),
    }
}

/// Whether the username and the password that were shown are wrong.
fn is_refusal(answer: &Answer) -> bool {
    matches!(answer.code, AUTHENTICATION_REQUIRED | UNAUTHORIZED)
}

/// Sends a request, and reads the answer.
fn ask(
    http: &HttpProxy,
    target: &str,
    authorization: Option<Zeroizing<String>>,
    dial: &mut impl FnMut() -> io::Result<Conversation>,
) -> io::Result<(Conversation, Answer)> {
    let mut conversation = dial()?;
    conversation.write(request(http, target, authorization.as_ref().map(|text| text.as_str())).as_bytes())?;
    let answer = read_answer(&mut conversation)?;
    Ok((conversation, answer))
}

fn finish(conversation: Conversation, answer: &Answer) -> io::Result<TcpStream> {
    match answer.code {
        200..=299 => conversation.into_stream(),
        code => {
            let why = format!("it does not connect: {code} {}", adit_core::printable(&answer.reason));
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why.trim_end()))
        }
    }
}

/// Host and port as they stand in the request.
fn target(host: &str, port: u16) -> String {
    match host.parse::<Ipv6Addr>() {
        Ok(_) => format!("[{host}]:{port}"),
        Err(_) => format!("{host}:{port}"),
    }
}

/// The request, with all headers.
pub(super) fn request(http: &HttpProxy, target: &str, authorization: Option<&str>) -> Zeroizing<String> {
    let headers: usize = http.headers.iter().map(|header| header.len() + 2).sum();
    let room = headers + 2 * target.len() + authorization.map_or(0, str::len) + http.version.len() + 100;
    // It does not grow, which would leave a copy of a password behind.
    let mut text = Zeroizing::new(String::with_capacity(room));
    let is_host = |header: &String| header.get(..5).is_some_and(|name| name.eq_ignore_ascii_case("host:"));
    // Writing to a string does not fail.
    let _ = write!(text, "{METHOD} {target} HTTP/{}\r\n", http.version);
    if !http.headers.iter().any(is_host) {
        let _ = write!(text, "Host: {target}\r\n");
    }
    for header in &http.headers {
        let _ = write!(text, "{header}\r\n");
    }
    if let Some(authorization) = authorization {
        let _ = write!(text, "Proxy-Authorization: {authorization}\r\n");
    }
    text.push_str("\r\n");
    text
}

/// Reads the head of an answer, and nothing of the bytes behind it.
fn read_answer(conversation: &mut Conversation) -> io::Result<Answer> {
    let mut head = Vec::new();
    while !head.ends_with(b"\n\r\n") && !head.ends_with(b"\n\n") {
        if head.len() == LONGEST_HEAD {
            return Err(io::Error::other("the head of its answer does not end"));
        }
        let mut byte = [0];
        conversation.read(&mut byte)?;
        head.extend_from_slice(&byte);
    }
    parse(&head).ok_or_else(|| io::Error::other("what it answers is not HTTP"))
}

pub(super) fn parse(head: &[u8]) -> Option<Answer> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let mut config = httparse::ParserConfig::default();
    // The status and the challenges decide. A malformed header beside them is passed over.
    config.ignore_invalid_headers_in_responses(true);
    config.parse_response(&mut response, head).ok().filter(httparse::Status::is_complete)?;
    let is_challenge =
        |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case("proxy-authenticate");
    let challenges = response.headers.iter().filter(is_challenge);
    Some(Answer {
        code: response.code?,
        reason: response.reason.unwrap_or_default().to_owned(),
        challenges: challenges.map(|header| String::from_utf8_lossy(header.value).into_owned()).collect(),
    })
}

/// The credentials that answer these challenges, as the value of a `Proxy-Authorization`.
pub(super) fn answer_to(
    challenges: &[String],
    allowed: HttpAuthentication,
    credentials: Option<&ProxyCredentials>,
    target: &str,
) -> io::Result<Zeroizing<String>> {
    // A value that cannot be read is of a scheme that is not known here.
    let all: Vec<ChallengeRef<'_>> =
        challenges.iter().filter_map(|value| parse_challenges(value).ok()).flatten().collect();
    let of = |scheme: &'static str| {
        all.iter().filter(move |challenge| challenge.scheme.eq_ignore_ascii_case(scheme))
    };
    let may_digest = matches!(allowed, HttpAuthentication::Digest | HttpAuthentication::Any);
    // Of two algorithms the first that is known is the one that the proxy prefers (RFC 7616 §3.7).
    let digest = of("digest").find_map(|challenge| DigestClient::try_from(challenge).ok());
    match (digest.filter(|_| may_digest), of("basic").next()) {
        (Some(mut client), _) => {
            let credentials = credentials.ok_or_else(no_credentials)?;
            let answer = client.respond(&PasswordParams {
                username: &credentials.username,
                password: &credentials.password,
                uri: target,
                method: METHOD,
                // Quality `auth` alone: http-auth does not hash the content for `auth-int` (RFC 7616 §3.4.3).
                body: None,
            });
            answer.map(Zeroizing::new).map_err(io::Error::other)
        }
        (None, Some(_)) if allowed == HttpAuthentication::Any => {
            Ok(basic(credentials.ok_or_else(no_credentials)?))
        }
        (None, _) => Err(no_scheme(&all, allowed)),
    }
}

fn basic(credentials: &ProxyCredentials) -> Zeroizing<String> {
    Zeroizing::new(encode_credentials(&credentials.username, &credentials.password))
}

/// The proxy takes nothing that we may use.
fn no_scheme(offered: &[ChallengeRef<'_>], allowed: HttpAuthentication) -> io::Error {
    let mut names: Vec<String> =
        offered.iter().map(|challenge| adit_core::printable(challenge.scheme)).collect();
    names.dedup();
    let is = |name: &&str| names.iter().any(|other| other.eq_ignore_ascii_case(name));
    let way_out = match allowed {
        HttpAuthentication::None => "name a username and a password for it, and how to use them",
        _ if ["basic", "digest"].iter().any(&is) => {
            "the configuration does not allow that one; let it have Basic and Digest"
        }
        _ if ["ntlm", "negotiate"].iter().any(is) => {
            "adit has neither NTLM nor Kerberos: have the proxy take Basic or Digest from this machine, or run a \
             program here that speaks NTLM to it (cntlm), and name that as the proxy"
        }
        _ => "adit has Basic and Digest",
    };
    let offered = if names.is_empty() { "nothing that can be read".to_owned() } else { names.join(", ") };
    refused(format!("it asks for an authentication ({offered}): {way_out}"))
}

fn no_credentials() -> io::Error {
    CredentialsWanted::error(false)
}

fn wrong_credentials() -> io::Error {
    CredentialsWanted::error(true)
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
