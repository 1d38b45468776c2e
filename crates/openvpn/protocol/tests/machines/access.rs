//! A server that judges its clients by passwords, tokens and scripts.

use std::time::Duration;

use adit_core::{Command, PeerId, Protocol};
use adit_openvpn::request::{Event, PeerSettings, Reply, Request, ScriptOutcome};
use adit_openvpn::testing::judged::{
    accepted, asked, end_of, ends, log_says, pair, renegotiate, reports, tokens, user, variable,
    without_certificate, writes,
};
use adit_openvpn::testing::{Pair, traffic};

const VERIFY: &str = "user-pass-verify";

fn connecting() -> Pair {
    pair(|client, server| {
        client.auth = None;
        server.access.verify = None;
        server.access.client_connect = Some(vec!["/connect".to_owned(), "word".to_owned()]);
        server.access.client_disconnect = Some(vec!["/leave".to_owned()]);
    })
}

fn names(pair: &Pair) -> Vec<String> {
    pair.server.peers().into_iter().map(|(_, info)| info.name).collect()
}

fn dropped(pair: &Pair) -> usize {
    pair.server_events
        .iter()
        .filter(|event| matches!(event, Event::Request(Request::CancelScript(_))))
        .count()
}

#[test]
fn a_password_in_the_environment() {
    let mut pair = pair(|_, _| {});
    let script = asked(&pair, VERIFY).remove(0);
    assert_eq!(script.argv, ["/judge"]);
    assert_eq!((variable(script, "username"), variable(script, "password")), (Some("ann"), Some("s3 cret")));
    // The variables that are not wiped do not hold it.
    assert!(script.env.iter().all(|(_, value)| !value.contains("s3 cret")));
    assert_eq!(variable(script, "common_name"), Some("alice"));
    assert!(!accepted(&pair));
    ends(&mut pair, VERIFY, 0, &[]);
    assert!(pair.is_up());
    assert_eq!(names(&pair), ["alice"]);
}

#[test]
fn a_password_in_a_file() {
    let mut pair = pair(|_, server| server.access.verify.as_mut().unwrap().by_file = true);
    let script = asked(&pair, VERIFY).remove(0);
    assert_eq!(variable(script, "password"), None);
    let file = script.files.iter().find(|file| file.is_argument).unwrap();
    assert_eq!(file.content.as_slice(), b"ann\ns3 cret\n");
    ends(&mut pair, VERIFY, 1, &["", "", "LOCKED: see the desk\nsecond line"]);
    assert!(!accepted(&pair));
    assert!(end_of(&pair).unwrap().contains("LOCKED: see the desk"), "{:?}", end_of(&pair));
    assert!(!end_of(&pair).unwrap().contains("second line"));
}

#[test]
fn no_password_at_all() {
    let refused = pair(|client, _| client.auth = None);
    assert!(asked(&refused, VERIFY).is_empty() && end_of(&refused).is_some());
    let mut optional = pair(|client, server| {
        client.auth = None;
        server.access.optional = true;
    });
    assert_eq!(variable(asked(&optional, VERIFY)[0], "password"), Some(""));
    ends(&mut optional, VERIFY, 0, &[]);
    assert!(optional.is_up());
}

#[test]
fn the_name_of_a_client() {
    let mut by_username = pair(|_, server| server.access.username_as_name = true);
    ends(&mut by_username, VERIFY, 0, &[]);
    assert_eq!(names(&by_username), ["ann"]);
    let mut uncertified = pair(without_certificate);
    ends(&mut uncertified, VERIFY, 0, &[]);
    assert_eq!(names(&uncertified), ["ann"]);
    let nobody = pair(|client, server| {
        without_certificate(client, server);
        client.auth = None;
        server.access.verify = None;
    });
    assert!(!accepted(&nobody) && log_says(&nobody.server_events, "nothing names it"));
}

