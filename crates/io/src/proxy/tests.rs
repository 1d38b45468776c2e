//! Proxies whose words a test chooses.

use std::net::{Ipv4Addr, TcpListener};
use std::thread::{self, JoinHandle};

use sha2::{Digest as _, Sha256};

use super::http::{Answer, answer_to, parse, request};
use super::*;

const TIMEOUT: Duration = Duration::from_secs(30);
const HOST: (&str, u16) = ("vpn.example", 443);

/// The behaviour of a proxy on one connection.
type Script = Box<dyn FnOnce(&mut TcpStream) + Send>;

/// A proxy that serves as many connections as there are scripts.
fn serve(scripts: Vec<Script>) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let work = move || {
        for script in scripts {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            script(&mut stream);
        }
    };
    (address, thread::spawn(work))
}

/// Answers a request that ends in an empty line; `judge` sees it.
fn http(judge: impl FnOnce(&str) -> String + Send + 'static) -> Script {
    Box::new(move |stream| {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let answer = judge(std::str::from_utf8(&head).unwrap());
        stream.write_all(answer.as_bytes()).unwrap();
    })
}

/// Expects these bytes and sends those, in turns.
fn bytes(turns: &'static [(&'static [u8], &'static [u8])]) -> Script {
    Box::new(move |stream| {
        for (expected, answer) in turns {
            let mut found = vec![0; expected.len()];
            stream.read_exact(&mut found).unwrap();
            assert_eq!(&found, expected);
            stream.write_all(answer).unwrap();
        }
    })
}

fn credentials() -> Option<ProxyCredentials> {
    Some(ProxyCredentials { username: "ann".to_owned(), password: "secret".to_owned() })
}

fn http_proxy(authentication: HttpAuthentication, credentials: Option<ProxyCredentials>) -> Proxy {
    let http = HttpProxy { authentication, version: "1.0".to_owned(), headers: Vec::new() };
    Proxy { host: "proxy".to_owned(), port: 8080, kind: ProxyKind::Http(http), credentials }
}

fn socks_proxy(credentials: Option<ProxyCredentials>) -> Proxy {
    Proxy { host: "proxy".to_owned(), port: 1080, kind: ProxyKind::Socks, credentials }
}

/// The result of a connection by such a proxy: the first bytes of the remote, or the error.
fn connect(proxy: &Proxy, scripts: Vec<Script>) -> Result<String, String> {
    let (address, thread) = serve(scripts);
    let dial = |timeout| TcpStream::connect_timeout(&address, timeout);
    let outcome = proxy.connect(HOST, TIMEOUT, dial).map_err(|error| error.to_string());
    let said = outcome.map(|mut stream| {
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said
    });
    thread.join().unwrap();
    said
}

/// An answer that lets the connection through, with the remote's bytes right behind it.
fn let_through() -> String {
    "HTTP/1.1 200 Connection established\r\nX: y\r\n\r\nremote".to_owned()
}

fn ask_for(challenges: &str) -> String {
    format!("HTTP/1.0 407 Proxy Authentication Required\r\n{challenges}\r\n")
}

#[test]
fn a_request_has_the_headers_of_the_file() {
    let mut http = HttpProxy {
        authentication: HttpAuthentication::None,
        version: "1.1".to_owned(),
        headers: vec!["User-Agent: x".to_owned(), "X-Site: a b".to_owned()],
    };
    let text = |http: &HttpProxy| request(http, "vpn.example:443", Some("Basic eA==")).to_string();
    assert_eq!(
        text(&http),
        "CONNECT vpn.example:443 HTTP/1.1\r\nHost: vpn.example:443\r\nUser-Agent: x\r\nX-Site: a b\r\n\
         Proxy-Authorization: Basic eA==\r\n\r\n"
    );
    http.headers = vec!["hOST: other".to_owned()];
    assert!(!text(&http).contains("Host: vpn"), "that of the file holds");
}

