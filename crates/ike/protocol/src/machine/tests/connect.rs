//! Initiation, authentication, and the end of IKE SAs.

use adit_core::{Cipher, Command, Notice, Path, Protocol as _};

use super::world::*;
use crate::machine::{Limits, Traffic};
use crate::suite::{esp_proposals, ike_proposals};
use crate::wire::{ExchangeType, Header};

fn world() -> World {
    World::new(connection(A), connection(B))
}

/// Runs until the first connection is there, or could be.
fn connected() -> World {
    let mut world = world();
    world.run(seconds(5));
    world.assert_settled("after five seconds");
    world
}

#[test]
fn both_ends_have_the_same_keys_with_each_suite() {
    for (ike, esp) in [
        ("aes128gcm16-prfsha256-ecp256", "aes128gcm16"),
        ("aes256gcm16-prfsha384-ecp384", "aes256gcm16"),
        ("chacha20poly1305-prfsha512-ecp521", "chacha20poly1305-esn"),
        ("aes256-sha256-x25519", "aes256-sha256"),
        ("aes128-sha1-prfsha1-ecp256", "aes128-sha1"),
        ("aes192-sha512-sha384-mlkem768", "aes192-sha384"),
        ("aes256-sha256-modp2048", "aes256-sha256-modp2048"),
    ] {
        let with = |end| {
            let mut connection = connection(end);
            connection.ike = ike_proposals(ike).unwrap();
            connection.children[0].esp = esp_proposals(esp).unwrap();
            connection
        };
        let mut world = World::new(with(A), with(B));
        world.run(seconds(5));
        world.assert_settled(ike);
        let codec = world.planes[A].sessions.values().next().unwrap();
        assert_eq!(
            (codec.has_extended_sequence_numbers, codec.is_encapsulated),
            (esp.ends_with("-esn"), false)
        );
        assert_eq!((world.planes[A].ups, world.planes[B].ups, world.log.len()), (1, 1, 4));
        let info = &adit_core::Protocol::peers(&world.ends[B])[0].1;
        assert_eq!((info.name.as_str(), info.routes[0].to_string().as_str()), ("a.example", "10.1.0.0/16"));
    }
}

#[test]
fn a_group_that_the_responder_lacks_is_asked_for_anew() {
    let mut a = connection(A);
    a.ike = ike_proposals("aes256gcm16-prfsha256-ecp384-x25519").unwrap();
    let mut world = World::new(a, connection(B));
    world.run(seconds(5));
    world.assert_settled("after INVALID_KE_PAYLOAD");
    assert_eq!(world.log.len(), 6);
}

#[test]
fn a_cookie_is_returned() {
    let mut b = params(connection(B));
    b.limits = Limits { cookies_from: 0, ..Limits::default() };
    let mut a = connection(A);
    a.ike = ike_proposals("aes256gcm16-prfsha256-ecp384-x25519").unwrap();
    let mut world = World::with_params(params(a), b);
    world.run(seconds(5));
    world.assert_settled("with a cookie, and with another group after it");
    assert_eq!(world.log.len(), 8);
}

#[test]
fn behind_a_nat_both_go_on_at_port_4500() {
    let mut world = world();
    world.nat = Some(20_000);
    world.run(seconds(5));
    world.assert_settled("behind a NAT");
    let Some(Path::Udp { socket, remote }) = world.planes[B].peer.as_ref().unwrap().path else {
        panic!("a path")
    };
    assert_eq!((socket, remote.port()), (1, 20_001));
    assert!(world.planes.iter().all(|plane| plane.sessions.values().all(|codec| codec.is_encapsulated)));
    assert!(world.planes[B].peer.as_ref().unwrap().roams && !world.planes[A].peer.as_ref().unwrap().roams);
    // The NAT forgets the mapping: what is authentic shows the new one.
    world.nat = Some(30_000);
    world.command(A, Command::Rekey { peer: PEER });
    world.run(seconds(5));
    world.assert_settled("after the move");
    let Some(Path::Udp { remote, .. }) = world.planes[B].peer.as_ref().unwrap().path else {
        panic!("a path")
    };
    assert_eq!(remote.port(), 30_001);
}

