//! Ends of tunnels with WireGuard's transport data.

use std::sync::Arc;

use adit_core::{DataEvent, Instant, Notice, PeerId};
use adit_dataplane::testing::batches::{Format, Keys, open_as_single_packets, seal_as_single_packets};
use adit_dataplane::testing::packets::Flow;
use adit_dataplane::testing::world::{End, udp};
use adit_dataplane::{EgressEvent, Offload, Segmentation};

use super::*;

/// The parameters of a session with keys that are made of one byte each.
fn parameters(remote_index: u32, mtu: u16, keys: Keys) -> Codec {
    let (seal, open) = ([keys.seal; 32].into(), [keys.open; 32].into());
    Codec { remote_index, mtu, seal, open, expires: Instant::from_nanos(180_000_000_000) }
}

fn end() -> End {
    End::new(Arc::new(Sockets), false)
}

#[test]
fn padding_ends_at_the_mtu() {
    let lengths = [(0, 0), (1, 16), (16, 16), (1408, 1408), (1409, 1420), (1420, 1420), (1421, 1421)];
    for (payload, expected) in lengths {
        assert_eq!(padded(payload, 1420), expected, "{payload}");
    }
}

#[test]
fn padding_follows_the_devices_mtu() {
    let packet = Flow::default().udp(&[7; 1405 - 28]);
    let mut end = worn(0);
    assert_eq!(end.send_one(&packet).len(), 32 + 1408);
    for mtu in [1406, 1500, 1280] {
        end.egress.apply(EgressEvent::SetMtu(mtu), &mut end.transmit_batch);
        let expected = 32 + 1408.min(usize::from(mtu)).max(1405);
        assert_eq!(end.send_one(&packet).len(), expected, "the session that is there");
        let codec = parameters(INDEX, 1420, Keys { seal: 1, open: 1 });
        end.install_codec(PEER, SESSION, session_with(aws_lc, &codec).expect("the keys fit"));
        end.apply(DataEvent::Activate { peer: PEER, session: SESSION });
        assert_eq!(end.send_one(&packet).len(), expected, "one that comes later");
    }
}

#[test]
fn handshake_messages_have_one_length_each() {
    for (kind, length) in [(1, 148), (2, 92), (3, 64)] {
        let mut message = vec![0; length + 1];
        message[0] = kind;
        assert_eq!(Sockets.classify(&message), Class::Malformed, "{kind}: a byte too long");
        assert_eq!(Sockets.classify(&message[..length]), Class::Control, "{kind}");
        assert_eq!(Sockets.classify(&message[..length - 1]), Class::Malformed, "{kind}: a byte short");
    }
}

#[test]
fn no_first_byte_of_openvpn_is_taken_for_one_of_ours() {
    let recognises = Sockets.recognises().expect("they have types");
    for kind in 0..=u8::MAX {
        assert_eq!(recognises(&[kind, 0, 0, 0, 9]), (1..=4).contains(&kind), "{kind}");
        // Opcodes are 1 to 11, and in the upper five bits.
        assert!(!recognises(&[kind | 8, 0, 0, 0]));
    }
    assert!(!recognises(&[4, 0, 0, 1]) && !recognises(&[4, 0, 0]) && !recognises(&[]));
}

/// Gives an end a session under the index that it chose, of which the peer's is `remote`.
fn install(end: &mut End, peer: PeerId, own: u32, remote: u32, keys: Keys) {
    let codec = session_with(aws_lc, &parameters(remote, 1400, keys)).expect("the keys fit");
    end.install_codec(peer, SessionId(own.into()), codec);
    end.apply(DataEvent::Activate { peer, session: SessionId(own.into()) });
}

#[test]
fn packets_go_through_and_the_peer_is_followed() {
    let (mut a, mut b) = (end(), end());
    a.add_peer(PeerId(4), udp(2), &["10.0.0.2/32"], None);
    b.add_peer(PeerId(5), udp(1), &["10.0.0.1/32"], None);
    // A session's id is the index we chose; the framing holds the one that the peer chose.
    let (index_a, index_b) = (0xa1b2_c3d4, 0x0102_0304);
    install(&mut a, PeerId(4), index_a, index_b, Keys { seal: 1, open: 2 });
    install(&mut b, PeerId(5), index_b, index_a, Keys { seal: 2, open: 1 });
    for (number, len) in [0usize, 1, 4, 15, 16, 17, 1364, 1372].into_iter().enumerate() {
        let packet = Flow::default().udp(&vec![9; len]);
        let sealed = a.send_one(&packet);
        assert_eq!(sealed.len(), 32 + packet.len().next_multiple_of(16).min(1400));
        assert_eq!(sealed[..8], [4, 0, 0, 0, 4, 3, 2, 1], "type and receiver, little endian");
        assert_eq!(sealed[8..16], (number as u64).to_le_bytes(), "the counter starts at 0");
        assert_eq!(b.receive(udp(1), &sealed, sealed.len()).packets, std::slice::from_ref(&packet));
        assert!(b.receive(udp(1), &sealed, sealed.len()).packets.is_empty(), "replayed");
    }
    assert_eq!(b.dropped_in(DropReason::Replay), 8);
    let sealed = a.send_one(&Flow::default().udp(b"from elsewhere"));
    b.receive(udp(9), &sealed, sealed.len());
    let reply = Flow { source: 2, destination: 1, ..Flow::default() }.udp(b"to there");
    assert_eq!(b.send(Offload::NONE, &reply)[0].0, udp(9));
    let handshake = [&[1u8, 0, 0, 0][..], &[9; 144]].concat();
    assert_eq!(b.receive(udp(1), &handshake, 148).control, [(udp(1), handshake)]);
    assert!(b.receive(udp(1), &[5, 0, 0, 0, 9, 9, 9, 9], 8).control.is_empty());
    assert_eq!(b.dropped_in(DropReason::Malformed), 1);
}

