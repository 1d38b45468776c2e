//! What kind of key a certificate is for.

use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::public_key::PublicKey;

/// The kinds of keys that sign TLS handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyKind {
    /// RSA, with a modulus of so many bits.
    Rsa {
        /// The length of the modulus in bits.
        bits: usize,
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
            ("1.2.840.113549.1.1.1", _) => match key.parsed() {
                Ok(PublicKey::RSA(rsa)) => Ok(KeyKind::Rsa { bits: bits(rsa.modulus) }),
                _ => Err("the RSA key of the certificate cannot be read".to_owned()),
            },
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

/// The length of a number in bits, its bytes in the order of the network.
pub(crate) fn bits(number: &[u8]) -> usize {
    let first = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
    let digits = number.get(first..).unwrap_or_default();
    match digits.first() {
        None => 0,
        Some(byte) => digits.len() * 8 - byte.leading_zeros() as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_from_the_first_one() {
        let cases: [(&[u8], usize); 5] =
            [(&[], 0), (&[0, 0], 0), (&[0, 0x80, 0], 16), (&[0x7f, 0xff], 15), (&[1], 1)];
        for (number, length) in cases {
            assert_eq!(bits(number), length, "{number:?}");
        }
    }

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
