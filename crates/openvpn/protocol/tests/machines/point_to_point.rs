//! Point-to-point: two ends that push nothing agree by what each says of itself.
use std::net::IpAddr;
use std::time::Duration;

use adit_core::{Cipher, Command, Ended, Notice, Path, PeerId, PeerOrder, Protocol, Transport};
use adit_openvpn::codec::{DataHeader, Framing};
use adit_openvpn::params::{ClientParams, Keepalive, LocalSettings, PointToPointParams, ServerParams};
use adit_openvpn::request::{DataEvent, Event, Install, Reply};
use adit_openvpn::testing::{Authority, Pair, client_params, roams, server_params};
use adit_openvpn::wrap::WrapConfig;
use rcgen::ExtendedKeyUsagePurpose;

fn ends(transport: Transport) -> (ClientParams, ServerParams) {
    let authority = Authority::new();
    let client = authority.issue("east", ExtendedKeyUsagePurpose::ClientAuth);
    let server = authority.issue("west", ExtendedKeyUsagePurpose::ServerAuth);
    let local = |own: &str, other: &str| LocalSettings {
        addresses: vec![own.parse().unwrap()],
        peer_address: Some(other.parse().unwrap()),
        ..LocalSettings::default()
    };
    let client = ClientParams {
        pull: false,
        local: local("10.4.0.2/32", "10.4.0.1"),
        ..client_params(&client, WrapConfig::Plain, transport)
    };
    let mut server = server_params(&server, WrapConfig::Plain);
    server.point_to_point = Some(PointToPointParams {
        local: local("10.4.0.1/32", "10.4.0.2"),
        exit_notify: true,
        ..PointToPointParams::default()
    });
    (client, server)
}

fn installs(events: &[Event]) -> Vec<&Install> {
    let install = |event| match event {
        &Event::Data(DataEvent::Install(ref install)) => Some(&**install),
        _ => None,
    };
    events.iter().filter_map(install).collect()
}

fn header(install: &Install) -> DataHeader {
    match install.codec.framing {
        Framing::Data(framing) | Framing::Epoch(framing) => framing.header,
        Framing::StaticKey(_) => panic!("no key exchange"),
    }
}

#[test]
fn both_ends_come_up_with_the_same_keys_and_peer_id() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let (mut client, mut server) = ends(transport);
        client.data.ciphers = vec![Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];
        server.data.ciphers = vec![Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm];
        let mut pair = Pair::new(client, server);
        assert!(pair.is_up());
        assert_eq!(pair.cipher(), Some(Cipher::ChaCha20Poly1305), "the TLS server's order decides");
        let (at_client, at_server) = (installs(&pair.client_events)[0], installs(&pair.server_events)[0]);
        assert_eq!(at_client.codec.seal.key, at_server.codec.open.key);
        assert_eq!(at_client.codec.open.key, at_server.codec.seal.key);
        assert_eq!(header(at_client), header(at_server));
        assert!(matches!(header(at_client), DataHeader::V2 { peer_id } if peer_id != 0));
        assert_eq!((at_client.peer, at_server.peer), (PeerId::SERVER, PeerId::SERVER));
        let up = pair.client_events.iter().find_map(|event| match event {
            Event::Up(settings) => Some(settings.clone()),
            _ => None,
        });
        assert_eq!(up.unwrap().peer_address, Some("10.4.0.1".parse::<IpAddr>().unwrap()));

        pair.server.handle_command(pair.now, Command::Rekey { peer: PeerId::SERVER });
        pair.exchange();
        assert_eq!(installs(&pair.server_events).len(), 2);
        assert_eq!(pair.client.peers()[0].1.rekeys, 1);
    }
}

/// Whether the events leave the peer in the data plane, and how often it was added.
fn peer_of(events: &[Event]) -> (bool, usize) {
    let (mut there, mut added) = (false, 0);
    for event in events {
        match event {
            Event::Data(DataEvent::Peer(PeerOrder::Add(config))) => {
                assert!(!there, "two peers at once");
                assert_eq!(config.peer, PeerId::SERVER);
                (there, added) = (true, added + 1);
            }
            Event::Data(DataEvent::Peer(PeerOrder::Remove(peer))) => {
                assert_eq!((there, *peer), (true, PeerId::SERVER));
                there = false;
            }
            _ => {}
        }
    }
    (there, added)
}

