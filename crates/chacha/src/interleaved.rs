//! ChaCha20 of 8 blocks at once, and Poly1305 of another message beside it.
//!
//! Vectors and scalar multiplications use different units of a processor, so that both together take little more time
//! than ChaCha20 alone, if their instructions alternate. Within a message each waits for the other: Poly1305 needs a
//! key from ChaCha20, and, to seal, the text that ChaCha20 has encrypted. With several messages there is always
//! something that is ready: [`seal`] encrypts a message while the one before it is authenticated, [`open`] decrypts one
//! while the next is verified.
//!
//! Short messages share passes of ChaCha20. The instructions of a pass are the caller's: an [`Engine`].

mod batch;
#[cfg(test)]
mod tests;
mod work;

use self::batch::Batch;
pub use self::work::Work;
use crate::poly1305::Block;
use crate::{BATCH, Key, Message};

/// Blocks of ChaCha20 of a pass.
pub const LANES: usize = 8;
/// Double rounds of ChaCha20 (RFC 8439 §2.3).
pub const DOUBLE_ROUNDS: usize = 10;
/// Blocks of Poly1305 beside a double round.
const GROUP_LEN: usize = 3;
/// Bytes of a block of ChaCha20.
const CHACHA_LEN: usize = 64;

/// The blocks of Poly1305 beside a double round.
pub type Group = [Block; GROUP_LEN];

/// The texts of the blocks of a pass, one for each lane.
pub type Texts<'a> = [&'a mut [u8; CHACHA_LEN]; LANES];

/// The instructions of a pass.
pub trait Engine {
    /// Adds to `texts` the blocks of ChaCha20 of `work.state`, which stays as it is, and adds the blocks of `groups` to
    /// `work.hash`. There are at most [`DOUBLE_ROUNDS`] groups.
    fn pass(&self, work: &mut Work, groups: &[Group], texts: Texts<'_>);
}

/// Encrypts the messages and writes their tags.
pub fn seal(engine: &impl Engine, key: &Key, messages: &mut [Message<'_>]) {
    for messages in messages.chunks_mut(BATCH) {
        let mut batch = Batch::new(engine, key, messages);
        let mut before = None;
        for index in batch.long() {
            let done = batch.crypt(index, before);
            if let Some(before) = before {
                batch.write_tag(before, done);
            }
            batch.begin(index);
            before = Some(index);
        }
        if let Some(last) = before {
            batch.write_tag(last, 0);
        }
        batch.crypt_together(batch.short());
        for index in batch.short() {
            batch.begin(index);
            batch.write_tag(index, 0);
        }
    }
}

/// Verifies the tags of the messages, of which there are at most [`BATCH`], and decrypts those that are authentic:
/// their bits are set in the result, from the lowest. The others stay as they are.
pub fn open(engine: &impl Engine, key: &Key, messages: &mut [Message<'_>]) -> u32 {
    let Some(messages) = messages.get_mut(..messages.len().min(BATCH)) else { return 0 };
    let mut batch = Batch::new(engine, key, messages);
    let mut authentic = 0;
    let mut long = batch.long();
    let mut current = long.next();
    if let Some(first) = current {
        batch.begin(first);
        authentic |= batch.verify(first, 0);
    }
    while let Some(index) = current {
        let next = long.next();
        if let Some(next) = next {
            batch.begin(next);
        }
        // A message is decrypted in place, so after it was verified.
        let done = if authentic >> index & 1 == 1 { batch.crypt(index, next) } else { 0 };
        if let Some(next) = next {
            authentic |= batch.verify(next, done);
        }
        current = next;
    }
    for index in batch.short() {
        batch.begin(index);
        authentic |= batch.verify(index, 0);
    }
    batch.crypt_together(batch.short().and(authentic));
    authentic
}
