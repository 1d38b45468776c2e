//! ChaCha20 (RFC 8439 §2.3): each lane of 32 bits is a block, each vector one word of the state of all of them.

use std::arch::x86_64::{
    __m512i, _mm512_add_epi32, _mm512_mask_mov_epi32, _mm512_mask_set1_epi32, _mm512_rol_epi32,
    _mm512_set1_epi32, _mm512_setzero_si512, _mm512_shuffle_i32x4, _mm512_unpackhi_epi32,
    _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64, _mm512_xor_si512,
};

use zerocopy::transmute;

use crate::lanes::{Part, Passes, xor_tail};
use crate::{BATCH, Key, Message, OneTimeKeys, SIGMA};

const LANES: usize = 16;

/// One step of the quarter rounds of all columns, or all diagonals: a += b; d = (d ^ a) <<< n. The first two
/// of four go before the others: a Zen 4 rotates half as many vectors in a cycle as it adds, so four that rotate at once wait.
macro_rules! step {
    ($v:ident, $n:literal, $first:tt, $second:tt, $third:tt, $fourth:tt) => {
        two!($v, $n, $first, $second);
        two!($v, $n, $third, $fourth);
    };
}

/// The step of two quarter rounds.
macro_rules! two {
    ($v:ident, $n:literal, $(($a:literal, $b:literal, $d:literal)),*) => {
        $($v[$a] = _mm512_add_epi32($v[$a], $v[$b]);)*
        $($v[$d] = _mm512_xor_si512($v[$d], $v[$a]);)*
        $($v[$d] = _mm512_rol_epi32::<$n>($v[$d]);)*
    };
}

/// The keystream of 16 blocks, one a vector. `tail` are the words of the state that are not the same for all: the
/// counter and the nonce.
#[inline]
#[target_feature(enable = "avx512f")]
fn blocks(key: &Key, tail: [__m512i; 4]) -> [__m512i; LANES] {
    let mut start = [_mm512_setzero_si512(); 16];
    for (word, value) in start.iter_mut().zip(SIGMA.iter().chain(&key.0)) {
        *word = _mm512_set1_epi32(value.cast_signed());
    }
    [start[12], start[13], start[14], start[15]] = tail;
    let mut v = start;
    for _ in 0..10 {
        step!(v, 16, (0, 4, 12), (1, 5, 13), (2, 6, 14), (3, 7, 15));
        step!(v, 12, (8, 12, 4), (9, 13, 5), (10, 14, 6), (11, 15, 7));
        step!(v, 8, (0, 4, 12), (1, 5, 13), (2, 6, 14), (3, 7, 15));
        step!(v, 7, (8, 12, 4), (9, 13, 5), (10, 14, 6), (11, 15, 7));
        step!(v, 16, (0, 5, 15), (1, 6, 12), (2, 7, 13), (3, 4, 14));
        step!(v, 12, (10, 15, 5), (11, 12, 6), (8, 13, 7), (9, 14, 4));
        step!(v, 8, (0, 5, 15), (1, 6, 12), (2, 7, 13), (3, 4, 14));
        step!(v, 7, (10, 15, 5), (11, 12, 6), (8, 13, 7), (9, 14, 4));
    }
    for (word, start) in v.iter_mut().zip(start) {
        *word = _mm512_add_epi32(*word, start);
    }
    transpose(v)
}

/// From one word of 16 blocks a vector to one block a vector.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(v: [__m512i; 16]) -> [__m512i; LANES] {
    // Of block n of each quarter, four words a quarter: `quarters[n][m]` has words 4 m to 4 m + 3.
    let mut quarters = [[_mm512_setzero_si512(); 4]; 4];
    for (m, [a, b, c, d]) in v.as_chunks::<4>().0.iter().enumerate() {
        let (low, high) = (_mm512_unpacklo_epi32(*a, *b), _mm512_unpackhi_epi32(*a, *b));
        let (low_too, high_too) = (_mm512_unpacklo_epi32(*c, *d), _mm512_unpackhi_epi32(*c, *d));
        quarters[0][m] = _mm512_unpacklo_epi64(low, low_too);
        quarters[1][m] = _mm512_unpackhi_epi64(low, low_too);
        quarters[2][m] = _mm512_unpacklo_epi64(high, high_too);
        quarters[3][m] = _mm512_unpackhi_epi64(high, high_too);
    }
    let mut blocks = [_mm512_setzero_si512(); LANES];
    for (n, quarters) in quarters.into_iter().enumerate() {
        [blocks[n], blocks[4 + n], blocks[8 + n], blocks[12 + n]] = transpose_quarters(quarters);
    }
    blocks
}