#[test]
fn a_peer_that_comes_back_takes_its_own_place() {
    let (client, server) = ends(Transport::Udp);
    let mut pair = Pair::new(client, server);
    // From another port, and the server never heard that the first connection ended.
    pair.cut = true;
    pair.client.handle_command(pair.now, Command::Restart);
    pair.exchange();
    pair.cut = false;
    pair.advance(Duration::from_secs(2));
    assert!(pair.is_up());
    assert_eq!(peer_of(&pair.server_events), (true, 2));
    assert_eq!(pair.server.peers()[0].0, PeerId::SERVER);
}

#[test]
fn exit_notices_are_heard() {
    let (client, server) = ends(Transport::Udp);
    let mut pair = Pair::new(client.clone(), server.clone());
    pair.client.handle_command(pair.now, Command::Shutdown);
    pair.exchange();
    assert_eq!(peer_of(&pair.server_events), (false, 1));

    let mut pair = Pair::new(client, server);
    pair.server.handle_command(pair.now, Command::Shutdown);
    pair.exchange();
    assert_eq!(peer_of(&pair.client_events), (false, 1));
    let ended = |event: &Event| matches!(event, Event::Ended(Ended::Shutdown));
    assert!(pair.server_events.iter().any(ended));
}

#[test]
fn ping_exit_ends_either_end() {
    let keepalive = Keepalive { ping: None, timeout: Some(Duration::from_secs(5)), exit: true };
    let (client, server) = ends(Transport::Udp);
    let mut pair = Pair::new(ClientParams { keepalive, ..client }, ServerParams { keepalive, ..server });
    assert!(pair.is_up());
    pair.cut = true;
    // An unanswered exit notice takes a second.
    pair.advance(Duration::from_secs(7));
    for events in [&pair.client_events, &pair.server_events] {
        let says = |event: &Event| matches!(event, Event::Report(report) if report.text.contains("(ping-exit); this ends"));
        assert!(events.iter().any(says), "{events:?}");
        // As in OpenVPN, this is no failure.
        assert!(events.iter().any(|event| matches!(event, Event::Ended(Ended::Shutdown))), "{events:?}");
        assert!(!peer_of(events).0);
    }
}

#[test]
fn remote_says_where_the_other_end_is_unless_it_floats() {
    let (client, mut server) = ends(Transport::Udp);
    server.point_to_point.as_mut().unwrap().only_from = Some(vec!["192.0.2.77".parse().unwrap()]);
    assert!(!Pair::new(client.clone(), server.clone()).is_up());
    server.point_to_point.as_mut().unwrap().only_from = Some(vec!["192.0.2.2".parse().unwrap()]);
    let mut pair = Pair::new(client.clone(), server.clone());
    assert!(pair.is_up());
    let elsewhere = Path::Udp { socket: 1, remote: "198.51.100.9:7".parse().unwrap() };
    let moved = |events: &[Event]| {
        events.iter().any(|e| matches!(e, Event::Data(DataEvent::Peer(PeerOrder::Move { .. }))))
    };
    assert_eq!((roams(&pair.client_events), roams(&pair.server_events)), (Some(false), Some(false)));
    let notice = Notice::Moved { peer: PeerId::SERVER, path: elsewhere };
    pair.server.handle_notice(pair.now, notice.clone());
    pair.client.handle_notice(pair.now, notice.clone());
    pair.exchange();
    assert!(!moved(&pair.server_events) && !moved(&pair.client_events));

    server.point_to_point.as_mut().unwrap().only_from = None;
    let mut pair = Pair::new(ClientParams { float: true, ..client }, server);
    assert_eq!((roams(&pair.client_events), roams(&pair.server_events)), (Some(true), Some(true)));
    pair.server.handle_notice(pair.now, notice.clone());
    pair.client.handle_notice(pair.now, notice);
    pair.exchange();
    assert!(moved(&pair.server_events) && moved(&pair.client_events));
    assert_eq!(pair.server.peers()[0].1.path, elsewhere);
}

