//! The text form of tls-crypt-v2 keys.

use std::fmt;

use base64ct::{Base64, Encoding};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Whose key a [`TlsCryptV2Key`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOwner {
    /// The server's, which wraps the clients' (`openvpn --genkey tls-crypt-v2-server`).
    Server,
    /// A client's own, with the same wrapped for the server (`openvpn --genkey tls-crypt-v2-client`).
    Client,
}

impl KeyOwner {
    /// The label of the PEM block (OpenVPN tls_crypt.c).
    const fn label(self) -> &'static str {
        match self {
            KeyOwner::Server => "OpenVPN tls-crypt-v2 server key",
            KeyOwner::Client => "OpenVPN tls-crypt-v2 client key",
        }
    }

    /// How many bytes such a key may have: a client's is 256, and 290 to 1024 wrapped.
    const fn lengths(self) -> std::ops::RangeInclusive<usize> {
        match self {
            KeyOwner::Server => 128..=128,
            KeyOwner::Client => 546..=1280,
        }
    }

    const fn other(self) -> Self {
        match self {
            KeyOwner::Server => KeyOwner::Client,
            KeyOwner::Client => KeyOwner::Server,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            KeyOwner::Server => "server",
            KeyOwner::Client => "client",
        }
    }
}

/// A tls-crypt-v2 key. Wiped when dropped, compared in constant time, never shown.
#[derive(Clone)]
pub struct TlsCryptV2Key {
    owner: KeyOwner,
    bytes: Zeroizing<Vec<u8>>,
}

impl TlsCryptV2Key {
    /// A key from its bytes; `None` if such a key has another length.
    pub fn from_bytes(owner: KeyOwner, bytes: &[u8]) -> Option<Self> {
        let fits = owner.lengths().contains(&bytes.len());
        fits.then(|| TlsCryptV2Key { owner, bytes: Zeroizing::new(bytes.to_vec()) })
    }

    /// The key's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads the file form, a PEM block. The error says what is wrong, without a byte of the key.
    pub fn parse(text: &str, owner: KeyOwner) -> Result<Self, String> {
        let (label, name) = (owner.label(), owner.name());
        let Some(mut lines) = block(text, label) else {
            let other = owner.other();
            return Err(match block(text, other.label()) {
                Some(_) => format!(
                    "this is a {}'s key and belongs into a {}'s file; a {name} needs its own",
                    other.name(),
                    other.name()
                ),
                None => format!(
                    "no `-----BEGIN {label}-----` line: a tls-crypt-v2 {name} key is wanted (`openvpn --genkey \
                     tls-crypt-v2-{name}` makes one)"
                ),
            });
        };
        let end = format!("-----END {label}-----");
        let mut digits = Zeroizing::new(String::with_capacity(text.len()));
        loop {
            match lines.next() {
                None => return Err(format!("the key has no `{end}` line: the file was cut short")),
                Some(line) if line == end => break,
                Some(line) => digits.push_str(line),
            }
        }
        let bytes = Base64::decode_vec(&digits).map(Zeroizing::new);
        let bytes = bytes.map_err(|_| "the tls-crypt-v2 key is damaged: it is no Base64".to_owned())?;
        Self::from_bytes(owner, &bytes)
            .ok_or_else(|| format!("a tls-crypt-v2 {name} key does not have {} bytes", bytes.len()))
    }

    /// The file form that [`TlsCryptV2Key::parse`] and OpenVPN read.
    pub fn to_text(&self) -> Zeroizing<String> {
        let (label, digits) = (self.owner.label(), Zeroizing::new(Base64::encode_string(&self.bytes)));
        let mut text = Zeroizing::new(String::with_capacity(2 * digits.len() + 128));
        text.push_str("-----BEGIN ");
        text.push_str(label);
        text.push_str("-----\n");
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && index % 64 == 0 {
                text.push('\n');
            }
            text.push(digit);
        }
        text.push_str("\n-----END ");
        text.push_str(label);
        text.push_str("-----\n");
        text
    }
}

/// The lines after the beginning of a PEM block with that label.
fn block<'a>(text: &'a str, label: &str) -> Option<impl Iterator<Item = &'a str>> {
    let begin = format!("-----BEGIN {label}-----");
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| *line == begin)?;
    Some(lines)
}

impl PartialEq for TlsCryptV2Key {
    fn eq(&self, other: &Self) -> bool {
        self.owner == other.owner && bool::from(self.bytes.ct_eq(&other.bytes))
    }
}

impl Eq for TlsCryptV2Key {}

impl fmt::Debug for TlsCryptV2Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsCryptV2Key({:?}, ..)", self.owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // The server key of OpenVPN's tests/unit_tests/openvpn/test_tls_crypt.c: bytes 0 to 127.
    const SERVER: &str = "-----BEGIN OpenVPN tls-crypt-v2 server key-----\n\
        AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v\n\
        MDEyMzQ1Njc4OTo7PD0+P0BBQkNERUZHSElKS0xNTk9QUVJTVFVWV1hZWltcXV5f\n\
        YGFiY2RlZmdoaWprbG1ub3BxcnN0dXZ3eHl6e3x9fn8=\n\
        -----END OpenVPN tls-crypt-v2 server key-----\n";

    #[test]
    fn reads_and_writes_what_openvpn_writes() {
        let key = TlsCryptV2Key::parse(SERVER, KeyOwner::Server).unwrap();
        assert_eq!(key.bytes(), (0..128).collect::<Vec<u8>>());
        assert_eq!(*key.to_text(), SERVER);
        let crlf = format!("# made today\n{SERVER}").replace('\n', "\r\n");
        assert_eq!(TlsCryptV2Key::parse(&crlf, KeyOwner::Server), Ok(key.clone()));
        assert_eq!(format!("{key:?}"), "TlsCryptV2Key(Server, ..)");
    }

    #[test]
    fn errors_name_the_fault() {
        let bad = |text: &str, owner| TlsCryptV2Key::parse(text, owner).unwrap_err();
        assert!(bad("", KeyOwner::Client).contains("--genkey tls-crypt-v2-client"));
        assert!(bad(SERVER, KeyOwner::Client).contains("this is a server's key"));
        assert!(bad(&SERVER.replace("-----END", "END"), KeyOwner::Server).contains("cut short"));
        assert!(bad(&SERVER.replace("AAEC", "AA*C"), KeyOwner::Server).contains("no Base64"));
        assert!(bad(&SERVER.replace("AAEC", ""), KeyOwner::Server).contains("125 bytes"));
    }

    proptest! {
        #[test]
        fn parse_undoes_print(bytes in prop::collection::vec(any::<u8>(), 546..=1280)) {
            let key = TlsCryptV2Key::from_bytes(KeyOwner::Client, &bytes).unwrap();
            prop_assert_eq!(TlsCryptV2Key::parse(&key.to_text(), KeyOwner::Client), Ok(key));
        }

        #[test]
        fn parse_never_panics(text in any::<String>()) {
            let _ = TlsCryptV2Key::parse(&text, KeyOwner::Client);
            let framed = format!("-----BEGIN OpenVPN tls-crypt-v2 client key-----\n{text}\n\
                                  -----END OpenVPN tls-crypt-v2 client key-----");
            let _ = TlsCryptV2Key::parse(&framed, KeyOwner::Client);
        }
    }
}