#[test]
fn the_first_request_may_be_enough() {
    let none = http_proxy(HttpAuthentication::None, None);
    let plain = http(|head| {
        assert_eq!(head, "CONNECT vpn.example:443 HTTP/1.0\r\nHost: vpn.example:443\r\n\r\n");
        let_through()
    });
    assert_eq!(connect(&none, vec![plain]).unwrap(), "remote", "nothing of it is lost");
    // RFC 7617 §2: base64 of `ann:secret`.
    let basic = http(|head| {
        assert!(head.contains("\r\nProxy-Authorization: Basic YW5uOnNlY3JldA==\r\n"), "{head}");
        let_through()
    });
    assert!(connect(&http_proxy(HttpAuthentication::Basic, credentials()), vec![basic]).is_ok());
}

/// RFC 7616 §3.4.1, computed anew.
fn is_right_digest(head: &str) -> bool {
    let line = head.lines().find(|line| line.starts_with("Proxy-Authorization: Digest ")).unwrap();
    let field = |name: &str| {
        let (_, rest) = line.split_once(&format!(" {name}=")).unwrap_or_else(|| panic!("{name} in {line}"));
        rest.split(',').next().unwrap_or_default().trim().trim_matches('"').to_owned()
    };
    let hash = |text: String| -> String {
        Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let who = hash("ann:the proxy:secret".to_owned());
    let what = hash("CONNECT:vpn.example:443".to_owned());
    let once = format!("{}:{}:{}:auth", field("nonce"), field("nc"), field("cnonce"));
    field("uri") == "vpn.example:443" && field("response") == hash(format!("{who}:{once}:{what}"))
}

#[test]
fn a_challenge_is_answered_over_another_connection_and_the_strongest_is_taken() {
    const BOTH: &str = "Proxy-Authenticate: Basic realm=\"the proxy\"\r\nProxy-Authenticate: NTLM\r\n\
                        Proxy-Authenticate: Digest realm=\"the proxy\", nonce=\"abc\", qop=\"auth,auth-int\", algorithm=SHA-256\r\n";
    for allowed in [HttpAuthentication::Any, HttpAuthentication::Digest] {
        let scripts = vec![
            http(|head| {
                assert!(!head.contains("Proxy-Authorization"), "{head}");
                ask_for(BOTH)
            }),
            http(|head| {
                assert!(is_right_digest(head), "{head}");
                let_through()
            }),
        ];
        assert_eq!(connect(&http_proxy(allowed, credentials()), scripts).unwrap(), "remote");
    }
    let scripts = vec![
        http(|_| ask_for("Proxy-Authenticate: Basic realm=x\r\n")),
        http(|head| {
            assert!(head.contains("Basic YW5uOnNlY3JldA=="), "{head}");
            let_through()
        }),
    ];
    assert!(connect(&http_proxy(HttpAuthentication::Any, credentials()), scripts).is_ok());
}

#[test]
fn refusals_say_what_to_do() {
    let challenge = |lines: &'static str| http(move |_| ask_for(lines));
    let basic = "Proxy-Authenticate: Basic realm=x\r\n";
    let any = http_proxy(HttpAuthentication::Any, credentials());
    let error = |proxy: &Proxy, scripts| connect(proxy, scripts).unwrap_err();
    assert!(error(&any, vec![challenge(basic), challenge(basic)]).contains("refuses the username"));
    let wrong = http_proxy(HttpAuthentication::Basic, credentials());
    assert!(error(&wrong, vec![challenge(basic)]).contains("refuses the username"));
    let unnamed = http_proxy(HttpAuthentication::Any, None);
    assert!(error(&unnamed, vec![challenge(basic)]).contains("name a file"));
    let digest = http_proxy(HttpAuthentication::Digest, credentials());
    assert!(error(&digest, vec![challenge(basic)]).contains("does not allow"), "the password is not shown");
    let none = http_proxy(HttpAuthentication::None, None);
    assert!(error(&none, vec![challenge(basic)]).contains("(Basic): name a username"));
    let ntlm = "Proxy-Authenticate: Negotiate\r\nProxy-Authenticate: NTLM\r\n";
    let text = error(&any, vec![challenge(ntlm)]);
    assert!(text.contains("Negotiate, NTLM") && text.contains("cntlm"), "{text}");
    let forbidden = http(|_| "HTTP/1.0 403 Forbidden\r\n\r\n".to_owned());
    assert_eq!(error(&none, vec![forbidden]), "it does not connect: 403 Forbidden");
    assert!(error(&none, vec![http(|_| "SSH-2.0-x\r\n\r\n".to_owned())]).contains("not HTTP"));
    assert!(error(&none, vec![http(|_| String::new())]).contains("closed the connection"));
    assert!(
        error(&none, vec![http(|_| "HTTP/1.0 200 OK\r\n".to_owned() + &"a: b\r\n".repeat(4000))])
            .contains("does not end")
    );
}

#[test]
fn a_proxy_that_says_nothing_is_not_waited_for() {
    // The proxy gets the request, and the end.
    let silent: Script = Box::new(|stream| drop(stream.read_to_end(&mut Vec::new())));
    let (address, thread) = serve(vec![silent]);
    let proxy = http_proxy(HttpAuthentication::None, None);
    let dial = |timeout| TcpStream::connect_timeout(&address, timeout);
    let error = proxy.connect(HOST, Duration::from_secs(1), dial).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (io::ErrorKind::TimedOut, "it does not answer in time")
    );
    thread.join().unwrap();
}