/// A name whose address changes, or is not known yet.
#[test]
fn the_addresses_of_the_other_end_may_change() {
    let (client, mut server) = ends(Transport::Udp);
    server.point_to_point.as_mut().unwrap().only_from = Some(Vec::new());
    let mut pair = Pair::new(client, server);
    pair.advance(Duration::from_secs(10));
    assert!(!pair.is_up(), "none is known");
    let here = Reply::PeerAddresses(vec!["192.0.2.2".parse().unwrap()]);
    pair.server.handle_reply(pair.now, here);
    let mut comes_up = |_| {
        pair.advance(Duration::from_secs(1));
        pair.is_up()
    };
    assert!((0..300).any(&mut comes_up));
    // A client that is in stays until it comes anew.
    let elsewhere = Reply::PeerAddresses(vec!["192.0.2.77".parse().unwrap()]);
    pair.server.handle_reply(pair.now, elsewhere);
    pair.advance(Duration::from_secs(1));
    assert!(pair.is_up());
    pair.client.handle_command(pair.now, Command::Restart);
    pair.advance(Duration::from_secs(10));
    assert!(!pair.is_up());
}

#[test]
fn single_session_keeps_the_peer_that_is_up() {
    for single in [false, true] {
        let (client, mut server) = ends(Transport::Udp);
        server.point_to_point.as_mut().unwrap().single = single;
        let mut pair = Pair::new(client, server);
        // The server does not notice that the client goes.
        pair.cut = true;
        pair.client.handle_command(pair.now, Command::Restart);
        pair.exchange();
        pair.cut = false;
        pair.advance(Duration::from_secs(5));
        assert_eq!(pair.client.peers().is_empty(), single);
        // Once the old connection is given up, there is room.
        let mut comes_up = |_| {
            pair.advance(Duration::from_secs(1));
            pair.is_up()
        };
        assert!((0..300).any(&mut comes_up));
    }
}

#[test]
fn ends_without_a_common_cipher_say_so() {
    let (mut client, mut server) = ends(Transport::Udp);
    client.data.ciphers = vec![Cipher::Aes128Gcm];
    server.data.ciphers = vec![Cipher::ChaCha20Poly1305];
    let pair = Pair::new(client, server);
    let told = |event: &Event| matches!(event, Event::Ended(Ended::Failed(why)) if why.contains("no data cipher in common"));
    assert!(pair.client_events.iter().any(told), "{:?}", pair.client_events);
    assert!(pair.server.peers().is_empty());
}

#[test]
fn other_settings_hold_at_once_or_at_the_next_restart() {
    let (client, server) = ends(Transport::Udp);
    let mut other = server.clone();
    let mut pair = Pair::new(client, server);
    assert!(pair.is_up());
    other.keepalive.timeout = Some(Duration::from_secs(5));
    other.data.tun_mtu = 1400;
    let own = vec!["10.6.0.1/32".parse().unwrap()];
    other.point_to_point.as_mut().unwrap().local.addresses.clone_from(&own);
    pair.server_events.clear();
    pair.server.reconfigure(other.clone());
    pair.exchange();
    assert!(pair.server_events.is_empty(), "nothing is dropped: {:?}", pair.server_events);
    assert_eq!(pair.server.peers().len(), 1);

    pair.server.handle_command(pair.now, Command::Restart);
    pair.exchange();
    let up = pair.server_events.iter().find_map(|event| match event {
        Event::Up(settings) => Some((settings.addresses.clone(), settings.mtu)),
        _ => None,
    });
    assert_eq!(up, Some((own, 1400)), "{:?}", pair.server_events);

    // Nothing waits any more.
    pair.server_events.clear();
    pair.server.handle_command(pair.now, Command::Restart);
    pair.exchange();
    assert!(!pair.server_events.iter().any(|event| matches!(event, Event::Up(_))));
}

#[test]
fn a_silent_end_is_judged_by_the_new_time() {
    let (client, server) = ends(Transport::Udp);
    let mut other = server.clone();
    let mut pair = Pair::new(client, server);
    assert!(pair.is_up());
    other.keepalive.timeout = Some(Duration::from_secs(5));
    pair.server.reconfigure(other);
    let due = pair.server.poll_timeout().unwrap();
    assert!(due <= pair.now + Duration::from_secs(5), "it is woken in time");
    pair.server.handle_timeout(pair.now + Duration::from_secs(6));
    assert!(pair.server.peers().is_empty());
}
