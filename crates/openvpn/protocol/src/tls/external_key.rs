//! A private key that is held elsewhere: by a program at the management socket, or on a smart card.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use adit_pki::KeyKind;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, OtherError, SignatureAlgorithm, SignatureScheme};
use webpki::EndEntityCert;

/// The lengths of RSA keys in bits whose signatures AWS-LC verifies, at our end and at a server's.
const RSA_BITS: RangeInclusive<usize> = 2048..=8192;

/// RSA's schemes, in the order in which rustls prefers them for keys of its own.
const RSA: &[SignatureScheme] = &[
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PKCS1_SHA512,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA256,
];

/// Signs with our private key, which it holds or knows to ask for.
pub trait KeyHolder: fmt::Debug + Send + Sync {
    /// Whether it signs by this scheme, which fits the key.
    fn signs_by(&self, scheme: SignatureScheme) -> bool;

    /// Signs `message`, which is not hashed yet, with our key, which is of that kind. Gives the signature in the form of TLS
    /// (RFC 8446 §4.2.3: ECDSA in DER). May wait as long as a person needs; it is called in [`super::TlsStep::run`].
    ///
    /// # Errors
    /// Why there is no signature, for the log.
    fn sign(&self, kind: KeyKind, scheme: SignatureScheme, message: &[u8]) -> Result<Vec<u8>, String>;
}

/// Why a key that is held elsewhere cannot be used, or did not sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyError(pub(crate) String);

impl std::error::Error for KeyError {}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The key of a certificate, as rustls signs with it.
#[derive(Clone, Debug)]
pub(crate) struct ExternalKey {
    certificate: CertificateDer<'static>,
    kind: KeyKind,
    schemes: Vec<SignatureScheme>,
    holder: Arc<dyn KeyHolder>,
}

impl ExternalKey {
    /// The key of `certificate`.
    ///
    /// # Errors
    /// When the certificate's key, or what its holder can do, is of no use in TLS.
    pub(crate) fn new(
        certificate: &CertificateDer<'static>,
        holder: Arc<dyn KeyHolder>,
    ) -> Result<Self, KeyError> {
        let kind = KeyKind::of(certificate).map_err(KeyError)?;
        check_length(kind)?;
        let all: &[SignatureScheme] = match kind {
            KeyKind::Rsa { .. } => RSA,
            KeyKind::EcdsaP256 => &[SignatureScheme::ECDSA_NISTP256_SHA256],
            KeyKind::EcdsaP384 => &[SignatureScheme::ECDSA_NISTP384_SHA384],
            KeyKind::EcdsaP521 => &[SignatureScheme::ECDSA_NISTP521_SHA512],
            KeyKind::Ed25519 => &[SignatureScheme::ED25519],
        };
        let schemes: Vec<SignatureScheme> =
            all.iter().copied().filter(|scheme| holder.signs_by(*scheme)).collect();
        if schemes.is_empty() {
            return Err(KeyError(format!("its holder makes no signatures of the kind that {kind:?} needs")));
        }
        Ok(ExternalKey { certificate: certificate.clone(), kind, schemes, holder })
    }

    /// Whether it makes signatures as TLS 1.3 wants them, which has no RSA signatures by PKCS #1 v1.5 (RFC 8446 §4.2.3).
    pub(crate) fn can_do_tls13(&self) -> bool {
        let old = |scheme: &SignatureScheme| {
            matches!(
                *scheme,
                SignatureScheme::RSA_PKCS1_SHA256
                    | SignatureScheme::RSA_PKCS1_SHA384
                    | SignatureScheme::RSA_PKCS1_SHA512
            )
        };
        self.schemes.iter().any(|scheme| !old(scheme))
    }

    /// Whether the certificate's key made this signature. The server would say no more than that it did not.
    fn made(&self, scheme: SignatureScheme, message: &[u8], signature: &[u8]) -> bool {
        let known = aws_lc_rs::default_provider().signature_verification_algorithms.mapping;
        let Ok(certificate) = EndEntityCert::try_from(&self.certificate) else { return false };
        let algorithms = known.iter().filter(|(it, _)| *it == scheme).flat_map(|(_, all)| all.iter());
        algorithms
            .copied()
            .any(|algorithm| certificate.verify_signature(algorithm, message, signature).is_ok())
    }
}

impl SigningKey for ExternalKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let scheme = self.schemes.iter().copied().find(|scheme| offered.contains(scheme))?;
        Some(Box::new(ExternalSigner { key: self.clone(), scheme }))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        match self.kind {
            KeyKind::Rsa { .. } => SignatureAlgorithm::RSA,
            KeyKind::EcdsaP256 | KeyKind::EcdsaP384 | KeyKind::EcdsaP521 => SignatureAlgorithm::ECDSA,
            KeyKind::Ed25519 => SignatureAlgorithm::ED25519,
        }
    }
}

/// Whether a key is as long as is accepted.
fn check_length(kind: KeyKind) -> Result<(), KeyError> {
    match kind {
        KeyKind::Rsa { bits } if !RSA_BITS.contains(&bits) => {
            let (least, most) = (*RSA_BITS.start(), *RSA_BITS.end());
            Err(KeyError(format!("it is an RSA key of {bits} bits; adit accepts {least} to {most} bits")))
        }
        _ => Ok(()),
    }
}

/// The same for one scheme.
#[derive(Debug)]
struct ExternalSigner {
    key: ExternalKey,
    scheme: SignatureScheme,
}

impl Signer for ExternalSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let ExternalSigner { key, scheme } = self;
        let signed = key.holder.sign(key.kind, *scheme, message).and_then(|signature| {
            match key.made(*scheme, message, &signature) {
                true => Ok(signature),
                false => Err(format!(
                    "the signature that was made for our certificate ({scheme:?}) is not of the certificate's key: \
                     certificate and key were mixed up, or the signature has another form"
                )),
            }
        });
        signed.map_err(|why| Error::Other(OtherError(Arc::new(KeyError(why)))))
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rsa_keys_have_2048_to_8192_bits() {
        for (bits, is_accepted) in [(1024, false), (2047, false), (2048, true), (8192, true), (8193, false)] {
            assert_eq!(check_length(KeyKind::Rsa { bits }).is_ok(), is_accepted, "{bits}");
        }
        assert_eq!(check_length(KeyKind::EcdsaP256), Ok(()));
        let error = check_length(KeyKind::Rsa { bits: 1024 }).unwrap_err();
        assert_eq!(error.to_string(), "it is an RSA key of 1024 bits; adit accepts 2048 to 8192 bits");
    }
}
