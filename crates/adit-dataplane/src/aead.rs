//! Authenticated encryption behind one small trait, and its provider, aws-lc-rs.

use adit_core::Cipher;
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use thiserror::Error;

/// Bytes of the authentication tag. All ciphers of [`Cipher`] have the same.
pub const TAG_LEN: usize = 16;
/// Bytes of the nonce. All ciphers of [`Cipher`] have the same.
pub const NONCE_LEN: usize = 12;

/// Why an AEAD refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AeadError {
    /// The key has not the length that the cipher needs.
    #[error("a key of {found} bytes was given for {cipher}, which needs {}", cipher.key_len())]
    KeyLength {
        /// The cipher.
        cipher: Cipher,
        /// Length of the key that was given.
        found: usize,
    },
    /// The tag does not verify, or the input is longer than the cipher allows.
    #[error("the AEAD refused the message")]
    Refused,
}

/// One key of an AEAD. The caller answers for nonces that never repeat.
pub trait Aead: Send {
    /// Encrypts `in_out` in place and returns the tag over it and `aad`.
    fn seal(&self, nonce: [u8; NONCE_LEN], aad: &[u8], in_out: &mut [u8])
    -> Result<[u8; TAG_LEN], AeadError>;

    /// Verifies `tag` and decrypts `in_out` in place. After an error `in_out` holds nothing of use.
    fn open(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        tag: &[u8; TAG_LEN],
        in_out: &mut [u8],
    ) -> Result<(), AeadError>;
}

/// The default provider: AWS-LC.
pub fn aws_lc(cipher: Cipher, key: &[u8]) -> Result<Box<dyn Aead>, AeadError> {
    let algorithm = match cipher {
        Cipher::Aes128Gcm => &AES_128_GCM,
        Cipher::Aes256Gcm => &AES_256_GCM,
        Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
    };
    let unbound =
        UnboundKey::new(algorithm, key).map_err(|_| AeadError::KeyLength { cipher, found: key.len() })?;
    Ok(Box::new(AwsLc(LessSafeKey::new(unbound))))
}

struct AwsLc(LessSafeKey);

impl Aead for AwsLc {
    fn seal(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        in_out: &mut [u8],
    ) -> Result<[u8; TAG_LEN], AeadError> {
        let tag = self
            .0
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), in_out)
            .map_err(|_| AeadError::Refused)?;
        <[u8; TAG_LEN]>::try_from(tag.as_ref()).map_err(|_| AeadError::Refused)
    }

    fn open(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        tag: &[u8; TAG_LEN],
        in_out: &mut [u8],
    ) -> Result<(), AeadError> {
        self.0
            .open_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), tag, in_out)
            .map(|_| ())
            .map_err(|_| AeadError::Refused)
    }
}
