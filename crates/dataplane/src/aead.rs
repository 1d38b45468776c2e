//! Authenticated encryption behind one small trait, and its provider, aws-lc-rs. Ciphers that do not authenticate are in
//! [`crate::cbc`], with [`crate::mac`].

pub use adit_chacha::{BATCH, Message};
use adit_core::Cipher;
use aws_lc_rs::aead::{
    AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use thiserror::Error;

/// Bytes of the authentication tag. All AEADs of [`Cipher`] have the same.
pub const TAG_LEN: usize = 16;
/// Bytes of the nonce. All AEADs of [`Cipher`] have the same.
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
    /// The cipher does not authenticate, and no HMAC key that fits was given beside its key.
    #[error("{cipher} needs an HMAC key as long as its digest, and none was given")]
    MacKey {
        /// The cipher.
        cipher: Cipher,
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

    /// Encrypts `plain` into `sealed`, which has the same length, and puts the tag over it and `aad` into
    /// `tag`.
    fn seal_from(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        plain: &[u8],
        sealed: &mut [u8],
        tag: &mut [u8; TAG_LEN],
    ) -> Result<(), AeadError>;

    /// Verifies `tag` and decrypts `in_out` in place. After an error `in_out` holds nothing of use.
    fn open(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        tag: &[u8; TAG_LEN],
        in_out: &mut [u8],
    ) -> Result<(), AeadError>;

    /// Whether several messages take less time in one call than in one each.
    fn gains_from_batches(&self) -> bool {
        false
    }

    /// Encrypts each message in place and writes its tag. After an error some are encrypted, and none may be sent.
    fn seal_batch(&self, messages: &mut [Message<'_>]) -> Result<(), AeadError> {
        for message in messages {
            message.tag = self.seal(message.nonce, message.aad, message.text)?;
        }
        Ok(())
    }

    /// Verifies each of at most [`BATCH`] messages and decrypts those that are authentic: the bits that are set in
    /// what is returned, from the lowest. The others hold nothing of use.
    fn open_batch(&self, messages: &mut [Message<'_>]) -> u32 {
        let opened = messages.iter_mut().take(BATCH).enumerate().map(|(index, message)| {
            let opened = self.open(message.nonce, message.aad, &message.tag, message.text);
            u32::from(opened.is_ok()) << index
        });
        opened.fold(0, |bits, bit| bits | bit)
    }
}

/// Makes the AEAD of a cipher and a key.
///
/// # Errors
/// The key has the wrong length, or the cipher is no AEAD.
pub type Provider = fn(Cipher, &[u8]) -> Result<Box<dyn Aead>, AeadError>;

/// The default provider: AWS-LC.
///
/// # Errors
/// The key has the wrong length, or the cipher is no AEAD.
pub fn aws_lc(cipher: Cipher, key: &[u8]) -> Result<Box<dyn Aead>, AeadError> {
    Ok(Box::new(AwsLc::new(cipher, key)?))
}

/// An AEAD of AWS-LC with its key.
#[derive(Debug)]
pub struct AwsLc(LessSafeKey);

impl AwsLc {
    /// The AEAD of a cipher and a key.
    ///
    /// # Errors
    /// The key has the wrong length, or the cipher is no AEAD.
    pub fn new(cipher: Cipher, key: &[u8]) -> Result<Self, AeadError> {
        let algorithm = match cipher {
            Cipher::Aes128Gcm => &AES_128_GCM,
            Cipher::Aes192Gcm => &AES_192_GCM,
            Cipher::Aes256Gcm => &AES_256_GCM,
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            Cipher::Aes128Cbc | Cipher::Aes192Cbc | Cipher::Aes256Cbc => {
                return Err(AeadError::MacKey { cipher });
            }
        };
        let unbound = UnboundKey::new(algorithm, key);
        let unbound = unbound.map_err(|_| AeadError::KeyLength { cipher, found: key.len() })?;
        Ok(AwsLc(LessSafeKey::new(unbound)))
    }
}

impl Aead for AwsLc {
    fn seal(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        in_out: &mut [u8],
    ) -> Result<[u8; TAG_LEN], AeadError> {
        let (nonce, mut tag) = (Nonce::assume_unique_for_key(nonce), [0; TAG_LEN]);
        let sealed = self.0.seal_in_place_scatter(nonce, Aad::from(aad), in_out, &[], &mut tag);
        sealed.map(|()| tag).map_err(|_| AeadError::Refused)
    }

    fn seal_from(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        plain: &[u8],
        sealed: &mut [u8],
        tag: &mut [u8; TAG_LEN],
    ) -> Result<(), AeadError> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.0
            .seal_out_of_place_scatter(nonce, Aad::from(aad), plain, sealed, &[], tag)
            .map_err(|_| AeadError::Refused)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    struct Vector {
        cipher: Cipher,
        key: &'static str,
        nonce: &'static str,
        aad: &'static str,
        plain: &'static str,
        sealed: &'static str,
        tag: &'static str,
    }

    const GCM_KEY: &str = "feffe9928665731c6d6a8f9467308308";
    const GCM_PLAIN: &str = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
        1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
    const GCM_AAD: &str = "feedfacedeadbeeffeedfacedeadbeefabaddad2";

    /// McGrew and Viega, "The Galois/Counter Mode of Operation", test cases 4, 10 and 16; RFC 8439 §2.8.2.
    const VECTORS: [Vector; 4] = [
        Vector {
            cipher: Cipher::Aes128Gcm,
            key: GCM_KEY,
            nonce: "cafebabefacedbaddecaf888",
            aad: GCM_AAD,
            plain: GCM_PLAIN,
            sealed: "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
                21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
            tag: "5bc94fbc3221a5db94fae95ae7121a47",
        },
        Vector {
            cipher: Cipher::Aes192Gcm,
            key: "feffe9928665731c6d6a8f9467308308feffe9928665731c",
            nonce: "cafebabefacedbaddecaf888",
            aad: GCM_AAD,
            plain: GCM_PLAIN,
            sealed: "3980ca0b3c00e841eb06fac4872a2757859e1ceaa6efd984628593b40ca1e19c\
                7d773d00c144c525ac619d18c84a3f4718e2448b2fe324d9ccda2710",
            tag: "2519498e80f1478f37ba55bd6d27618c",
        },
        Vector {
            cipher: Cipher::Aes256Gcm,
            key: "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
            nonce: "cafebabefacedbaddecaf888",
            aad: GCM_AAD,
            plain: GCM_PLAIN,
            sealed: "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
                8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
            tag: "76fc6ece0f4e1768cddf8853bb2d551b",
        },
        Vector {
            cipher: Cipher::ChaCha20Poly1305,
            key: "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
            nonce: "070000004041424344454647",
            aad: "50515253c0c1c2c3c4c5c6c7",
            plain: "4c616469657320616e642047656e746c656d656e206f662074686520636c6173\
                73206f66202739393a204966204920636f756c64206f6666657220796f75206f\
                6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73\
                637265656e20776f756c642062652069742e",
            sealed: "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6\
                3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36\
                92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc\
                3ff4def08e4b7a9de576d26586cec64b6116",
            tag: "1ae10b594f09e26a7e902ecbd0600691",
        },
    ];

    #[test]
    fn published_vectors() {
        for vector in &VECTORS {
            let aead = aws_lc(vector.cipher, &hex(vector.key)).expect("the key fits");
            let nonce = hex(vector.nonce).try_into().expect("12 bytes");
            let mut bytes = hex(vector.plain);
            let tag = aead.seal(nonce, &hex(vector.aad), &mut bytes).expect("seals");
            assert_eq!(bytes, hex(vector.sealed), "{}", vector.cipher);
            assert_eq!(tag.to_vec(), hex(vector.tag), "{}", vector.cipher);
            aead.open(nonce, &hex(vector.aad), &tag, &mut bytes).expect("opens");
            assert_eq!(bytes, hex(vector.plain));
            let mut wrong = tag;
            wrong[15] ^= 1;
            assert_eq!(aead.open(nonce, &hex(vector.aad), &wrong, &mut bytes), Err(AeadError::Refused));
        }
    }

    #[test]
    fn keys_of_the_wrong_length_are_refused() {
        let error = aws_lc(Cipher::Aes256Gcm, &[0; 16]).err().expect("refused");
        assert_eq!(error.to_string(), "a key of 16 bytes was given for AES-256-GCM, which needs 32");
    }
}
