//! The options of a push reply: whatever a server pushes, what comes of it can be set up, and holds no words for
//! a shell.
#![no_main]

use adit_openvpn::control_message::ControlMessage;
use adit_openvpn::fuzzing::pushed;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    // Options one a line, and as they come.
    let lines: Vec<&str> = text.lines().collect();
    pushed(&lines, false);
    pushed(&lines, true);
    if let ControlMessage::PushReply(options) = ControlMessage::parse(&format!("PUSH_REPLY,{text}")) {
        pushed(&options.iter().map(String::as_str).collect::<Vec<_>>(), false);
    }
});
