//! Faults of OpenVPN's authentication over the years, which adit must not have. Each test fails without the
//! guard that it names. (CVE-2024-28882 takes a client of bad manners: `src/server/tests.rs`.)

use std::time::Duration;

use adit_core::{Protocol as _, Transport, is_unprintable};
use adit_openvpn::access::PasswordScript;
use adit_openvpn::credentials::{client_tls, server_tls};
use adit_openvpn::params::UserAuth;
use adit_openvpn::request::{Event, UserPassword};
use adit_openvpn::testing::judged::{accepted, asked, end_of, ends, pair, tokens, user, variable};
use adit_openvpn::testing::{Authority, Pair, client_params, environment, requirements, server_params};
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::{PeerRequirements, TlsConfig};
use rcgen::ExtendedKeyUsagePurpose::{self, ClientAuth, ServerAuth};
use rcgen::{CertificateParams, DnType, DnValue, KeyUsagePurpose};

const VERIFY: &str = "user-pass-verify";

/// A client that finished the key exchange and asks for its options gets none while it is being judged
/// (`Peer::proceed`).
#[test]
fn cve_2020_15078_nothing_is_pushed_before_the_judgement() {
    let mut pair = pair(|_, _| {});
    for _ in 0..4 {
        // It asks every 5 s.
        pair.advance(Duration::from_secs(6));
        assert!(!accepted(&pair), "{:?}", pair.server_events);
    }
    ends(&mut pair, VERIFY, 1, &[]);
    pair.advance(Duration::from_secs(10));
    assert!(!accepted(&pair) && end_of(&pair).is_some());
}

/// Several judges: all must say yes, in whatever order they answer (`Authentication::script_done`).
#[test]
fn cve_2022_0547_every_judge_must_agree() {
    let judged = || pair(|_, server| server.access.tls_verify = Some(vec!["/tls".to_owned()]));
    for [first, second] in [[VERIFY, "tls-verify"], ["tls-verify", VERIFY]] {
        let mut one = judged();
        ends(&mut one, first, 0, &[]);
        assert!(!accepted(&one), "only {first} has answered");
        ends(&mut one, second, 1, &[]);
        assert!(!accepted(&one) && end_of(&one).is_some(), "{second} said no");
        let mut both = judged();
        ends(&mut both, first, 0, &[]);
        ends(&mut both, second, 0, &[]);
        assert!(both.is_up());
    }
    // The one puts its answer off, and says yes later; the other had said no meanwhile.
    let mut pair = judged();
    ends(&mut pair, VERIFY, 2, &[""]);
    ends(&mut pair, "tls-verify", 1, &[]);
    ends(&mut pair, VERIFY, 2, &["1"]);
    assert!(!accepted(&pair));
    // Only passwords can be judged later.
    let mut pair = judged();
    ends(&mut pair, VERIFY, 0, &[]);
    ends(&mut pair, "tls-verify", 2, &["1"]);
    assert!(!accepted(&pair) && end_of(&pair).is_some());
}

/// Fewer bytes than a token has are a password (`auth_token::is_token`).
#[test]
fn cve_2026_13122_a_short_token_is_judged_as_a_password() {
    for password in ["SESS_ID_AT_", "SESS_ID_AT_AAAA", "SESS_ID_AT_0123456789abcdefAAAA"] {
        let pair = pair(|client, server| {
            client.auth = Some(user(password));
            server.access.tokens = Some(tokens());
        });
        let scripts = asked(&pair, VERIFY);
        assert_eq!(scripts.len(), 1, "{password}");
        assert_eq!(variable(scripts[0], "password"), Some(password));
        assert!(!accepted(&pair));
    }
}

fn certified(name: DnValue, usage: &[ExtendedKeyUsagePurpose]) -> (Authority, CertificateParams) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = usage.to_vec();
    params.not_before = rcgen::date_time_ymd(2025, 1, 1);
    params.not_after = rcgen::date_time_ymd(2027, 1, 1);
    (Authority::new(), params)
}

