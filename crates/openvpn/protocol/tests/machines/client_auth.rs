//! A server whose clients a program judges (`management-client-auth`); the test plays the program.

use std::time::Duration;

use adit_core::{Command, PeerId, Protocol};
use adit_openvpn::Client;
use adit_openvpn::params::{ClientParams, Rate, ServerParams};
use adit_openvpn::request::{
    ClientDecision, ClientEvent, ClientStep, Event, PeerSettings, PushChange, Reply, Request,
};
use adit_openvpn::testing::judged::{
    accepted, asked, end_of, ends, log_says, pair, renegotiate, reports, tokens, user, variable,
    without_certificate,
};
use adit_openvpn::testing::{Pair, traffic};

const VERIFY: &str = "user-pass-verify";
/// The number of a client's first keys.
const FIRST: u32 = 1;

/// A server that asks a program and no script.
fn judged(change: impl FnOnce(&mut ClientParams, &mut ServerParams)) -> Pair {
    pair(|client, server| {
        server.access.verify = None;
        server.access.management = true;
        change(client, server);
    })
}

fn client_events(pair: &Pair) -> Vec<&ClientEvent> {
    let mut events = Vec::new();
    for event in &pair.server_events {
        if let Event::Request(Request::Client(it)) = event {
            events.push(&**it);
        }
    }
    events
}

/// The questions so far: client, keys, whether it is in already, and the password.
fn questions(pair: &Pair) -> Vec<(u64, u32, bool, String)> {
    let question = |event: &ClientEvent| match &event.step {
        ClientStep::AuthRequest { key, again, password } => {
            Some((event.client, *key, *again, password.to_string()))
        }
        _ => None,
    };
    client_events(pair).into_iter().filter_map(question).collect()
}

fn env<'a>(event: &'a ClientEvent, name: &str) -> Option<&'a str> {
    event.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// The program says this of the latest question.
fn decide(pair: &mut Pair, decision: ClientDecision) {
    let (client, key, ..) = *questions(pair).last().unwrap();
    decide_on(pair, client, key, decision);
}

fn decide_on(pair: &mut Pair, client: u64, key: u32, decision: ClientDecision) {
    pair.server.handle_reply(pair.now, Reply::ClientDecision { client, key, decision });
    pair.exchange();
}

fn deny(told: &str) -> ClientDecision {
    ClientDecision::Deny { reason: "not today".to_owned(), told: told.to_owned() }
}

fn wait(seconds: u64) -> ClientDecision {
    let text = "WEB_AUTH::https://login.example/".to_owned();
    ClientDecision::Pending { text, timeout: Duration::from_secs(seconds) }
}

fn steps(pair: &Pair) -> Vec<String> {
    client_events(pair).into_iter().map(|event| format!("{} {:?}", event.client, event.step)).collect()
}

#[test]
fn a_client_is_asked_about_and_let_in() {
    let mut pair = judged(|_, _| {});
    assert_eq!(questions(&pair), [(0, FIRST, false, "s3 cret".to_owned())]);
    let asked = client_events(&pair)[0];
    for (name, value) in
        [("username", "ann"), ("common_name", "alice"), ("untrusted_ip", "192.0.2.2"), ("IV_PLAT", "linux")]
    {
        assert_eq!(env(asked, name), Some(value), "{name} in {:?}", asked.env);
    }
    assert!(["password", "script_type", "session_id"].iter().all(|name| env(asked, name).is_none()));
    assert!(!format!("{asked:?}").contains("s3 cret"));
    assert!(!accepted(&pair));
    let push = PushChange::Add("route 10.77.0.0 255.255.0.0".to_owned());
    let routes = vec!["192.168.7.0/24".parse().unwrap()];
    let settings = PeerSettings { push: vec![push], routes, ..PeerSettings::default() };
    decide(&mut pair, ClientDecision::Accept(Some(Box::new(settings))));
    assert!(pair.is_up());
    let pushed =
        |event: &Event| matches!(event, Event::Up(it) if format!("{:?}", it.routes).contains("10.77.0.0/16"));
    assert!(pair.client_events.iter().any(pushed), "{:?}", pair.client_events);
    let entered = client_events(&pair)[1];
    let ClientStep::Established { networks } = &entered.step else { panic!("{entered:?}") };
    let shown: Vec<String> = networks.iter().map(|(network, own)| format!("{network} {own}")).collect();
    assert_eq!(shown, ["10.8.0.2/32 true", "fd00:8::1000/128 true", "192.168.7.0/24 false"]);
    assert_eq!(env(entered, "ifconfig_pool_remote_ip"), Some("10.8.0.2"));
    assert_eq!(env(entered, "trusted_ip"), Some("192.0.2.2"));

    pair.server.handle_notice(pair.now, traffic(PeerId(0), (3, 4), (300, 4000)));
    pair.server.handle_command(pair.now, Command::Disconnect { peer: PeerId(0) });
    pair.exchange();
    let left = client_events(&pair)[2];
    assert_eq!((left.client, &left.step), (0, &ClientStep::Disconnected));
    assert_eq!((env(left, "bytes_received"), env(left, "bytes_sent")), (Some("300"), Some("4000")));
}