#[test]
fn heads_of_answers_are_read() {
    let read = |head: &str| parse(head.as_bytes());
    let answer = |code, challenges: &[&str]| Answer {
        code,
        reason: "R".to_owned(),
        challenges: challenges.iter().map(|text| (*text).to_owned()).collect(),
    };
    let two =
        "HTTP/1.1 407 R\r\nproxy-AUTHENTICATE: Basic realm=\"a\"\r\nA: b\r\nProxy-Authenticate: NTLM\r\n\r\n";
    assert_eq!(read(two), Some(answer(407, &["Basic realm=\"a\"", "NTLM"])));
    assert_eq!(read("HTTP/1.0 200 R\n\n"), Some(answer(200, &[])));
    let bad = "HTTP/1.1 407 R\r\nA name: x\r\nno colon\r\nProxy-Authenticate: NTLM\r\n\r\n";
    assert_eq!(read(bad), Some(answer(407, &["NTLM"])), "headers that are none are passed over");
    assert_eq!(read(""), None);
    assert_eq!(read("HTTP/1.1 2000 R\r\n\r\n"), None);
    let wild = ["\u{0}".to_owned(), "Digest realm=".to_owned(), "Digest nonce=\"".repeat(9)];
    assert!(answer_to(&wild, HttpAuthentication::Any, credentials().as_ref(), "a:1").is_err());
}

/// RFC 1928 §3 and §4, RFC 1929.
#[test]
fn a_socks_proxy_connects_by_name() {
    const REQUEST: &[u8] = b"\x05\x01\x00\x03\x0bvpn.example\x01\xbb";
    let plain = bytes(&[
        (b"\x05\x01\x00", b"\x05\x00"),
        (REQUEST, b"\x05\x00\x00\x01\x0a\x00\x00\x01\x04\x00remote"),
    ]);
    assert_eq!(connect(&socks_proxy(None), vec![plain]).unwrap(), "remote", "nothing of it is lost");
    let by_password = bytes(&[
        (b"\x05\x02\x00\x02", b"\x05\x02"),
        (b"\x01\x03ann\x06secret", b"\x01\x00"),
        (REQUEST, b"\x05\x00\x00\x03\x01a\x04\x00remote"),
    ]);
    assert_eq!(connect(&socks_proxy(credentials()), vec![by_password]).unwrap(), "remote");
}

