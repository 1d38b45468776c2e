use thiserror::Error;

/// Longest PUSH_REPLY message in bytes with its NUL (OpenVPN common.h, `PUSH_BUNDLE_SIZE`).
pub const BUNDLE_LEN: usize = 1024;
/// Most bytes of options that a client takes from one server: about 8,000 routes.
pub const MAX_PUSH_LEN: usize = 256 * 1024;

const CONTINUATION: &str = "push-continuation";
/// Room kept in every bundle for `,push-continuation 2` and the NUL.
const RESERVE: usize = ",push-continuation 2".len() + 1;

/// Why options cannot be pushed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PushError {
    /// An option does not fit one message.
    #[error("the pushed option \"{0}…\" is too long for a message of {BUNDLE_LEN} bytes; shorten it")]
    TooLong(String),
    /// An option that the peer would read as several, or drop.
    #[error("the pushed option \"{0}\" holds a comma or an unprintable character, which cannot be pushed")]
    Illegal(String),
    /// The server pushes without end.
    #[error("the server pushes more than {MAX_PUSH_LEN} bytes of options")]
    TooMany,
}

/// Cuts options into PUSH_REPLY messages (without NULs) of at most [`BUNDLE_LEN`] bytes each. No options make
/// one message without any, which the client waits for.
///
/// # Errors
/// If an option holds a comma or control character, or does not fit a message by itself.
pub fn encode_push_reply(options: &[String]) -> Result<Vec<String>, PushError> {
    encode("PUSH_REPLY", options)
}

/// Cuts changes to a client's options into PUSH_UPDATE messages in the same way.
///
/// # Errors
/// As with [`encode_push_reply`].
pub fn encode_push_update(changes: &[String]) -> Result<Vec<String>, PushError> {
    encode("PUSH_UPDATE", changes)
}

fn encode(prefix: &str, options: &[String]) -> Result<Vec<String>, PushError> {
    let mut messages = Vec::new();
    let mut message = prefix.to_owned();
    for option in options.iter().filter(|option| !option.is_empty()) {
        if option.contains(',') || option.chars().any(char::is_control) {
            return Err(PushError::Illegal(option.escape_debug().to_string()));
        }
        if prefix.len() + 1 + option.len() + RESERVE > BUNDLE_LEN {
            return Err(PushError::TooLong(option.chars().take(40).collect()));
        }
        if message.len() + 1 + option.len() + RESERVE > BUNDLE_LEN {
            message.push_str(",push-continuation 2");
            messages.push(std::mem::replace(&mut message, prefix.to_owned()));
        }
        message.push(',');
        message.push_str(option);
    }
    if !messages.is_empty() {
        message.push_str(",push-continuation 1");
    }
    messages.push(message);
    Ok(messages)
}

/// Joins the PUSH_REPLY messages of a server that sends more than fits one.
#[derive(Clone, Debug, Default)]
pub struct PushAssembler {
    options: Vec<String>,
    length: usize,
}

impl PushAssembler {
    /// Has nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one message's options. All options once the last message is there; without the
    /// `push-continuation` marks. `None`: more follows.
    ///
    /// # Errors
    /// [`PushError::TooMany`] beyond [`MAX_PUSH_LEN`]; everything collected is then forgotten.
    pub fn add(&mut self, options: Vec<String>) -> Result<Option<Vec<String>>, PushError> {
        let mut more = false;
        for option in options {
            let mut words = option.split_whitespace();
            if words.next() == Some(CONTINUATION) {
                more = words.next() == Some("2");
                continue;
            }
            self.length = self.length.saturating_add(option.len() + 1);
            if self.length > MAX_PUSH_LEN {
                *self = Self::default();
                return Err(PushError::TooMany);
            }
            self.options.push(option);
        }
        if more {
            return Ok(None);
        }
        Ok(Some(std::mem::take(self).options))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ControlMessage;
    use super::*;
    use proptest::prelude::*;

    fn assemble(messages: &[String]) -> Option<Vec<String>> {
        let mut assembler = PushAssembler::new();
        let mut done = None;
        for message in messages {
            assert_eq!(done, None, "complete before the last message");
            let ControlMessage::PushReply(options) = ControlMessage::parse(message) else {
                panic!("{message} is no PUSH_REPLY")
            };
            done = assembler.add(options).unwrap();
        }
        done
    }

    #[test]
    fn one_message_has_no_continuation() {
        let options = ["ping 10".to_owned(), "topology subnet".to_owned()];
        let messages = encode_push_reply(&options).unwrap();
        assert_eq!(messages, ["PUSH_REPLY,ping 10,topology subnet"]);
        assert_eq!(encode_push_reply(&[]), Ok(vec!["PUSH_REPLY".to_owned()]));
        assert_eq!(assemble(&messages), Some(options.to_vec()));
    }

    #[test]
    fn many_options_take_several_messages() {
        let options: Vec<_> = (0..100).map(|n| format!("route 10.{n}.0.0 255.255.0.0")).collect();
        let messages = encode_push_reply(&options).unwrap();
        assert_eq!(messages.len(), 3);
        assert!(messages[0].ends_with(",push-continuation 2"));
        assert!(messages[1].ends_with(",push-continuation 2"));
        assert!(messages[2].ends_with(",push-continuation 1"));
        assert_eq!(assemble(&messages), Some(options));
    }

    #[test]
    fn what_cannot_be_pushed_is_refused() {
        let encode = |option: &str| encode_push_reply(&[option.to_owned()]).unwrap_err();
        assert!(matches!(encode("a,b"), PushError::Illegal(_)));
        assert!(matches!(encode("a\nb"), PushError::Illegal(_)));
        assert!(matches!(encode(&"a".repeat(993)), PushError::TooLong(_)));
        assert_eq!(encode_push_reply(&["a".repeat(992)]).map(|messages| messages.len()), Ok(1));
    }

    #[test]
    fn endless_pushes_are_bounded() {
        let mut assembler = PushAssembler::new();
        let bundle = || vec!["a".repeat(900), "push-continuation 2".to_owned()];
        let end = (0..1000).find_map(|_| assembler.add(bundle()).err());
        assert_eq!(end, Some(PushError::TooMany));
        assert_eq!(assembler.add(vec!["ping 1".to_owned()]), Ok(Some(vec!["ping 1".to_owned()])));
    }

    proptest! {
        #[test]
        fn assembling_undoes_cutting(options in prop::collection::vec("[a-z][a-z0-9 .]{0,300}", 0..40)) {
            let messages = encode_push_reply(&options).unwrap();
            prop_assert!(messages.iter().all(|message| message.len() < BUNDLE_LEN));
            prop_assert_eq!(assemble(&messages), Some(options));
        }
    }
}
