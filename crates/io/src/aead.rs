//! The data channel's AEADs: AWS-LC, and ChaCha20-Poly1305 of whole batches in vectors where the processor has them.

#[cfg(test)]
mod tests;

use adit_chacha::{Key, TEXT_MAX};
use adit_core::Cipher;
use adit_dataplane::aead::{Aead, AeadError, AwsLc, Message, NONCE_LEN, TAG_LEN};
use adit_sys::Vectors;

/// Messages from which on a batch of full-sized packets takes less time in vectors than AWS-LC needs for them one by one
/// (docs/measure/PERFORMANCE-DIARY.md).
const LEAST: usize = 4;

/// Makes the AEAD of a cipher and a key: [`adit_dataplane::aead::Provider`].
///
/// # Errors
/// As [`AwsLc::new`].
pub fn provider(cipher: Cipher, key: &[u8]) -> Result<Box<dyn Aead>, AeadError> {
    let single = AwsLc::new(cipher, key)?;
    let vectors = if cipher == Cipher::ChaCha20Poly1305 { Vectors::detect().next() } else { None };
    Ok(match (vectors, key.first_chunk()) {
        (Some(vectors), Some(key)) => Box::new(Batches { single, key: Key::new(key), vectors }),
        _ => Box::new(single),
    })
}

/// ChaCha20-Poly1305: batches in vectors, single messages by AWS-LC.
struct Batches {
    single: AwsLc,
    key: Key,
    vectors: Vectors,
}

impl Aead for Batches {
    fn seal(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        in_out: &mut [u8],
    ) -> Result<[u8; TAG_LEN], AeadError> {
        self.single.seal(nonce, aad, in_out)
    }

    fn seal_from(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        plain: &[u8],
        sealed: &mut [u8],
        tag: &mut [u8; TAG_LEN],
    ) -> Result<(), AeadError> {
        self.single.seal_from(nonce, aad, plain, sealed, tag)
    }

    fn open(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        tag: &[u8; TAG_LEN],
        in_out: &mut [u8],
    ) -> Result<(), AeadError> {
        self.single.open(nonce, aad, tag, in_out)
    }

    fn gains_from_batches(&self) -> bool {
        true
    }

    fn seal_batch(&self, messages: &mut [Message<'_>]) -> Result<(), AeadError> {
        if messages.len() < LEAST {
            return self.single.seal_batch(messages);
        }
        if messages.iter().any(|message| message.text.len() as u64 > TEXT_MAX) {
            return Err(AeadError::Refused);
        }
        self.vectors.seal(&self.key, messages);
        Ok(())
    }

    fn open_batch(&self, messages: &mut [Message<'_>]) -> u32 {
        if messages.len() < LEAST {
            return self.single.open_batch(messages);
        }
        self.vectors.open(&self.key, messages)
    }
}
