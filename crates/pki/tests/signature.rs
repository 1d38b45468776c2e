//! Signatures of OpenSSL 3.0 over `message`, by keys of each kind: verified, and refused once forged. The certificates, the keys
//! (`data/private_key`, and `data/signature/secp521r1.key`) and the signatures were made by its command line.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use adit_pki::signature::{
    CertificateKey, Digest, KeyError, OwnKey, Scheme, Sha1, SignError, SignatureError, Signed, verify,
};
use adit_pki::{KeyKind, PrivateKey};
use rustls_pki_types::CertificateDer;

macro_rules! data {
    ($name:literal) => {
        include_bytes!(concat!("data/", $name)).as_slice()
    };
}

const MESSAGE: &[u8] = b"message";

/// A certificate, the scheme, and the signature by the certificate's key.
struct Vector {
    certificate: &'static [u8],
    scheme: Scheme,
    signature: &'static [u8],
}

macro_rules! vectors {
    ($($certificate:literal $scheme:expr, $signature:literal;)*) => {
        [$(Vector {
            certificate: data!($certificate),
            scheme: $scheme,
            signature: data!($signature),
        }),*]
    };
}

const RSA: &[u8] = data!("signature/rsa.der");
const P256: &[u8] = data!("signature/p256.der");

const STRONG: [Vector; 20] = vectors! {
    "signature/rsa.der" Scheme::RsaPkcs1(Digest::Sha256), "signature/rsa-pkcs1-sha256.sig";
    "signature/rsa.der" Scheme::RsaPkcs1(Digest::Sha384), "signature/rsa-pkcs1-sha384.sig";
    "signature/rsa.der" Scheme::RsaPkcs1(Digest::Sha512), "signature/rsa-pkcs1-sha512.sig";
    "signature/rsa.der" Scheme::RsaPss(Digest::Sha256), "signature/rsa-pss-sha256.sig";
    "signature/rsa.der" Scheme::RsaPss(Digest::Sha384), "signature/rsa-pss-sha384.sig";
    "signature/rsa.der" Scheme::RsaPss(Digest::Sha512), "signature/rsa-pss-sha512.sig";
    "signature/rsa-pss.der" Scheme::RsaPss(Digest::Sha256), "signature/psskey-sha256.sig";
    "signature/rsa-pss.der" Scheme::RsaPss(Digest::Sha384), "signature/psskey-sha384.sig";
    "signature/rsa-pss.der" Scheme::RsaPss(Digest::Sha512), "signature/psskey-sha512.sig";
    "signature/rsa-pss-sha256.der" Scheme::RsaPss(Digest::Sha256), "signature/psskey256-sha256.sig";
    "signature/p256.der" Scheme::Ecdsa(Digest::Sha256), "signature/p256-sha256.sig";
    "signature/p256.der" Scheme::Ecdsa(Digest::Sha384), "signature/p256-sha384.sig";
    "signature/p256.der" Scheme::Ecdsa(Digest::Sha512), "signature/p256-sha512.sig";
    "signature/p384.der" Scheme::Ecdsa(Digest::Sha256), "signature/p384-sha256.sig";
    "signature/p384.der" Scheme::Ecdsa(Digest::Sha384), "signature/p384-sha384.sig";
    "signature/p384.der" Scheme::Ecdsa(Digest::Sha512), "signature/p384-sha512.sig";
    "signature/p521.der" Scheme::Ecdsa(Digest::Sha256), "signature/p521-sha256.sig";
    "signature/p521.der" Scheme::Ecdsa(Digest::Sha384), "signature/p521-sha384.sig";
    "signature/p521.der" Scheme::Ecdsa(Digest::Sha512), "signature/p521-sha512.sig";
    "signature/ed25519.der" Scheme::Ed25519, "signature/ed25519.sig";
};

fn check(certificate: &[u8], signed: Signed<'_>, sha1: Sha1) -> Result<(), SignatureError> {
    verify(&CertificateDer::from(certificate), &signed, sha1)
}

#[test]
fn signatures_of_openssl_are_verified() {
    for Vector { certificate, scheme, signature } in STRONG {
        let signed = Signed { message: MESSAGE, scheme, signature };
        assert_eq!(check(certificate, signed, Sha1::Refused), Ok(()), "{scheme}");
    }
}

fn is_forged(certificate: &[u8], signed: Signed<'_>) -> bool {
    check(certificate, signed, Sha1::Accepted) == Err(SignatureError::Forged)
}

#[test]
fn forged_signatures_are_refused() {
    for Vector { certificate, scheme, signature } in STRONG {
        assert!(
            is_forged(certificate, Signed { message: b"massage", scheme, signature }),
            "{scheme}: another message"
        );
        for at in [0, signature.len() / 2, signature.len() - 1] {
            let mut forged = signature.to_vec();
            forged[at] ^= 1;
            assert!(
                is_forged(certificate, Signed { message: MESSAGE, scheme, signature: &forged }),
                "{scheme}: bit {at}"
            );
        }
        let (short, long) = (&signature[1..], [signature, &[0]].concat());
        for changed in [short, long.as_slice(), &[]] {
            assert!(
                is_forged(certificate, Signed { message: MESSAGE, scheme, signature: changed }),
                "{scheme}: length"
            );
        }
    }
}

