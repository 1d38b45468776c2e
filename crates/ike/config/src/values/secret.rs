//! Secrets, and other bytes: text, `0x` and hexadecimal digits, or `0s` and base64.

use base64ct::{Base64, Encoding as _};
use zeroize::Zeroizing;

/// Bytes in hexadecimal digits, upper or lower case, with `:` between them or without.
///
/// # Errors
/// They are none; the text is not quoted.
pub(crate) fn hexadecimal(text: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    const WRONG: &str = "hexadecimal digits are needed, two for each byte";
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len() / 2));
    let mut digits = text.bytes().filter(|byte| *byte != b':');
    while let Some(high) = digits.next() {
        let low = digits.next().ok_or(WRONG)?;
        let (high, low) = digit(high).zip(digit(low)).ok_or(WRONG)?;
        bytes.push(high << 4 | low);
    }
    Ok(bytes)
}

/// The bytes of a secret.
///
/// # Errors
/// It is empty, or wrongly encoded; the text is not quoted.
pub(crate) fn secret(text: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    let bytes = match encoded(text) {
        Some(bytes) => bytes?,
        None => Zeroizing::new(text.as_bytes().to_vec()),
    };
    match bytes.is_empty() {
        true => Err("it is empty".to_owned()),
        false => Ok(bytes),
    }
}

/// The bytes that stand behind `0x` or `0s`. `None`: the text begins with neither.
///
/// # Errors
/// They are wrongly encoded; the text is not quoted.
pub(crate) fn encoded(text: &str) -> Option<Result<Zeroizing<Vec<u8>>, String>> {
    let after = |prefix: &str| {
        text.get(..2).filter(|start| start.eq_ignore_ascii_case(prefix)).and_then(|_| text.get(2..))
    };
    if let Some(digits) = after("0x") {
        return Some(hexadecimal(digits).map_err(|why| format!("behind `0x`: {why}")));
    }
    after("0s").map(base64)
}

fn base64(text: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    let mut padded = Zeroizing::new(String::with_capacity(text.len() + 3));
    padded.push_str(text);
    while !padded.len().is_multiple_of(4) {
        padded.push('=');
    }
    let mut bytes = Zeroizing::new(vec![0; padded.len() / 4 * 3]);
    let length = Base64::decode(padded.as_bytes(), &mut bytes).map(<[u8]>::len);
    let length = length.map_err(|_| "base64 is needed behind `0s`")?;
    bytes.truncate(length);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_text_hexadecimal_or_base64() {
        let bytes = |text| secret(text).map(|bytes| bytes.to_vec());
        assert_eq!(bytes("a b"), Ok(b"a b".to_vec()));
        assert_eq!(bytes("0x00FFa0"), Ok(vec![0, 255, 160]));
        assert_eq!(bytes("0sAP+g"), Ok(vec![0, 255, 160]));
        assert_eq!(bytes("0SAP8="), bytes("0sAP8"), "padding may be left out");
        for wrong in ["", "0x", "0x0", "0xgg", "0s!", "0s", "0sA"] {
            let why = secret(wrong).expect_err(wrong);
            assert!(wrong.len() < 4 || !why.contains(wrong), "{why}");
        }
        assert_eq!(hexadecimal("0a:0B").map(|bytes| bytes.to_vec()), Ok(vec![10, 11]));
    }
}
