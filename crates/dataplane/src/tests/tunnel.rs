//! Two ends and a server in memory: sealed packets are opened, and nothing else is.

use crate::testing::batches::Keys;
use adit_core::{Cipher, DataEvent, Notice, PeerId, PeerOrder, ReplayWindow};
use proptest::prelude::*;

use super::format::{self, named, session_id};
use super::packets::{self, Flow};
use super::world::{End, admit, client, tcp, three, udp};
use crate::{DropReason, MergePolicy, Offload, Segmentation};

/// A packet from client `from` to `to`.
fn packet(from: u8, to: u8) -> Vec<u8> {
    Flow { source: from, destination: to, ..Flow::default() }.udp(b"hello")
}

#[test]
fn forged_replayed_and_foreign_datagrams_are_dropped_and_counted() {
    let (mut server, mut one, mut two) = three(false);
    let sealed = one.send_one(&packet(1, 77));
    assert_eq!(server.receive(udp(1), &sealed, sealed.len()).packets, [packet(1, 77)]);
    assert!(server.receive(udp(1), &sealed, sealed.len()).packets.is_empty());
    assert_eq!(server.dropped_in(DropReason::Replay), 1);

    let mut forged = one.send_one(&packet(1, 77));
    for at in 0..forged.len() {
        forged[at] ^= 1;
        assert!(server.receive(udp(1), &forged, forged.len()).packets.is_empty(), "byte {at}");
        forged[at] ^= 1;
    }
    assert_eq!(server.receive(udp(1), &forged, forged.len()).packets.len(), 1, "untouched it opens");

    let before = server.dropped_in(DropReason::BadSource);
    let lie = one.send_one(&packet(2, 77));
    assert!(server.receive(udp(1), &lie, lie.len()).packets.is_empty(), "client 1 speaks as client 2");
    assert_eq!(server.dropped_in(DropReason::BadSource), before + 1);

    let before = server.dropped_in(DropReason::BadTag);
    let mut crossed = two.send_one(&packet(2, 77));
    crossed[3] = 1;
    assert!(server.receive(udp(2), &crossed, crossed.len()).packets.is_empty(), "client 2 as client 1");
    assert_eq!(server.dropped_in(DropReason::BadTag), before + 1);

    let before = server.dropped_in(DropReason::NoSession);
    crossed[3] = 9;
    assert!(server.receive(udp(2), &crossed, crossed.len()).packets.is_empty());
    assert_eq!(server.dropped_in(DropReason::NoSession), before + 1);

    let mut zero = two.send_one(&packet(2, 77));
    zero[4..8].fill(0);
    let before = server.dropped_in(DropReason::Malformed);
    assert!(server.receive(udp(2), &zero, zero.len()).packets.is_empty(), "packet id 0");
    assert_eq!(server.dropped_in(DropReason::Malformed), before + 1);
}

#[test]
fn routes_choose_the_peer() {
    let (mut server, mut one, mut two) = three(false);
    for (n, end) in [(1, &mut one), (2, &mut two)] {
        let gso_batches = server.send(Offload::NONE, &packet(77, n));
        assert_eq!(gso_batches[0].0, udp(n));
        assert_eq!(end.receive(udp(9), &gso_batches[0].2, gso_batches[0].1).packets, [packet(77, n)]);
    }
    assert!(server.send(Offload::NONE, &packet(77, 3)).is_empty());
    assert_eq!(server.dropped_out(DropReason::NoRoute), 1);
    server.apply(DataEvent::Peer(PeerOrder::Remove(PeerId(1))));
    assert!(server.send(Offload::NONE, &packet(77, 1)).is_empty());
    assert_eq!(server.dropped_out(DropReason::NoRoute), 2);
}

#[test]
fn clients_reach_each_other_only_when_told() {
    for allowed in [false, true] {
        let (mut server, mut one, mut two) = three(allowed);
        let sealed = one.send_one(&packet(1, 2));
        let arrived = server.receive(udp(1), &sealed, sealed.len());
        if !allowed {
            assert_eq!((arrived.packets.len(), arrived.relay.len()), (1, 0));
            continue;
        }
        assert_eq!((arrived.packets.len(), arrived.relay.len()), (0, 1));
        server.egress.relay_packet(&mut arrived.relay[0].clone(), &mut server.transmit_batch);
        let gso_batches = server.flush();
        assert_eq!(gso_batches[0].0, udp(2));
        assert_eq!(two.receive(udp(9), &gso_batches[0].2, gso_batches[0].1).packets, [packet(1, 2)]);
        let sealed = one.send_one(&packet(1, 77));
        assert_eq!(server.receive(udp(1), &sealed, sealed.len()).packets.len(), 1, "others go to the device");
        server.add_peer(PeerId(2), udp(2), &["0.0.0.0/0"], None);
        let mut multicast = packet(1, 9);
        multicast[16] = 224;
        let sealed = one.send_one(&multicast);
        assert_eq!(server.receive(udp(1), &sealed, sealed.len()).packets.len(), 1, "and what is for all");
    }
}

