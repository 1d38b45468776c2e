//! The bytes before and around a digest before an RSA key signs it (RFC 8017 section 9).

use adit_pki::signature::{Digest, Scheme};
use aws_lc_rs::digest::{self, SHA256, SHA384, SHA512};

use crate::pkcs11::Hash;

impl Hash {
    /// The hash of a scheme. `None`: SHA-1.
    fn of(digest: Digest) -> Option<Self> {
        match digest {
            Digest::Sha1 => None,
            Digest::Sha256 => Some(Hash::Sha256),
            Digest::Sha384 => Some(Hash::Sha384),
            Digest::Sha512 => Some(Hash::Sha512),
        }
    }

    fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Hash::Sha256 => &SHA256,
            Hash::Sha384 => &SHA384,
            Hash::Sha512 => &SHA512,
        }
    }

    /// Its name in OpenSSL.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Hash::Sha256 => "SHA256",
            Hash::Sha384 => "SHA384",
            Hash::Sha512 => "SHA512",
        }
    }

    /// Its length in bytes.
    pub(super) fn length(self) -> usize {
        self.algorithm().output_len()
    }

    pub(super) fn digest(self, message: &[u8]) -> Vec<u8> {
        digest::digest(self.algorithm(), message).as_ref().to_vec()
    }

    /// The bytes before the digest in its DigestInfo (RFC 8017 section 9.2, note 1).
    const fn prefix(self) -> [u8; 19] {
        // The length of all, the end of the OID, the length of the digest.
        let (a, b, c) = match self {
            Hash::Sha256 => (0x31, 1, 0x20),
            Hash::Sha384 => (0x41, 2, 0x30),
            Hash::Sha512 => (0x51, 3, 0x40),
        };
        [
            0x30, a, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, b, 0x05, 0x00,
            0x04, c,
        ]
    }
}

/// The input and the padding of a scheme's signature, in the words that programs at the management socket and PKCS #11 have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// RSA with the padding of PKCS #1 v1.5.
    Pkcs1(Hash),
    /// RSA with the padding of PSS, and a salt as long as the digest.
    Pss(Hash),
    Ecdsa(Hash),
    Ed25519,
}

impl Kind {
    /// The kind of a scheme; `None` for one of SHA-1, by which adit does not sign.
    pub(super) fn of(scheme: Scheme) -> Option<Self> {
        Some(match scheme {
            Scheme::RsaPkcs1(digest) => Kind::Pkcs1(Hash::of(digest)?),
            Scheme::RsaPss(digest) => Kind::Pss(Hash::of(digest)?),
            Scheme::Ecdsa(digest) => Kind::Ecdsa(Hash::of(digest)?),
            Scheme::Ed25519 => Kind::Ed25519,
        })
    }

    /// The digest, if the message is not signed as it is.
    pub(super) const fn hash(self) -> Option<Hash> {
        match self {
            Kind::Pkcs1(hash) | Kind::Pss(hash) | Kind::Ecdsa(hash) => Some(hash),
            Kind::Ed25519 => None,
        }
    }
}

/// The DigestInfo of a message.
pub(super) fn digest_info(hash: Hash, message: &[u8]) -> Vec<u8> {
    [&hash.prefix()[..], &hash.digest(message)].concat()
}

/// The block that a key with a modulus of so many bits signs by PKCS #1 v1.5 (RFC 8017 section 9.2).
///
/// # Errors
/// When the key is too short.
pub(super) fn pkcs1_block(hash: Hash, message: &[u8], bits: usize) -> Result<Vec<u8>, String> {
    let info = digest_info(hash, message);
    let padding = bits.div_ceil(8).checked_sub(info.len() + 3).filter(|padding| *padding >= 8);
    let padding = padding.ok_or_else(|| too_short(bits))?;
    Ok([&[0_u8, 1][..], &vec![0xff; padding], &[0], &info].concat())
}

