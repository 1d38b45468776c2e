//! HMAC, which authenticates the bytes that a cipher that is no AEAD encrypts, and the keys that are derived
//! with it.

use adit_core::Digest;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use aws_lc_rs::hmac;

use crate::aead::AeadError;

/// A key of an HMAC (RFC 2104).
pub struct Mac {
    key: hmac::Key,
    len: usize,
}

impl Mac {
    /// An HMAC as long as its digest.
    pub fn new(digest: Digest, key: &[u8]) -> Self {
        Mac::truncated(digest, key, digest.output_len())
    }

    /// An HMAC of which the first `len` bytes are sent (RFC 2104 §5), at most as many as the digest has.
    pub fn truncated(digest: Digest, key: &[u8], len: usize) -> Self {
        let algorithm = match digest {
            Digest::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Digest::Sha224 => hmac::HMAC_SHA224,
            Digest::Sha256 => hmac::HMAC_SHA256,
            Digest::Sha384 => hmac::HMAC_SHA384,
            Digest::Sha512 => hmac::HMAC_SHA512,
        };
        Mac { key: hmac::Key::new(algorithm, key), len: len.min(digest.output_len()) }
    }

    /// Bytes that are sent.
    #[inline]
    pub fn sent_len(&self) -> usize {
        self.len
    }

    /// Writes the HMAC of a message that lies in two parts. `None` if `mac` has not [`Mac::sent_len`] bytes.
    #[inline]
    pub fn sign(&self, message: [&[u8]; 2], mac: &mut [u8]) -> Option<()> {
        let tag = self.tag(message);
        let sent = tag.as_ref().get(..self.len)?;
        if mac.len() != sent.len() {
            return None;
        }
        mac.copy_from_slice(sent);
        Some(())
    }

    /// Compares the HMAC of a message in two parts with the one that was sent, in constant time.
    ///
    /// # Errors
    /// They differ.
    #[inline]
    pub fn verify(&self, message: [&[u8]; 2], mac: &[u8]) -> Result<(), AeadError> {
        let tag = self.tag(message);
        let sent = tag.as_ref().get(..self.len).ok_or(AeadError::Refused)?;
        verify_slices_are_equal(sent, mac).map_err(|_| AeadError::Refused)
    }

    #[inline]
    fn tag(&self, message: [&[u8]; 2]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.key);
        message.into_iter().for_each(|part| context.update(part));
        context.sign()
    }
}

/// How many bytes are derived.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand with SHA-256 (RFC 5869 §2.3). `None` if more is wanted than it gives.
pub fn hkdf_expand(secret: &[u8], info: &[&[u8]], out: &mut [u8]) -> Option<()> {
    let prk = Prk::new_less_safe(HKDF_SHA256, secret);
    prk.expand(info, Length(out.len())).ok()?.fill(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    /// RFC 4231 §4.2 (HMAC-SHA-224 to 512) and RFC 2202 §3 (HMAC-SHA-1), test case 1 of each.
    #[test]
    fn published_vectors() {
        for (digest, expected) in [
            (Digest::Sha1, "b617318655057264e28bc0b6fb378c8ef146be00"),
            (Digest::Sha224, "896fb1128abbdf196832107cd49df33f47b4b1169912ba4f53684b22"),
            (Digest::Sha256, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                Digest::Sha384,
                "afd03944d84895626b0825f4ab46907f15f9dadbe4101ec682aa034c7cebc59c\
                 faea9ea9076ede7f4af152e8b2fa9cb6",
            ),
            (
                Digest::Sha512,
                "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cde\
                 daa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
            ),
        ] {
            let expected = hex(expected);
            for len in [12, 16, expected.len()] {
                let mac = Mac::truncated(digest, &[0x0b; 20], len);
                for message in [[&b"Hi There"[..], b""], [b"Hi", b" There"]] {
                    let mut signed = vec![0; len];
                    mac.sign(message, &mut signed).expect("it is as long");
                    assert_eq!(signed, expected[..len], "{digest}");
                    assert_eq!(mac.verify(message, &signed), Ok(()));
                    signed[len - 1] ^= 1;
                    assert_eq!(mac.verify(message, &signed), Err(AeadError::Refused));
                    assert_eq!(mac.verify(message, &signed[..len - 1]), Err(AeadError::Refused));
                }
            }
        }
        assert_eq!(Mac::new(Digest::Sha256, &[7; 32]).sign([b"", b""], &mut [0; 31]), None);
    }

    /// RFC 5869, A.1.
    #[test]
    fn hkdf_expand_vector() {
        let secret = hex("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5");
        let mut out = [0; 42];
        hkdf_expand(&secret, &[&hex("f0f1f2f3f4f5f6f7f8f9")], &mut out).expect("short enough");
        let expected = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
        assert_eq!(out.to_vec(), hex(expected));
    }
}
