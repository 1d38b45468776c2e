//! The private key in PEM text, as OpenSSL finds it: the first block whose label ends with `PRIVATE KEY`, whatever stands around
//! it.

use base64ct::{Base64, Encoding};
use zeroize::Zeroizing;

/// A private key's block in PEM text.
pub(crate) struct KeyBlock<'a> {
    pub(crate) label: &'a str,
    /// The cipher and its IV, where the block is encrypted in OpenSSL's older form.
    pub(crate) dek_info: Option<&'a str>,
    /// The decoded body; `None` if its base64 is damaged.
    pub(crate) der: Option<Zeroizing<Vec<u8>>>,
}

impl<'a> KeyBlock<'a> {
    /// The first one in a text. Lines that are not UTF-8 are passed over.
    pub(crate) fn find(text: &'a [u8]) -> Option<Self> {
        let lines = text.split(|byte| matches!(byte, b'\n' | b'\r'));
        let mut lines = lines.filter_map(|line| std::str::from_utf8(line).ok()).map(str::trim);
        let label = lines.find_map(|line| {
            let label = line.strip_prefix("-----BEGIN ")?.strip_suffix("-----")?;
            label.ends_with("PRIVATE KEY").then_some(label)
        })?;
        let mut dek_info = None;
        let mut body = Zeroizing::new(String::with_capacity(text.len()));
        for line in lines.take_while(|line| !line.starts_with("-----END ")) {
            match line.split_once(':') {
                Some(("DEK-Info", value)) => dek_info = Some(value.trim()),
                Some(_) => {}
                None => body.push_str(line),
            }
        }
        let der = Base64::decode_vec(&body).ok().map(Zeroizing::new);
        Some(KeyBlock { label, dek_info, der })
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.dek_info.is_some() || self.label == "ENCRYPTED PRIVATE KEY"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_is_found_whatever_stands_around_it() {
        let text = b"Bag Attributes\n    friendlyName: M\xfcller\n-----BEGIN CERTIFICATE-----\r\nAAAA\r\n-----END CERTIFICATE-----\r\n\
            -----BEGIN EC PARAMETERS-----\nBggq\n-----END EC PARAMETERS-----\n-----BEGIN EC PRIVATE KEY-----\r\nAAEC\r\nAwQF\r\n\
            -----END EC PRIVATE KEY-----\n-----BEGIN ENCRYPTED PRIVATE KEY-----\n";
        let block = KeyBlock::find(text).unwrap();
        assert_eq!((block.label, block.is_encrypted()), ("EC PRIVATE KEY", false));
        assert_eq!(block.der.as_deref(), Some(&vec![0, 1, 2, 3, 4, 5]));
        assert!(KeyBlock::find(b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n").is_none());
        let damaged =
            KeyBlock::find(b"-----BEGIN PRIVATE KEY-----\nA?\n-----END PRIVATE KEY-----\n").unwrap();
        assert!(damaged.der.is_none());
    }
}
