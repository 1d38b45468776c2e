use std::fmt;

use base64ct::{Base64, Encoding as _};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Text that must not be shown, such as a password. Wiped when dropped, compared in constant time, never
/// shown.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The text, which will be wiped.
    pub fn new(text: &str) -> Self {
        Secret(Zeroizing::new(text.to_owned()))
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Certificates or a private key as PEM text, wiped from memory when dropped. Its `Debug` shows the length
/// only; two are compared in constant time.
#[derive(Clone)]
pub struct Pem(Zeroizing<String>);

impl Pem {
    /// The labels of PEM blocks that count as a certificate.
    pub(crate) const CERTIFICATE: [&'static str; 3] =
        ["CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"];

    /// Takes PEM text as it stands, with line ends made `\n`.
    pub(crate) fn new(text: &str) -> Self {
        let mut pem = Zeroizing::new(String::with_capacity(text.len() + 1));
        for line in text.lines() {
            pem.push_str(line.trim_end());
            pem.push('\n');
        }
        Pem(pem)
    }

    /// The PEM text. Secret if it holds a private key.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The labels of the PEM blocks in order (`-----BEGIN label-----`).
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.0.lines().filter_map(|line| label_after("-----BEGIN ", line))
    }

    /// How many certificates the text holds.
    pub fn certificates(&self) -> usize {
        self.labels().filter(|label| Self::CERTIFICATE.contains(label)).count()
    }

    /// The PEM blocks whose labels are chosen, without the text between blocks.
    pub(crate) fn blocks(&self, chosen: impl Fn(&str) -> bool) -> Self {
        let mut text = Zeroizing::new(String::with_capacity(self.0.len()));
        let mut is_chosen = false;
        for line in self.0.lines() {
            if let Some(label) = label_after("-----BEGIN ", line) {
                is_chosen = chosen(label);
            }
            if is_chosen {
                text.push_str(line);
                text.push('\n');
            }
            if label_after("-----END ", line).is_some() {
                is_chosen = false;
            }
        }
        Pem(text)
    }

    /// This text followed by another.
    pub(crate) fn join(mut self, other: &Pem) -> Self {
        // Reserve by copying: growing in place could leave a copy behind in freed memory.
        let mut joined = Zeroizing::new(String::with_capacity(self.0.len() + other.0.len()));
        joined.push_str(&self.0);
        joined.push_str(&other.0);
        self.0 = joined;
        self
    }
}

/// The label in the first or last line of a PEM block.
fn label_after<'a>(start: &str, line: &'a str) -> Option<&'a str> {
    line.trim().strip_prefix(start)?.strip_suffix("-----")
}

impl PartialEq for Pem {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Pem {}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pem({} bytes)", self.0.len())
    }
}

/// An OpenVPN static key (`openvpn --genkey secret`): 2,048 bits for `tls-auth` or `tls-crypt`. Wiped when
/// dropped, compared in constant time, never shown.
#[derive(Clone)]
pub struct StaticKey(Zeroizing<[u8; 256]>);

/// A key of `auth-gen-token-secret` (`openvpn --genkey auth-token`). Wiped when dropped, compared in constant
/// time, never shown.
#[derive(Clone)]
pub struct TokenSecret(Zeroizing<[u8; 128]>);

const TOKEN_BEGIN: &str = "-----BEGIN OpenVPN auth-token server key-----";
const TOKEN_END: &str = "-----END OpenVPN auth-token server key-----";

impl TokenSecret {
    /// A key from its bytes.
    pub fn from_bytes(bytes: [u8; 128]) -> Self {
        TokenSecret(Zeroizing::new(bytes))
    }

    /// The part that OpenVPN makes tokens with (auth_token.c `auth_token_init_secret`: the HMAC key of its
    /// `struct key`, as long as SHA-256's output).
    pub fn hmac_key(&self) -> [u8; 32] {
        let mut key = [0; 32];
        key.iter_mut().zip(self.0.iter().skip(64)).for_each(|(to, from)| *to = *from);
        key
    }