#[test]
fn a_signature_counts_for_its_own_scheme_alone() {
    for Vector { certificate, scheme, signature } in STRONG {
        for Vector { scheme: other, .. } in STRONG.iter().filter(|it| it.scheme != scheme) {
            let signed = Signed { message: MESSAGE, scheme: *other, signature };
            assert!(check(certificate, signed, Sha1::Accepted).is_err(), "{scheme} as {other}");
        }
    }
}

#[test]
fn sha_1_is_verified_where_a_protocol_accepts_it_alone() {
    let scheme = Scheme::RsaPkcs1(Digest::Sha1);
    let signed = Signed { message: MESSAGE, scheme, signature: data!("signature/rsa-pkcs1-sha1.sig") };
    assert_eq!(check(RSA, signed, Sha1::Refused), Err(SignatureError::Sha1));
    assert_eq!(check(RSA, signed, Sha1::Accepted), Ok(()));
    assert_eq!(
        check(RSA, Signed { message: b"massage", ..signed }, Sha1::Accepted),
        Err(SignatureError::Forged)
    );
    // PKCS #1 v1.5 alone has it.
    let pss = Scheme::RsaPss(Digest::Sha1);
    let signed = Signed { message: MESSAGE, scheme: pss, signature: data!("signature/rsa-pss-sha1.sig") };
    assert!(matches!(check(RSA, signed, Sha1::Accepted), Err(SignatureError::Scheme { .. })));
    let ecdsa = Scheme::Ecdsa(Digest::Sha1);
    let signed = Signed { message: MESSAGE, scheme: ecdsa, signature: data!("signature/p256-sha1.sig") };
    assert!(matches!(check(P256, signed, Sha1::Accepted), Err(SignatureError::Scheme { .. })));
}

#[test]
fn a_key_for_pss_alone_is_held_to_its_limits() {
    let limited = data!("signature/rsa-pss-sha256.der");
    let kind = KeyKind::of(&CertificateDer::from(limited));
    assert_eq!(kind, Ok(KeyKind::RsaPss { bits: 2048, digest: Some(Digest::Sha256) }));
    let signature = data!("signature/psskey256-sha256.sig");
    for scheme in [Scheme::RsaPss(Digest::Sha384), Scheme::RsaPkcs1(Digest::Sha256)] {
        let signed = Signed { message: MESSAGE, scheme, signature };
        let refused = check(limited, signed, Sha1::Refused);
        assert!(matches!(refused, Err(SignatureError::Scheme { .. })), "{scheme}: {refused:?}");
    }
    // A salt that is shorter than the digest.
    let signed = Signed {
        message: MESSAGE,
        scheme: Scheme::RsaPss(Digest::Sha256),
        signature: data!("signature/rsa-pss-sha256-salt20.sig"),
    };
    assert_eq!(check(RSA, signed, Sha1::Refused), Err(SignatureError::Forged));
}

fn own(pem: &[u8], certificate: &[u8]) -> Result<CertificateKey, KeyError> {
    let key = OwnKey::new(&PrivateKey::read(pem).unwrap()).unwrap();
    CertificateKey::new(CertificateDer::from(certificate.to_vec()), Arc::new(key))
}

#[test]
fn each_key_signs_by_all_its_schemes() {
    for (pem, certificate, schemes) in [
        (data!("private_key/rsa2048.key"), RSA, 6),
        (data!("private_key/rsa-pss.key"), data!("signature/rsa-pss.der"), 3),
        (data!("private_key/rsa-pss-sha256.key"), data!("signature/rsa-pss-sha256.der"), 1),
        (data!("private_key/prime256v1.key"), P256, 1),
        (data!("private_key/secp384r1.key"), data!("signature/p384.der"), 1),
        (data!("signature/secp521r1.key"), data!("signature/p521.der"), 1),
        (data!("private_key/ed25519.key"), data!("signature/ed25519.der"), 1),
    ] {
        let key = own(pem, certificate).unwrap();
        assert_eq!(key.schemes().len(), schemes, "{:?}", key.kind());
        for scheme in key.schemes() {
            let signature = key.sign(*scheme, MESSAGE).unwrap();
            let signed = Signed { message: MESSAGE, scheme: *scheme, signature: &signature };
            assert_eq!(check(certificate, signed, Sha1::Refused), Ok(()), "{scheme}");
        }
    }
}

#[test]
fn another_certificates_key_is_found_out() {
    let mixed_up = own(data!("signature/secp521r1.key"), P256).unwrap_err();
    assert_eq!(mixed_up, KeyError::Holder(KeyKind::EcdsaP256));
    let other = own(data!("private_key/rsa2048.key"), data!("signature/rsa-pss.der")).unwrap();
    let scheme = Scheme::RsaPss(Digest::Sha256);
    assert_eq!(other.sign(scheme, MESSAGE), Err(SignError::NotOfTheCertificate(scheme)));
}
