//! Key method 2 messages: what decodes can be encoded and decodes the same, and no username can forge a line.
#![no_main]

use adit_core::is_unprintable;
use adit_openvpn::key_method::KeyMethod2;
use adit_openvpn::wire::TlsRole;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for sender in [TlsRole::Client, TlsRole::Server] {
        let Ok(message) = KeyMethod2::decode(data, sender) else { continue };
        assert_eq!(message.source.pre_master.is_some(), sender == TlsRole::Client);
        assert!(!message.username.contains(is_unprintable));
        let mut bytes = Vec::new();
        // Replacing bytes that are no UTF-8 can make a long peer info too long to say again.
        if message.encode(&mut bytes).is_ok() {
            assert_eq!(KeyMethod2::decode(&bytes, sender), Ok(message));
        }
    }
});
