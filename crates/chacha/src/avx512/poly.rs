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

/// The tags of at most `ALL` messages, in `GROUPS` vectors of [`LANES`] messages each. Each step of a message waits for the
/// step before: two vectors in turns take less time than one after the other.
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

/// A power of r, by which accumulators are multiplied.
#[derive(Clone, Copy)]
struct Power {
    limbs: [__m512i; 3],
    /// 20 times limbs 1 and 2: 2^132 is 20.
    times_20: [__m512i; 2],
}

impl Power {
    /// Its limbs have at most 45 bits.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(limbs: [__m512i; 3]) -> Self {
        let times_20 = |x| _mm512_add_epi64(_mm512_slli_epi64::<4>(x), _mm512_slli_epi64::<2>(x));
        Power { limbs, times_20: [times_20(limbs[1]), times_20(limbs[2])] }
    }
}

/// Poly1305 of the messages of a vector.
#[derive(Clone, Copy)]
struct Hash {
    /// The accumulators.
    h: [__m512i; 3],
    r: Power,
    r_squared: Power,
}

impl Hash {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn new(keys: &[[u64; 4]; LANES]) -> Self {
        let mut r = [[0u64; LANES]; 3];
        for (lane, key) in keys.iter().enumerate() {
            let (low, high) = clamp(key[0], key[1]);
            r[0][lane] = low & MASK_44;
            r[1][lane] = (low >> 44 | high << 20) & MASK_44;
            r[2][lane] = high >> 24;
        }
        let r = Power::new(transmute!(r));
        let squared = Products::none().add(r.limbs, &r).carried();
        Hash { h: [_mm512_setzero_si512(); 3], r, r_squared: Power::new(squared) }
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

/// Sums of products, limb by limb, at most six products each: their lower 52 bits, and the bits above those.
///
/// Limbs of accumulators and of powers of r have at most 45 bits. So with a block added, and 20 times a limb below
/// 2^50, both factors of a product are below 2^52, as the instruction wants, and the product is below 2^96. Six lower
/// parts are below 2^55, six upper ones below 2^47, and the carry is below 2^60: nothing overflows.
struct Products {
    lower: [__m512i; 3],
    upper: [__m512i; 3],
}

impl Products {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn none() -> Self {
        let zeros = [_mm512_setzero_si512(); 3];
        Products { lower: zeros, upper: zeros }
    }

    /// Adds `h` times a power of r.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn add(mut self, h: [__m512i; 3], power: &Power) -> Self {
        let (r, s) = (power.limbs, power.times_20);
        let factors = [[r[0], s[1], s[0]], [r[1], r[0], s[1]], [r[2], r[1], r[0]]];
        for (limb, factors) in factors.iter().enumerate() {
            for (h, factor) in h.iter().zip(factors) {
                self.lower[limb] = _mm512_madd52lo_epu64(self.lower[limb], *h, *factor);
                self.upper[limb] = _mm512_madd52hi_epu64(self.upper[limb], *h, *factor);
            }
        }
        self
    }

    /// The sum, carried to limbs of at most 45 bits and reduced.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn carried(self) -> [__m512i; 3] {
        let (mask_44, mask_42) = (_mm512_set1_epi64(MASK_44 as i64), _mm512_set1_epi64(MASK_42 as i64));
        let (lower, upper) = (self.lower, self.upper);
        let carry = _mm512_add_epi64(_mm512_srli_epi64::<44>(lower[0]), _mm512_slli_epi64::<8>(upper[0]));
        let middle = _mm512_add_epi64(lower[1], carry);
        let carry = _mm512_add_epi64(_mm512_srli_epi64::<44>(middle), _mm512_slli_epi64::<8>(upper[1]));
        let last = _mm512_add_epi64(lower[2], carry);
        let carry = _mm512_add_epi64(_mm512_srli_epi64::<42>(last), _mm512_slli_epi64::<10>(upper[2]));
        // 2^130 is 5.
        let carry = _mm512_add_epi64(carry, _mm512_slli_epi64::<2>(carry));
        let first = _mm512_add_epi64(_mm512_and_si512(lower[0], mask_44), carry);
        [
            _mm512_and_si512(first, mask_44),
            _mm512_add_epi64(_mm512_and_si512(middle, mask_44), _mm512_srli_epi64::<44>(first)),
            _mm512_and_si512(last, mask_42),
        ]
    }
}

/// Poly1305 of the messages of several vectors.
struct Hashes<const GROUPS: usize>([Hash; GROUPS]);

impl<const GROUPS: usize> Hashes<GROUPS> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn new<const ALL: usize>(keys: &[[u64; 4]; ALL]) -> Self {
        let keys = keys.as_chunks().0;
        Hashes(std::array::from_fn(|group| Hash::new(&keys[group])))
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
