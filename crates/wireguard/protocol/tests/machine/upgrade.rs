//! The HTTP words with which WireGuard over TCP begins, at both ends.

use adit_core::{Preamble, PreambleVerdict, is_unprintable};
use adit_wireguard::upgrade::{Acceptor, Initiator, LONGEST};

/// Most headers that are taken.
const MOST_HEADERS: usize = 64;
/// The answer that ProxyGuard's client expects (client.go).
const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: UoTLV/1\r\n\r\n";

/// The request that Go's HTTP client, which is ProxyGuard's, writes.
const GO: &str = "GET /path HTTP/1.1\r\nHost: vpn.example:8080\r\nUser-Agent: Go-http-client/1.1\r\n\
                  Connection: Upgrade\r\nUpgrade: UoTLV/1\r\n\r\n";
/// The answer that Go's HTTP server, which is ProxyGuard's, writes.
const GO_ANSWER: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: UoTLV/1\r\n\
                         Date: Tue, 24 Nov 2026 23:00:00 GMT\r\n\r\n";

fn accept(received: &[u8]) -> (PreambleVerdict, String) {
    let mut answer = Vec::new();
    let judgement = Acceptor.judge(received, &mut answer);
    (judgement, String::from_utf8(answer).expect("text"))
}

fn initiate(received: &[u8]) -> PreambleVerdict {
    let mut answer = Vec::new();
    let judgement = Initiator::new("a", "/").judge(received, &mut answer);
    assert_eq!(answer, b"");
    judgement
}

#[test]
fn a_request_split_at_every_byte() {
    let with_records = [GO.as_bytes(), &[0, 148, 1, 0, 0, 0]].concat();
    for length in 0..=with_records.len() {
        let expected = match length >= GO.len() {
            true => (PreambleVerdict::Complete { taken: GO.len() }, SWITCHING.to_owned()),
            false => (PreambleVerdict::Incomplete, String::new()),
        };
        assert_eq!(accept(&with_records[..length]), expected, "{length}");
    }
}

#[test]
fn an_answer_split_at_every_byte() {
    let early = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
    for answer in [GO_ANSWER.to_owned(), format!("{early}{GO_ANSWER}")] {
        let with_records = [answer.as_bytes(), &[0, 92]].concat();
        for length in 0..=with_records.len() {
            let expected = match length >= answer.len() {
                true => PreambleVerdict::Complete { taken: answer.len() },
                false => PreambleVerdict::Incomplete,
            };
            assert_eq!(initiate(&with_records[..length]), expected, "{length}");
        }
    }
}

#[test]
fn our_ends_take_each_other() {
    for (authority, target) in [("vpn.example", "/"), ("[2001:db8::1]:8080", "/a/b?c=d")] {
        let request = Initiator::new(authority, target).opening();
        let (judgement, answer) = accept(&request);
        assert_eq!(judgement, PreambleVerdict::Complete { taken: request.len() });
        assert_eq!(initiate(answer.as_bytes()), PreambleVerdict::Complete { taken: answer.len() });
    }
    assert_eq!(Acceptor.opening(), b"");
}

/// The exact words that ProxyGuard's server.go and client.go compare with.
#[test]
fn headers_are_spelt_as_proxyguard_wants_them() {
    let request = String::from_utf8(Initiator::new("a", "/x").opening()).expect("text");
    for text in [request.as_str(), SWITCHING] {
        assert!(text.contains("\r\nConnection: Upgrade\r\n") && text.contains("\r\nUpgrade: UoTLV/1\r\n"));
    }
    assert!(request.starts_with("GET /x HTTP/1.1\r\nHost: a\r\n"));
}

#[test]
fn requests_that_proxies_have_written_anew_are_taken() {
    for (from, to) in [
        ("Connection: Upgrade", "connection: keep-alive, upgrade"),
        ("Upgrade: UoTLV/1", "upgrade: websocket, uotlv/1"),
        ("Connection: Upgrade", "X-Forwarded-For: 192.0.2.1\r\nContent-Length: 0\r\nConnection: UPGRADE"),
    ] {
        let request = GO.replace(from, to);
        assert_eq!(accept(request.as_bytes()).0, PreambleVerdict::Complete { taken: request.len() }, "{to}");
    }
}

#[test]
fn wrong_requests_are_answered() {
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "a".repeat(LONGEST));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MOST_HEADERS + 1));
    let upgrade = "426 Upgrade Required\r\nUpgrade: UoTLV/1\r\nConnection: Upgrade, close\r\n";
    for (request, status) in [
        (GO.replace("UoTLV/1", "UoTLV/2"), upgrade),
        (GO.replace("UoTLV/1", "websocket"), upgrade),
        (GO.replace("Connection: Upgrade\r\n", ""), upgrade),
        (GO.replace("HTTP/1.1", "HTTP/1.0"), upgrade),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), upgrade),
        (GO.replace("GET", "POST"), "405 Method Not Allowed\r\nAllow: GET\r\nConnection: close\r\n"),
        (GO.replace("Host", "Hose"), "400 Bad Request\r\n"),
        (GO.replace("\r\n\r\n", "\r\nContent-Length: 5\r\n\r\n"), "400 Bad Request\r\n"),
        (GO.replace("\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n"), "400 Bad Request\r\n"),
        ("\u{16}\u{3}\u{1}".to_owned(), "400 Bad Request\r\n"),
        ("\0\u{1}".to_owned(), "400 Bad Request\r\n"),
        (long, "431 "),
        (many, "431 "),
    ] {
        let (judgement, answer) = accept(request.as_bytes());
        assert!(matches!(judgement, PreambleVerdict::Refused(_)), "{request:?}: {judgement:?}");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request:?}: {answer:?}");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.ends_with(&format!("\r\nContent-Length: {}", body.len())), "{answer:?}");
    }
}

#[test]
fn wrong_answers_are_refused() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}", "a".repeat(LONGEST));
    let other = GO_ANSWER.replace("UoTLV/1", "websocket");
    let none = GO_ANSWER.replace("Connection: Upgrade\r\n", "");
    for (answer, part) in [
        ("HTTP/1.1 404 Not\u{1b}[2JFound\r\n\r\n", "it does not answer as HTTP"),
        ("HTTP/1.1 404 Not Found\r\n\r\n", "answers `404 Not Found`"),
        ("HTTP/1.1 426 Upgrade Required\r\nUpgrade: UoTLV/1\r\n\r\n", "answers `426 "),
        ("HTTP/1.1 301 Moved Permanently\r\nLocation: https://a/\r\n\r\n", "answers `301 "),
        (other.as_str(), "it switches to another protocol"),
        (none.as_str(), "it switches to another protocol"),
        ("SSH-2.0-OpenSSH_9.2p1\r\n", "it does not answer as HTTP"),
        (long.as_str(), "its answer is longer than"),
    ] {
        let PreambleVerdict::Refused(why) = initiate(answer.as_bytes()) else { panic!("{answer:?}") };
        assert!(why.contains(part) && !why.contains(is_unprintable), "{answer:?}: {why}");
    }
}
