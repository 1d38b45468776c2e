//! Limits, and refused datagrams.

use std::time::Duration;

use adit_core::{Cipher, DataEvent, Instant, Notice, PeerId, PeerOrder, SessionId};

use super::format::{self, session_id, worn_opener, worn_sealer};
use super::packets::{self, Flow};
use super::world::{End, admit, client, tcp, three, udp};
use crate::{DropReason, EgressEvent, IngressEvent, Offload, Segmentation, StreamError};

const CIPHER: Cipher = Cipher::Aes256Gcm;
const SESSION: SessionId = session_id(PeerId::SERVER, 0);

/// Gives a client a session that has sealed much already.
fn worn(end: &mut End, counter: u64, used: u64) {
    let peer = PeerId::SERVER;
    let install = EgressEvent::Install {
        peer,
        session: SESSION,
        series: 0,
        on_first_opened: adit_core::OnFirstOpened::Nothing,
        seal: worn_sealer(counter, used),
    };
    end.egress.apply(install, &mut end.transmit_batch);
    end.apply(DataEvent::Activate { peer, session: SESSION });
}

#[test]
fn packet_ids_end() {
    let mut end = client(1, udp(9), CIPHER);
    let packet = Flow::default().udp(b"x");
    worn(&mut end, 0xffff_ffff, 0);
    let last = end.send_one(&packet);
    assert_eq!(last[4..8], [0xff; 4]);
    assert!(end.send(Offload::NONE, &packet).is_empty(), "never round");
    assert_eq!(end.dropped_out(DropReason::Exhausted), 1);
}

#[test]
fn new_keys_are_asked_for_once() {
    let packet = Flow::default().udp(b"x");
    for (counter, used) in [(0xfeff_fffe, 0), (1, ((1u64 << 36) - 1) / 8 * 7 - 12)] {
        let mut end = client(1, udp(9), CIPHER);
        worn(&mut end, counter, used);
        end.send_one(&packet);
        assert_eq!(end.egress.take_notices(), []);
        end.send_one(&packet);
        end.send_one(&packet);
        end.send_one(&packet);
        assert_eq!(end.egress.take_notices(), [Notice::LimitNear { peer: PeerId::SERVER, session: SESSION }]);
    }
}

