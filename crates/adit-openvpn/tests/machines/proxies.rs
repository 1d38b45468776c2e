//! A proxy between a client and its server that wants to know who the client is.

use std::time::Duration;

use adit_core::{Command, Instant, OpenFailure, Protocol, Transport};
use adit_openvpn::Client;
use adit_openvpn::request::{Event, Reply, Request};
use adit_openvpn::testing::{Authority, client_params};
use adit_openvpn::wrap::WrapConfig;
use rcgen::ExtendedKeyUsagePurpose::ClientAuth;

const NOW: Instant = Instant::ORIGIN;

/// A client that wants its first path.
fn client(asks: bool) -> Client {
    let credentials = Authority::new().issue("alice", ClientAuth);
    let mut params = client_params(&credentials, WrapConfig::Plain, Transport::Tcp);
    params.asks_for_proxy_credentials = asks;
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

fn fails(client: &mut Client, refused: bool) -> Vec<Event> {
    let failure = OpenFailure::NeedsCredentials { text: "the proxy asks".to_owned(), refused };
    client.handle_command(NOW, Command::OpenFailed { remote: 0, failure });
    events(client)
}

#[test]
fn the_same_attempt_goes_on_when_the_proxy_can_be_told() {
    let mut client = client(true);
    for refused in [false, true] {
        assert_eq!(asked(&fails(&mut client, refused)), Some(refused));
        assert_eq!(client.poll_timeout(), None, "it waits for the person");
        client.handle_reply(NOW, Reply::ProxyCredentials(Ok(())));
        assert!(opens(&events(&mut client)));
    }
    assert_eq!(asked(&fails(&mut client, true)), Some(true));
    client.handle_reply(NOW, Reply::ProxyCredentials(Err("there is no terminal".to_owned())));
    assert!(says(&events(&mut client), "the proxy asks; there is no terminal; next attempt in 1 s"));
    let later = NOW + Duration::from_secs(1);
    client.handle_timeout(later);
    assert!(opens(&events(&mut client)));
    // Too late: the question is not asked any more.
    client.handle_reply(later, Reply::ProxyCredentials(Ok(())));
    assert!(events(&mut client).is_empty());
}

#[test]
fn without_someone_to_ask_the_attempt_has_failed() {
    let mut client = client(false);
    let events = fails(&mut client, false);
    assert!(asked(&events).is_none() && says(&events, "the proxy asks; next attempt in 1 s"));
}
