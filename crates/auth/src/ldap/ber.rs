//! The encoding of LDAP's messages: BER with definite lengths and short tags (RFC 4511, 5.1).

/// INTEGER.
pub const INTEGER: u8 = 0x02;
/// BOOLEAN.
pub const BOOLEAN: u8 = 0x01;
/// OCTET STRING.
pub const OCTETS: u8 = 0x04;
/// ENUMERATED.
pub const ENUMERATED: u8 = 0x0a;
/// SEQUENCE.
pub const SEQUENCE: u8 = 0x30;

/// The longest element that is read, in bytes.
const MAX_LENGTH: usize = 1 << 20;

/// The error for bytes that are no such encoding, or no element of the expected kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// An element: its first byte, and its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    /// Class, form and number.
    pub tag: u8,
    /// Its content.
    pub content: &'a [u8],
}

/// An element with that content.
pub fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(content.len() + 6);
    encoded.push(tag);
    match u8::try_from(content.len()) {
        Ok(length @ 0..=0x7f) => encoded.push(length),
        _ => {
            encoded.push(0x84);
            encoded.extend(u32::try_from(content.len()).unwrap_or(u32::MAX).to_be_bytes());
        }
    }
    encoded.extend_from_slice(content);
    encoded
}

/// A number as INTEGER or ENUMERATED.
pub fn number(tag: u8, number: u32) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let zeros = bytes.iter().take(3).take_while(|byte| **byte == 0).count();
    let shortest = bytes.get(zeros..).unwrap_or_default();
    // Its first bit is the sign.
    let sign: &[u8] = if shortest.first().is_some_and(|byte| byte & 0x80 != 0) { &[0] } else { &[] };
    element(tag, &[sign, shortest].concat())
}

/// The first element and the bytes after it; `None` if the element is not complete yet.
///
/// # Errors
/// When the bytes are no element, or one that is too long.
pub fn split(input: &[u8]) -> Result<Option<(Element<'_>, &[u8])>, Malformed> {
    let [tag, first, rest @ ..] = input else { return Ok(None) };
    // LDAP has no longer tags.
    if tag & 0x1f == 0x1f {
        return Err(Malformed);
    }
    let (length, rest) = match *first {
        length @ 0..=0x7f => (usize::from(length), rest),
        longer => {
            let count = usize::from(longer & 0x7f);
            if !(1..=4).contains(&count) {
                return Err(Malformed);
            }
            let Some((digits, rest)) = rest.split_at_checked(count) else { return Ok(None) };
            (digits.iter().fold(0, |length, digit| (length << 8) | usize::from(*digit)), rest)
        }
    };
    if length > MAX_LENGTH {
        return Err(Malformed);
    }
    let split = rest.split_at_checked(length);
    Ok(split.map(|(content, rest)| (Element { tag: *tag, content }, rest)))
}

/// The elements in another element, or in a sequence of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a>(pub &'a [u8]);

impl<'a> Elements<'a> {
    /// The next one.
    ///
    /// # Errors
    /// When the rest is no element.
    pub fn take_any(&mut self) -> Result<Option<Element<'a>>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let (element, rest) = split(self.0)?.ok_or(Malformed)?;
        self.0 = rest;
        Ok(Some(element))
    }

    /// The content of the next one, which must have that tag.
    ///
    /// # Errors
    /// When it has another tag, or there is none.
    pub fn take(&mut self, tag: u8) -> Result<&'a [u8], Malformed> {
        match self.take_any()? {
            Some(element) if element.tag == tag => Ok(element.content),
            _ => Err(Malformed),
        }
    }

    /// The next one as a number that is not negative.
    ///
    /// # Errors
    /// When it is something else.
    pub fn take_number(&mut self, tag: u8) -> Result<u32, Malformed> {
        let content = self.take(tag)?;
        if !(1..=4).contains(&content.len()) || content.first().is_some_and(|byte| byte & 0x80 != 0) {
            return Err(Malformed);
        }
        Ok(content.iter().fold(0, |number, byte| (number << 8) | u32::from(*byte)))
    }

    /// The next one as text.
    ///
    /// # Errors
    /// When it is something else.
    pub fn take_text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.take(OCTETS)?).map_err(|_| Malformed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_short_and_long() {
        assert_eq!(element(OCTETS, b"ab"), [0x04, 2, b'a', b'b']);
        let long = element(OCTETS, &[7; 200]);
        assert_eq!(long[..6], [0x04, 0x84, 0, 0, 0, 200]);
        // Active Directory writes lengths so, OpenLDAP the shortest way.
        for encoded in [long, [&[0x04, 0x81, 200][..], &[7; 200]].concat()] {
            let found = split(&encoded).unwrap().unwrap();
            assert_eq!(found, (Element { tag: OCTETS, content: &[7; 200][..] }, &[][..]));
            assert_eq!(split(&encoded[..encoded.len() - 1]), Ok(None), "not all of it is there");
        }
    }

    #[test]
    fn numbers_have_a_sign() {
        for (value, expected) in [
            (0, &[2, 1, 0][..]),
            (3, &[2, 1, 3][..]),
            (127, &[2, 1, 127][..]),
            (128, &[2, 2, 0, 128][..]),
            (1024, &[2, 2, 4, 0][..]),
        ] {
            assert_eq!(number(INTEGER, value), expected);
            assert_eq!(Elements(expected).take_number(INTEGER), Ok(value));
        }
        for bad in [&[2, 1, 0x80][..], &[2, 0], &[2, 5, 0, 0, 0, 0, 1], &[10, 1, 1]] {
            assert_eq!(Elements(bad).take_number(INTEGER), Err(Malformed));
        }
    }

    #[test]
    fn what_is_not_ldaps_encoding() {
        for bad in
            [&[0x30, 0x80][..], &[0x1f, 1, 0], &[0x30, 0x85, 0, 0, 0, 0, 1], &[0x30, 0x84, 0, 0x20, 0, 0]]
        {
            assert_eq!(split(bad), Err(Malformed), "{bad:?}");
        }
        assert_eq!(Elements(&[4, 3, 1]).take(OCTETS), Err(Malformed), "it is cut short");
        assert_eq!(Elements(&[]).take(OCTETS), Err(Malformed));
    }

    proptest! {
        #[test]
        fn any_bytes_may_come(bytes: Vec<u8>) {
            let mut elements = Elements(&bytes);
            while let Ok(Some(_)) = elements.take_any() {}
        }

        #[test]
        fn what_was_encoded_is_read(content: Vec<u8>, more: Vec<u8>) {
            let encoded = [element(0x63, &content), more.clone()].concat();
            let (found, rest) = split(&encoded).unwrap().unwrap();
            prop_assert_eq!(found, Element { tag: 0x63, content: &content });
            prop_assert_eq!(rest, more.as_slice());
        }
    }
}
