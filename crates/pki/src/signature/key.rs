//! The private key of a certificate, wherever it is held.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use rustls_pki_types::CertificateDer;
use thiserror::Error;

use super::public_key::KeyKind;
use super::{Digest, Scheme, Sha1, Signed, verify};

/// The lengths of RSA keys in bits whose signatures AWS-LC verifies, at this end and at the peer's.
const RSA_BITS: RangeInclusive<usize> = 2048..=8192;

/// RSA's schemes, the strongest first, and PSS before PKCS #1 v1.5.
const RSA: &[Scheme] = &[
    Scheme::RsaPss(Digest::Sha512),
    Scheme::RsaPss(Digest::Sha384),
    Scheme::RsaPss(Digest::Sha256),
    Scheme::RsaPkcs1(Digest::Sha512),
    Scheme::RsaPkcs1(Digest::Sha384),
    Scheme::RsaPkcs1(Digest::Sha256),
];
/// The schemes of keys for PSS alone: SHA-256 first, which every peer has.
const RSA_PSS: &[Scheme] =
    &[Scheme::RsaPss(Digest::Sha256), Scheme::RsaPss(Digest::Sha384), Scheme::RsaPss(Digest::Sha512)];

/// Signs with a private key, which it holds or knows to ask for.
pub trait KeyHolder: fmt::Debug + Send + Sync {
    /// Whether it signs by this scheme, which fits the key, without being asked for it by [`CertificateKey::sign_sha1`].
    fn signs_by(&self, scheme: Scheme) -> bool;

    /// Signs `message`, which is not hashed yet, with the key, which is of that kind. May wait as long as a person needs.
    ///
    /// # Errors
    /// Why there is no signature, for the log.
    fn sign(&self, kind: KeyKind, scheme: Scheme, message: &[u8]) -> Result<Vec<u8>, String>;
}

/// The reason why the key of a certificate cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The certificate cannot be read, or its key is of a kind that is not supported.
    #[error("{0}")]
    Certificate(String),
    /// The RSA key is too short or too long.
    #[error("it is an RSA key of {bits} bits; adit accepts {} to {} bits", RSA_BITS.start(), RSA_BITS.end())]
    Length {
        /// The length of the modulus in bits.
        bits: usize,
    },
    /// The holder signs by no scheme of the key.
    #[error("its holder makes no signatures of the kind that {0:?} needs")]
    Holder(KeyKind),
}

/// The reason why there is no signature.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SignError {
    /// The holder of the key did not sign, and says why.
    #[error("{0}")]
    Holder(String),
    /// The signature that the holder made is not of the certificate's key.
    #[error(
        "the signature that was made for our certificate ({0}) is not of the certificate's key: certificate and key were mixed up, \
         or the signature has another form"
    )]
    NotOfTheCertificate(Scheme),
}

/// The private key of a certificate. Copies share the holder.
#[derive(Clone, Debug)]
pub struct CertificateKey {
    certificate: CertificateDer<'static>,
    kind: KeyKind,
    schemes: Vec<Scheme>,
    holder: Arc<dyn KeyHolder>,
}

impl CertificateKey {
    /// The key of `certificate`, with which `holder` signs.
    ///
    /// # Errors
    /// When the certificate's key is not supported, or the holder signs by none of the key's schemes.
    pub fn new(certificate: CertificateDer<'static>, holder: Arc<dyn KeyHolder>) -> Result<Self, KeyError> {
        let kind = KeyKind::of(&certificate).map_err(KeyError::Certificate)?;
        if let Some(bits) = kind.modulus_bits().filter(|bits| !RSA_BITS.contains(bits)) {
            return Err(KeyError::Length { bits });
        }
        let all: &[Scheme] = match kind {
            KeyKind::Rsa { .. } => RSA,
            KeyKind::RsaPss { .. } => RSA_PSS,
            KeyKind::EcdsaP256 => &[Scheme::Ecdsa(Digest::Sha256)],
            KeyKind::EcdsaP384 => &[Scheme::Ecdsa(Digest::Sha384)],
            KeyKind::EcdsaP521 => &[Scheme::Ecdsa(Digest::Sha512)],
            KeyKind::Ed25519 => &[Scheme::Ed25519],
        };
        let is_made = |scheme: &Scheme| kind.makes(*scheme) && holder.signs_by(*scheme);
        let schemes: Vec<Scheme> = all.iter().copied().filter(is_made).collect();
        if schemes.is_empty() {
            return Err(KeyError::Holder(kind));
        }
        Ok(CertificateKey { certificate, kind, schemes, holder })
    }

