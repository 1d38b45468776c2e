//! IKE messages, chains of payloads as they stand in encrypted payloads, and announced methods of authentication: they decode the
//! same after they were encoded.
#![no_main]

use adit_ike::crypto::AnnouncedMethods;
use adit_ike::wire::{Message, PayloadType, decode_chain, encode_chain};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(message) = Message::decode(data) {
        let datagram = message.encode();
        assert_eq!(Message::decode(&datagram), Ok(message));
    }
    let announced = AnnouncedMethods::decode(data);
    assert_eq!(AnnouncedMethods::decode(&announced.encode()), announced);
    let Some((first, chain)) = data.split_first() else { return };
    match decode_chain(PayloadType(*first), chain) {
        Ok(payloads) => {
            let mut encoded = Vec::new();
            let first = encode_chain(&payloads, &mut encoded);
            assert_eq!(decode_chain(first, &encoded), Ok(payloads));
        }
        Err(error) => assert!(error.at <= chain.len()),
    }
});
