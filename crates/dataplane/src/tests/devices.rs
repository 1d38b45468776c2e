//! Several devices of one tunnel: each has routes of its own, and a peer is reached from one of them.

use crate::testing::batches::Keys;
use adit_core::{Cipher, DataEvent, DeviceId, Notice, Path, PeerConfig, PeerId, PeerOrder};

use super::format::{named, session_id};
use super::packets::Flow;
use super::world::{End, client, inner, udp};
use crate::{DropReason, MergePolicy, Offload};

const CIPHER: Cipher = Cipher::Aes256Gcm;
/// The device of client 1, and that of client 2.
const ONE: DeviceId = DeviceId(1);
const TWO: DeviceId = DeviceId(2);
/// The last byte of an inner address that no client has for itself.
const FAR: u8 = 55;

fn add(server: &mut End, n: u8, device: DeviceId) {
    let routes = match device {
        DeviceId::MAIN => inner(n).to_vec(),
        _ => vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()],
    };
    server.apply(DataEvent::Peer(PeerOrder::Add(PeerConfig {
        peer: PeerId(n.into()),
        path: Some(udp(n)),
        selectors: Default::default(),
        routes: routes.iter().map(|net| net.parse().expect("a network")).collect(),
        max_mss: None,
        roams: true,
        staging: true,
        device,
        by_path: true,
        identity: Default::default(),
    })));
}

fn give_session(server: &mut End, n: u8) {
    let peer = PeerId(n.into());
    server.install(peer, session_id(peer, 0), named(n.into(), 0), CIPHER, Keys { seal: n | 0x80, open: n });
}

/// A server with client 3 behind the main device, and clients 1 and 2 each behind one of their own, to which all routes of it
/// lead.
fn server() -> End {
    let mut server = End::server(true);
    for (n, device) in [(1, ONE), (2, TWO), (3, DeviceId::MAIN)] {
        add(&mut server, n, device);
        give_session(&mut server, n);
    }
    server
}

fn packet(source: u8, destination: u8) -> Vec<u8> {
    Flow { source, destination, ..Flow::default() }.udp(b"hello")
}

/// Where a packet from that device goes.
fn sent_to(server: &mut End, device: DeviceId, destination: u8) -> Option<Path> {
    let mut packet = packet(77, destination);
    server.egress.seal_packet_from(device, Offload::NONE, &mut packet, &mut server.transmit_batch);
    server.flush().first().map(|(path, ..)| *path)
}

/// The devices of the packets in a datagram of client `n`.
fn devices_of(server: &mut End, n: u8, datagram: &[u8]) -> Vec<DeviceId> {
    let mut buffer = datagram.to_vec();
    server.ingress.open_datagrams(udp(n), &mut buffer, datagram.len(), &mut server.receive_batch);
    let devices = server.receive_batch.packets().map(|packet| packet.device()).collect();
    server.receive_batch.clear();
    devices
}

#[test]
fn the_device_of_a_packet_chooses_the_peer() {
    let mut server = server();
    assert_eq!(sent_to(&mut server, ONE, FAR), Some(udp(1)));
    assert_eq!(sent_to(&mut server, TWO, FAR), Some(udp(2)));
    assert_eq!(sent_to(&mut server, TWO, 3), Some(udp(2)), "a client of the main device");
    assert_eq!(sent_to(&mut server, DeviceId::MAIN, 3), Some(udp(3)));
    assert_eq!(server.dropped_out(DropReason::NoRoute), 0);
    assert_eq!(sent_to(&mut server, DeviceId::MAIN, FAR), None);
    assert_eq!(sent_to(&mut server, DeviceId(9), FAR), None);
    assert_eq!(server.dropped_out(DropReason::NoRoute), 2);
    // A peer may change its device, and leaves no routes behind.
    add(&mut server, 2, ONE);
    assert_eq!(sent_to(&mut server, ONE, FAR), Some(udp(2)));
    assert_eq!(sent_to(&mut server, TWO, FAR), None);
    server.apply(DataEvent::Peer(PeerOrder::Remove(PeerId(2))));
    assert_eq!(sent_to(&mut server, ONE, FAR), None);
}

#[test]
fn packets_go_to_the_device_of_their_peer() {
    let mut server = server();
    let mut clients = [1, 2, 3].map(|n| client(n, udp(9), CIPHER));
    for (n, source, devices) in [
        (1, FAR, vec![ONE]),
        (2, FAR, vec![TWO]),
        (2, 3, vec![TWO]),
        (3, 3, vec![DeviceId::MAIN]),
        (3, FAR, vec![]),
    ] {
        let sealed = clients[usize::from(n) - 1].send_one(&packet(source, 77));
        assert_eq!(devices_of(&mut server, n, &sealed), devices, "{source} of {n}");
    }
    assert_eq!(server.dropped_in(DropReason::BadSource), 1);
    // A route of one device is none of another.
    let route = "10.0.0.0/8".parse().expect("a network");
    server.apply(DataEvent::Peer(PeerOrder::RemoveRoute {
        peer: PeerId(1),
        route: "0.0.0.0/0".parse().expect("a network"),
    }));
    let sealed = clients[0].send_one(&packet(FAR, 77));
    assert_eq!(devices_of(&mut server, 1, &sealed), []);
    server.apply(DataEvent::Peer(PeerOrder::AddRoute { peer: PeerId(1), route }));
    let sealed = clients[0].send_one(&packet(FAR, 77));
    assert_eq!(devices_of(&mut server, 1, &sealed), [ONE]);
    assert_eq!(sent_to(&mut server, TWO, FAR), Some(udp(2)));
}

/// The flows of two peers may have the same addresses and ports.
#[test]
fn packets_of_different_devices_are_not_merged() {
    let mut server = server();
    server.receive_batch.set_policy(MergePolicy::TcpAndUdp);
    let [mut one, mut two] = [1, 2].map(|n| client(n, udp(9), CIPHER));
    let flow = Flow { source: FAR, destination: 77, ..Flow::default() };
    let mut datagrams = Vec::new();
    for (n, end, sequence) in [(1, &mut one, 1), (2, &mut two, 11)] {
        datagrams.push((n, end.send_one(&flow.tcp(sequence, 0x10, b"ten bytes!"))));
    }
    datagrams.push((1, one.send_one(&flow.tcp(11, 0x10, b"ten bytes?"))));
    let mut buffer: Vec<u8> = datagrams.iter().flat_map(|(_, datagram)| datagram.clone()).collect();
    let mut start = 0;
    for (n, datagram) in &datagrams {
        let within = start..start + datagram.len();
        start = within.end;
        server.ingress.gather_datagrams(udp(*n), &mut buffer, within, 0, &mut server.receive_batch);
    }
    // The newest is that of device 2, which the next receive might continue.
    assert!(server.receive_batch.finish_but_newest(&mut buffer).is_some());
    server.receive_batch.finish(&mut buffer);
    let written: Vec<(DeviceId, usize)> =
        server.receive_batch.packets().map(|packet| (packet.device(), packet.pieces().count())).collect();
    assert_eq!(written, [(ONE, 2), (TWO, 1)]);
}

#[test]
fn packets_from_a_device_wait_for_its_peer() {
    let mut server = End::server(false);
    add(&mut server, 1, ONE);
    assert_eq!(sent_to(&mut server, ONE, FAR), None);
    let wanted = server.egress.take_notices();
    assert!(matches!(&wanted[..], [Notice::Wanted { peer: PeerId(1), .. }]), "{wanted:?}");
    give_session(&mut server, 1);
    assert_eq!(server.flush().first().map(|(path, ..)| *path), Some(udp(1)));
}
