//! Signatures by an RSA key that is for PSS alone (RFC 4055 §1.2), which TLS names otherwise than PSS signatures by an ordinary RSA
//! key: `rsa_pss_pss_…` (RFC 8446 §4.2.3).

use std::sync::Arc;

use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer};
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};
use x509_parser::prelude::{FromDer as _, SubjectPublicKeyInfo, X509Certificate};

/// A digest, the scheme with an ordinary key, and the scheme with a key for PSS alone.
type Scheme = (&'static str, SignatureScheme, SignatureScheme);

/// SHA-256 first, which every peer has.
const SCHEMES: [Scheme; 3] = [
    ("2.16.840.1.101.3.4.2.1", SignatureScheme::RSA_PSS_SHA256, SignatureScheme::Unknown(0x0809)),
    ("2.16.840.1.101.3.4.2.2", SignatureScheme::RSA_PSS_SHA384, SignatureScheme::Unknown(0x080a)),
    ("2.16.840.1.101.3.4.2.3", SignatureScheme::RSA_PSS_SHA512, SignatureScheme::Unknown(0x080b)),
];

/// An RSA key that is for PSS alone.
#[derive(Debug)]
pub(crate) struct RsaPssKey {
    /// An ordinary RSA key of the same modulus and exponents.
    key: Arc<dyn SigningKey>,
    schemes: Vec<Scheme>,
}

impl RsaPssKey {
    /// A key, and the digest (a dotted OID) that it is limited to.
    ///
    /// # Errors
    /// If AWS-LC does not take it.
    pub(crate) fn new(key: PrivatePkcs1KeyDer<'static>, digest: Option<&str>) -> Result<Self, Error> {
        let is_allowed = |scheme: &Scheme| digest.is_none_or(|digest| scheme.0 == digest);
        let schemes = SCHEMES.into_iter().filter(is_allowed).collect();
        Ok(RsaPssKey { key: any_supported_type(&PrivateKeyDer::Pkcs1(key))?, schemes })
    }

    /// Whether the certificate is for this key.
    pub(crate) fn belongs_to(&self, certificate: &CertificateDer<'_>) -> bool {
        let own = self.key.public_key();
        let own = own.as_ref().and_then(|own| SubjectPublicKeyInfo::from_der(own).ok());
        let shown = X509Certificate::from_der(certificate).ok();
        own.zip(shown).is_some_and(|((_, own), (_, shown))| {
            own.subject_public_key.data == shown.public_key().subject_public_key.data
        })
    }
}

impl SigningKey for RsaPssKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let (_, ordinary, named) = self.schemes.iter().find(|(_, _, named)| offered.contains(named))?;
        let signer = self.key.choose_scheme(&[*ordinary])?;
        Some(Box::new(RsaPssSigner { signer, scheme: *named }))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::RSA
    }
}

#[derive(Debug)]
struct RsaPssSigner {
    signer: Box<dyn Signer>,
    scheme: SignatureScheme,
}

impl Signer for RsaPssSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        self.signer.sign(message)
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

#[cfg(test)]
mod tests {
    use adit_pki::PrivateKey;
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn key(pem: &[u8]) -> RsaPssKey {
        let Ok(PrivateKey::RsaPss { key, digest }) = PrivateKey::read(pem) else { panic!("no RSA-PSS key") };
        RsaPssKey::new(key, digest.as_deref()).unwrap()
    }

    #[test]
    fn signatures_are_named_and_made_for_the_key() {
        let any = key(include_bytes!("../../../../pki/tests/data/private_key/rsa-pss.key"));
        let [sha256, sha384] = [0x0809, 0x080a].map(SignatureScheme::Unknown);
        let signer = any.choose_scheme(&[SignatureScheme::RSA_PSS_SHA256, sha384, sha256]).unwrap();
        assert_eq!(signer.scheme(), sha256);
        assert_eq!(signer.sign(b"message").unwrap().len(), 256);
        assert!(any.choose_scheme(&[SignatureScheme::RSA_PSS_SHA256]).is_none());
        let limited = key(include_bytes!("../../../../pki/tests/data/private_key/rsa-pss-sha256.key"));
        assert!(limited.choose_scheme(&[sha384]).is_none() && any.choose_scheme(&[sha384]).is_some());
        let other = CertificateParams::default().self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert!(!any.belongs_to(other.der()));
    }
}
