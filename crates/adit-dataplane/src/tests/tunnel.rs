//! Two ends and a server in memory: what is sealed is opened, and nothing else is.

use adit_core::{
    Cipher, CompressionFraming, DataEvent, Framing, Install, Notice, OpenVpnFraming, OpenVpnHeader, PeerId,
    ReplayWindow, SessionId,
};
use proptest::prelude::*;

use super::packets::{self, Flow};
use super::world::{End, admit, client, openvpn, tcp, three, udp, v2};
use crate::{Drop, MergePolicy, Offload, Role, Segmentation, Wire};

const COMPRESSIONS: [CompressionFraming; 4] = [
    CompressionFraming::None,
    CompressionFraming::LzoNo,
    CompressionFraming::Stub,
    CompressionFraming::StubV2,
];

/// A packet from client `from` to `to`.
fn packet(from: u8, to: u8) -> Vec<u8> {
    Flow { source: from, destination: to, ..Flow::default() }.udp(b"hello")
}

#[test]
fn every_openvpn_framing_both_ways() {
    for cipher in Cipher::ALL {
        for compression in COMPRESSIONS {
            // HMAC-SHA256, IV, packet id and at least a byte of padding; or packet id and tag.
            let inside = if cipher.is_aead() { 20 } else { 32 + 16 + 4 + 1 };
            for (header, len) in [(OpenVpnHeader::V1, 1), (OpenVpnHeader::V2 { peer_id: 1 }, 4)] {
                let overhead = len + inside;
                for path in [udp, tcp] {
                    let framing = openvpn(header, 3, compression);
                    let mut server = End::new(Role::Server, Wire::OpenVpn, false);
                    admit(&mut server, 1, path(1), cipher);
                    server.install(PeerId(1), SessionId::openvpn(PeerId(1), 3), framing, cipher, (7, 8));
                    let mut client = client(1, path(9), cipher);
                    client.install(
                        PeerId::SERVER,
                        SessionId::openvpn(PeerId::SERVER, 3),
                        framing,
                        cipher,
                        (8, 7),
                    );
                    let (up, down) = (packet(1, 77), packet(77, 1));
                    exchange(&mut client, PeerId::SERVER, &mut server, path(1), &up, overhead);
                    exchange(&mut server, PeerId(1), &mut client, path(9), &down, overhead);
                }
            }
        }
    }
}

#[test]
fn the_epoch_format_both_ways() {
    for cipher in Cipher::ALL.into_iter().filter(|cipher| cipher.is_aead()) {
        for compression in COMPRESSIONS {
            for path in [udp, tcp] {
                let header = OpenVpnHeader::V2 { peer_id: 1 };
                let framing = Framing::OpenVpnEpoch(OpenVpnFraming { header, key_id: 3, compression });
                let mut server = End::new(Role::Server, Wire::OpenVpn, false);
                admit(&mut server, 1, path(1), cipher);
                server.install(PeerId(1), SessionId::openvpn(PeerId(1), 3), framing, cipher, (7, 8));
                let mut client = client(1, path(9), cipher);
                let session = SessionId::openvpn(PeerId::SERVER, 3);
                client.install(PeerId::SERVER, session, framing, cipher, (8, 7));
                let (up, down) = (packet(1, 77), packet(77, 1));
                exchange(&mut client, PeerId::SERVER, &mut server, path(1), &up, 28);
                exchange(&mut server, PeerId(1), &mut client, path(9), &down, 28);
                let sealed = client.send_one(&up);
                assert_eq!(server.receive(path(1), &sealed, sealed.len()).packets, [up]);
                assert!(server.receive(path(1), &sealed, sealed.len()).packets.is_empty());
                assert_eq!(server.dropped_in(Drop::Replay), 1);
            }
        }
    }
}

/// Sends a packet and two messages that are no packets.
fn exchange(from: &mut End, peer: PeerId, to: &mut End, by: adit_core::Path, packet: &[u8], overhead: usize) {
    for payload in [packet, &[0x50, 1, 2], &[0x2a; 16], &[0xfb]] {
        from.apply(DataEvent::Inject { peer, payload: payload.to_vec() });
        let sealed = &from.flush()[0].2;
        assert!(sealed.len() >= overhead + payload.len());
        let arrived = to.receive(by, sealed, sealed.len());
        if payload == packet {
            assert_eq!(arrived.packets, [packet]);
            continue;
        }
        let found = arrived
            .notices
            .iter()
            .filter(|notice| matches!(notice, Notice::Message { payload: found, .. } if found == payload));
        assert_eq!(found.count(), 1);
    }
}

