//! Text messages on the control channel after the key exchange: NUL-terminated lines inside TLS.
//!
//! Sources: OpenVPN forward.c (`parse_incoming_control_channel_command`), ssl_pkt.c
//! (`extract_command_buffer`), push.c. (The RFC draft has the flags of RESTART the wrong way round.)

use std::fmt;

use thiserror::Error;
use zeroize::Zeroizing;

mod push;

pub use push::{BUNDLE_LEN, MAX_PUSH_LEN, PushAssembler, PushError, encode_push_reply, encode_push_update};

/// Longest message in bytes, its NUL not counted. OpenVPN 2 sends no more than 1,023; others send more.
pub const MAX_MESSAGE_LEN: usize = 65_535;

/// Why bytes from the control channel are no message. That message is dropped as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// Bytes that no message may hold: a message with one is dropped, never cleaned (CVE-2024-5594).
    #[error("a control message holds unprintable bytes")]
    Unprintable,
    /// No NUL within [`MAX_MESSAGE_LEN`].
    #[error("a control message is longer than {MAX_MESSAGE_LEN} bytes")]
    TooLong,
}

/// Takes all complete messages out of `buffer`, without their NULs and line ends; the bytes after the last
/// NUL stay for next time. Empty messages are left out.
///
/// The text may hold secrets (`auth-token`).
pub fn split(buffer: &mut Vec<u8>) -> Vec<Result<Zeroizing<String>, MessageError>> {
    let mut messages = Vec::new();
    let complete = buffer.iter().rposition(|byte| *byte == 0).map_or(0, |end| end + 1);
    // Taken out at once: a peer that sends thousands of messages in a record must not cost their number times its length.
    let whole = Zeroizing::new(buffer.drain(..complete).collect::<Vec<u8>>());
    for message in whole.split(|byte| *byte == 0) {
        match printable(message) {
            Ok("") => {}
            Ok(text) => messages.push(Ok(Zeroizing::new(text.to_owned()))),
            Err(error) => messages.push(Err(error)),
        }
    }
    if buffer.len() > MAX_MESSAGE_LEN {
        buffer.clear();
        messages.push(Err(MessageError::TooLong));
    }
    messages
}

fn printable(message: &[u8]) -> Result<&str, MessageError> {
    if message.len() > MAX_MESSAGE_LEN {
        return Err(MessageError::TooLong);
    }
    let text = std::str::from_utf8(message).map_err(|_| MessageError::Unprintable)?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.chars().any(char::is_control) { Err(MessageError::Unprintable) } else { Ok(text) }
}

/// A message on the control channel. `Display` is the wire form without the NUL; `Debug` hides tokens and
/// responses, and is fit for logs.
#[derive(Clone, PartialEq, Eq)]
pub enum ControlMessage {
    /// The client asks for its options.
    PushRequest,
    /// Options for the client; perhaps not all, see [`PushAssembler`].
    PushReply(Vec<String>),
    /// Changes to a client's options; perhaps not all, see [`PushAssembler`].
    PushUpdate(Vec<String>),
    /// The server refuses the client; the reason may be empty, or carry flags (`TEMP…`, `CRV1:…`).
    AuthFailed(String),
    /// The client shall connect anew.
    Restart(Disconnect),
    /// The client shall stop.
    Halt(Disconnect),
    /// The peer is leaving (`protocol-flags cc-exit`).
    Exit,
    /// Something to tell the person in charge, `>INFOMSG` of the management interface.
    Info(String),
    /// A message like [`Self::Info`], before authentication has ended: `WEB_AUTH:…`, `CR_TEXT:…`.
    InfoPre(String),
    /// Authentication takes longer, at most that many seconds if said.
    AuthPending {
        /// How long in seconds.
        timeout: Option<u32>,
    },
    /// The client's answer to a challenge: base64 text.
    CrResponse(String),
    /// Anything else, as it came.
    Unknown(String),
}

/// The flags of RESTART and HALT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disconnect {
    /// `[P]`: keep the username and password.
    pub keep_credentials: bool,
    /// `[N]`: go on with the next remote.
    pub next_remote: bool,
    /// Why, for people; may be empty.
    pub reason: String,
}

impl Disconnect {
    fn parse(text: &str) -> Self {
        let flagged = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (flags, reason) = flagged.unwrap_or(("", text));
        Disconnect {
            keep_credentials: flags.contains('P'),
            next_remote: flags.contains('N'),
            reason: reason.to_owned(),
        }
    }
}

impl fmt::Display for Disconnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A reason that looks like flags gets empty flags in front.
        if self.keep_credentials || self.next_remote || self.reason.starts_with('[') {
            let keep = if self.keep_credentials { "P" } else { "" };
            let next = if self.next_remote { "N" } else { "" };
            write!(f, "[{keep}{next}]")?;
        }
        f.write_str(&self.reason)
    }
}

