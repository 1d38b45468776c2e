//! Private keys that no password protects.

use rustls_pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer};
use thiserror::Error;

use crate::der_values::{Values, tag};
use crate::key_form::KeyForm;
use crate::pem_block::KeyBlock;

/// A private key with which adit can sign, as AWS-LC reads it.
#[derive(Debug)]
pub enum PrivateKey {
    /// RSA, ECDSA or Ed25519.
    Plain(PrivateKeyDer<'static>),
    /// RSA for PSS signatures alone.
    RsaPss {
        /// The key.
        key: PrivatePkcs1KeyDer<'static>,
        /// The digest that the key is limited to, as a dotted OID.
        digest: Option<String>,
    },
}

/// The reason why a private key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PrivateKeyError {
    /// The key is encrypted.
    #[error("the private key is encrypted; decrypt it with: openssl pkey -in KEY -out PLAINKEY")]
    Encrypted,
    /// There is none.
    #[error("holds no private key; a \"-----BEGIN PRIVATE KEY-----\" block is expected")]
    Missing,
    /// The key is damaged.
    #[error("the private key is damaged or incomplete; openssl pkey -in KEY -noout -check may say more")]
    Damaged,
    /// adit cannot sign with it.
    #[error("it is {form}, with which adit cannot sign; {}", form.advice())]
    Form {
        /// The kind of the key.
        form: KeyForm,
    },
    /// AWS-LC does not take it.
    #[error("it is {form}, and is not in order: {reason}; openssl pkey -in KEY -noout -check may say more")]
    Refused {
        /// The kind of the key.
        form: KeyForm,
        /// The reason that AWS-LC gives.
        reason: String,
    },
}

impl PrivateKey {
    /// The first private key of a PEM text: PKCS#8, PKCS#1 or SEC1.
    ///
    /// # Errors
    /// If there is none with which adit can sign.
    pub fn read(pem: &[u8]) -> Result<Self, PrivateKeyError> {
        let block = KeyBlock::find(pem).ok_or(PrivateKeyError::Missing)?;
        if block.is_encrypted() {
            return Err(PrivateKeyError::Encrypted);
        }
        let der = block.der.ok_or(PrivateKeyError::Damaged)?;
        let form = KeyForm::of(block.label, &der).ok_or(PrivateKeyError::Damaged)?;
        if !form.can_sign() {
            return Err(PrivateKeyError::Form { form });
        }
        if let KeyForm::RsaPss { digest, .. } = form {
            let key = inner(&der).ok_or(PrivateKeyError::Damaged)?;
            return Ok(PrivateKey::RsaPss { key: key.to_vec().into(), digest });
        }
        let der = der.to_vec();
        Ok(PrivateKey::Plain(match block.label {
            "RSA PRIVATE KEY" => PrivateKeyDer::Pkcs1(der.into()),
            "EC PRIVATE KEY" => PrivateKeyDer::Sec1(der.into()),
            _ => PrivateKeyDer::Pkcs8(der.into()),
        }))
    }
}

/// The kind of the first private key of a PEM text; `None` if there is none that can be read without a password.
pub fn form(pem: &[u8]) -> Option<KeyForm> {
    let block = KeyBlock::find(pem).filter(|block| !block.is_encrypted())?;
    KeyForm::of(block.label, &block.der?)
}

/// The key inside of PKCS#8.
fn inner(pkcs8: &[u8]) -> Option<&[u8]> {
    let mut fields = Values::inside(tag::SEQUENCE, pkcs8)?;
    fields.take(tag::INTEGER)?;
    fields.take(tag::SEQUENCE)?;
    Some(fields.take(tag::OCTET_STRING)?.content)
}