    /// Reads the file form. The error says what is wrong, without a byte of the key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().map(str::trim).skip_while(|line| *line != TOKEN_BEGIN).skip(1);
        let mut body = Zeroizing::new(String::with_capacity(text.len()));
        lines.take_while(|line| *line != TOKEN_END).for_each(|line| body.push_str(line));
        if body.is_empty() {
            return Err(format!(
                "no `{TOKEN_BEGIN}` line: `openvpn --genkey auth-token FILE` makes such a key"
            ));
        }
        let mut key = TokenSecret(Zeroizing::new([0; 128]));
        match Base64::decode(body.as_bytes(), key.0.as_mut_slice()) {
            Ok(bytes) if bytes.len() == 128 => Ok(key),
            _ => Err("the token secret is not 128 bytes in base64".into()),
        }
    }

    /// The file form that [`TokenSecret::parse`] and OpenVPN read.
    pub fn to_text(&self) -> Zeroizing<String> {
        let body = Zeroizing::new(Base64::encode_string(self.0.as_slice()));
        let mut text = Zeroizing::new(String::with_capacity(400));
        text.push_str(TOKEN_BEGIN);
        text.push('\n');
        for line in body.as_bytes().chunks(64) {
            text.push_str(std::str::from_utf8(line).unwrap_or_default());
            text.push('\n');
        }
        text.push_str(TOKEN_END);
        text.push('\n');
        text
    }
}

impl PartialEq for TokenSecret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_slice().ct_eq(other.0.as_slice()).into()
    }
}

impl Eq for TokenSecret {}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(..)")
    }
}

const BEGIN: &str = "-----BEGIN OpenVPN Static key V1-----";
const END: &str = "-----END OpenVPN Static key V1-----";

impl StaticKey {
    /// A key from its bytes.
    pub fn from_bytes(bytes: [u8; 256]) -> Self {
        StaticKey(Zeroizing::new(bytes))
    }

    /// The key's bytes.
    pub fn bytes(&self) -> &[u8; 256] {
        &self.0
    }

    /// Reads the file form: 512 hexadecimal digits between a BEGIN and an END line, anything around them. Among them,
    /// lines that start with `#` or `;` are comments.
    ///
    /// # Errors
    /// Says what is wrong, without a digit of the key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().map(str::trim).skip_while(|line| *line != BEGIN);
        if lines.next().is_none() {
            return Err(format!(
                "no `{BEGIN}` line: an OpenVPN static key is wanted (`openvpn --genkey secret FILE` makes one)"
            ));
        }
        let mut key = Zeroizing::new([0u8; 256]);
        let mut digits = 0usize;
        let mut ended = false;
        for line in lines {
            if line == END {
                ended = true;
                break;
            }
            if line.starts_with(['#', ';']) {
                continue;
            }
            for digit in line.chars().filter(|c| !c.is_ascii_whitespace()) {
                let Some(value) = digit.to_digit(16) else {
                    return Err("the static key holds something that is no hexadecimal digit".into());
                };
                let Some(byte) = key.get_mut(digits / 2) else {
                    return Err("the static key is longer than 256 bytes".into());
                };
                *byte = (*byte << 4) | value as u8;
                digits += 1;
            }
        }
        if !ended {
            return Err(format!("the static key has no `{END}` line: the file was cut short"));
        }
        if digits != 512 {
            return Err(format!("the static key is {} bytes long, 256 are wanted", digits / 2));
        }
        Ok(StaticKey(key))
    }

    /// The file form that [`StaticKey::parse`] and OpenVPN read.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(700));
        text.push_str(BEGIN);
        text.push('\n');
        for line in self.0.chunks(16) {
            for byte in line {
                for nibble in [byte >> 4, byte & 15] {
                    text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
                }
            }
            text.push('\n');
        }
        text.push_str(END);
        text.push('\n');
        text
    }
}

impl PartialEq for StaticKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_slice().ct_eq(other.0.as_slice()).into()
    }
}

