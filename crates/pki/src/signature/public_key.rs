//! The kind of a certificate's key.

use std::fmt;

use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{Digest, PssParameters, Scheme};
use crate::der_values::{Values, bits, tag};

/// The kinds of keys that sign messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyKind {
    /// RSA, with a modulus of so many bits.
    Rsa {
        /// The length of the modulus in bits.
        bits: usize,
    },
    /// RSA for PSS signatures alone (RFC 4055 section 1.2).
    RsaPss {
        /// The length of the modulus in bits.
        bits: usize,
        /// The only digest that the key may sign with, if it is limited to one.
        digest: Option<Digest>,
    },
    /// ECDSA on P-256.
    EcdsaP256,
    /// ECDSA on P-384.
    EcdsaP384,
    /// ECDSA on P-521.
    EcdsaP521,
    /// Ed25519.
    Ed25519,
}

impl KeyKind {
    /// The kind of key that this certificate is for.
    ///
    /// # Errors
    /// When the certificate cannot be read, or its key is of another kind; the text is for people.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, String> {
        let (_, certificate) = X509Certificate::from_der(certificate)
            .map_err(|error| format!("the certificate cannot be read: {error}"))?;
        let key = certificate.public_key();
        let algorithm = key.algorithm.algorithm.to_id_string();
        let curve = key.algorithm.parameters.as_ref().and_then(|it| it.as_oid().ok());
        let curve = curve.map(|oid| oid.to_id_string()).unwrap_or_default();
        // RFC 3279 §2.3.1, RFC 5480 §2.1.1, RFC 8410 §3.
        match (algorithm.as_str(), curve.as_str()) {
            ("1.2.840.113549.1.1.1", _) => {
                Ok(KeyKind::Rsa { bits: modulus_bits(&key.subject_public_key.data)? })
            }
            ("1.2.840.113549.1.1.10", _) => {
                let bits = modulus_bits(&key.subject_public_key.data)?;
                let limits = key.algorithm.parameters.as_ref().map(|it| pss_digest(it.data)).transpose()?;
                Ok(KeyKind::RsaPss { bits, digest: limits })
            }
            ("1.2.840.10045.2.1", "1.2.840.10045.3.1.7") => Ok(KeyKind::EcdsaP256),
            ("1.2.840.10045.2.1", "1.3.132.0.34") => Ok(KeyKind::EcdsaP384),
            ("1.2.840.10045.2.1", "1.3.132.0.35") => Ok(KeyKind::EcdsaP521),
            ("1.3.101.112", _) => Ok(KeyKind::Ed25519),
            _ => Err(format!(
                "the certificate's key ({algorithm} {curve}) is neither RSA nor ECDSA on P-256, P-384 or P-521 nor Ed25519"
            )),
        }
    }
}

impl KeyKind {
    /// Whether keys of this kind may make signatures of that scheme.
    pub fn makes(self, scheme: Scheme) -> bool {
        match (self, scheme) {
            (KeyKind::Rsa { .. }, Scheme::RsaPkcs1(_) | Scheme::RsaPss(_)) => true,
            (KeyKind::RsaPss { digest: limit, .. }, Scheme::RsaPss(digest)) => {
                limit.is_none_or(|limit| limit == digest)
            }
            (KeyKind::EcdsaP256 | KeyKind::EcdsaP384 | KeyKind::EcdsaP521, Scheme::Ecdsa(_)) => true,
            (KeyKind::Ed25519, Scheme::Ed25519) => true,
            _ => false,
        }
    }

    /// The length of an RSA key's modulus in bits.
    pub fn modulus_bits(self) -> Option<usize> {
        match self {
            KeyKind::Rsa { bits } | KeyKind::RsaPss { bits, .. } => Some(bits),
            KeyKind::EcdsaP256 | KeyKind::EcdsaP384 | KeyKind::EcdsaP521 | KeyKind::Ed25519 => None,
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyKind::Rsa { bits } => write!(f, "an RSA key of {bits} bits"),
            KeyKind::RsaPss { bits, digest: None } => write!(f, "an RSA-PSS key of {bits} bits"),
            KeyKind::RsaPss { bits, digest: Some(digest) } => {
                write!(f, "an RSA-PSS key of {bits} bits for {digest}")
            }
            KeyKind::EcdsaP256 => f.write_str("an ECDSA key on P-256"),
            KeyKind::EcdsaP384 => f.write_str("an ECDSA key on P-384"),
            KeyKind::EcdsaP521 => f.write_str("an ECDSA key on P-521"),
            KeyKind::Ed25519 => f.write_str("an Ed25519 key"),
        }
    }
}

/// The length of the modulus of an RSAPublicKey (RFC 8017 appendix A.1.1).
fn modulus_bits(der: &[u8]) -> Result<usize, String> {
    let modulus = || Some(Values::inside(tag::SEQUENCE, der)?.take(tag::INTEGER)?.content);
    modulus().map(bits).ok_or_else(|| "the RSA key of the certificate cannot be read".to_owned())
}

/// The only digest that parameters of an RSA-PSS key allow. Their salt is the shortest that is allowed (RFC 4055 section 3.3).
fn pss_digest(parameters: &[u8]) -> Result<Digest, String> {
    let fits = |it: &PssParameters| {
        it.digest != Digest::Sha1 && it.mask_digest == it.digest && it.salt <= it.digest.output_len()
    };
    PssParameters::read(parameters).filter(fits).map(|it| it.digest).ok_or_else(|| {
        "the certificate's RSA-PSS key is limited to a digest, a mask or a salt that is not supported"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_certificates_key() {
        use rcgen::{CertificateParams, KeyPair};
        for (algorithm, kind) in [
            (&rcgen::PKCS_ECDSA_P256_SHA256, KeyKind::EcdsaP256),
            (&rcgen::PKCS_ECDSA_P384_SHA384, KeyKind::EcdsaP384),
            (&rcgen::PKCS_ED25519, KeyKind::Ed25519),
            (&rcgen::PKCS_RSA_SHA256, KeyKind::Rsa { bits: 2048 }),
        ] {
            let key = KeyPair::generate_for(algorithm).expect("a key");
            let certificate = CertificateParams::default().self_signed(&key).expect("a certificate");
            assert_eq!(KeyKind::of(certificate.der()), Ok(kind));
        }
        assert!(KeyKind::of(&CertificateDer::from(vec![0x30, 0])).is_err());
    }
}