#[test]
fn refusals_of_a_socks_proxy_have_words() {
    type Turns = &'static [(&'static [u8], &'static [u8])];
    let cases: [(Turns, Option<ProxyCredentials>, &str); 6] = [
        (&[(b"\x05\x01\x00", b"\x05\xff")], None, "name a file"),
        (&[(b"\x05\x02\x00\x02", b"\x05\x01")], credentials(), "does not have"),
        (
            &[(b"\x05\x02\x00\x02", b"\x05\x02"), (b"\x01", b"\x01\x01")],
            credentials(),
            "refuses the username",
        ),
        (&[(b"\x05\x01\x00", b"\x05\x00"), (b"\x05\x01\x00\x03", b"\x05\x05\x00\x01")], None, "was refused"),
        (&[(b"\x05\x01\x00", b"HTTP")], None, "not SOCKS5"),
        (&[(b"\x05\x01\x00", b"\x05\x00"), (b"\x05\x01\x00\x03", b"\x05\x00\x00\x09")], None, "not SOCKS5"),
    ];
    for (turns, credentials, expected) in cases {
        let error = connect(&socks_proxy(credentials), vec![bytes(turns)]).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

/// As one of HTTP says by 407.
#[test]
fn a_socks_proxy_asks_for_credentials() {
    let wanted = |script: Script, credentials| {
        let (address, thread) = serve(vec![script]);
        let dial = |timeout| TcpStream::connect_timeout(&address, timeout);
        let error = socks_proxy(credentials).connect(HOST, TIMEOUT, dial).unwrap_err();
        thread.join().unwrap();
        CredentialsWanted::of(&error).copied()
    };
    let none = bytes(&[(b"\x05\x01\x00", b"\x05\xff")]);
    assert_eq!(wanted(none, None), Some(CredentialsWanted { refused: false }));
    let wrong = bytes(&[(b"\x05\x02\x00\x02", b"\x05\x02"), (b"\x01\x03ann\x06secret", b"\x01\x01")]);
    assert_eq!(wanted(wrong, credentials()), Some(CredentialsWanted { refused: true }));
    let other = bytes(&[(b"\x05\x02\x00\x02", b"\x05\x01")]);
    assert_eq!(wanted(other, credentials()), None, "credentials would not help");
}

/// RFC 1928 §7.
#[test]
fn a_socks_proxy_says_where_to_send_datagrams() {
    const GREETING: (&[u8], &[u8]) = (b"\x05\x01\x00", b"\x05\x00");
    const REQUEST: &[u8] = b"\x05\x03\x00\x01\x00\x00\x00\x00\x00\x00";
    let associate = |turns, remote: &str| {
        let (address, thread) = serve(vec![bytes(turns)]);
        let dial = |timeout| TcpStream::connect_timeout(&address, timeout);
        let outcome = socks_proxy(None).associate(remote.parse().unwrap(), TIMEOUT, dial);
        thread.join().unwrap();
        outcome.map(|it| (it.relay.to_string(), it.header)).map_err(|error| error.to_string())
    };
    let named =
        associate(&[GREETING, (REQUEST, b"\x05\x00\x00\x01\x0a\x00\x00\x07\x04\x00")], "192.0.2.1:1194");
    assert_eq!(named.unwrap(), ("10.0.0.7:1024".to_owned(), b"\0\0\0\x01\xc0\x00\x02\x01\x04\xaa".to_vec()));
    let unnamed =
        associate(&[GREETING, (REQUEST, b"\x05\x00\x00\x01\0\0\0\0\x04\x00")], "[2001:db8::1]:1194");
    let header = b"\0\0\0\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x04\xaa".to_vec();
    assert_eq!(unnamed.unwrap(), ("127.0.0.1:1024".to_owned(), header));
    let refused = associate(&[GREETING, (REQUEST, b"\x05\x07\x00\x01\0\0\0\0\0\0")], "192.0.2.1:1194");
    assert!(refused.unwrap_err().contains("use TCP"));
    let error = http_proxy(HttpAuthentication::None, None)
        .associate("192.0.2.1:1194".parse().unwrap(), TIMEOUT, |_| panic!("it is not even called"))
        .unwrap_err();
    assert!(error.to_string().contains("TCP alone"));
}

#[test]
fn a_password_is_not_shown() {
    let shown = format!("{:?}", http_proxy(HttpAuthentication::Basic, credentials()));
    assert!(!shown.contains("secret") && !shown.contains("ann"), "{shown}");
}
