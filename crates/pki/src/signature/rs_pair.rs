//! ECDSA signatures as two numbers of the curve's length, one after the other, as IKEv2's methods 9 to 11 (RFC 4754 section 7) and
//! PKCS #11 write them, and in DER (RFC 3279 section 2.2.3).

use crate::der_values::{Values, tag};

/// The signature in DER. `None`: the numbers have different lengths, or one is zero.
pub fn ecdsa_from_pair(pair: &[u8]) -> Option<Vec<u8>> {
    if pair.is_empty() || !pair.len().is_multiple_of(2) {
        return None;
    }
    let (r, s) = pair.split_at(pair.len() / 2);
    let body = [integer(r)?, integer(s)?].concat();
    element(tag::SEQUENCE, &body)
}

/// The two numbers of a signature in DER, of `length` bytes each. `None`: the signature is malformed, or a number is longer.
pub fn ecdsa_to_pair(der: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut numbers = Values::inside(tag::SEQUENCE, der)?;
    let (r, s) = (numbers.take(tag::INTEGER)?.content, numbers.take(tag::INTEGER)?.content);
    let mut pair = Vec::with_capacity(2 * length);
    for number in [r, s] {
        let digits = number.get(number.iter().position(|byte| *byte != 0)?..)?;
        pair.resize(pair.len() + length.checked_sub(digits.len())?, 0);
        pair.extend_from_slice(digits);
    }
    numbers.is_empty().then_some(pair)
}

/// A positive INTEGER.
fn integer(number: &[u8]) -> Option<Vec<u8>> {
    let first = number.iter().position(|byte| *byte != 0)?;
    let digits = number.get(first..)?;
    // A first bit that is set would make it negative.
    let sign: &[u8] = if digits.first()? >= &0x80 { &[0] } else { &[] };
    element(tag::INTEGER, &[sign, digits].concat())
}

/// An element of DER with so short a content as signatures have.
fn element(tag: u8, content: &[u8]) -> Option<Vec<u8>> {
    let length = u8::try_from(content.len()).ok()?;
    let mut der = vec![tag];
    if length >= 0x80 {
        der.push(0x81);
    }
    der.push(length);
    der.extend_from_slice(content);
    Some(der)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_numbers_are_a_signature() {
        let pair: [u8; 6] = [0, 0, 1, 0, 0x80, 2];
        let der = vec![0x30, 8, 2, 1, 1, 2, 3, 0, 0x80, 2];
        assert_eq!(ecdsa_from_pair(&pair), Some(der.clone()));
        assert_eq!(ecdsa_to_pair(&der, 3).as_deref(), Some(&pair[..]));
        assert_eq!(ecdsa_to_pair(&der, 2).as_deref(), Some(&[0, 1, 0x80, 2][..]));
        assert_eq!(ecdsa_to_pair(&der, 1), None, "a number is longer");
        let long = ecdsa_from_pair(&[0xff; 132]).unwrap();
        assert_eq!((long[..4].to_vec(), long.len()), (vec![0x30, 0x81, 138, 2], 141));
        assert_eq!(ecdsa_to_pair(&long, 66), Some(vec![0xff; 132]));
        let none: [&[u8]; 4] = [&[], &[1], &[0, 0], &[1, 0]];
        for pair in none {
            assert_eq!(ecdsa_from_pair(pair), None);
        }
        for der in [&[0x30, 3, 2, 1, 1][..], &[0x30, 6, 2, 1, 1, 2, 1, 0], &[0x30, 7, 2, 1, 1, 2, 1, 1, 5]] {
            assert_eq!(ecdsa_to_pair(der, 2), None, "{der:?}");
        }
    }
}