/// The responder finds no hash of the initiator's address, and so detects a NAT.
#[test]
fn an_initiator_that_does_not_know_its_address_sends_esp_in_udp() {
    let mut world = world();
    world.learn_addresses(params(connection(A)));
    world.run(seconds(5));
    world.assert_settled("with an initiator at the unspecified address");
    assert!(world.planes.iter().all(|plane| plane.sessions.values().all(|codec| codec.is_encapsulated)));
}

/// The system says from which address it reaches the peer.
#[test]
fn an_initiator_at_all_addresses_that_learns_its_address_sends_esp_as_an_ip_protocol() {
    let mut world = world();
    world.learn_addresses(params(connection(A)));
    world.ends[A].set_sources([(address(B), address(A))].into());
    world.run(seconds(5));
    world.assert_settled("with the address of the system");
    let sessions = || world.planes.iter().flat_map(|plane| plane.sessions.values());
    assert!(sessions().all(|codec| !codec.is_encapsulated));
    let path = world.planes[A].peer.as_ref().unwrap().path.unwrap();
    assert!(matches!(path, Path::Ip { .. }), "{path:?}");
    // Behind a NAT that is not the address which the responder sees.
    let mut world = self::world();
    world.nat = Some(20_000);
    world.learn_addresses(params(connection(A)));
    world.ends[A].set_sources([(address(B), address(A))].into());
    world.run(seconds(5));
    world.assert_settled("behind a NAT");
    assert!(world.planes.iter().all(|plane| plane.sessions.values().all(|codec| codec.is_encapsulated)));
}

#[test]
fn a_peer_that_is_behind_no_nat_is_not_followed() {
    let mut world = connected();
    let path = Path::Udp { socket: 0, remote: "203.0.113.9:500".parse().unwrap() };
    let before = world.planes[B].peer.as_ref().unwrap().path;
    world.notify(B, Notice::Moved { peer: PEER, path });
    assert_eq!(world.planes[B].peer.as_ref().unwrap().path, before);
}

#[test]
fn encapsulation_is_forced_by_either_end() {
    for end in [A, B] {
        let with = |which| {
            let mut connection = connection(which);
            connection.forces_encapsulation = which == end;
            connection
        };
        let mut world = World::new(with(A), with(B));
        world.run(seconds(5));
        world.assert_settled("with forced encapsulation");
        assert!(
            world.planes.iter().all(|plane| plane.sessions.values().all(|codec| codec.is_encapsulated)),
            "{end}"
        );
        let details = [A, B].map(|end| world.ends[end].peers()[0].1.detail.clone());
        assert_eq!(details.each_ref().map(|detail| detail.is_encapsulation_forced), [end == A, end == B]);
        assert_eq!(details.map(|detail| detail.is_peer_behind_nat), [end == B, end == A]);
    }
}

#[test]
fn selectors_are_narrowed_by_the_responder() {
    let mut a = connection(A);
    a.children[0].local = vec![Traffic::all_of("0.0.0.0/0".parse().unwrap())];
    a.children[0].remote = vec![Traffic::all_of("0.0.0.0/0".parse().unwrap())];
    let mut world = World::new(a, connection(B));
    world.run(seconds(5));
    world.assert_settled("with wide selectors");
    let codec = world.planes[A].sessions.values().next().unwrap();
    let (local, remote) = (codec.selectors[0].local.start(), codec.selectors[0].remote.end());
    assert_eq!((local.to_string(), remote.to_string()), ("10.1.0.0".to_owned(), "10.2.255.255".to_owned()));
    let routes = &world.planes[A].peer.as_ref().unwrap().routes;
    assert_eq!(routes[0].to_string(), "10.2.0.0/16");
}

#[test]
fn selectors_and_proposals_without_anything_in_common_make_no_child_sa() {
    let mut selectors = connection(A);
    selectors.children[0].remote = vec![Traffic::all_of("172.16.0.0/12".parse().unwrap())];
    let mut proposals = connection(A);
    proposals.children[0].esp = esp_proposals("aes128gcm16").unwrap();
    for (a, reason) in [(selectors, "TS_UNACCEPTABLE"), (proposals, "NO_PROPOSAL_CHOSEN")] {
        let mut world = World::new(a, connection(B));
        world.run(seconds(3));
        assert_eq!((world.planes[A].ups, world.planes[B].ups), (0, 0));
        let text = world.planes[A].reports.join("\n");
        assert!(text.contains(reason), "{text}");
        assert!(world.ends.iter().all(|end| end.sas.is_empty()), "{}", world.state());
    }
}

