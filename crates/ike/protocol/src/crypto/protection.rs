//! The protection of messages: the encrypted payload, whole or in fragments (RFC 7296 section 3.14, RFC 5282, RFC 7383).

use std::fmt;

use adit_core::{Cipher, Digest};
use aws_lc_rs::aead::{
    AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext,
    UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use subtle::ConstantTimeEq as _;
use thiserror::Error;
use zeroize::Zeroizing;

use super::keys::DirectionKeys;
use super::prf::{Secret, prf};
use crate::suite::{IkeSuite, checksum_len};
use crate::wire::{
    FragmentNumber, HEADER_LEN, Header, PAYLOAD_HEADER_LEN, PayloadType, Sealed, begin_sealed,
    set_message_length, set_payload_length,
};

const AEAD_IV_LEN: usize = 8;
const AEAD_TAG_LEN: usize = 16;
const BLOCK_LEN: usize = 16;
/// Bytes of a fragment's number and of the total.
const FRAGMENT_NUMBER_LEN: usize = 4;

/// The payloads to be protected, whole or in part.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// The kind of the first payload.
    pub first: PayloadType,
    /// The place of the fragment. `None`: the payloads are whole.
    pub fragment: Option<FragmentNumber>,
    /// The payloads, or the part of them that is in the fragment.
    pub plain: &'a [u8],
}

/// The reason why a message was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The encrypted payload is too short, or its ciphertext is no whole number of blocks.
    #[error("{0} bytes are no encrypted payload")]
    Length(usize),
    /// The checksum is wrong.
    #[error("the checksum is wrong")]
    Checksum,
    /// The padding and its length byte are longer than the plaintext that they are part of.
    #[error("the padding is longer than the content")]
    Padding,
}

/// The keys of one direction of an IKE SA, in use. It counts what it sealed.
///
/// The keys of a cipher are expanded for each message anew: messages are few, and expanded keys take 600 bytes.
pub struct Protection {
    keys: Keys,
    sealed: u64,
}

enum Keys {
    Aead { algorithm: &'static Algorithm, key: Secret, salt: [u8; 4] },
    Cbc { cipher: Cipher, key: Secret, digest: Digest, integrity: Secret },
}

impl fmt::Debug for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Protection").field("sealed", &self.sealed).finish_non_exhaustive()
    }
}

impl Protection {
    /// `None`: the keys do not have the lengths that the suite has.
    pub fn new(suite: &IkeSuite, keys: &DirectionKeys) -> Option<Self> {
        let algorithm = match suite.cipher {
            Cipher::Aes128Gcm => Some(&AES_128_GCM),
            Cipher::Aes192Gcm => Some(&AES_192_GCM),
            Cipher::Aes256Gcm => Some(&AES_256_GCM),
            Cipher::ChaCha20Poly1305 => Some(&CHACHA20_POLY1305),
            Cipher::Aes128Cbc | Cipher::Aes192Cbc | Cipher::Aes256Cbc => None,
        };
        let keys = match algorithm {
            Some(algorithm) => {
                let key = Some(&keys.encryption).filter(|key| key.len() == algorithm.key_len())?.clone();
                Keys::Aead { algorithm, key, salt: keys.salt.as_slice().try_into().ok()? }
            }
            None => {
                unbound(suite.cipher, &keys.encryption)?;
                let (key, integrity) = (keys.encryption.clone(), keys.integrity.clone());
                Keys::Cbc { cipher: suite.cipher, key, digest: suite.integrity?, integrity }
            }
        };
        Some(Protection { keys, sealed: 0 })
    }

    /// Bytes of a datagram besides the payloads in it, with the most padding.
    pub fn overhead(&self, is_fragment: bool) -> usize {
        let number = if is_fragment { FRAGMENT_NUMBER_LEN } else { 0 };
        HEADER_LEN + PAYLOAD_HEADER_LEN + number + self.iv_len() + self.checksum_len() + self.block_len()
    }

    /// The message with the payload that protects the contents. `fill` gives random bytes, for the initialization vector of CBC;
    /// that of an AEAD is a counter (RFC 5282 section 3.1). `None`: the counter is at its end, or the cipher refused.
    pub fn seal(
        &mut self,
        header: &Header,
        contents: &Contents<'_>,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Option<Vec<u8>> {
        self.sealed = self.sealed.checked_add(1)?;
        let mut out = Vec::with_capacity(self.overhead(true) + contents.plain.len());
        let kind = match contents.fragment {
            None => PayloadType::ENCRYPTED,
            Some(_) => PayloadType::ENCRYPTED_FRAGMENT,
        };
        header.encode(kind, &mut out);
        let start = begin_sealed(contents.first, contents.fragment, &mut out);
        let covered = out.len();
        out.resize(covered + self.iv_len(), 0);
        let encrypted = out.len();
        out.extend_from_slice(contents.plain);
        let padding = self.padding_len(contents.plain.len());
        out.resize(out.len() + padding, 0);
        out.push(padding as u8);
        let end = out.len();
        out.resize(end + self.checksum_len(), 0);
        set_payload_length(&mut out, start);
        set_message_length(&mut out);
        self.protect(&mut out, [covered, encrypted, end], fill)?;
        Some(out)
    }

