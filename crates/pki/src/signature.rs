//! Signatures over messages: made with the private key of a certificate ([`CertificateKey`]), and verified by the certificate
//! ([`verify()`]).
//!
//! A protocol decides which message is signed, and which schemes it offers and accepts. A [`Scheme`] is named by a number in TLS,
//! and by an `AlgorithmIdentifier` in IKEv2 (RFC 7427, [`Scheme::algorithm_identifier`]).

mod algorithm;
mod key;
mod own_key;
mod public_key;
mod rs_pair;
mod rsa_sha1;
mod verify;

use std::fmt;

use aws_lc_rs::digest::{self, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512};

pub use self::algorithm::AlgorithmError;
pub(crate) use self::algorithm::PssParameters;
pub use self::key::{CertificateKey, KeyError, KeyHolder, SignError};
pub use self::own_key::OwnKey;
pub use self::public_key::KeyKind;
pub use self::rs_pair::{ecdsa_from_pair, ecdsa_to_pair};
pub use self::verify::{Sha1, SignatureError, Signed, verify};

/// A hash of messages that are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Digest {
    /// SHA-1, which is verified, and signed with, where a protocol allows it ([`CertificateKey::sign_sha1`]).
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Digest {
    /// All, the weakest first.
    pub const ALL: [Digest; 4] = [Digest::Sha1, Digest::Sha256, Digest::Sha384, Digest::Sha512];

    fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Digest::Sha1 => &SHA1_FOR_LEGACY_USE_ONLY,
            Digest::Sha256 => &SHA256,
            Digest::Sha384 => &SHA384,
            Digest::Sha512 => &SHA512,
        }
    }

    /// The length of its output in bytes.
    pub fn output_len(self) -> usize {
        self.algorithm().output_len()
    }

    /// The digest of a message.
    pub fn of(self, message: &[u8]) -> Vec<u8> {
        digest::digest(self.algorithm(), message).as_ref().to_vec()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Digest::Sha1 => "SHA-1",
            Digest::Sha256 => "SHA-256",
            Digest::Sha384 => "SHA-384",
            Digest::Sha512 => "SHA-512",
        })
    }
}

/// A way to sign a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// RSA by PKCS #1 v1.5 (RFC 8017 section 8.2).
    RsaPkcs1(Digest),
    /// RSA by PSS (RFC 8017 section 8.1), with MGF1 by the same digest, and a salt as long as the digest.
    RsaPss(Digest),
    /// ECDSA on the curve of the key; the signature is `r` and `s` in DER (RFC 3279 section 2.2.3).
    Ecdsa(Digest),
    /// Ed25519 (RFC 8032). The message is not hashed before.
    Ed25519,
}

impl Scheme {
    /// The digest of the message that is signed. `None`: the message itself is signed.
    pub const fn digest(self) -> Option<Digest> {
        match self {
            Scheme::RsaPkcs1(digest) | Scheme::RsaPss(digest) | Scheme::Ecdsa(digest) => Some(digest),
            Scheme::Ed25519 => None,
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheme::RsaPkcs1(digest) => write!(f, "RSA (PKCS #1 v1.5) with {digest}"),
            Scheme::RsaPss(digest) => write!(f, "RSA (PSS) with {digest}"),
            Scheme::Ecdsa(digest) => write!(f, "ECDSA with {digest}"),
            Scheme::Ed25519 => f.write_str("Ed25519"),
        }
    }
}
