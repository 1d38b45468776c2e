//! With AVX2 and with AVX-512.

use core::arch::x86_64::{
    __m256i, __m512i, _mm256_add_epi64, _mm256_and_si256, _mm256_set1_epi64x, _mm256_setzero_si256,
    _mm256_srli_epi64, _mm512_add_epi64, _mm512_cvtepu32_epi64, _mm512_setzero_si512,
};

use zerocopy::transmute;

use crate::{portable, tail};

/// The [`crate::WordSum`] of processors with AVX2: 64 bytes at once.
///
/// # Safety
/// Code without this target feature may call it where the processor has AVX2.
#[target_feature(enable = "avx2")]
pub fn avx2(bytes: &[u8]) -> u64 {
    let low = _mm256_set1_epi64x(0xffff_ffff);
    let mut sums = [_mm256_setzero_si256(); 4];
    let (blocks, rest) = bytes.as_chunks::<64>();
    for block in blocks {
        let [a, b]: [__m256i; 2] = transmute!(*block);
        sums = [
            _mm256_add_epi64(sums[0], _mm256_and_si256(a, low)),
            _mm256_add_epi64(sums[1], _mm256_srli_epi64(a, 32)),
            _mm256_add_epi64(sums[2], _mm256_and_si256(b, low)),
            _mm256_add_epi64(sums[3], _mm256_srli_epi64(b, 32)),
        ];
    }
    let [a, b, c, d] = sums;
    let sum = _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d));
    let lanes: [u64; 4] = transmute!(sum);
    lanes.iter().sum::<u64>() + portable(rest)
}

/// The [`crate::WordSum`] of processors with AVX-512 F: 128 bytes at once.
///
/// # Safety
/// Code without this target feature may call it where the processor has AVX-512 F.
#[target_feature(enable = "avx512f")]
pub fn avx512(bytes: &[u8]) -> u64 {
    let mut sums = [_mm512_setzero_si512(); 4];
    let (blocks, rest) = bytes.as_chunks::<128>();
    for block in blocks {
        let parts: [__m256i; 4] = transmute!(*block);
        for (sum, part) in sums.iter_mut().zip(parts) {
            *sum = _mm512_add_epi64(*sum, _mm512_cvtepu32_epi64(part));
        }
    }
    let [a, b, c, d] = sums;
    let mut sum: __m512i = _mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d));
    let (parts, rest) = rest.as_chunks::<32>();
    for part in parts {
        sum = _mm512_add_epi64(sum, _mm512_cvtepu32_epi64(transmute!(*part)));
    }
    let lanes: [u64; 8] = transmute!(sum);
    lanes.iter().sum::<u64>() + tail(rest)
}