#[test]
fn packets_that_are_late_for_too_long_are_dropped() {
    let at = |seconds| Instant::ORIGIN + Duration::from_secs(seconds);
    let (mut server, mut one, _) = three(false);
    let packet = Flow { source: 1, ..Flow::default() }.udp(b"x");
    let sealed: Vec<Vec<u8>> = (0..6).map(|_| one.send_one(&packet)).collect();
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
fn failed_tags_are_limited() {
    let (mut server, mut one, _) = three(false);
    let peer = PeerId(1);
    let session = session_id(peer, 0);
    let open = worn_opener((1 << 35) - 1);
    server.ingress.apply(IngressEvent::Install { peer, session, series: 0, open });
    let good = one.send_one(&Flow::default().udp(b"x"));
    let mut bad = good.clone();
    bad[30] ^= 1;
    assert_eq!(server.receive(udp(1), &bad, bad.len()).notices, [Notice::LimitNear { peer, session }]);
    assert_eq!(server.receive(udp(1), &bad, bad.len()).notices, []);
    let open = worn_opener(1 << 36);
    server.ingress.apply(IngressEvent::Install { peer, session, series: 0, open });
    assert!(server.receive(udp(1), &good, good.len()).packets.is_empty());
    assert_eq!(server.dropped_in(DropReason::Exhausted), 1);
}

#[test]
fn messages_are_bounded() {
    let (mut server, mut one, _) = three(false);
    let mut bytes = Vec::new();
    for _ in 0..100 {
        one.apply(DataEvent::Inject { peer: PeerId::SERVER, payload: vec![0x2a; 16] });
        bytes.extend_from_slice(&one.flush()[0].2);
    }
    let notices = server.receive(udp(1), &bytes, 40).notices;
    let messages = notices.iter().filter(|notice| matches!(notice, Notice::Message { .. })).count();
    assert_eq!((messages, server.dropped_in(DropReason::Flood)), (64, 36));
    one.apply(DataEvent::Inject { peer: PeerId::SERVER, payload: vec![0x2a; 3000] });
    let gso_batches = one.flush();
    let notices = server.receive(udp(1), &gso_batches[0].2, gso_batches[0].1).notices;
    assert!(matches!(&notices[..], [Notice::Message { payload, .. }] if payload.len() == 1280));
    assert_eq!(server.counters.traffic(PeerId(1)), Some((101, 0)));
}

#[test]
fn what_cannot_be_sent_is_counted() {
    let mut end = client(1, udp(9), CIPHER);
    let big = Flow::default().udp(&[0; 65_480]);
    assert!(end.send(Offload::NONE, &big).is_empty());
    assert_eq!(end.dropped_out(DropReason::TooBig), 1);
    assert!(end.send(Offload::NONE, b"").is_empty());
    assert!(end.send(Offload::NONE, &[0x45; 10]).is_empty());
    let tso = Offload { segmentation: Segmentation::TcpV4, needs_checksum: true, ..Offload::NONE };
    let packet = Flow::default().tcp(1, 0x10, &[0; 100]);
    assert!(end.send(tso, &packet).is_empty(), "segments of no bytes");
    let outside = Offload { needs_checksum: true, checksum_start: 9000, ..Offload::NONE };
    assert!(end.send(outside, &packet).is_empty());
    assert_eq!(end.dropped_out(DropReason::Malformed), 4);
    end.apply(DataEvent::Inject { peer: PeerId(8), payload: vec![1] });
    assert_eq!(end.dropped_out(DropReason::NoPeer), 1);
}

#[test]
fn streams_may_break_anywhere_but_not_lose_step() {
    let mut server = End::server(false);
    admit(&mut server, 1, tcp(1), CIPHER);
    let mut one = client(1, tcp(9), CIPHER);
    let packets: Vec<Vec<u8>> = (1..60usize).map(|len| Flow::default().udp(&vec![1; len * 7])).collect();
    for packet in &packets {
        one.egress.seal_packet(Offload::NONE, &mut packet.clone(), &mut one.transmit_batch);
    }
    let stream: Vec<u8> = one.flush().into_iter().flat_map(|(_, _, bytes)| bytes).collect();
    let (mut buffer, mut found) = (Vec::new(), Vec::new());
    for chunk in stream.chunks(333) {
        buffer.extend_from_slice(chunk);
        let used =
            server.ingress.open_stream(tcp(1), &mut buffer, &mut server.receive_batch).expect("in step");
        for packet in server.receive_batch.packets() {
            found.push(packet.pieces().flat_map(|piece| buffer[piece].to_vec()).collect::<Vec<u8>>());
        }
        server.receive_batch.clear();
        buffer.drain(..used);
    }
    assert_eq!(found, packets);
    assert!(buffer.is_empty());
    let advice = format::server().stream_advice();
    let mut open =
        |bytes: &[u8]| server.ingress.open_stream(tcp(1), &mut bytes.to_vec(), &mut server.receive_batch);
    assert_eq!(open(&[0, 0, 1]), Err(StreamError::Empty(advice)));
    assert_eq!(open(&[0, 1, 0x20, 0, 0]), Err(StreamError::Empty(advice)), "after a whole record");
    assert_eq!(open(&[0xff, 0xff]), Err(StreamError::Oversize { len: 0xffff, advice }));
    assert_eq!(open(&[0xff]), Ok(0));
    assert_eq!(open(&[]), Ok(0));
}

#[test]
fn a_connection_without_a_peer_carries_control_packets_alone() {
    let mut server = End::server(false);
    // The start of a first control packet without TCP's length in front of it.
    let unframed = [0x38, 0xd6, 1, 2, 3, 4, 5, 6, 7];
    let advice = format::server().stream_advice();
    let first = |len| StreamError::OversizeFirst { len, longest: 4096, advice };
    let open = |end: &mut End, bytes: &[u8]| {
        end.ingress.open_stream(tcp(1), &mut bytes.to_vec(), &mut end.receive_batch)
    };
    assert_eq!(open(&mut server, &unframed), Err(first(0x38d6)));
    assert_eq!(open(&mut server, &[0x10, 0x01]), Err(first(4097)));
    assert_eq!(open(&mut server, &[0x10, 0x00]), Ok(0));
    assert_eq!(open(&mut server, &[0xff, 0xff]), Err(StreamError::Oversize { len: 0xffff, advice }));
    // A peer may send data as long as its tunnel takes.
    admit(&mut server, 1, tcp(1), CIPHER);
    assert_eq!(open(&mut server, &unframed), Ok(0));
    // A client's server may send data before the client's keys are installed.
    let mut client = End::client();
    assert_eq!(open(&mut client, &unframed), Ok(0));
    // Where all is data, from any connection.
    let mut end = End::new(format::all_data(), false);
    assert_eq!(open(&mut end, &unframed), Ok(0));
}

#[test]
fn mss_is_clamped_both_ways() {
    let mut server = End::server(false);
    admit(&mut server, 1, udp(1), CIPHER);
    let mut one = client(1, udp(9), CIPHER);
    one.add_peer(PeerId::SERVER, udp(9), &["0.0.0.0/0", "::/0"], Some(1400));
    one.apply(DataEvent::Peer(PeerOrder::SetMaxMss { peer: PeerId::SERVER, max_mss: Some(1300) }));
    let options = vec![2, 4, 0x05, 0xb4];
    for (v6, at, expected) in [(false, 42, 1300u16), (true, 62, 1280)] {
        let out = Flow { v6, source: 1, destination: 77, options: options.clone(), ..Flow::default() };
        let back = Flow { v6, source: 77, destination: 1, options: options.clone(), ..Flow::default() };
        let sealed = one.send_one(&out.tcp(1, 0x02, b""));
        let up = server.receive(udp(1), &sealed, sealed.len()).packets;
        let sealed = server.send_one(&back.tcp(1, 0x12, b""));
        let down = one.receive(udp(9), &sealed, sealed.len()).packets;
        for packet in up.iter().chain(&down) {
            assert_eq!(packet[at..at + 2], expected.to_be_bytes());
            assert!(packets::checksums_ok(packet));
        }
        assert_eq!((up.len(), down.len()), (1, 1));
    }
}

#[test]
fn unfinished_checksums_are_finished() {
    let (mut server, mut one, _) = three(false);
    let whole = Flow { destination: 77, ..Flow::default() }.tcp(1, 0x10, b"some payload");
    let mut unfinished = whole.clone();
    // The pseudo-header's sum, as the kernel leaves it.
    let len = (whole.len() - 20) as u8;
    let sum = !packets::checksum(&[&whole[12..20], &[0, 6, 0, len]]);
    unfinished[36..38].copy_from_slice(&sum.to_be_bytes());
    let offload = Offload { needs_checksum: true, checksum_start: 20, checksum_offset: 16, ..Offload::NONE };
    let gso_batches = one.send(offload, &unfinished);
    assert_eq!(server.receive(udp(1), &gso_batches[0].2, gso_batches[0].1).packets, [whole]);
}

/// Any host can send control packets, and they wait in memory for the protocol: one that is longer than any of them can
/// be does not.
#[test]
fn control_packets_have_a_longest() {
    let (mut server, _, _) = three(true);
    // Where no peer is, a record of that length ends the connection.
    admit(&mut server, 3, tcp(1), CIPHER);
    for (length, arrives) in [(1, 1), (1300, 1), (4096, 1), (4097, 0), (60_000, 0)] {
        let control = [vec![4 << 3], vec![7; length - 1]].concat();
        assert_eq!(server.receive(udp(1), &control, 0).control.len(), arrives, "{length} over UDP");
        let record = [&u16::try_from(length).unwrap().to_be_bytes()[..], &control].concat();
        assert_eq!(server.receive(tcp(1), &record, 0).control.len(), arrives, "{length} over TCP");
    }
    assert_eq!(server.dropped_in(DropReason::Malformed), 4);
}
