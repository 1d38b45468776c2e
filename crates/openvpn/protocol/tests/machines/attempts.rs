//! The requests and reports of a client on its way to a server: the steps, the hold, another remote, a program's
//! answers.

use std::time::Duration;

use adit_core::{Command, Protocol, Transport};
use adit_openvpn::params::{AuthRetry, ClientParams, RemoteParams};
use adit_openvpn::request::{Event, Progress, RemoteDecision, Reply, Request};
use adit_openvpn::testing::Pair;
use adit_openvpn::testing::judged::{accepted, asked, ends, log_says, pair, user, variable};

const VERIFY: &str = "user-pass-verify";
const CRV1: &str = "CRV1:R,E:state:YW5u:PIN of the day:";

/// The requests, in order.
fn requests(pair: &Pair) -> Vec<&Request> {
    let mut requests = Vec::new();
    for event in &pair.client_events {
        if let Event::Request(request) = event {
            requests.push(request);
        }
    }
    requests
}

fn steps(pair: &Pair) -> Vec<Progress> {
    let step = |request: &Request| match request {
        Request::Progress(step) => Some(*step),
        _ => None,
    };
    requests(pair).into_iter().filter_map(step).collect()
}

fn reply(pair: &mut Pair, reply: Reply) {
    pair.client.handle_reply(pair.now, reply);
    pair.exchange();
}

fn opened(pair: &Pair) -> Vec<usize> {
    let open = |event: &Event| if let Event::Open { remote } = event { Some(*remote) } else { None };
    pair.client_events.iter().filter_map(open).collect()
}

#[test]
fn each_step_is_told() {
    let mut pair = pair(|_, _| {});
    ends(&mut pair, VERIFY, 0, &[]);
    assert!(pair.is_up());
    let (named, transport) = (true, Transport::Udp);
    assert_eq!(
        steps(&pair),
        [
            Progress::Opening { named, transport },
            Progress::Waiting,
            Progress::Authenticating,
            Progress::AskingForSettings
        ]
    );
}

fn asking(client: &mut ClientParams) {
    (client.asks_to_go_on, client.asks_for_remote) = (true, true);
    for name in ["192.0.2.7", "third"] {
        client
            .remotes
            .push(RemoteParams { exit_notify: true, ..RemoteParams::new(name.to_owned(), Transport::Udp) });
    }
}

/// The remotes that the client asked about, and the waits for which it asked whether to go on.
fn queries(pair: &Pair) -> (Vec<String>, Vec<Duration>) {
    let (mut remotes, mut waits) = (Vec::new(), Vec::new());
    for request in requests(pair) {
        match request {
            Request::Remote(query) => {
                remotes.push(format!("{} {},{},{}", query.remote, query.host, query.port, query.protocol));
            }
            Request::MayGoOn { wait } => waits.push(*wait),
            _ => {}
        }
    }
    (remotes, waits)
}

#[test]
fn a_remote_is_accepted_skipped_or_replaced() {
    let mut pair = pair(|client, _| asking(client));
    assert_eq!(queries(&pair).0, ["0 server,1194,udp"]);
    assert!(opened(&pair).is_empty(), "not before it was decided");
    reply(&mut pair, Reply::Remote(RemoteDecision::Skip(1)));
    reply(&mut pair, Reply::Remote(RemoteDecision::Skip(2)));
    assert_eq!(queries(&pair).0[1..], ["1 192.0.2.7,1194,udp", "0 server,1194,udp"]);
    let instead = Some(("198.51.100.9".to_owned(), 443));
    reply(&mut pair, Reply::Remote(RemoteDecision::Try { instead }));
    assert_eq!(opened(&pair), [0]);
    assert!(log_says(&pair.client_events, "connecting to 198.51.100.9:443 (udp)"));
    assert!(matches!(steps(&pair)[0], Progress::Opening { named: false, .. }));
    ends(&mut pair, VERIFY, 0, &[]);
    assert!(pair.is_up());
    // A decision that was not asked for changes nothing.
    reply(&mut pair, Reply::Remote(RemoteDecision::Skip(1)));
    reply(&mut pair, Reply::GoOn { at_once: true });
    assert!(pair.is_up());
}

/// The decision holds for that attempt alone, also if it ends before a path is opened.
#[test]
fn each_attempt_asks_where_to_go() {
    let mut pair = pair(|client, _| {
        asking(client);
        client.asks_to_go_on = false;
        let auth = client.auth.as_mut().expect("a user");
        auth.credentials = None;
    });
    let instead = Some(("198.51.100.9".to_owned(), 443));
    reply(&mut pair, Reply::Remote(RemoteDecision::Try { instead }));
    let wants_password = |request: &&Request| matches!(request, Request::Credentials { .. });
    assert_eq!(requests(&pair).into_iter().filter(wants_password).count(), 1);
    pair.client.handle_command(pair.now, Command::Restart);
    pair.advance(Duration::from_secs(2));
    assert_eq!(queries(&pair).0.len(), 2);
    assert!(opened(&pair).is_empty());
}

