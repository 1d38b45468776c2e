//! Private keys of many kinds as OpenSSL 3.0 and ssh-keygen write them: each can be used, or the error names its kind
//! and the way out.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use adit_pki::{PrivateKey, PrivateKeyError};
use rustls_pki_types::PrivateKeyDer;

macro_rules! data {
    ($name:literal) => {
        include_bytes!(concat!("data/private_key/", $name))
    };
}

#[test]
fn keys_that_sign() {
    for (name, pem) in [
        ("SEC1 on P-256", &data!("prime256v1.key")[..]),
        ("SEC1 on P-256, behind the curve's parameters", data!("with-parameters.key")),
        ("SEC1 on P-384", data!("secp384r1.key")),
        ("Ed25519", data!("ed25519.key")),
        ("RSA", data!("rsa2048.key")),
    ] {
        assert!(matches!(PrivateKey::read(pem), Ok(PrivateKey::Plain(_))), "{name}");
    }
    for (pem, limit) in
        [(&data!("rsa-pss.key")[..], None), (data!("rsa-pss-sha256.key"), Some("2.16.840.1.101.3.4.2.1"))]
    {
        let Ok(PrivateKey::RsaPss { key, digest }) = PrivateKey::read(pem) else { panic!("RSA-PSS") };
        assert_eq!(digest.as_deref(), limit);
        assert!(key.secret_pkcs1_der().starts_with(&[0x30, 0x82]));
    }
}

#[test]
fn keys_that_do_not_sign() {
    for (pem, what, advice) in [
        (&data!("rsa1024.key")[..], "an RSA key of 1024 bits", "openssl req -new -newkey rsa:2048"),
        (data!("rsa1024-pkcs1.key"), "an RSA key of 1024 bits", "openssl req -new -newkey rsa:2048"),
        (data!("rsa-pss-sha1.key"), "an RSA-PSS key of 2048 bits for SHA1", "openssl req -new -newkey ec"),
        (data!("ed448.key"), "an Ed448 key", "openssl req -new -newkey ec"),
        (data!("x25519.key"), "a key of the algorithm X25519", "openssl req -new -newkey ec"),
        (data!("dsa.key"), "a DSA key", "openssl req -new -newkey ec"),
        (data!("secp224r1.key"), "an EC key on the curve secp224r1", "openssl req -new -newkey ec"),
        (data!("secp256k1.key"), "an EC key on the curve secp256k1", "openssl req -new -newkey ec"),
        (
            data!("brainpoolP256r1.key"),
            "an EC key on the curve brainpoolP256r1",
            "openssl req -new -newkey ec",
        ),
        (
            data!("explicit.key"),
            "parameters of its curve written out",
            "openssl ec -in KEY -param_enc named_curve",
        ),
        (data!("explicit-pkcs8.key"), "parameters of its curve written out", "openssl ec -in KEY -param_enc"),
        (data!("openssh.key"), "an OpenSSH key", "ssh-keygen -p -m PEM -f KEY"),
    ] {
        let error = PrivateKey::read(pem).unwrap_err();
        assert!(matches!(error, PrivateKeyError::Form { .. }), "{what}: {error:?}");
        let text = error.to_string();
        assert!(text.contains(what) && text.contains(advice), "{what}: {text}");
    }
}

#[test]
fn what_is_no_key_is_said() {
    let error = |pem: &[u8]| PrivateKey::read(pem).unwrap_err();
    assert_eq!(error(b""), PrivateKeyError::Missing);
    assert_eq!(error(include_bytes!("data/encrypted_key/client.crt")), PrivateKeyError::Missing);
    assert_eq!(error(include_bytes!("data/encrypted_key/traditional-des3.key")), PrivateKeyError::Encrypted);
    let whole = data!("rsa2048.key");
    let damaged = [&whole[..800], b"\n-----END PRIVATE KEY-----\n"].concat();
    assert_eq!(error(&damaged), PrivateKeyError::Damaged);
    assert_eq!(
        error(b"-----BEGIN PRIVATE KEY-----\nA?\n-----END PRIVATE KEY-----\n"),
        PrivateKeyError::Damaged
    );
}

/// The first key counts, as for OpenSSL.
#[test]
fn text_around_a_key_makes_no_difference() {
    let key = String::from_utf8(data!("prime256v1.key").to_vec()).unwrap();
    let certificate = std::str::from_utf8(include_bytes!("data/encrypted_key/client.crt")).unwrap();
    let second = std::str::from_utf8(include_bytes!("data/encrypted_key/traditional-des3.key")).unwrap();
    let text = format!("Private-Key: (256 bit)\npriv:\n    d1:3a\n{certificate}{key}{second}");
    let read = |text: &[u8]| match PrivateKey::read(text) {
        Ok(PrivateKey::Plain(PrivateKeyDer::Sec1(key))) => key.secret_sec1_der().to_vec(),
        other => panic!("{other:?}"),
    };
    let plain = read(key.as_bytes());
    let in_latin_1 = [b"Bag Attributes\n    friendlyName: M\xfcller\n", text.as_bytes()].concat();
    for around in [text.as_bytes(), text.replace('\n', "\r\n").as_bytes(), &in_latin_1] {
        assert_eq!(read(around), plain);
    }
}
