//! With AVX-512 F and IFMA: 16 blocks of ChaCha20, 8 or 16 messages of Poly1305 at once.

mod chacha;
mod poly;

use crate::{BATCH, Key, Message, OneTimeKeys, TAG_LEN, lanes};

/// Encrypts the messages and writes their tags.
///
/// # Safety
/// Code without these target features may call it where the processor has AVX2, AVX-512 F and IFMA.
#[target_feature(enable = "avx2,avx512f,avx512ifma")]
pub fn seal(key: &Key, messages: &mut [Message<'_>]) {
    for part in messages.chunks_mut(BATCH) {
        let keys = chacha::one_time_keys(key, part);
        chacha::crypt(key, part, lanes::all(part));
        let tags = tags(part, &keys);
        for (message, tag) in part.iter_mut().zip(tags) {
            message.tag = tag;
        }
    }
}

/// Verifies the tags of the messages, of which there are at most [`BATCH`], and decrypts those that are authentic:
/// their bits are set in the result, from the lowest. The others stay as they are.
///
/// # Safety
/// Code without these target features may call it where the processor has AVX2, AVX-512 F and IFMA.
#[target_feature(enable = "avx2,avx512f,avx512ifma")]
pub fn open(key: &Key, messages: &mut [Message<'_>]) -> u32 {
    let Some(messages) = messages.get_mut(..messages.len().min(BATCH)) else { return 0 };
    let keys = chacha::one_time_keys(key, messages);
    let tags = tags(messages, &keys);
    let authentic = messages.iter().zip(&tags).enumerate();
    let authentic =
        authentic.fold(0, |bits, (index, (message, tag))| bits | u32::from(message.has_tag(tag)) << index);
    chacha::crypt(key, messages, authentic);
    authentic
}

#[inline]
#[target_feature(enable = "avx2,avx512f,avx512ifma")]
fn tags(messages: &[Message<'_>], keys: &OneTimeKeys) -> [[u8; TAG_LEN]; BATCH] {
    let mut tags = [[0; TAG_LEN]; BATCH];
    if messages.len() > poly::LANES {
        poly::tags::<2, BATCH>(messages, &keys.0, &mut tags);
    } else if let (Some(keys), Some(tags)) = (keys.0.first_chunk(), tags.first_chunk_mut()) {
        poly::tags::<1, { poly::LANES }>(messages, keys, tags);
    }
    tags
}