#[test]
fn a_client_is_sent_away_with_the_words_that_the_program_has_for_it() {
    for (told, heard) in [("", "AUTH_FAILED"), ("see the desk", "see the desk"), ("a\nb", "a")] {
        let mut pair = judged(|_, _| {});
        decide(&mut pair, deny(told));
        assert!(!accepted(&pair) && log_says(&pair.server_events, "not today"));
        let end = end_of(&pair).unwrap();
        assert!(end.contains(heard) && !end.contains('\n'), "{end}");
        pair.advance(Duration::from_secs(10));
        assert_eq!(steps(&pair)[1..], ["0 Disconnected"]);
        assert!(client_events(&pair)[1].env.is_empty() && pair.server.half_open() == 0);
    }
    let mut later = judged(|_, _| {});
    decide(&mut later, deny("TEMP[backoff 3]:busy"));
    assert!(end_of(&later).is_none(), "it comes back");
    assert!(log_says(&later.client_events, "busy"), "{:?}", later.client_events);
}

#[test]
fn a_client_is_asked_to_wait() {
    let mut pair = judged(|_, server| server.control.rekey.after = Some(Duration::from_secs(600)));
    decide(&mut pair, wait(120));
    assert!(log_says(&pair.client_events, "https://login.example/"), "{:?}", pair.client_events);
    // Longer than the window of a handshake.
    pair.advance(Duration::from_secs(100));
    assert!(!accepted(&pair) && end_of(&pair).is_none());
    decide(&mut pair, ClientDecision::Accept(None));
    assert!(pair.is_up());
}

/// All clients of a campus have one address, and at eight in the morning all of them sign on.
#[test]
fn there_is_room_for_those_who_wait() {
    const MANY: usize = 150;
    let mut params = None;
    let mut pair = judged(|client, server| {
        server.max_clients = MANY;
        server.admission.answers = Rate { count: 1000, period: Duration::from_secs(10) };
        params = Some(client.clone());
    });
    let params = params.unwrap();
    let come = |pair: &mut Pair, number: usize| {
        pair.client = Client::new(params.clone(), pair.now, [u8::try_from(number).unwrap(); 32]);
        pair.exchange();
        pair.server.half_open()
    };
    decide(&mut pair, wait(60));
    for number in 1..MANY {
        assert_eq!(come(&mut pair, number), number + 1);
        decide(&mut pair, wait(60));
    }
    assert_eq!(come(&mut pair, MANY), MANY + 1, "they keep nobody from a handshake");
    decide(&mut pair, wait(60));
    assert_eq!(pair.server.half_open(), MANY, "not more than max-clients wait: the oldest made room");
    // One of them is in.
    decide_on(&mut pair, 1, FIRST, ClientDecision::Accept(None));
    assert_eq!((pair.server.half_open(), pair.server.peers().len()), (MANY - 1, 1));
}

#[test]
fn a_client_that_waits_is_dismissed() {
    let mut pair = judged(|_, _| {});
    decide(&mut pair, wait(60));
    let command = |client| Reply::KillClient { client, message: "HALT,closed for today".to_owned() };
    pair.server.handle_reply(pair.now, command(1));
    pair.exchange();
    assert_eq!((pair.server.half_open(), steps(&pair).len()), (1, 1), "that is another one");
    pair.server.handle_reply(pair.now, command(0));
    pair.exchange();
    assert_eq!(steps(&pair)[1..], ["0 Disconnected"]);
    assert_eq!(pair.server.half_open(), 0);
    assert!(pair.client_events.iter().any(|event| matches!(event, Event::Ended(_))), "it heard of it");
}

#[test]
fn nobody_waits_longer_than_half_a_renegotiation() {
    let mut pair = judged(|client, server| {
        client.control.rekey.handshake = Duration::from_secs(900);
        server.control.rekey.after = Some(Duration::from_secs(300));
    });
    pair.advance(Duration::from_secs(20));
    decide(&mut pair, wait(100_000));
    pair.advance(Duration::from_secs(125));
    assert_eq!((pair.server.half_open(), end_of(&pair)), (1, None));
    pair.advance(Duration::from_secs(20));
    assert!(log_says(&pair.server_events, "at the management socket, did not answer in time"));
    // Too late.
    decide_on(&mut pair, 0, FIRST, ClientDecision::Accept(None));
    assert!(!accepted(&pair));
}

