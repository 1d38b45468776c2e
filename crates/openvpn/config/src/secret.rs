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

    /// Reads the file form. The error names the fault, without a byte of the key.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        assert_eq!(format!("{:?}", Pem::new("abc")), "Pem(4 bytes)");
        assert_eq!(format!("{:?}", Secret::new("abc")), "Secret(..)");
    }
}
