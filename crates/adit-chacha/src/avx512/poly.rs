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

/// Messages of a vector.
pub(super) const LANES: usize = 8;
const CHUNK: usize = 64;
const MASK_44: u64 = (1 << 44) - 1;
const MASK_42: u64 = (1 << 42) - 1;

/// The tags of at most `ALL` messages, which are in `GROUPS` of [`LANES`]. Each product waits for the one before it in its group: two groups
/// together take less time than one after the other.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512ifma")]
pub(super) fn tags<const GROUPS: usize, const ALL: usize>(
    messages: &[Message<'_>],
    keys: &[[u64; 4]; ALL],
    tags: &mut [[u8; TAG_LEN]; ALL],
) {
    const { assert!(GROUPS * LANES == ALL) };
    let mut hashes = Hashes::<GROUPS>::new(keys);
    let (mut aads, mut texts) = ([&[] as &[u8]; ALL], [&[] as &[u8]; ALL]);
    let (mut aad_lens, mut text_lens) = ([[0; LANES]; GROUPS], [[0; LANES]; GROUPS]);
    let lens = aad_lens.as_flattened_mut().iter_mut().zip(text_lens.as_flattened_mut());
    for (lane, (message, lens)) in messages.iter().zip(lens).enumerate() {
        (aads[lane], texts[lane]) = (message.aad, &*message.text);
        (*lens.0, *lens.1) = (message.aad.len() as u64, message.text.len() as u64);
    }
    hashes.absorb(aads);
    hashes.absorb(texts);
    let places = tags.as_chunks_mut::<LANES>().0.iter_mut().zip(keys.as_chunks::<LANES>().0);
    for (group, (tags, keys)) in places.enumerate() {
        let hash = &hashes.0[group];
        let h = hash.step(hash.h, [transmute!(aad_lens[group]), transmute!(text_lens[group])]);
        let h: [[u64; LANES]; 3] = transmute!(h);
        for (lane, (tag, key)) in tags.iter_mut().zip(keys).enumerate() {
            let (low, carry) = (u128::from(h[0][lane]) + (u128::from(h[1][lane]) << 44))
                .overflowing_add(u128::from(h[2][lane]) << 88);
            *tag = finish(low, (h[2][lane] >> 40) + u64::from(carry), [key[2], key[3]]);
        }
    }
}

/// What accumulators are multiplied by.
#[derive(Clone, Copy)]
struct Factor {
    r: [__m512i; 3],
    /// 20 r, of limbs 1 and 2: 2^132 is 20.
    s: [__m512i; 2],
}

impl Factor {
    /// Limbs of less than 46 bits.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(r: [__m512i; 3]) -> Self {
        let times_20 = |x| _mm512_add_epi64(_mm512_slli_epi64::<4>(x), _mm512_slli_epi64::<2>(x));
        Factor { r, s: [times_20(r[1]), times_20(r[2])] }
    }
}

/// Poly1305 of a group.
#[derive(Clone, Copy)]
struct Hash {
    /// The accumulators.
    h: [__m512i; 3],
    r: Factor,
    r_squared: Factor,
}

impl Hash {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn new(keys: &[[u64; 4]]) -> Self {
        let mut r = [[0u64; LANES]; 3];
        for (lane, key) in keys.iter().take(LANES).enumerate() {
            let (low, high) = clamp(key[0], key[1]);
            r[0][lane] = low & MASK_44;
            r[1][lane] = (low >> 44 | high << 20) & MASK_44;
            r[2][lane] = high >> 24;
        }
        let r = Factor::new(transmute!(r));
        let squared = Products::none().add(r.r, &r).carried();
        Hash { h: [_mm512_setzero_si512(); 3], r, r_squared: Factor::new(squared) }
    }

    /// Takes new accumulators for some lanes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn keep(&mut self, h: [__m512i; 3], lanes: u8) {
        for (limb, new) in self.h.iter_mut().zip(h) {
            *limb = _mm512_mask_mov_epi64(*limb, lanes, new);
        }
    }

    /// A block of each lane: h = (h + block + 2^128) r.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn step(&self, h: [__m512i; 3], block: Halves) -> [__m512i; 3] {
        Products::none().add(sum(h, limbs(block)), &self.r).carried()
    }

    /// Two blocks of each lane, whose products are carried once: h = (h + first + 2^128) r^2 + (second + 2^128) r.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn step_two(&self, h: [__m512i; 3], first: Halves, second: Halves) -> [__m512i; 3] {
        Products::none().add(sum(h, limbs(first)), &self.r_squared).add(limbs(second), &self.r).carried()
    }
}

/// The lower and the upper half of a block of each lane.
type Halves = [__m512i; 2];

