//! WireGuard transport data, message type 4 (WireGuard whitepaper §5.4.6): type (4, little endian),
//! receiver index (4), counter (8), ciphertext, tag (16). Nothing is authenticated besides the payload,
//! which is padded with zeros to a multiple of 16, but not beyond the tunnel's MTU.

use adit_core::{Cipher, ReplayWindow, SessionId};

use super::{
    Class, CountingSealer, Decode, Demultiplexer, Encode, Layout, Plain, SessionCodec, Steering, UsageLimits,
    Window, WindowedOpener,
};
use crate::aead::{Aead, AeadError, Message, NONCE_LEN, Provider, TAG_LEN, aws_lc};
use crate::counters::DropReason;
use crate::outer::{OuterPolicy, TrafficClass};

/// `Reject-After-Messages`: 2^64 − 2^13 − 1.
const COUNTER_MAX: u64 = u64::MAX - (1 << 13) - 1;
/// `Rekey-After-Messages`: 2^60.
const COUNTER_WARN: u64 = 1 << 60;

const HEADER: usize = 16;
const PADDING: usize = 16;
const DATA: [u8; 4] = [4, 0, 0, 0];

/// ECN as in Linux (`ip_tunnel_ecn_encap` and `INET_ECN_decapsulate` in drivers/net/wireguard), but packets without ECN that
/// RFC 6040 has dropped are. WireGuard may be within WireGuard, but not for ever.
const OUTER: OuterPolicy = OuterPolicy { traffic_class: TrafficClass::Ecn, nested: Some(is_message) };

/// The codec of a session. What it seals bears `remote_index`, the receiver index that the peer chose. `mtu` is that
/// of the tunnel in bytes, beyond which nothing is padded, until the data plane hears of another
/// ([`crate::EgressEvent::SetMtu`]).
///
/// # Errors
/// The keys do not fit the cipher, which WireGuard has as ChaCha20-Poly1305.
pub fn session(
    remote_index: u32,
    mtu: u16,
    cipher: Cipher,
    (seal, open): (&[u8], &[u8]),
    replay: ReplayWindow,
) -> Result<SessionCodec, AeadError> {
    session_with(aws_lc, remote_index, mtu, cipher, (seal, open), replay)
}

/// The same with the AEADs of that provider.
///
/// # Errors
/// As [`session`].
pub fn session_with(
    provider: Provider,
    remote_index: u32,
    mtu: u16,
    cipher: Cipher,
    (seal, open): (&[u8], &[u8]),
    replay: ReplayWindow,
) -> Result<SessionCodec, AeadError> {
    let sealer = Sealer { aead: provider(cipher, seal)?, remote_index, mtu };
    let limits = UsageLimits::of(cipher, 0, COUNTER_WARN, COUNTER_MAX);
    let opener = WindowedOpener::new(Opener(provider(cipher, open)?), replay);
    let codec = SessionCodec::new(Box::new(CountingSealer::new(sealer, limits)), Box::new(opener));
    Ok(SessionCodec { outer: OUTER, ..codec })
}

/// For all sockets. The id of a session is the receiver index that we chose for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sockets;

impl Demultiplexer for Sockets {
    #[inline]
    fn classify(&self, datagram: &[u8]) -> Class {
        match datagram {
            [4, 0, 0, 0, a, b, c, d, ..] => {
                Class::Session(SessionId(u64::from(u32::from_le_bytes([*a, *b, *c, *d]))))
            }
            [kind @ 1..=3, 0, 0, 0, ..] if datagram.len() == message_len(*kind) => Class::Control,
            _ => Class::Malformed,
        }
    }

    /// Only the key says who a peer is: it may come from UDP to a TCP connection, and to another.
    fn follows_streams(&self) -> bool {
        true
    }

    fn recognises(&self) -> Option<fn(&[u8]) -> bool> {
        Some(is_message)
    }