#[test]
fn a_wrong_key_or_identity_is_refused_and_tried_again() {
    let mut key = connection(A);
    set_key(&mut key, b"other");
    let mut own = connection(A);
    own.local_auth.identity = identity("c.example");
    let mut peers = connection(A);
    expect_peer(&mut peers, "c.example");
    for a in [key, own, peers] {
        let mut world = World::new(a, connection(B));
        world.run(seconds(3));
        assert_eq!((world.planes[A].ups, world.planes[B].ups), (0, 0));
        let [a, b] = [A, B].map(|end| world.planes[end].reports.join("\n"));
        assert!(a.contains("AUTHENTICATION_FAILED") && b.contains("did not prove its identity"), "{a}\n{b}");
        let before = world.log.len();
        world.run(seconds(60));
        assert!(world.log.len() > before, "it tries again");
        world.run(seconds(40));
        assert!(world.ends[B].sas.len() <= 8 && world.ends[B].half_open.len() == world.ends[B].sas.len());
    }
}

#[test]
fn the_identity_is_compared_with_its_kind() {
    let mut a = connection(A);
    a.local_auth.identity.kind = crate::wire::IdType::KEY_ID;
    let mut world = World::new(a, connection(B));
    world.run(seconds(3));
    assert_eq!(world.planes[B].ups, 0);
}

/// The suite is chosen before the identity is known: a connection that does not allow it is not reached by it.
#[test]
fn a_connection_is_not_reached_with_the_suite_of_another() {
    let mut strict = connection(B);
    strict.ike = ike_proposals("aes256gcm16-prfsha384-ecp384").unwrap();
    let mut loose = connection(B);
    loose.name = "c.example".to_owned();
    expect_peer(&mut loose, "c.example");
    let mut b = params(strict);
    b.connections.push(loose);
    let mut world = World::with_params(params(connection(A)), b);
    world.run(seconds(3));
    assert_eq!(world.planes[B].ups, 0);
    assert!(world.planes[A].reports.join("\n").contains("AUTHENTICATION_FAILED"));
}

#[test]
fn each_message_may_be_lost_once() {
    for lost in 0..5 {
        let mut world = world();
        let mut count = 0;
        world.network = Box::new(move |_, _| {
            count += 1;
            if count == lost + 1 { vec![] } else { vec![std::time::Duration::from_millis(10)] }
        });
        world.run(seconds(5));
        world.assert_settled(&format!("without message {lost}"));
    }
}

#[test]
fn messages_may_come_twice_and_late() {
    let mut world = world();
    world.network = Box::new(|_, _| vec![seconds(0), std::time::Duration::from_millis(700)]);
    // A first request that comes once more, after the IKE SA is there, makes one that ends after 30 s.
    world.run(seconds(40));
    world.assert_settled("with each message twice");
    let log = world.log.clone();
    for datagram in &log {
        world.deliver(datagram);
    }
    world.run(seconds(40));
    world.assert_settled("with all messages once more");
    assert_eq!((world.planes[A].ups, world.planes[B].ups), (1, 1));
}

#[test]
fn long_messages_go_in_fragments() {
    let with = |end| {
        let mut connection = connection(end);
        connection.longest_datagram = Some(256);
        connection.children[0].local = (0..8)
            .map(|net| Traffic::all_of(format!("10.{}.{net}.0/24", end + 1).parse().unwrap()))
            .collect();
        connection.children[0].remote = (0..8)
            .map(|net| Traffic::all_of(format!("10.{}.{net}.0/24", 2 - end).parse().unwrap()))
            .collect();
        connection
    };
    for lost in [None, Some(3), Some(5)] {
        let mut world = World::new(with(A), with(B));
        let mut count = 0;
        world.network = Box::new(move |_, _| {
            count += 1;
            if Some(count) == lost { vec![] } else { vec![std::time::Duration::from_millis(10)] }
        });
        world.run(seconds(5));
        world.assert_settled("in fragments");
        let fragments = world.log.iter().filter(|datagram| datagram.bytes[16] == 53).count();
        assert!(fragments >= 4, "{fragments}");
        assert!(world.log.iter().all(|datagram| datagram.bytes.len() <= 256 || datagram.bytes[16] == 33));
    }
}

