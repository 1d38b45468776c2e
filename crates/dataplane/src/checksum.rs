//! The Internet checksum (RFC 1071), its incremental update (RFC 1624) and the pseudo-headers.

use adit_checksum::WordSum;

/// A one's-complement sum under way. Words are added in the order they lie in memory, so no byte is ever
/// swapped (RFC 1071 §2 (B)); 64 bits hold the carries of far more than a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum(u64);

impl Sum {
    /// Adds a header, or other few bytes that start at an even offset of the summed bytes.
    #[inline]
    pub(crate) fn bytes(self, bytes: &[u8]) -> Self {
        // Four bytes at a time, which is the same modulo 65,535.
        let (words, rest) = bytes.as_chunks::<4>();
        let sum = self.0 + words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum::<u64>();
        let (words, rest) = rest.as_chunks::<2>();
        let sum = sum + words.iter().map(|word| u64::from(u16::from_ne_bytes(*word))).sum::<u64>();
        match rest {
            [last] => Sum(sum + u64::from(u16::from_ne_bytes([*last, 0]))),
            _ => Sum(sum),
        }
    }

    /// Adds a payload, by the processor's fastest way to add.
    #[inline]
    pub(crate) fn payload(self, words: WordSum, bytes: &[u8]) -> Self {
        Sum(self.0 + words(bytes))
    }

    /// Adds one word given as a number.
    #[inline]
    pub(crate) fn word(self, value: u16) -> Self {
        Sum(self.0 + u64::from(u16::from_ne_bytes(value.to_be_bytes())))
    }

    /// The sum as it stands in a packet, not complemented, as `NEEDS_CSUM` requires of a pseudo-header.
    #[inline]
    pub(crate) fn folded(self) -> [u8; 2] {
        // A sum with its carry added is 0 only if both parts are, so that the two zeros of one's complement stay apart.
        let (sum, carry) = (self.0 as u32).overflowing_add((self.0 >> 32) as u32);
        let sum = sum + u32::from(carry);
        let (sum, carry) = (sum as u16).overflowing_add((sum >> 16) as u16);
        (sum + u16::from(carry)).to_ne_bytes()
    }

    /// The checksum: the complemented sum, as it stands in a packet.
    #[inline]
    pub(crate) fn finish(self) -> [u8; 2] {
        let [a, b] = self.folded();
        [!a, !b]
    }

    /// Whether a sum that took in the checksum field says that all is well.
    #[inline]
    pub(crate) fn is_valid(self) -> bool {
        self.folded() == [0xff, 0xff]
    }
}

/// A checksum that covered `old` and shall cover `new` (RFC 1624 equation 3). `odd`: the word starts at an
/// odd offset of the bytes that the checksum covers.
pub(crate) fn update(checksum: [u8; 2], old: u16, new: u16, odd: bool) -> [u8; 2] {
    let (old, new) = if odd { (old.swap_bytes(), new.swap_bytes()) } else { (old, new) };
    let [a, b] = checksum;
    Sum::default().bytes(&[!a, !b]).word(!old).word(new).finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive(bytes: &[u8]) -> [u8; 2] {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |b| u32::from(*b));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (!(sum as u16)).to_be_bytes()
    }

    /// The example of RFC 1071 §3.
    #[test]
    fn rfc_1071_example() {
        let sum = Sum::default().bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.folded(), [0xdd, 0xf2]);
    }

    proptest! {
        #[test]
        fn equals_the_naive_sum(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Sum::default().bytes(&bytes).finish(), naive(&bytes));
        }

        #[test]
        fn update_equals_a_new_sum(mut bytes in proptest::collection::vec(any::<u8>(), 8..60), at in 0usize..6, new: u16) {
            // Not all zero: RFC 1624 keeps apart the two zeros of one's complement in that case alone.
            bytes[7] |= 1;
            let before = Sum::default().bytes(&bytes).finish();
            let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            let after = update(before, old, new, at % 2 == 1);
            prop_assert_eq!(after, naive(&bytes));
        }
    }
}