#[test]
fn first_opened_and_moved_are_told_once() {
    let (mut server, mut one, _) = three(false);
    let peer = PeerId(1);
    let mut sent: Vec<Vec<u8>> = (0..8).map(|_| one.send_one(&packet(1, 77))).collect();
    let mut notices = |server: &mut End, index: usize, path| {
        let sealed = std::mem::take(&mut sent[index]);
        server.receive(path, &sealed, sealed.len()).notices
    };
    let first = Notice::FirstOpened { peer, session: session_id(peer, 0) };
    assert_eq!(notices(&mut server, 0, udp(1)), [first]);
    assert_eq!(notices(&mut server, 1, udp(1)), []);
    let moved = Notice::Moved { peer, path: udp(7) };
    assert_eq!(notices(&mut server, 3, udp(7)), [moved]);
    assert_eq!(notices(&mut server, 4, udp(7)), []);
    server.apply(DataEvent::Peer(PeerOrder::Move { peer, path: udp(7) }));
    assert_eq!(notices(&mut server, 2, udp(1)), [], "late, from where it was");
    assert_eq!(notices(&mut server, 5, udp(7)), []);
    let back = Notice::Moved { peer, path: udp(1) };
    assert_eq!(notices(&mut server, 6, udp(1)), [back]);
}

/// A datagram that cannot be opened, or that was received before, does not change where a peer is, whatever
/// peer it names.
#[test]
fn cve_2020_11810_an_undecryptable_packet_does_not_float_a_client() {
    let (mut server, mut one, _) = three(false);
    let seen = one.send_one(&packet(1, 77));
    assert_eq!(server.receive(udp(1), &seen, seen.len()).packets.len(), 1);
    let fresh = one.send_one(&packet(1, 77));
    let mut forged = vec![seen.clone(), fresh[..fresh.len() - 1].to_vec(), fresh[..8].to_vec()];
    for at in 0..fresh.len() {
        let mut changed = fresh.clone();
        changed[at] ^= 1;
        forged.push(changed);
    }
    for datagram in &forged {
        let told = server.receive(udp(7), datagram, datagram.len());
        let moved = told.notices.iter().any(|notice| matches!(notice, Notice::Moved { .. }));
        assert!(!moved && told.packets.is_empty(), "{datagram:?}");
    }
    // The untouched datagram is the peer's, wherever it comes from.
    let moved = Notice::Moved { peer: PeerId(1), path: udp(7) };
    assert!(server.receive(udp(7), &fresh, fresh.len()).notices.contains(&moved));
}

#[test]
fn control_goes_to_the_protocol() {
    let (mut server, ..) = three(false);
    for opcode in [3u8, 4, 5, 7, 8, 10, 11, 0, 31] {
        let datagram = vec![opcode << 3, 1, 2, 3];
        assert_eq!(server.receive(udp(1), &datagram, 4).control, [(udp(1), datagram)]);
    }
}

#[test]
fn sessions_change_without_loss() {
    let (mut server, mut one, _) = three(false);
    let late = one.send_one(&packet(1, 77));
    let (peer, cipher) = (PeerId(1), Cipher::ChaCha20Poly1305);
    server.install(peer, session_id(peer, 1), named(1, 1), cipher, Keys { seal: 21, open: 22 });
    one.install(
        PeerId::SERVER,
        session_id(PeerId::SERVER, 1),
        named(1, 1),
        cipher,
        Keys { seal: 22, open: 21 },
    );
    let new = one.send_one(&packet(1, 77));
    assert_eq!(new[0] & 7, 1, "the new key id");
    for sealed in [new, late] {
        assert_eq!(server.receive(udp(1), &sealed, sealed.len()).packets.len(), 1, "both keys open");
    }
    one.apply(DataEvent::Activate { peer: PeerId::SERVER, session: session_id(PeerId::SERVER, 0) });
    let old = one.send_one(&packet(1, 77));
    server.apply(DataEvent::Retire { peer, session: session_id(peer, 0) });
    assert!(server.receive(udp(1), &old, old.len()).packets.is_empty(), "retired");
    one.apply(DataEvent::Retire { peer: PeerId::SERVER, session: session_id(PeerId::SERVER, 0) });
    assert!(one.send(Offload::NONE, &packet(1, 77)).is_empty());
    assert_eq!(one.dropped_out(DropReason::NoSession), 1);
}

#[test]
fn a_message_may_name_a_session_that_is_not_active() {
    let (mut server, mut one, _) = three(false);
    let (peer, cipher) = (PeerId(1), Cipher::ChaCha20Poly1305);
    server.install(peer, session_id(peer, 1), named(1, 1), cipher, Keys { seal: 21, open: 22 });
    one.install(
        PeerId::SERVER,
        session_id(PeerId::SERVER, 1),
        named(1, 1),
        cipher,
        Keys { seal: 22, open: 21 },
    );
    let mut inject = |key| {
        let session = session_id(PeerId::SERVER, key);
        one.apply(DataEvent::InjectInto { peer: PeerId::SERVER, session, payload: vec![0x2a; 16] });
        one.flush().pop().map(|(_, _, sealed)| sealed)
    };
    let sealed = inject(0).expect("the session is there");
    assert_eq!((sealed[0] & 7, inject(5)), (0, None));
    let notices = server.receive(udp(1), &sealed, sealed.len()).notices;
    let old = |notice: &Notice| matches!(notice, Notice::Message { session, .. } if *session == session_id(peer, 0));
    assert!(notices.iter().any(old), "{notices:?}");
    assert_eq!(one.dropped_out(DropReason::NoSession), 1);
    assert_eq!(one.send_one(&packet(1, 77))[0] & 7, 1, "packets go in the active one");
}