    /// The index is little-endian: its last byte on the wire is the highest.
    fn steering(&self) -> Option<Steering> {
        Some(Steering { kind_mask: 0xff, kind: 4, offset: 4, mask: 0xffff_ffff })
    }
}

/// Whether it is one of the four types of message. OpenVPN's first bytes are 8 and above: the opcode is in the upper five bits,
/// and none is 0.
fn is_message(datagram: &[u8]) -> bool {
    matches!(datagram, [1..=4, 0, 0, 0, ..])
}

/// The one length that a handshake message has (whitepaper §5.4.2, §5.4.3, §5.4.7): initiation, response, cookie
/// reply. What is of another length is not queued for the protocol.
fn message_len(kind: u8) -> usize {
    match kind {
        1 => 148,
        2 => 92,
        _ => 64,
    }
}

/// The payload with its padding, which does not make it longer than the MTU: a full packet of a tunnel with an MTU of
/// 1420 would else be a datagram of 1504 bytes over IPv6 (as Linux: `calculate_skb_padding` in
/// drivers/net/wireguard/send.c).
#[inline]
fn padded(payload_len: usize, mtu: u16) -> usize {
    payload_len.next_multiple_of(PADDING).min(usize::from(mtu)).max(payload_len)
}

fn nonce(counter: [u8; 8]) -> [u8; NONCE_LEN] {
    let [a, b, c, d, e, f, g, h] = counter;
    [0, 0, 0, 0, a, b, c, d, e, f, g, h]
}

struct Sealer {
    aead: Box<dyn Aead>,
    remote_index: u32,
    mtu: u16,
}

impl Encode for Sealer {
    #[inline]
    fn layout(&self, _first: Option<u8>, payload_len: usize) -> Layout {
        Layout { payload: HEADER, datagram: HEADER + padded(payload_len, self.mtu) + TAG_LEN }
    }

    fn set_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
    }

    #[inline]
    fn encode(&self, counter: u64, payload: &[u8], datagram: &mut [u8], _layout: Layout) -> Option<()> {
        let (message, tag) = self.lay_out(counter, payload, datagram)?;
        *tag = self.aead.seal(message.nonce, message.aad, message.text).ok()?;
        Some(())
    }

    #[inline]
    fn batching(&self) -> Option<&dyn Aead> {
        self.aead.gains_from_batches().then_some(&*self.aead)
    }

    #[inline]
    fn lay_out<'d>(
        &self,
        counter: u64,
        payload: &[u8],
        datagram: &'d mut [u8],
    ) -> Option<(Message<'d>, &'d mut [u8; TAG_LEN])> {
        let counter = counter.to_le_bytes();
        let (header, rest) = datagram.split_first_chunk_mut::<HEADER>()?;
        let (body, tag) = rest.split_last_chunk_mut::<TAG_LEN>()?;
        header[..4].copy_from_slice(&DATA);
        header[4..8].copy_from_slice(&self.remote_index.to_le_bytes());
        header[8..].copy_from_slice(&counter);
        let (text, padding) = body.split_at_mut_checked(payload.len())?;
        text.copy_from_slice(payload);
        padding.fill(0);
        Some((Message { nonce: nonce(counter), aad: &[], text: body, tag: [0; TAG_LEN] }, tag))
    }
}

struct Opener(Box<dyn Aead>);

impl Decode for Opener {
    /// The counter given out is one more than the wire's, so that it starts at 1.
    #[inline]
    fn decode(&self, datagram: &mut [u8], _seen: &Window) -> Result<Plain, DropReason> {
        let (message, plain) = self.take_apart(datagram)?;
        let opened = self.0.open(message.nonce, message.aad, &message.tag, message.text);
        opened.map(|()| plain).map_err(|_| DropReason::BadTag)
    }

    #[inline]
    fn batching(&self) -> Option<&dyn Aead> {
        self.0.gains_from_batches().then_some(&*self.0)
    }

