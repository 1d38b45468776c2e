//! The AEAD alone: the library, a key, and messages in place.

use std::time::{Duration, Instant};

use adit_core::Cipher;
use adit_dataplane::aead::{AeadError, NONCE_LEN, TAG_LEN};
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

use super::case::Case;
use super::tunnel::key;

/// Bytes that are authenticated and not encrypted: as many as OpenVPN has.
const AAD: [u8; 8] = [0x48, 0, 0, 1, 0, 0, 0, 1];

/// As many messages as the data plane has in a batch, each with its tag in front, as far apart as there.
pub(crate) struct Raw {
    key: LessSafeKey,
    messages: Vec<u8>,
    stride: usize,
    counter: u64,
}

impl Raw {
    /// Messages that can be sealed.
    pub(crate) fn new(case: Case) -> Result<Raw, AeadError> {
        let algorithm = match case.cipher {
            Cipher::Aes128Gcm => &AES_128_GCM,
            Cipher::Aes256Gcm => &AES_256_GCM,
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        let key = UnboundKey::new(algorithm, &key(case.cipher).key).map_err(|_| AeadError::Refused)?;
        let stride = AAD.len() + TAG_LEN + case.bytes;
        Ok(Raw { key: LessSafeKey::new(key), messages: vec![0; stride * case.batch()], stride, counter: 0 })
    }

    /// Seals all messages, and says how long that took.
    #[inline(never)] // so that a profile shows it
    pub(crate) fn seal(&mut self) -> Result<Duration, AeadError> {
        let start = Instant::now();
        for (message, number) in self.messages.chunks_exact_mut(self.stride).zip(self.counter..) {
            let (tag, body) = split(message)?;
            let sealed = self
                .key
                .seal_in_place_separate_tag(nonce(number), Aad::from(AAD), body)
                .map_err(|_| AeadError::Refused)?;
            tag.copy_from_slice(sealed.as_ref());
        }
        Ok(start.elapsed())
    }

    /// Opens what was sealed last, and says how long that took.
    #[inline(never)] // so that a profile shows it
    pub(crate) fn open(&mut self) -> Result<Duration, AeadError> {
        let start = Instant::now();
        for (message, number) in self.messages.chunks_exact_mut(self.stride).zip(self.counter..) {
            let (tag, body) = split(message)?;
            self.key
                .open_in_place_separate_tag(nonce(number), Aad::from(AAD), &*tag, body)
                .map_err(|_| AeadError::Refused)?;
        }
        let elapsed = start.elapsed();
        self.counter += (self.messages.len() / self.stride) as u64;
        Ok(elapsed)
    }
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
