//! Control messages and push replies: the stream is cut the same however it arrives, and what is parsed
//! prints to something that parses the same.
#![no_main]

use adit_openvpn::control_message::{
    ControlMessage, MAX_MESSAGE_LEN, PushAssembler, encode_push_reply, redacted, split,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut whole = data.to_vec();
    let messages = split(&mut whole);
    assert!(!whole.contains(&0) && whole.len() <= MAX_MESSAGE_LEN);
    let mut pieces = Vec::new();
    let mut buffer = Vec::new();
    for piece in data.chunks(7) {
        buffer.extend_from_slice(piece);
        pieces.extend(split(&mut buffer));
    }
    assert_eq!(pieces, messages);

    let mut assembler = PushAssembler::new();
    for message in messages.into_iter().flatten() {
        assert!(!message.contains(['\0', '\n', '\r', '\x7f']));
        let parsed = ControlMessage::parse(&message);
        assert_eq!(ControlMessage::parse(&parsed.to_string()), parsed);
        let _ = format!("{parsed:?}");
        let ControlMessage::PushReply(options) = parsed else { continue };
        for option in &options {
            assert!(!option.starts_with("auth-token ") || redacted(option) == "auth-token [hidden]");
        }
        let Ok(Some(options)) = assembler.add(options) else { continue };
        let Ok(bundles) = encode_push_reply(&options) else { continue };
        let mut joined = PushAssembler::new();
        let mut result = None;
        for bundle in &bundles {
            assert!(result.is_none() && bundle.len() < 1024);
            let ControlMessage::PushReply(part) = ControlMessage::parse(bundle) else { panic!("{bundle}") };
            result = joined.add(part).unwrap();
        }
        assert_eq!(result, Some(options));
    }
});
