//! ChaCha20-Poly1305 (RFC 8439) of many messages under one key at once.
//!
//! A message of 1,400 bytes has 22 blocks of ChaCha20, and its Poly1305 is one chain of multiplications: alone it
//! leaves most units of a processor unused. Here that is filled from several messages, in one of two ways:
//!
//! - [`avx512`]: a lane of ChaCha20 is a block of any message; a lane of Poly1305 is a message.
//! - [`interleaved`], for narrower vectors: ChaCha20 of one message, and beside it Poly1305 of another.
//!
//! Which of them a processor is able to do is for the caller to find out. Both leave keystream on the stack, as the
//! compiler puts values there that have no place in registers: the caller wipes the stack below its own frame. No
//! branch and no index depends on a key or a text.
#![forbid(unsafe_code)]
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

#[cfg(target_arch = "x86_64")]
pub mod avx512;
pub mod interleaved;
mod lanes;
pub mod poly1305;
mod tag;

use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Bytes of a key.
pub const KEY_LEN: usize = 32;
/// Bytes of a nonce.
pub const NONCE_LEN: usize = 12;
/// Bytes of a tag.
pub const TAG_LEN: usize = 16;
/// Messages that are worked on at once. More of them are done in parts of so many.
pub const BATCH: usize = 16;
/// The longest text in bytes: 2^32 − 1 blocks of 64 (RFC 8439 §2.8, without the block that makes the key of Poly1305).
pub const TEXT_MAX: u64 = 64 * ((1 << 32) - 1);

const SIGMA: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// A key of ChaCha20-Poly1305. It is wiped when it is dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Key([u32; 8]);

impl Key {
    /// The key of these bytes.
    pub fn new(bytes: &[u8; KEY_LEN]) -> Self {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Key(words)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// One message of a batch.
#[derive(Debug, Default)]
pub struct Message<'a> {
    /// Different for each message under a key.
    pub nonce: [u8; NONCE_LEN],
    /// The bytes that are authenticated and not encrypted.
    pub aad: &'a [u8],
    /// Encrypted or decrypted in place. At most [`TEXT_MAX`] bytes.
    pub text: &'a mut [u8],
    /// Written by sealing, read by opening.
    pub tag: [u8; TAG_LEN],
}

impl Message<'_> {
    /// The words of the nonce.
    fn nonce_words(&self) -> [u32; 3] {
        let mut words = [0; 3];
        for (word, bytes) in words.iter_mut().zip(self.nonce.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        words
    }

    fn has_tag(&self, tag: &[u8; TAG_LEN]) -> bool {
        u128::from_ne_bytes(self.tag).ct_eq(&u128::from_ne_bytes(*tag)).into()
    }
}

/// The keys of Poly1305 of a batch's messages: r and s, not clamped. Wiped when dropped.
#[derive(Default, Zeroize, ZeroizeOnDrop)]
struct OneTimeKeys([[u64; 4]; BATCH]);
