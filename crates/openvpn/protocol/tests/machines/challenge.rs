//! Questions to the person at a client: of its own file, of a server that refuses it, of one that waits.

use std::time::Duration;

use adit_core::{Command, Protocol};
use adit_openvpn::params::{AuthRetry, ClientParams, RemoteParams, ServerParams, StaticChallenge};
use adit_openvpn::request::{
    Challenge, ChallengeResponse, ConnectionFailure, Event, Reply, Request, ScriptFile,
};
use adit_openvpn::testing::Pair;
use adit_openvpn::testing::judged::{accepted, asked, end_of, ends, log_says, pair, tokens, user, variable};

const VERIFY: &str = "user-pass-verify";
const RESPONSE: &str = "client-crresponse";
const CRV1: &str = "CRV1:R,E:state:YW5uMg==:PIN of the day:";

/// The questions so far.
fn questions(pair: &Pair) -> Vec<&Challenge> {
    let mut questions = Vec::new();
    for event in &pair.client_events {
        if let Event::Request(Request::Challenge(challenge)) = event {
            questions.push(challenge);
        }
    }
    questions
}

/// The person answers the latest question.
fn answer(pair: &mut Pair, answer: Result<&str, &str>) {
    let id = questions(pair).last().unwrap().id;
    answer_to(pair, id, answer);
}

fn answer_to(pair: &mut Pair, id: u32, answer: Result<&str, &str>) {
    let answer = answer.map(|text| text.to_owned().into()).map_err(str::to_owned);
    pair.client.handle_reply(pair.now, Reply::ChallengeResponse(ChallengeResponse { id, answer }));
    pair.exchange();
}

/// The username and the password for the latest script.
fn shown(pair: &Pair) -> [&str; 2] {
    let script = asked(pair, VERIFY).pop().unwrap();
    ["username", "password"].map(|name| variable(script, name).unwrap())
}

fn with_question(concat: bool) -> impl FnOnce(&mut ClientParams, &mut ServerParams) {
    move |client, server| {
        let challenge = StaticChallenge { text: "PIN?".to_owned(), echo: false, concat };
        client.auth.as_mut().unwrap().challenge = Some(challenge);
        server.access.tokens = Some(tokens());
    }
}

#[test]
fn the_question_of_the_file_is_asked_before_the_first_connection() {
    let mut pair = pair(with_question(false));
    let [Challenge { text, echo: false, .. }] = questions(&pair)[..] else {
        panic!("{:?}", questions(&pair))
    };
    assert_eq!(text, "PIN?");
    assert_eq!(pair.server.half_open(), 0);
    answer(&mut pair, Ok("8675309"));
    assert_eq!(shown(&pair), ["ann", "SCRV1:czMgY3JldA==:ODY3NTMwOQ=="]);
    ends(&mut pair, VERIFY, 0, &[]);
    assert!(pair.is_up());
    // The token does now.
    pair.client.handle_command(pair.now, Command::Restart);
    pair.advance(Duration::from_secs(10));
    assert!(pair.is_up());
    assert_eq!((questions(&pair).len(), asked(&pair, VERIFY).len()), (1, 1));
}

#[test]
fn the_answer_behind_the_password() {
    let mut pair = pair(with_question(true));
    answer(&mut pair, Ok("8675309"));
    assert_eq!(shown(&pair), ["ann", "s3 cret8675309"]);
}

#[test]
fn nobody_answers() {
    let mut pair = pair(with_question(false));
    answer(&mut pair, Err("there is no terminal"));
    assert!(end_of(&pair).unwrap().contains("there is no terminal"), "{:?}", end_of(&pair));
}

#[test]
fn an_answer_that_did_not_do_is_asked_for_again() {
    let mut pair = pair(|client, server| {
        with_question(false)(client, server);
        client.auth.as_mut().unwrap().retry = AuthRetry::Interact;
    });
    answer(&mut pair, Ok("1"));
    ends(&mut pair, VERIFY, 1, &[]);
    pair.advance(Duration::from_secs(2));
    let credentials = user("s3 cret").credentials.unwrap();
    pair.client.handle_reply(pair.now, Reply::Credentials(Ok(credentials)));
    pair.exchange();
    assert_eq!(questions(&pair).len(), 2);
    answer(&mut pair, Ok("2"));
    assert_eq!(shown(&pair)[1], "SCRV1:czMgY3JldA==:Mg==");
    ends(&mut pair, VERIFY, 0, &[]);
    assert!(pair.is_up());
}

