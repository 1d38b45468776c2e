//! Poly1305 (RFC 8439 §2.5) of one message in scalar multiplications, with limbs of 64 bits.

use zeroize::Zeroize;

use crate::TAG_LEN;
use crate::tag::{clamp, finish};

/// Bytes of a block.
pub const BLOCK_LEN: usize = 16;
/// A block that is whole.
pub type Block = [u8; BLOCK_LEN];

/// The accumulator and the multiplier of one message. Secret, as r is: it cannot be printed.
#[derive(Default, Zeroize)]
#[repr(C)]
pub struct Hash {
    /// The accumulator, the least significant limb first. The last limb is at most 4 between blocks.
    pub h: [u64; 3],
    /// r, the least significant limb first.
    pub r: [u64; 2],
    /// 5/4 of r's second limb: as 2^130 is 5, 2^128 times that limb, which is a multiple of 4.
    pub s: u64,
}

impl Hash {
    /// A hash with the first half of a one-time key.
    pub(crate) fn new(low: u64, high: u64) -> Self {
        let (low, high) = clamp(low, high);
        Hash { h: [0; 3], r: [low, high], s: high + (high >> 2) }
    }

    /// Adds a text, padded with zeros to whole blocks.
    pub(crate) fn absorb_padded(&mut self, text: &[u8]) {
        let (blocks, rest) = text.as_chunks();
        for block in blocks {
            self.absorb(u128::from_le_bytes(*block));
        }
        if !rest.is_empty() {
            let mut block = Block::default();
            block[..rest.len()].copy_from_slice(rest);
            self.absorb(u128::from_le_bytes(block));
        }
    }

    /// Adds the lengths of both texts, which end the authenticated bytes.
    pub(crate) fn absorb_lens(&mut self, aad: usize, text: usize) {
        self.absorb(aad as u128 | (text as u128) << 64);
    }

    /// h = (h + block + 2^128) r, reduced to little more than 2^130.
    #[inline]
    pub(crate) fn absorb(&mut self, block: u128) {
        let ([h0, h1, h2], [r0, r1], s) = (self.h, self.r, self.s);
        let (low, carry) = (u128::from(h0) | u128::from(h1) << 64).overflowing_add(block);
        let (h0, h1, h2) = (low as u64, (low >> 64) as u64, h2 + u64::from(carry) + 1);
        let wide = |a: u64, b: u64| u128::from(a) * u128::from(b);
        let d0 = wide(h0, r0) + wide(h1, s);
        let d1 = wide(h0, r1) + wide(h1, r0) + u128::from(h2 * s) + (d0 >> 64);
        let d2 = h2 * r0 + (d1 >> 64) as u64;
        // The part above 2^130 is added five times: its multiple of 4, and a quarter of that.
        let (h0, carry) = (d0 as u64).overflowing_add((d2 & !3) + (d2 >> 2));
        let (h1, carry) = (d1 as u64).overflowing_add(u64::from(carry));
        self.h = [h0, h1, (d2 & 3) + u64::from(carry)];
    }

    /// The tag, with the second half of the one-time key.
    pub(crate) fn tag(&self, low: u64, high: u64) -> [u8; TAG_LEN] {
        finish(u128::from(self.h[0]) | u128::from(self.h[1]) << 64, self.h[2], [low, high])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8439 §2.5.2.
    #[test]
    fn published_vector() {
        let half = |bytes: [u8; 8]| u64::from_le_bytes(bytes);
        let mut hash = Hash::new(
            half([0x85, 0xd6, 0xbe, 0x78, 0x57, 0x55, 0x6d, 0x33]),
            half([0x7f, 0x44, 0x52, 0xfe, 0x42, 0xd5, 0x06, 0xa8]),
        );
        let (whole, rest) = b"Cryptographic Forum Research Group".split_at(32);
        hash.absorb_padded(whole);
        // Without AEAD the last block is not padded: a one follows its bytes.
        let last = u128::from(rest[0]) | u128::from(rest[1]) << 8 | 1 << 16;
        hash.h[2] = hash.h[2].wrapping_sub(1);
        hash.absorb(last);
        let tag = hash.tag(
            half([0x01, 0x03, 0x80, 0x8a, 0xfb, 0x0d, 0xb2, 0xfd]),
            half([0x4a, 0xbf, 0xf6, 0xaf, 0x41, 0x49, 0xf5, 0x1b]),
        );
        let expected =
            [0xa8, 0x06, 0x1d, 0xc1, 0x30, 0x51, 0x36, 0xc6, 0xc2, 0x2b, 0x8b, 0xaf, 0x0c, 0x01, 0x27, 0xa9];
        assert_eq!(tag, expected);
    }
}
