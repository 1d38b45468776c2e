//! Encrypted private keys and PKCS#12 files as OpenSSL 3.0 makes them; all hold the same key, its certificate
//! and the authority's. The password is `open-sesame`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use adit_pki::encrypted_key::{EncryptedKeyError, decrypt, is_encrypted};
use adit_pki::pkcs12::{self, Contents};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

const PASSWORD: &str = "open-sesame";

macro_rules! data {
    ($name:literal) => {
        include_bytes!(concat!("data/encrypted_key/", $name))
    };
}

/// The key's bytes, whatever wraps it: those of its SEC1 form end both forms.
fn secret(pem: &[u8]) -> Vec<u8> {
    let key = match PrivateKeyDer::from_pem_slice(pem).unwrap() {
        PrivateKeyDer::Pkcs8(key) => key.secret_pkcs8_der().to_vec(),
        PrivateKeyDer::Sec1(key) => key.secret_sec1_der().to_vec(),
        _ => panic!("an EC key"),
    };
    // The 32 bytes of a P-256 key follow `02 01 01 04 20` in both.
    let mark = [2, 1, 1, 4, 32];
    let place = key.windows(mark.len()).position(|window| window == mark).unwrap() + mark.len();
    key[place..place + 32].to_vec()
}

const PLAIN: &[u8] = data!("plain.key");

/// `openssl pkcs8 -topk8` with the ciphers and functions that it can write, and `openssl ec -aes256` and others.
const KEYS: [(&str, &[u8]); 18] = [
    ("PBES2 with AES-256 and SHA-256", data!("pkcs8-aes256.key")),
    ("PBES2 with AES-128 and SHA-512", data!("pkcs8-aes128-sha512.key")),
    ("PBES2 with 3DES and SHA-1", data!("pkcs8-des3-sha1.key")),
    ("PBES2 with scrypt", data!("pkcs8-scrypt.key")),
    ("AES-256-CBC", data!("traditional-aes256.key")),
    ("AES-128-CBC", data!("traditional-aes128.key")),
    ("DES-EDE3-CBC", data!("traditional-des3.key")),
    ("AES-192-CBC", data!("traditional-aes192.key")),
    ("DES-CBC", data!("traditional-des.key")),
    ("PBES2 with DES", data!("pkcs8-des.key")),
    ("PBE-MD5-DES", data!("pkcs8-pbe-md5-des.key")),
    ("PBE-SHA1-DES", data!("pkcs8-pbe-sha1-des.key")),
    ("PBE-MD5-RC2-64", data!("pkcs8-pbe-md5-rc2-64.key")),
    ("PBE-SHA1-RC2-64", data!("pkcs8-pbe-sha1-rc2-64.key")),
    ("PBE-SHA1-3DES", data!("pkcs8-pbe-sha1-3des.key")),
    ("PBE-SHA1-2DES", data!("pkcs8-pbe-sha1-2des.key")),
    ("PBE-SHA1-RC2-128", data!("pkcs8-pbe-sha1-rc2-128.key")),
    ("PBE-SHA1-RC2-40", data!("pkcs8-pbe-sha1-rc2-40.key")),
];

#[test]
fn keys_of_all_kinds() {
    for (name, pem) in KEYS {
        assert!(is_encrypted(pem), "{name}");
        let key = decrypt(pem, PASSWORD).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(secret(&key), secret(PLAIN), "{name}");
        for wrong in ["", "open-sesamE", "\u{e4}"] {
            assert_eq!(decrypt(pem, wrong).err(), Some(EncryptedKeyError::WrongPassword), "{name}");
        }
    }
    assert!(!is_encrypted(PLAIN));
}

#[test]
fn keys_that_cannot_be_decrypted() {
    for (pem, cipher) in [
        (&data!("traditional-camellia256.key")[..], "CAMELLIA-256-CBC"),
        (data!("pkcs8-camellia256.key"), "CAMELLIA-256-CBC"),
        (data!("pkcs8-pbe-sha1-rc4-128.key"), "PBE-SHA1-RC4-128"),
    ] {
        let error = decrypt(pem, PASSWORD).unwrap_err();
        assert_eq!(error, EncryptedKeyError::Unsupported(cipher.to_owned()));
        assert!(error.to_string().contains("openssl pkey -in KEY -aes256 -out NEWKEY"), "{error}");
    }
    let text = std::str::from_utf8(data!("traditional-aes256.key")).unwrap();
    for (found, instead) in
        [("AES-256-CBC,", "AES-256-CBC,0"), ("AES-256-CBC,", "AES-256-CBC;"), ("DEK", "DEC")]
    {
        let damaged = text.replace(found, instead);
        let error = decrypt(damaged.as_bytes(), PASSWORD).unwrap_err();
        assert!(matches!(error, EncryptedKeyError::Malformed(_)), "{damaged}: {error:?}");
    }
    assert!(matches!(decrypt(PLAIN, PASSWORD), Err(EncryptedKeyError::Malformed(_))));
}

fn check(name: &str, unpacked: &Contents) {
    let all = |pem: &[u8]| -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().unwrap()
    };
    assert_eq!(secret(&unpacked.private_key), secret(PLAIN), "{name}");
    assert_eq!(all(&unpacked.certificates), all(data!("client.crt")), "{name}");
    assert_eq!(all(&unpacked.authorities), all(data!("ca.crt")), "{name}");
}

/// `openssl pkcs12 -export`, as it comes, with `-legacy`, with an empty password, and without encryption.
#[test]
fn pkcs12_files() {
    let cases: [(&str, &[u8], &str); 4] = [
        ("AES-256", data!("aes256.p12"), PASSWORD),
        ("3DES and RC2", data!("legacy.p12"), PASSWORD),
        ("empty password", data!("no-password.p12"), ""),
        ("no encryption", data!("open.p12"), ""),
    ];
    for (name, der, password) in cases {
        let unpacked = pkcs12::open(der, password).unwrap_or_else(|error| panic!("{name}: {error}"));
        check(name, &unpacked);
        if name != "no encryption" {
            let error = pkcs12::open(der, "guess").err();
            assert_eq!(error, Some(EncryptedKeyError::WrongPassword), "{name}");
        }
    }
    let error = pkcs12::open(data!("no-key.p12"), PASSWORD).err().unwrap();
    assert!(error.to_string().contains("0 private keys"), "{error}");
    for der in [&[][..], &data!("aes256.p12")[..700], PLAIN] {
        assert!(matches!(pkcs12::open(der, PASSWORD), Err(EncryptedKeyError::Container(_))));
    }
    for (der, scheme) in
        [(&data!("rc4.p12")[..], "PBE-SHA1-RC4-128"), (data!("camellia256.p12"), "CAMELLIA-256-CBC")]
    {
        let error = pkcs12::open(der, PASSWORD).err();
        assert_eq!(error, Some(EncryptedKeyError::UnsupportedContainer(scheme.to_owned())));
    }
}

#[test]
fn base64_of_pkcs12() {
    assert_eq!(pkcs12::decode_base64("AAEC\n AwQF\r\n").unwrap().to_vec(), [0, 1, 2, 3, 4, 5]);
    assert!(pkcs12::decode_base64("A?").is_err());
}
