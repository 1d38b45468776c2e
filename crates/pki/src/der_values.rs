//! The values of DER (X.690) that stand one after another in a structure.

use x509_parser::der_parser::asn1_rs::{Any, FromDer as _};

/// The first byte of a value: class, form and number of its tag.
pub(crate) mod tag {
    pub(crate) const BOOLEAN: u8 = 0x01;
    pub(crate) const INTEGER: u8 = 0x02;
    pub(crate) const BIT_STRING: u8 = 0x03;
    pub(crate) const OCTET_STRING: u8 = 0x04;
    pub(crate) const NULL: u8 = 0x05;
    pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
    pub(crate) const ENUMERATED: u8 = 0x0a;
    pub(crate) const UTC_TIME: u8 = 0x17;
    pub(crate) const GENERALIZED_TIME: u8 = 0x18;
    pub(crate) const SEQUENCE: u8 = 0x30;
    /// `[0]`, constructed.
    pub(crate) const CONTEXT_0: u8 = 0xa0;
    /// `[1]`, constructed.
    pub(crate) const CONTEXT_1: u8 = 0xa1;
    /// `[2]`, constructed.
    pub(crate) const CONTEXT_2: u8 = 0xa2;
    /// `[3]`, constructed.
    pub(crate) const CONTEXT_3: u8 = 0xa3;
    /// `[4]`, constructed.
    pub(crate) const CONTEXT_4: u8 = 0xa4;
}

/// The values that have not been read yet.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a>(&'a [u8]);

/// One value.
#[derive(Clone, Copy)]
pub(crate) struct Value<'a> {
    /// The first byte of its tag.
    pub(crate) tag: u8,
    /// The bytes between its length and its end.
    pub(crate) content: &'a [u8],
    /// All of it.
    pub(crate) whole: &'a [u8],
}

impl<'a> Values<'a> {
    /// The values in the content of a structure.
    pub(crate) fn new(content: &'a [u8]) -> Self {
        Values(content)
    }

    /// The content of the structure with this tag that is all of `der`.
    pub(crate) fn inside(tag: u8, der: &'a [u8]) -> Option<Self> {
        let mut outer = Values(der);
        let inside = outer.take(tag)?;
        outer.is_empty().then_some(Values(inside.content))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next value; `None` at the end, and when it is damaged.
    pub(crate) fn next(&mut self) -> Option<Value<'a>> {
        let (rest, any) = Any::from_der(self.0).ok()?;
        let whole = self.0.get(..self.0.len() - rest.len())?;
        self.0 = rest;
        Some(Value { tag: *whole.first()?, content: any.data, whole })
    }

    /// The next value if it has this tag. Otherwise it stays the next one.
    pub(crate) fn take(&mut self, tag: u8) -> Option<Value<'a>> {
        if self.0.first() == Some(&tag) { self.next() } else { None }
    }
}

/// The dotted form of an object identifier's content.
pub(crate) fn dotted(content: &[u8]) -> String {
    use x509_parser::der_parser::asn1_rs::Oid;
    Oid::new(content.into()).to_id_string()
}

/// The length of a number in bits, its bytes in the order of the network.
pub(crate) fn bits(number: &[u8]) -> usize {
    let first = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
    let digits = number.get(first..).unwrap_or_default();
    match digits.first() {
        None => 0,
        Some(byte) => digits.len() * 8 - byte.leading_zeros() as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_one_by_one() {
        let mut values = Values::inside(tag::SEQUENCE, &[0x30, 5, 2, 1, 7, 5, 0]).unwrap();
        assert!(values.take(tag::BOOLEAN).is_none());
        assert_eq!(
            values.take(tag::INTEGER).map(|it| (it.content, it.whole)),
            Some((&[7][..], &[2, 1, 7][..]))
        );
        assert_eq!(values.next().map(|it| it.tag), Some(5));
        assert!(values.is_empty() && values.next().is_none());
        for damaged in [&[0x30, 5, 2][..], &[0x30, 0x80, 0, 0], &[0x30, 0, 0], &[]] {
            assert!(Values::inside(tag::SEQUENCE, damaged).is_none(), "{damaged:?}");
        }
    }

    #[test]
    fn object_identifiers_are_dotted() {
        assert_eq!(dotted(&[0x55, 4, 3]), "2.5.4.3");
    }

    #[test]
    fn bits_are_counted_from_the_first_one() {
        let cases: [(&[u8], usize); 5] =
            [(&[], 0), (&[0, 0], 0), (&[0, 0x80, 0], 16), (&[0x7f, 0xff], 15), (&[1], 1)];
        for (number, length) in cases {
            assert_eq!(bits(number), length, "{number:?}");
        }
    }
}