    #[inline]
    fn take_apart<'d>(&self, datagram: &'d mut [u8]) -> Result<(Message<'d>, Plain), DropReason> {
        let (header, rest) = datagram.split_first_chunk_mut::<HEADER>().ok_or(DropReason::Malformed)?;
        let (body, tag) = rest.split_last_chunk_mut::<TAG_LEN>().ok_or(DropReason::Malformed)?;
        let [.., a, b, c, d, e, f, g, h] = *header;
        let bytes = [a, b, c, d, e, f, g, h];
        let counter = u64::from_le_bytes(bytes);
        if counter > COUNTER_MAX {
            return Err(DropReason::Exhausted);
        }
        let plain = Plain { counter: counter + 1, payload: HEADER..HEADER + body.len() };
        Ok((Message { nonce: nonce(bytes), aad: &[], text: body, tag: *tag }, plain))
    }
}

#[cfg(test)]
mod tests {
    use adit_core::{DataEvent, Notice, PeerId};

    use super::*;
    use crate::codec::testing;
    use crate::tests::packets::Flow;
    use crate::tests::world::{End, udp};
    use crate::{EgressEvent, Offload, Segmentation};

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
            let codec =
                session(INDEX, 1420, Cipher::ChaCha20Poly1305, (&[1; 32], &[1; 32]), ReplayWindow::default());
            end.install_codec(PEER, SESSION, codec.expect("the keys fit"));
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

    /// Gives an end a session under the index that it chose, with keys made of one byte each.
    fn install(end: &mut End, peer: PeerId, (own, remote): (u32, u32), cipher: Cipher, keys: (u8, u8)) {
        let key = |seed| vec![seed; cipher.key_len()];
        let keys = (&key(keys.0)[..], &key(keys.1)[..]);
        let codec = session(remote, 1400, cipher, keys, ReplayWindow::default()).expect("the keys fit");
        end.install_codec(peer, SessionId(own.into()), codec);
        end.apply(DataEvent::Activate { peer, session: SessionId(own.into()) });
    }

    #[test]
    fn wireguard_is_one_framing_among_others() {
        for cipher in Cipher::ALL.into_iter().filter(|cipher| cipher.is_aead()) {
            let mut a = End::new(testing::indexed(), false);
            let mut b = End::new(testing::indexed(), false);
            a.add_peer(PeerId(4), udp(2), &["10.0.0.2/32"], None);
            b.add_peer(PeerId(5), udp(1), &["10.0.0.1/32"], None);
            // A session's id is the index we chose; the framing holds the one that the peer chose.
            let (index_a, index_b) = (0xa1b2_c3d4, 0x0102_0304);
            install(&mut a, PeerId(4), (index_a, index_b), cipher, (1, 2));
            install(&mut b, PeerId(5), (index_b, index_a), cipher, (2, 1));
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
    }
    const INDEX: u32 = 7;
    const SESSION: SessionId = SessionId(INDEX as u64);
    const PEER: PeerId = PeerId(4);

    /// An end whose session has sealed so many packets.
    fn worn(counter: u64) -> End {
        let cipher = Cipher::ChaCha20Poly1305;
        let aead = || aws_lc(cipher, &[1; 32]).expect("the key fits");
        let limits = UsageLimits::of(cipher, 0, COUNTER_WARN, COUNTER_MAX);
        let sealer = Sealer { aead: aead(), remote_index: INDEX, mtu: 1420 };
        let mut sealer = CountingSealer::new(sealer, limits);
        sealer.wear(counter, 0);
        let opener = WindowedOpener::new(Opener(aead()), ReplayWindow::default());
        let mut end = End::new(testing::indexed(), false);
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

    /// The trap of wireguard-go, which drops a part of what it reads from the device at once if that is more than 128
    /// packets.
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
            received += other
                .receive(udp(2), &bytes, segment)
                .packets
                .iter()
                .map(|each| each.len() - 40)
                .sum::<usize>();
        }
        assert_eq!(received, payload.len());
    }
}
