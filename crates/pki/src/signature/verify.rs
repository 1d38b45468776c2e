//! The verification of a signature by a certificate's key.

use aws_lc_rs::signature::{self as aws, UnparsedPublicKey, VerificationAlgorithm};
use rustls_pki_types::CertificateDer;
use thiserror::Error;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::public_key::KeyKind;
use super::{Digest, Scheme};

/// A message with the signature over it.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// The message, which is not hashed yet.
    pub message: &'a [u8],
    /// The scheme of the signature.
    pub scheme: Scheme,
    /// The signature.
    pub signature: &'a [u8],
}

/// Whether signatures of the digest SHA-1 are accepted, which others can forge where they choose a part of the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sha1 {
    /// Such signatures are refused.
    #[default]
    Refused,
    /// Such signatures are accepted, as peers make no others.
    Accepted,
}

/// The reason why a signature is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SignatureError {
    /// The certificate cannot be read, or its key makes no signatures that are supported.
    #[error("{0}")]
    Certificate(String),
    /// The scheme is SHA-1's, which is not accepted.
    #[error("signatures with SHA-1 are not accepted")]
    Sha1,
    /// The certificate's key makes no signatures of this scheme.
    #[error("{kind} makes no signature of the scheme {scheme}")]
    Scheme {
        /// The certificate's key.
        kind: KeyKind,
        /// The scheme.
        scheme: Scheme,
    },
    /// The certificate's key did not make the signature of this message.
    #[error("the certificate's key did not make the signature")]
    Forged,
}

/// Verifies that the key of a certificate signed a message. Whether the certificate is trusted is another question
/// ([`crate::Verifier`]).
///
/// # Errors
/// When the key did not sign the message, or the scheme is not accepted.
pub fn verify(
    certificate: &CertificateDer<'_>,
    signed: &Signed<'_>,
    sha1: Sha1,
) -> Result<(), SignatureError> {
    let kind = KeyKind::of(certificate).map_err(SignatureError::Certificate)?;
    if signed.scheme.digest() == Some(Digest::Sha1) && sha1 == Sha1::Refused {
        return Err(SignatureError::Sha1);
    }
    let unfit = SignatureError::Scheme { kind, scheme: signed.scheme };
    let algorithm = algorithm(kind, signed.scheme).ok_or(unfit)?;
    // [`KeyKind::of`] has read it already.
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
        return Err(SignatureError::Certificate("the certificate cannot be read".to_owned()));
    };
    let key = UnparsedPublicKey::new(algorithm, &certificate.public_key().subject_public_key.data);
    key.verify(signed.message, signed.signature).map_err(|_| SignatureError::Forged)
}

/// AWS-LC's algorithm for a scheme with a key of that kind. RSA keys have 2048 to 8192 bits there.
fn algorithm(kind: KeyKind, scheme: Scheme) -> Option<&'static dyn VerificationAlgorithm> {
    if !kind.makes(scheme) {
        return None;
    }
    let algorithm: &'static dyn VerificationAlgorithm = match (scheme, kind) {
        (Scheme::RsaPkcs1(Digest::Sha1), _) => &aws::RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
        (Scheme::RsaPkcs1(Digest::Sha256), _) => &aws::RSA_PKCS1_2048_8192_SHA256,
        (Scheme::RsaPkcs1(Digest::Sha384), _) => &aws::RSA_PKCS1_2048_8192_SHA384,
        (Scheme::RsaPkcs1(Digest::Sha512), _) => &aws::RSA_PKCS1_2048_8192_SHA512,
        (Scheme::RsaPss(Digest::Sha256), _) => &aws::RSA_PSS_2048_8192_SHA256,
        (Scheme::RsaPss(Digest::Sha384), _) => &aws::RSA_PSS_2048_8192_SHA384,
        (Scheme::RsaPss(Digest::Sha512), _) => &aws::RSA_PSS_2048_8192_SHA512,
        (Scheme::Ecdsa(Digest::Sha256), KeyKind::EcdsaP256) => &aws::ECDSA_P256_SHA256_ASN1,
        (Scheme::Ecdsa(Digest::Sha384), KeyKind::EcdsaP256) => &aws::ECDSA_P256_SHA384_ASN1,
        (Scheme::Ecdsa(Digest::Sha512), KeyKind::EcdsaP256) => &aws::ECDSA_P256_SHA512_ASN1,
        (Scheme::Ecdsa(Digest::Sha256), KeyKind::EcdsaP384) => &aws::ECDSA_P384_SHA256_ASN1,
        (Scheme::Ecdsa(Digest::Sha384), KeyKind::EcdsaP384) => &aws::ECDSA_P384_SHA384_ASN1,
        (Scheme::Ecdsa(Digest::Sha512), KeyKind::EcdsaP384) => &aws::ECDSA_P384_SHA512_ASN1,
        (Scheme::Ecdsa(Digest::Sha256), KeyKind::EcdsaP521) => &aws::ECDSA_P521_SHA256_ASN1,
        (Scheme::Ecdsa(Digest::Sha384), KeyKind::EcdsaP521) => &aws::ECDSA_P521_SHA384_ASN1,
        (Scheme::Ecdsa(Digest::Sha512), KeyKind::EcdsaP521) => &aws::ECDSA_P521_SHA512_ASN1,
        (Scheme::Ed25519, _) => &aws::ED25519,
        (Scheme::RsaPss(Digest::Sha1) | Scheme::Ecdsa(_), _) => return None,
    };
    Some(algorithm)
}