const INDEX: u32 = 7;
const SESSION: SessionId = SessionId(INDEX as u64);
const PEER: PeerId = PeerId(4);

/// An end whose session has sealed so many packets.
fn worn(counter: u64) -> End {
    let aead = || aws_lc(CIPHER, &[1; 32]).expect("the key fits");
    let limits = UsageLimits::of(CIPHER, 0, COUNTER_WARN, COUNTER_MAX);
    let sealer = Sealer { aead: aead(), remote_index: INDEX, mtu: 1420 };
    let mut sealer = CountingSealer::new(sealer, limits);
    sealer.wear(counter, 0);
    let opener = WindowedOpener::new(Opener(aead()), Codec::REPLAY_WINDOW);
    let mut end = end();
    end.add_peer(PEER, udp(2), &["0.0.0.0/0"], None);
    end.install_codec(PEER, SESSION, SessionCodec::new(Box::new(sealer), Box::new(opener)));
    end.apply(DataEvent::Activate { peer: PEER, session: SESSION });
    end
}

fn counter_of(datagram: &[u8]) -> u64 {
    u64::from_le_bytes(*datagram[8..].first_chunk().expect("a counter"))
}

/// The trap of boringtun: a counter of a machine's word.
#[test]
fn counters_have_64_bits() {
    let packet = Flow::default().udp(b"x");
    for counter in [u64::from(u32::MAX), 1 << 32, 1 << 50] {
        let (mut end, mut other) = (worn(counter), worn(0));
        let sealed = end.send_one(&packet);
        assert_eq!(counter_of(&sealed), counter);
        assert_eq!(other.receive(udp(2), &sealed, sealed.len()).packets, std::slice::from_ref(&packet));
        // A window that knew the low half alone would take the next for a replay.
        let sealed = end.send_one(&packet);
        assert_eq!(counter_of(&sealed), counter + 1);
        assert_eq!(other.receive(udp(2), &sealed, sealed.len()).packets, std::slice::from_ref(&packet));
    }
}

/// `Reject-After-Messages`, 2^64 − 2^13 − 1, which gotatun lacked: the counter below it is the last, in both directions.
#[test]
fn counters_end() {
    let packet = Flow::default().udp(b"x");
    let mut end = worn(COUNTER_MAX);
    let mut last = end.send_one(&packet);
    assert_eq!(counter_of(&last), 0xffff_ffff_ffff_dffe);
    assert!(end.send(Offload::NONE, &packet).is_empty(), "no nonce after the last");
    assert_eq!(end.dropped_out(DropReason::Exhausted), 1);
    let mut other = worn(0);
    assert_eq!(other.receive(udp(2), &last, last.len()).packets, [packet]);
    last[8..16].copy_from_slice(&(COUNTER_MAX + 1).to_le_bytes());
    assert!(other.receive(udp(2), &last, last.len()).packets.is_empty());
    assert_eq!(other.dropped_in(DropReason::Exhausted), 1);
}

/// `Rekey-After-Messages`.
#[test]
fn new_keys_are_due_after_so_many_messages() {
    let packet = Flow::default().udp(b"x");
    let mut end = worn(COUNTER_WARN - 2);
    end.send_one(&packet);
    assert_eq!(end.egress.take_notices(), []);
    end.send_one(&packet);
    assert_eq!(end.egress.take_notices(), [Notice::LimitNear { peer: PEER, session: SESSION }]);
}

/// The trap of gotatun: a datagram longer than any that it had room for ended the receiver.
#[test]
fn datagrams_of_any_length_are_refused_without_harm() {
    let mut end = worn(0);
    for kind in 0..=5 {
        for len in [0, 1, 3, 4, 15, 16, 31, 32, 149, 2000, 65_507, 65_535] {
            let mut datagram = vec![0xff; len];
            let head = [kind, 0, 0, 0, INDEX as u8, 0, 0, 0];
            let both = len.min(head.len());
            datagram[..both].copy_from_slice(&head[..both]);
            let arrived = end.receive(udp(2), &datagram, len);
            assert!(arrived.packets.is_empty() && arrived.control.is_empty(), "type {kind}, {len} bytes");
        }
    }
}

/// The trap of wireguard-go, which drops a part of a read from the device at once if that is more than 128 packets.
#[test]
fn a_read_of_600_segments_goes_out_whole() {
    let (mut end, mut other) = (worn(0), worn(0));
    let payload = vec![7; 60_000];
    let packet = Flow { destination: 77, ..Flow::default() }.tcp(1, 0x10, &payload);
    let offload = Offload {
        needs_checksum: true,
        segmentation: Segmentation::TcpV4,
        ecn: false,
        header_len: 40,
        segment_size: 100,
        checksum_start: 20,
        checksum_offset: 16,
    };
    let mut received = 0;
    for (_, segment, bytes) in end.send(offload, &packet) {
        received +=
            other.receive(udp(2), &bytes, segment).packets.iter().map(|each| each.len() - 40).sum::<usize>();
    }
    assert_eq!(received, payload.len());
}

fn format() -> Format {
    Format {
        demultiplexer: || Arc::new(Sockets),
        session: SessionId(0),
        make: |provider, keys| session_with(provider, &parameters(0, 1420, keys)).expect("the keys fit"),
        number: 4..8,
    }
}

#[test]
fn batches_seal_what_single_packets_are_sealed_to() {
    seal_as_single_packets(&format());
}

#[test]
fn batches_open_what_single_packets_are_opened_to() {
    open_as_single_packets(&format());
}