/// The limbs of a block plus 2^128.
#[inline]
#[target_feature(enable = "avx512f")]
fn limbs([low, high]: Halves) -> [__m512i; 3] {
    let mask = _mm512_set1_epi64(MASK_44 as i64);
    let middle = _mm512_or_si512(_mm512_srli_epi64::<44>(low), _mm512_slli_epi64::<20>(high));
    let last = _mm512_or_si512(_mm512_srli_epi64::<24>(high), _mm512_set1_epi64(1 << 40));
    [_mm512_and_si512(low, mask), _mm512_and_si512(middle, mask), last]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn sum(a: [__m512i; 3], b: [__m512i; 3]) -> [__m512i; 3] {
    [_mm512_add_epi64(a[0], b[0]), _mm512_add_epi64(a[1], b[1]), _mm512_add_epi64(a[2], b[2])]
}

/// Sums of products. Each limb has the products' bits below and from 2^52.
///
/// Limbs of accumulators have at most 45 bits, as those of r and of r^2, so with a block added, and 20 r of less than 50 bits, both
/// factors of each product are below 2^52, as the instruction wants, and products below 2^96. The lower halves
/// of a limb, of two factors at most six, are together below 2^55, the upper ones below 2^47, what is carried on below 2^60: nothing overflows.
struct Products {
    below: [__m512i; 3],
    from: [__m512i; 3],
}

impl Products {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn none() -> Self {
        let zeros = [_mm512_setzero_si512(); 3];
        Products { below: zeros, from: zeros }
    }

    /// Adds `h` times a factor.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn add(mut self, h: [__m512i; 3], factor: &Factor) -> Self {
        let (r, s) = (factor.r, factor.s);
        let factors = [[r[0], s[1], s[0]], [r[1], r[0], s[1]], [r[2], r[1], r[0]]];
        for (limb, factors) in factors.iter().enumerate() {
            for (h, factor) in h.iter().zip(factors) {
                self.below[limb] = _mm512_madd52lo_epu64(self.below[limb], *h, *factor);
                self.from[limb] = _mm512_madd52hi_epu64(self.from[limb], *h, *factor);
            }
        }
        self
    }

    /// Limbs of at most 45 bits.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn carried(self) -> [__m512i; 3] {
        let (mask_44, mask_42) = (_mm512_set1_epi64(MASK_44 as i64), _mm512_set1_epi64(MASK_42 as i64));
        let (below, from) = (self.below, self.from);
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

/// Poly1305 of several groups.
struct Hashes<const GROUPS: usize>([Hash; GROUPS]);

impl<const GROUPS: usize> Hashes<GROUPS> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn new(keys: &[[u64; 4]]) -> Self {
        let (first, rest) = keys.split_at(LANES.min(keys.len()));
        let mut hashes = [Hash::new(first); GROUPS];
        for (hash, keys) in hashes[1..].iter_mut().zip(rest.chunks(LANES)) {
            *hash = Hash::new(keys);
        }
        Hashes(hashes)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn accumulators(&self) -> [[__m512i; 3]; GROUPS] {
        let mut all = [[_mm512_setzero_si512(); 3]; GROUPS];
        for (h, hash) in all.iter_mut().zip(&self.0) {
            *h = hash.h;
        }
        all
    }

    /// Adds one text a lane, padded with zeros to whole blocks.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn absorb<const ALL: usize>(&mut self, mut texts: [&[u8]; ALL]) {
        while let Some((count, lanes)) = common::<ALL, CHUNK>(&texts) {
            let chunks = take(&mut texts, count, lanes);
            let mut h = self.accumulators();
            for n in 0..count {
                let mut words = [[_mm512_setzero_si512(); 8]; GROUPS];
                for (words, chunks) in words.iter_mut().zip(chunks.as_chunks::<LANES>().0) {
                    let mut rows = [&[0; CHUNK]; LANES];
                    for (row, chunks) in rows.iter_mut().zip(chunks) {
                        *row = &chunks[n];
                    }
                    *words = transpose(rows);
                }
                for blocks in [0, 2] {
                    for ((h, hash), words) in h.iter_mut().zip(&self.0).zip(&words) {
                        let words = words.as_chunks::<2>().0;
                        *h = hash.step_two(*h, words[blocks], words[blocks + 1]);
                    }
                }
            }
            self.keep(h, lanes);
        }
        let (padded, blocks) = tails::<ALL, CHUNK>(&texts);
        let mut words = [[_mm512_setzero_si512(); 8]; GROUPS];
        for (words, rows) in words.iter_mut().zip(padded.as_chunks::<LANES>().0) {
            *words = transpose(rows.each_ref());
        }
        for block in 0..CHUNK / 16 {
            let lanes = longer(&blocks, block);
            if lanes == 0 {
                return;
            }
            let mut h = self.accumulators();
            for ((h, hash), words) in h.iter_mut().zip(&self.0).zip(&words) {
                *h = hash.step(*h, words.as_chunks().0[block]);
            }
            self.keep(h, lanes);
        }
    }

    /// Takes new accumulators for some lanes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn keep(&mut self, h: [[__m512i; 3]; GROUPS], lanes: u16) {
        for (group, (hash, h)) in self.0.iter_mut().zip(h).enumerate() {
            hash.keep(h, (lanes >> (group * LANES)) as u8);
        }
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