    /// Encrypts and authenticates `out`. The places are three ends: of the bytes that are authenticated and not encrypted, of the
    /// initialization vector, and of the plaintext.
    fn protect(&self, out: &mut [u8], places: [usize; 3], fill: &mut dyn FnMut(&mut [u8])) -> Option<()> {
        let [covered, encrypted, end] = places;
        match &self.keys {
            Keys::Aead { algorithm, key, salt } => {
                let key = expand(algorithm, key)?;
                let (head, rest) = out.split_at_mut_checked(encrypted)?;
                let (aad, iv) = head.split_at_mut_checked(covered)?;
                iv.copy_from_slice(&self.sealed.to_be_bytes());
                let (plain, tag_place) = rest.split_at_mut_checked(end - encrypted)?;
                let tag = key.seal_in_place_separate_tag(nonce(*salt, iv)?, Aad::from(&*aad), plain).ok()?;
                tag_place.copy_from_slice(tag.as_ref());
            }
            Keys::Cbc { cipher, key, digest, integrity } => {
                let (head, rest) = out.split_at_mut_checked(end)?;
                let (iv, plain) = head.get_mut(covered..)?.split_at_mut_checked(BLOCK_LEN)?;
                fill(iv);
                let iv: [u8; BLOCK_LEN] = (&*iv).try_into().ok()?;
                let context = EncryptionContext::Iv128(FixedLength::from(iv));
                let cipher = EncryptingKey::cbc(unbound(*cipher, key)?).ok()?;
                cipher.less_safe_encrypt(plain, context).ok()?;
                let checksum = prf(*digest, integrity, &[head]);
                rest.copy_from_slice(checksum.get(..rest.len())?);
            }
        }
        Some(())
    }

    /// The plaintext of a message: the payloads, or the part of them that is in the fragment. `sealed` was decoded from
    /// `datagram`.
    ///
    /// # Errors
    /// The message has a wrong length or a wrong checksum, or its plaintext has a wrong padding length.
    pub fn open(&self, datagram: &[u8], sealed: &Sealed<'_>) -> Result<Secret, OpenError> {
        let wrong_length = OpenError::Length(sealed.body.len());
        let (iv, rest) = sealed.body.split_at_checked(self.iv_len()).ok_or(wrong_length)?;
        let length = rest.len().checked_sub(self.checksum_len()).ok_or(wrong_length)?;
        let (ciphertext, checksum) = rest.split_at_checked(length).ok_or(wrong_length)?;
        if ciphertext.is_empty() || !ciphertext.len().is_multiple_of(self.block_len()) {
            return Err(wrong_length);
        }
        let covered = |tail: usize| datagram.len().checked_sub(tail).and_then(|end| datagram.get(..end));
        let mut plain = Zeroizing::new(ciphertext.to_vec());
        match &self.keys {
            Keys::Aead { algorithm, key, salt } => {
                let key = expand(algorithm, key).ok_or(OpenError::Checksum)?;
                let aad = covered(sealed.body.len()).ok_or(wrong_length)?;
                let nonce = nonce(*salt, iv).ok_or(wrong_length)?;
                key.open_in_place_separate_tag(nonce, Aad::from(aad), checksum, &mut plain)
                    .map_err(|_| OpenError::Checksum)?;
            }
            Keys::Cbc { cipher, key, digest, integrity } => {
                let authenticated = covered(checksum.len()).ok_or(wrong_length)?;
                let expected = prf(*digest, integrity, &[authenticated]);
                let expected = expected.get(..checksum.len()).ok_or(wrong_length)?;
                if !bool::from(expected.ct_eq(checksum)) {
                    return Err(OpenError::Checksum);
                }
                let iv: [u8; BLOCK_LEN] = iv.try_into().map_err(|_| wrong_length)?;
                let cipher = unbound(*cipher, key).and_then(|key| DecryptingKey::cbc(key).ok());
                let cipher = cipher.ok_or(OpenError::Checksum)?;
                let context = DecryptionContext::Iv128(FixedLength::from(iv));
                cipher.decrypt(&mut plain, context).map_err(|_| wrong_length)?;
            }
        }
        let padding = usize::from(plain.last().copied().unwrap_or_default());
        let length = plain.len().checked_sub(padding + 1).ok_or(OpenError::Padding)?;
        plain.truncate(length);
        Ok(plain)
    }

    const fn iv_len(&self) -> usize {
        match self.keys {
            Keys::Aead { .. } => AEAD_IV_LEN,
            Keys::Cbc { .. } => BLOCK_LEN,
        }
    }

    const fn checksum_len(&self) -> usize {
        match self.keys {
            Keys::Aead { .. } => AEAD_TAG_LEN,
            Keys::Cbc { digest, .. } => checksum_len(digest),
        }
    }

    const fn block_len(&self) -> usize {
        match self.keys {
            Keys::Aead { .. } => 1,
            Keys::Cbc { .. } => BLOCK_LEN,
        }
    }

    /// Padding in front of its own length, so that both fill the last block.
    const fn padding_len(&self, plain: usize) -> usize {
        let block = self.block_len();
        (block - (plain + 1) % block) % block
    }
}

fn expand(algorithm: &'static Algorithm, key: &[u8]) -> Option<LessSafeKey> {
    UnboundKey::new(algorithm, key).ok().map(LessSafeKey::new)
}

fn nonce(salt: [u8; 4], iv: &[u8]) -> Option<Nonce> {
    let mut nonce = [0; 12];
    let (salt_place, iv_place) = nonce.split_at_mut(salt.len());
    salt_place.copy_from_slice(&salt);
    iv_place.copy_from_slice(iv.get(..AEAD_IV_LEN)?);
    Some(Nonce::assume_unique_for_key(nonce))
}

fn unbound(cipher: Cipher, key: &[u8]) -> Option<UnboundCipherKey> {
    let algorithm = match cipher {
        Cipher::Aes128Cbc => &AES_128,
        Cipher::Aes192Cbc => &AES_192,
        Cipher::Aes256Cbc => &AES_256,
        Cipher::Aes128Gcm | Cipher::Aes192Gcm | Cipher::Aes256Gcm | Cipher::ChaCha20Poly1305 => return None,
    };
    UnboundCipherKey::new(algorithm, key).ok()
}
