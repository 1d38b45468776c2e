//! OpenVPN configurations: what is accepted prints to text that means the same.
#![no_main]

use std::path::Path;

use adit_openvpn_config::parse;
use libfuzzer_sys::fuzz_target;

/// A file that the configuration names: a certificate for one name, otherwise none.
fn load(path: &Path) -> Result<Vec<u8>, String> {
    match path.to_str() {
        Some("c") => Ok(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec()),
        Some("k") => Ok(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n".to_vec()),
        _ => Err("no such file".to_owned()),
    }
}

fuzz_target!(|data: &[u8]| {
    match parse("fuzz.conf", data, &load) {
        Ok(parsed) => {
            let text = parsed.config.to_text();
            match parse("printed.conf", text.as_bytes(), &load) {
                Ok(again) => assert_eq!(again.config, parsed.config),
                Err(failure) => panic!("{failure}\n{}", text.as_str()),
            }
        }
        Err(failure) => assert!(!failure.problems.is_empty()),
    }
});
