//! The sum that the Internet checksum (RFC 1071) is made of, in the vectors that a processor has.
//!
//! A packet of 1,400 bytes is summed up at either end of a tunnel where super-packets are cut and merged: with the
//! vectors that every x86-64 processor has, that takes half as long as its AES-GCM. [`portable`] is for all processors,
//! [`avx2`] and [`avx512`] for those that have these instructions; to find out, and to call them, is the caller's part.
//!
//! Words are added in the order in which they lie in memory, so no byte is swapped (RFC 1071 §2 (B)). They are added four
//! bytes at a time, which is the same modulo 65,535.
#![forbid(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "x86_64")]
pub use x86::{avx2, avx512};

/// A function that sums up bytes as 16-bit words of memory order; an odd last byte is the first of a word whose second is 0.
/// The sum is congruent to that of the words modulo 65,535, is 0 only if all bytes are, and is below 2^49 for fewer than
/// 512 KiB.
pub type WordSum = fn(&[u8]) -> u64;

/// The [`WordSum`] for all processors.
pub fn portable(bytes: &[u8]) -> u64 {
    // Eight independent lanes: the compiler makes vector additions of this loop.
    let mut lanes = [0u64; 8];
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        let (words, _) = block.as_chunks::<4>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane += u64::from(u32::from_ne_bytes(*word));
        }
    }
    lanes.iter().sum::<u64>() + tail(rest)
}

/// The sum of the bytes after whole blocks.
#[inline]
fn tail(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    sum + match *rest {
        [] => 0,
        [a] => u64::from(u16::from_ne_bytes([a, 0])),
        [a, b] => u64::from(u16::from_ne_bytes([a, b])),
        [a, b, c, ..] => u64::from(u16::from_ne_bytes([a, b])) + u64::from(u16::from_ne_bytes([c, 0])),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 1071 §4.1, word by word.
    fn naive(bytes: &[u8]) -> u64 {
        bytes.chunks(2).map(|pair| u64::from(u16::from_ne_bytes([pair[0], *pair.get(1).unwrap_or(&0)]))).sum()
    }

    fn folded(mut sum: u64) -> u64 {
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum
    }

    /// The example of RFC 1071 §3.
    #[test]
    fn rfc_1071_example() {
        let sum = folded(portable(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]));
        assert_eq!((sum as u16).to_ne_bytes(), [0xdd, 0xf2]);
    }

    #[test]
    fn every_length_up_to_a_jumbo_packet() {
        let bytes: Vec<u8> = (0..9_100u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        for len in (0..700).chain(1_380..1_520).chain([8_191, 9_000, 9_099, 9_100]) {
            assert_eq!(folded(portable(&bytes[..len])), folded(naive(&bytes[..len])), "{len} bytes");
        }
    }

    #[test]
    fn carries_of_the_largest_packet_are_kept() {
        let bytes = [0xff; 65_535];
        assert_eq!(folded(portable(&bytes)), folded(naive(&bytes)));
    }

    proptest! {
        #[test]
        fn equals_the_naive_sum(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
            prop_assert_eq!(folded(portable(&bytes)), folded(naive(&bytes)));
        }
    }
}
