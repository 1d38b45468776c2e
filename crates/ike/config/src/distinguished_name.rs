//! Distinguished names (X.501): from text to DER, and their comparison.

use adit_core::escaped;

/// Most attributes of a name.
const MOST_ATTRIBUTES: usize = 20;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;

/// A kind of attribute.
struct Kind {
    /// Its names, in any case.
    names: &'static [&'static str],
    /// Its object identifier, as DER has it.
    oid: &'static [u8],
    /// Its values are IA5 strings (RFC 5280, appendix A.1).
    is_ia5: bool,
}

const fn directory(names: &'static [&'static str], oid: &'static [u8]) -> Kind {
    Kind { names, oid, is_ia5: false }
}

const fn ia5(names: &'static [&'static str], oid: &'static [u8]) -> Kind {
    Kind { names, oid, is_ia5: true }
}

/// The kinds of attributes by the names that strongSwan knows (src/libstrongswan/utils/identification.c).
const KINDS: [Kind; 26] = [
    directory(&["CN"], b"\x55\x04\x03"),
    directory(&["SN"], b"\x55\x04\x04"),
    directory(&["serialNumber"], b"\x55\x04\x05"),
    directory(&["C"], b"\x55\x04\x06"),
    directory(&["L"], b"\x55\x04\x07"),
    directory(&["ST"], b"\x55\x04\x08"),
    directory(&["STREET"], b"\x55\x04\x09"),
    directory(&["O"], b"\x55\x04\x0a"),
    directory(&["OU"], b"\x55\x04\x0b"),
    directory(&["T"], b"\x55\x04\x0c"),
    directory(&["D"], b"\x55\x04\x0d"),
    directory(&["postalAddress"], b"\x55\x04\x10"),
    directory(&["postalCode"], b"\x55\x04\x11"),
    directory(&["N"], b"\x55\x04\x29"),
    directory(&["G"], b"\x55\x04\x2a"),
    directory(&["I"], b"\x55\x04\x2b"),
    directory(&["ID"], b"\x55\x04\x2d"),
    directory(&["dnQualifier"], b"\x55\x04\x2e"),
    directory(&["dmdName"], b"\x55\x04\x36"),
    directory(&["pseudonym"], b"\x55\x04\x41"),
    directory(&["organizationIdentifier"], b"\x55\x04\x61"),
    directory(&["UID"], b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x01"),
    directory(&["EN", "employeeNumber"], b"\x60\x86\x48\x01\x86\xf8\x42\x03\x01\x03"),
    ia5(&["DC"], b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x19"),
    ia5(&["E", "Email", "emailAddress"], b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x01"),
    ia5(&["UN", "unstructuredName"], b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x02"),
];

/// A name in DER. Its attributes have commas between them, or slashes if the text begins with one, and stand in the order of the text.
///
/// # Errors
/// An attribute is not known, or has not the form `NAME=VALUE`.
pub(crate) fn encode(text: &str) -> Result<Vec<u8>, String> {
    let (separator, attributes) = match text.strip_prefix('/') {
        Some(rest) => ('/', rest),
        None => (',', text),
    };
    let attributes: Vec<&str> =
        attributes.split(separator).map(str::trim).filter(|part| !part.is_empty()).collect();
    if !(1..=MOST_ATTRIBUTES).contains(&attributes.len()) {
        return Err(format!("a name has 1 to {MOST_ATTRIBUTES} attributes, not {}", attributes.len()));
    }
    let sets: Result<Vec<Vec<u8>>, String> = attributes.into_iter().map(attribute).collect();
    Ok(element(SEQUENCE, &sets?.concat()))
}

fn attribute(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || {
        format!(
            "`{}` is no attribute of a name, such as C=, O=, OU=, CN= or E=; where a value has a comma, write the name with \
             slashes: /C=…/O=…/CN=…",
            escaped(text)
        )
    };
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let (name, value) = (name.trim(), value.trim());
    let kind = KINDS.iter().find(|kind| kind.names.iter().any(|known| known.eq_ignore_ascii_case(name)));
    let kind = kind.ok_or_else(wrong)?;
    let tag = match value {
        _ if kind.is_ia5 && value.is_ascii() => IA5_STRING,
        _ if !kind.is_ia5 && value.bytes().all(is_printable) => PRINTABLE_STRING,
        _ => UTF8_STRING,
    };
    let pair = [element(OBJECT_IDENTIFIER, kind.oid), element(tag, value.as_bytes())].concat();
    Ok(element(SET, &element(SEQUENCE, &pair)))
}

/// Whether a byte may stand in a PrintableString (X.680, section 41.4). Patterns have a `*`, which may not.
fn is_printable(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&byte)
}

/// A value of DER.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut bytes = vec![tag];
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => bytes.push(short),
        _ => {
            let long: Vec<u8> = length.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
            bytes.push(0x80 | u8::try_from(long.len()).unwrap_or(8));
            bytes.extend(long);
        }
    }
    bytes.extend(content);
    bytes
}

/// The next value of DER with that tag, which is passed over.
fn take<'a>(from: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (found, content, rest) = next(from)?;
    *from = rest;
    (found == tag).then_some(content)
}