#[test]
fn nobody_answers() {
    let mut pair = judged(|client, _| client.control.rekey.handshake = Duration::from_secs(600));
    pair.advance(Duration::from_secs(59));
    assert_eq!((pair.server.half_open(), end_of(&pair)), (1, None));
    pair.advance(Duration::from_secs(8));
    assert_eq!(end_of(&pair), None, "that is no fault of the client's");
    assert!(log_says(&pair.server_events, "did not answer in time"));
    assert!(log_says(&pair.client_events, "AUTH_FAILED,TEMP"));
}

#[test]
fn only_what_was_asked_is_answered() {
    let mut pair = judged(|_, _| {});
    let (client, key, ..) = questions(&pair)[0];
    for (client, key) in [(client + 1, key), (client, key + 1), (client, key.wrapping_sub(1))] {
        decide_on(&mut pair, client, key, ClientDecision::Accept(None));
        decide_on(&mut pair, client, key, deny(""));
    }
    assert!(!accepted(&pair) && end_of(&pair).is_none());
    decide(&mut pair, ClientDecision::Accept(None));
    assert!(pair.is_up());
    decide(&mut pair, ClientDecision::Accept(None));
    decide(&mut pair, wait(10));
    assert!(pair.is_up());
    // The program has changed its mind.
    decide(&mut pair, deny("go"));
    assert!(pair.server.peers().is_empty() && end_of(&pair).unwrap().contains("go"));
    decide(&mut pair, ClientDecision::Accept(None));
    assert!(pair.server.peers().is_empty());
}

#[test]
fn what_is_disabled_is_not_let_in() {
    let mut pair = judged(|_, _| {});
    let settings = PeerSettings { disabled: true, ..PeerSettings::default() };
    decide(&mut pair, ClientDecision::Accept(Some(Box::new(settings))));
    assert!(!accepted(&pair) && log_says(&pair.server_events, "`disable`"));
}

#[test]
fn each_renegotiation_is_a_question_of_its_own() {
    let mut pair = judged(|_, _| {});
    decide(&mut pair, ClientDecision::Accept(None));
    pair.advance(Duration::from_secs(1));
    renegotiate(&mut pair);
    assert_eq!(questions(&pair)[1], (0, FIRST + 1, true, "s3 cret".to_owned()));
    assert!(pair.is_up(), "the old keys serve meanwhile");
    // About the keys before.
    decide_on(&mut pair, 0, FIRST, deny(""));
    assert!(pair.is_up());
    decide(&mut pair, ClientDecision::Accept(None));
    // Both ends have gone over to the new keys.
    pair.advance_busy(Duration::from_secs(70));
    renegotiate(&mut pair);
    decide(&mut pair, deny("enough"));
    assert!(pair.server.peers().is_empty() && end_of(&pair).unwrap().contains("enough"));
    assert_eq!(steps(&pair).iter().filter(|step| step.ends_with("Disconnected")).count(), 1);
}

#[test]
fn script_and_program_must_agree() {
    let both = || {
        judged(|_, server| {
            let argv = vec!["/judge".to_owned()];
            server.access.verify = Some(adit_openvpn::access::PasswordScript { argv, by_file: false });
        })
    };
    for script_first in [true, false] {
        for (script, program) in [(true, true), (true, false), (false, true)] {
            let mut pair = both();
            let decision = || if program { ClientDecision::Accept(None) } else { deny("") };
            if !script_first {
                decide(&mut pair, decision());
                assert!(!accepted(&pair));
            }
            if script_first || program {
                ends(&mut pair, VERIFY, i32::from(!script), &[]);
            }
            if script_first {
                assert!(!accepted(&pair));
                decide(&mut pair, decision());
            }
            assert_eq!(pair.is_up(), script && program, "{script_first} {script} {program}");
            assert_eq!(end_of(&pair).is_some(), !(script && program));
        }
    }
}

#[test]
fn what_the_program_says_comes_after_client_connect() {
    let mut pair = judged(|_, server| server.access.client_connect = Some(vec!["/connect".to_owned()]));
    let address = |text: &str| PeerSettings {
        ipv4: Some((text.parse().unwrap(), "255.255.255.0".parse().unwrap())),
        ..PeerSettings::default()
    };
    decide(&mut pair, ClientDecision::Accept(Some(Box::new(address("10.8.0.78")))));
    assert!(!accepted(&pair));
    let settings = Some(Ok(Box::new(address("10.8.0.77"))));
    let outcome = adit_openvpn::request::ScriptOutcome { exit: Ok(0), files: Vec::new(), settings };
    reports(&mut pair, "client-connect", outcome);
    assert_eq!(asked(&pair, "client-connect").len(), 1);
    assert_eq!(pair.server.peers()[0].1.addresses[0].to_string(), "10.8.0.78");
}

