//! Peers whose endpoint or session comes later, and routes that change one by one.

use crate::testing::batches::Keys;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use adit_core::{
    Activity, Cipher, DataEvent, Instant, IpNet, Notice, PeerActivity, PeerConfig, PeerId, PeerOrder, Ports,
    ReplayWindow,
};

use super::format::{self, named, session_id};
use super::packets::Flow;
use super::world::{End, admit, client, three, udp};
use crate::codec::SessionCodec;
use crate::{DropReason, Offload};

const CIPHER: Cipher = Cipher::Aes256Gcm;
const ONE: PeerId = PeerId(1);
/// The notice of [`packet`].
const WANTED: Notice = Notice::Wanted {
    peer: ONE,
    flow: adit_core::Flow {
        local: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 77)),
        remote: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        protocol: Some(17),
        ports: Some(Ports { local: 1000, remote: 53 }),
    },
};

fn config(staging: bool) -> PeerConfig {
    let routes = vec!["10.0.0.1/32".parse().expect("a network")];
    let selectors = Default::default();
    PeerConfig {
        peer: ONE,
        path: None,
        routes,
        selectors,
        max_mss: None,
        roams: true,
        staging,
        device: Default::default(),
        by_path: true,
        identity: Default::default(),
    }
}

fn packet(number: u8) -> Vec<u8> {
    Flow { source: 77, destination: 1, ..Flow::default() }.udp(&[number])
}

fn at(milliseconds: u64) -> Instant {
    Instant::ORIGIN + Duration::from_millis(milliseconds)
}

#[test]
fn packets_wait_for_a_session() {
    let mut server = End::server(false);
    server.apply(DataEvent::Peer(PeerOrder::Add(PeerConfig { path: Some(udp(1)), ..config(true) })));
    for (time, told) in [(0, 1), (500, 0), (999, 0), (1000, 1)] {
        server.egress.tick(at(time));
        assert!(server.send(Offload::NONE, &packet(1)).is_empty());
        assert_eq!(server.egress.take_notices(), vec![WANTED; told], "at {time} ms");
    }
    server.install(ONE, session_id(ONE, 0), named(1, 0), CIPHER, Keys { seal: 0x81, open: 1 });
    let batches = server.flush();
    assert_eq!((batches.len(), batches[0].0), (1, udp(1)));
    let arrived = client(1, udp(9), CIPHER).receive(udp(9), &batches[0].2, batches[0].1);
    assert_eq!(arrived.packets, vec![packet(1); 4], "all of them, in order");
    assert_eq!(server.dropped_out(DropReason::NoSession), 0);
}

#[test]
fn packets_wait_for_a_path() {
    let mut server = End::server(false);
    server.apply(DataEvent::Peer(PeerOrder::Add(config(true))));
    server.install(ONE, session_id(ONE, 0), named(1, 0), CIPHER, Keys { seal: 0x81, open: 1 });
    assert!(server.send(Offload::NONE, &packet(1)).is_empty());
    server.apply(DataEvent::Peer(PeerOrder::Move { peer: ONE, path: udp(4) }));
    assert_eq!(server.flush()[0].0, udp(4));
}

#[test]
fn an_authentic_datagram_says_where_a_peer_is() {
    let mut server = End::server(false);
    server.apply(DataEvent::Peer(PeerOrder::Add(config(true))));
    server.install(ONE, session_id(ONE, 0), named(1, 0), CIPHER, Keys { seal: 0x81, open: 1 });
    assert!(server.send(Offload::NONE, &packet(1)).is_empty());
    let sealed =
        client(1, udp(9), CIPHER).send_one(&Flow { source: 1, destination: 77, ..Flow::default() }.udp(b"x"));
    let notices = server.receive(udp(6), &sealed, sealed.len()).notices;
    assert!(notices.contains(&Notice::Moved { peer: ONE, path: udp(6) }));
    assert_eq!(server.flush()[0].0, udp(6), "what waited goes there");
    assert_eq!(server.send(Offload::NONE, &packet(2))[0].0, udp(6));
}

