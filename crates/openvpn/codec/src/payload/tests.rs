//! Whole data planes whose payloads are compressed or in parts.

pub(crate) mod vectors;

use adit_dataplane::testing::batches::Keys;
use std::collections::BTreeSet;

use adit_core::{Cipher, DataEvent, Notice, PeerId, Selector};
use adit_dataplane::aead::aws_lc;
use adit_dataplane::codec::SessionCodec;
use adit_dataplane::testing::packets::Flow;
use adit_dataplane::testing::world::{End, udp};
use adit_dataplane::{DropReason, MergePolicy, Offload, ReceiveBatch};
use adit_openvpn::codec::{
    Codec, Compression, DataFraming, DataHeader, DirectionKey, Framing, MacKey, Payloads, StaticFraming,
    session_id,
};
use adit_openvpn::data_message::PING;
use proptest::prelude::*;

use super::seal;
use crate::testing::{self, OpenVpnEnd, admit, key, v2, worn_sealer};
use crate::{is_keepalive, session_with};

const GCM: Cipher = Cipher::Aes256Gcm;
const IN_PARTS: Payloads = Payloads { decompress: true, fragment: Some(300), longest: 1600 };
const DECOMPRESSES: Payloads = Payloads { decompress: true, fragment: None, longest: 1600 };
const PLAIN: Payloads = Payloads { decompress: false, fragment: None, longest: 1600 };

fn codec(framing: Framing, cipher: Cipher, keys: Keys, payloads: Payloads) -> SessionCodec {
    let key = |seed| match framing {
        Framing::Epoch(_) => DirectionKey::aead(vec![seed; 32].into(), [0; 8]),
        _ => {
            let mut key = key(cipher, seed);
            // Each end makes its IVs with a key of its own.
            key.mac = key.mac.map(|mac| MacKey { iv_key: [keys.seal; 16].into(), ..mac });
            key
        }
    };
    let codec = Codec { payloads, ..testing::codec(framing, cipher, key(keys.seal), key(keys.open)) };
    session_with(aws_lc, &codec).expect("the keys fit")
}

/// An end with one peer; two ends understand each other if each has the keys of the peer.
fn end(framing: Framing, cipher: Cipher, keys: Keys, payloads: Payloads) -> End {
    let (mut end, key_id) = match framing {
        Framing::StaticKey(_) => (End::new(testing::all_data(), false), 0),
        Framing::Data(data) | Framing::Epoch(data) => (End::client(), data.key_id),
    };
    let (peer, session) = (PeerId::SERVER, session_id(PeerId::SERVER, key_id));
    end.add_peer(peer, udp(9), &["0.0.0.0/0", "::/0"], None);
    end.install_codec(peer, session, codec(framing, cipher, keys, payloads));
    end.apply(DataEvent::Activate { peer, session });
    end
}

fn data(compression: Compression) -> Framing {
    testing::framing(DataHeader::V2 { peer_id: 1 }, 3, compression)
}

/// Two ends with a cipher, the one without compression framing, so that it sends any bytes as they are, the other with.
fn raw_and(compression: Compression, payloads: Payloads) -> (End, End) {
    (
        end(data(Compression::None), GCM, Keys { seal: 1, open: 2 }, PLAIN),
        end(data(compression), GCM, Keys { seal: 2, open: 1 }, payloads),
    )
}

/// Seals bytes that are inside the encryption as they are.
fn send_raw(from: &mut End, bytes: &[u8]) -> Vec<u8> {
    from.apply(DataEvent::Inject { peer: PeerId::SERVER, payload: bytes.to_vec() });
    from.flush().pop().expect("one datagram").2
}

/// The datagrams of a packet.
fn send(from: &mut End, packet: &[u8]) -> Vec<Vec<u8>> {
    let gso_batches = from.send(Offload::NONE, packet);
    let datagrams = gso_batches.iter().flat_map(|(_, segment, bytes)| bytes.chunks(*segment));
    datagrams.map(<[u8]>::to_vec).collect()
}

