//! The messages that are worked on.

use zerocopy::{IntoBytes as _, transmute_mut};
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::{CHACHA_LEN, DOUBLE_ROUNDS, Engine, GROUP_LEN, Group, LANES, Texts, Work};
use crate::lanes::{Passes, all};
use crate::poly1305::{BLOCK_LEN, Hash};
use crate::{Key, Message, OneTimeKeys, TAG_LEN};

/// Texts up to so many bytes share passes: alone they would leave three lanes empty, or more.
const SHORT: usize = 5 * CHACHA_LEN;
/// Bytes of a pass.
const PASS_LEN: usize = LANES * CHACHA_LEN;

/// Some of the messages of a batch, in order: a bit for each, from the lowest.
#[derive(Clone, Debug)]
pub(super) struct Indices(u32);

impl Indices {
    /// The indices whose bits are set in `bits` too.
    pub(super) fn and(&self, bits: u32) -> Self {
        Indices(self.0 & bits)
    }
}

impl Iterator for Indices {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let index = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (index < u32::BITS).then_some(index as usize)
    }
}

/// Room for the texts of a pass that are not whole blocks, or do not lie where they can be encrypted. Keystream is left
/// in the parts that are not filled, also of one-time keys: wiped when dropped, as words, which takes a tenth of the
/// time that bytes take.
#[derive(Default, Zeroize, ZeroizeOnDrop)]
struct Room([[u64; CHACHA_LEN / 8]; LANES]);

impl Room {
    fn blocks(&mut self) -> &mut [[u8; CHACHA_LEN]; LANES] {
        transmute_mut!(&mut self.0)
    }

    fn texts(&mut self) -> Texts<'_> {
        self.blocks().each_mut()
    }

    /// The bytes from the first one of a lane on.
    fn lane(&mut self, lane: usize) -> &mut [u8] {
        self.0.as_mut_bytes().get_mut(lane * CHACHA_LEN..).unwrap_or_default()
    }
}

/// At most [`crate::BATCH`] messages.
pub(super) struct Batch<'b, 'm, E> {
    engine: &'b E,
    work: Work,
    keys: OneTimeKeys,
    messages: &'b mut [Message<'m>],
    room: Room,
}

impl<'b, 'm, E: Engine> Batch<'b, 'm, E> {
    pub(super) fn new(engine: &'b E, key: &Key, messages: &'b mut [Message<'m>]) -> Self {
        let mut work = Work::new(key);
        let mut keys = OneTimeKeys::default();
        for (messages, keys) in messages.chunks(LANES).zip(keys.0.chunks_mut(LANES)) {
            one_time_keys(engine, &mut work, messages, keys);
        }
        Batch { engine, work, keys, messages, room: Room::default() }
    }

    /// The messages whose texts are short.
    pub(super) fn short(&self) -> Indices {
        let bits = self.messages.iter().enumerate();
        Indices(bits.fold(0, |bits, (index, message)| bits | u32::from(message.text.len() <= SHORT) << index))
    }

    /// All others.
    pub(super) fn long(&self) -> Indices {
        Indices(all(self.messages)).and(!self.short().0)
    }

    /// Encrypts or decrypts one message. Beside it, takes blocks of another one, for which [`Batch::begin`] was called last: says
    /// how many.
    #[inline]
    pub(super) fn crypt(&mut self, index: usize, beside: Option<usize>) -> usize {
        let (message, mut groups) = match beside {
            Some(other) => match self.messages.get_disjoint_mut([index, other]) {
                Ok([message, other]) => (message, groups_of(other.text)),
                Err(_) => return 0,
            },
            None => (&mut self.messages[index], &[] as &[_]),
        };
        let all = groups.len();
        self.work.set_nonce(message.nonce_words());
        // Block 0 made the key of Poly1305.
        let mut block = 1;
        let mut take_groups = || groups.split_off(..groups.len().min(DOUBLE_ROUNDS)).unwrap_or_default();
        let (passes, end) = message.text.as_chunks_mut::<PASS_LEN>();
        for pass in passes {
            self.work.set_counters(block);
            let texts: &mut [[u8; CHACHA_LEN]; LANES] = transmute_mut!(pass);
            self.engine.pass(&mut self.work, take_groups(), texts.each_mut());
            block = block.wrapping_add(LANES as u32);
        }
        if !end.is_empty() {
            self.work.set_counters(block);
            pass_over_end(self.engine, &mut self.work, take_groups(), end, &mut self.room);
        }
        (all - groups.len()) * GROUP_LEN
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
            for part in parts {
                let text = part.text(&mut self.messages[part.message]);
                self.room.lane(part.lane)[..text.len()].copy_from_slice(text);
            }
            self.engine.pass(&mut self.work, &[], self.room.texts());
            for part in parts {
                let text = part.text(&mut self.messages[part.message]);
                text.copy_from_slice(&self.room.lane(part.lane)[..text.len()]);
            }
        }
    }
}

/// A pass over the end of a text, which has less than a block for each lane.
fn pass_over_end(engine: &impl Engine, work: &mut Work, groups: &[Group], end: &mut [u8], room: &mut Room) {
    let (whole, rest) = end.as_chunks_mut();
    let count = whole.len();
    let mut texts = room.texts();
    for (text, block) in texts.iter_mut().zip(whole) {
        *text = block;
    }
    if let Some(text) = texts.get_mut(count) {
        text[..rest.len()].copy_from_slice(rest);
    }
    engine.pass(work, groups, texts);
    rest.copy_from_slice(&room.lane(count)[..rest.len()]);
}

/// The whole groups of a text.
fn groups_of(text: &[u8]) -> &[Group] {
    text.as_chunks::<BLOCK_LEN>().0.as_chunks().0
}

/// Block 0 of each of at most as many messages as there are lanes: the key of its Poly1305 (RFC 8439 §2.6).
fn one_time_keys(engine: &impl Engine, work: &mut Work, messages: &[Message<'_>], keys: &mut [[u64; 4]]) {
    let mut keystream = Room::default();
    work.set_firsts(messages);
    engine.pass(work, &[], keystream.texts());
    for (key, words) in keys.iter_mut().zip(&keystream.0) {
        *key = [words[0], words[1], words[2], words[3]].map(u64::from_le);
    }
}
