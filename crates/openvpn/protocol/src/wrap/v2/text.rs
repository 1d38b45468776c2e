//! The text forms of tls-crypt-v2 keys: PEM blocks (OpenVPN tls_crypt.c).

use base64ct::{Base64, Encoding};
use zeroize::Zeroizing;

use super::{ClientKey, ClientKeyError, ServerKey};

/// A kind of key file.
struct Kind {
    /// The owner of the key.
    owner: &'static str,
    /// The label of the PEM block.
    label: &'static str,
}

/// The server's key, which wraps the clients' (`openvpn --genkey tls-crypt-v2-server`).
const SERVER: Kind = Kind { owner: "server", label: "OpenVPN tls-crypt-v2 server key" };
/// A client's own key, with that key wrapped for the server (`openvpn --genkey tls-crypt-v2-client`).
const CLIENT: Kind = Kind { owner: "client", label: "OpenVPN tls-crypt-v2 client key" };

impl ServerKey {
    /// Reads the file form, a PEM block.
    ///
    /// # Errors
    /// The fault, without a byte of the key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bytes = decode(text, &SERVER, &CLIENT)?;
        let length = bytes.len();
        let bytes = bytes.as_slice().try_into().map_err(|_| wrong_length(&SERVER, length))?;
        Ok(ServerKey::from_bytes(bytes))
    }

    /// The file form that [`ServerKey::parse`] and OpenVPN read.
    pub fn to_text(&self) -> Zeroizing<String> {
        encode(&SERVER, self.bytes.as_slice())
    }
}

impl ClientKey {
    /// Reads the file form, a PEM block.
    ///
    /// # Errors
    /// The fault, without a byte of the key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bytes = decode(text, &CLIENT, &SERVER)?;
        ClientKey::from_bytes(&bytes).map_err(|error| match error {
            ClientKeyError::Length(length) => wrong_length(&CLIENT, length),
            other => other.to_string(),
        })
    }

    /// The file form that [`ClientKey::parse`] and OpenVPN read.
    pub fn to_text(&self) -> Zeroizing<String> {
        encode(&CLIENT, &self.to_bytes())
    }
}

fn wrong_length(kind: &Kind, length: usize) -> String {
    format!("a tls-crypt-v2 {} key does not have {length} bytes", kind.owner)
}

/// The bytes in the PEM block of that kind. A block of the other kind is named in the error.
fn decode(text: &str, kind: &Kind, other: &Kind) -> Result<Zeroizing<Vec<u8>>, String> {
    let Kind { owner, label } = kind;
    let Some(mut lines) = block(text, label) else {
        return Err(match block(text, other.label) {
            Some(_) => format!(
                "this is a {}'s key and belongs into a {}'s file; a {owner} needs its own",
                other.owner, other.owner
            ),
            None => format!(
                "no `-----BEGIN {label}-----` line: a tls-crypt-v2 {owner} key is wanted (`openvpn --genkey \
                 tls-crypt-v2-{owner}` makes one)"
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
    bytes.map_err(|_| "the tls-crypt-v2 key is damaged: it is no Base64".to_owned())
}

fn encode(kind: &Kind, bytes: &[u8]) -> Zeroizing<String> {
    let (label, digits) = (kind.label, Zeroizing::new(Base64::encode_string(bytes)));
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

/// The lines after the beginning of a PEM block with that label.
fn block<'a>(text: &'a str, label: &str) -> Option<impl Iterator<Item = &'a str>> {
    let begin = format!("-----BEGIN {label}-----");
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| *line == begin)?;
    Some(lines)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::static_key::StaticKey;
    use crate::wrap::v2::{MAX_METADATA_LEN, Metadata};

    // The server key of OpenVPN's tests/unit_tests/openvpn/test_tls_crypt.c: bytes 0 to 127.
    const OPENVPN_KEY: &str = "-----BEGIN OpenVPN tls-crypt-v2 server key-----\n\
        AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v\n\
        MDEyMzQ1Njc4OTo7PD0+P0BBQkNERUZHSElKS0xNTk9QUVJTVFVWV1hZWltcXV5f\n\
        YGFiY2RlZmdoaWprbG1ub3BxcnN0dXZ3eHl6e3x9fn8=\n\
        -----END OpenVPN tls-crypt-v2 server key-----\n";

    #[test]
    fn reads_and_writes_what_openvpn_writes() {
        let key = ServerKey::parse(OPENVPN_KEY).unwrap();
        assert_eq!(key, ServerKey::from_bytes(&std::array::from_fn(|index| index as u8)));
        assert_eq!(*key.to_text(), OPENVPN_KEY);
        let crlf = format!("# made today\n{OPENVPN_KEY}").replace('\n', "\r\n");
        assert_eq!(ServerKey::parse(&crlf), Ok(key));
    }

    #[test]
    fn errors_name_the_fault() {
        let server = |text: &str| ServerKey::parse(text).unwrap_err();
        let client = |text: &str| ClientKey::parse(text).unwrap_err();
        assert!(client("").contains("--genkey tls-crypt-v2-client"));
        assert!(client(OPENVPN_KEY).contains("this is a server's key"));
        assert!(server(&OPENVPN_KEY.replace("-----END", "END")).contains("cut short"));
        assert!(server(&OPENVPN_KEY.replace("AAEC", "AA*C")).contains("no Base64"));
        assert!(server(&OPENVPN_KEY.replace("AAEC", "")).contains("125 bytes"));
        let short = client_key(&[0; 20]).to_bytes()[..300].to_vec();
        assert!(client(&encode(&CLIENT, &short)).contains("300 bytes"));
        let damaged = client_key(&[0; 20]).to_bytes()[..566].to_vec();
        assert!(client(&encode(&CLIENT, &damaged)).contains("is damaged"));
    }

    fn client_key(metadata: &[u8]) -> ClientKey {
        let server = ServerKey::parse(OPENVPN_KEY).unwrap();
        server.wrap(&StaticKey::from_bytes(&[7; 256]), &Metadata::User(metadata.to_vec())).unwrap()
    }

    proptest! {
        #[test]
        fn parse_undoes_print(metadata in prop::collection::vec(any::<u8>(), 0..MAX_METADATA_LEN)) {
            let key = client_key(&metadata);
            prop_assert_eq!(ClientKey::parse(&key.to_text()), Ok(key));
        }

        #[test]
        fn parse_never_panics(text in any::<String>()) {
            let _ = ClientKey::parse(&text);
            let framed = format!("-----BEGIN OpenVPN tls-crypt-v2 client key-----\n{text}\n\
                                  -----END OpenVPN tls-crypt-v2 client key-----");
            let _ = ClientKey::parse(&framed);
        }
    }
}
