//! How this processor sums up the bytes of checksums.

use adit_checksum::{WordSum, portable};
use adit_sys::word_sums;

/// The fastest sum that this processor has: for [`adit_dataplane::Config::words`].
pub fn words() -> WordSum {
    word_sums().next().unwrap_or(portable)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum as a checksum needs it: congruent modulo 65,535, and with the right one of the two zeros.
    fn folded(mut sum: u64) -> u64 {
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum
    }

    #[test]
    fn every_length_gives_the_portable_sum() {
        let bytes: Vec<u8> = (0..9_100u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 9) as u8).collect();
        for sum in word_sums() {
            for start in 0..3 {
                for len in (0..600).chain(1_300..1_520).chain([8_192, 9_000]) {
                    let bytes = &bytes[start..start + len];
                    assert_eq!(folded(sum(bytes)), folded(portable(bytes)), "{len} bytes from {start}");
                }
            }
        }
    }

    #[test]
    fn carries_of_the_largest_packet_are_kept() {
        for sum in word_sums() {
            assert_eq!(folded(sum(&[0xff; 65_535])), folded(portable(&[0xff; 65_535])));
            assert_eq!(sum(&[0; 65_535]), 0);
        }
    }
}
