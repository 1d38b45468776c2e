//! Encrypted keys in PEM and PKCS#12 files: any input is read or refused. A key that opens is a key in PEM.
#![no_main]

use adit_openvpn::locked::{is_locked, open_pkcs12, pkcs12_der, unlock};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    match first % 3 {
        0 => {
            is_locked(rest);
            if let Ok(key) = unlock(rest, "x") {
                assert!(key.starts_with(b"-----BEGIN ") && !is_locked(&key));
            }
        }
        1 => drop(open_pkcs12(rest, "x")),
        _ => {
            if let Ok(text) = std::str::from_utf8(rest)
                && let Ok(der) = pkcs12_der(text)
            {
                drop(open_pkcs12(&der, ""));
            }
        }
    }
});
