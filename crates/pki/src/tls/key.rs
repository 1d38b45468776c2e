//! The key of our certificate, as rustls signs with it, where rustls does not take the key itself: a key that another program or a
//! smart card holds, and an RSA key for PSS alone.

use std::fmt;
use std::sync::Arc;

use rustls::sign::{Signer, SigningKey};
use rustls::{Error, OtherError, SignatureAlgorithm, SignatureScheme};

use crate::signature::{CertificateKey, Digest, KeyKind, Scheme, SignError};

/// The key of a certificate, for [`rustls::sign::CertifiedKey`].
#[derive(Clone, Debug)]
pub struct TlsKey(CertificateKey);

impl TlsKey {
    /// The key as rustls signs with it.
    pub fn new(key: CertificateKey) -> Self {
        TlsKey(key)
    }

    /// Whether it makes signatures as TLS 1.3 wants them, which has no RSA signatures by PKCS #1 v1.5 (RFC 8446 §4.2.3).
    pub fn can_do_tls13(&self) -> bool {
        self.0.schemes().iter().any(|scheme| !matches!(scheme, Scheme::RsaPkcs1(_)))
    }
}

/// The name of a scheme in TLS (RFC 8446 §4.2.3). An RSA key for PSS alone has names of its own (`rsa_pss_pss_…`).
fn name(kind: KeyKind, scheme: Scheme) -> Option<SignatureScheme> {
    let is_for_pss = matches!(kind, KeyKind::RsaPss { .. });
    Some(match scheme {
        Scheme::RsaPkcs1(Digest::Sha256) => SignatureScheme::RSA_PKCS1_SHA256,
        Scheme::RsaPkcs1(Digest::Sha384) => SignatureScheme::RSA_PKCS1_SHA384,
        Scheme::RsaPkcs1(Digest::Sha512) => SignatureScheme::RSA_PKCS1_SHA512,
        Scheme::RsaPss(Digest::Sha256) if is_for_pss => SignatureScheme::Unknown(0x0809),
        Scheme::RsaPss(Digest::Sha384) if is_for_pss => SignatureScheme::Unknown(0x080a),
        Scheme::RsaPss(Digest::Sha512) if is_for_pss => SignatureScheme::Unknown(0x080b),
        Scheme::RsaPss(Digest::Sha256) => SignatureScheme::RSA_PSS_SHA256,
        Scheme::RsaPss(Digest::Sha384) => SignatureScheme::RSA_PSS_SHA384,
        Scheme::RsaPss(Digest::Sha512) => SignatureScheme::RSA_PSS_SHA512,
        Scheme::Ecdsa(Digest::Sha256) => SignatureScheme::ECDSA_NISTP256_SHA256,
        Scheme::Ecdsa(Digest::Sha384) => SignatureScheme::ECDSA_NISTP384_SHA384,
        Scheme::Ecdsa(Digest::Sha512) => SignatureScheme::ECDSA_NISTP521_SHA512,
        Scheme::Ed25519 => SignatureScheme::ED25519,
        Scheme::RsaPkcs1(Digest::Sha1) | Scheme::RsaPss(Digest::Sha1) | Scheme::Ecdsa(Digest::Sha1) => {
            return None;
        }
    })
}

impl SigningKey for TlsKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let named = |scheme: &Scheme| Some((*scheme, name(self.0.kind(), *scheme)?));
        let mut all = self.0.schemes().iter().filter_map(named);
        let (scheme, name) = all.find(|(_, name)| offered.contains(name))?;
        Some(Box::new(TlsSigner { key: self.clone(), scheme, name }))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        match self.0.kind() {
            KeyKind::Rsa { .. } | KeyKind::RsaPss { .. } => SignatureAlgorithm::RSA,
            KeyKind::EcdsaP256 | KeyKind::EcdsaP384 | KeyKind::EcdsaP521 => SignatureAlgorithm::ECDSA,
            KeyKind::Ed25519 => SignatureAlgorithm::ED25519,
        }
    }
}

/// A key with one of its schemes.
#[derive(Debug)]
struct TlsSigner {
    key: TlsKey,
    scheme: Scheme,
    name: SignatureScheme,
}

impl Signer for TlsSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let signed = self.key.0.sign(self.scheme, message);
        signed.map_err(|why| Error::Other(OtherError(Arc::new(NoSignature { why, name: self.name }))))
    }

    fn scheme(&self) -> SignatureScheme {
        self.name
    }
}

/// The reason why there is no signature, for the log.
#[derive(Debug)]
struct NoSignature {
    why: SignError,
    name: SignatureScheme,
}

impl std::error::Error for NoSignature {}

impl fmt::Display for NoSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            SignError::Holder(why) => f.write_str(why),
            SignError::NotOfTheCertificate(_) => write!(
                f,
                "the signature that was made for our certificate ({:?}) is not of the certificate's key: certificate and key were \
                 mixed up, or the signature has another form",
                self.name
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;

    use super::*;
    use crate::PrivateKey;
    use crate::signature::OwnKey;

    macro_rules! data {
        ($name:literal) => {
            include_bytes!(concat!("../../tests/data/", $name))
        };
    }

    fn key(pem: &[u8], certificate: &[u8]) -> TlsKey {
        let key = OwnKey::new(&PrivateKey::read(pem).unwrap()).unwrap();
        let certificate = CertificateDer::from(certificate.to_vec());
        TlsKey::new(CertificateKey::new(certificate, Arc::new(key)).unwrap())
    }

    #[test]
    fn signatures_of_a_key_for_pss_alone_are_named_and_made_for_the_key() {
        let any = key(data!("private_key/rsa-pss.key"), data!("signature/rsa-pss.der"));
        let [sha256, sha384] = [0x0809, 0x080a].map(SignatureScheme::Unknown);
        let signer = any.choose_scheme(&[SignatureScheme::RSA_PSS_SHA256, sha384, sha256]).unwrap();
        assert_eq!(signer.scheme(), sha256);
        assert_eq!(signer.sign(b"message").unwrap().len(), 256);
        assert!(any.choose_scheme(&[SignatureScheme::RSA_PSS_SHA256]).is_none());
        let limited = key(data!("private_key/rsa-pss-sha256.key"), data!("signature/rsa-pss-sha256.der"));
        assert!(limited.choose_scheme(&[sha384]).is_none() && any.choose_scheme(&[sha384]).is_some());
    }

    #[test]
    fn an_ordinary_rsa_key_has_the_ordinary_names() {
        let rsa = key(data!("private_key/rsa2048.key"), data!("signature/rsa.der"));
        assert!(rsa.can_do_tls13());
        let signer = rsa.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256]).unwrap();
        assert_eq!(signer.scheme(), SignatureScheme::RSA_PKCS1_SHA256);
        assert!(rsa.choose_scheme(&[SignatureScheme::Unknown(0x0809)]).is_none());
    }
}
