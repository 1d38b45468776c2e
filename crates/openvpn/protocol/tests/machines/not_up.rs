//! A client whose system refuses what the tunnel cannot be without.
use std::time::Duration;

use adit_core::{Command, Protocol, Report, Transport};
use adit_openvpn::Client;
use adit_openvpn::request::Event;
use adit_openvpn::testing::{Authority, Pair, client_params, server_params};
use adit_openvpn::wrap::WrapConfig;
use rcgen::ExtendedKeyUsagePurpose;

const REASON: &str = "cannot add the route to 0.0.0.0/0 by tun0: Operation not permitted";

fn events(client: &mut Client) -> Vec<Event> {
    std::iter::from_fn(|| client.poll_event()).collect()
}

fn tells(events: &[Event], word: &str) -> bool {
    events.iter().any(|event| matches!(event, Event::Report(Report { text, .. }) if text.contains(word)))
}

/// The connection fails with the words that name the route, no script and no program is notified of the peer, and the
/// next attempt may succeed.
#[test]
fn a_tunnel_that_is_not_up_is_left_and_tried_again() {
    let authority = Authority::new();
    let client = authority.issue("alice", ExtendedKeyUsagePurpose::ClientAuth);
    let server = authority.issue("vpn.example.org", ExtendedKeyUsagePurpose::ServerAuth);
    let client = client_params(&client, WrapConfig::Plain, Transport::Udp);
    let server = server_params(&server, WrapConfig::Plain);
    let mut pair = Pair::refusing(client, server, REASON);
    assert!(!pair.is_up());
    assert!(tells(&pair.client_events, REASON), "{:?}", pair.client_events);
    let of_peer = |event: &Event| matches!(event, Event::PeerUp { .. } | Event::PeerDown { .. });
    assert!(!pair.client_events.iter().any(of_peer));
    pair.refusal = None;
    pair.advance(Duration::from_secs(30));
    assert!(pair.is_up());

    // It comes too late for a connection that is over, and before one there is nothing to leave.
    pair.client.handle_command(pair.now, Command::Shutdown);
    pair.exchange();
    pair.client.handle_command(pair.now, Command::NotUp { reason: REASON.to_owned() });
    assert!(!tells(&events(&mut pair.client), REASON));
}
