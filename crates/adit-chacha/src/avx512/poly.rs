//! Poly1305 (RFC 8439 §2.5) with limbs of 44, 44 and 42 bits: each lane of 64 bits is a message.

use std::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_madd52hi_epu64, _mm512_madd52lo_epu64,
    _mm512_mask_mov_epi64, _mm512_or_si512, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_slli_epi64,
    _mm512_srli_epi64, _mm512_unpackhi_epi64, _mm512_unpacklo_epi64,
};

use zerocopy::transmute;

use super::chacha::transpose_quarters;
use crate::lanes::{common, longer, tails, take};
use crate::tag::{clamp, finish};
use crate::{Message, TAG_LEN};

pub(super) const LANES: usize = 8;
const CHUNK: usize = 64;
const MASK_44: u64 = (1 << 44) - 1;
const MASK_42: u64 = (1 << 42) - 1;

/// The tags of at most 8 messages.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512ifma")]
pub(super) fn tags(messages: &[Message<'_>], keys: &[[u64; 4]; LANES], tags: &mut [[u8; TAG_LEN]; LANES]) {
    let mut hash = Hash::new(keys);
    let (mut aads, mut texts) = ([&[] as &[u8]; LANES], [&[] as &[u8]; LANES]);
    let (mut aad_lens, mut text_lens) = ([0; LANES], [0; LANES]);
    for (lane, message) in messages.iter().take(LANES).enumerate() {
        (aads[lane], texts[lane]) = (message.aad, &*message.text);
        (aad_lens[lane], text_lens[lane]) = (message.aad.len() as u64, message.text.len() as u64);
    }
    hash.absorb(aads);
    hash.absorb(texts);
    hash.h = hash.step(hash.h, transmute!(aad_lens), transmute!(text_lens));
    let h: [[u64; LANES]; 3] = transmute!(hash.h);
    for (lane, (tag, key)) in tags.iter_mut().zip(keys).enumerate() {
        let (low, carry) = (u128::from(h[0][lane]) + (u128::from(h[1][lane]) << 44))
            .overflowing_add(u128::from(h[2][lane]) << 88);
        *tag = finish(low, (h[2][lane] >> 40) + u64::from(carry), [key[2], key[3]]);
    }
}

struct Hash {
    /// The accumulators.
    h: [__m512i; 3],
    r: [__m512i; 3],
    /// 20 r, of limbs 1 and 2: 2^132 is 20.
    s: [__m512i; 2],
}

impl Hash {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(keys: &[[u64; 4]; LANES]) -> Self {
        let (mut r, mut s) = ([[0u64; LANES]; 3], [[0u64; LANES]; 2]);
        for (lane, key) in keys.iter().enumerate() {
            let (low, high) = clamp(key[0], key[1]);
            r[0][lane] = low & MASK_44;
            r[1][lane] = (low >> 44 | high << 20) & MASK_44;
            r[2][lane] = high >> 24;
            s[0][lane] = r[1][lane] * 20;
            s[1][lane] = r[2][lane] * 20;
        }
        Hash { h: [_mm512_setzero_si512(); 3], r: transmute!(r), s: transmute!(s) }
    }

    /// Adds one text a lane, padded with zeros to whole blocks.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn absorb(&mut self, mut texts: [&[u8]; LANES]) {
        while let Some((count, lanes)) = common::<LANES, CHUNK>(&texts) {
            let chunks = take(&mut texts, count, lanes);
            let mut h = self.h;
            for n in 0..count {
                let mut rows = [&[0; CHUNK]; LANES];
                for (row, chunks) in rows.iter_mut().zip(chunks) {
                    *row = &chunks[n];
                }
                h = self.step_four(h, rows);
            }
            self.keep(h, lanes);
        }
        let (padded, blocks) = tails::<LANES, CHUNK>(&texts);
        let words = transpose(padded.each_ref());
        for (block, pair) in words.as_chunks::<2>().0.iter().enumerate() {
            let lanes = longer(&blocks, block);
            if lanes == 0 {
                return;
            }
            self.keep(self.step(self.h, pair[0], pair[1]), lanes);
        }
    }

    /// Takes new accumulators for some lanes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn keep(&mut self, h: [__m512i; 3], lanes: u8) {
        for (limb, new) in self.h.iter_mut().zip(h) {
            *limb = _mm512_mask_mov_epi64(*limb, lanes, new);
        }
    }

    /// Four blocks of each lane.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn step_four(&self, mut h: [__m512i; 3], chunks: [&[u8; CHUNK]; LANES]) -> [__m512i; 3] {
        for [low, high] in transpose(chunks).as_chunks::<2>().0 {
            h = self.step(h, *low, *high);
        }
        h
    }

    /// One block of each lane, in two halves: h = (h + block + 2^128) r.
    ///
    /// Limbs of h have at most 45 bits and those of r 44, so with the block added, and 20 r of less than 49 bits, both
    /// factors of each product are below 2^52, as the instruction wants, and products below 2^95. The three lower halves
    /// of a limb are below 2^54, the three upper ones below 2^45, what is carried on below 2^58: nothing overflows.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn step(&self, h: [__m512i; 3], low: __m512i, high: __m512i) -> [__m512i; 3] {
        let zero = _mm512_setzero_si512();
        let (mask_44, mask_42) = (_mm512_set1_epi64(MASK_44 as i64), _mm512_set1_epi64(MASK_42 as i64));
        let middle = _mm512_or_si512(_mm512_srli_epi64::<44>(low), _mm512_slli_epi64::<20>(high));
        let last = _mm512_or_si512(_mm512_srli_epi64::<24>(high), _mm512_set1_epi64(1 << 40));
        let h = [
            _mm512_add_epi64(h[0], _mm512_and_si512(low, mask_44)),
            _mm512_add_epi64(h[1], _mm512_and_si512(middle, mask_44)),
            _mm512_add_epi64(h[2], last),
        ];
        let (r, s) = (self.r, self.s);
        // The products' bits below and from 2^52, of each limb.
        let (mut below, mut from) = ([zero; 3], [zero; 3]);
        for (limb, factors) in [[r[0], s[1], s[0]], [r[1], r[0], s[1]], [r[2], r[1], r[0]]].iter().enumerate()
        {
            for (h, factor) in h.iter().zip(factors) {
                below[limb] = _mm512_madd52lo_epu64(below[limb], *h, *factor);
                from[limb] = _mm512_madd52hi_epu64(from[limb], *h, *factor);
            }
        }
        let carry = _mm512_add_epi64(_mm512_srli_epi64::<44>(below[0]), _mm512_slli_epi64::<8>(from[0]));
        let middle = _mm512_add_epi64(below[1], carry);
        let carry = _mm512_add_epi64(_mm512_srli_epi64::<44>(middle), _mm512_slli_epi64::<8>(from[1]));
        let last = _mm512_add_epi64(below[2], carry);
        let carry = _mm512_add_epi64(_mm512_srli_epi64::<42>(last), _mm512_slli_epi64::<10>(from[2]));
        // 2^130 is 5.
        let carry = _mm512_add_epi64(carry, _mm512_slli_epi64::<2>(carry));
        let first = _mm512_add_epi64(_mm512_and_si512(below[0], mask_44), carry);
        [
            _mm512_and_si512(first, mask_44),
            _mm512_add_epi64(_mm512_and_si512(middle, mask_44), _mm512_srli_epi64::<44>(first)),
            _mm512_and_si512(last, mask_42),
        ]
    }
}

/// From 64 bytes of a message a vector to 8 bytes of all messages a vector.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(rows: [&[u8; CHUNK]; LANES]) -> [__m512i; 8] {
    let mut words = [_mm512_setzero_si512(); 8];
    let (mut even, mut odd) = ([_mm512_setzero_si512(); 4], [_mm512_setzero_si512(); 4]);
    for (n, [a, b]) in rows.as_chunks::<2>().0.iter().enumerate() {
        let (a, b) = (transmute!(**a), transmute!(**b));
        (even[n], odd[n]) = (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    }
    [words[0], words[2], words[4], words[6]] = transpose_quarters(even);
    [words[1], words[3], words[5], words[7]] = transpose_quarters(odd);
    words
}
