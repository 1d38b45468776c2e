//! Marks in the timestamps of initiations: by them an end that is set to agree on post-quantum keys shows itself to
//! another, and says which of these keys it has. To all others they are nothing.
//!
//! Upstream cuts a timestamp's nanoseconds to multiples of 2^24 and compares timestamps as bytes, so that the low 24
//! bits are free. They are encrypted for the responder (whitepaper §5.4.2). boringtun and gotatun fill them with the
//! time: one in 2^23 of their initiations bears a given mark by chance, and then gets an offer, which they drop.

use subtle::ConstantTimeEq as _;

use crate::crypto::{self, Secret};
use crate::tai64n::Tai64n;

const LABEL: &[u8] = b"adit post-quantum mark v1";

/// The key of the mark that names no key: that of ends which have none in common, made of their static keys.
pub(crate) fn key_of_none(static_shared: &Secret) -> Secret {
    let [key] = crypto::kdf(static_shared.as_slice(), LABEL);
    key
}

/// 23 bits, so that the nanoseconds stay below 10^9, and not all of them zero, as upstream's are.
fn mark_of(key: &Secret, unmarked: &[u8; 9]) -> [u8; 3] {
    let [a, b, c, ..] = crypto::mac(key.as_slice(), &[LABEL, unmarked]);
    match [a & 0x7f, b, c] {
        [0, 0, 0] => [0, 0, 1],
        mark => mark,
    }
}

/// The timestamp with a mark in its low bits. It stays less than the next by the step.
pub(crate) fn put(key: &Secret, timestamp: Tai64n) -> Tai64n {
    let [a, b, c, d, e, f, g, h, i, ..] = timestamp.0;
    let [j, k, l] = mark_of(key, &[a, b, c, d, e, f, g, h, i]);
    Tai64n([a, b, c, d, e, f, g, h, i, j, k, l])
}

/// Whether a timestamp has the mark of that key.
pub(crate) fn has(key: &Secret, timestamp: Tai64n) -> bool {
    put(key, timestamp).0.ct_eq(&timestamp.0).into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zeroize::Zeroizing;

    use super::*;

    #[test]
    fn a_mark_names_its_key_and_keeps_the_order() {
        let keys = [1, 2].map(|byte| Zeroizing::new([byte; 32]));
        let mut last = Tai64n::of(Duration::new(1_800_000_000, 999_999_999));
        for _ in 0..1000 {
            let marked = put(&keys[0], last);
            assert!(has(&keys[0], marked) && !has(&keys[1], marked) && !has(&keys[0], last));
            assert!(last < marked && marked < last.next(), "{marked:?}");
            let nanos = u32::from_be_bytes(*marked.0.last_chunk().expect("12 bytes"));
            assert!(nanos < 1_000_000_000, "{nanos}");
            last = last.next();
        }
        assert_eq!(
            put(&keys[0], put(&keys[1], last)),
            put(&keys[0], last),
            "the low bits alone are the mark"
        );
    }
}