/// The 4 × 4 matrix of 128-bit quarters, transposed.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn transpose_quarters([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (front, front_too) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0x44>(c, d));
    let (back, back_too) = (_mm512_shuffle_i32x4::<0xee>(a, b), _mm512_shuffle_i32x4::<0xee>(c, d));
    [
        _mm512_shuffle_i32x4::<0x88>(front, front_too),
        _mm512_shuffle_i32x4::<0xdd>(front, front_too),
        _mm512_shuffle_i32x4::<0x88>(back, back_too),
        _mm512_shuffle_i32x4::<0xdd>(back, back_too),
    ]
}

/// Block 0 of each message: the key of its Poly1305 (RFC 8439 §2.6).
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn one_time_keys(key: &Key, messages: &[Message<'_>]) -> OneTimeKeys {
    let mut nonces = [[0u32; LANES]; 3];
    for (lane, message) in messages.iter().take(BATCH).enumerate() {
        [nonces[0][lane], nonces[1][lane], nonces[2][lane]] = message.nonce_words();
    }
    let [a, b, c]: [__m512i; 3] = transmute!(nonces);
    let blocks = blocks(key, [_mm512_setzero_si512(), a, b, c]);
    let mut keys = OneTimeKeys::default();
    for (key, block) in keys.0.iter_mut().zip(blocks) {
        let words: [u64; 8] = transmute!(block);
        *key = [words[0], words[1], words[2], words[3]];
    }
    keys
}

/// Adds the keystream to the texts of the messages whose bits are set in `wanted`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn crypt(key: &Key, messages: &mut [Message<'_>], wanted: u32) {
    let mut passes = Passes::<LANES>::new();
    loop {
        let parts = passes.next(messages, wanted);
        if parts.is_empty() {
            return;
        }
        let blocks = blocks(key, counters(messages, parts));
        for part in parts {
            if let Some(text) = messages[part.message].text.get_mut(part.block * 64..) {
                xor(text, &blocks[part.lane..part.lane + part.lanes]);
            }
        }
    }
}

/// Counter and nonce of each lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn counters(messages: &[Message<'_>], parts: &[Part]) -> [__m512i; 4] {
    const NUMBERS: [u32; LANES] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    let numbers: __m512i = transmute!(NUMBERS);
    let mut tail = [_mm512_setzero_si512(); 4];
    for part in parts {
        // All lanes from here on: those of the next part are set again by it.
        let mask = u16::MAX << part.lane;
        // The text begins with block 1. Lane numbers count on from the part's first lane.
        let first = (part.block as u32).wrapping_add(1).wrapping_sub(part.lane as u32);
        let counter = _mm512_add_epi32(numbers, _mm512_set1_epi32(first.cast_signed()));
        tail[0] = _mm512_mask_mov_epi32(tail[0], mask, counter);
        for (word, value) in tail[1..].iter_mut().zip(messages[part.message].nonce_words()) {
            *word = _mm512_mask_set1_epi32(*word, mask, value.cast_signed());
        }
    }
    tail
}

/// Adds a keystream to the front of a text, as far as both go.
#[inline]
#[target_feature(enable = "avx512f")]
fn xor(text: &mut [u8], keystream: &[__m512i]) {
    let (whole, tail) = text.as_chunks_mut::<64>();
    let last = keystream.get(whole.len());
    for (bytes, key) in whole.iter_mut().zip(keystream) {
        *bytes = transmute!(_mm512_xor_si512(transmute!(*bytes), *key));
    }
    if let Some(key) = last {
        let key: [u8; 64] = transmute!(*key);
        xor_tail(tail, &key);
    }
}