/// The tag and the content of the first value of DER, and what is behind it.
fn next(from: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = from.split_first_chunk::<2>()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// An attribute: the content of its object identifier and of its value.
type Attribute<'a> = (&'a [u8], &'a [u8]);

/// The attributes of a name. `None`: it is no name, or has several attributes in one place.
fn attributes(mut name: &[u8]) -> Option<Vec<Attribute<'_>>> {
    let mut sets = take(&mut name, SEQUENCE)?;
    let mut attributes = Vec::new();
    while !sets.is_empty() {
        let mut set = take(&mut sets, SET)?;
        let mut pair = take(&mut set, SEQUENCE)?;
        let kind = take(&mut pair, OBJECT_IDENTIFIER)?;
        let (_, value, rest) = next(pair)?;
        if !rest.is_empty() || !set.is_empty() {
            return None;
        }
        attributes.push((kind, value));
    }
    name.is_empty().then_some(attributes)
}

/// Whether a name has a `*` as a value.
pub(crate) fn is_pattern(name: &[u8]) -> bool {
    attributes(name).is_some_and(|all| all.iter().any(|(_, value)| *value == b"*"))
}

/// Whether a name has the attributes of a pattern, in order; `*` matches any value. Letters match in upper and lower case, and values
/// whatever the types of their strings are (RFC 5280 section 7.1).
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if pattern == name {
        return true;
    }
    let (Some(pattern), Some(name)) = (attributes(pattern), attributes(name)) else { return false };
    let is_one = |(wanted, found): (&Attribute<'_>, &Attribute<'_>)| {
        wanted.0 == found.0 && (wanted.1 == b"*" || wanted.1.eq_ignore_ascii_case(found.1))
    };
    pattern.len() == name.len() && pattern.iter().zip(&name).all(is_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_as_openssl_encodes_them() {
        // openssl req -subj "/C=CH/O=strongSwan/CN=moon" -utf8 -nameopt: the subject of that request, with PrintableStrings.
        let expected = b"\x30\x31\x31\x0b\x30\x09\x06\x03\x55\x04\x06\x13\x02CH\x31\x13\x30\x11\x06\x03\x55\x04\x0a\x13\x0astrongSwan\
                         \x31\x0d\x30\x0b\x06\x03\x55\x04\x03\x13\x04moon";
        for text in
            ["C=CH, O=strongSwan, CN=moon", "/C=CH/O=strongSwan/CN=moon", " c = CH ,o= strongSwan,cn=moon,"]
        {
            assert_eq!(encode(text).as_deref(), Ok(expected.as_slice()), "{text}");
        }
        let comma = encode("/O=Example, Inc./E=a@b").expect("a name");
        let found = attributes(&comma).expect("a name");
        assert_eq!(
            found.iter().map(|(_, value)| *value).collect::<Vec<_>>(),
            [b"Example, Inc.".as_slice(), b"a@b"]
        );
        let long = encode(&format!("O={}", "é".repeat(100))).expect("a name");
        assert!(
            attributes(&long).is_some_and(|all| all[0].1.len() == 200),
            "a length of more than 127 bytes"
        );
    }

    #[test]
    fn wrong_names_are_refused() {
        for text in ["O=Example, Inc.", "X=1", "=1", "", "/", ","] {
            assert!(encode(text).is_err(), "{text}");
        }
        assert!(encode(&"CN=a,".repeat(21)).is_err());
    }

    #[test]
    fn names_match_whatever_their_letters_and_types_of_strings_are() {
        let name = |text: &str| encode(text).expect(text);
        let found = name("C=CH, O=strongSwan, CN=Moon*");
        assert!(matches(&name("C=ch, O=STRONGSWAN, CN=moon*"), &found));
        assert!(matches(&name("C=CH, O=strongSwan, CN=*"), &found) && is_pattern(&name("C=CH, CN=*")));
        for other in [
            "C=CH, CN=*",
            "C=CH, CN=*, O=strongSwan",
            "C=CH, O=other, CN=*",
            "C=CH, O=strongSwan, OU=x, CN=*",
        ] {
            assert!(!matches(&name(other), &found), "{other}");
        }
        let (mut printable, utf8) = (name("CN=moon"), element(UTF8_STRING, b"moon"));
        let end = printable.len() - utf8.len();
        printable.splice(end.., utf8);
        assert!(matches(&name("CN=moon"), &printable));
        assert!(!matches(&name("CN=moon"), b"\x30\x03\x31\x01\x30") && !matches(&name("CN=moon"), b""));
    }
}
