//! WireGuard transport data, message type 4 (WireGuard whitepaper §5.4.6): type (4, little endian),
//! receiver index (4), counter (8), ciphertext, tag (16). Nothing is authenticated besides the payload,
//! which is padded with zeros to a multiple of 16, but not beyond the tunnel's MTU.

use adit_core::SessionId;

use super::{Class, Layout, Plain};
use crate::aead::{Aead, NONCE_LEN, TAG_LEN};
use crate::counters::Drop;

/// `Reject-After-Messages`: 2^64 − 2^13 − 1.
pub(super) const COUNTER_MAX: u64 = u64::MAX - (1 << 13) - 1;
/// `Rekey-After-Messages`: 2^60.
pub(super) const COUNTER_WARN: u64 = 1 << 60;

const HEADER: usize = 16;
const PADDING: usize = 16;
const DATA: [u8; 4] = [4, 0, 0, 0];

#[inline]
pub(super) fn classify(datagram: &[u8]) -> Class {
    match datagram {
        [4, 0, 0, 0, a, b, c, d, ..] => {
            Class::Session(SessionId(u64::from(u32::from_le_bytes([*a, *b, *c, *d]))))
        }
        [kind @ 1..=3, 0, 0, 0, ..] if datagram.len() == message_len(*kind) => Class::Control,
        _ => Class::Malformed,
    }
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

pub(super) struct Sealer {
    pub(super) aead: Box<dyn Aead>,
    pub(super) remote_index: u32,
    pub(super) mtu: u16,
}

impl Sealer {
    #[inline]
    pub(super) fn layout(&self, payload_len: usize) -> Layout {
        Layout { payload: HEADER, datagram: HEADER + padded(payload_len, self.mtu) + TAG_LEN }
    }

    /// `None` if the datagram has not the length that `layout` gave, or the AEAD refuses.
    #[inline]
    pub(super) fn seal(&self, counter: u64, datagram: &mut [u8], payload_len: usize) -> Option<()> {
        let counter = counter.to_le_bytes();
        let (header, rest) = datagram.split_first_chunk_mut::<HEADER>()?;
        let (body, tag) = rest.split_last_chunk_mut::<TAG_LEN>()?;
        header[..4].copy_from_slice(&DATA);
        header[4..8].copy_from_slice(&self.remote_index.to_le_bytes());
        header[8..].copy_from_slice(&counter);
        body.get_mut(payload_len..)?.fill(0);
        *tag = self.aead.seal(nonce(counter), &[], body).ok()?;
        Some(())
    }
}

/// The counter given out is one more than the wire's, so that it starts at 1.
#[inline]
pub(super) fn open(aead: &dyn Aead, datagram: &mut [u8]) -> Result<Plain, Drop> {
    let (header, rest) = datagram.split_first_chunk_mut::<HEADER>().ok_or(Drop::Malformed)?;
    let (body, tag) = rest.split_last_chunk_mut::<TAG_LEN>().ok_or(Drop::Malformed)?;
    let [.., a, b, c, d, e, f, g, h] = *header;
    let bytes = [a, b, c, d, e, f, g, h];
    let counter = u64::from_le_bytes(bytes);
    if counter > COUNTER_MAX {
        return Err(Drop::Exhausted);
    }
    aead.open(nonce(bytes), &[], tag, body).map_err(|_| Drop::BadTag)?;
    Ok(Plain { counter: counter + 1, payload: HEADER..HEADER + body.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_ends_at_the_mtu() {
        let lengths = [(0, 0), (1, 16), (16, 16), (1408, 1408), (1409, 1420), (1420, 1420), (1421, 1421)];
        for (payload, expected) in lengths {
            assert_eq!(padded(payload, 1420), expected, "{payload}");
        }
    }

    #[test]
    fn handshake_messages_have_one_length_each() {
        for (kind, length) in [(1, 148), (2, 92), (3, 64)] {
            let mut message = vec![0; length + 1];
            message[0] = kind;
            assert_eq!(classify(&message), Class::Malformed, "{kind}: a byte too long");
            assert_eq!(classify(&message[..length]), Class::Control, "{kind}");
            assert_eq!(classify(&message[..length - 1]), Class::Malformed, "{kind}: a byte short");
        }
    }
}