#[test]
fn peers_without_staging_drop_their_packets() {
    let mut server = End::server(false);
    server.apply(DataEvent::Peer(PeerOrder::Add(config(false))));
    assert!(server.send(Offload::NONE, &packet(1)).is_empty());
    server.install(ONE, session_id(ONE, 0), named(1, 0), CIPHER, Keys { seal: 0x81, open: 1 });
    assert!(server.send(Offload::NONE, &packet(1)).is_empty(), "no path");
    server.apply(DataEvent::Peer(PeerOrder::Move { peer: ONE, path: udp(1) }));
    assert!(server.flush().is_empty());
    assert_eq!((server.dropped_out(DropReason::NoSession), server.egress.take_notices()), (2, vec![]));
}

#[test]
fn what_waits_goes_with_its_peer() {
    let mut server = End::server(false);
    server.apply(DataEvent::Peer(PeerOrder::Add(config(true))));
    server.send(Offload::NONE, &packet(1));
    server.apply(DataEvent::Peer(PeerOrder::Remove(ONE)));
    admit(&mut server, 1, udp(1), CIPHER);
    assert!(server.flush().is_empty());
}

#[test]
fn a_route_moves_from_one_peer_to_another() {
    let (mut server, mut one, mut two) = three(false);
    let net: IpNet = "10.0.0.32/28".parse().expect("a network");
    let to = Flow { source: 77, destination: 33, ..Flow::default() }.udp(b"x");
    let from = Flow { source: 33, destination: 77, ..Flow::default() }.udp(b"x");
    let takes_from = |server: &mut End, end: &mut End, path| {
        let sealed = end.send_one(&from);
        server.receive(path, &sealed, sealed.len()).packets.len()
    };
    for (peer, path) in [(ONE, udp(1)), (PeerId(2), udp(2)), (ONE, udp(1))] {
        server.apply(DataEvent::Peer(PeerOrder::AddRoute { peer, route: net }));
        assert_eq!(server.send(Offload::NONE, &to)[0].0, path);
        let taken = (takes_from(&mut server, &mut one, udp(1)), takes_from(&mut server, &mut two, udp(2)));
        assert_eq!(taken, if peer == ONE { (1, 0) } else { (0, 1) });
    }
    server.apply(DataEvent::Peer(PeerOrder::RemoveRoute { peer: PeerId(2), route: net }));
    assert_eq!(server.send(Offload::NONE, &to).len(), 1, "it is not the second peer's any more");
    server.apply(DataEvent::Peer(PeerOrder::RemoveRoute { peer: ONE, route: net }));
    assert!(server.send(Offload::NONE, &to).is_empty());
    assert_eq!(server.dropped_out(DropReason::NoRoute), 1);
    assert_eq!(server.send(Offload::NONE, &packet(1)).len(), 1, "its other routes stay");
    server.apply(DataEvent::Peer(PeerOrder::AddRoute { peer: PeerId(9), route: net }));
    assert_eq!((server.dropped_out(DropReason::NoPeer), server.dropped_in(DropReason::NoPeer)), (1, 1));
}

/// As a prefix may have moved to another peer since it was added.
#[test]
fn another_mss_leaves_routes_as_they_are() {
    let (mut server, ..) = three(false);
    let net: IpNet = "10.0.0.32/28".parse().expect("a network");
    let to = Flow { source: 77, destination: 33, ..Flow::default() }.udp(b"x");
    for peer in [ONE, PeerId(2)] {
        server.apply(DataEvent::Peer(PeerOrder::AddRoute { peer, route: net }));
    }
    server.apply(DataEvent::Peer(PeerOrder::SetMaxMss { peer: ONE, max_mss: Some(1000) }));
    assert_eq!(server.send(Offload::NONE, &to)[0].0, udp(2));
    assert_eq!(server.send(Offload::NONE, &packet(1))[0].0, udp(1));
    server.apply(DataEvent::Peer(PeerOrder::SetMaxMss { peer: PeerId(9), max_mss: None }));
    assert_eq!((server.dropped_out(DropReason::NoPeer), server.dropped_in(DropReason::NoPeer)), (1, 1));
}

