//! Peers that come from another address: where the data plane sends to them before the protocol says anything.

use crate::testing::batches::Keys;
use std::time::Duration;

use adit_core::{Cipher, DataEvent, Instant, IpNet, Notice, Path, PeerConfig, PeerId, PeerOrder};

use super::format::{by_path, named, session_id};
use super::packets::Flow;
use super::world::{End, client, inner, three, udp};
use crate::{DropReason, Offload};

/// Seals a packet of client `n`.
fn sealed(client: &mut End, n: u8) -> Vec<u8> {
    client.send_one(&Flow { source: n, destination: 77, ..Flow::default() }.udp(b"x"))
}

/// Client `n` sends a packet, which arrives from there. Gives the notices about moves.
fn come(server: &mut End, client: &mut End, n: u8, path: Path) -> Vec<Notice> {
    let datagram = sealed(client, n);
    arrive(server, &datagram, path)
}

fn arrive(server: &mut End, datagram: &[u8], path: Path) -> Vec<Notice> {
    let notices = server.receive(path, datagram, datagram.len()).notices;
    notices.into_iter().filter(|notice| matches!(notice, Notice::Moved { .. })).collect()
}

/// Where the server sends to client `n`.
fn whereabouts(server: &mut End, n: u8) -> Path {
    let packet = Flow { source: 77, destination: n, ..Flow::default() }.udp(b"x");
    server.send(Offload::NONE, &packet)[0].0
}

fn roamed(n: u8, path: Path) -> Vec<Notice> {
    vec![Notice::Moved { peer: PeerId(n.into()), path }]
}

fn order(server: &mut End, n: u8, path: Path) {
    server.apply(DataEvent::Peer(PeerOrder::Move { peer: PeerId(n.into()), path }));
}

#[test]
fn a_peer_is_followed_before_the_protocol_answers() {
    let (mut server, mut one, _) = three(false);
    assert_eq!(come(&mut server, &mut one, 1, udp(7)), roamed(1, udp(7)));
    assert_eq!(whereabouts(&mut server, 1), udp(7));
    assert_eq!(come(&mut server, &mut one, 1, udp(7)), [], "it was told");
    order(&mut server, 1, udp(7));
    assert_eq!(come(&mut server, &mut one, 1, udp(7)), []);
    assert_eq!(whereabouts(&mut server, 1), udp(7));
    // It moves on, and back, before the protocol answers.
    assert_eq!(come(&mut server, &mut one, 1, udp(8)), roamed(1, udp(8)));
    assert_eq!(whereabouts(&mut server, 1), udp(8));
    assert_eq!(come(&mut server, &mut one, 1, udp(7)), []);
    assert_eq!(whereabouts(&mut server, 1), udp(7));
    // The answer comes when it is elsewhere again: its next datagram says so.
    order(&mut server, 1, udp(8));
    assert_eq!(come(&mut server, &mut one, 1, udp(7)), roamed(1, udp(7)));
    assert_eq!(whereabouts(&mut server, 1), udp(7));
}

#[test]
fn what_is_late_replayed_or_forged_moves_no_peer() {
    let (mut server, mut one, _) = three(false);
    let [first, late, second, third] = [(); 4].map(|()| sealed(&mut one, 1));
    arrive(&mut server, &first, udp(1));
    arrive(&mut server, &second, udp(7));
    assert_eq!(arrive(&mut server, &late, udp(1)), [], "it was under way when the peer moved");
    assert_eq!(whereabouts(&mut server, 1), udp(7));
    let mut forged = third.clone();
    forged[20] ^= 1;
    for (datagram, reason) in
        [(&second, DropReason::Replay), (&late, DropReason::Replay), (&forged, DropReason::BadTag)]
    {
        let before = server.dropped_in(reason);
        assert_eq!(arrive(&mut server, datagram, udp(8)), []);
        assert_eq!(server.dropped_in(reason), before + 1);
        assert_eq!(whereabouts(&mut server, 1), udp(7));
    }
    assert_eq!(arrive(&mut server, &third, udp(8)), roamed(1, udp(8)));
    assert_eq!(whereabouts(&mut server, 1), udp(8));
}

