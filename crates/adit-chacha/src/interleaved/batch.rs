//! The messages that are worked on.

use zerocopy::transmute_mut;
use zeroize::Zeroizing;

use super::{CHACHA_LEN, Engine, LANES, TURN, TURNS, Work};
use crate::lanes::Passes;
use crate::poly1305::{BLOCK_LEN, Block, Hash};
use crate::{Key, Message, OneTimeKeys, TAG_LEN};

/// Texts up to so many bytes share passes: alone they would leave three lanes empty, or more.
const SHORT: usize = 5 * CHACHA_LEN;
/// Bytes of a pass.
const PASS_LEN: usize = LANES * CHACHA_LEN;

/// Some of the messages of a batch, in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Indices(u32);

impl Indices {
    pub(super) fn next(&mut self) -> Option<usize> {
        let index = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (index < u32::BITS).then_some(index as usize)
    }

    /// Takes one out unless it is wanted.
    pub(super) fn keep(&mut self, index: usize, is_wanted: bool) {
        self.0 &= !(u32::from(!is_wanted) << index);
    }
}

/// At most [`crate::BATCH`] messages.
pub(super) struct Batch<'b, 'm, E> {
    engine: &'b E,
    work: Work,
    keys: OneTimeKeys,
    messages: &'b mut [Message<'m>],
    /// Room for blocks that are not whole.
    ends: [[u8; CHACHA_LEN]; LANES],
}

impl<'b, 'm, E: Engine> Batch<'b, 'm, E> {
    pub(super) fn new(engine: &'b E, key: &Key, messages: &'b mut [Message<'m>]) -> Self {
        let mut work = Work::new(key);
        let keys = one_time_keys(engine, &mut work, messages);
        Batch { engine, work, keys, messages, ends: [[0; CHACHA_LEN]; LANES] }
    }

    /// Those whose texts are short.
    pub(super) fn short(&self) -> Indices {
        let bits = self.messages.iter().enumerate();
        Indices(bits.fold(0, |bits, (index, message)| bits | u32::from(message.text.len() <= SHORT) << index))
    }

    /// All others.
    pub(super) fn long(&self) -> Indices {
        Indices(crate::lanes::all(self.messages) & !self.short().0)
    }

    /// Encrypts or decrypts one message. Beside it, takes blocks of another one, for which [`Batch::begin`] was called last: says
    /// how many.
    #[inline]
    pub(super) fn crypt(&mut self, index: usize, beside: Option<usize>) -> usize {
        let (message, mut turns) = match beside {
            Some(other) => match self.messages.get_disjoint_mut([index, other]) {
                Ok([message, other]) => (message, turns(other.text)),
                Err(_) => return 0,
            },
            None => (&mut self.messages[index], &[] as &[_]),
        };
        let most = turns.len();
        self.work.set_nonce(message.nonce_words());
        // Block 0 made the key of Poly1305.
        let mut block = 1;
        let mut take_turns = || turns.split_off(..turns.len().min(TURNS)).unwrap_or_default();
        let (passes, end) = message.text.as_chunks_mut::<PASS_LEN>();
        for pass in passes {
            self.work.set_counters(block);
            let texts: &mut [[u8; CHACHA_LEN]; LANES] = transmute_mut!(pass);
            self.engine.pass(&mut self.work, take_turns(), texts.each_mut());
            block = block.wrapping_add(LANES as u32);
        }
        if !end.is_empty() {
            self.work.set_counters(block);
            pass_over_end(self.engine, &mut self.work, take_turns(), end, &mut self.ends);
        }
        (most - turns.len()) * TURN
    }

    /// Begins the tag of a message, none of whose blocks were taken.
    #[inline]
    pub(super) fn begin(&mut self, index: usize) {
        let key = &self.keys.0[index];
        self.work.hash = Hash::new(key[0], key[1]);
        self.work.hash.absorb_padded(self.messages[index].aad);
    }

    /// The tag of the message that was begun last. The first `done` blocks of its text were taken.
    #[inline]
    fn tag(&mut self, index: usize, done: usize) -> [u8; TAG_LEN] {
        let (hash, message, key) = (&mut self.work.hash, &self.messages[index], &self.keys.0[index]);
        hash.absorb_padded(message.text.get(done * BLOCK_LEN..).unwrap_or_default());
        hash.absorb_lens(message.aad.len(), message.text.len());
        hash.tag(key[2], key[3])
    }

    pub(super) fn write_tag(&mut self, index: usize, done: usize) {
        self.messages[index].tag = self.tag(index, done);
    }

    /// The message's bit, if it is authentic.
    pub(super) fn verify(&mut self, index: usize, done: usize) -> u32 {
        let tag = self.tag(index, done);
        u32::from(self.messages[index].has_tag(&tag)) << index
    }

    /// Encrypts or decrypts messages whose blocks share passes.
    pub(super) fn crypt_together(&mut self, wanted: Indices) {
        let mut passes = Passes::<LANES>::new();
        loop {
            let parts = passes.next(self.messages, wanted.0);
            if parts.is_empty() {
                return;
            }
            self.work.set_lanes(self.messages, parts);
            let places = self.ends.as_flattened_mut();
            for part in parts {
                let text = part.text(&mut self.messages[part.message]);
                places[part.lane * CHACHA_LEN..][..text.len()].copy_from_slice(text);
            }
            self.engine.pass(&mut self.work, &[], self.ends.each_mut());
            let places = self.ends.as_flattened();
            for part in parts {
                let text = part.text(&mut self.messages[part.message]);
                text.copy_from_slice(&places[part.lane * CHACHA_LEN..][..text.len()]);
            }
        }
    }
}

/// A pass over the end of a text, which has less than a block for each lane.
fn pass_over_end(
    engine: &impl Engine,
    work: &mut Work,
    turns: &[[Block; TURN]],
    end: &mut [u8],
    ends: &mut [[u8; CHACHA_LEN]; LANES],
) {
    let (whole, rest) = end.as_chunks_mut();
    let count = whole.len();
    let mut texts = ends.each_mut();
    for (text, block) in texts.iter_mut().zip(whole) {
        *text = block;
    }
    if let Some(text) = texts.get_mut(count) {
        text[..rest.len()].copy_from_slice(rest);
    }
    engine.pass(work, turns, texts);
    if let Some(text) = ends.get(count) {
        rest.copy_from_slice(&text[..rest.len()]);
    }
}

/// The whole turns of a text.
fn turns(text: &[u8]) -> &[[Block; TURN]] {
    text.as_chunks::<BLOCK_LEN>().0.as_chunks().0
}

/// Block 0 of each message: the key of its Poly1305 (RFC 8439 §2.6).
fn one_time_keys(engine: &impl Engine, work: &mut Work, messages: &[Message<'_>]) -> OneTimeKeys {
    let mut keys = OneTimeKeys::default();
    for (messages, keys) in messages.chunks(LANES).zip(keys.0.chunks_mut(LANES)) {
        // Words: they are wiped in a tenth of the time that bytes take.
        let mut keystream = Zeroizing::new([[0u64; CHACHA_LEN / 8]; LANES]);
        work.set_firsts(messages);
        engine.pass(work, &[], keystream.each_mut().map(|block| transmute_mut!(block)));
        for (key, words) in keys.iter_mut().zip(&*keystream) {
            *key = [words[0], words[1], words[2], words[3]].map(u64::from_le);
        }
    }
    keys
}
