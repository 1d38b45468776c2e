//! The encoding of a file, where it is not UTF-8.

/// The message about a file in UTF-16: the mistake, and the remedy.
pub const IS_UTF_16: &str = "this file is in UTF-16; save it as UTF-8";

/// Whether a file is in UTF-16, as editors of Windows save it: it begins with a mark of byte order, or each second byte of its
/// beginning is zero.
pub fn is_utf_16(text: &[u8]) -> bool {
    const LOOKED_AT: usize = 64;
    if text.starts_with(&[0xff, 0xfe]) || text.starts_with(&[0xfe, 0xff]) {
        return true;
    }
    let zeros = |odd: usize| {
        let mut bytes = text.iter().take(LOOKED_AT).skip(odd).step_by(2).peekable();
        bytes.peek().is_some() && bytes.all(|byte| *byte == 0)
    };
    text.len() > 3 && (zeros(0) || zeros(1)) && !text.iter().take(LOOKED_AT).all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf_16_is_known_with_and_without_a_mark() {
        let little: Vec<u8> = "[Interface]\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = "client\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert!(is_utf_16(&little) && is_utf_16(&big));
        assert!(is_utf_16(&[&[0xff, 0xfe][..], &little].concat()));
        for other in ["", "a", "client\n", "\u{feff}[Interface]\n", "\0\0\0\0"] {
            assert!(!is_utf_16(other.as_bytes()), "{other:?}");
        }
    }
}
