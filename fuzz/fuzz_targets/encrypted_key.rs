//! Private keys in PEM, encrypted or not, and PKCS#12 files: any input is read or refused. A key that opens is a key in PEM.
#![no_main]

use adit_core::is_unprintable;
use adit_pki::encrypted_key::{decrypt, is_encrypted};
use adit_pki::{PrivateKey, pkcs12};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    match first % 3 {
        0 => {
            is_encrypted(rest);
            if let Err(error) = PrivateKey::read(rest) {
                assert!(!error.to_string().contains(is_unprintable), "{error}");
            }
            match decrypt(rest, "x") {
                Ok(key) => assert!(key.starts_with(b"-----BEGIN ") && !is_encrypted(&key)),
                Err(error) => assert!(!error.to_string().contains(is_unprintable), "{error}"),
            }
        }
        1 => drop(pkcs12::open(rest, "x")),
        _ => {
            if let Ok(text) = std::str::from_utf8(rest)
                && let Ok(der) = pkcs12::decode_base64(text)
            {
                drop(pkcs12::open(&der, ""));
            }
        }
    }
});
