//! What goes through batches of an AEAD is what goes through it one by one.

use std::cell::RefCell;

use adit_core::{Cipher, DataEvent, Path, PeerId, ReplayWindow, SessionId};

use super::testing::{self, Compression, DataHeader, Framing, framing, key, session_id};
use super::{SessionCodec, openvpn, wireguard};
use crate::aead::{Aead, AeadError, Message, NONCE_LEN, Provider, TAG_LEN, aws_lc};
use crate::tests::packets::Flow;
use crate::tests::world::{End, tcp, udp};
use crate::{DropReason, Offload, Segmentation};

const CIPHER: Cipher = Cipher::ChaCha20Poly1305;
const PEER: PeerId = PeerId::SERVER;

thread_local! {
    /// How many messages each batch had.
    static SEALED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    static OPENED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// AWS-LC, as if it gained from batches.
struct Batching(Box<dyn Aead>);

impl Aead for Batching {
    fn seal(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        in_out: &mut [u8],
    ) -> Result<[u8; TAG_LEN], AeadError> {
        self.0.seal(nonce, aad, in_out)
    }

    fn seal_from(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        plain: &[u8],
        sealed: &mut [u8],
        tag: &mut [u8; TAG_LEN],
    ) -> Result<(), AeadError> {
        self.0.seal_from(nonce, aad, plain, sealed, tag)
    }

    fn open(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        tag: &[u8; TAG_LEN],
        in_out: &mut [u8],
    ) -> Result<(), AeadError> {
        self.0.open(nonce, aad, tag, in_out)
    }

    fn gains_from_batches(&self) -> bool {
        true
    }

    fn seal_batch(&self, messages: &mut [Message<'_>]) -> Result<(), AeadError> {
        SEALED.with_borrow_mut(|sealed| sealed.push(messages.len()));
        self.0.seal_batch(messages)
    }

    fn open_batch(&self, messages: &mut [Message<'_>]) -> u32 {
        OPENED.with_borrow_mut(|opened| opened.push(messages.len()));
        self.0.open_batch(messages)
    }
}

fn batching(cipher: Cipher, key: &[u8]) -> Result<Box<dyn Aead>, AeadError> {
    Ok(Box::new(Batching(aws_lc(cipher, key)?)))
}

/// Makes a session's codec of the seeds of both keys.
type Make = fn(Provider, (u8, u8)) -> SessionCodec;

fn of(framing: Framing, provider: Provider, (seal, open): (u8, u8)) -> SessionCodec {
    let keys = (&key(CIPHER, seal), &key(CIPHER, open));
    openvpn::session_with(provider, framing, CIPHER, keys, ReplayWindow::default()).expect("the keys fit")
}

fn v1(provider: Provider, keys: (u8, u8)) -> SessionCodec {
    of(framing(DataHeader::V1, 0, Compression::None), provider, keys)
}

fn v2(provider: Provider, keys: (u8, u8)) -> SessionCodec {
    of(framing(DataHeader::V2 { peer_id: 0 }, 0, Compression::None), provider, keys)
}

fn indexed(provider: Provider, (seal, open): (u8, u8)) -> SessionCodec {
    let keys = (&[seal; 32][..], &[open; 32][..]);
    wireguard::session_with(provider, 0, 1420, CIPHER, keys, ReplayWindow::default()).expect("the keys fit")
}

/// All formats whose sessions may use batches.
const FORMATS: [Make; 3] = [v1, v2, indexed];

/// An end with one peer; two of them understand each other if one has the other's keys.
fn end(make: Make, provider: Provider, path: Path, keys: (u8, u8)) -> End {
    let is_indexed = std::ptr::fn_addr_eq(make, indexed as Make);
    let mut end = if is_indexed { End::new(testing::indexed(), false) } else { End::client() };
    let session = if is_indexed { SessionId(0) } else { session_id(PEER, 0) };
    end.add_peer(PEER, path, &["0.0.0.0/0"], None);
    end.install_codec(PEER, session, make(provider, keys));
    end.apply(DataEvent::Activate { peer: PEER, session });
    end
}

/// A TCP super-packet that becomes packets of `size` bytes of payload each.
fn super_packet(payload: usize, size: u16) -> (Offload, Vec<u8>) {
    let bytes: Vec<u8> = (0..payload).map(|at| (at * 7 + at / 300) as u8).collect();
    let packet = Flow::default().tcp(1, 0x18, &bytes);
    let offload = Offload {
        needs_checksum: true,
        segmentation: Segmentation::TcpV4,
        ecn: false,
        header_len: 40,
        segment_size: size,
        checksum_start: 20,
        checksum_offset: 16,
    };
    (offload, packet)
}

#[test]
fn batches_seal_what_single_packets_are_sealed_to() {
    for make in FORMATS {
        for path in [udp(1), tcp(1)] {
            let mut single = end(make, aws_lc, path, (1, 2));
            let mut batched = end(make, batching, path, (1, 2));
            SEALED.take();
            for (payload, size) in
                [(1, 1400), (1400, 1400), (2800, 1400), (2801, 1400), (60_000, 1400), (63_000, 500)]
            {
                let (offload, packet) = super_packet(payload, size);
                let is_same = batched.send(offload, &packet) == single.send(offload, &packet);
                assert!(is_same, "{payload} by {size}");
            }
            let sealed = SEALED.take();
            assert!(sealed.iter().all(|count| (2..=16).contains(count)), "{sealed:?}");
            assert!(sealed.iter().filter(|count| **count == 16).count() >= 6, "{sealed:?}");
            assert_eq!(batched.counters.snapshot().egress, single.counters.snapshot().egress);
        }
    }
}

#[test]
fn batches_open_what_single_packets_are_opened_to() {
    for make in FORMATS {
        let mut sender = end(make, aws_lc, udp(1), (1, 2));
        let mut single = end(make, aws_lc, udp(1), (2, 1));
        let mut batched = end(make, batching, udp(1), (2, 1));
        OPENED.take();
        let mut receive = |segment: usize, bytes: &[u8]| {
            let (one, other) =
                (single.receive(udp(1), bytes, segment), batched.receive(udp(1), bytes, segment));
            assert!(other.packets == one.packets);
            assert!((other.control, other.notices) == (one.control, one.notices));
            let (one, other) = (single.counters.snapshot().ingress, batched.counters.snapshot().ingress);
            assert_eq!(other, one);
            (other.dropped(DropReason::BadTag), other.dropped(DropReason::Replay), one.packets)
        };
        let (offload, packet) = super_packet(30_100, 1400);
        let mut sent = sender.send(offload, &packet);
        let (_, segment, bytes) = sent.pop().expect("one");
        // Some are forged, one is cut short by its last bytes being those of the next, one names no session.
        let mut mixed = bytes.clone();
        for index in [0, 3, 4, 15, 16, 21] {
            mixed[index * segment + 100] ^= 1;
        }
        mixed[9 * segment + 4..9 * segment + 8].fill(0xff);
        mixed[10 * segment] = 0xff;
        receive(segment, &mixed);
        let (forged, replayed, _) = receive(segment, &bytes);
        assert!(forged >= 6 && replayed >= 12, "{forged}, {replayed}");
        let (_, replayed_too, packets) = receive(segment, &bytes);
        assert_eq!((replayed_too - replayed, packets), (22, 22), "all came by now");
        let opened = OPENED.take();
        assert!(opened.iter().all(|count| (2..=16).contains(count)) && opened.contains(&16), "{opened:?}");
    }
}