#[test]
fn a_peer_that_is_gone_is_noticed_and_sought() {
    let mut world = connected();
    world.network = Box::new(|_, _| vec![]);
    world.run(seconds(200));
    assert_eq!(
        world.planes.each_ref().map(|plane| plane.downs.clone()),
        [["it does not answer"], ["it does not answer"]]
    );
    assert!(world.ends[B].sas.is_empty());
    world.network = Box::new(|_, _| vec![seconds(0)]);
    world.run(seconds(90));
    world.assert_settled("after the network is there again");
    assert_eq!(world.planes.each_ref().map(|plane| plane.ups), [2, 2]);
}

#[test]
fn a_peer_that_has_not_answered_is_in_the_log_soon_and_among_the_unconnected() {
    let mut world = World::new(connection(A), connection(B));
    world.network = Box::new(|_, _| vec![]);
    let unconnected = |world: &World| {
        let all = world.ends[A].unconnected();
        all.map(|peer| (peer.connection.name.clone(), peer.remote, peer.unanswered)).collect::<Vec<_>>()
    };
    let of = |unanswered| vec![("b.example".to_owned(), Some("192.0.2.2:500".parse().unwrap()), unanswered)];
    world.run(seconds(1));
    assert_eq!((unconnected(&world), world.planes[A].reports.len()), (of(1), 0));
    world.run(seconds(2));
    let expected =
        "udp 192.0.2.2:500: b.example: it has not answered yet; the request is sent again for 80 s";
    assert_eq!(world.planes[A].reports, [expected]);
    world.run(seconds(200));
    assert_eq!(unconnected(&world), of(3));
    let reports = &world.planes[A].reports;
    assert_eq!(reports.iter().filter(|line| *line == expected).count(), 1, "once: {reports:?}");
    world.network = Box::new(|_, _| vec![seconds(0)]);
    world.run(seconds(90));
    world.assert_settled("after the peer is there");
    assert!(unconnected(&world).is_empty());
    assert_eq!(world.ends[B].unconnected().count(), 0, "a responder seeks no peer");
}

#[test]
fn packets_are_signs_of_life() {
    let mut world = connected();
    world.run(seconds(20));
    let sent = world.sent;
    for _ in 0..10 {
        for end in [A, B] {
            let mut activity = adit_core::PeerActivity::default();
            activity.received.last_data = Some(world.now);
            let traffic = Notice::Traffic {
                peer: PEER,
                received: 1,
                sent: 1,
                received_bytes: 1,
                sent_bytes: 1,
                message_bytes: 0,
                activity,
            };
            world.notify(end, traffic);
        }
        world.run(seconds(20));
    }
    assert_eq!(world.sent, sent, "nothing is asked");
    world.run(seconds(60));
    assert!(world.sent > sent);
    world.assert_settled("idle");
}

#[test]
fn either_end_disconnects() {
    for end in [A, B] {
        let mut world = connected();
        world.command(end, Command::Disconnect { peer: PEER });
        world.run(seconds(3));
        assert!(world.ends.iter().all(|end| end.sas.is_empty()), "{}", world.state());
        assert!(world.planes.iter().all(|plane| plane.sessions.is_empty() && plane.peer.is_none()));
        let reasons = world.planes.each_ref().map(|plane| plane.downs.join(","));
        assert_eq!(
            (reasons[end].as_str(), reasons[1 - end].as_str()),
            ("disconnected", "the peer deleted the IKE SA")
        );
        world.run(seconds(60));
        assert_eq!(
            world.is_connected(),
            end == B,
            "the end that initiates does so again if the other one disconnected"
        );
    }
}

#[test]
fn both_ends_disconnect_at_once() {
    let mut world = connected();
    for end in [A, B] {
        world.command(end, Command::Disconnect { peer: PEER });
    }
    world.run(seconds(20));
    assert!(world.ends.iter().all(|end| end.sas.is_empty()), "{}", world.state());
}

#[test]
fn a_shutdown_is_told_to_the_peer() {
    let mut world = connected();
    world.command(A, Command::Shutdown);
    assert!(world.planes[A].ended);
    world.run(seconds(3));
    assert_eq!(world.planes[B].downs, ["the peer deleted the IKE SA"]);
    world.run(seconds(60));
    assert!(!world.is_connected());
}