impl ControlMessage {
    /// Reads one message, as [`split`] gives it.
    pub fn parse(message: &str) -> Self {
        if let Some(rest) = message.strip_prefix("AUTH_FAILED") {
            return ControlMessage::AuthFailed(rest.strip_prefix(',').unwrap_or(rest).to_owned());
        }
        let (name, rest) = message.split_once(',').unwrap_or((message, ""));
        match name {
            "PUSH_REQUEST" => ControlMessage::PushRequest,
            "PUSH_REPLY" => ControlMessage::PushReply(options(rest)),
            "PUSH_UPDATE" => ControlMessage::PushUpdate(options(rest)),
            "RESTART" => ControlMessage::Restart(Disconnect::parse(rest)),
            "HALT" => ControlMessage::Halt(Disconnect::parse(rest)),
            "EXIT" => ControlMessage::Exit,
            "INFO" => ControlMessage::Info(rest.to_owned()),
            "INFO_PRE" => ControlMessage::InfoPre(rest.to_owned()),
            "AUTH_PENDING" => {
                let keyword = |word: &str| word.strip_prefix("timeout ")?.trim().parse().ok();
                ControlMessage::AuthPending { timeout: rest.split(',').find_map(keyword) }
            }
            "CR_RESPONSE" => ControlMessage::CrResponse(rest.to_owned()),
            _ => ControlMessage::Unknown(message.to_owned()),
        }
    }
}

impl fmt::Display for ControlMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = |f: &mut fmt::Formatter<'_>, name: &str, rest: &str| {
            let comma = if rest.is_empty() { "" } else { "," };
            write!(f, "{name}{comma}{rest}")
        };
        match self {
            ControlMessage::PushRequest => f.write_str("PUSH_REQUEST"),
            ControlMessage::PushReply(options) => with(f, "PUSH_REPLY", &options.join(",")),
            ControlMessage::PushUpdate(options) => with(f, "PUSH_UPDATE", &options.join(",")),
            ControlMessage::AuthFailed(reason) => with(f, "AUTH_FAILED", reason),
            ControlMessage::Restart(how) => with(f, "RESTART", &how.to_string()),
            ControlMessage::Halt(how) => with(f, "HALT", &how.to_string()),
            ControlMessage::Exit => f.write_str("EXIT"),
            ControlMessage::Info(text) => with(f, "INFO", text),
            ControlMessage::InfoPre(text) => with(f, "INFO_PRE", text),
            ControlMessage::AuthPending { timeout: None } => f.write_str("AUTH_PENDING"),
            ControlMessage::AuthPending { timeout: Some(seconds) } => {
                write!(f, "AUTH_PENDING,timeout {seconds}")
            }
            ControlMessage::CrResponse(response) => with(f, "CR_RESPONSE", response),
            ControlMessage::Unknown(message) => f.write_str(message),
        }
    }
}

impl fmt::Debug for ControlMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlMessage::PushReply(_) | ControlMessage::PushUpdate(_) | ControlMessage::Unknown(_) => {
                let text = self.to_string();
                let mut comma = "";
                text.split(',').try_for_each(|option| {
                    write!(f, "{}{}", std::mem::replace(&mut comma, ","), redacted(option))
                })
            }
            ControlMessage::CrResponse(_) => f.write_str("CR_RESPONSE,[hidden]"),
            other => write!(f, "{other}"),
        }
    }
}

fn options(text: &str) -> Vec<String> {
    text.split(',').filter(|option| !option.is_empty()).map(str::to_owned).collect()
}