/// A client can give any username where nothing judges it: it names the client nowhere.
#[test]
fn a_username_that_nothing_judged_is_not_the_clients_name() {
    for tls_verify in [false, true] {
        let mut pair = pair(|_, server| {
            let script = || Some(vec!["/script".to_owned()]);
            (server.address6, server.pool6) = (None, None);
            let access = &mut server.access;
            (access.verify, access.username_as_name) = (None, true);
            (access.client_connect, access.client_disconnect) = (script(), script());
            (access.learn_address, access.tokens) = (script(), Some(tokens()));
            access.tls_verify = script().filter(|_| tls_verify);
        });
        if tls_verify {
            ends(&mut pair, "tls-verify", 0, &[]);
        }
        writes(&mut pair, Ok(PeerSettings::default()));
        ends(&mut pair, "learn-address", 0, &[]);
        assert!(pair.is_up());
        let info = pair.server.peers().remove(0).1;
        assert_eq!((info.name.as_str(), info.detail.username.as_str()), ("alice", ""));
        pair.advance(Duration::from_secs(1));
        renegotiate(&mut pair);
        let peer = pair.server.peers().remove(0).0;
        pair.server.handle_command(pair.now, Command::Disconnect { peer });
        pair.exchange();
        for kind in ["client-connect", "learn-address", "client-disconnect"] {
            let script = asked(&pair, kind).remove(0);
            let names = (variable(script, "common_name"), variable(script, "username"));
            assert_eq!(names, (Some("alice"), None), "{kind}");
        }
        assert!(asked(&pair, "tls-verify").iter().all(|script| variable(script, "username").is_none()));
        assert!(!log_says(&pair.server_events, "ann"), "{:?}", pair.server_events);
    }
}

/// A client that gives a username without a password is judged without both, as in OpenVPN.
#[test]
fn a_username_without_a_password_is_not_judged() {
    let mut pair = pair(|client, server| {
        client.auth = Some(user(""));
        server.access.optional = true;
        server.access.username_as_name = true;
    });
    assert_eq!(variable(asked(&pair, VERIFY)[0], "username"), Some(""));
    ends(&mut pair, VERIFY, 0, &[]);
    assert_eq!(names(&pair), ["alice"]);
}

#[test]
fn an_answer_that_was_put_off() {
    for (answer, good) in [("1", true), ("0", false), ("x", false)] {
        let mut pair = pair(|_, _| {});
        ends(&mut pair, VERIFY, 2, &["", "", ""]);
        pair.advance(Duration::from_secs(20));
        assert!(!accepted(&pair) && end_of(&pair).is_none());
        ends(&mut pair, VERIFY, 2, &[answer, "", ""]);
        assert_eq!((pair.is_up(), end_of(&pair).is_some()), (good, !good), "{answer}");
    }
}

#[test]
fn a_client_is_told_what_is_waited_for() {
    let mut pair = pair(|client, _| client.peer_info.push(("IV_SSO".to_owned(), "webauth,x".to_owned())));
    ends(&mut pair, VERIFY, 2, &["", "120\nwebauth\nWEB_AUTH::https://login.example/\n", ""]);
    assert!(log_says(&pair.client_events, "https://login.example/"), "{:?}", pair.client_events);
    // Longer than the window of a handshake.
    pair.advance(Duration::from_secs(100));
    ends(&mut pair, VERIFY, 2, &["1"]);
    assert!(pair.is_up());

    let mut without = self::pair(|_, _| {});
    ends(&mut without, VERIFY, 2, &["", "120\nwebauth\nWEB_AUTH::https://login.example/\n", ""]);
    assert!(end_of(&without).is_some() && log_says(&without.server_events, "by webauth"));
}

#[test]
fn scripts_that_never_answer() {
    let mut pair = pair(|client, _| client.control.rekey.handshake = Duration::from_secs(600));
    let first = asked(&pair, VERIFY)[0].id;
    pair.advance(Duration::from_secs(59));
    assert_eq!((pair.server.half_open(), end_of(&pair)), (1, None));
    pair.advance(Duration::from_secs(8));
    // That is no fault of the client's.
    assert_eq!(end_of(&pair), None);
    assert!(log_says(&pair.server_events, "did not answer in time"));
    assert!(log_says(&pair.client_events, "AUTH_FAILED,TEMP"));
    assert_eq!(dropped(&pair), 1);
    // Too late.
    let outcome = ScriptOutcome { exit: Ok(0), files: Vec::new(), settings: None };
    pair.server.handle_reply(pair.now, Reply::ScriptDone { id: first, outcome });
    pair.exchange();
    assert!(!accepted(&pair));
}

