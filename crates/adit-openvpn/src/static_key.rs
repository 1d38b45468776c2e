//! OpenVPN static keys: 2,048 bits in a text armour of their own, used by tls-auth and tls-crypt.

use std::fmt;

use subtle::ConstantTimeEq;
use thiserror::Error;
use zeroize::Zeroizing;

/// Length of a static key in bytes.
pub const STATIC_KEY_LEN: usize = 256;

const HEAD: &str = "-----BEGIN OpenVPN Static key V1-----";
const FOOT: &str = "-----END OpenVPN Static key V1-----";

/// 256 secret bytes in two halves, each a 64-byte cipher slot and a 64-byte HMAC slot (OpenVPN crypto.h,
/// `struct key2`). Which half serves which direction depends on the use.
#[derive(Clone)]
pub struct StaticKey(Box<Zeroizing<[u8; STATIC_KEY_LEN]>>);

/// One half of a static key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    First,
    Second,
}

impl StaticKey {
    /// The key made of these bytes.
    pub fn from_bytes(bytes: &[u8; STATIC_KEY_LEN]) -> Self {
        StaticKey(Box::new(Zeroizing::new(*bytes)))
    }

    /// All bytes. Handle with care.
    pub fn as_bytes(&self) -> &[u8; STATIC_KEY_LEN] {
        &self.0
    }

    /// The key whose bytes are those of `self` XOR those of `other` (dynamic tls-crypt: exported keying
    /// material XOR the configured key).
    #[must_use]
    pub fn xor(&self, other: &StaticKey) -> StaticKey {
        let mut mixed = self.clone();
        for (byte, with) in mixed.0.iter_mut().zip(other.0.iter()) {
            *byte ^= with;
        }
        mixed
    }

    /// Reads the text form: lines before the header line and lines starting with `#` or `;` are comments;
    /// then hex digits with any white space, then the footer line.
    ///
    /// # Errors
    /// Says which line is wrong, or what is missing. Never shows key bytes.
    pub fn parse(text: &str) -> Result<Self, StaticKeyError> {
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        lines.find(|(_, line)| line.starts_with(HEAD)).ok_or(StaticKeyError::NoHeader)?;
        let mut key = Box::new(Zeroizing::new([0; STATIC_KEY_LEN]));
        let mut digits = 0;
        for (number, line) in lines {
            if line.starts_with(FOOT) {
                if digits != 2 * STATIC_KEY_LEN {
                    return Err(StaticKeyError::Length { digits });
                }
                return Ok(StaticKey(key));
            }
            if line.starts_with(['#', ';']) {
                continue;
            }
            for letter in line.chars().filter(|letter| !letter.is_whitespace()) {
                let digit = letter.to_digit(16).ok_or(StaticKeyError::NotHex { line: number })?;
                if let Some(byte) = key.get_mut(digits / 2) {
                    *byte = (*byte << 4) | digit as u8;
                }
                digits += 1;
            }
        }
        Err(StaticKeyError::NoFooter)
    }

    /// The text form that [`StaticKey::parse`] and OpenVPN read: 16 bytes a line.
    pub fn to_text(&self) -> Zeroizing<String> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = Zeroizing::new(String::with_capacity(2 * STATIC_KEY_LEN + 128));
        text.push_str(HEAD);
        text.push('\n');
        for line in self.0.chunks(16) {
            for byte in line {
                text.push(char::from(DIGITS[usize::from(byte >> 4)]));
                text.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
            text.push('\n');
        }
        text.push_str(FOOT);
        text.push('\n');
        text
    }

    /// The 64-byte cipher slot of a half.
    pub(crate) fn cipher_slot(&self, half: Half) -> &[u8] {
        match half {
            Half::First => &self.0[..64],
            Half::Second => &self.0[128..192],
        }
    }

    /// The 64-byte HMAC slot of a half.
    pub(crate) fn hmac_slot(&self, half: Half) -> &[u8] {
        match half {
            Half::First => &self.0[64..128],
            Half::Second => &self.0[192..],
        }
    }
}

impl PartialEq for StaticKey {
    /// In constant time.
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

/// Why a static key's text was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StaticKeyError {
    /// It is something else, or damaged.
    #[error("no line \"{HEAD}\": this is no OpenVPN static key (`openvpn --genkey secret FILE` makes one)")]
    NoHeader,
    /// It ends early.
    #[error("no line \"{FOOT}\": the static key is cut short")]
    NoFooter,
    /// A character that is no hex digit.
    #[error("line {line} of the static key holds something that is no hex digit")]
    NotHex {
        /// Counted from 1 at the start of the text.
        line: usize,
    },
    /// Too few or too many digits.
    #[error("the static key has {digits} hex digits instead of 512 (2048 bits)")]
    Length {
        /// How many there are.
        digits: usize,
    },
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The key of OpenVPN's tests/unit_tests/openvpn/test_pkt.c.
    pub(crate) const TEST_PKT_KEY: &str = "<tls-auth>
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
    fn reads_the_armour() {
        let key = StaticKey::parse(TEST_PKT_KEY).unwrap();
        assert_eq!(key.as_bytes()[..4], [0x37, 0x26, 0x8e, 0xa8]);
        assert_eq!(key.as_bytes()[252..], [0xee, 0xb8, 0xb9, 0xe6]);
        assert_eq!(key.cipher_slot(Half::First)[0], 0x37);
        assert_eq!(key.hmac_slot(Half::First)[0], 0xde);
        assert_eq!(key.cipher_slot(Half::Second)[0], 0xa0);
        assert_eq!(key.hmac_slot(Half::Second)[0], 0xbb);
        assert_eq!(*key.to_text(), TEST_PKT_KEY[11..TEST_PKT_KEY.len() - 12]);
    }

    #[test]
    fn crlf_and_comments_are_fine() {
        let text = TEST_PKT_KEY.replace("8f4f", "# half way\n; here\n 8f4f").replace('\n', "\r\n");
        assert_eq!(StaticKey::parse(&text), StaticKey::parse(TEST_PKT_KEY));
    }

    #[test]
    fn errors_name_the_fault() {
        let parse = |text: &str| StaticKey::parse(text).unwrap_err();
        assert_eq!(parse("deadbeef"), StaticKeyError::NoHeader);
        assert_eq!(parse(&TEST_PKT_KEY.replace("END", "FIN")), StaticKeyError::NotHex { line: 19 });
        assert_eq!(parse(&TEST_PKT_KEY[..200]), StaticKeyError::NoFooter);
        assert_eq!(parse(&TEST_PKT_KEY.replace("daf7", "dag7")), StaticKeyError::NotHex { line: 4 });
        assert_eq!(parse(&TEST_PKT_KEY.replace("daf7", "daf")), StaticKeyError::Length { digits: 511 });
        assert_eq!(parse(&TEST_PKT_KEY.replace("daf7", "daf77")), StaticKeyError::Length { digits: 513 });
    }

    #[test]
    fn debug_hides_the_key() {
        assert_eq!(format!("{:?}", StaticKey::from_bytes(&[7; 256])), "StaticKey(..)");
    }

    proptest! {
        #[test]
        fn parse_undoes_print(bytes in prop::collection::vec(any::<u8>(), STATIC_KEY_LEN)) {
            let key = StaticKey::from_bytes(&bytes.try_into().unwrap());
            prop_assert_eq!(StaticKey::parse(&key.to_text()), Ok(key));
        }

        #[test]
        fn parse_never_panics(text in any::<String>()) {
            let _ = StaticKey::parse(&text);
            let _ = StaticKey::parse(&format!("{HEAD}\n{text}\n{FOOT}"));
        }
    }
}
