//! Key files: what parses prints to text that parses the same.
#![no_main]

use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wrap::v2::{ClientKey, ServerKey};
use adit_openvpn_config::TokenSecret;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let armour = |label| format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n");
    for text in [text, &armour("OpenVPN Static key V1")] {
        if let Ok(key) = StaticKey::parse(text) {
            assert_eq!(StaticKey::parse(&key.to_text()), Ok(key));
        }
    }
    let secret = armour("OpenVPN auth-token server key");
    for text in [text, &secret] {
        if let Ok(key) = TokenSecret::parse(text) {
            assert_eq!(TokenSecret::parse(&key.to_text()), Ok(key));
        }
    }
    for text in [text, &armour("OpenVPN tls-crypt-v2 client key")] {
        if let Ok(key) = ClientKey::parse(text) {
            assert_eq!(ClientKey::parse(&key.to_text()), Ok(key));
        }
    }
    for text in [text, &armour("OpenVPN tls-crypt-v2 server key")] {
        if let Ok(key) = ServerKey::parse(text) {
            assert_eq!(ServerKey::parse(&key.to_text()), Ok(key));
        }
    }
});
