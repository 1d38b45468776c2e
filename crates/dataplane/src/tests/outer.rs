//! The relation of the IP headers around datagrams to the packets inside.

use crate::testing::batches::Keys;
use adit_core::{Cipher, Path, PeerId, SessionId};

use super::format::{indexed, named, session_id, with_outer_headers};
use super::packets::{Flow, checksums_ok};
use super::world::{End, tcp, udp};
use crate::codec::SessionCodec;
use crate::{
    Arrival, DropReason, GsoBatch, MergePolicy, Offload, OuterHeader, OuterPolicy, Segmentation, TrafficClass,
};

const PEER: PeerId = PeerId(4);
const SESSION: SessionId = SessionId(7);

/// An end whose session marks its datagrams, and heeds marks.
fn end(path: Path) -> End {
    with_codec(path, with_outer_headers(7))
}

fn with_codec(path: Path, codec: SessionCodec) -> End {
    let mut end = End::new(indexed(), false);
    end.add_peer(PEER, path, &["0.0.0.0/0", "::/0"], None);
    end.install_codec(PEER, SESSION, codec);
    end.apply(adit_core::DataEvent::Activate { peer: PEER, session: SESSION });
    end
}

fn packet(tos: u8, payload: &[u8]) -> Vec<u8> {
    Flow { tos, ..Flow::default() }.udp(payload)
}

/// The traffic class of each GSO batch, and its datagrams.
fn classes(end: &End) -> Vec<(u8, usize)> {
    let count = |batch: GsoBatch<'_>| (batch.outer.traffic_class, batch.bytes.len() / batch.segment);
    end.transmit_batch.iter().map(count).collect()
}

fn seal(end: &mut End, packet: &[u8]) {
    end.egress.seal_packet(Offload::NONE, &mut packet.to_vec(), &mut end.transmit_batch);
}

#[test]
fn a_batch_has_one_traffic_class_and_the_order_stays() {
    let mut end = end(udp(2));
    for tos in [0, 0, 2, 2, 2, 0xb8, 3, 3] {
        seal(&mut end, &packet(tos, b"x"));
    }
    assert_eq!(classes(&end), [(0, 2), (2, 3), (0, 1), (3, 2)]);
    let counters: Vec<u64> = end.transmit_batch.iter().flat_map(counters).collect();
    assert_eq!(counters, (0..8).collect::<Vec<_>>());
}

/// A session that shows the DSCP of its packets.
#[test]
fn a_batch_has_one_dscp() {
    let outer = OuterPolicy { traffic_class: TrafficClass::Dscp, nested: None };
    let codec = SessionCodec { outer, ..with_outer_headers(7) };
    let mut end = with_codec(udp(2), codec);
    for tos in [0, 2, 0xb8, 0xba, 0xbb, 0x88, 0] {
        seal(&mut end, &packet(tos, b"x"));
    }
    assert_eq!(classes(&end), [(0, 2), (0xb8, 3), (0x88, 1), (0, 1)]);
}

fn counters(batch: GsoBatch<'_>) -> Vec<u64> {
    let counter = |datagram: &[u8]| u64::from_le_bytes(*datagram[8..].first_chunk().expect("a counter"));
    batch.bytes.chunks(batch.segment).map(counter).collect()
}

#[test]
fn the_packets_of_a_super_packet_stay_together() {
    let mut end = end(udp(2));
    let mut packet = Flow { tos: 2, ..Flow::default() }.tcp(1, 0x10, &[7; 13_000]);
    let offload = Offload {
        needs_checksum: true,
        segmentation: Segmentation::TcpV4,
        header_len: 40,
        segment_size: 1300,
        checksum_start: 20,
        checksum_offset: 16,
        ecn: false,
    };
    end.egress.seal_packet(offload, &mut packet, &mut end.transmit_batch);
    assert_eq!(classes(&end), [(2, 10)]);
}

/// The header around a stream is the system's own: marks would only cut it into more writes.
#[test]
fn on_a_stream_marks_separate_nothing() {
    let mut end = end(tcp(2));
    for tos in [0, 2, 0, 3] {
        seal(&mut end, &packet(tos, b"x"));
    }
    assert_eq!(end.transmit_batch.len(), 1);
}

