//! The cipher alone: the library, a key, and messages in place.

use std::time::{Duration, Instant};

use adit_core::Cipher;
use adit_dataplane::aead::{AeadError, NONCE_LEN, TAG_LEN};
use aws_lc_rs::aead::{
    AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext,
    UnboundCipherKey,
};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hmac;
use aws_lc_rs::iv::FixedLength;

use adit_host::bench::{DIGEST, Row};

/// Bytes that are authenticated and not encrypted.
const AAD: [u8; 8] = [0x48, 0, 0, 1, 0, 0, 0, 1];
const BLOCK: usize = 16;
/// The length of a packet's number, which CBC encrypts.
const NUMBER: usize = 4;
/// The bytes of keys. They protect nothing.
const KEY: [u8; 64] = [0x5a; 64];

/// The key that seals.
enum Key {
    Aead(LessSafeKey),
    /// A block cipher, and an HMAC after it.
    Cbc(Box<Cbc>),
}

struct Cbc {
    encrypt: EncryptingKey,
    decrypt: DecryptingKey,
    mac: hmac::Key,
}

/// As many messages as the data plane has in a batch, each with its tag in front, as far apart as there.
pub(crate) struct Raw {
    key: Key,
    messages: Vec<u8>,
    stride: usize,
    counter: u64,
}

impl Raw {
    /// Messages that can be sealed.
    pub(crate) fn new(row: &Row) -> Result<Raw, AeadError> {
        let aead = |algorithm| {
            let key = UnboundKey::new(algorithm, key(row.cipher)).map_err(refused)?;
            Ok(Key::Aead(LessSafeKey::new(key)))
        };
        let key = match row.cipher {
            Cipher::Aes128Gcm => aead(&AES_128_GCM)?,
            Cipher::Aes192Gcm => aead(&AES_192_GCM)?,
            Cipher::Aes256Gcm => aead(&AES_256_GCM)?,
            Cipher::ChaCha20Poly1305 => aead(&CHACHA20_POLY1305)?,
            Cipher::Aes128Cbc => Key::Cbc(Box::new(Cbc::new(row.cipher, &AES_128)?)),
            Cipher::Aes192Cbc => Key::Cbc(Box::new(Cbc::new(row.cipher, &AES_192)?)),
            Cipher::Aes256Cbc => Key::Cbc(Box::new(Cbc::new(row.cipher, &AES_256)?)),
        };
        let stride = match &key {
            Key::Aead(_) => AAD.len() + TAG_LEN + row.bytes,
            Key::Cbc(_) => {
                let body = (NUMBER + row.bytes + 1).next_multiple_of(BLOCK);
                DIGEST.output_len() + BLOCK + body
            }
        };
        Ok(Raw { key, messages: vec![0; stride * row.batch()], stride, counter: 0 })
    }

    /// Seals all messages, and says how long that took.
    #[inline(never)] // so that a profile shows it
    pub(crate) fn seal(&mut self) -> Result<Duration, AeadError> {
        let start = Instant::now();
        let messages = self.messages.chunks_exact_mut(self.stride).zip(self.counter..);
        match &self.key {
            Key::Aead(key) => {
                for (message, number) in messages {
                    let (tag, body) = split(message)?;
                    let sealed = key
                        .seal_in_place_separate_tag(nonce(number), Aad::from(AAD), body)
                        .map_err(refused)?;
                    tag.copy_from_slice(sealed.as_ref());
                }
            }
            Key::Cbc(key) => {
                for (message, number) in messages {
                    key.seal(message, number)?;
                }
            }
        }
        Ok(start.elapsed())
    }

    /// Opens what was sealed last, and says how long that took.
    #[inline(never)] // so that a profile shows it
    pub(crate) fn open(&mut self) -> Result<Duration, AeadError> {
        let start = Instant::now();
        let messages = self.messages.chunks_exact_mut(self.stride).zip(self.counter..);
        match &self.key {
            Key::Aead(key) => {
                for (message, number) in messages {
                    let (tag, body) = split(message)?;
                    key.open_in_place_separate_tag(nonce(number), Aad::from(AAD), &*tag, body)
                        .map_err(refused)?;
                }
            }
            Key::Cbc(key) => {
                for (message, _) in messages {
                    key.open(message)?;
                }
            }
        }
        let elapsed = start.elapsed();
        self.counter += (self.messages.len() / self.stride) as u64;
        Ok(elapsed)
    }
}

impl Cbc {
    fn new(cipher: Cipher, algorithm: &'static aws_lc_rs::cipher::Algorithm) -> Result<Cbc, AeadError> {
        let unbound = || UnboundCipherKey::new(algorithm, key(cipher));
        Ok(Cbc {
            encrypt: unbound().and_then(EncryptingKey::cbc).map_err(refused)?,
            decrypt: unbound().and_then(DecryptingKey::cbc).map_err(refused)?,
            mac: hmac::Key::new(hmac::HMAC_SHA256, KEY.get(..DIGEST.output_len()).unwrap_or_default()),
        })
    }

    fn seal(&self, message: &mut [u8], number: u64) -> Result<(), AeadError> {
        let (mac, sealed) = message.split_at_mut_checked(DIGEST.output_len()).ok_or(AeadError::Refused)?;
        let (iv, body) = sealed.split_first_chunk_mut::<BLOCK>().ok_or(AeadError::Refused)?;
        *iv = u128::from(number).to_be_bytes();
        let context = EncryptionContext::Iv128(FixedLength::from(&*iv));
        self.encrypt.less_safe_encrypt(body, context).map_err(refused)?;
        hmac::sign_to_buffer(&self.mac, sealed, mac).map_err(refused)?;
        Ok(())
    }

    fn open(&self, message: &mut [u8]) -> Result<(), AeadError> {
        let (mac, sealed) = message.split_at_mut_checked(DIGEST.output_len()).ok_or(AeadError::Refused)?;
        hmac::verify(&self.mac, sealed, mac).map_err(refused)?;
        let (iv, body) = sealed.split_first_chunk_mut::<BLOCK>().ok_or(AeadError::Refused)?;
        let context = DecryptionContext::Iv128(FixedLength::from(&*iv));
        self.decrypt.decrypt(body, context).map_err(refused)?;
        Ok(())
    }
}

/// A key of that cipher.
fn key(cipher: Cipher) -> &'static [u8] {
    KEY.get(..cipher.key_len()).unwrap_or_default()
}

fn refused(_: Unspecified) -> AeadError {
    AeadError::Refused
}

fn split(message: &mut [u8]) -> Result<(&mut [u8; TAG_LEN], &mut [u8]), AeadError> {
    let rest = message.get_mut(AAD.len()..).ok_or(AeadError::Refused)?;
    rest.split_first_chunk_mut().ok_or(AeadError::Refused)
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..8].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}