#[test]
fn each_renegotiation_is_judged() {
    let mut pair = pair(|_, _| {});
    ends(&mut pair, VERIFY, 0, &[]);
    pair.advance(Duration::from_secs(1));
    renegotiate(&mut pair);
    assert_eq!(asked(&pair, VERIFY).len(), 2);
    assert!(pair.is_up(), "the old keys serve meanwhile");
    ends(&mut pair, VERIFY, 0, &[]);
    assert!(pair.is_up());
    // Both ends have gone over to the new keys.
    pair.advance_busy(Duration::from_secs(70));
    renegotiate(&mut pair);
    ends(&mut pair, VERIFY, 1, &[]);
    assert!(pair.server.peers().is_empty() && end_of(&pair).is_some());
    assert!(log_says(&pair.server_events, "refused"));
}

#[test]
fn a_token_serves_until_it_runs_out() {
    let mut pair = pair(|client, server| {
        let mut user = user("s3 cret");
        user.nocache = true;
        client.auth = Some(user);
        client.control.rekey.after = None;
        server.access.tokens = Some(tokens());
    });
    ends(&mut pair, VERIFY, 0, &[]);
    assert!(pair.is_up());
    for _ in 0..2 {
        pair.advance_busy(Duration::from_secs(1400));
        renegotiate(&mut pair);
        assert!(pair.is_up());
    }
    assert_eq!(asked(&pair, VERIFY).len(), 1, "the token did");
    pair.advance_busy(Duration::from_secs(1400));
    renegotiate(&mut pair);
    assert!(pair.server.peers().is_empty() && log_says(&pair.server_events, "its token has run out"));
}

#[test]
fn a_token_that_the_script_judges_too() {
    let mut pair = pair(|client, server| {
        client.control.rekey.after = None;
        let mut tokens = tokens();
        tokens.external = true;
        server.access.tokens = Some(tokens);
    });
    let first = asked(&pair, VERIFY).remove(0);
    assert_eq!(variable(first, "session_state"), Some("Initial"));
    let session = variable(first, "session_id").unwrap().to_owned();
    assert_eq!(session.len(), 16);
    ends(&mut pair, VERIFY, 0, &[]);
    pair.advance(Duration::from_secs(5));
    renegotiate(&mut pair);
    let second = asked(&pair, VERIFY).remove(1);
    assert_eq!(variable(second, "session_state"), Some("Authenticated"));
    assert_eq!(variable(second, "session_id"), Some(session.as_str()));
    assert!(variable(second, "password").unwrap().starts_with("SESS_ID_AT_"));
}

#[test]
fn a_token_brings_the_client_back() {
    let mut pair = pair(|_, server| server.access.tokens = Some(tokens()));
    ends(&mut pair, VERIFY, 0, &[]);
    pair.client.handle_command(pair.now, Command::Restart);
    pair.advance(Duration::from_secs(10));
    assert!(pair.is_up());
    assert_eq!(asked(&pair, VERIFY).len(), 1);
}

#[test]
fn a_password_that_is_asked_for() {
    let mut pair = pair(|client, _| client.auth.as_mut().unwrap().credentials = None);
    assert!(
        pair.client_events
            .iter()
            .any(|event| matches!(event, Event::Request(Request::Credentials { reason: None })))
    );
    assert!(asked(&pair, VERIFY).is_empty() && pair.server.half_open() == 0);
    let said = user("s3 cret").credentials.unwrap();
    pair.client.handle_reply(pair.now, Reply::Credentials(Ok(said)));
    pair.exchange();
    ends(&mut pair, VERIFY, 0, &[]);
    assert_eq!(names(&pair), ["alice"]);
}

#[test]
fn client_connect_says_what_holds_for_a_client() {
    let mut pair = connecting();
    let script = asked(&pair, "client-connect").remove(0);
    assert_eq!(script.argv, ["/connect", "word"]);
    assert_eq!(variable(script, "ifconfig_pool_remote_ip"), Some("10.8.0.2"));
    assert_eq!(variable(script, "trusted_ip"), Some("192.0.2.2"));
    assert_eq!(variable(script, "time_ascii"), Some("2026-01-01 00:00:01"));
    assert!(!accepted(&pair));
    let settings = PeerSettings {
        ipv4: Some(("10.8.0.77".parse().unwrap(), "255.255.255.0".parse().unwrap())),
        routes: vec!["192.168.7.0/24".parse().unwrap()],
        ..PeerSettings::default()
    };
    writes(&mut pair, Ok(settings));
    assert!(pair.is_up());
    assert_eq!(asked(&pair, "client-connect").len(), 1, "asked once");
    let addresses: Vec<String> = pair.server.peers()[0].1.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["10.8.0.77", "fd00:8::1000"]);
}

