//! Which part of which message a lane has.

use crate::{BATCH, Message};

/// Blocks of one message that follow each other, in lanes that follow each other.
#[derive(Clone, Copy, Default)]
pub(crate) struct Part {
    /// Index of the message.
    pub(crate) message: usize,
    /// The first block's number, from 0 with the text's first byte.
    pub(crate) block: usize,
    /// The first lane.
    pub(crate) lane: usize,
    /// How many lanes.
    pub(crate) lanes: usize,
}

impl Part {
    /// The bytes of its message that the lanes have.
    pub(crate) fn text<'m>(&self, message: &'m mut Message<'_>) -> &'m mut [u8] {
        let len = message.text.len();
        &mut message.text[len.min(self.block * 64)..len.min((self.block + self.lanes) * 64)]
    }
}

/// Divides all blocks of the texts of a batch into passes of `LANES` blocks.
pub(crate) struct Passes<const LANES: usize> {
    message: usize,
    block: usize,
    parts: [Part; LANES],
    used: usize,
}

impl<const LANES: usize> Passes<LANES> {
    pub(crate) fn new() -> Self {
        Passes { message: 0, block: 0, parts: [Part::default(); LANES], used: 0 }
    }

    /// The parts of the next pass: none after the last. Messages whose bit in `wanted` is not set are left out.
    #[inline]
    pub(crate) fn next(&mut self, messages: &[Message<'_>], wanted: u32) -> &[Part] {
        self.used = 0;
        let mut lane = 0;
        while lane < LANES
            && let Some(message) = messages.get(self.message)
        {
            let blocks = message.text.len().div_ceil(64);
            let left = if wanted >> self.message & 1 == 1 { blocks - self.block } else { 0 };
            let lanes = left.min(LANES - lane);
            if lanes > 0 {
                self.parts[self.used] = Part { message: self.message, block: self.block, lane, lanes };
                self.used += 1;
                self.block += lanes;
                lane += lanes;
            }
            if lanes == left {
                self.message += 1;
                self.block = 0;
            }
        }
        &self.parts[..self.used]
    }
}

/// All messages of a batch.
pub(crate) fn all(messages: &[Message<'_>]) -> u32 {
    debug_assert!(messages.len() <= BATCH);
    (1 << messages.len()) - 1
}

/// The least number of whole chunks, not 0, that a text has, and the lanes whose texts have as many.
#[inline]
pub(crate) fn common<const LANES: usize, const CHUNK: usize>(texts: &[&[u8]; LANES]) -> Option<(usize, u16)> {
    let mut least = usize::MAX;
    let mut lanes = 0;
    for (lane, text) in texts.iter().enumerate() {
        let chunks = text.len() / CHUNK;
        if chunks > 0 {
            least = least.min(chunks);
            lanes |= 1 << lane;
        }
    }
    (lanes != 0).then_some((least, lanes))
}

/// Whole chunks for each lane, at least `count`, and the rest behind `count` of them put into `texts`. Lanes that are
/// not in `lanes` get those of another one, as something must be there to be read.
#[inline]
pub(crate) fn take<'t, const LANES: usize, const CHUNK: usize>(
    texts: &mut [&'t [u8]; LANES],
    count: usize,
    lanes: u16,
) -> [&'t [[u8; CHUNK]]; LANES] {
    let mut taken = [&[] as &[[u8; CHUNK]]; LANES];
    let mut any: &[[u8; CHUNK]] = &[];
    for (lane, text) in texts.iter_mut().enumerate() {
        if lanes >> lane & 1 == 1 {
            let (front, rest) = text.split_at(count * CHUNK);
            any = front.as_chunks().0;
            taken[lane] = any;
            *text = rest;
        }
    }
    for (lane, taken) in taken.iter_mut().enumerate() {
        if lanes >> lane & 1 == 0 {
            *taken = any;
        }
    }
    taken
}

/// Ends of texts, all shorter than a chunk, padded with zeros; and how many blocks of 16 bytes each has.
#[inline]
pub(crate) fn tails<const LANES: usize, const CHUNK: usize>(
    texts: &[&[u8]; LANES],
) -> ([[u8; CHUNK]; LANES], [usize; LANES]) {
    let mut padded = [[0; CHUNK]; LANES];
    let mut blocks = [0; LANES];
    for ((padded, blocks), text) in padded.iter_mut().zip(&mut blocks).zip(texts) {
        padded[..text.len()].copy_from_slice(text);
        *blocks = text.len().div_ceil(16);
    }
    (padded, blocks)
}

/// The lanes with more than `block` blocks.
#[inline]
pub(crate) fn longer<const LANES: usize>(blocks: &[usize; LANES], block: usize) -> u16 {
    let bits = blocks.iter().enumerate().map(|(lane, count)| u16::from(*count > block) << lane);
    bits.fold(0, |lanes, bit| lanes | bit)
}

/// Adds the keystream to a text that ends within a block.
#[inline]
pub(crate) fn xor_tail(text: &mut [u8], keystream: &[u8]) {
    let (whole, rest) = text.as_chunks_mut::<16>();
    let (stream, last) = keystream.split_at(whole.len() * 16);
    for (bytes, key) in whole.iter_mut().zip(stream.as_chunks::<16>().0) {
        *bytes = (u128::from_ne_bytes(*bytes) ^ u128::from_ne_bytes(*key)).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(last) {
        *byte ^= key;
    }
}
