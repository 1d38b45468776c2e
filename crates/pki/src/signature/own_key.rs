//! A private key in memory.

use std::fmt;

use aws_lc_rs::error::KeyRejected;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384,
    RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
};
use rustls_pki_types::PrivateKeyDer;
use sha1::{Digest as _, Sha1};

use super::key::KeyHolder;
use super::public_key::KeyKind;
use super::{Digest, Scheme, rsa_sha1};
use crate::private_key::PrivateKey;

/// A curve's algorithm, and the digest that goes with it.
const CURVES: [(&EcdsaSigningAlgorithm, Digest); 3] = [
    (&ECDSA_P256_SHA256_ASN1_SIGNING, Digest::Sha256),
    (&ECDSA_P384_SHA384_ASN1_SIGNING, Digest::Sha384),
    (&ECDSA_P521_SHA512_ASN1_SIGNING, Digest::Sha512),
];

/// A private key in memory, which signs by AWS-LC.
pub struct OwnKey(Pair);

enum Pair {
    Rsa(RsaKeyPair),
    /// RSA for PSS alone, perhaps with one digest alone.
    RsaPss(RsaKeyPair, Option<Digest>),
    Ecdsa(EcdsaKeyPair, Digest),
    Ed25519(Ed25519KeyPair),
}

impl OwnKey {
    /// The key as AWS-LC signs with it.
    ///
    /// # Errors
    /// When AWS-LC does not take it: its reason.
    pub fn new(key: &PrivateKey) -> Result<Self, String> {
        let pair = match key {
            PrivateKey::Plain(key) => plain(key).map_err(|error| error.to_string())?,
            PrivateKey::RsaPss { key, digest } => {
                let limit = digest.as_deref().map(|dotted| {
                    Digest::from_dotted(dotted).ok_or("the key is limited to a digest that is not supported")
                });
                let limit = limit.transpose()?;
                let pair = RsaKeyPair::from_der(key.secret_pkcs1_der());
                Pair::RsaPss(
                    pair.map_err(|error| format!("failed to parse RSA private key: {error}"))?,
                    limit,
                )
            }
        };
        Ok(OwnKey(pair))
    }

    /// The SHA-1 digest of its public key, of the bits of `subjectPublicKey` (RFC 5280 section 4.2.1.2 (1)), as
    /// [`crate::subject_key_digest`] gives it of a certificate.
    pub fn public_key_digest(&self) -> [u8; 20] {
        let public = match &self.0 {
            Pair::Rsa(pair) | Pair::RsaPss(pair, _) => pair.public_key().as_ref(),
            Pair::Ecdsa(pair, _) => pair.public_key().as_ref(),
            Pair::Ed25519(pair) => pair.public_key().as_ref(),
        };
        Sha1::digest(public).into()
    }

    fn make(&self, scheme: Scheme, message: &[u8]) -> Option<Vec<u8>> {
        let signature = match (&self.0, scheme) {
            (Pair::Rsa(pair) | Pair::RsaPss(pair, _), Scheme::RsaPkcs1(_) | Scheme::RsaPss(_)) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(encoding(scheme)?, &SystemRandom::new(), message, &mut signature).ok()?;
                signature
            }
            (Pair::Ecdsa(pair, _), _) => pair.sign(&SystemRandom::new(), message).ok()?.as_ref().to_vec(),
            (Pair::Ed25519(pair), _) => pair.try_sign(message).ok()?.as_ref().to_vec(),
            _ => return None,
        };
        Some(signature)
    }
}

impl KeyHolder for OwnKey {
    fn signs_by(&self, scheme: Scheme) -> bool {
        match (&self.0, scheme) {
            (Pair::Rsa(_), Scheme::RsaPkcs1(digest) | Scheme::RsaPss(digest)) => digest != Digest::Sha1,
            (Pair::RsaPss(_, only), Scheme::RsaPss(digest)) => {
                digest != Digest::Sha1 && only.is_none_or(|only| only == digest)
            }
            (Pair::Ecdsa(_, own), Scheme::Ecdsa(digest)) => *own == digest,
            (Pair::Ed25519(_), Scheme::Ed25519) => true,
            _ => false,
        }
    }

    fn sign(&self, _: KeyKind, scheme: Scheme, message: &[u8]) -> Result<Vec<u8>, String> {
        let signature = match (&self.0, scheme) {
            (Pair::Rsa(pair), Scheme::RsaPkcs1(Digest::Sha1)) => rsa_sha1::sign(pair, message),
            _ => self.signs_by(scheme).then(|| self.make(scheme, message)).flatten(),
        };
        signature.ok_or_else(|| format!("the private key makes no signature of the scheme {scheme}"))
    }
}

impl fmt::Debug for OwnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnKey(..)")
    }
}

fn plain(key: &PrivateKeyDer<'_>) -> Result<Pair, KeyRejected> {
    let der = key.secret_der();
    let rsa = match key {
        PrivateKeyDer::Pkcs1(_) => return RsaKeyPair::from_der(der).map(Pair::Rsa),
        PrivateKeyDer::Pkcs8(_) => RsaKeyPair::from_pkcs8(der),
        _ => RsaKeyPair::from_der(der),
    };
    if let Ok(pair) = rsa {
        return Ok(Pair::Rsa(pair));
    }
    for (algorithm, digest) in CURVES {
        if let Ok(pair) = EcdsaKeyPair::from_private_key_der(algorithm, der) {
            return Ok(Pair::Ecdsa(pair, digest));
        }
    }
    Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map(Pair::Ed25519)
}

fn encoding(scheme: Scheme) -> Option<&'static dyn RsaEncoding> {
    Some(match scheme {
        Scheme::RsaPkcs1(Digest::Sha256) => &RSA_PKCS1_SHA256,
        Scheme::RsaPkcs1(Digest::Sha384) => &RSA_PKCS1_SHA384,
        Scheme::RsaPkcs1(Digest::Sha512) => &RSA_PKCS1_SHA512,
        Scheme::RsaPss(Digest::Sha256) => &RSA_PSS_SHA256,
        Scheme::RsaPss(Digest::Sha384) => &RSA_PSS_SHA384,
        Scheme::RsaPss(Digest::Sha512) => &RSA_PSS_SHA512,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519};

    use super::*;
    use crate::subject_key_digest;

    #[test]
    fn a_key_and_its_certificate_have_the_same_digest() {
        for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ED25519] {
            let pair = KeyPair::generate_for(algorithm).unwrap();
            let certificate = CertificateParams::default().self_signed(&pair).unwrap();
            let key = PrivateKey::read(&zeroize::Zeroizing::new(pair.serialize_pem().into_bytes())).unwrap();
            let digest = OwnKey::new(&key).unwrap().public_key_digest();
            assert_eq!(Some(digest), subject_key_digest(certificate.der()));
        }
    }
}