/// The block that a key with a modulus of so many bits signs by PSS with that salt (RFC 8017 section 9.1.1, MGF1 with
/// the same digest), as long as the modulus.
///
/// # Errors
/// When the key is too short.
pub(super) fn pss_block(hash: Hash, message: &[u8], salt: &[u8], bits: usize) -> Result<Vec<u8>, String> {
    let encoded_bits = bits.saturating_sub(1);
    let length = encoded_bits.div_ceil(8);
    let fixed = hash.length() + salt.len() + 2;
    let zeros = length.checked_sub(fixed).ok_or_else(|| too_short(bits))?;
    let salted = hash.digest(&[&[0_u8; 8][..], &hash.digest(message), salt].concat());
    let mut block = [&vec![0_u8; zeros][..], &[1], salt].concat();
    let mask = mgf1(hash, &salted, block.len());
    block.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    if let Some(first) = block.first_mut() {
        *first &= 0xff_u8 >> (8 * length - encoded_bits);
    }
    block.extend_from_slice(&salted);
    block.push(0xbc);
    // One byte more where the modulus has a bit alone in its first.
    let before = bits.div_ceil(8) - length;
    Ok([&vec![0_u8; before][..], &block].concat())
}

/// RFC 8017 appendix B.2.1.
fn mgf1(hash: Hash, seed: &[u8], length: usize) -> Vec<u8> {
    let mut mask = Vec::with_capacity(length + hash.length());
    let mut counter = 0_u32;
    while mask.len() < length {
        mask.extend(hash.digest(&[seed, &counter.to_be_bytes()].concat()));
        counter += 1;
    }
    mask.truncate(length);
    mask
}

fn too_short(bits: usize) -> String {
    format!("an RSA key of {bits} bits is too short for this signature")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest of what is padded for that key, and how long it is. The first was signed without padding by OpenSSL 3.0 and
    /// verified as a PSS signature.
    #[test]
    fn pss_as_openssl_verifies_it() {
        let salt: Vec<u8> = (0..32).collect();
        for (bits, length, start, digest) in [
            (2048, 256, [0x74_u8, 0x0b], "2a28b31f37849b857ab6a3f74b3a919cc8e9c3f07d79c4a807e02ae1965b1478"),
            (2047, 256, [0x34, 0x0b], "6e9e349f98ed0fcf1bc01b100ae69a9f98b92853d509c078d1a04984fc8c3453"),
            (2041, 256, [0x00, 0xf4], "62665ff7f9e0ebbac4d40f238e3593c58dc49565d0e9a9c668f7056e1f32ad70"),
            (2049, 257, [0x00, 0xf4], "15e24d8ce986f69c6241604e02445256f2e0670dd7e7f78bffab03004499ff48"),
        ] {
            let block = pss_block(Hash::Sha256, b"message", &salt, bits).expect("a long key");
            assert_eq!((block.len(), &block[..2]), (length, &start[..]), "{bits}");
            assert_eq!(adit_pki::inspect::hex(&Hash::Sha256.digest(&block)), digest, "{bits}");
        }
        assert!(pss_block(Hash::Sha512, b"message", &[0; 64], 1024).is_err());
    }

    #[test]
    fn pkcs1_fills_the_modulus() {
        let block = pkcs1_block(Hash::Sha256, b"message", 2048).expect("a long key");
        assert_eq!((block.len(), &block[..3]), (256, &[0_u8, 1, 0xff][..]));
        let info = digest_info(Hash::Sha256, b"message");
        assert_eq!(
            info[..19],
            [0x30_u8, 0x31, 0x30, 13, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1, 5, 0, 4, 32]
        );
        assert!(block.ends_with(&[&[0xff_u8, 0][..], &info].concat()));
        assert!(pkcs1_block(Hash::Sha512, b"message", 512).is_err());
    }

    #[test]
    fn schemes_are_known_by_their_parts() {
        let kind = Kind::of(Scheme::RsaPss(Digest::Sha384));
        assert_eq!(kind, Some(Kind::Pss(Hash::Sha384)));
        assert_eq!(kind.and_then(Kind::hash).map(|hash| (hash.name(), hash.length())), Some(("SHA384", 48)));
        assert_eq!(Kind::of(Scheme::RsaPkcs1(Digest::Sha1)), None);
    }
}
