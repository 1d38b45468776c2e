//! The memory that a pass reads and writes.

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::LANES;
use crate::lanes::Part;
use crate::poly1305::Hash;
use crate::{Key, Message, SIGMA};

const NUMBERS: [u32; LANES] = [0, 1, 2, 3, 4, 5, 6, 7];

/// The memory that an [`super::Engine`] reads and writes. The order of its fields is fixed and its vectors are aligned,
/// for assembly. Wiped when dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
#[repr(C, align(32))]
pub struct Work {
    /// Each vector is one word of the state of ChaCha20 (RFC 8439 §2.3), each lane a block.
    pub state: [[u32; LANES]; 16],
    /// Words of the engine that have no place in registers.
    pub spilled: [[u64; 4]; 8],
    /// Poly1305 of the current message.
    pub hash: Hash,
    /// The engine's double rounds that are left with Poly1305 beside them, and without.
    pub rounds: [u64; 2],
}

impl Work {
    /// A state with the words that are the same for all blocks.
    pub(super) fn new(key: &Key) -> Self {
        let mut state = [[0; LANES]; 16];
        for (word, value) in state.iter_mut().zip(SIGMA.iter().chain(&key.0)) {
            *word = [*value; LANES];
        }
        Work { state, spilled: [[0; 4]; 8], hash: Hash::default(), rounds: [0; 2] }
    }

    /// Makes lane n block 0 of message n.
    pub(super) fn set_firsts(&mut self, messages: &[Message<'_>]) {
        self.state[12] = [0; LANES];
        for (lane, message) in messages.iter().take(LANES).enumerate() {
            for (word, value) in self.state[13..].iter_mut().zip(message.nonce_words()) {
                word[lane] = value;
            }
        }
    }

    /// Makes all lanes blocks of a message.
    #[inline]
    pub(super) fn set_nonce(&mut self, nonce: [u32; 3]) {
        for (lanes, word) in self.state[13..].iter_mut().zip(nonce) {
            *lanes = [word; LANES];
        }
    }

    /// Makes the lanes blocks that follow each other.
    #[inline]
    pub(super) fn set_counters(&mut self, first: u32) {
        self.state[12] = NUMBERS.map(|lane| first.wrapping_add(lane));
    }

    /// Makes the lanes the blocks of `parts`. The text begins with block 1.
    pub(super) fn set_lanes(&mut self, messages: &[Message<'_>], parts: &[Part]) {
        for part in parts {
            let nonce = messages[part.message].nonce_words();
            for lane in 0..part.lanes {
                self.state[12][part.lane + lane] = (part.block + lane) as u32 + 1;
                for (lanes, word) in self.state[13..].iter_mut().zip(nonce) {
                    lanes[part.lane + lane] = word;
                }
            }
        }
    }
}
