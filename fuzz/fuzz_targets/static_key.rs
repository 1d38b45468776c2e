//! Static key files: what parses prints to text that parses the same.
#![no_main]

use adit_openvpn::static_key::StaticKey;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let armoured =
        format!("-----BEGIN OpenVPN Static key V1-----\n{text}\n-----END OpenVPN Static key V1-----\n");
    for text in [text, &armoured] {
        if let Ok(key) = StaticKey::parse(text) {
            assert_eq!(StaticKey::parse(&key.to_text()), Ok(key));
        }
    }
});