#[test]
fn wireguard_is_one_framing_among_others() {
    for cipher in Cipher::ALL.into_iter().filter(|cipher| cipher.is_aead()) {
        let mut a = End::new(Role::Server, Wire::WireGuard, false);
        let mut b = End::new(Role::Server, Wire::WireGuard, false);
        a.add_peer(PeerId(4), udp(2), &["10.0.0.2/32"], None);
        b.add_peer(PeerId(5), udp(1), &["10.0.0.1/32"], None);
        // A session's id is the index we chose; the framing holds the one that the peer chose.
        let (index_a, index_b) = (0xa1b2_c3d4, 0x0102_0304);
        a.install(
            PeerId(4),
            SessionId(index_a.into()),
            Framing::WireGuard { remote_index: index_b, mtu: 1400 },
            cipher,
            (1, 2),
        );
        b.install(
            PeerId(5),
            SessionId(index_b.into()),
            Framing::WireGuard { remote_index: index_a, mtu: 1400 },
            cipher,
            (2, 1),
        );
        for (number, len) in [0usize, 1, 4, 15, 16, 17, 1364, 1372].into_iter().enumerate() {
            let packet = Flow::default().udp(&vec![9; len]);
            let sealed = a.send_one(&packet);
            assert_eq!(sealed.len(), 32 + packet.len().next_multiple_of(16).min(1400));
            assert_eq!(sealed[..8], [4, 0, 0, 0, 4, 3, 2, 1], "type and receiver, little endian");
            assert_eq!(sealed[8..16], (number as u64).to_le_bytes(), "the counter starts at 0");
            assert_eq!(b.receive(udp(1), &sealed, sealed.len()).packets, std::slice::from_ref(&packet));
            assert!(b.receive(udp(1), &sealed, sealed.len()).packets.is_empty(), "replayed");
        }
        assert_eq!(b.dropped_in(Drop::Replay), 8);
        let sealed = a.send_one(&Flow::default().udp(b"from elsewhere"));
        b.receive(udp(9), &sealed, sealed.len());
        let reply = Flow { source: 2, destination: 1, ..Flow::default() }.udp(b"to there");
        assert_eq!(b.send(Offload::NONE, &reply)[0].0, udp(9));
        let handshake = [&[1u8, 0, 0, 0][..], &[9; 144]].concat();
        assert_eq!(b.receive(udp(1), &handshake, 148).control, [(udp(1), handshake)]);
        assert!(b.receive(udp(1), &[5, 0, 0, 0, 9, 9, 9, 9], 8).control.is_empty());
        assert_eq!(b.dropped_in(Drop::Malformed), 1);
    }
}

#[test]
fn forged_replayed_and_foreign_datagrams_are_dropped_and_counted() {
    let (mut server, mut one, mut two) = three(false);
    let sealed = one.send_one(&packet(1, 77));
    assert_eq!(server.receive(udp(1), &sealed, sealed.len()).packets, [packet(1, 77)]);
    assert!(server.receive(udp(1), &sealed, sealed.len()).packets.is_empty());
    assert_eq!(server.dropped_in(Drop::Replay), 1);

    let mut forged = one.send_one(&packet(1, 77));
    for at in 0..forged.len() {
        forged[at] ^= 1;
        assert!(server.receive(udp(1), &forged, forged.len()).packets.is_empty(), "byte {at}");
        forged[at] ^= 1;
    }
    assert_eq!(server.receive(udp(1), &forged, forged.len()).packets.len(), 1, "untouched it opens");

    let before = server.dropped_in(Drop::BadSource);
    let lie = one.send_one(&packet(2, 77));
    assert!(server.receive(udp(1), &lie, lie.len()).packets.is_empty(), "client 1 speaks as client 2");
    assert_eq!(server.dropped_in(Drop::BadSource), before + 1);

    let before = server.dropped_in(Drop::BadTag);
    let mut crossed = two.send_one(&packet(2, 77));
    crossed[3] = 1;
    assert!(server.receive(udp(2), &crossed, crossed.len()).packets.is_empty(), "client 2 as peer-id 1");
    assert_eq!(server.dropped_in(Drop::BadTag), before + 1);

    let before = server.dropped_in(Drop::NoSession);
    crossed[3] = 9;
    assert!(server.receive(udp(2), &crossed, crossed.len()).packets.is_empty());
    assert_eq!(server.dropped_in(Drop::NoSession), before + 1);

    let mut zero = two.send_one(&packet(2, 77));
    zero[4..8].fill(0);
    let before = server.dropped_in(Drop::Malformed);
    assert!(server.receive(udp(2), &zero, zero.len()).packets.is_empty(), "packet id 0");
    assert_eq!(server.dropped_in(Drop::Malformed), before + 1);
}