/// LZO of a run of literals alone, of at least 19 bytes.
fn stored_lzo(plain: &[u8]) -> Vec<u8> {
    let rest = plain.len() - 18;
    let zeros = (rest - 1) / 255;
    let mut compressed = vec![0; 1 + zeros];
    compressed.push((rest - zeros * 255) as u8);
    compressed.extend_from_slice(plain);
    compressed.extend_from_slice(&[0x11, 0, 0]);
    compressed
}

/// The packet as each algorithm's framing has it compressed.
fn compressed(packet: &[u8]) -> [(Compression, Vec<u8>); 3] {
    let lz4 = lz4_flex::block::compress(packet);
    [
        (Compression::LzoNo, vectors::framed_lzo(&stored_lzo(packet))),
        (Compression::Stub, vectors::framed_lz4(&lz4)),
        (Compression::StubV2, vectors::framed_lz4_v2(&lz4)),
    ]
}

fn packet(len: usize) -> Vec<u8> {
    Flow::default().udp(&(0..len).map(|index| (index / 7) as u8).collect::<Vec<u8>>())
}

#[test]
fn packets_of_any_length_pass_in_parts() {
    let mut forms = Vec::new();
    for compression in [Compression::None, Compression::LzoNo, Compression::Stub, Compression::StubV2] {
        let framing = DataFraming { header: DataHeader::V2 { peer_id: 1 }, key_id: 7, compression };
        let old = DataFraming { header: DataHeader::V1, ..framing };
        let with_static_key = StaticFraming { began: 1_790_000_000, compression };
        forms.extend([
            (Framing::Data(framing), GCM, compression),
            (Framing::Data(old), Cipher::Aes128Cbc, compression),
            (Framing::Epoch(framing), Cipher::ChaCha20Poly1305, compression),
            (Framing::StaticKey(with_static_key), Cipher::Aes256Cbc, compression),
        ]);
    }
    for (framing, cipher, compression) in forms {
        let mut west = end(framing, cipher, Keys { seal: 1, open: 2 }, IN_PARTS);
        let mut east = end(framing, cipher, Keys { seal: 2, open: 1 }, IN_PARTS);
        for len in [1, 270, 271, 272, 273, 700, 1472] {
            let packet = packet(len);
            let byte = usize::from(matches!(compression, Compression::LzoNo | Compression::Stub));
            for westward in [false, true] {
                let [from, to] = if westward { [&mut east, &mut west] } else { [&mut west, &mut east] };
                let mut datagrams = send(from, &packet);
                let expected = (packet.len() + byte).div_ceil(300);
                assert_eq!(datagrams.len(), expected, "{framing:?}, {len}");
                let last = datagrams.pop().expect("one");
                for datagram in datagrams {
                    let arrived = to.receive(udp(9), &datagram, datagram.len());
                    assert!(arrived.packets.is_empty(), "{framing:?}, {len}");
                }
                assert_eq!(
                    to.receive(udp(9), &last, last.len()).packets,
                    [&packet[..]],
                    "{framing:?}, {len}"
                );
            }
        }
        let ping = Notice::Message {
            peer: PeerId::SERVER,
            session: session_id(PeerId::SERVER, if cipher == Cipher::Aes256Cbc { 0 } else { 7 }),
            payload: PING.to_vec(),
        };
        let sealed = send_raw(&mut west, &PING);
        assert!(east.receive(udp(9), &sealed, sealed.len()).notices.contains(&ping));
        let received = east.counters.activity(PeerId::SERVER).map(|activity| activity.received.keepalives);
        assert_eq!(received, Some(1));
        assert_eq!(east.counters.snapshot().ingress.drops.iter().sum::<u64>(), 0);
    }
}

