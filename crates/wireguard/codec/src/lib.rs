//! WireGuard on the wire, for the data plane: transport data, message type 4 (WireGuard whitepaper §5.4.6), and how its
//! sockets tell datagrams apart.
//!
//! A data message is type (4, little endian), receiver index (4), counter (8), ciphertext, tag (16). Nothing is authenticated
//! besides the payload, which is padded with zeros to a multiple of 16, but not beyond the tunnel's MTU.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use adit_core::{Cipher, Install, SessionId};
use adit_dataplane::aead::{Aead, AeadError, Message, NONCE_LEN, Provider, TAG_LEN, aws_lc};
use adit_dataplane::codec::{
    Class, CountingSealer, Decode, Demultiplexer, Encode, Layout, Plain, SessionCodec, Steering, UsageLimits,
    Window, WindowedOpener,
};
use adit_dataplane::{DropReason, OuterPolicy, TrafficClass};
use adit_wireguard::Codec;
use adit_wireguard::wire::{COOKIE_REPLY_LEN, DATA_HEADER_LEN as HEADER, INITIATION_LEN, RESPONSE_LEN};

const CIPHER: Cipher = Cipher::ChaCha20Poly1305;
/// `Reject-After-Messages`: 2^64 − 2^13 − 1.
const COUNTER_MAX: u64 = u64::MAX - (1 << 13) - 1;
/// `Rekey-After-Messages`: 2^60.
const COUNTER_WARN: u64 = 1 << 60;

const PADDING: usize = 16;
const DATA: [u8; 4] = [4, 0, 0, 0];

/// ECN as in Linux (`ip_tunnel_ecn_encap` and `INET_ECN_decapsulate` in drivers/net/wireguard), but packets without ECN that
/// RFC 6040 has dropped are. WireGuard may be within WireGuard, but not for ever.
const OUTER: OuterPolicy = OuterPolicy { traffic_class: TrafficClass::Ecn, nested: Some(is_message) };

/// The codec of a session, with AEADs of AWS-LC.
///
/// # Errors
/// As [`session_with`].
pub fn session(install: &Install<Codec>) -> Result<SessionCodec, AeadError> {
    session_with(aws_lc, &install.codec)
}

/// The codec of a session with the AEADs of that provider. Nothing is padded beyond the tunnel's MTU, which is
/// [`Codec::mtu`] until [`adit_dataplane::EgressEvent::SetMtu`] sets another.
///
/// # Errors
/// None of AWS-LC's: keys of 32 bytes fit the cipher.
pub fn session_with(provider: Provider, codec: &Codec) -> Result<SessionCodec, AeadError> {
    let Codec { remote_index, mtu, seal, open, expires } = codec;
    let sealer = Sealer { aead: provider(CIPHER, seal.as_slice())?, remote_index: *remote_index, mtu: *mtu };
    let limits = UsageLimits::of(CIPHER, 0, COUNTER_WARN, COUNTER_MAX);
    let opener = WindowedOpener::new(Opener(provider(CIPHER, open.as_slice())?), Codec::REPLAY_WINDOW);
    let codec = SessionCodec::new(Box::new(CountingSealer::new(sealer, limits)), Box::new(opener));
    Ok(SessionCodec { outer: OUTER, expires: Some(*expires), ..codec })
}

/// The demultiplexer of all sockets. The id of a session is the receiver index that we chose for it.
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

    /// Only its key identifies a peer: it may come from UDP to a TCP connection, and to another.
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

/// Whether the first bytes are one of the four types of message. Formats whose first byte is 8 or more can be at the same port.
fn is_message(datagram: &[u8]) -> bool {
    matches!(datagram, [1..=4, 0, 0, 0, ..])
}

/// The one length that a handshake message has (whitepaper §5.4.2, §5.4.3, §5.4.7): initiation, response, cookie reply.
/// A message of another length is not queued for the protocol.
fn message_len(kind: u8) -> usize {
    match kind {
        1 => INITIATION_LEN,
        2 => RESPONSE_LEN,
        _ => COOKIE_REPLY_LEN,
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
    fn decode(&self, datagram: &mut [u8], seen: &Window) -> Result<Plain, DropReason> {
        let (message, plain) = self.take_apart(datagram, seen)?;
        let opened = self.0.open(message.nonce, message.aad, &message.tag, message.text);
        opened.map(|()| plain).map_err(|_| DropReason::BadTag)
    }

    #[inline]
    fn batching(&self) -> Option<&dyn Aead> {
        self.0.gains_from_batches().then_some(&*self.0)
    }

    #[inline]
    fn take_apart<'d>(
        &self,
        datagram: &'d mut [u8],
        _seen: &Window,
    ) -> Result<(Message<'d>, Plain), DropReason> {
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
