//! Datagrams that come before their sessions.

use std::time::Duration;

use adit_core::{Cipher, DataEvent, Instant, Notice, PeerId, PeerOrder, SessionId};

use super::format::{named, session_id};
use super::packets::Flow;
use super::world::{End, client, inner, udp};
use crate::testing::batches::Keys;
use crate::{DropReason, IngressEvent, Passed, remote_peer};

const CIPHER: Cipher = Cipher::Aes256Gcm;
const ONE: PeerId = PeerId(1);
const START: Instant = Instant::from_nanos(1_000_000_000_000);

/// A server that has client 1 and not its session, and the client, which seals with that session.
fn before_session() -> (End, End) {
    let mut server = End::server(false);
    server.ingress.tick(START);
    let [v4, v6] = inner(1);
    server.add_peer(ONE, udp(1), &[&v4, &v6], None);
    (server, client(1, udp(9), CIPHER))
}

fn session() -> SessionId {
    session_id(ONE, 0)
}

fn install(server: &mut End) {
    server.install(ONE, session(), named(1, 0), CIPHER, Keys { seal: 0x81, open: 1 });
}

fn packet(number: u8) -> Vec<u8> {
    Flow { source: 1, destination: 77, ..Flow::default() }.udp(&[number; 20])
}

/// The server gets packets of the client before it has the session. Nothing comes out.
fn send(server: &mut End, client: &mut End, count: u8) {
    for number in 0..count {
        let datagram = client.send_one(&packet(number));
        assert!(server.receive(udp(1), &datagram, datagram.len()).packets.is_empty());
    }
}

#[test]
fn datagrams_wait_for_a_session_that_is_expected() {
    let (mut server, mut client) = before_session();
    send(&mut server, &mut client, 1);
    assert_eq!(server.dropped_in(DropReason::NoSession), 1, "nothing said that it comes");
    server.apply(DataEvent::Expect(session()));
    send(&mut server, &mut client, 3);
    assert!(!server.ingress.has_released());
    install(&mut server);
    assert!(server.ingress.has_released());
    let arrived = server.receive_released();
    let packets: Vec<_> = arrived.iter().flat_map(|arrived| arrived.packets.clone()).collect();
    assert_eq!(packets, [0, 1, 2].map(packet));
    assert_eq!(arrived[0].notices, [Notice::FirstOpened { peer: ONE, session: session() }]);
    assert_eq!(server.dropped_in(DropReason::NoSession), 1);
    // The session is there, and those that come later are opened at once.
    let datagram = client.send_one(&packet(7));
    assert_eq!(server.receive(udp(1), &datagram, datagram.len()).packets, [packet(7)]);
    assert!(!server.ingress.has_released());
}

/// Answers that the data plane kept for datagrams of a session that was not there yet do not hold once it is there.
#[test]
fn a_datagram_that_waited_shows_where_its_peer_was() {
    let (mut server, mut client) = before_session();
    install(&mut server);
    let first = client.send_one(&packet(0));
    let keys = Keys { seal: 2, open: 0x82 };
    client.install(PeerId::SERVER, session_id(PeerId::SERVER, 1), named(1, 1), CIPHER, keys);
    let both = [first.clone(), client.send_one(&packet(1))].concat();
    let next = session_id(ONE, 1);
    server.apply(DataEvent::Expect(next));
    assert_eq!(server.receive(udp(1), &both, first.len()).packets, [packet(0)]);
    server.apply(DataEvent::Peer(PeerOrder::Move { peer: ONE, path: udp(5) }));
    server.install(ONE, next, named(1, 1), CIPHER, Keys { seal: 0x82, open: 2 });
    let arrived = server.receive_released();
    assert!(arrived[0].notices.contains(&Notice::Moved { peer: ONE, path: udp(1) }), "{arrived:?}");
}

#[test]
fn few_datagrams_wait_and_only_for_a_short_time() {
    let (mut server, mut client) = before_session();
    server.apply(DataEvent::Expect(session()));
    send(&mut server, &mut client, 100);
    assert_eq!(server.dropped_in(DropReason::NoSession), 100 - 64);
    server.ingress.tick(START + Duration::from_secs(5));
    assert_eq!(server.dropped_in(DropReason::NoSession), 100);
    send(&mut server, &mut client, 2);
    install(&mut server);
    assert_eq!(server.receive_released().len(), 2);
    // A session that has not come is forgotten.
    let (mut server, mut client) = before_session();
    server.apply(DataEvent::Expect(session()));
    server.ingress.tick(START + Duration::from_secs(100));
    send(&mut server, &mut client, 1);
    assert_eq!(server.dropped_in(DropReason::NoSession), 1);
}

/// However many sessions are expected, the memory of their datagrams is bounded.
#[test]
fn datagrams_of_all_sessions_are_bounded() {
    let (mut server, _) = before_session();
    let mut held = 0;
    for number in 0..20_u8 {
        let mut client = client(number + 10, udp(9), CIPHER);
        let id = PeerId(u32::from(number) + 10);
        server.apply(DataEvent::Expect(session_id(id, 0)));
        for _ in 0..64 {
            let datagram = client.send_one(&packet(number));
            server.receive(udp(1), &datagram, datagram.len());
            held += 1;
        }
    }
    assert_eq!(server.dropped_in(DropReason::NoSession), held - 512);
}

/// The worker that a datagram comes to is not the one that serves the peer.
#[test]
fn datagrams_wait_for_a_session_of_another_worker() {
    let mut worker = End::server(false);
    worker.ingress.tick(START);
    let mut client = client(1, udp(9), CIPHER);
    let (mut server, _) = before_session();
    let [v4, v6] = inner(1);
    server.add_peer(ONE, udp(1), &[&v4, &v6], None);
    let config = adit_core::PeerConfig {
        peer: ONE,
        path: Some(udp(1)),
        routes: vec![v4.parse().unwrap(), v6.parse().unwrap()],
        selectors: Default::default(),
        max_mss: None,
        roams: true,
        staging: false,
        device: Default::default(),
        by_path: false,
        identity: Default::default(),
    };
    let (_, ingress) = remote_peer(config, 3);
    worker.ingress.apply(ingress);
    worker.apply(DataEvent::Expect(session()));
    send(&mut worker, &mut client, 1);
    worker.ingress.apply(IngressEvent::InstallRemote { peer: ONE, session: session() });
    let arrived = worker.receive_released();
    let [Passed::Datagrams { worker: 3, path, .. }] = &arrived[0].passed[..] else { panic!("{arrived:?}") };
    assert_eq!(*path, udp(1));
}
