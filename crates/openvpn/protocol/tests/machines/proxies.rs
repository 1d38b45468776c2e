//! A proxy between a client and its server that asks for a username and a password.

use std::time::Duration;

use adit_core::{Command, Instant, OpenFailure, Protocol, Transport};
use adit_openvpn::Client;
use adit_openvpn::params::ClientParams;
use adit_openvpn::request::{Event, Reply, Request};
use adit_openvpn::testing::{Authority, client_params};
use adit_openvpn::wrap::WrapConfig;
use rcgen::ExtendedKeyUsagePurpose::ClientAuth;

const NOW: Instant = Instant::ORIGIN;

/// A client that asks for the credentials of a proxy, and wants its first path.
fn client(change: impl FnOnce(&mut ClientParams)) -> Client {
    let credentials = Authority::new().issue("alice", ClientAuth);
    let mut params = client_params(&credentials, WrapConfig::Plain, Transport::Tcp);
    params.asks_for_proxy_credentials = true;
    change(&mut params);
    let mut client = Client::new(params, NOW, [1; 32]);
    assert!(opens(&events(&mut client)));
    client
}

fn events(client: &mut Client) -> Vec<Event> {
    std::iter::from_fn(|| client.poll_event()).collect()
}

fn opens(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event, Event::Open { remote: 0 }))
}

/// Whether the proxy refused something, if the client asks for credentials.
fn asked(events: &[Event]) -> Option<bool> {
    events.iter().find_map(|event| match event {
        Event::Request(Request::ProxyCredentials { remote: 0, refused }) => Some(*refused),
        _ => None,
    })
}

fn says(events: &[Event], words: &str) -> bool {
    events.iter().any(|event| matches!(event, Event::Report(report) if report.text.contains(words)))
}

fn has_ended(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event, Event::Ended(_)))
}

fn fails(client: &mut Client, now: Instant, refused: bool) -> Vec<Event> {
    let failure = OpenFailure::NeedsCredentials { text: "the proxy asks".to_owned(), refused };
    client.handle_command(now, Command::OpenFailed { remote: 0, failure });
    events(client)
}

/// The person answers.
fn answers(client: &mut Client, now: Instant) -> Vec<Event> {
    client.handle_reply(now, Reply::ProxyCredentials(Ok(())));
    events(client)
}

#[test]
fn the_same_attempt_goes_on_when_the_proxy_can_be_told() {
    let mut client = client(|_| {});
    assert_eq!(asked(&fails(&mut client, NOW, false)), Some(false));
    assert_eq!(client.poll_timeout(), None, "it waits for the person");
    assert!(opens(&answers(&mut client, NOW)));
    assert_eq!(asked(&fails(&mut client, NOW, true)), Some(true));
    client.handle_reply(NOW, Reply::ProxyCredentials(Err("there is no terminal".to_owned())));
    assert!(says(&events(&mut client), "the proxy asks; there is no terminal; next attempt in 1 s"));
    let later = NOW + Duration::from_secs(1);
    client.handle_timeout(later);
    assert!(opens(&events(&mut client)));
    // Too late: the question is not asked any more.
    assert!(answers(&mut client, later).is_empty());
}

/// As a server that does not answer: the waits of `connect-retry`, which double from the sixth attempt on.
#[test]
fn a_proxy_that_refuses_is_asked_again_after_the_wait() {
    let mut client = client(|_| {});
    let mut now = NOW;
    for seconds in [1, 1, 1, 1, 1, 2, 4] {
        let refused = fails(&mut client, now, true);
        assert_eq!(asked(&refused), Some(true), "the person is asked at once");
        let words = format!("the proxy asks; next attempt in {seconds} s at the earliest");
        assert!(says(&refused, &words), "{words}");
        assert!(!opens(&answers(&mut client, now)));
        let wait = Duration::from_secs(seconds);
        assert_eq!(client.poll_timeout(), Some(now + wait));
        now += wait;
        client.handle_timeout(now);
        assert!(opens(&events(&mut client)));
    }
    // A person who answers later than the wait ends need not wait any more.
    assert_eq!(asked(&fails(&mut client, now, true)), Some(true));
    now += Duration::from_secs(9);
    assert!(opens(&answers(&mut client, now)));
}

#[test]
fn an_attempt_that_a_proxy_refused_is_one_of_those_allowed() {
    let mut client = client(|params| params.retry_max = Some(2));
    assert_eq!(asked(&fails(&mut client, NOW, true)), Some(true));
    assert!(answers(&mut client, NOW).is_empty());
    let later = NOW + Duration::from_secs(1);
    client.handle_timeout(later);
    assert!(opens(&events(&mut client)));
    let last = fails(&mut client, later, true);
    assert!(asked(&last).is_none() && has_ended(&last), "no answer would be of use (connect-retry-max)");
}

#[test]
fn a_lost_attempt_that_is_the_end_is_it_by_a_proxy_too() {
    let mut client = client(|params| params.ends_when_lost = true);
    let lost = fails(&mut client, NOW, true);
    assert!(asked(&lost).is_none() && has_ended(&lost) && says(&lost, "remap-usr1"));
}

#[test]
fn what_is_answered_after_the_attempt_is_not_taken() {
    let mut client = client(|_| {});
    assert_eq!(asked(&fails(&mut client, NOW, false)), Some(false));
    client.handle_command(NOW, Command::Restart);
    let restarted = events(&mut client);
    assert!(says(&restarted, "told to restart; next attempt in 1 s"));
    let is_withdrawn = |event: &Event| matches!(event, Event::Request(Request::ProxyCredentialsNotNeeded));
    assert!(restarted.iter().any(is_withdrawn));
    assert!(answers(&mut client, NOW).is_empty());
    assert_eq!(client.poll_timeout(), Some(NOW + Duration::from_secs(1)));
}

/// It was counted when the proxy refused it.
#[test]
fn a_restart_does_not_count_an_attempt_again_that_a_proxy_refused() {
    let mut client = client(|params| params.retry_max = Some(3));
    assert_eq!(asked(&fails(&mut client, NOW, true)), Some(true));
    client.handle_command(NOW, Command::Restart);
    assert!(says(&events(&mut client), "told to restart; next attempt in 1 s"));
    assert!(answers(&mut client, NOW).is_empty());
    let later = NOW + Duration::from_secs(1);
    client.handle_timeout(later);
    assert!(opens(&events(&mut client)));
    let second = fails(&mut client, later, true);
    assert!(asked(&second) == Some(true) && !has_ended(&second), "three are allowed");
}

#[test]
fn without_someone_to_ask_the_attempt_has_failed() {
    let mut client = client(|params| params.asks_for_proxy_credentials = false);
    let events = fails(&mut client, NOW, false);
    assert!(asked(&events).is_none() && says(&events, "the proxy asks; next attempt in 1 s"));
}