/// OpenVPN compresses first and cuts then.
#[test]
fn what_is_compressed_and_cut_is_put_together_and_decompressed() {
    let packet = packet(1400);
    for (compression, framed) in compressed(&packet) {
        // Another end of ours cuts what is compressed already.
        let mut west = end(
            data(Compression::None),
            GCM,
            Keys { seal: 1, open: 2 },
            Payloads { fragment: Some(200), ..PLAIN },
        );
        let mut east = end(data(compression), GCM, Keys { seal: 2, open: 1 }, IN_PARTS);
        west.apply(DataEvent::Inject { peer: PeerId::SERVER, payload: framed.clone() });
        let (mut packets, mut datagrams) = (Vec::new(), 0);
        for (_, segment, bytes) in west.flush() {
            datagrams += bytes.len().div_ceil(segment);
            packets.extend(east.receive(udp(9), &bytes, segment).packets);
        }
        assert_eq!(
            (packets, datagrams),
            (vec![packet.clone()], framed.len().div_ceil(200)),
            "{compression:?}"
        );
    }
}

#[test]
fn what_a_peer_compresses_is_decompressed_if_asked_for() {
    let packet = packet(1400);
    for (compression, framed) in compressed(&packet) {
        let (mut raw, mut east) = raw_and(compression, DECOMPRESSES);
        let sealed = send_raw(&mut raw, &framed);
        assert_eq!(east.receive(udp(9), &sealed, sealed.len()).packets, [&packet[..]], "{compression:?}");

        // Five bytes are missing before the last one: of the literals that end an LZ4 block, or of the end of LZO.
        let (front, end) = (&framed[..framed.len() - 6], &framed[framed.len() - 1..]);
        let damaged = send_raw(&mut raw, &[front, end].concat());
        assert!(east.receive(udp(9), &damaged, damaged.len()).packets.is_empty());
        assert_eq!(east.dropped_in(DropReason::Decompression), 1, "{compression:?}");

        // The decompressed packet is longer than a packet may be.
        let (mut raw, mut east) = raw_and(compression, Payloads { longest: 1427, ..DECOMPRESSES });
        let sealed = send_raw(&mut raw, &framed);
        assert!(east.receive(udp(9), &sealed, sealed.len()).packets.is_empty());
        assert_eq!(east.dropped_in(DropReason::Decompression), 1, "{compression:?}");

        let (mut raw, mut east) = raw_and(compression, PLAIN);
        let sealed = send_raw(&mut raw, &framed);
        assert!(east.receive(udp(9), &sealed, sealed.len()).packets.is_empty());
        assert_eq!(east.dropped_in(DropReason::Compressed), 1, "{compression:?}");
    }
}

/// Ours are framed as they are without decompression.
#[test]
fn what_we_send_is_not_compressed() {
    let packet = packet(1400);
    for compression in [Compression::LzoNo, Compression::Stub, Compression::StubV2] {
        let mut asks = end(data(compression), GCM, Keys { seal: 1, open: 2 }, DECOMPRESSES);
        let mut plain = end(data(compression), GCM, Keys { seal: 1, open: 2 }, PLAIN);
        assert_eq!(asks.send_one(&packet), plain.send_one(&packet));
    }
}

#[test]
fn what_is_too_long_to_be_cut_is_dropped() {
    let parts = |fragment| Payloads { fragment: Some(fragment), ..PLAIN };
    let mut west = end(data(Compression::None), GCM, Keys { seal: 1, open: 2 }, parts(40));
    assert_eq!(send(&mut west, &packet(1252)).len(), 32);
    assert!(send(&mut west, &packet(1253)).is_empty(), "it would be 33 parts");
    let mut west = end(data(Compression::LzoNo), GCM, Keys { seal: 1, open: 2 }, parts(1300));
    assert!(send(&mut west, &packet(1580)).is_empty(), "it is longer than any packet may be");
    assert_eq!(west.dropped_out(DropReason::TooBig), 1);
    let (_, bytes) = west.counters.traffic_bytes(PeerId::SERVER).expect("a peer");
    assert_eq!(bytes, 0);
}

