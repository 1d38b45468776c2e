//! WireGuard over TCP as ProxyGuard has it (<https://codeberg.org/eduVPN/proxyguard>, technical.md): a connection begins with
//! an HTTP/1.1 request to switch protocols (RFC 9110 §7.8) to `UoTLV/1`; behind the answer, each datagram is a record with
//! its length in front, 16 bits, big-endian. TLS is around all of it: at the server a reverse proxy's, at the client the driver's.
//!
//! ProxyGuard compares whole headers: its server takes `Connection: Upgrade` alone (server.go), and its client that
//! spelling alone (client.go). This module sends the form that both take. It takes each form that RFC 9110 allows, as
//! proxies between may write headers anew.

use adit_core::{Preamble, PreambleVerdict, printable};
use httparse::{Header, Request, Response, Status};

/// The protocol that is switched to.
pub const PROTOCOL: &str = "UoTLV/1";

/// The longest head of a request or an answer, in bytes.
pub const LONGEST: usize = 4096;

/// Most headers of one.
const MOST_HEADERS: usize = 64;

/// The answer that ProxyGuard's client expects.
const SWITCHING: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: UoTLV/1\r\n\r\n";

/// The end that accepts connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acceptor;

impl Preamble for Acceptor {
    fn opening(&self) -> Vec<u8> {
        Vec::new()
    }

    fn judge(&self, received: &[u8], answer: &mut Vec<u8>) -> PreambleVerdict {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut request = Request::new(&mut headers);
        let refusal = match request.parse(head(received)) {
            Ok(Status::Complete(taken)) => match refusal(&request) {
                None => {
                    answer.extend_from_slice(SWITCHING);
                    return PreambleVerdict::Complete { taken };
                }
                Some(refusal) => refusal,
            },
            Ok(Status::Partial) if received.len() < LONGEST => return PreambleVerdict::Incomplete,
            Ok(Status::Partial) | Err(httparse::Error::TooManyHeaders) => TOO_LONG,
            Err(_) => NO_REQUEST,
        };
        refusal.answer(answer);
        PreambleVerdict::Refused(refusal.text.to_owned())
    }
}

/// Why a request is refused.
struct Refusal {
    /// The status code with its words, and headers, each line with its end.
    head: &'static str,
    text: &'static str,
}

const NO_REQUEST: Refusal =
    Refusal { head: "400 Bad Request\r\n", text: "what came is no HTTP/1.1 request for WireGuard over TCP" };
const WITH_BODY: Refusal =
    Refusal { head: "400 Bad Request\r\n", text: "a request to switch protocols has no content" };
const NO_HOST: Refusal = Refusal { head: "400 Bad Request\r\n", text: "the request has no header Host" };
const TOO_LONG: Refusal = Refusal {
    head: "431 Request Header Fields Too Large\r\n",
    text: "the request is longer than 4096 bytes or 64 headers",
};
const NOT_GET: Refusal = Refusal {
    head: "405 Method Not Allowed\r\nAllow: GET\r\n",
    text: "the method of the request is not GET",
};
const NO_UPGRADE: Refusal = Refusal {
    head: "426 Upgrade Required\r\nUpgrade: UoTLV/1\r\n",
    text: "this is WireGuard over TCP: the request asks for no upgrade to UoTLV/1",
};

impl Refusal {
    fn answer(&self, answer: &mut Vec<u8>) {
        let Refusal { head, text } = self;
        let upgrade = if head.contains("Upgrade:") { "Upgrade, " } else { "" };
        let length = text.len() + 1;
        let whole = format!(
            "HTTP/1.1 {head}Connection: {upgrade}close\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{text}\n"
        );
        answer.extend_from_slice(whole.as_bytes());
    }
}

fn refusal(request: &Request<'_, '_>) -> Option<Refusal> {
    let headers = &*request.headers;
    // An upgrade in a request of HTTP/1.0 is passed over (RFC 9110 §7.8).
    let upgrades = request.version == Some(1) && switches(headers);
    if request.method != Some("GET") {
        Some(NOT_GET)
    } else if !headers.iter().any(|header| header.name.eq_ignore_ascii_case("host")) {
        Some(NO_HOST)
    } else if has_content(headers) {
        Some(WITH_BODY)
    } else {
        (!upgrades).then_some(NO_UPGRADE)
    }
}

/// The end that opens connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initiator {
    request: String,
}

impl Initiator {
    /// Asks the host `authority` (a name or an address, in brackets if it is an IPv6 address, with its port unless that is
    /// 80, with TLS 443) for `target`, a path. Both are to be of visible ASCII characters alone.
    pub fn new(authority: &str, target: &str) -> Self {
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: adit\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\r\n"
        );
        Initiator { request }
    }
}

impl Preamble for Initiator {
    fn opening(&self) -> Vec<u8> {
        self.request.clone().into_bytes()
    }

    fn judge(&self, received: &[u8], _: &mut Vec<u8>) -> PreambleVerdict {
        let all = head(received);
        let mut start = 0;
        loop {
            let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
            let mut response = Response::new(&mut headers);
            let rest = all.get(start..).unwrap_or_default();
            let taken = match response.parse(rest) {
                Ok(Status::Complete(taken)) => start + taken,
                Ok(Status::Partial) if received.len() < LONGEST => return PreambleVerdict::Incomplete,
                Ok(Status::Partial) => {
                    return PreambleVerdict::Refused(format!("its answer is longer than {LONGEST} bytes"));
                }
                Err(error) => {
                    return PreambleVerdict::Refused(format!("it does not answer as HTTP: {error}"));
                }
            };
            match response.code {
                Some(101) if switches(response.headers) => return PreambleVerdict::Complete { taken },
                Some(101) => {
                    return PreambleVerdict::Refused(format!(
                        "it switches to another protocol than {PROTOCOL}"
                    ));
                }
                // Others of that class come before the answer proper (RFC 9110 §15.2).
                Some(100..=199) => start = taken,
                code => {
                    let (code, words) =
                        (code.unwrap_or_default(), printable(response.reason.unwrap_or_default()));
                    return PreambleVerdict::Refused(format!(
                        "it does not switch to {PROTOCOL}, but answers `{code} {words}`: is it ProxyGuard or adit, and the path right?"
                    ));
                }
            }
        }
    }
}

/// The part of the received bytes that is looked at.
fn head(received: &[u8]) -> &[u8] {
    received.get(..LONGEST).unwrap_or(received)
}

/// Whether these are the headers of a switch to our protocol.
fn switches(headers: &[Header<'_>]) -> bool {
    names(headers, "connection", "upgrade") && names(headers, "upgrade", PROTOCOL)
}

/// Whether a header, a list with commas between, has that word. Words are compared without case, as ProxyGuard does.
fn names(headers: &[Header<'_>], name: &str, word: &str) -> bool {
    let values = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
    let mut words = values.flat_map(|header| header.value.split(|byte| *byte == b','));
    words.any(|found| found.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

fn has_content(headers: &[Header<'_>]) -> bool {
    headers.iter().any(|header| {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        is("transfer-encoding") || (is("content-length") && header.value.trim_ascii() != b"0")
    })
}