/// A pushed option as it may be logged: the value of `auth-token` is hidden.
pub fn redacted(option: &str) -> &str {
    match option.split_whitespace().next() {
        Some("auth-token") => "auth-token [hidden]",
        _ => option,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(buffer: &mut Vec<u8>) -> Vec<Result<String, MessageError>> {
        split(buffer).into_iter().map(|message| message.map(|text| text.to_string())).collect()
    }

    // The input of OpenVPN's tests/unit_tests/openvpn/test_pkt.c (`test_extract_control_message`).
    #[test]
    fn splits_at_nuls_and_drops_what_is_unprintable() {
        let mut buffer = b"valid control message\r\n\0\0Invalid\r\none\0valid one again\0rest".to_vec();
        assert_eq!(
            texts(&mut buffer),
            [
                Ok("valid control message".to_owned()),
                Err(MessageError::Unprintable),
                Ok("valid one again".to_owned())
            ]
        );
        assert_eq!(buffer, b"rest");
        buffer.extend_from_slice(b" of it\0");
        assert_eq!(texts(&mut buffer), [Ok("rest of it".to_owned())]);
        assert!(buffer.is_empty());
    }

    #[test]
    fn a_message_without_end_is_given_up() {
        let mut buffer = vec![b'a'; MAX_MESSAGE_LEN];
        assert_eq!(texts(&mut buffer), []);
        buffer.push(b'a');
        assert_eq!(texts(&mut buffer), [Err(MessageError::TooLong)]);
        assert!(buffer.is_empty());
        for byte in [0x07, 0x7f, 0xff, b'\n'] {
            assert_eq!(texts(&mut vec![b'a', byte, b'a', 0]), [Err(MessageError::Unprintable)]);
        }
    }

    #[test]
    fn parses_each_kind() {
        use ControlMessage as M;
        let restart = |keep_credentials, next_remote, reason: &str| {
            M::Restart(Disconnect { keep_credentials, next_remote, reason: reason.to_owned() })
        };
        let cases = [
            ("PUSH_REQUEST", M::PushRequest),
            ("PUSH_REPLY", M::PushReply(vec![])),
            (
                "PUSH_REPLY,route 10.0.0.0,ping 10",
                M::PushReply(vec!["route 10.0.0.0".to_owned(), "ping 10".to_owned()]),
            ),
            ("PUSH_UPDATE,-route,?dns x", M::PushUpdate(vec!["-route".to_owned(), "?dns x".to_owned()])),
            ("AUTH_FAILED", M::AuthFailed(String::new())),
            (
                "AUTH_FAILED,TEMP[backoff 30,advance no]:later",
                M::AuthFailed("TEMP[backoff 30,advance no]:later".to_owned()),
            ),
            ("RESTART", restart(false, false, "")),
            ("RESTART,[P]", restart(true, false, "")),
            ("RESTART,[N]", restart(false, true, "")),
            ("RESTART,[PN]go, now", restart(true, true, "go, now")),
            ("RESTART,[no flags", restart(false, false, "[no flags")),
            ("HALT,bye", M::Halt(Disconnect { reason: "bye".to_owned(), ..Disconnect::default() })),
            ("EXIT", M::Exit),
            ("INFO,a,b", M::Info("a,b".to_owned())),
            ("INFO_PRE,WEB_AUTH::https://x", M::InfoPre("WEB_AUTH::https://x".to_owned())),
            ("AUTH_PENDING", M::AuthPending { timeout: None }),
            ("AUTH_PENDING,x,timeout 42", M::AuthPending { timeout: Some(42) }),
            ("AUTH_PENDING,timeout -1", M::AuthPending { timeout: None }),
            ("CR_RESPONSE,Zm9v", M::CrResponse("Zm9v".to_owned())),
            ("EXITUS", M::Unknown("EXITUS".to_owned())),
            ("", M::Unknown(String::new())),
        ];
        for (text, message) in cases {
            assert_eq!(M::parse(text), message, "{text}");
        }
    }

    #[test]
    fn debug_hides_secrets() {
        let shown = |text| format!("{:?}", ControlMessage::parse(text));
        assert_eq!(
            shown("PUSH_REPLY,auth-token SESS_ID_AT_x,auth-token-user YQ==,ping 1"),
            "PUSH_REPLY,auth-token [hidden],auth-token-user YQ==,ping 1"
        );
        assert_eq!(shown("PUSH_UPDATE,auth-token x"), "PUSH_UPDATE,auth-token [hidden]");
        assert_eq!(shown("CR_RESPONSE,c2VjcmV0"), "CR_RESPONSE,[hidden]");
    }

    fn any_message() -> impl Strategy<Value = ControlMessage> {
        use ControlMessage as M;
        let how = (any::<bool>(), any::<bool>(), "[ -~]{0,20}").prop_map(
            |(keep_credentials, next_remote, reason)| Disconnect { keep_credentials, next_remote, reason },
        );
        prop_oneof![
            Just(M::PushRequest),
            Just(M::Exit),
            prop::collection::vec("[!-+--~][ -+--~]{0,20}", 0..5).prop_map(M::PushReply),
            prop::collection::vec("[!-+--~][ -+--~]{0,20}", 0..5).prop_map(M::PushUpdate),
            "[ -~]{0,30}".prop_map(M::AuthFailed),
            how.clone().prop_map(M::Restart),
            how.prop_map(M::Halt),
            "[ -~]{0,30}".prop_map(M::Info),
            "[ -~]{0,30}".prop_map(M::InfoPre),
            "[ -~]{0,30}".prop_map(M::CrResponse),
            prop::option::of(any::<u32>()).prop_map(|timeout| M::AuthPending { timeout }),
        ]
    }

    proptest! {
        #[test]
        fn parse_undoes_print(message in any_message()) {
            prop_assert_eq!(ControlMessage::parse(&message.to_string()), message);
        }

        #[test]
        fn split_and_parse_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for message in split(&mut bytes).into_iter().flatten() {
                prop_assert!(!message.contains(['\0', '\n']));
                ControlMessage::parse(&message);
            }
        }
    }
}