/// The last counter of the key goes to the first of two parts.
#[test]
fn parts_that_were_sealed_before_an_error_are_counted() {
    let mut west = end(data(Compression::None), GCM, Keys { seal: 1, open: 2 }, IN_PARTS);
    let (peer, session) = (PeerId::SERVER, session_id(PeerId::SERVER, 3));
    let sealer = seal::Sealer::new(worn_sealer(u64::from(u32::MAX), 0), Compression::None, IN_PARTS, 0);
    let opener = codec(data(Compression::None), GCM, Keys { seal: 1, open: 2 }, IN_PARTS).open;
    let worn = SessionCodec { is_keepalive, ..SessionCodec::new(Box::new(sealer), opener) };
    west.install_codec(peer, session, worn);
    west.apply(DataEvent::Activate { peer, session });
    let sent = send(&mut west, &packet(400));
    assert_eq!((sent.len(), west.dropped_out(DropReason::Exhausted)), (1, 1));
    let (_, bytes) = west.counters.traffic_bytes(peer).expect("a peer");
    assert_eq!(bytes, sent[0].len() as u64);
}

/// A packet that is not where it came does not overtake others, and others do not overtake it.
#[test]
fn order_holds_beside_packets_that_are_merged() {
    let flow = Flow::default();
    let packets: Vec<Vec<u8>> =
        (0..4).map(|index| flow.tcp(index * 1000, 0x10, &[index as u8; 1000])).collect();
    let (mut raw, mut east) = raw_and(Compression::LzoNo, DECOMPRESSES);
    let datagrams: Vec<Vec<u8>> = packets
        .iter()
        .enumerate()
        .map(|(index, packet)| match index {
            2 => send_raw(&mut raw, &vectors::framed_lzo(&stored_lzo(packet))),
            _ => send_raw(&mut raw, &[&b"\xfa"[..], packet].concat()),
        })
        .collect();
    let mut buffer = datagrams.concat();
    let mut out = ReceiveBatch::new(MergePolicy::TcpAndUdp);
    let mut start = 0;
    for datagram in &datagrams {
        let within = start..start + datagram.len();
        start = within.end;
        east.ingress.gather_datagrams(udp(9), &mut buffer, within, datagram.len(), &mut out);
    }
    out.finish(&mut buffer);
    let found: Vec<Vec<u8>> =
        out.packets().map(|packet| packet.slices(&buffer).flatten().copied().collect()).collect();
    assert_eq!(found.len(), 3, "the first two are one");
    assert_eq!(found[0].len(), 2040);
    assert_eq!(found[1..], packets[2..]);
    out.clear();
    assert!(out.is_empty());
}

#[test]
fn decompressed_packets_reach_other_peers() {
    let mut server = End::server(true);
    admit(&mut server, 1, udp(1), GCM);
    admit(&mut server, 2, udp(2), GCM);
    let framing = testing::framing(DataHeader::V2 { peer_id: 1 }, 5, Compression::LzoNo);
    let (peer, session) = (PeerId(1), session_id(PeerId(1), 5));
    server.install_codec(peer, session, codec(framing, GCM, Keys { seal: 2, open: 1 }, DECOMPRESSES));
    let mut raw = End::client();
    raw.add_peer(PeerId::SERVER, udp(9), &["0.0.0.0/0"], None);
    raw.install(PeerId::SERVER, session_id(PeerId::SERVER, 5), v2(1, 5), GCM, Keys { seal: 1, open: 2 });
    let to_other = packet(1000);
    let sealed = send_raw(&mut raw, &vectors::framed_lzo(&stored_lzo(&to_other)));
    let arrived = server.receive(udp(1), &sealed, sealed.len());
    assert_eq!((arrived.relay, arrived.packets), (vec![to_other], Vec::new()));
    let spoofed = Flow { source: 9, ..Flow::default() }.udp(b"not its own address");
    let sealed = send_raw(&mut raw, &vectors::framed_lzo(&stored_lzo(&spoofed)));
    assert!(server.receive(udp(1), &sealed, sealed.len()).relay.is_empty());
    assert_eq!(server.dropped_in(DropReason::BadSource), 1);
}