/// The server asks in place of letting the client in; the answer is good for one connection.
#[test]
fn a_dynamic_challenge() {
    let mut pair = pair(|client, _| {
        let mut second = RemoteParams::new("other".to_owned(), adit_core::Transport::Udp);
        second.exit_notify = true;
        client.remotes.push(second);
    });
    assert_eq!(shown(&pair), ["ann", "s3 cret"]);
    ends(&mut pair, VERIFY, 1, &["", "", CRV1]);
    assert!(!accepted(&pair) && end_of(&pair).is_none());
    pair.advance(Duration::from_secs(2));
    let [Challenge { text, echo: true, .. }] = questions(&pair)[..] else { panic!("{:?}", questions(&pair)) };
    assert_eq!(text, "PIN of the day:");
    answer(&mut pair, Ok("12:34"));
    assert_eq!(shown(&pair), ["ann2", "CRV1::state::12:34"]);
    let remotes: Vec<usize> = pair
        .client_events
        .iter()
        .filter_map(|event| if let Event::Open { remote } = event { Some(*remote) } else { None })
        .collect();
    assert_eq!(remotes, [0, 0], "the server that asked knows the state");
    ends(&mut pair, VERIFY, 0, &[]);
    assert!(pair.is_up());
    pair.client.handle_command(pair.now, Command::Restart);
    pair.advance(Duration::from_secs(10));
    assert_eq!(shown(&pair), ["ann", "s3 cret"]);
}

#[test]
fn a_challenge_that_wants_no_answer() {
    let mut pair = pair(|_, _| {});
    ends(&mut pair, VERIFY, 1, &["", "", "CRV1:E:state:YW5u:Look at your telephone"]);
    assert!(log_says(&pair.client_events, "Look at your telephone"));
    pair.advance(Duration::from_secs(2));
    assert!(questions(&pair).is_empty());
    assert_eq!(shown(&pair), ["ann", "CRV1::state::"]);
}

#[test]
fn a_challenge_to_a_client_that_asks_nobody() {
    for (retry, words) in [(Some(AuthRetry::NoInteract), "auth-retry interact"), (None, "auth-user-pass")] {
        let mut pair = pair(|client, server| {
            server.access.optional = true;
            match (retry, &mut client.auth) {
                (Some(retry), Some(auth)) => auth.retry = retry,
                (_, auth) => *auth = None,
            }
        });
        ends(&mut pair, VERIFY, 1, &["", "", CRV1]);
        let why = end_of(&pair).unwrap();
        assert!(why.contains(words) && why.contains("PIN of the day"), "{why}");
    }
}

/// A refused client that asks again asks the same server, which knows it.
#[test]
fn a_refused_client_stays_with_its_server() {
    let mut pair = pair(|client, _| {
        client.remotes.push(RemoteParams::new("other".to_owned(), adit_core::Transport::Udp));
        client.auth.as_mut().unwrap().retry = AuthRetry::NoInteract;
    });
    ends(&mut pair, VERIFY, 1, &[]);
    let opens = |pair: &Pair| {
        pair.client_events.iter().filter(|event| matches!(event, Event::Open { remote: 0 })).count()
    };
    pair.advance(Duration::from_secs(9));
    assert_eq!(opens(&pair), 1, "the same password waits for 10 s: {:?}", pair.client_events);
    pair.advance(Duration::from_secs(10));
    assert_eq!(opens(&pair), 2, "{:?}", pair.client_events);
    let refused = |event: &Event| {
        matches!(event, Event::Request(Request::ConnectionFailed(ConnectionFailure::Refused(_))))
    };
    assert!(pair.client_events.iter().any(refused), "{:?}", pair.client_events);
}

fn texting() -> Pair {
    texting_with(|_| {})
}

fn texting_with(change: impl FnOnce(&mut ClientParams)) -> Pair {
    let mut pair = pair(|client, server| {
        change(client);
        client.peer_info.push(("IV_SSO".to_owned(), "webauth,crtext".to_owned()));
        server.access.client_crresponse = Some(vec!["/code".to_owned(), "word".to_owned()]);
    });
    ends(&mut pair, VERIFY, 2, &["", "120\ncrtext\nCR_TEXT:R:Code: of today?\n", ""]);
    pair
}