#[test]
fn an_attempt_is_held_back() {
    let mut pair = pair(|client, _| client.asks_to_go_on = true);
    assert_eq!(
        (queries(&pair).1.len(), opened(&pair)),
        (0, vec![0]),
        "the first attempt is not held back here"
    );
    ends(&mut pair, VERIFY, 0, &[]);
    pair.client.handle_command(pair.now, Command::Restart);
    pair.advance(Duration::from_secs(60));
    assert_eq!((queries(&pair).1, opened(&pair)), (vec![Duration::from_secs(1)], vec![0]));
    // SIGUSR1 does not make a second question of it.
    pair.client.handle_command(pair.now, Command::Restart);
    pair.exchange();
    assert_eq!(queries(&pair).1.len(), 1);
    reply(&mut pair, Reply::GoOn { at_once: true });
    assert_eq!(opened(&pair), [0, 0], "at once");
    ends(&mut pair, VERIFY, 0, &[]);
    assert!(pair.is_up());
    // Not held back: the usual wait.
    pair.client.handle_command(pair.now, Command::Restart);
    reply(&mut pair, Reply::GoOn { at_once: false });
    assert_eq!(opened(&pair).len(), 2);
    pair.advance(Duration::from_secs(2));
    assert_eq!(opened(&pair).len(), 3);
}

#[test]
fn a_client_that_is_held_back_can_be_ended() {
    let mut pair = pair(|client, _| client.asks_to_go_on = true);
    pair.client.handle_command(pair.now, Command::Restart);
    pair.exchange();
    pair.client.handle_command(pair.now, Command::Shutdown);
    pair.exchange();
    assert!(pair.client_events.iter().any(|event| matches!(event, Event::Ended(_))));
}

fn by_program(client: &mut ClientParams) {
    let auth = client.auth.as_mut().expect("a user");
    (auth.by_program, auth.retry) = (true, AuthRetry::Interact);
}

/// A dynamic challenge reaches the program in the server's own words, and its answer goes back as it was packed.
#[test]
fn a_program_answers_a_dynamic_challenge() {
    let mut pair = pair(|client, _| by_program(client));
    ends(&mut pair, VERIFY, 1, &["", "", CRV1]);
    assert!(!accepted(&pair));
    pair.advance(Duration::from_secs(2));
    let reasons: Vec<_> = requests(&pair)
        .into_iter()
        .filter_map(
            |request| if let Request::Credentials { reason } = request { reason.clone() } else { None },
        )
        .collect();
    assert_eq!(reasons, [CRV1]);
    let credentials = user("CRV1::state::123").credentials.expect("credentials");
    reply(&mut pair, Reply::Credentials(Ok(credentials)));
    let script = asked(&pair, VERIFY).pop().expect("it is judged");
    assert_eq!(variable(script, "password"), Some("CRV1::state::123"));
    ends(&mut pair, VERIFY, 0, &[]);
    assert!(pair.is_up());
}

#[test]
fn forgotten_passwords_are_asked_for_again() {
    let mut pair = pair(|_, _| {});
    ends(&mut pair, VERIFY, 0, &[]);
    reply(&mut pair, Reply::ForgetPasswords);
    assert!(pair.is_up(), "the connection stays");
    pair.client.handle_command(pair.now, Command::Restart);
    pair.advance(Duration::from_secs(2));
    let asked = |request: &&Request| matches!(request, Request::Credentials { reason: None });
    assert_eq!(requests(&pair).into_iter().filter(asked).count(), 1);
}

#[test]
fn a_server_that_ends_the_connection_is_named() {
    let mut pair = pair(|_, _| {});
    ends(&mut pair, VERIFY, 0, &[]);
    pair.server
        .handle_reply(pair.now, Reply::KillClient { client: 0, message: "RESTART,[N]later".to_owned() });
    pair.exchange();
    let notice = |request: &&Request| {
        matches!(request, Request::ServerNotice(notice)
        if notice.kind == "server-pushed-connection-reset" && notice.text == "[N]later")
    };
    assert_eq!(requests(&pair).into_iter().filter(notice).count(), 1);
}

#[test]
fn messages_for_programs_are_passed_on() {
    let mut pair = pair(|_, server| {
        server.push.extend(["echo forget-passwords", "parameter a b"].map(str::to_owned));
    });
    ends(&mut pair, VERIFY, 0, &[]);
    let told: Vec<_> = requests(&pair)
        .into_iter()
        .filter_map(|request| if let Request::Echo(text) = request { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!(told, ["forget-passwords", "a b"]);
}
