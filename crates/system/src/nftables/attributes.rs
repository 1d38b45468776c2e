//! Attributes of netlink messages (linux/netlink.h `struct nlattr`). Numbers are in network byte order, as nftables has them.

/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;

/// A length and a kind, then the value, padded to a multiple of four.
pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

pub(super) fn nested(kind: u16, attributes: &[u8]) -> Vec<u8> {
    attribute(NESTED | kind, attributes)
}

pub(super) fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

/// A text with a zero byte behind it.
pub(super) fn text(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, &[value.as_bytes(), &[0]].concat())
}

/// The value of the first attribute of that kind.
pub(super) fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    while let [l0, l1, k0, k1, ..] = attributes {
        let (length, kind) =
            (usize::from(u16::from_ne_bytes([*l0, *l1])), u16::from_ne_bytes([*k0, *k1]) & !NESTED);
        let value = attributes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}