#[test]
fn what_an_earlier_session_sealed_moves_no_peer() {
    let (mut server, mut one, _) = three(false);
    let (peer, cipher) = (PeerId(1), Cipher::Aes256Gcm);
    let datagrams = [(); 3].map(|()| sealed(&mut one, 1));
    arrive(&mut server, &datagrams[0], udp(1));
    server.install(peer, session_id(peer, 1), named(1, 1), cipher, Keys { seal: 21, open: 22 });
    // The later session opened nothing yet.
    assert_eq!(arrive(&mut server, &datagrams[1], udp(6)), roamed(1, udp(6)));
    one.install(
        PeerId::SERVER,
        session_id(PeerId::SERVER, 1),
        named(1, 1),
        cipher,
        Keys { seal: 22, open: 21 },
    );
    assert_eq!(come(&mut server, &mut one, 1, udp(7)), roamed(1, udp(7)));
    assert_eq!(arrive(&mut server, &datagrams[2], udp(1)), []);
    assert_eq!(whereabouts(&mut server, 1), udp(7));
    // When the later session is gone, the earlier one is the latest.
    server.apply(DataEvent::Retire { peer, session: session_id(peer, 1) });
    server.apply(DataEvent::Activate { peer, session: session_id(peer, 0) });
    one.apply(DataEvent::Activate { peer: PeerId::SERVER, session: session_id(PeerId::SERVER, 0) });
    assert_eq!(come(&mut server, &mut one, 1, udp(8)), roamed(1, udp(8)));
    assert_eq!(whereabouts(&mut server, 1), udp(8));
}

#[test]
fn a_path_of_another_peer_is_not_taken() {
    let (mut server, mut one, mut two) = three(false);
    assert_eq!(come(&mut server, &mut one, 1, udp(2)), roamed(1, udp(2)));
    assert_eq!(whereabouts(&mut server, 1), udp(1));
    // Nor one that another peer has just moved to.
    come(&mut server, &mut one, 1, udp(7));
    assert_eq!(come(&mut server, &mut two, 2, udp(7)), roamed(2, udp(7)));
    assert_eq!((whereabouts(&mut server, 1), whereabouts(&mut server, 2)), (udp(7), udp(2)));
    // It is free again when that peer has left it.
    come(&mut server, &mut one, 1, udp(1));
    come(&mut server, &mut two, 2, udp(2));
    assert_eq!(come(&mut server, &mut two, 2, udp(7)), roamed(2, udp(7)));
    assert_eq!((whereabouts(&mut server, 1), whereabouts(&mut server, 2)), (udp(1), udp(7)));
    // It is the protocol that gives a taken path to a peer.
    order(&mut server, 1, udp(7));
    assert_eq!(whereabouts(&mut server, 1), udp(7));
}

#[test]
fn a_refused_move_is_not_tried_again_at_once() {
    let (mut server, mut one, mut two) = three(false);
    come(&mut server, &mut one, 1, udp(7));
    order(&mut server, 1, udp(1));
    assert_eq!(whereabouts(&mut server, 1), udp(1));
    assert_eq!(come(&mut server, &mut one, 1, udp(7)), []);
    assert_eq!(whereabouts(&mut server, 1), udp(1));
    assert_eq!(come(&mut server, &mut two, 2, udp(7)), roamed(2, udp(7)));
    assert_eq!(whereabouts(&mut server, 2), udp(7), "others may be there");
    order(&mut server, 2, udp(2));
    assert_eq!(come(&mut server, &mut one, 1, udp(1)), []);
    assert_eq!(come(&mut server, &mut one, 1, udp(7)), roamed(1, udp(7)), "it was back meanwhile");
    assert_eq!(whereabouts(&mut server, 1), udp(7));
}

#[test]
fn a_peer_that_may_not_roam_stays_until_the_protocol_moves_it() {
    let (mut server, mut one, _) = three(false);
    let routes: Vec<IpNet> = inner(1).iter().map(|net| net.parse().expect("a network")).collect();
    let (peer, path) = (PeerId(1), udp(1));
    server.apply(DataEvent::Peer(PeerOrder::Add(PeerConfig {
        peer,
        path: Some(path),
        routes,
        selectors: Default::default(),
        max_mss: None,
        roams: false,
        staging: false,
        device: Default::default(),
        by_path: true,
        identity: Default::default(),
    })));
    assert_eq!(come(&mut server, &mut one, 1, udp(7)), roamed(1, udp(7)));
    assert_eq!(whereabouts(&mut server, 1), udp(1));
    order(&mut server, 1, udp(7));
    assert_eq!(whereabouts(&mut server, 1), udp(7));
}

/// A peer that changes its address with each packet is followed some times in each second.
#[test]
fn a_peer_moves_only_so_often() {
    let (mut server, mut one, _) = three(false);
    let mut told = 0;
    for round in 0..200u8 {
        told += come(&mut server, &mut one, 1, udp(7 + round % 2)).len();
    }
    assert_eq!(told, 16);
    server.ingress.tick(Instant::ORIGIN + Duration::from_secs(5));
    for round in 0..200u8 {
        told += come(&mut server, &mut one, 1, udp(7 + round % 2)).len();
    }
    assert_eq!(told, 32);
    // It comes to rest: it is followed when the time allows it, and not before.
    assert_eq!(come(&mut server, &mut one, 1, udp(9)), []);
    server.ingress.tick(Instant::ORIGIN + Duration::from_secs(7));
    assert_eq!(come(&mut server, &mut one, 1, udp(9)), roamed(1, udp(9)));
    assert_eq!(whereabouts(&mut server, 1), udp(9));
}