impl Eq for StaticKey {}

impl fmt::Debug for StaticKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StaticKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> StaticKey {
        let mut bytes = [0; 256];
        bytes.iter_mut().zip(0u8..=255).for_each(|(byte, value)| *byte = value);
        StaticKey::from_bytes(bytes)
    }

    #[test]
    fn static_key_round_trip() {
        let text = key().to_text();
        assert_eq!(text.lines().nth(1), Some("000102030405060708090a0b0c0d0e0f"));
        assert_eq!(StaticKey::parse(&text), Ok(key()));
        assert_eq!(StaticKey::parse(&format!("#\n# 2048 bit\n#\n{}", text.replace('\n', "\r\n"))), Ok(key()));
    }

    #[test]
    fn bad_static_keys_are_told_apart() {
        let text = key().to_text().to_string();
        for (bad, word) in [
            (String::new(), "BEGIN"),
            (text.replace(END, ""), "cut short"),
            (text.replacen("00", "0", 1), "255 bytes"),
            (text.replacen("00", "000000", 1), "longer"),
            (text.replacen("00", "0g", 1), "hexadecimal"),
        ] {
            let error = StaticKey::parse(&bad).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    /// The key of OpenVPN's tests/unit_tests/openvpn/test_pkt.c, as a configuration holds it.
    const TEST_PKT_KEY: &str = "<tls-auth>
-----BEGIN OpenVPN Static key V1-----
37268ea8f95d7f71f9fb8fc03770c460
daf714a483d815c013ce0a537efc18f2
8f4f172669d9e6a413bac6741d8ea054
00f49b7fd6326470f23798c606bf53d4
de63ebc64ec59d57ce5d04d5b62e68b5
3ca6e5354351097fa370446c4d269f18
7bb6ae54af2dc70ff7317fe2f8754b82
82aad4202f9fa42c8640245d883e2c54
a0c1c489a036cf3a8964d8d289c1583b
9447c262b1da5fd167a5d27bd5ac5143
17bc2343a31a2efc38dd920d910375f5
1c2e27f3afd36c49269da079f7ce466e
bb0f9ad13e9bbb4665974e6bc24b513c
5700393bf4a3e7f967e2f384069ac8a8
e78b18b15604993fd16515cce9c0f3e4
2b4126b999005ade802797b0eeb8b9e6
-----END OpenVPN Static key V1-----
</tls-auth>
";

    #[test]
    fn static_keys_of_openvpn() {
        let key = StaticKey::parse(TEST_PKT_KEY).unwrap();
        assert_eq!(key.bytes()[..4], [0x37, 0x26, 0x8e, 0xa8]);
        assert_eq!(key.bytes()[252..], [0xee, 0xb8, 0xb9, 0xe6]);
        assert_eq!(*key.to_text(), TEST_PKT_KEY[11..TEST_PKT_KEY.len() - 12]);
        let text = TEST_PKT_KEY.replace("8f4f", "# half way\n; here\n 8f4f").replace('\n', "\r\n");
        assert_eq!(StaticKey::parse(&text), Ok(key));
        assert!(StaticKey::parse("deadbeef").is_err());
        assert!(StaticKey::parse(&TEST_PKT_KEY.replace("END", "FIN")).is_err());
    }

    proptest! {
        #[test]
        fn parse_undoes_print(bytes in prop::collection::vec(any::<u8>(), 256)) {
            let key = StaticKey::from_bytes(bytes.try_into().unwrap());
            prop_assert_eq!(StaticKey::parse(&key.to_text()), Ok(key));
        }

        #[test]
        fn parse_never_panics(text in any::<String>()) {
            let _ = StaticKey::parse(&text);
            let _ = StaticKey::parse(&format!("{BEGIN}\n{text}\n{END}"));
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        assert_eq!(format!("{:?}", key()), "StaticKey(..)");
        assert_eq!(format!("{:?}", Pem::new("abc")), "Pem(4 bytes)");
    }
}
