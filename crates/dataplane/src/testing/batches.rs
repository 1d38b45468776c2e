//! A provider of AEADs that gains from batches, and two tests of any codec: batches give the results that single calls
//! give.

use std::cell::RefCell;

use std::sync::Arc;

use adit_core::{Cipher, DataEvent, Path, PeerId, SessionId};

use super::packets::Flow;
use super::world::{End, tcp, udp};
use crate::aead::{Aead, AeadError, Message, NONCE_LEN, Provider, TAG_LEN, aws_lc};
use crate::codec::{Demultiplexer, SessionCodec};
use crate::{DropReason, Offload, Segmentation};

/// The one peer of an end.
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

/// AWS-LC, as if it gained from batches: an [`crate::aead::Provider`].
///
/// # Errors
/// As [`aws_lc`].
pub fn batching(cipher: Cipher, key: &[u8]) -> Result<Box<dyn Aead>, AeadError> {
    Ok(Box::new(Batching(aws_lc(cipher, key)?)))
}

/// A format whose sessions may use batches of an AEAD.
pub struct Format {
    /// The demultiplexer of an end with one peer.
    pub demultiplexer: fn() -> Arc<dyn Demultiplexer>,
    /// The session that datagrams of that peer name.
    pub session: SessionId,
    /// Makes the codec of that session, with keys that are made of one byte each.
    pub make: fn(Provider, Keys) -> SessionCodec,
    /// Where a datagram has its counter or the number of its session.
    pub number: std::ops::Range<usize>,
}

/// The bytes of which a session's keys are made.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// The key that seals.
    pub seal: u8,
    /// The key that opens.
    pub open: u8,
}

const NEAR: Keys = Keys { seal: 1, open: 2 };
const FAR: Keys = Keys { seal: 2, open: 1 };

/// An end with one peer; two ends understand each other if each has the keys of the peer.
fn end(format: &Format, provider: Provider, path: Path, keys: Keys) -> End {
    let mut end = End::new((format.demultiplexer)(), false);
    end.add_peer(PEER, path, &["0.0.0.0/0"], None);
    end.install_codec(PEER, format.session, (format.make)(provider, keys));
    end.apply(DataEvent::Activate { peer: PEER, session: format.session });
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

/// Asserts that batches seal packets to the datagrams that single packets are sealed to.
///
/// # Panics
/// They do not.
pub fn seal_as_single_packets(format: &Format) {
    for path in [udp(1), tcp(1)] {
        let mut single = end(format, aws_lc, path, NEAR);
        let mut batched = end(format, batching, path, NEAR);
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

/// Asserts that batches open datagrams to the packets that single datagrams are opened to, and drop the same ones.
///
/// # Panics
/// They do not.
pub fn open_as_single_packets(format: &Format) {
    let mut sender = end(format, aws_lc, udp(1), NEAR);
    let mut single = end(format, aws_lc, udp(1), FAR);
    let mut batched = end(format, batching, udp(1), FAR);
    OPENED.take();
    let mut receive = |segment: usize, bytes: &[u8]| {
        let (one, other) = (single.receive(udp(1), bytes, segment), batched.receive(udp(1), bytes, segment));
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
    mixed[9 * segment + format.number.start..9 * segment + format.number.end].fill(0xff);
    mixed[10 * segment] = 0xff;
    receive(segment, &mixed);
    let (forged, replayed, _) = receive(segment, &bytes);
    assert!(forged >= 6 && replayed >= 12, "{forged}, {replayed}");
    let (_, replayed_too, packets) = receive(segment, &bytes);
    assert_eq!((replayed_too - replayed, packets), (22, 22), "all came by now");
    let opened = OPENED.take();
    assert!(opened.iter().all(|count| (2..=16).contains(count)) && opened.contains(&16), "{opened:?}");
}
