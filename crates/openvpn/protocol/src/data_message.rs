//! Messages inside the data channel that are no IP packets: pings and options consistency checks.

use std::borrow::Cow;

/// The payload of a ping (OpenVPN ping.c). Only a payload of exactly these bytes is one.
pub const PING: [u8; 16] =
    [0x2a, 0x18, 0x7b, 0xf3, 0x64, 0x1e, 0xb4, 0xcb, 0x07, 0xed, 0x2d, 0x0a, 0x98, 0x1f, 0xc7, 0x48];

/// The start of an options consistency (OCC) message (OpenVPN occ.c).
pub const OCC_MAGIC: [u8; 16] =
    [0x28, 0x7f, 0x34, 0x6b, 0xd4, 0xef, 0x7a, 0x81, 0x2d, 0x56, 0xb8, 0xd3, 0xaf, 0xc5, 0x45, 0x9c];

/// The peer asks for our options string.
pub const OCC_REQUEST: u8 = 0;
/// The peer's options string follows.
pub const OCC_REPLY: u8 = 1;
/// The peer is leaving (`explicit-exit-notify`).
pub const OCC_EXIT: u8 = 6;

/// A payload of the data channel that is no IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataMessage<'a> {
    /// A sign of life.
    Ping,
    /// The peer asks for our options string.
    OccRequest,
    /// The peer's options string; bytes that are no UTF-8 are replaced.
    OccReply(Cow<'a, str>),
    /// The peer is leaving.
    OccExit,
    /// An OCC message of a type that needs no answer, such as MTU tests.
    OccOther(u8),
    /// Nothing that OpenVPN defines.
    Unknown,
}

/// The kind of a payload.
pub fn classify(payload: &[u8]) -> DataMessage<'_> {
    if payload == PING {
        return DataMessage::Ping;
    }
    match payload.strip_prefix(&OCC_MAGIC) {
        Some([OCC_REQUEST, ..]) => DataMessage::OccRequest,
        Some([OCC_REPLY, options @ ..]) => {
            let end = options.iter().position(|byte| *byte == 0).unwrap_or(options.len());
            DataMessage::OccReply(String::from_utf8_lossy(options.get(..end).unwrap_or_default()))
        }
        Some([OCC_EXIT, ..]) => DataMessage::OccExit,
        Some([other, ..]) => DataMessage::OccOther(*other),
        Some([]) | None => DataMessage::Unknown,
    }
}

/// The payload that says we are leaving.
pub fn occ_exit() -> Vec<u8> {
    [OCC_MAGIC.as_slice(), &[OCC_EXIT]].concat()
}

/// The payload that tells our options string.
pub fn occ_reply(options: &str) -> Vec<u8> {
    [OCC_MAGIC.as_slice(), &[OCC_REPLY], options.as_bytes(), &[0]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_what() {
        assert_eq!(classify(&PING), DataMessage::Ping);
        assert_eq!(classify(&[PING.as_slice(), &[0]].concat()), DataMessage::Unknown);
        assert_eq!(classify(&PING[..15]), DataMessage::Unknown);
        assert_eq!(classify(&occ_exit()), DataMessage::OccExit);
        assert_eq!(classify(&occ_reply("V4,x")), DataMessage::OccReply("V4,x".into()));
        assert_eq!(classify(&[OCC_MAGIC.as_slice(), &[0]].concat()), DataMessage::OccRequest);
        assert_eq!(classify(&[OCC_MAGIC.as_slice(), &[4]].concat()), DataMessage::OccOther(4));
        assert_eq!(classify(&OCC_MAGIC), DataMessage::Unknown);
        assert_eq!(classify(&[]), DataMessage::Unknown);
        assert_eq!(classify(&[0x45, 0, 0, 20]), DataMessage::Unknown);
    }

    proptest! {
        #[test]
        fn classify_never_panics(tail in prop::collection::vec(any::<u8>(), 0..50)) {
            classify(&tail);
            classify(&[OCC_MAGIC.as_slice(), &tail].concat());
        }
    }
}
