//! Signatures by RSA with PKCS #1 v1.5 and SHA-1 (RFC 8017 section 8.2.1), which AWS-LC verifies and does not make.
//!
//! The power is computed in constant time, without the Chinese remainder theorem: no prime of the key takes part, so that a fault in
//! the computation shows none. [`super::CertificateKey::sign_sha1`] verifies each signature before it is given out.

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::signature::RsaKeyPair;
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};
use zeroize::Zeroize as _;

use super::Digest;
use crate::der_values::{Values, tag};

/// The `DigestInfo` of SHA-1 without the digest (RFC 8017 section 9.2 note 1).
const DIGEST_INFO: [u8; 15] = [0x30, 0x21, 0x30, 0x09, 6, 5, 0x2b, 0x0e, 3, 2, 0x1a, 5, 0, 4, 0x14];
/// Fewest bytes of the padding (RFC 8017 section 9.2).
const LEAST_PADDING: usize = 8;

/// The signature of a message; `None` if the key cannot be read.
pub(super) fn sign(pair: &RsaKeyPair, message: &[u8]) -> Option<Vec<u8>> {
    let encoded = encode(&Digest::Sha1.of(message), pair.public_modulus_len())?;
    let der: Pkcs8V1Der<'_> = pair.as_der().ok()?;
    power(der.as_ref(), &encoded)
}

/// The encoded message (RFC 8017 section 9.2), as long as the modulus.
fn encode(digest: &[u8], length: usize) -> Option<Vec<u8>> {
    let padding = length.checked_sub(3 + DIGEST_INFO.len() + digest.len())?;
    (padding >= LEAST_PADDING)
        .then(|| [&[0, 1][..], &vec![0xff; padding], &[0], &DIGEST_INFO, digest].concat())
}

/// An encoded message to the power of the private exponent. `pkcs8` is the key.
fn power(pkcs8: &[u8], encoded: &[u8]) -> Option<Vec<u8>> {
    let (modulus, exponent) = numbers(pkcs8)?;
    if modulus.len() != encoded.len() {
        return None;
    }
    let number = |bytes: &[u8]| {
        let bits = u32::try_from(bytes.len().checked_mul(8)?).ok()?;
        BoxedUint::from_be_slice(bytes, bits).ok()
    };
    let modulus = Option::<Odd<BoxedUint>>::from(Odd::new(number(modulus)?))?;
    let params = BoxedMontyParams::new_vartime(modulus);
    let mut exponent = number(exponent)?;
    let signature = BoxedMontyForm::new(number(encoded)?, &params).pow(&exponent).retrieve();
    exponent.zeroize();
    Some(signature.to_be_bytes().to_vec())
}

/// The modulus and the private exponent of a key in PKCS #8 (RFC 5208 section 5, RFC 8017 appendix A.1.2).
fn numbers(pkcs8: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut outer = Values::inside(tag::SEQUENCE, pkcs8)?;
    outer.take(tag::INTEGER)?;
    outer.take(tag::SEQUENCE)?;
    let mut key = Values::inside(tag::SEQUENCE, outer.take(tag::OCTET_STRING)?.content)?;
    key.take(tag::INTEGER)?;
    let mut unsigned = || {
        let content = key.take(tag::INTEGER)?.content;
        Some(content.strip_prefix(&[0]).unwrap_or(content))
    };
    let (modulus, _, exponent) = (unsigned()?, unsigned()?, unsigned()?);
    Some((modulus, exponent))
}

#[cfg(test)]
mod tests {
    use rustls_pki_types::CertificateDer;

    use super::super::{Scheme, Sha1, SignatureError, Signed, verify};
    use super::*;
    use crate::PrivateKey;

    macro_rules! data {
        ($name:literal) => {
            include_bytes!(concat!("../../tests/data/", $name)).as_slice()
        };
    }

    fn pair() -> RsaKeyPair {
        let PrivateKey::Plain(key) = PrivateKey::read(data!("private_key/rsa2048.key")).unwrap() else {
            panic!("a key")
        };
        RsaKeyPair::from_pkcs8(key.secret_der()).unwrap()
    }

    fn judge(signature: &[u8], sha1: Sha1) -> Result<(), SignatureError> {
        let certificate = CertificateDer::from(data!("signature/rsa.der"));
        let scheme = Scheme::RsaPkcs1(Digest::Sha1);
        verify(&certificate, &Signed { message: b"message", scheme, signature }, sha1)
    }

    #[test]
    fn a_signature_is_the_certificates() {
        let signature = sign(&pair(), b"message").unwrap();
        assert_eq!(judge(&signature, Sha1::Accepted), Ok(()));
        assert_eq!(judge(&signature, Sha1::Refused), Err(SignatureError::Sha1));
    }

    /// CVE-2018-16151, CVE-2018-16152, CVE-2018-17540: encodings that a lax parser takes.
    #[test]
    fn another_encoding_than_the_exact_one_is_refused() {
        let pair = pair();
        let (digest, length) = (Digest::Sha1.of(b"message"), pair.public_modulus_len());
        let exact = encode(&digest, length).unwrap();
        let der: Pkcs8V1Der<'_> = pair.as_der().unwrap();
        assert_eq!(judge(&power(der.as_ref(), &exact).unwrap(), Sha1::Accepted), Ok(()));
        let padded = |info: &[u8], after: &[u8]| {
            let padding = length - 3 - info.len() - digest.len() - after.len();
            [&[0, 1][..], &vec![0xff; padding], &[0], info, &digest, after].concat()
        };
        let changed = |at: usize, value: u8| {
            let mut changed = exact.clone();
            changed[at] = value;
            changed
        };
        let without_null = [&[0x30, 0x1f, 0x30, 7][..], &DIGEST_INFO[4..11], &[4, 0x14]].concat();
        let long_length = [&[0x30, 0x81, 0x21][..], &DIGEST_INFO[2..]].concat();
        for wrong in [
            changed(1, 2),
            changed(2, 0xfe),
            changed(100, 0),
            changed(length - digest.len() - 16, 0xff),
            changed(length - 1, digest[19] ^ 1),
            padded(&without_null, &[]),
            padded(&long_length, &[]),
            padded(&DIGEST_INFO, &[0]),
            padded(&DIGEST_INFO, &[7; 190]),
            padded(&[4, 0x14], &[]),
        ] {
            let signature = power(der.as_ref(), &wrong).unwrap();
            assert_eq!(judge(&signature, Sha1::Accepted), Err(SignatureError::Forged), "{wrong:02x?}");
        }
    }

    #[test]
    fn a_modulus_too_short_for_the_encoding_is_refused() {
        assert!(encode(&[0; 20], 45).is_none() && encode(&[0; 20], 46).is_some());
    }
}
