//! The end of Poly1305: from the accumulator to the tag.

use subtle::{Choice, ConditionallySelectable as _};

use crate::TAG_LEN;

/// Clamps r (RFC 8439 §2.5).
#[inline]
pub(crate) fn clamp(low: u64, high: u64) -> (u64, u64) {
    (low & 0x0fff_fffc_0fff_ffff, high & 0x0fff_fffc_0fff_fffc)
}

/// The tag of an accumulator `low` + 2^128 `high`, with `high` < 2^40, and the key's second half.
#[inline]
pub(crate) fn finish(low: u128, high: u64, s: [u64; 2]) -> [u8; TAG_LEN] {
    // 2^130 = 5 modulo the prime 2^130 - 5. The part above it is added at the bottom, where it can carry once
    // more.
    let (low, carry) = low.overflowing_add(u128::from(high >> 2) * 5);
    let high = (high & 3) + u64::from(carry);
    // As high <= 4 now, the value is below 2 p, and it is above p if adding 5 carries out of 130 bits.
    let (reduced, carry) = low.overflowing_add(5);
    let above = (high + u64::from(carry)) >> 2;
    let value = u128::conditional_select(&low, &reduced, Choice::from((above != 0) as u8));
    value.wrapping_add(u128::from(s[0]) | u128::from(s[1]) << 64).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An accumulator just below, at and above the prime 2^130 − 5 is reached by no text that is easy to find.
    #[test]
    fn the_accumulator_is_reduced() {
        let tag = |low, high| u128::from_le_bytes(finish(low, high, [0, 0]));
        assert_eq!(tag(u128::MAX - 5, 3), u128::MAX - 5, "the prime less 1");
        assert_eq!(tag(u128::MAX - 4, 3), 0, "the prime");
        assert_eq!(tag(u128::MAX - 3, 3), 1);
        assert_eq!(tag(u128::MAX, 3), 4, "2^130 - 1");
        assert_eq!(tag(0, 4), 5, "2^130");
        assert_eq!(tag(u128::MAX, 7), 9, "2^131 - 1");
        assert_eq!(tag(u128::MAX, (1 << 40) - 1), (5 << 38) - 1, "2^168 - 1");
        assert_eq!(finish(u128::MAX - 3, 3, [u64::MAX; 2]), [0; 16], "the key's half is added modulo 2^128");
    }
}