#[test]
fn a_mark_that_is_received_is_put_on_the_packet() {
    let (mut from, mut to) = (end(udp(2)), end(udp(1)));
    let mut receive = |tos: u8, traffic_class: u8| {
        let mut sealed = from.send_one(&packet(tos, b"x"));
        let arrival = Arrival { socket: udp(1), path: udp(1), traffic_class };
        let all = 0..sealed.len();
        to.ingress.gather_datagrams_at(&arrival, &mut sealed, all, 0, &mut to.receive_batch);
        to.receive_batch.finish(&mut sealed);
        let pieces = to.receive_batch.packets().flat_map(|packet| packet.pieces());
        let packets: Vec<Vec<u8>> = pieces.map(|piece| sealed[piece].to_vec()).collect();
        to.receive_batch.clear();
        packets
    };
    assert_eq!(receive(2, 3), [packet(3, b"x")]);
    assert_eq!(receive(0xb8 | 1, 3), [packet(0xb8 | 3, b"x")]);
    assert_eq!(receive(2, 0), [packet(2, b"x")]);
    assert_eq!(receive(0, 2), [packet(0, b"x")]);
    assert!(receive(0, 3).is_empty(), "its sender does not know the mark");
    assert_eq!(to.dropped_in(DropReason::Congestion), 1);
}

/// Merging would make one packet of some that are marked and some that are not.
#[test]
fn packets_of_one_flow_merge_only_with_the_same_mark() {
    let (mut from, mut to) = (end(udp(2)), end(udp(1)));
    to.receive_batch.set_policy(MergePolicy::TcpAndUdp);
    for v6 in [false, true] {
        let flow = |tos| Flow { v6, tos, ..Flow::default() };
        let mut sealed = Vec::new();
        for (number, tos) in (0..).zip([2, 2, 3, 3, 2]) {
            sealed.extend(from.send_one(&flow(tos).tcp(1 + number * 100, 0x10, &[number as u8; 100])));
        }
        let segment = sealed.len() / 5;
        let packets = to.receive(udp(1), &sealed, segment).packets;
        let headers = if v6 { 60 } else { 40 };
        let payloads: Vec<usize> = packets.iter().map(|packet| packet.len() - headers).collect();
        assert_eq!(payloads, [200, 200, 100]);
        assert!(checksums_ok(&packets[2]));
    }
}

/// A datagram of this tunnel that is routed into the tunnel, as a packet of it.
fn looped(datagram: &[u8], outer: OuterHeader) -> Vec<u8> {
    let ttl = if outer.hop_limit == 0 { 64 } else { outer.hop_limit };
    Flow { tos: outer.traffic_class, ttl, ..Flow::default() }.udp(datagram)
}

#[test]
fn a_loop_ends_after_eight_rounds() {
    let mut end = end(udp(2));
    let mut current = packet(0, b"ping");
    let mut rounds = 0;
    loop {
        seal(&mut end, &current);
        let Some(batch) = end.transmit_batch.iter().next() else { break };
        current = looped(batch.bytes, batch.outer);
        rounds += 1;
        assert!(rounds < 20, "it goes on");
        end.transmit_batch.clear();
    }
    // The packet itself, and seven datagrams, one in the other.
    assert_eq!(rounds, 8);
    assert_eq!(end.dropped_out(DropReason::Loop), 1);
}

#[test]
fn a_format_without_a_policy_asks_for_nothing() {
    let mut end = End::client();
    end.add_peer(PeerId::SERVER, udp(1), &["0.0.0.0/0"], None);
    let keys = Keys { seal: 1, open: 2 };
    end.install(PeerId::SERVER, session_id(PeerId::SERVER, 0), named(1, 0), Cipher::Aes256Gcm, keys);
    for packet in [packet(3, b"x"), packet(2, &[4, 0, 0, 0, 1, 1, 1, 1])] {
        seal(&mut end, &packet);
    }
    assert!(end.transmit_batch.iter().all(|batch| batch.outer == OuterHeader::default()));
}