/// `alice\0.example` is neither alice nor any other client (`verify::common_name`, `Authentication::judge`).
#[test]
fn a_nul_in_the_subject() {
    for name in ["alice\0.example", "\0"] {
        let (authority, params) = certified(DnValue::Utf8String(name.to_owned()), &[ClientAuth]);
        let mut client = client_params(&authority.sign(params), WrapConfig::Plain, Transport::Udp);
        client.auth = Some(user("s3 cret"));
        let server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
        let pair = Pair::new(client, server);
        assert!(!accepted(&pair) && end_of(&pair).is_some(), "{name:?}");
    }
}

/// The content of the names in a certificate and of the username reaches neither a script nor the log unchanged.
/// OpenVPN gives the same names for control characters (ssl_verify.c `string_mod_remap_name`).
#[test]
fn names_forge_no_lines() {
    let name = "bob\n\u{1b}[2J alice\u{9b}\u{202e}\u{2028}";
    let (authority, params) = certified(DnValue::Utf8String(name.to_owned()), &[ClientAuth]);
    let mut client = client_params(&authority.sign(params), WrapConfig::Plain, Transport::Udp);
    let credentials =
        UserPassword { username: "ann\u{202e}\u{2028}".to_owned(), password: "s3\ncret".to_owned().into() };
    client.auth = Some(UserAuth { credentials: Some(credentials), ..user("") });
    client.peer_info.push(("UV_X".to_owned(), "a\u{202e}\u{1b}b".to_owned()));
    let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
    let script = || Some(vec!["/script".to_owned()]);
    (server.address6, server.pool6) = (None, None);
    let access = &mut server.access;
    (access.tls_verify, access.learn_address) = (script(), script());
    access.verify = Some(PasswordScript { argv: vec!["/judge".to_owned()], by_file: true });
    let mut pair = Pair::new(client, server);
    let subject = asked(&pair, "tls-verify").last().unwrap().argv.last().unwrap().clone();
    assert_eq!(subject, "CN=bob\\0A\\1B[2J alice___");
    let file = &asked(&pair, "user-pass-verify")[0].files.last().unwrap().content;
    assert_eq!(file.as_slice(), b"ann__\ns3_cret\n");
    ends(&mut pair, "tls-verify", 0, &[]);
    ends(&mut pair, "user-pass-verify", 0, &[]);
    let script = asked(&pair, "learn-address").remove(0);
    assert_eq!(script.argv.last().unwrap(), "bob__[2J alice___");
    assert!(script.env.iter().all(|(_, value)| !value.contains(is_unprintable)), "{:?}", script.env);
    ends(&mut pair, "learn-address", 0, &[]);
    assert!(pair.is_up());
    let info = pair.server.peers().remove(0).1;
    assert_eq!((info.name.as_str(), info.detail.username.as_str()), ("bob__[2J alice___", "ann__"));
    let mut reports = pair.server_events.iter().filter_map(|event| match event {
        Event::Report(report) => Some(report.text.as_str()),
        _ => None,
    });
    assert!(reports.all(|text| !text.contains(is_unprintable)), "{:?}", pair.server_events);
}

/// A certificate for the other end, or for nothing in particular, does not do with `remote-cert-tls`
/// (`PeerVerifier::verify`).
#[test]
fn eku_bypass() {
    let any = ExtendedKeyUsagePurpose::Any;
    for usage in [vec![ServerAuth], vec![], vec![ExtendedKeyUsagePurpose::EmailProtection], vec![any]] {
        let (authority, params) = certified(DnValue::Utf8String("alice".to_owned()), &usage);
        let client = client_params(&authority.sign(params), WrapConfig::Plain, Transport::Udp);
        let server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
        let pair = Pair::new(client, server);
        assert!(!accepted(&pair), "{usage:?} at a server");
    }
    // A client that plays the server.
    let authority = Authority::new();
    let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
    let false_server = authority.issue("alice", ClientAuth);
    server.control.tls =
        TlsConfig::Server(server_tls(&false_server, PeerRequirements::default(), &environment()).unwrap());
    let own = authority.issue("bob", ClientAuth);
    for requirements in [requirements(), PeerRequirements::default()] {
        let mut client = client_params(&own, WrapConfig::Plain, Transport::Udp);
        client.control.tls = TlsConfig::Client(client_tls(&own, requirements, &environment()).unwrap());
        let pair = Pair::new(client, server.clone());
        assert!(!pair.client_events.iter().any(|event| matches!(event, Event::Up(_))));
    }
}
