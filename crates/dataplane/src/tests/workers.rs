//! Two workers of one server: each peer's sessions are in one of them only.

use crate::testing::batches::Keys;
use adit_core::{Cipher, DataEvent, IpNet, Path, PeerConfig, PeerId, PeerOrder};

use super::format::{by_path, named, session_id};
use super::packets::Flow;
use super::world::{End, admit, client, inner, udp};
use crate::{DropReason, IngressEvent, Offload, Passed, remote_peer};

const CIPHER: Cipher = Cipher::Aes256Gcm;

/// A packet from client `from` to `to`.
fn packet(from: u8, to: u8) -> Vec<u8> {
    Flow { source: from, destination: to, ..Flow::default() }.udp(b"hello")
}

/// Client `n` comes by `udp(n)` and is served by worker `n % 2`.
fn workers(clients: &[u8]) -> [End; 2] {
    let mut workers = [0, 1].map(|_| End::server(true));
    for &n in clients {
        let [own, other] = pick(&mut workers, n);
        admit(own, n, udp(n), CIPHER);
        know(other, n, udp(n));
    }
    workers
}

/// The worker that serves client `n`, and the other.
fn pick(workers: &mut [End; 2], n: u8) -> [&mut End; 2] {
    let [even, odd] = workers;
    if n % 2 == 1 { [odd, even] } else { [even, odd] }
}

fn know(end: &mut End, n: u8, path: Path) {
    let routes = inner(n).iter().map(|net| net.parse::<IpNet>().expect("a network")).collect();
    let config = PeerConfig {
        peer: PeerId(n.into()),
        path: Some(path),
        routes,
        selectors: Default::default(),
        max_mss: None,
        roams: true,
        staging: false,
        device: Default::default(),
        by_path: true,
        identity: Default::default(),
    };
    let (egress, ingress) = remote_peer(config, u32::from(n % 2));
    end.egress.apply(egress, &mut end.transmit_batch);
    end.ingress.apply(ingress);
    know_session(end, n);
}

/// The first session of that client.
fn know_session(end: &mut End, n: u8) {
    let peer = PeerId(n.into());
    end.ingress.apply(IngressEvent::InstallRemote { peer, session: session_id(peer, 0) });
}

#[test]
fn packets_for_others_peers_are_passed_on() {
    let mut workers = workers(&[1, 2]);
    let [even, odd] = &mut workers;
    let for_one = packet(77, 1);
    assert_eq!(
        even.egress.seal_or_pass(Offload::NONE, &mut for_one.clone(), &mut even.transmit_batch),
        Some(1)
    );
    assert!(even.transmit_batch.is_empty());
    assert_eq!(odd.egress.seal_or_pass(Offload::NONE, &mut for_one.clone(), &mut odd.transmit_batch), None);
    assert_eq!(odd.flush().len(), 1);
    // A worker that does not pass it on loses it, and counts it.
    assert!(even.send(Offload::NONE, &for_one).is_empty());
    assert_eq!((even.dropped_out(DropReason::NoSession), odd.dropped_out(DropReason::NoSession)), (1, 0));
    assert_eq!(even.egress.seal_or_pass(Offload::NONE, &mut packet(77, 9), &mut even.transmit_batch), None);
    assert_eq!(even.dropped_out(DropReason::NoRoute), 1);
}

#[test]
fn datagrams_of_others_peers_are_passed_on_untouched() {
    let mut workers = workers(&[1, 2]);
    let mut one = client(1, udp(9), CIPHER);
    let mut two = client(2, udp(9), CIPHER);
    let mut gso_batch = Vec::new();
    for _ in 0..3 {
        gso_batch.extend(one.send_one(&packet(1, 77)));
    }
    let segment = gso_batch.len() / 3;
    gso_batch.extend(two.send_one(&packet(2, 77)));
    gso_batch.extend(one.send_one(&packet(1, 77)));
    let [even, odd] = &mut workers;
    let arrived = even.receive(udp(1), &gso_batch, segment);
    assert_eq!(arrived.packets.len(), 1, "its own peer's");
    let datagrams = |range| Passed::Datagrams { worker: 1, path: udp(1), traffic_class: 0, segment, range };
    let rows = [datagrams(0..3 * segment), datagrams(4 * segment..gso_batch.len())];
    assert_eq!(arrived.passed, rows, "what is in a row stays together");
    let first = gso_batch[..3 * segment].to_vec();
    assert_eq!(odd.receive(udp(1), &first, segment).packets.len(), 3);
    assert_eq!(even.counters.snapshot().ingress.drops, [0; DropReason::ALL.len()]);
}

