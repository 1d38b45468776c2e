//! Keys of interfaces and peers.

use std::fmt;

use base64ct::{Base64, Encoding as _};
use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize as _, Zeroizing};

use crate::crypto::KeyPair;

/// Length in bytes of every key here.
pub const KEY_LEN: usize = 32;

/// A Curve25519 public key, which identifies a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; KEY_LEN]);

impl PublicKey {
    /// The key in base64, as `wg` writes it.
    pub fn to_base64(&self) -> String {
        Base64::encode_string(&self.0)
    }

    /// The key of that base64 text. `None` if it is none.
    pub fn from_base64(text: &str) -> Option<Self> {
        decode(text).map(|bytes| PublicKey(*bytes))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_base64())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// A Curve25519 private key, clamped (RFC 7748 §5).
#[derive(Clone)]
pub struct PrivateKey(Zeroizing<[u8; KEY_LEN]>);

impl PrivateKey {
    /// Clamps the bytes. All zeros are no key: `None`.
    pub fn new(mut bytes: [u8; KEY_LEN]) -> Option<Self> {
        if is_zero(&bytes) {
            return None;
        }
        bytes[0] &= 0xf8;
        bytes[31] = (bytes[31] & 0x7f) | 0x40;
        let key = PrivateKey(Zeroizing::new(bytes));
        bytes.zeroize();
        Some(key)
    }

    /// The key of that base64 text. `None` if it is none.
    pub fn from_base64(text: &str) -> Option<Self> {
        decode(text).and_then(|bytes| PrivateKey::new(*bytes))
    }

    /// The clamped bytes.
    pub fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }

    /// The key in base64, as `wg` writes it.
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(Base64::encode_string(self.0.as_slice()))
    }

    /// The public key that belongs to it.
    pub fn public_key(&self) -> PublicKey {
        match KeyPair::new(&self.0) {
            Ok(pair) => pair.public,
            Err(_) => unreachable!("every clamped key has a public key"),
        }
    }
}

/// A secret that both ends have besides their keys. All zeros stand for none.
#[derive(Clone, Default)]
pub struct PresharedKey(Zeroizing<[u8; KEY_LEN]>);

impl PresharedKey {
    /// The secret with these bytes.
    pub fn new(bytes: [u8; KEY_LEN]) -> Self {
        PresharedKey(Zeroizing::new(bytes))
    }

    /// The secret of that base64 text. `None` if it is none.
    pub fn from_base64(text: &str) -> Option<Self> {
        decode(text).map(PresharedKey)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }

    /// The secret in base64, as `wg` writes it.
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(Base64::encode_string(self.0.as_slice()))
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        is_zero(&self.0)
    }
}

macro_rules! secret {
    ($name:ident) => {
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.0.ct_eq(&*other.0).into()
            }
        }

        impl Eq for $name {}

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    };
}

secret!(PrivateKey);
secret!(PresharedKey);

fn is_zero(bytes: &[u8; KEY_LEN]) -> bool {
    bytes.ct_eq(&[0; KEY_LEN]).into()
}

fn decode(text: &str) -> Option<Zeroizing<[u8; KEY_LEN]>> {
    let mut bytes = Zeroizing::new([0; KEY_LEN]);
    let decoded = Base64::decode(text, bytes.as_mut_slice()).ok()?;
    (decoded.len() == KEY_LEN).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_reads_back() {
        let key = PublicKey([0xf7; KEY_LEN]);
        assert_eq!(PublicKey::from_base64(&key.to_base64()), Some(key));
        let long = format!("{}A", key.to_base64());
        for wrong in ["", "AAAA", &key.to_base64()[1..], &long] {
            assert_eq!(PublicKey::from_base64(wrong), None, "{wrong:?}");
        }
    }

    /// Alice's keys of RFC 7748 §6.1.
    #[test]
    fn a_private_key_gives_its_public_key() {
        let text = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";
        let key = PrivateKey::from_base64(text).expect("a key");
        assert_eq!(key.public_key().to_base64(), "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=");
        // Written as it was clamped.
        assert_eq!(PrivateKey::from_base64(&key.to_base64()), Some(key));
        let secret = PresharedKey::new([7; KEY_LEN]);
        assert_eq!(PresharedKey::from_base64(&secret.to_base64()), Some(secret));
    }

    #[test]
    fn private_keys_are_clamped_and_not_shown() {
        let key = PrivateKey::new([0xff; KEY_LEN]).expect("not zero");
        assert_eq!((key.as_bytes()[0], key.as_bytes()[31]), (0xf8, 0x7f));
        assert_eq!(
            format!("{key:?} {:?}", PresharedKey::new([1; KEY_LEN])),
            "PrivateKey(..) PresharedKey(..)"
        );
        assert_eq!(PrivateKey::new([0; KEY_LEN]), None);
        assert!(PresharedKey::default().is_none() && !PresharedKey::new([1; KEY_LEN]).is_none());
    }
}
