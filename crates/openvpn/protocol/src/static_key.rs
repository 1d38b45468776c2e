//! OpenVPN static keys: 2,048 bits, used by tls-auth, tls-crypt and `secret`.

mod text;

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Length of a static key in bytes.
pub const STATIC_KEY_LEN: usize = 256;

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
    /// Compares in constant time.
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
pub(crate) mod tests {
    use super::*;

    /// The key of OpenVPN's tests/unit_tests/openvpn/test_pkt.c, in hexadecimal.
    pub(crate) const TEST_PKT_KEY: &str = "\
        37268ea8f95d7f71f9fb8fc03770c460\
        daf714a483d815c013ce0a537efc18f2\
        8f4f172669d9e6a413bac6741d8ea054\
        00f49b7fd6326470f23798c606bf53d4\
        de63ebc64ec59d57ce5d04d5b62e68b5\
        3ca6e5354351097fa370446c4d269f18\
        7bb6ae54af2dc70ff7317fe2f8754b82\
        82aad4202f9fa42c8640245d883e2c54\
        a0c1c489a036cf3a8964d8d289c1583b\
        9447c262b1da5fd167a5d27bd5ac5143\
        17bc2343a31a2efc38dd920d910375f5\
        1c2e27f3afd36c49269da079f7ce466e\
        bb0f9ad13e9bbb4665974e6bc24b513c\
        5700393bf4a3e7f967e2f384069ac8a8\
        e78b18b15604993fd16515cce9c0f3e4\
        2b4126b999005ade802797b0eeb8b9e6";

    /// [`TEST_PKT_KEY`] as a key.
    pub(crate) fn test_pkt_key() -> StaticKey {
        let byte = |at: usize| u8::from_str_radix(&TEST_PKT_KEY[2 * at..2 * at + 2], 16).unwrap();
        StaticKey::from_bytes(&std::array::from_fn(byte))
    }

    #[test]
    fn slots_are_where_openvpn_has_them() {
        let key = test_pkt_key();
        assert_eq!(key.as_bytes()[..4], [0x37, 0x26, 0x8e, 0xa8]);
        assert_eq!(key.as_bytes()[252..], [0xee, 0xb8, 0xb9, 0xe6]);
        assert_eq!(key.cipher_slot(Half::First)[0], 0x37);
        assert_eq!(key.hmac_slot(Half::First)[0], 0xde);
        assert_eq!(key.cipher_slot(Half::Second)[0], 0xa0);
        assert_eq!(key.hmac_slot(Half::Second)[0], 0xbb);
    }

    #[test]
    fn debug_hides_the_key() {
        assert_eq!(format!("{:?}", StaticKey::from_bytes(&[7; 256])), "StaticKey(..)");
    }
}