/// The trap of gotatun: a source is a peer's only by the longest prefix that has it, also where the net of another peer
/// lies within its own.
#[test]
fn a_source_in_a_smaller_net_of_another_peer_is_refused() {
    let (mut server, mut one, mut two) = three(false);
    let route = |text: &str| text.parse::<IpNet>().expect("a network");
    server.apply(DataEvent::Peer(PeerOrder::AddRoute { peer: ONE, route: route("10.0.0.0/24") }));
    server.apply(DataEvent::Peer(PeerOrder::AddRoute { peer: PeerId(2), route: route("10.0.0.64/28") }));
    for (source, by_one, by_two) in [(33, 1, 0), (63, 1, 0), (64, 0, 1), (79, 0, 1), (80, 1, 0), (2, 0, 1)] {
        let packet = Flow { source, destination: 77, ..Flow::default() }.udp(b"x");
        let mut taken = |end: &mut End, path| {
            let sealed = end.send_one(&packet);
            server.receive(path, &sealed, sealed.len()).packets.len()
        };
        let taken = (taken(&mut one, udp(1)), taken(&mut two, udp(2)));
        assert_eq!(taken, (by_one, by_two), "from {source}");
    }
    assert_eq!(server.dropped_in(DropReason::BadSource), 6);
}

#[test]
fn the_one_peer_of_a_client_has_routes_too() {
    let (mut server, mut one, _) = three(false);
    one.apply(DataEvent::Peer(PeerOrder::RemoveRoute {
        peer: PeerId::SERVER,
        route: "0.0.0.0/0".parse().expect("a network"),
    }));
    let route = "10.0.0.64/26".parse().expect("a network");
    one.apply(DataEvent::Peer(PeerOrder::AddRoute { peer: PeerId::SERVER, route }));
    for (source, taken) in [(77, 1), (7, 0)] {
        let sealed = server.send_one(&Flow { source, destination: 1, ..Flow::default() }.udp(b"x"));
        assert_eq!(one.receive(udp(9), &sealed, sealed.len()).packets.len(), taken, "from {source}");
    }
    assert_eq!(one.dropped_in(DropReason::BadSource), 1);
}

#[test]
fn keepalives_and_data_are_counted_apart() {
    let (mut server, mut one, _) = three(false);
    // A message of the protocol's own is neither.
    let sends: [(u64, &[u8]); 5] = [
        (1000, &Flow { source: 1, destination: 77, ..Flow::default() }.udp(b"x")),
        (2000, b""),
        (3000, &[0x2a; 7]),
        (4000, b""),
        (5000, b"\xffmessage"),
    ];
    for (time, payload) in sends {
        one.egress.tick(at(time));
        server.ingress.tick(at(time + 10));
        match payload.first() {
            Some(0x45) => {
                one.egress.seal_packet(Offload::NONE, &mut payload.to_vec(), &mut one.transmit_batch)
            }
            _ => one.apply(DataEvent::Inject { peer: PeerId::SERVER, payload: payload.to_vec() }),
        }
        let sealed = one.flush().remove(0).2;
        server.receive(udp(1), &sealed, sealed.len());
    }
    let activity = |later: u64| Activity {
        keepalives: 2,
        last_data: Some(at(1000 + later)),
        last_keepalive: Some(at(4000 + later)),
        last_other: Some(at(5000 + later)),
    };
    let expected = PeerActivity { received: activity(10), sent: Activity::default() };
    assert_eq!(server.counters.activity(ONE), Some(expected));
    let expected = PeerActivity { received: Activity::default(), sent: activity(0) };
    assert_eq!(one.counters.activity(PeerId::SERVER), Some(expected));
    assert_eq!(server.counters.traffic(ONE), Some((5, 0)), "each is a datagram");
    assert_eq!(server.counters.activity(PeerId(9)), None);
}