/// New facts about a peer, which its change of address may have caused, allow it no more moves.
#[test]
fn a_peer_that_is_changed_moves_no_more_often() {
    let (mut server, mut one, _) = three(false);
    let mut told = 0;
    for round in 0..200u8 {
        told += come(&mut server, &mut one, 1, udp(7 + round % 2)).len();
        let routes = inner(1).iter().map(|net| net.parse().expect("a network")).collect();
        server.apply(DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer: PeerId(1),
            path: Some(udp(1)),
            routes,
            selectors: Default::default(),
            max_mss: None,
            roams: true,
            staging: false,
            device: Default::default(),
            by_path: true,
            identity: Default::default(),
        })));
    }
    assert_eq!(told, 16);
}

/// A path that a peer gave up by going is free for others.
#[test]
fn a_removed_peer_leaves_the_path_that_it_moved_to() {
    let (mut server, mut one, mut two) = three(false);
    come(&mut server, &mut one, 1, udp(7));
    server.apply(DataEvent::Peer(PeerOrder::Remove(PeerId(1))));
    come(&mut server, &mut two, 2, udp(7));
    assert_eq!(whereabouts(&mut server, 2), udp(7));
}

#[test]
fn a_client_follows_its_server_too() {
    let (mut server, ..) = three(false);
    let mut one = client(1, udp(9), Cipher::Aes256Gcm);
    let packet = Flow { source: 77, destination: 1, ..Flow::default() }.udp(b"x");
    let datagram = server.send_one(&packet);
    assert_eq!(arrive(&mut one, &datagram, udp(8)), roamed(0, udp(8)));
    assert_eq!(whereabouts(&mut one, 77), udp(8));
}

/// Each sender that has a key may send from any address, also from that of a peer whose datagrams only their address
/// names. Two protocols can be at one port: the peers of one protocol must not take the addresses of the peers of the
/// other.
#[test]
fn a_peer_that_its_address_names_keeps_it_against_one_that_its_key_names() {
    let cipher = Cipher::Aes256Gcm;
    let (named, other) = (PeerId(1), PeerId(2));
    let (mut server, mut one, mut two) = three(false);
    let v1 = by_path(0);
    server.install(named, session_id(named, 0), v1, cipher, Keys { seal: 0x81, open: 1 });
    one.install(PeerId::SERVER, session_id(PeerId::SERVER, 0), v1, cipher, Keys { seal: 1, open: 0x81 });
    let routes = || inner(2).iter().map(|net| net.parse().expect("a network")).collect();
    let config = |path| PeerConfig {
        peer: other,
        path: Some(path),
        routes: routes(),
        selectors: Default::default(),
        max_mss: None,
        roams: true,
        staging: false,
        device: Default::default(),
        by_path: false,
        identity: Default::default(),
    };
    server.apply(DataEvent::Peer(PeerOrder::Add(config(udp(2)))));
    let hears = |server: &mut End, one: &mut End| {
        let datagram = sealed(one, 1);
        server.receive(udp(1), &datagram, datagram.len()).packets.len()
    };
    assert_eq!(hears(&mut server, &mut one), 1);
    // The data plane follows the other there at once, and notifies its protocol.
    assert_eq!(come(&mut server, &mut two, 2, udp(1)), roamed(2, udp(1)));
    assert_eq!((whereabouts(&mut server, 1), whereabouts(&mut server, 2)), (udp(1), udp(1)));
    assert_eq!(hears(&mut server, &mut one), 1, "followed");
    order(&mut server, 2, udp(1));
    assert_eq!(hears(&mut server, &mut one), 1, "moved");
    server.apply(DataEvent::Peer(PeerOrder::Add(config(udp(1)))));
    assert_eq!(hears(&mut server, &mut one), 1, "added");
    server.apply(DataEvent::Peer(PeerOrder::Remove(other)));
    assert_eq!(hears(&mut server, &mut one), 1, "removed");
}

#[test]
fn each_peer_of_a_receive_is_compared_with_its_own_path() {
    let (mut server, mut one, mut two) = three(false);
    let packet = |source| Flow { source, destination: 77, ..Flow::default() }.udp(b"x");
    let both = [one.send_one(&packet(1)), two.send_one(&packet(2))].concat();
    let notices = server.receive(udp(1), &both, both.len() / 2).notices;
    let moved = |peer| notices.contains(&Notice::Moved { peer: PeerId(peer), path: udp(1) });
    assert_eq!((moved(1), moved(2)), (false, true), "{notices:?}");
}