    /// The certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The kind of the key.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The schemes by which it signs, in order of preference; at least one.
    pub fn schemes(&self) -> &[Scheme] {
        &self.schemes
    }

    /// Signs `message`, which is not hashed yet. May wait as long as the key's holder does.
    ///
    /// # Errors
    /// When the holder does not sign, or signs with another key than the certificate's, which the peer would report as a wrong
    /// signature and no more.
    pub fn sign(&self, scheme: Scheme, message: &[u8]) -> Result<Vec<u8>, SignError> {
        self.sign_by(scheme, message, Sha1::Refused)
    }

    /// Signs `message` by RSA with PKCS #1 v1.5 and SHA-1, for peers that verify no other signature. An RSA key in memory alone does so.
    ///
    /// # Errors
    /// The errors of [`Self::sign`].
    pub fn sign_sha1(&self, message: &[u8]) -> Result<Vec<u8>, SignError> {
        self.sign_by(Scheme::RsaPkcs1(Digest::Sha1), message, Sha1::Accepted)
    }

    fn sign_by(&self, scheme: Scheme, message: &[u8], sha1: Sha1) -> Result<Vec<u8>, SignError> {
        let signature = self.holder.sign(self.kind, scheme, message).map_err(SignError::Holder)?;
        let signed = Signed { message, scheme, signature: &signature };
        match verify(&self.certificate, &signed, sha1) {
            Ok(()) => Ok(signature),
            Err(_) => Err(SignError::NotOfTheCertificate(scheme)),
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    /// A holder that makes a signature of its own, whatever it is asked for.
    #[derive(Debug)]
    struct Stub(Result<Vec<u8>, String>, Option<Scheme>);

    impl KeyHolder for Stub {
        fn signs_by(&self, scheme: Scheme) -> bool {
            self.1 == Some(scheme)
        }

        fn sign(&self, _: KeyKind, _: Scheme, _: &[u8]) -> Result<Vec<u8>, String> {
            self.0.clone()
        }
    }

    fn certificate() -> CertificateDer<'static> {
        let key = KeyPair::generate().expect("a key");
        CertificateParams::default().self_signed(&key).expect("a certificate").der().clone()
    }

    #[test]
    fn a_holder_is_asked_by_the_schemes_of_the_key_alone() {
        let scheme = Scheme::Ecdsa(Digest::Sha256);
        let stub = |answer, scheme| Arc::new(Stub(answer, scheme));
        let key = CertificateKey::new(certificate(), stub(Err("no".to_owned()), Some(scheme))).unwrap();
        assert_eq!((key.kind(), key.schemes()), (KeyKind::EcdsaP256, &[scheme][..]));
        assert_eq!(key.sign(scheme, b"message"), Err(SignError::Holder("no".to_owned())));
        let other = stub(Ok(Vec::new()), Some(Scheme::Ed25519));
        assert_eq!(
            CertificateKey::new(certificate(), other).unwrap_err(),
            KeyError::Holder(KeyKind::EcdsaP256)
        );
    }

    #[test]
    fn a_signature_by_another_key_is_not_given_out() {
        let scheme = Scheme::Ecdsa(Digest::Sha256);
        let holder = Arc::new(Stub(Ok(vec![0x30, 6, 2, 1, 1, 2, 1, 1]), Some(scheme)));
        let key = CertificateKey::new(certificate(), holder).unwrap();
        assert_eq!(key.sign(scheme, b"message"), Err(SignError::NotOfTheCertificate(scheme)));
    }

    #[test]
    fn lengths_that_are_refused_are_named() {
        let error = KeyError::Length { bits: 1024 }.to_string();
        assert_eq!(error, "it is an RSA key of 1024 bits; adit accepts 2048 to 8192 bits");
        for (bits, is_accepted) in [(2047, false), (2048, true), (8192, true), (8193, false)] {
            assert_eq!(RSA_BITS.contains(&bits), is_accepted);
        }
    }
}