#[test]
fn a_peer_that_started_anew_takes_the_place_of_the_old_one() {
    let mut world = connected();
    world.restart(A, params(connection(A)), 9);
    world.run(seconds(5));
    world.assert_settled("after the restart of the initiator");
    assert_eq!(world.planes[B].downs.len(), 0, "the peer stays up");
    world.restart(B, params(connection(B)), 10);
    world.run(seconds(200));
    world.assert_settled("after the restart of the responder");
}

/// The IKE SA of the restart is no second one that both ends initiated at once, though the other end initiated the one before.
#[test]
fn a_responder_that_starts_anew_at_once_and_initiates_is_heard() {
    for seed in 0..16 {
        let mut world = world();
        world.restart(A, params(connection(A)), 100 + seed);
        world.run(seconds(5));
        let mut b = connection(B);
        initiates(&mut b, B);
        world.restart(B, params(b), 20 + seed);
        world.run(seconds(1));
        assert!(world.is_connected() && world.ends[B].sas.len() == 1, "seed {seed}: {}", world.state());
        world.run(seconds(200));
        world.assert_settled(&format!("seed {seed}"));
    }
}

#[test]
fn both_ends_initiate_at_once_and_one_ike_sa_stays() {
    for late in 0..6 {
        let mut b = connection(B);
        initiates(&mut b, B);
        let mut world = World::new(connection(A), b);
        let mut count = 0;
        world.network = Box::new(move |_, _| {
            count += 1;
            vec![std::time::Duration::from_millis(if count == late { 500 } else { 10 })]
        });
        world.run(seconds(30));
        world.assert_settled(&format!("message {late} late"));
        let sent = world.sent;
        world.run(seconds(20));
        assert!(world.sent <= sent + 8, "no more than signs of life");
    }
}

#[test]
fn two_peers_behind_one_address_are_told_apart_by_identity() {
    let mut b = params(connection(B));
    let mut other = connection(B);
    other.name = "c.example".to_owned();
    expect_peer(&mut other, "c.example");
    b.connections.push(other);
    let mut world = World::with_params(params(connection(A)), b);
    world.nat = Some(20_000);
    world.run(seconds(5));
    assert!(world.is_connected());
    let first = world.planes[A].sessions.clone();
    let mut second = connection(A);
    second.local_auth.identity = identity("c.example");
    world.nat = Some(25_000);
    world.restart(A, params(second), 7);
    world.run(seconds(5));
    assert_eq!(world.ends[B].sas.len(), 2, "{}", world.state());
    let spi = first.values().next().unwrap().outbound_spi;
    assert!(world.planes[B].sessions.contains_key(&adit_core::SessionId(u64::from(spi))));
}

#[test]
fn parameters_that_cannot_work_are_refused() {
    use crate::machine::{BadParams, Endpoint};
    let refused = |change: fn(&mut crate::machine::Params)| {
        let mut params = params(connection(A));
        change(&mut params);
        Endpoint::new(params, adit_core::Instant::ORIGIN, [0; 32]).err()
    };
    let name = || "b.example".to_owned();
    assert_eq!(refused(|_| ()), None);
    assert_eq!(refused(|params| params.connections[0].ike.clear()), Some(BadParams::NoProposals(name())));
    let refused_part = |change| match refused(change) {
        Some(BadParams::NotSupported { part, .. }) => part,
        other => panic!("{other:?}"),
    };
    let long = refused_part(|params| {
        params.connections[0].ike = ike_proposals("aes256gcm16-sha256-mlkem1024").unwrap();
    });
    assert!(long.starts_with("mlkem1024 in place of ke1_mlkem1024"));
    let twice = refused(|params| params.connections.push(connection(A)));
    assert_eq!(twice, Some(BadParams::Name(name())));
}

#[test]
fn the_stage_of_a_datagram_is_known_at_a_glance() {
    use adit_core::{HandshakeStage, Protocol};
    let world = connected();
    let first = &world.log[0];
    assert_eq!(Header::peek(&first.bytes).unwrap().exchange, ExchangeType::IKE_SA_INIT);
    assert_eq!(world.ends[B].stage_of(first.path, &first.bytes), HandshakeStage::First);
    let auth = &world.log[2];
    assert_eq!(world.ends[B].stage_of(auth.path, &auth.bytes), HandshakeStage::Established);
    assert_eq!(world.ends[B].stage_of(auth.path, b"short"), HandshakeStage::First);
    assert_eq!(world.planes[A].sessions.values().next().unwrap().cipher, Cipher::Aes256Gcm);
}