#[test]
fn a_token_needs_no_question() {
    let mut pair = judged(|client, server| {
        let mut user = user("s3 cret");
        user.nocache = true;
        client.auth = Some(user);
        server.access.tokens = Some(tokens());
    });
    assert_eq!(env(client_events(&pair)[0], "session_state"), Some("Initial"));
    decide(&mut pair, ClientDecision::Accept(None));
    pair.advance_busy(Duration::from_secs(70));
    renegotiate(&mut pair);
    assert!(pair.is_up());
    assert_eq!(questions(&pair).len(), 1);
    // It sends its name, and has a control channel of its own, but nothing is asked.
    pair.client.handle_command(pair.now, Command::Restart);
    pair.advance(Duration::from_secs(10));
    assert!(pair.is_up());
    assert_eq!(questions(&pair).len(), 1);
    assert_eq!(steps(&pair)[2..], ["0 Disconnected", "1 Established { networks: [] }"]);
}

#[test]
fn a_token_that_the_program_judges_too() {
    let mut pair = judged(|client, server| {
        client.control.rekey.after = None;
        let mut tokens = tokens();
        tokens.external = true;
        server.access.tokens = Some(tokens);
    });
    let session = env(client_events(&pair)[0], "session_id").unwrap().to_owned();
    decide(&mut pair, ClientDecision::Accept(None));
    pair.advance(Duration::from_secs(5));
    renegotiate(&mut pair);
    let second = *client_events(&pair).last().unwrap();
    assert_eq!(env(second, "session_state"), Some("Authenticated"));
    assert_eq!(env(second, "session_id"), Some(session.as_str()));
    assert!(questions(&pair)[1].3.starts_with("SESS_ID_AT_"));
}

/// A client with neither a certificate nor a username: it comes in if the program lets it in, and it is no
/// other connection of any client.
#[test]
fn a_client_without_a_name() {
    let nameless = |management| {
        judged(move |client, server| {
            without_certificate(client, server);
            client.auth = None;
            server.access.optional = true;
            server.access.management = management;
        })
    };
    let mut pair = nameless(true);
    assert_eq!(questions(&pair), [(0, FIRST, false, String::new())]);
    assert_eq!(env(client_events(&pair)[0], "username"), Some(""));
    decide(&mut pair, ClientDecision::Accept(None));
    assert!(pair.is_up());
    assert_eq!(env(client_events(&pair)[1], "common_name"), Some(""));
    pair.advance_busy(Duration::from_secs(70));
    renegotiate(&mut pair);
    decide(&mut pair, ClientDecision::Accept(None));
    assert!(pair.is_up());
    assert!(log_says(&nameless(false).server_events, "nothing names it"));
}

#[test]
fn who_gives_no_password_is_not_asked_about() {
    let pair = judged(|client, _| client.auth = None);
    assert!(client_events(&pair).is_empty() && end_of(&pair).is_some());
}

#[test]
fn a_script_alone_asks_no_program() {
    let mut pair = pair(|_, _| {});
    ends(&mut pair, VERIFY, 0, &[]);
    assert_eq!(variable(asked(&pair, VERIFY)[0], "username"), Some("ann"));
    assert!(pair.is_up() && client_events(&pair).is_empty());
}

/// The client's answer to a question reaches the program, a few times in each authentication.
#[test]
fn answers_to_questions_reach_the_program() {
    let mut pair = judged(|client, _| client.peer_info.push(("IV_SSO".to_owned(), "crtext".to_owned())));
    let text = "CR_TEXT:R,E:Code?".to_owned();
    for round in 0..5 {
        decide(&mut pair, ClientDecision::Pending { text: text.clone(), timeout: Duration::from_secs(60) });
        let asked = pair.client_events.iter().rev().find_map(|event| match event {
            Event::Request(Request::Challenge(challenge)) => Some(challenge.id),
            _ => None,
        });
        let response = adit_openvpn::request::ChallengeResponse {
            id: asked.unwrap(),
            answer: Ok("8675309".to_owned().into()),
        };
        pair.client.handle_reply(pair.now, Reply::ChallengeResponse(response));
        pair.exchange();
        let heard: Vec<_> = client_events(&pair)
            .into_iter()
            .filter_map(|event| match &event.step {
                ClientStep::ChallengeResponse { key, response } => Some((*key, response.to_string())),
                _ => None,
            })
            .collect();
        assert_eq!(heard, vec![(FIRST, "ODY3NTMwOQ==".to_owned()); (round + 1).min(3)]);
    }
    decide(&mut pair, ClientDecision::Accept(None));
    assert!(pair.is_up());
}
