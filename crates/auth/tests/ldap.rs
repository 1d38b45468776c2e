//! Logins at a directory that the test plays: it speaks as much LDAP as that takes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use adit_auth::ldap::ber::{
    BOOLEAN, ENUMERATED, Elements, INTEGER, OCTETS, SEQUENCE, element, number, split,
};
use adit_auth::ldap::{self, Trust};
use adit_auth::login::Login;
use adit_auth::verdict::Refusal;
use adit_openvpn_config::auth_ldap;
use adit_testbed::Scratch;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use zeroize::Zeroizing;

const BIND: u8 = 0x60;
const SEARCH: u8 = 0x63;
const COMPARE: u8 = 0x6e;
const EXTENDED: u8 = 0x77;

/// The request of a client, by the first byte of the operation.
struct Request {
    kind: u8,
    content: Vec<u8>,
}

/// Gives the operations that answer a request.
type Answering = Arc<dyn Fn(&Request) -> Vec<Vec<u8>> + Send + Sync>;

/// A directory at a port of the loopback device, and what it was asked.
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(
        answer: impl Fn(&Request) -> Vec<Vec<u8>> + Send + Sync + 'static,
        tls: Option<Arc<ServerConfig>>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let note = Arc::clone(&asked);
        let noting = move |request: &Request| {
            note.lock().unwrap().push(shown(request));
            answer(request)
        };
        let answer: Answering = Arc::new(noting);
        // It ends with the test.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, tls) = (Arc::clone(&answer), tls.clone());
                thread::spawn(move || serve(stream, &answer, tls));
            }
        });
        Server { port, asked }
    }

    fn url(&self) -> String {
        format!("ldap://127.0.0.1:{}", self.port)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// A request in a few words.
fn shown(request: &Request) -> String {
    let mut elements = Elements(&request.content);
    match request.kind {
        BIND => {
            elements.take_number(INTEGER).unwrap();
            format!("bind {}", elements.take_text().unwrap())
        }
        SEARCH => format!("search {}", elements.take_text().unwrap()),
        COMPARE => format!("compare {}", elements.take_text().unwrap()),
        _ => "other".to_owned(),
    }
}

fn serve(mut stream: TcpStream, answer: &Answering, tls: Option<Arc<ServerConfig>>) {
    if talk(&mut stream, answer)
        && let Some(config) = tls
    {
        let connection = ServerConnection::new(config).unwrap();
        talk(&mut StreamOwned::new(connection, stream), answer);
    }
}

/// Answers requests until the connection ends, or is to go over to TLS (true).
fn talk(stream: &mut (impl Read + Write), answer: &Answering) -> bool {
    let mut received: Vec<u8> = Vec::new();
    loop {
        while let Some((message, rest)) = split(&received).unwrap() {
            let mut elements = Elements(message.content);
            let id = elements.take_number(INTEGER).unwrap();
            let operation = elements.take_any().unwrap().unwrap();
            let request = Request { kind: operation.tag, content: operation.content.to_vec() };
            received = rest.to_vec();
            let answers = answer(&request);
            let messages = answers.iter().map(|operation| {
                element(SEQUENCE, &[number(INTEGER, id).as_slice(), operation.as_slice()].concat())
            });
            let messages: Vec<u8> = messages.flatten().collect();
            if stream.write_all(&messages).and_then(|()| stream.flush()).is_err() {
                return false;
            }
            if request.kind == EXTENDED {
                return true;
            }
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return false,
            Ok(length) => received.extend(&buffer[..length]),
        }
    }
}

/// An answer of that kind with a result code.
fn result(kind: u8, code: u32) -> Vec<u8> {
    element(kind, &[number(ENUMERATED, code), element(OCTETS, b""), element(OCTETS, b"")].concat())
}

/// The answers to a search.
fn found(names: &[&str]) -> Vec<Vec<u8>> {
    let entry =
        |name: &&str| element(0x64, &[element(OCTETS, name.as_bytes()), element(SEQUENCE, b"")].concat());
    names.iter().map(entry).chain([result(0x65, 0)]).collect()
}

/// Base, and the attribute and the value that are to be equal, of a search.
fn asked_for(content: &[u8]) -> (String, String, String) {
    let mut elements = Elements(content);
    let base = elements.take_text().unwrap().to_owned();
    for tag in [ENUMERATED, ENUMERATED, INTEGER, INTEGER] {
        elements.take_number(tag).unwrap();
    }
    elements.take(BOOLEAN).unwrap();
    let mut equal = Elements(elements.take(0xa3).unwrap());
    let attribute = equal.take_text().unwrap().to_owned();
    (base, attribute, equal.take_text().unwrap().to_owned())
}

const ANN: &str = "uid=ann,ou=People";

/// `ann` has the password `s3 cret` and is in the group `vpn`; `ben` has the same password and is in no group. `two` is the
/// username of two.
fn directory(request: &Request) -> Vec<Vec<u8>> {
    let mut elements = Elements(&request.content);
    match request.kind {
        BIND => {
            elements.take_number(INTEGER).unwrap();
            let name = elements.take_text().unwrap();
            let password = elements.take(0x80).unwrap();
            let is_right = match name {
                "cn=search" => password == b"search pw",
                ANN | "uid=ben,ou=People" => password == b"s3 cret",
                // As an anonymous bind it would pass.
                _ => password.is_empty(),
            };
            vec![result(0x61, if is_right { 0 } else { 49 })]
        }
        SEARCH => match asked_for(&request.content) {
            (base, attribute, user) if base == "ou=People" && attribute == "uid" => match user.as_str() {
                "ann" => found(&[ANN]),
                "ben" => found(&["uid=ben,ou=People"]),
                "two" => found(&["uid=a", "uid=b"]),
                // The server gives one entry at most, and there are more.
                "cut" => [&found(&[ANN])[..1], &[result(0x65, 4)]].concat(),
                _ => found(&[]),
            },
            (base, _, _) if base == "ou=Groups" => found(&["cn=vpn,ou=Groups"]),
            (base, attribute, value) if base == "cn=vpn,ou=Groups" => {
                match (attribute.as_str(), value.as_str()) {
                    ("member", ANN) | ("memberUid", "ann") => found(&["cn=vpn,ou=Groups"]),
                    _ => found(&[]),
                }
            }
            _ => vec![result(0x65, 32)],
        },
        COMPARE => {
            let entry = elements.take_text().unwrap();
            let mut assertion = Elements(elements.take(SEQUENCE).unwrap());
            let (attribute, value) = (assertion.take_text().unwrap(), assertion.take_text().unwrap());
            let holds = matches!(
                (entry, attribute, value),
                ("cn=vpn,ou=Groups", "member", ANN) | ("cn=vpn,ou=Groups", "memberUid", "ann")
            );
            vec![result(0x6f, if holds { 6 } else { 5 })]
        }
        _ => vec![result(0x78, 2)],
    }
}

const USERS: &str = "BaseDN ou=People\nSearchFilter (uid=%u)\n";

/// Judges a login by a file with these lines in its two sections.
fn judge(ldap: &str, authorization: &str, (user, password): (&str, &str)) -> Result<(), Refusal> {
    let text = format!("<LDAP>\n{ldap}\n</LDAP>\n<Authorization>\n{authorization}\n</Authorization>\n");
    let config = auth_ldap::parse(text.as_bytes(), "f").unwrap().config;
    let login = Login {
        username: user.to_owned(),
        password: Zeroizing::new(password.to_owned()),
        common_name: "ben".to_owned(),
        remote: String::new(),
    };
    ldap::judge(&config, &Trust::read(&config.directory.tls).unwrap(), &login)
}

/// The words of a refusal by judgement.
fn refused(outcome: Result<(), Refusal>) -> String {
    match outcome {
        Err(Refusal::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// The words of a failure to judge.
fn failed(outcome: Result<(), Refusal>) -> String {
    match outcome {
        Err(Refusal::Failed(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_directory_judges_a_password() {
    let server = Server::start(directory, None);
    let url = format!("URL {}", server.url());
    let with_account = format!("{url}\nBindDN cn=search\nPassword \"search pw\"");
    assert_eq!(judge(&with_account, USERS, ("ann", "s3 cret")), Ok(()));
    assert_eq!(server.asked(), ["bind cn=search", "search ou=People", &format!("bind {ANN}")]);
    let why = refused(judge(&url, USERS, ("ann", "s3 cres")));
    assert!(why.contains("refuses it as `uid=ann,ou=People`: invalidCredentials (49)"), "{why}");
    assert!(refused(judge(&url, USERS, ("joe", "s3 cret"))).contains("no such user"));
    for user in ["two", "cut"] {
        assert!(refused(judge(&url, USERS, (user, "s3 cret"))).contains("several entries"), "{user}");
    }
    let wrong = format!("{url}\nBindDN cn=search\nPassword x");
    assert!(failed(judge(&wrong, USERS, ("ann", "s3 cret"))).contains("refuses `cn=search` (BindDN)"));
    let elsewhere = "BaseDN ou=Elsewhere\nSearchFilter (uid=%u)";
    assert!(failed(judge(&url, elsewhere, ("ann", "s3 cret"))).contains("noSuchObject (32)"));
    // The name in the certificate in place of the username.
    assert_eq!(judge(&url, &format!("{USERS}UseCn true"), ("joe", "s3 cret")), Ok(()));
}

/// The directory would take them for anonymous and say yes.
#[test]
fn an_empty_password_is_not_shown_to_the_directory() {
    let server = Server::start(directory, None);
    let url = format!("URL {}", server.url());
    assert!(refused(judge(&url, USERS, ("ann", ""))).contains("empty password"));
    let packed = format!("{USERS}PasswordIsCR true");
    assert!(refused(judge(&url, &packed, ("ann", "SCRV1::MTIz"))).contains("empty password"));
    assert!(refused(judge(&url, &packed, ("ann", "s3 cret"))).contains("PasswordIsCR"));
    assert!(server.asked().is_empty(), "{:?}", server.asked());
    assert_eq!(judge(&url, &packed, ("ann", "SCRV1:czMgY3JldA==:MTIz")), Ok(()));
    assert_eq!(judge(&url, &packed, ("ann", "CRV1::czMgY3JldA==::MTIz")), Ok(()));
}

/// Characters in a username do not change the filter: the directory is searched for that very name.
#[test]
fn a_username_is_a_value() {
    let server = Server::start(directory, None);
    let url = format!("URL {}", server.url());
    for user in ["*", "a*", "ann)(uid=*", "*)(|(uid=*", "\\61nn"] {
        assert!(refused(judge(&url, USERS, (user, "s3 cret"))).contains("no such user"), "{user}");
    }
    assert_eq!(server.asked(), ["search ou=People"; 5]);
}

#[test]
fn groups_are_asked_about() {
    let server = Server::start(directory, None);
    let url = format!("URL {}", server.url());
    for (lines, is_by_search) in [
        ("MemberAttribute member", false),
        ("MemberAttribute memberUid\nRFC2307bis false", false),
        ("MemberAttribute member\nUseCompareOperation false", true),
        ("MemberAttribute memberUid\nRFC2307bis false\nUseCompareOperation false", true),
    ] {
        let group = format!("<Group>\nBaseDN ou=Groups\nSearchFilter (cn=vpn)\n{lines}\n</Group>");
        let lines = format!("{USERS}RequireGroup true\n{group}");
        assert_eq!(judge(&url, &lines, ("ann", "s3 cret")), Ok(()), "{lines}");
        let last = if is_by_search { "search cn=vpn,ou=Groups" } else { "compare cn=vpn,ou=Groups" };
        assert_eq!(server.asked().last().unwrap(), last);
        assert!(refused(judge(&url, &lines, ("ben", "s3 cret"))).contains("RequireGroup"), "{lines}");
        // Its password is judged first.
        assert!(refused(judge(&url, &lines, ("ben", "x"))).contains("invalidCredentials"), "{lines}");
    }
}

/// The outcome of a login where a search for groups, or for a member of one, has other answers.
fn judge_groups(
    searched: &'static str,
    answers: Vec<Vec<u8>>,
    more: &str,
    user: &str,
) -> Result<(), Refusal> {
    let answer = move |request: &Request| match request.kind {
        SEARCH if asked_for(&request.content).0 == searched => answers.clone(),
        _ => directory(request),
    };
    let server = Server::start(answer, None);
    let group =
        format!("<Group>\nBaseDN ou=Groups\nSearchFilter (cn=vpn)\nMemberAttribute member\n{more}\n</Group>");
    let lines = format!("{USERS}RequireGroup true\n{group}");
    judge(&format!("URL {}", server.url()), &lines, (user, "s3 cret"))
}

/// Groups that are not known count as neither a yes nor a no of the directory.
#[test]
fn groups_that_are_not_all_given_let_no_one_in() {
    let url = element(OCTETS, b"ldap://elsewhere.example/ou=Groups");
    let reference = || element(0x73, &url);
    let empty = element(OCTETS, b"");
    let referral = [number(ENUMERATED, 10), empty.clone(), empty, element(0xa3, &url)].concat();
    let group = || found(&["cn=vpn,ou=Groups"]).swap_remove(0);
    for (answers, said) in [
        // The group that was given has ann.
        (vec![group(), result(0x65, 4)], "sizeLimitExceeded"),
        (vec![group(), result(0x65, 3)], "timeLimitExceeded (3)"),
        (vec![group(), result(0x65, 11)], "result 11"),
        (vec![element(0x65, &referral)], "ldap://elsewhere.example/ou=Groups"),
        (vec![reference(), result(0x65, 0)], "ldap://elsewhere.example/ou=Groups"),
    ] {
        let why = failed(judge_groups("ou=Groups", answers, "", "ann"));
        assert!(why.contains(said), "{said}: {why}");
    }
    let by_search = "UseCompareOperation false";
    let cut = vec![group(), result(0x65, 4)];
    let why = failed(judge_groups("cn=vpn,ou=Groups", cut, by_search, "ann"));
    assert!(why.contains("sizeLimitExceeded"), "{why}");
    let refers = vec![reference(), result(0x65, 0)];
    let why = failed(judge_groups("cn=vpn,ou=Groups", refers, by_search, "ann"));
    assert!(why.contains("ldap://elsewhere.example"), "{why}");
    // Active Directory names other parts of the forest beside the entries that it has: a user in a group here
    // is let in.
    let both = || vec![group(), reference(), result(0x65, 0)];
    assert_eq!(judge_groups("ou=Groups", both(), "", "ann"), Ok(()));
    let why = failed(judge_groups("ou=Groups", both(), "", "ben"));
    assert!(why.contains("ldap://elsewhere.example"), "{why}");
}

#[test]
fn the_next_server_is_asked_where_one_cannot_be_reached() {
    let server = Server::start(directory, None);
    // Of a listener that is gone.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let urls = format!("URL \"ldap://{closed} {}\"", server.url());
    assert_eq!(judge(&urls, USERS, ("ann", "s3 cret")), Ok(()));
    let none = failed(judge(&format!("URL ldap://{closed}"), USERS, ("ann", "s3 cret")));
    assert!(none.contains("no directory can be reached") && none.contains(&closed.to_string()), "{none}");
}

/// The entry and its password are where the referral leads.
#[test]
fn referrals_are_followed_if_the_file_says_so() {
    let holder = Server::start(directory, None);
    let url = format!("{}/ou=People", holder.url());
    let refers = move |request: &Request| match request.kind {
        SEARCH => vec![element(0x73, &element(OCTETS, url.as_bytes())), result(0x65, 0)],
        _ => directory(request),
    };
    let server = Server::start(refers, None);
    let follows = format!("URL {}\nFollowReferrals yes", server.url());
    assert_eq!(judge(&follows, USERS, ("ann", "s3 cret")), Ok(()));
    assert_eq!(server.asked(), ["search ou=People"]);
    assert_eq!(holder.asked(), ["search ou=People", &format!("bind {ANN}")]);
    let follows_not = format!("URL {}", server.url());
    assert!(refused(judge(&follows_not, USERS, ("ann", "s3 cret"))).contains("no such user"));
}

/// One of the servers that a directory names is down, and the next one has the entry.
#[test]
fn a_referral_that_fails_hides_no_other() {
    let holder = Server::start(directory, None);
    // Of a listener that is gone.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let urls = [format!("ldap://{closed}/ou=People"), format!("{}/ou=People", holder.url())];
    let refers = move |request: &Request| match request.kind {
        SEARCH => {
            let references = urls.iter().map(|url| element(0x73, &element(OCTETS, url.as_bytes())));
            references.chain([result(0x65, 0)]).collect::<Vec<Vec<u8>>>()
        }
        _ => directory(request),
    };
    let server = Server::start(refers, None);
    let follows = format!("URL {}\nFollowReferrals yes", server.url());
    assert_eq!(judge(&follows, USERS, ("ann", "s3 cret")), Ok(()));
    // Whether the one that is down has this user is not known.
    let why = failed(judge(&follows, USERS, ("joe", "s3 cret")));
    assert!(why.contains(&closed.to_string()), "{why}");
}

#[test]
fn referrals_that_lead_round_end() {
    let port = Arc::new(Mutex::new(0));
    let own = Arc::clone(&port);
    let server = Server::start(
        move |_| {
            let url = format!("ldap://127.0.0.1:{}/ou=People", own.lock().unwrap());
            vec![element(0x73, &element(OCTETS, url.as_bytes())), result(0x65, 0)]
        },
        None,
    );
    *port.lock().unwrap() = server.port;
    let follows = format!("URL {}\nFollowReferrals yes", server.url());
    assert!(refused(judge(&follows, USERS, ("ann", "s3 cret"))).contains("no such user"));
    assert_eq!(server.asked().len(), 9, "the first and eight more");
}

#[test]
fn malformed_answers_are_errors() {
    for answer in [
        vec![0x65, 0],
        vec![0x65, 3, 10, 1],
        result(0x61, 0),
        element(0x64, &[4, 9, 1]),
        element(0x64, &element(OCTETS, b"\xff")),
        vec![0x1f],
    ] {
        let shown = format!("{answer:?}");
        let server = Server::start(move |_| vec![answer.clone()], None);
        let why = failed(judge(&format!("URL {}\nTimeout 1", server.url()), USERS, ("ann", "s3 cret")));
        assert!(why.contains("not LDAP's") || why.contains("in time"), "{shown}: {why}");
    }
}

#[test]
fn a_directory_that_says_nothing_is_not_waited_for_long() {
    let server = Server::start(|_| Vec::new(), None);
    let why = failed(judge(&format!("URL {}\nTimeout 1", server.url()), USERS, ("ann", "s3 cret")));
    assert!(why.contains("did not answer in time (Timeout)"), "{why}");
}

/// An authority, and a server's settings with a certificate of it for 127.0.0.1.
fn authority() -> (String, Arc<ServerConfig>) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::from_params(&params, &key);
    let own_key = KeyPair::generate().unwrap();
    let own =
        CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&own_key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.der().clone()], PrivateKeyDer::try_from(own_key.serialize_der()).unwrap());
    (ca, Arc::new(config.unwrap()))
}

/// Takes StartTLS.
fn with_tls(request: &Request) -> Vec<Vec<u8>> {
    if request.kind == EXTENDED { vec![result(0x78, 0)] } else { directory(request) }
}

#[test]
fn tls_protects_all_that_is_said() {
    let scratch = Scratch::create("ldap").unwrap();
    let (ca, config) = authority();
    let good = scratch.write("good.crt", &ca).unwrap();
    let other = scratch.write("other.crt", &authority().0).unwrap();
    let server = Server::start(with_tls, Some(config.clone()));
    let lines =
        |ca: &std::path::Path| format!("URL {}\nTLSEnable yes\nTLSCACertFile {}", server.url(), ca.display());
    assert_eq!(judge(&lines(&good), USERS, ("ann", "s3 cret")), Ok(()));
    let directory_of_files =
        format!("URL {}\nTLSEnable yes\nTLSCACertDir {}", server.url(), scratch.path().display());
    assert_eq!(judge(&directory_of_files, USERS, ("ann", "s3 cret")), Ok(()));
    let before = server.asked().len();
    let why = failed(judge(&lines(&other), USERS, ("ann", "s3 cret")));
    assert!(why.contains("invalid peer certificate"), "{why}");
    assert_eq!(server.asked().len(), before + 1, "but for the request to go over to TLS");
    let without = Server::start(directory, None);
    let lines = format!("URL {}\nTLSEnable yes\nTLSCACertFile {}", without.url(), good.display());
    let why = failed(judge(&lines, USERS, ("ann", "s3 cret")));
    assert!(why.contains("does not go over to TLS (TLSEnable): protocolError (2)"), "{why}");
    assert_eq!(without.asked(), ["other"]);
}

/// A message in the clear behind the answer to StartTLS is not taken for one that came by TLS.
#[test]
fn what_comes_before_tls_is_not_taken_for_later() {
    let scratch = Scratch::create("ldap").unwrap();
    let (ca, config) = authority();
    let ca = scratch.write("ca.crt", &ca).unwrap();
    let injects = |request: &Request| match request.kind {
        EXTENDED => vec![result(0x78, 0), result(0x65, 0)],
        _ => directory(request),
    };
    let server = Server::start(injects, Some(config));
    let lines = format!("URL {}\nTLSEnable yes\nTLSCACertFile {}", server.url(), ca.display());
    let why = failed(judge(&lines, USERS, ("ann", "s3 cret")));
    assert!(why.contains("more before it went over to TLS") || why.contains("corrupt"), "{why}");
}