#[test]
fn a_peer_whose_sessions_do_not_seal_is_still_heard() {
    let (mut server, mut one, _) = three(false);
    let peer = PeerId(1);
    let before = one.send_one(&packet(1, 77));
    server.apply(DataEvent::Deactivate(peer));
    assert!(server.send(Offload::NONE, &packet(77, 1)).is_empty());
    assert_eq!(server.dropped_out(DropReason::NoSession), 1);
    assert_eq!(server.receive(udp(1), &before, before.len()).packets.len(), 1, "it opens");
    server.apply(DataEvent::InjectInto { peer, session: session_id(peer, 0), payload: vec![0x2a; 16] });
    assert_eq!(server.flush().len(), 1, "a message of the protocol's own goes out");
    server.apply(DataEvent::Activate { peer, session: session_id(peer, 0) });
    assert!(!server.send_one(&packet(77, 1)).is_empty());
}

#[test]
fn a_super_packet_comes_out_as_it_went_in() {
    for (v6, path) in [(false, udp as fn(u8) -> _), (true, udp), (false, tcp), (true, tcp)] {
        let mut server = End::server(false);
        admit(&mut server, 1, path(1), Cipher::Aes256Gcm);
        server.receive_batch.set_policy(MergePolicy::Tcp);
        let mut one = client(1, path(9), Cipher::Aes256Gcm);
        let flow = Flow {
            v6,
            destination: 77,
            options: vec![1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8],
            ..Flow::default()
        };
        let payload: Vec<u8> = (0..40_100).map(|at| (at / 7) as u8).collect();
        let mut packet = flow.tcp(u32::MAX - 5000, 0x18, &payload);
        let start = if v6 { 40 } else { 20 };
        let headers = start + 32;
        let offload = Offload {
            needs_checksum: true,
            segmentation: if v6 { Segmentation::TcpV6 } else { Segmentation::TcpV4 },
            ecn: false,
            header_len: headers as u16,
            segment_size: 1388,
            checksum_start: start as u16,
            checksum_offset: 16,
        };
        let gso_batches = one.send(offload, &packet);
        assert_eq!(gso_batches.len(), 1);
        assert_eq!(one.counters.traffic(PeerId::SERVER), Some((0, 29)));
        // As the kernel hands it over: only the pseudo-header is summed up.
        let len = packet.len() - start;
        let addresses = if v6 { 8..40 } else { 12..20 };
        let sum = !packets::checksum(&[&packet[addresses], &[0, 6, (len >> 8) as u8, len as u8]]);
        packet[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
        let arrived = server.receive(path(1), &gso_batches[0].2, gso_batches[0].1);
        assert_eq!(arrived.headers, [offload.to_vnet_header()]);
        assert_eq!(arrived.packets, [packet]);
    }
}

#[test]
fn the_halves_may_go_to_threads() {
    fn is_send<T: Send>() {}
    is_send::<crate::Egress>();
    is_send::<crate::Ingress>();
    is_send::<crate::EgressEvent>();
    is_send::<crate::IngressEvent>();
    is_send::<crate::Counters>();
}

proptest! {
    /// A network that loses, doubles and shuffles.
    #[test]
    fn each_packet_arrives_at_most_once(
        count in 1u8..150,
        deliveries in proptest::collection::vec(any::<prop::sample::Index>(), 1..400),
        window in 1u32..130,
    ) {
        let (mut server, mut one, _) = three(false);
        let session = session_id(PeerId(1), 0);
        let replay = ReplayWindow { packets: window, ..ReplayWindow::default() };
        let codec = format::session(named(1, 0), Cipher::Aes256Gcm, Keys { seal: 0x81, open: 1 }, replay);
        server.install_codec(PeerId(1), session, codec);
        let sent: Vec<Vec<u8>> = (0..count)
            .map(|n| one.send_one(&Flow { destination: 77, ..Flow::default() }.udp(&[n])))
            .collect();
        let (mut highest, mut seen) = (0, std::collections::BTreeSet::new());
        for index in deliveries {
            let number = index.index(sent.len());
            let fresh = highest < number + window as usize && !seen.contains(&number);
            let arrived = server.receive(udp(1), &sent[number], sent[number].len()).packets;
            prop_assert_eq!(arrived.len(), usize::from(fresh), "number {} after {}", number, highest);
            if fresh {
                seen.insert(number);
                highest = highest.max(number);
            }
        }
        let snapshot = server.counters.snapshot();
        prop_assert_eq!(snapshot.ingress.packets, seen.len() as u64);
    }
}