#[test]
fn routes_choose_the_peer() {
    let (mut server, mut one, mut two) = three(false);
    for (n, end) in [(1, &mut one), (2, &mut two)] {
        let trains = server.send(Offload::NONE, &packet(77, n));
        assert_eq!(trains[0].0, udp(n));
        assert_eq!(end.receive(udp(9), &trains[0].2, trains[0].1).packets, [packet(77, n)]);
    }
    assert!(server.send(Offload::NONE, &packet(77, 3)).is_empty());
    assert_eq!(server.dropped_out(Drop::NoRoute), 1);
    server.apply(DataEvent::RemovePeer(PeerId(1)));
    assert!(server.send(Offload::NONE, &packet(77, 1)).is_empty());
    assert_eq!(server.dropped_out(Drop::NoRoute), 2);
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
        server.egress.relay_packet(&mut arrived.relay[0].clone(), &mut server.outbox);
        let trains = server.flush();
        assert_eq!(trains[0].0, udp(2));
        assert_eq!(two.receive(udp(9), &trains[0].2, trains[0].1).packets, [packet(1, 2)]);
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
fn data_v1_and_peer_id_ffffff_go_by_path() {
    let (mut server, mut one, _) = three(false);
    let session = SessionId::openvpn(PeerId::SERVER, 0);
    for header in [OpenVpnHeader::V1, OpenVpnHeader::V2 { peer_id: 0xff_ffff }] {
        one.install(
            PeerId::SERVER,
            session,
            openvpn(header, 0, CompressionFraming::None),
            Cipher::Aes256Gcm,
            (1, 0x81),
        );
        // A fresh session on both sides: the packet ids start over.
        server.install(PeerId(1), SessionId::openvpn(PeerId(1), 0), v2(1, 0), Cipher::Aes256Gcm, (0x81, 1));
        let sealed = one.send_one(&packet(1, 77));
        assert!(server.receive(udp(5), &sealed, sealed.len()).packets.is_empty(), "from nowhere");
        assert_eq!(server.receive(udp(1), &sealed, sealed.len()).packets.len(), 1);
    }
    assert_eq!(server.dropped_in(Drop::NoPeer), 2);
    server.apply(DataEvent::MovePeer { peer: PeerId(1), path: udp(5) });
    let sealed = one.send_one(&packet(1, 77));
    assert_eq!(server.receive(udp(5), &sealed, sealed.len()).packets.len(), 1, "it moved");
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
    let first = Notice::FirstOpened { peer, session: SessionId::openvpn(peer, 0) };
    assert_eq!(notices(&mut server, 0, udp(1)), [first]);
    assert_eq!(notices(&mut server, 1, udp(1)), []);
    let moved = Notice::Moved { peer, path: udp(7) };
    assert_eq!(notices(&mut server, 3, udp(7)), [moved]);
    assert_eq!(notices(&mut server, 4, udp(7)), []);
    server.apply(DataEvent::MovePeer { peer, path: udp(7) });
    assert_eq!(notices(&mut server, 2, udp(1)), [], "late, from where it was");
    assert_eq!(notices(&mut server, 5, udp(7)), []);
    let back = Notice::Moved { peer, path: udp(1) };
    assert_eq!(notices(&mut server, 6, udp(1)), [back]);
}

/// What cannot be opened, or was there before, says nothing about where a peer is, whatever peer it names.
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
    // The same untouched is the peer's, wherever it comes from.
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
    server.install(peer, SessionId::openvpn(peer, 1), v2(1, 1), cipher, (21, 22));
    one.install(PeerId::SERVER, SessionId::openvpn(PeerId::SERVER, 1), v2(1, 1), cipher, (22, 21));
    let new = one.send_one(&packet(1, 77));
    assert_eq!(new[0] & 7, 1, "the new key id");
    for sealed in [new, late] {
        assert_eq!(server.receive(udp(1), &sealed, sealed.len()).packets.len(), 1, "both keys open");
    }
    one.apply(DataEvent::Activate { peer: PeerId::SERVER, session: SessionId::openvpn(PeerId::SERVER, 0) });
    let old = one.send_one(&packet(1, 77));
    server.apply(DataEvent::Retire { peer, session: SessionId::openvpn(peer, 0) });
    assert!(server.receive(udp(1), &old, old.len()).packets.is_empty(), "retired");
    one.apply(DataEvent::Retire { peer: PeerId::SERVER, session: SessionId::openvpn(PeerId::SERVER, 0) });
    assert!(one.send(Offload::NONE, &packet(1, 77)).is_empty());
    assert_eq!(one.dropped_out(Drop::NoSession), 1);
}

#[test]
fn a_super_packet_comes_out_as_it_went_in() {
    for (v6, path) in [(false, udp as fn(u8) -> _), (true, udp), (false, tcp), (true, tcp)] {
        let mut server = End::new(Role::Server, Wire::OpenVpn, false);
        admit(&mut server, 1, path(1), Cipher::Aes256Gcm);
        server.inbox.set_policy(MergePolicy::Tcp);
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
        let trains = one.send(offload, &packet);
        assert_eq!(trains.len(), 1);
        assert_eq!(one.counters.traffic(PeerId::SERVER), Some((0, 29)));
        // As the kernel hands it over: only the pseudo-header is summed up.
        let len = packet.len() - start;
        let addresses = if v6 { 8..40 } else { 12..20 };
        let sum = !packets::checksum(&[&packet[addresses], &[0, 6, (len >> 8) as u8, len as u8]]);
        packet[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
        let arrived = server.receive(path(1), &trains[0].2, trains[0].1);
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
        let session = SessionId::openvpn(PeerId(1), 0);
        let key = |seed| super::world::key(Cipher::Aes256Gcm, seed);
        server.apply(DataEvent::Install(Box::new(Install {
            peer: PeerId(1), session, framing: v2(1, 0), cipher: Cipher::Aes256Gcm,
            seal: key(0x81), open: key(1), replay_window: ReplayWindow { packets: window, ..ReplayWindow::default() },
        })));
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
