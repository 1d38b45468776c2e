//! `crl-verify`: a client on the list does not come in, and goes when the list is read anew.
use std::time::Duration;

use adit_core::{PeerOrder, Protocol, Transport};
use adit_openvpn::request::{DataEvent, Event, Reply};
use adit_openvpn::testing::{
    Authority, Pair, client_params, environment, requirements, serial, server_params,
};
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::{TlsConfig, credentials};
use adit_pki::Revocations;
use rcgen::ExtendedKeyUsagePurpose;

/// A server with these lists and the client "client".
fn pair(authority: &Authority, revocations: &Revocations) -> Pair {
    pair_over(authority, revocations, Transport::Udp)
}

fn pair_over(authority: &Authority, revocations: &Revocations, transport: Transport) -> Pair {
    let identity = authority.issue("server", ExtendedKeyUsagePurpose::ServerAuth);
    let mut server = server_params(&identity, WrapConfig::Plain);
    let mut wanted = requirements();
    wanted.revocations = Some(revocations.clone());
    server.control.tls =
        TlsConfig::Server(credentials::server_tls(&identity, wanted, &environment()).unwrap());
    server.control.revocations = Some(revocations.clone());
    let identity = authority.issue("client", ExtendedKeyUsagePurpose::ClientAuth);
    Pair::new(client_params(&identity, WrapConfig::Plain, transport), server)
}

fn told(events: &[Event], words: &str) -> bool {
    events.iter().any(|event| matches!(event, Event::Report(report) if report.text.contains(words)))
}

#[test]
fn who_is_on_the_list_is_refused() {
    let authority = Authority::new();
    let lists = Revocations::from_lists(&authority.revoke(&[7, serial("client")], 2026)).unwrap();
    let pair = pair(&authority, &lists);
    assert!(!pair.is_up() && told(&pair.server_events, "was revoked"));
    let lists = Revocations::from_lists(&authority.revoke(&[7], 2026)).unwrap();
    assert!(self::pair(&authority, &lists).is_up());
}

#[test]
fn a_forged_list_lets_nobody_in() {
    let (authority, other) = (Authority::new(), Authority::new());
    // The authority's name, but another key.
    let lists = Revocations::from_lists(&other.revoke(&[serial("client")], 2026)).unwrap();
    assert!(!pair(&authority, &lists).is_up());
}

#[test]
fn a_list_past_its_date_lets_nobody_in() {
    let authority = Authority::new();
    let lists = Revocations::from_lists(&authority.revoke(&[], 2025)).unwrap();
    let pair = pair(&authority, &lists);
    assert!(!pair.is_up() && told(&pair.server_events, "expired"));
}

#[test]
fn serial_numbers_in_a_directory() {
    let authority = Authority::new();
    let names = format!("README\n{}\n", serial("client"));
    assert!(!pair(&authority, &Revocations::from_serials(names.as_bytes())).is_up());
    assert!(pair(&authority, &Revocations::from_serials(b"1\n")).is_up());
}

#[test]
fn a_new_list_holds_at_once() {
    let authority = Authority::new();
    let lists = Revocations::from_lists(&authority.revoke(&[], 2026)).unwrap();
    let mut pair = pair(&authority, &lists);
    assert!(pair.is_up());
    let update = |pair: &mut Pair, content: Vec<u8>| {
        let now = pair.now;
        pair.server.handle_reply(now, Reply::RevocationList(content));
        pair.exchange();
    };
    update(&mut pair, b"no list".to_vec());
    assert!(told(&pair.server_events, "stays in force") && pair.is_up());
    update(&mut pair, authority.revoke(&[serial("somebody")], 2026));
    assert!(pair.is_up());
    update(&mut pair, authority.revoke(&[serial("client")], 2026));
    assert!(pair.server.peers().is_empty() && told(&pair.server_events, "was revoked"));
    // The client gets the reason and ends, as it could not come back.
    assert!(told(&pair.client_events, "your certificate was revoked"));
    assert!(pair.client_events.iter().any(|event| matches!(event, Event::Ended(_))));
}

#[test]
fn who_is_revoked_stops_at_once_and_is_told_until_it_hears() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let authority = Authority::new();
        let lists = Revocations::from_lists(&authority.revoke(&[], 2026)).unwrap();
        let mut pair = pair_over(&authority, &lists, transport);
        assert!(pair.is_up());
        let (now, revoked) = (pair.now, authority.revoke(&[serial("client")], 2026));
        pair.server_events.clear();
        pair.server.handle_reply(now, Reply::RevocationList(revoked));
        assert!(pair.server.peers().is_empty());
        // The data plane forgets the client before the client is notified, and the first packet is lost.
        while let Some(event) = pair.server.poll_event() {
            pair.server_events.push(event);
        }
        let removed = |event: &&Event| matches!(event, Event::Data(DataEvent::Peer(PeerOrder::Remove(_))));
        assert_eq!(pair.server_events.iter().filter(removed).count(), 1);
        let mut lost = Vec::new();
        assert!(pair.server.poll_transmit(&mut lost).is_some());
        pair.exchange();
        assert!(pair.client.peers().len() == 1, "it has not heard of it");
        pair.advance(Duration::from_secs(3));
        assert!(told(&pair.client_events, "your certificate was revoked") && pair.client.peers().is_empty());
        // After its time nothing of it is left, and no event came twice.
        pair.advance(Duration::from_secs(5));
        assert_eq!(pair.server.poll_timeout(), None);
        assert_eq!(pair.server_events.iter().filter(removed).count(), 1);
        let down = |event: &&Event| matches!(event, Event::PeerDown { .. });
        assert_eq!(pair.server_events.iter().filter(down).count(), 1);
        let closed = pair.server_events.iter().any(|event| matches!(event, Event::Close { .. }));
        assert_eq!(closed, transport == Transport::Tcp);
    }
}

#[test]
fn other_lists_hold_at_once() {
    let authority = Authority::new();
    let identity = authority.issue("server", ExtendedKeyUsagePurpose::ServerAuth);
    let params = |lists: Option<Revocations>| {
        let mut server = server_params(&identity, WrapConfig::Plain);
        let wanted = adit_pki::PeerRequirements { revocations: lists.clone(), ..requirements() };
        server.control.tls =
            TlsConfig::Server(credentials::server_tls(&identity, wanted, &environment()).unwrap());
        server.control.revocations = lists;
        server
    };
    let client = authority.issue("client", ExtendedKeyUsagePurpose::ClientAuth);
    let client = client_params(&client, WrapConfig::Plain, Transport::Udp);
    let mut pair = Pair::new(client, params(None));
    assert!(pair.is_up());
    let lists = |serials: &[u64]| Some(Revocations::from_lists(&authority.revoke(serials, 2026)).unwrap());
    pair.server.reconfigure(params(lists(&[7])));
    pair.exchange();
    assert_eq!(pair.server.peers().len(), 1, "it is on no list");
    pair.server.reconfigure(params(lists(&[serial("client")])));
    pair.exchange();
    assert!(pair.server.peers().is_empty() && told(&pair.server_events, "was revoked"));
}