#[test]
fn selectors_judge_what_was_decompressed() {
    let none: Vec<Selector> = Vec::new();
    let mut east = End::client();
    let (peer, session) = (PeerId::SERVER, session_id(PeerId::SERVER, 3));
    east.add_peer(peer, udp(9), &["0.0.0.0/0"], None);
    let selecting =
        codec(data(Compression::LzoNo), GCM, Keys { seal: 2, open: 1 }, DECOMPRESSES).with_selectors(none);
    east.install_codec(peer, session, selecting);
    let (mut raw, _) = raw_and(Compression::LzoNo, PLAIN);
    let sealed = send_raw(&mut raw, &vectors::framed_lzo(&stored_lzo(&packet(100))));
    assert!(east.receive(udp(9), &sealed, sealed.len()).packets.is_empty());
    assert_eq!(east.dropped_in(DropReason::NotSelected), 1);
}

/// Packets that decompress to much more than their own length cannot fill the memory.
#[test]
fn a_batch_of_decompressed_packets_is_bounded() {
    let large = Payloads { longest: u16::MAX, ..DECOMPRESSES };
    let (mut raw, mut east) = raw_and(Compression::StubV2, large);
    let large = Flow::default().udp(&[0; 60_000]);
    let framed = vectors::framed_lz4_v2(&lz4_flex::block::compress(&large));
    let datagrams: Vec<Vec<u8>> = (0..80).map(|_| send_raw(&mut raw, &framed)).collect();
    let segment = datagrams[0].len();
    assert!(segment < 400, "{segment}");
    let arrived = east.receive(udp(9), &datagrams.concat(), segment);
    assert_eq!(arrived.packets.len(), (4 << 20) / large.len());
    assert_eq!(east.dropped_in(DropReason::Flood), 80 - arrived.packets.len() as u64);
    let again = send_raw(&mut raw, &framed);
    assert_eq!(east.receive(udp(9), &again, again.len()).packets, [large], "the next batch has room again");
}

proptest! {
    /// A payload that is complete comes out as it was sent, and nothing else does, whatever is lost and whatever comes
    /// a few datagrams late.
    #[test]
    fn parts_that_are_lost_or_late_mix_nothing(
        lens in proptest::collection::vec(1usize..1400, 1..40),
        fates in proptest::collection::vec((0u8..8, 0usize..6), 1..50),
    ) {
        let packet = |number: usize, len: usize| Flow::default().udp(&vec![number as u8; len]);
        let mut west = end(data(Compression::LzoNo), GCM, Keys { seal: 1, open: 2 }, IN_PARTS);
        let mut east = end(data(Compression::LzoNo), GCM, Keys { seal: 2, open: 1 }, IN_PARTS);
        let mut datagrams = Vec::new();
        for (number, len) in lens.iter().enumerate() {
            let sealed = send(&mut west, &packet(number, *len));
            datagrams.extend(sealed.into_iter().map(|datagram| (number, datagram)));
        }
        let (mut lost, mut arriving) = (BTreeSet::new(), Vec::new());
        for (index, (number, datagram)) in datagrams.into_iter().enumerate() {
            let (fate, late) = fates[index % fates.len()];
            if fate == 0 {
                lost.insert(number);
            } else {
                arriving.push((index + late, datagram));
            }
        }
        arriving.sort_by_key(|(time, _)| *time);
        let mut found = Vec::new();
        for (_, datagram) in arriving {
            found.extend(east.receive(udp(9), &datagram, datagram.len()).packets);
        }
        let whole = lens.iter().enumerate().filter(|(number, _)| !lost.contains(number));
        let mut expected: Vec<Vec<u8>> = whole.map(|(number, len)| packet(number, *len)).collect();
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(east.dropped_in(DropReason::Malformed), 0);
        prop_assert!(east.dropped_in(DropReason::Incomplete) <= lost.len() as u64);
    }
}