#[test]
fn client_disconnect_is_told_the_bytes() {
    let mut pair = connecting();
    writes(&mut pair, Ok(PeerSettings::default()));
    let peer = PeerId(0);
    pair.server.handle_notice(pair.now, traffic(peer, (3, 4), (300, 4000)));
    pair.advance(Duration::from_secs(7));
    pair.server.handle_command(pair.now, Command::Disconnect { peer });
    pair.exchange();
    let script = asked(&pair, "client-disconnect").remove(0);
    for (name, value) in [
        ("bytes_received", "300"),
        ("bytes_sent", "4000"),
        ("time_duration", "7"),
        ("common_name", "alice"),
        ("ifconfig_pool_remote_ip", "10.8.0.2"),
    ] {
        assert_eq!(variable(script, name), Some(value), "{name}");
    }
}

#[test]
fn client_connect_says_no() {
    let no = |exit: Result<i32, String>, files: &[&str], settings| ScriptOutcome {
        exit,
        files: files.iter().map(|text| text.as_bytes().to_vec()).collect(),
        settings,
    };
    let disabled = PeerSettings { disabled: true, ..PeerSettings::default() };
    for outcome in
        [no(Ok(1), &[], None), no(Ok(2), &["0"], None), no(Ok(0), &[], Some(Ok(Box::new(disabled))))]
    {
        let mut pair = connecting();
        reports(&mut pair, "client-connect", outcome.clone());
        assert!(!accepted(&pair) && end_of(&pair).is_some(), "{outcome:?}");
        // It was never connected.
        pair.advance(Duration::from_secs(10));
        assert!(pair.server.half_open() == 0 && asked(&pair, "client-disconnect").is_empty());
    }
}

/// The client may come again.
#[test]
fn scripts_that_fail_refuse_nobody_for_good() {
    for (exit, settings) in [
        (Err("killed".to_owned()), None),
        (Ok(127), None),
        (Ok(137), None),
        (Ok(0), Some(Err("line 1: bogus".to_owned()))),
    ] {
        let mut pair = connecting();
        let outcome = ScriptOutcome { exit: exit.clone(), files: Vec::new(), settings };
        reports(&mut pair, "client-connect", outcome.clone());
        assert!(!accepted(&pair) && end_of(&pair).is_none(), "{outcome:?}");
        assert!(log_says(&pair.client_events, "AUTH_FAILED,TEMP"), "{outcome:?}");
        if outcome.settings.is_some() {
            continue;
        }
        let mut pair = self::pair(|_, _| {});
        reports(&mut pair, VERIFY, outcome.clone());
        assert!(!accepted(&pair) && end_of(&pair).is_none(), "{outcome:?}");
        assert!(log_says(&pair.client_events, "AUTH_FAILED,TEMP"), "{outcome:?}");
    }
}

#[test]
fn client_connect_puts_its_answer_off() {
    let mut pair = connecting();
    ends(&mut pair, "client-connect", 2, &["", ""]);
    assert!(!accepted(&pair));
    ends(&mut pair, "client-connect", 2, &["1", ""]);
    assert!(pair.is_up());
}

#[test]
fn a_client_that_leaves_takes_its_scripts_along() {
    let mut pair = connecting();
    pair.server.handle_command(pair.now, Command::Disconnect { peer: PeerId(0) });
    pair.exchange();
    assert_eq!(dropped(&pair), 1);
    writes(&mut pair, Ok(PeerSettings::default()));
    assert!(!accepted(&pair) && asked(&pair, "client-disconnect").is_empty());
}

#[test]
fn tls_verify_gets_the_certificate_that_tls_export_cert_asks_for() {
    for export in [false, true] {
        let pair = pair(|_, server| {
            server.access.verify = None;
            server.access.tls_verify = Some(vec!["/verify".to_owned()]);
            server.access.export_certificates = export;
        });
        let script = asked(&pair, "tls-verify").remove(0);
        let exported = script.files.iter().find(|file| file.variable == Some("peer_cert"));
        assert_eq!(exported.is_some(), export);
        if let Some(file) = exported {
            let text = std::str::from_utf8(&file.content).unwrap();
            assert!(
                text.starts_with("-----BEGIN CERTIFICATE-----\n")
                    && text.lines().all(|line| line.len() <= 64)
            );
            assert!(text.ends_with("\n-----END CERTIFICATE-----\n"));
        }
    }
}
