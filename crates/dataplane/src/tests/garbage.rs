//! Any bytes at any entry: nothing panics, and nothing unauthentic comes out.

use adit_core::{Cipher, DataEvent, PeerId};
use proptest::prelude::*;

use super::format;
use super::packets::Flow;
use super::world::{End, client, tcp, three, udp};
use crate::offload::VNET_HEADER_LEN;
use crate::{MergePolicy, Offload, ReceiveBatch};

/// Bytes that get past the first checks more often than chance would have it.
fn datagram() -> impl Strategy<Value = Vec<u8>> {
    let first = prop_oneof![Just(0x48u8), Just(0x30), Just(4), Just(1), any::<u8>()];
    (first, any::<bool>(), proptest::collection::vec(any::<u8>(), 0..200)).prop_map(|(first, known, rest)| {
        let mut bytes = vec![first];
        if known {
            bytes.extend_from_slice(&[0, 0, 1]);
        }
        bytes.extend(rest);
        bytes
    })
}

/// A damaged packet.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let noise = proptest::collection::vec((0usize..80, any::<u8>()), 0..6);
    (any::<bool>(), any::<bool>(), any::<bool>(), 0usize..100, noise, 0usize..120).prop_map(
        |(v6, extension, udp, len, noise, cut)| {
            let flow = Flow { v6, extension, options: vec![2, 4, 5, 180], ..Flow::default() };
            let mut bytes = if udp { flow.udp(&vec![1; len]) } else { flow.tcp(1, 2, &vec![1; len]) };
            for (at, value) in noise {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            if cut < 40 {
                bytes.truncate(cut);
            }
            bytes
        },
    )
}

proptest! {
    #[test]
    fn from_the_net(
        datagrams in proptest::collection::vec(datagram(), 1..8),
        segment in 0usize..300,
        indices: bool,
    ) {
        let bytes: Vec<u8> = datagrams.concat();
        let (mut server, mut one, _) = three(true);
        let mut indexed = End::new(format::indexed(), false);
        let ends = if indices { vec![&mut indexed] } else { vec![&mut server, &mut one] };
        for end in ends {
            prop_assert!(end.receive(udp(1), &bytes, segment).packets.is_empty());
            let mut stream = bytes.clone();
            let mut receive_batch = ReceiveBatch::new(MergePolicy::TcpAndUdp);
            if let Ok(used) = end.ingress.open_stream(tcp(1), &mut stream, &mut receive_batch) {
                prop_assert!(used <= bytes.len());
            }
            prop_assert_eq!(receive_batch.packets().count(), 0);
        }
    }

    #[test]
    fn from_the_device(
        packets in proptest::collection::vec(packet(), 1..8),
        header: [u8; VNET_HEADER_LEN],
        kind in 0u8..6,
        size in 0u16..2000,
    ) {
        let mut end = client(1, udp(9), Cipher::Aes128Gcm);
        let mut header = header;
        header[0] &= 1;
        header[1] = kind;
        header[4..6].copy_from_slice(&size.to_ne_bytes());
        let offload = Offload::from_vnet_header(&header).unwrap_or(Offload::NONE);
        for packet in &packets {
            for (_, segment, bytes) in end.send(offload, packet) {
                prop_assert!(segment > 0 && bytes.len() <= crate::MAX_DATAGRAM);
            }
            let mut low = offload;
            low.checksum_start %= 64;
            low.checksum_offset %= 32;
            end.send(low, packet);
        }
    }

    /// Authentic peers may send any payload.
    #[test]
    fn from_a_peer(payloads in proptest::collection::vec(packet(), 1..12)) {
        let (mut server, mut one, _) = three(true);
        server.add_peer(PeerId(1), udp(1), &["0.0.0.0/0", "::/0"], Some(1200));
        server.receive_batch.set_policy(MergePolicy::TcpAndUdp);
        for payload in &payloads {
            one.apply(DataEvent::Inject { peer: PeerId::SERVER, payload: payload.clone() });
        }
        for (_, segment, bytes) in one.flush() {
            let arrived = server.receive(udp(1), &bytes, segment);
            for packet in arrived.packets {
                prop_assert!(packet[0] >> 4 == 4 || packet[0] >> 4 == 6);
            }
        }
    }
}
