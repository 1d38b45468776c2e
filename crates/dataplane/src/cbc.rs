//! AES-CBC, and the initialization vectors that it needs: encryption without authentication. A codec adds a
//! [`crate::mac::Mac`], over what its format says.

use adit_core::Cipher;
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext,
    UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;

use crate::aead::AeadError;

/// Bytes of a block, and of an initialization vector.
pub const BLOCK: usize = 16;

/// A key that encrypts.
pub struct Encryptor(EncryptingKey);

impl Encryptor {
    /// # Errors
    /// The key has not the length that the cipher needs, or the cipher is no AES-CBC.
    pub fn new(cipher: Cipher, key: &[u8]) -> Result<Self, AeadError> {
        EncryptingKey::cbc(unbound(cipher, key)?).map(Encryptor).map_err(|_| AeadError::Refused)
    }

    /// Encrypts whole blocks in place.
    ///
    /// # Errors
    /// They are no whole blocks.
    #[inline]
    pub fn encrypt(&self, iv: [u8; BLOCK], blocks: &mut [u8]) -> Result<(), AeadError> {
        let context = EncryptionContext::Iv128(FixedLength::from(&iv));
        self.0.less_safe_encrypt(blocks, context).map(|_| ()).map_err(|_| AeadError::Refused)
    }
}

/// A key that decrypts.
pub struct Decryptor(DecryptingKey);

impl Decryptor {
    /// # Errors
    /// The key has not the length that the cipher needs, or the cipher is no AES-CBC.
    pub fn new(cipher: Cipher, key: &[u8]) -> Result<Self, AeadError> {
        DecryptingKey::cbc(unbound(cipher, key)?).map(Decryptor).map_err(|_| AeadError::Refused)
    }

    /// Decrypts whole blocks in place. Nothing may be decrypted that was not authenticated before.
    ///
    /// # Errors
    /// They are no whole blocks.
    #[inline]
    pub fn decrypt(&self, iv: [u8; BLOCK], blocks: &mut [u8]) -> Result<(), AeadError> {
        let context = DecryptionContext::Iv128(FixedLength::from(&iv));
        self.0.decrypt(blocks, context).map(|_| ()).map_err(|_| AeadError::Refused)
    }
}

/// Makes the initialization vectors of a session.
pub struct Ivs(EncryptingKey);

impl Ivs {
    /// IVs with a key that serves for nothing else.
    ///
    /// # Errors
    /// The library refuses the key.
    pub fn new(key: &[u8; BLOCK]) -> Result<Self, AeadError> {
        let key = UnboundCipherKey::new(&AES_128, key).and_then(EncryptingKey::ecb);
        key.map(Ivs).map_err(|_| AeadError::Refused)
    }

    /// The vector of the packet with that number: the number, encrypted. It cannot be predicted without the key, and it
    /// differs from packet to packet (NIST SP 800-38A, appendix C).
    #[inline]
    pub fn iv(&self, number: u64) -> Option<[u8; BLOCK]> {
        let mut iv = u128::from(number).to_be_bytes();
        self.0.less_safe_encrypt(&mut iv, EncryptionContext::None).ok()?;
        Some(iv)
    }
}

fn unbound(cipher: Cipher, key: &[u8]) -> Result<UnboundCipherKey, AeadError> {
    let algorithm = match cipher {
        Cipher::Aes128Cbc => &AES_128,
        Cipher::Aes192Cbc => &AES_192,
        Cipher::Aes256Cbc => &AES_256,
        Cipher::Aes128Gcm | Cipher::Aes192Gcm | Cipher::Aes256Gcm | Cipher::ChaCha20Poly1305 => {
            return Err(AeadError::Refused);
        }
    };
    UnboundCipherKey::new(algorithm, key).map_err(|_| AeadError::KeyLength { cipher, found: key.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    /// NIST SP 800-38A, F.2.1, F.2.3 and F.2.5: the first two blocks.
    #[test]
    fn published_vectors() {
        let plain = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
        let iv = hex("000102030405060708090a0b0c0d0e0f").try_into().expect("16 bytes");
        for (cipher, key, expected) in [
            (
                Cipher::Aes128Cbc,
                "2b7e151628aed2a6abf7158809cf4f3c",
                "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2",
            ),
            (
                Cipher::Aes192Cbc,
                "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
                "4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a",
            ),
            (
                Cipher::Aes256Cbc,
                "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
                "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d",
            ),
        ] {
            let mut blocks = plain.clone();
            let key = hex(key);
            Encryptor::new(cipher, &key).and_then(|key| key.encrypt(iv, &mut blocks)).expect("it fits");
            assert_eq!(blocks, hex(expected), "{cipher}");
            Decryptor::new(cipher, &key).and_then(|key| key.decrypt(iv, &mut blocks)).expect("it fits");
            assert_eq!(blocks, plain, "{cipher}");
        }
    }

    #[test]
    fn keys_and_lengths_that_do_not_fit_are_refused() {
        let found = 16;
        let cipher = Cipher::Aes256Cbc;
        assert_eq!(Encryptor::new(cipher, &[0; 16]).err(), Some(AeadError::KeyLength { cipher, found }));
        assert_eq!(Decryptor::new(cipher, &[0; 16]).err(), Some(AeadError::KeyLength { cipher, found }));
        assert_eq!(Encryptor::new(Cipher::Aes256Gcm, &[0; 32]).err(), Some(AeadError::Refused));
        let (encryptor, decryptor) = (Encryptor::new(cipher, &[0; 32]), Decryptor::new(cipher, &[0; 32]));
        let mut part = [0; 17];
        assert_eq!(encryptor.and_then(|key| key.encrypt([0; BLOCK], &mut part)), Err(AeadError::Refused));
        assert_eq!(decryptor.and_then(|key| key.decrypt([0; BLOCK], &mut part)), Err(AeadError::Refused));
    }

    #[test]
    fn initialization_vectors_differ_by_number_and_by_key() {
        let [one, two] = [1, 2].map(|key| Ivs::new(&[key; BLOCK]).expect("it fits"));
        let ivs: std::collections::BTreeSet<_> =
            (0..100).flat_map(|number| [one.iv(number), two.iv(number)]).collect();
        assert_eq!(ivs.len(), 200);
    }
}
