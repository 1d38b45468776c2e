//! Texts in which a peer tells of itself: options string, peer info, messages in the data channel.
#![no_main]

use adit_core::is_unprintable;
use adit_openvpn::data_message::{DataMessage, OCC_MAGIC, classify};
use adit_openvpn::occ::parse_options;
use adit_openvpn::peer_info::{MAX_LINES, PeerVariables};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    classify(data);
    if let DataMessage::OccReply(options) = classify(&[OCC_MAGIC.as_slice(), data].concat()) {
        assert!(!options.contains('\0'));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    for (name, value) in parse_options(text) {
        assert!(!name.contains([',', ' ']) && !value.contains(','));
    }
    let variables = PeerVariables::parse(text);
    assert!(variables.iter().count() <= MAX_LINES);
    for (name, value) in variables.iter() {
        assert!(name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_'));
        assert!(!value.contains(is_unprintable) && !value.contains(['$', '`', '(']));
    }
    assert_eq!(PeerVariables::parse(&variables.to_string()), variables);
});
