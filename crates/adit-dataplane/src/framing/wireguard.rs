//! WireGuard transport data, message type 4 (WireGuard whitepaper §5.4.6): type (4, little endian),
//! receiver index (4), counter (8), ciphertext, tag (16). Nothing is authenticated besides the payload,
//! which is padded with zeros to a multiple of 16.

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
        [1..=3, 0, 0, 0, ..] => Class::Control,
        _ => Class::Malformed,
    }
}

#[inline]
pub(super) fn layout(payload_len: usize) -> Layout {
    Layout { payload: HEADER, datagram: HEADER + payload_len.next_multiple_of(PADDING) + TAG_LEN }
}

fn nonce(counter: [u8; 8]) -> [u8; NONCE_LEN] {
    let [a, b, c, d, e, f, g, h] = counter;
    [0, 0, 0, 0, a, b, c, d, e, f, g, h]
}

pub(super) struct Sealer {
    pub(super) aead: Box<dyn Aead>,
    pub(super) remote_index: u32,
}

impl Sealer {
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