#[test]
fn a_question_while_the_server_waits() {
    let mut pair = texting();
    let [Challenge { text, echo: false, .. }] = questions(&pair)[..] else {
        panic!("{:?}", questions(&pair))
    };
    assert_eq!(text, "Code: of today?");
    // Longer than the window of a handshake.
    pair.advance(Duration::from_secs(90));
    answer(&mut pair, Ok("123456"));
    let script = asked(&pair, RESPONSE).remove(0);
    assert_eq!(script.argv, ["/code", "word"]);
    let [ScriptFile { content, is_argument: true, variable: None }] = &script.files[..] else { panic!() };
    assert_eq!(content.as_slice(), b"MTIzNDU2");
    assert_eq!(script.beside, Some(asked(&pair, VERIFY)[0].id));
    assert_eq!((variable(script, "username"), variable(script, "password")), (Some("ann"), None));
    ends(&mut pair, RESPONSE, 0, &[]);
    assert!(!accepted(&pair) && end_of(&pair).is_none(), "the script itself lets nobody in");
    ends(&mut pair, VERIFY, 2, &["1"]);
    assert!(pair.is_up());
    assert!(!log_says(&pair.server_events, "123456") && !log_says(&pair.server_events, "MTIzNDU2"));
}

/// The server is not heard again while it waits, and the client waits in vain.
fn waits_in_vain(mut pair: Pair, seconds: u64, reason: &str) {
    pair.cut = true;
    pair.advance(Duration::from_secs(seconds - 1));
    assert!(!log_says(&pair.client_events, "next attempt"), "{:?}", pair.client_events);
    pair.advance(Duration::from_secs(1));
    let words = format!("was still waiting for the second factor after {seconds} s (AUTH_PENDING): {reason}");
    assert!(log_says(&pair.client_events, &words), "{:?}", pair.client_events);
}

#[test]
fn a_wait_for_the_second_factor_that_was_too_short() {
    waits_in_vain(texting(), 120, "that is all the time it gives");
    waits_in_vain(
        texting_with(|client| client.control.rekey.after = Some(Duration::from_secs(180))),
        90,
        "it gives 120 s, but here half of reneg-sec",
    );
    let before_2_6 = texting_with(|client| client.data.before_2_6 = true);
    waits_in_vain(before_2_6, 60, "it names no time, so hand-window ends the wait here");
}

#[test]
fn a_wrong_answer_is_the_end() {
    let mut pair = texting();
    answer(&mut pair, Ok("654321"));
    ends(&mut pair, RESPONSE, 1, &[""]);
    assert!(!accepted(&pair) && end_of(&pair).is_some());
    assert!(log_says(&pair.server_events, "client-crresponse says no"));
    // Whatever the other script says now.
    ends(&mut pair, VERIFY, 2, &["1"]);
    assert!(!accepted(&pair));
}

/// CR_RESPONSE as a client may send it, asked or not.
fn responds_again(pair: &mut Pair, times: usize) {
    for _ in 0..times {
        // Each time as if it were the first answer.
        ends(pair, VERIFY, 2, &["", "120\ncrtext\nCR_TEXT:R:Again?\n", ""]);
        answer(pair, Ok("1"));
    }
}

#[test]
fn answers_are_judged_one_by_one_and_not_without_end() {
    let mut pair = texting();
    responds_again(&mut pair, 2);
    assert_eq!(asked(&pair, RESPONSE).len(), 1);
    assert!(log_says(&pair.server_events, "the one before is still being judged"));
    for wanted in [2, 3, 3] {
        ends(&mut pair, RESPONSE, 0, &[""]);
        responds_again(&mut pair, 1);
        assert_eq!(asked(&pair, RESPONSE).len(), wanted);
    }
    assert!(log_says(&pair.server_events, "it answered 3 times already"));
}

#[test]
fn an_answer_that_nobody_waits_for() {
    let mut pair = texting();
    let id = questions(&pair)[0].id;
    ends(&mut pair, VERIFY, 2, &["1"]);
    assert!(pair.is_up());
    answer_to(&mut pair, id, Ok("late"));
    assert!(asked(&pair, RESPONSE).is_empty() && log_says(&pair.server_events, "nothing was asked"));
    answer_to(&mut pair, id, Ok("twice"));
    assert!(log_says(&pair.client_events, "came too late"));
    assert!(pair.is_up());
}
