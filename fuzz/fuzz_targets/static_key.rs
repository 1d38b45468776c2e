//! Key files: what parses prints to text that parses the same.
#![no_main]

use adit_openvpn_config::{KeyOwner, StaticKey, TlsCryptV2Key, TokenSecret};
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
    for (owner, label) in [
        (KeyOwner::Client, "OpenVPN tls-crypt-v2 client key"),
        (KeyOwner::Server, "OpenVPN tls-crypt-v2 server key"),
    ] {
        for text in [text, &armour(label)] {
            if let Ok(key) = TlsCryptV2Key::parse(text, owner) {
                assert_eq!(TlsCryptV2Key::parse(&key.to_text(), owner), Ok(key));
            }
        }
    }
});