#[test]
fn peers_without_a_name_go_by_path_to_who_serves_them() {
    let mut workers = workers(&[1]);
    let mut one = client(1, udp(9), CIPHER);
    let session = session_id(PeerId::SERVER, 0);
    one.install(PeerId::SERVER, session, by_path(0), CIPHER, Keys { seal: 1, open: 0x81 });
    let sealed = one.send_one(&packet(1, 77));
    let [even, _] = &mut workers;
    let arrived = even.receive(udp(1), &sealed, sealed.len());
    assert!(matches!(arrived.passed[..], [Passed::Datagrams { worker: 1, .. }]));
    // It moves; then nothing is known of where it was.
    even.apply(DataEvent::Peer(PeerOrder::Move { peer: PeerId(1), path: udp(5) }));
    assert!(even.receive(udp(1), &sealed, sealed.len()).passed.is_empty());
    assert_eq!(even.receive(udp(5), &sealed, sealed.len()).passed.len(), 1);
    even.apply(DataEvent::Peer(PeerOrder::Remove(PeerId(1))));
    assert!(even.receive(udp(5), &sealed, sealed.len()).passed.is_empty());
    assert_eq!(even.dropped_in(DropReason::NoPeer), 2);
}

#[test]
fn a_peer_is_followed_by_the_worker_that_serves_it() {
    let mut workers = workers(&[1, 2]);
    let mut one = client(1, udp(9), CIPHER);
    let [even, odd] = &mut workers;
    for (path, at) in [(udp(7), udp(7)), (udp(2), udp(7)), (udp(8), udp(8))] {
        let sealed = one.send_one(&packet(1, 77));
        // The kernel brings it to the wrong worker, which hands it over.
        let passed = even.receive(path, &sealed, sealed.len()).passed;
        assert!(matches!(passed[..], [Passed::Datagrams { worker: 1, path: from, .. }] if from == path));
        odd.receive(path, &sealed, sealed.len());
        assert_eq!(odd.send(Offload::NONE, &packet(77, 1))[0].0, at, "from {path}");
    }
}

#[test]
fn clients_of_two_workers_reach_each_other() {
    let mut workers = workers(&[1, 2, 4]);
    let mut two = client(2, udp(9), CIPHER);
    let [even, odd] = &mut workers;
    let sealed = two.send_one(&packet(2, 1));
    let arrived = even.receive(udp(2), &sealed, sealed.len());
    assert!(matches!(arrived.passed[..], [Passed::Packet { worker: 1, .. }]));
    odd.egress.relay_packet(&mut packet(2, 1), &mut odd.transmit_batch);
    assert_eq!(odd.flush()[0].0, udp(1));
    let sealed = two.send_one(&packet(2, 4));
    assert_eq!(even.receive(udp(2), &sealed, sealed.len()).relay.len(), 1, "its own");
    // A client cannot send with the address of another worker's client.
    let lie = two.send_one(&packet(1, 4));
    assert!(even.receive(udp(2), &lie, lie.len()).relay.is_empty());
    assert_eq!(even.dropped_in(DropReason::BadSource), 1);
}

#[test]
fn a_peer_that_changes_hands_leaves_nothing_behind() {
    let mut workers = workers(&[2]);
    let mut two = client(2, udp(9), CIPHER);
    let [even, odd] = &mut workers;
    assert_eq!(even.counters.snapshot().peers.len(), 1);
    assert!(odd.counters.snapshot().peers.is_empty());
    // Now the odd one serves it.
    let routes: Vec<IpNet> = inner(2).iter().map(|net| net.parse().expect("a network")).collect();
    let config = PeerConfig {
        peer: PeerId(2),
        path: Some(udp(2)),
        routes,
        selectors: Default::default(),
        max_mss: None,
        roams: true,
        staging: false,
        device: Default::default(),
        by_path: true,
        identity: Default::default(),
    };
    let (egress, ingress) = remote_peer(config.clone(), 1);
    even.egress.apply(egress, &mut even.transmit_batch);
    even.ingress.apply(ingress);
    know_session(even, 2);
    odd.apply(DataEvent::Peer(PeerOrder::Add(config)));
    odd.install(PeerId(2), session_id(PeerId(2), 0), named(2, 0), CIPHER, Keys { seal: 0x82, open: 2 });
    assert_eq!(
        even.egress.seal_or_pass(Offload::NONE, &mut packet(77, 2), &mut even.transmit_batch),
        Some(1)
    );
    let sealed = two.send_one(&packet(2, 77));
    assert_eq!(even.receive(udp(2), &sealed, sealed.len()).passed.len(), 1);
    assert_eq!(odd.receive(udp(2), &sealed, sealed.len()).packets.len(), 1);
    let mut all = even.counters.snapshot();
    all.merge(odd.counters.snapshot());
    assert_eq!((all.peers.len(), all.ingress.packets), (1, 1));
    assert_eq!(odd.send(Offload::NONE, &packet(77, 2)).len(), 1);
}