#[test]
fn an_expired_session_neither_seals_nor_opens() {
    let (mut server, mut one, _) = three(false);
    let expiring = || {
        let codec =
            format::session(named(1, 0), CIPHER, Keys { seal: 0x81, open: 1 }, ReplayWindow::default());
        SessionCodec { expires: Some(at(180_000)), ..codec }
    };
    server.apply(DataEvent::Peer(PeerOrder::Add(PeerConfig { path: Some(udp(1)), ..config(true) })));
    server.install_codec(ONE, session_id(ONE, 0), expiring());
    server.apply(DataEvent::Activate { peer: ONE, session: session_id(ONE, 0) });
    for (time, works) in [(0, true), (179_999, true), (180_000, false), (500_000, false)] {
        server.egress.tick(at(time));
        server.ingress.tick(at(time));
        assert_eq!(server.send(Offload::NONE, &packet(1)).is_empty(), !works, "at {time} ms");
        let sealed = one.send_one(&Flow { source: 1, destination: 77, ..Flow::default() }.udp(b"x"));
        assert_eq!(server.receive(udp(1), &sealed, sealed.len()).packets.len(), usize::from(works));
        server.apply(DataEvent::Inject { peer: ONE, payload: vec![] });
        assert_eq!(server.flush().is_empty(), !works);
    }
    assert_eq!(server.egress.take_notices(), vec![WANTED; 2]);
    assert_eq!(server.dropped_in(DropReason::NoSession), 2);
    // New keys, and the packets that waited leave.
    server.install(ONE, session_id(ONE, 1), named(1, 1), CIPHER, Keys { seal: 0x82, open: 2 });
    assert_eq!(server.flush().len(), 1);
}

#[test]
fn a_session_that_is_kept_for_a_destination_expires() {
    let mut server = End::server(false);
    server.apply(DataEvent::Peer(PeerOrder::Add(PeerConfig { path: Some(udp(1)), ..config(true) })));
    let codec = format::session(named(1, 0), CIPHER, Keys { seal: 0x81, open: 1 }, ReplayWindow::default());
    server.install_codec(ONE, session_id(ONE, 0), SessionCodec { expires: Some(at(180_000)), ..codec });
    server.apply(DataEvent::Activate { peer: ONE, session: session_id(ONE, 0) });
    // No order comes in between.
    for (time, sent) in [(0, 1), (179_999, 1), (180_000, 0)] {
        server.egress.tick(at(time));
        assert_eq!(server.send(Offload::NONE, &packet(1)).len(), sent, "at {time} ms");
    }
}

/// Packets are dropped or wait whether their senders get an answer or not; they get one if the setting is on.
#[test]
fn packets_that_reach_nobody_are_answered_if_asked_for() {
    let to = |destination| Flow { source: 77, destination, ..Flow::default() }.udp(&[1]);
    for asked in [false, true] {
        let mut server = End::server(false);
        server.egress.answer_unreachable(asked);
        let answers = |server: &mut End, destination| {
            assert!(server.send(Offload::NONE, &to(destination)).is_empty());
            server.egress.take_answers().len()
        };
        assert_eq!(answers(&mut server, 9), usize::from(asked), "no peer");
        server.apply(DataEvent::Peer(PeerOrder::Add(config(true))));
        assert_eq!(answers(&mut server, 1), usize::from(asked), "no path");
        server.apply(DataEvent::Peer(PeerOrder::Move { peer: ONE, path: udp(1) }));
        assert_eq!(answers(&mut server, 1), 0, "it waits for a session");
        server.apply(DataEvent::Peer(PeerOrder::Add(PeerConfig { path: Some(udp(1)), ..config(false) })));
        assert_eq!(answers(&mut server, 1), 0, "nothing waits for this peer");
        server.install(ONE, session_id(ONE, 0), named(1, 0), CIPHER, Keys { seal: 0x81, open: 1 });
        assert_eq!(server.send(Offload::NONE, &packet(1)).len(), 1);
        assert!(server.egress.take_answers().is_empty(), "it is sent");
        server.egress.answer_unreachable(false);
        assert_eq!(answers(&mut server, 9), 0, "asked for no more");
    }
}
