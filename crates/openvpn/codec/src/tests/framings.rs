//! All framings both ways, and datagrams that do not name their peer.

use adit_dataplane::testing::batches::Keys;
use std::time::Duration;

use adit_core::{Cipher, DataEvent, Instant, Notice, Path, PeerId, PeerOrder};
use adit_dataplane::DropReason;
use adit_dataplane::testing::packets::Flow;
use adit_dataplane::testing::world::{End, tcp, udp};
use adit_openvpn::codec::{Compression, DataFraming, DataHeader, Framing, session_id};
use adit_openvpn::data_message::PING;

use crate::testing::{OpenVpnEnd, admit, client, framing, three, v2, with_epochs};

const COMPRESSIONS: [Compression; 4] =
    [Compression::None, Compression::LzoNo, Compression::Stub, Compression::StubV2];

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
            for (header, len) in [(DataHeader::V1, 1), (DataHeader::V2 { peer_id: 1 }, 4)] {
                let overhead = len + inside;
                for path in [udp, tcp] {
                    let framing = framing(header, 3, compression);
                    let mut server = End::server(false);
                    admit(&mut server, 1, path(1), cipher);
                    server.install(
                        PeerId(1),
                        session_id(PeerId(1), 3),
                        framing,
                        cipher,
                        Keys { seal: 7, open: 8 },
                    );
                    let mut client = client(1, path(9), cipher);
                    client.install(
                        PeerId::SERVER,
                        session_id(PeerId::SERVER, 3),
                        framing,
                        cipher,
                        Keys { seal: 8, open: 7 },
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
                let header = DataHeader::V2 { peer_id: 1 };
                let framing = Framing::Epoch(DataFraming { header, key_id: 3, compression });
                let mut server = End::server(false);
                admit(&mut server, 1, path(1), cipher);
                server.install(
                    PeerId(1),
                    session_id(PeerId(1), 3),
                    framing,
                    cipher,
                    Keys { seal: 7, open: 8 },
                );
                let mut client = client(1, path(9), cipher);
                let session = session_id(PeerId::SERVER, 3);
                client.install(PeerId::SERVER, session, framing, cipher, Keys { seal: 8, open: 7 });
                let (up, down) = (packet(1, 77), packet(77, 1));
                exchange(&mut client, PeerId::SERVER, &mut server, path(1), &up, 28);
                exchange(&mut server, PeerId(1), &mut client, path(9), &down, 28);
                let sealed = client.send_one(&up);
                assert_eq!(server.receive(path(1), &sealed, sealed.len()).packets, [up]);
                assert!(server.receive(path(1), &sealed, sealed.len()).packets.is_empty());
                assert_eq!(server.dropped_in(DropReason::Replay), 1);
            }
        }
    }
}

/// Sends a packet and two messages that are no packets.
fn exchange(from: &mut End, peer: PeerId, to: &mut End, by: Path, packet: &[u8], overhead: usize) {
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
fn data_v1_and_peer_id_ffffff_go_by_path() {
    let (mut server, mut one, _) = three(false);
    let session = session_id(PeerId::SERVER, 0);
    for header in [DataHeader::V1, DataHeader::V2 { peer_id: 0xff_ffff }] {
        one.install(
            PeerId::SERVER,
            session,
            framing(header, 0, Compression::None),
            Cipher::Aes256Gcm,
            Keys { seal: 1, open: 0x81 },
        );
        // A fresh session on both sides: the packet ids start over.
        server.install(
            PeerId(1),
            session_id(PeerId(1), 0),
            v2(1, 0),
            Cipher::Aes256Gcm,
            Keys { seal: 0x81, open: 1 },
        );
        let sealed = one.send_one(&packet(1, 77));
        assert!(server.receive(udp(5), &sealed, sealed.len()).packets.is_empty(), "from nowhere");
        assert_eq!(server.receive(udp(1), &sealed, sealed.len()).packets.len(), 1);
    }
    assert_eq!(server.dropped_in(DropReason::NoPeer), 2);
    server.apply(DataEvent::Peer(PeerOrder::Move { peer: PeerId(1), path: udp(5) }));
    let sealed = one.send_one(&packet(1, 77));
    assert_eq!(server.receive(udp(5), &sealed, sealed.len()).packets.len(), 1, "it moved");
}

#[test]
fn pings_are_keepalives_and_still_messages() {
    let (mut server, mut one, _) = three(false);
    let ping = PING.to_vec();
    one.apply(DataEvent::Inject { peer: PeerId::SERVER, payload: ping.clone() });
    let sealed = one.flush().remove(0).2;
    let notices = server.receive(udp(1), &sealed, sealed.len()).notices;
    let is_ping = |notice: &Notice| matches!(notice, Notice::Message { payload, .. } if *payload == ping);
    assert_eq!(notices.iter().filter(|notice| is_ping(notice)).count(), 1);
    assert_eq!(server.counters.activity(PeerId(1)).map(|activity| activity.received.keepalives), Some(1));
    assert_eq!(one.counters.activity(PeerId::SERVER).map(|activity| activity.sent.keepalives), Some(1));
}

/// As `limits::packets_that_are_late_for_too_long_are_dropped` of the data plane, whose window each epoch has.
#[test]
fn packets_of_an_epoch_that_are_late_for_too_long_are_dropped() {
    let at = |seconds| Instant::ORIGIN + Duration::from_secs(seconds);
    let cipher = Cipher::Aes256Gcm;
    let (mut server, mut one, _) = three(false);
    server.install(
        PeerId(1),
        session_id(PeerId(1), 1),
        with_epochs(v2(1, 1)),
        cipher,
        Keys { seal: 8, open: 7 },
    );
    one.install(
        PeerId::SERVER,
        session_id(PeerId::SERVER, 1),
        with_epochs(v2(1, 1)),
        cipher,
        Keys { seal: 7, open: 8 },
    );
    let sealed: Vec<Vec<u8>> = (0..6).map(|_| one.send_one(&packet(1, 77))).collect();
    let mut receive = |seconds, which: usize| {
        server.ingress.tick(at(seconds));
        server.receive(udp(1), &sealed[which], sealed[which].len()).packets.len()
    };
    assert_eq!((receive(1, 2), receive(2, 0), receive(10, 3)), (1, 1, 1), "late, and in time");
    assert_eq!(receive(25, 1), 0, "the one after it came 24 s ago");
    assert_eq!((receive(25, 4), receive(26, 5)), (1, 1));
    assert_eq!(server.dropped_in(DropReason::Replay), 1);
}

#[test]
fn compressed_payloads_are_dropped() {
    let cipher = Cipher::Aes256Gcm;
    let (mut server, mut one, _) = three(false);
    let stub = framing(DataHeader::V2 { peer_id: 1 }, 0, Compression::Stub);
    server.install(PeerId(1), session_id(PeerId(1), 0), stub, cipher, Keys { seal: 0x81, open: 1 });
    one.apply(DataEvent::Inject { peer: PeerId::SERVER, payload: b"\x69compressed".to_vec() });
    let sealed = one.flush().remove(0).2;
    assert!(server.receive(udp(1), &sealed, sealed.len()).packets.is_empty());
    assert_eq!(server.dropped_in(DropReason::Compressed), 1);
}
