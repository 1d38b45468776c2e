//! Questions that a person answers besides giving username and password.
//!
//! Three kinds: that of the client's own file (`static-challenge`), whose answer goes with the password; the
//! server's instead of letting the client in (`AUTH_FAILED,CRV1:…`), whose answer is the password of the next
//! connection; the server's while it waits (`INFO_PRE,CR_TEXT:…`), which is answered at once. Sources: OpenVPN
//! doc/management-notes.txt ("Challenge/Response"), misc.c (`get_user_pass_cr`, `parse_auth_challenge`).

use base64ct::{Base64, Encoding as _};
use zeroize::Zeroizing;

use crate::params::StaticChallenge;
use crate::request::UserPassword;

/// The password that carries the answer to a static challenge.
pub(super) fn static_password(
    challenge: &StaticChallenge,
    password: &str,
    answer: &str,
) -> Zeroizing<String> {
    let encode = |text: &str| Zeroizing::new(Base64::encode_string(text.as_bytes()));
    Zeroizing::new(match challenge.concat {
        true => [password, answer].concat(),
        false => ["SCRV1:", encode(password).as_str(), ":", encode(answer).as_str()].concat(),
    })
}

/// `CRV1:FLAGS:STATE:USERNAME IN BASE64:TEXT`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dynamic {
    state: String,
    username: String,
    pub(super) text: String,
    pub(super) echo: bool,
    /// There is an answer to give; else the text is only to be shown.
    pub(super) wants_answer: bool,
}

impl Dynamic {
    /// Reads the text after `AUTH_FAILED,`; `None` if that is no challenge.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix("CRV1:")?.splitn(4, ':');
        let (flags, state, username, text) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        Some(Dynamic {
            state: state.to_owned(),
            username: decode_name(username)?,
            text: text.to_owned(),
            echo: flags.contains('E'),
            wants_answer: flags.contains('R'),
        })
    }

    /// The credentials that answer the question at the next connection.
    pub(super) fn answer(&self, answer: &str) -> UserPassword {
        let password = Zeroizing::new(["CRV1::", &self.state, "::", answer].concat());
        UserPassword { username: self.username.clone(), password }
    }
}

/// `CR_TEXT:FLAGS:TEXT`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TextChallenge {
    pub(super) text: String,
    pub(super) echo: bool,
}

impl TextChallenge {
    /// Reads the text after `INFO_PRE,`; `None` if that is something else, or wants no answer (no flag `R`).
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (flags, text) = text.strip_prefix("CR_TEXT:")?.split_once(':')?;
        flags.contains('R').then(|| TextChallenge { text: text.to_owned(), echo: flags.contains('E') })
    }
}

/// The control message that answers a [`TextChallenge`].
pub(super) fn response_message(answer: &str) -> Zeroizing<String> {
    let encoded = Zeroizing::new(Base64::encode_string(answer.as_bytes()));
    Zeroizing::new(["CR_RESPONSE,", encoded.as_str()].concat())
}

/// A username in base64. Text that is no base64 is no name.
pub(super) fn decode_name(base64: &str) -> Option<String> {
    let name = String::from_utf8(Base64::decode_vec(base64).ok()?).ok()?;
    (!name.is_empty() && !name.chars().any(char::is_control)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The examples of OpenVPN's doc/management-notes.txt.
    #[test]
    fn challenges_of_openvpns_notes() {
        let text = "CRV1:R,E:Om01u7Fh4LrGBS7uh0SWmzwabUiGiW6l:Y3Ix:Please enter token PIN";
        let challenge = Dynamic::parse(text).unwrap();
        assert_eq!((challenge.text.as_str(), challenge.echo), ("Please enter token PIN", true));
        let answer = challenge.answer("8675309");
        assert_eq!(answer.username, "cr1");
        assert_eq!(*answer.password, "CRV1::Om01u7Fh4LrGBS7uh0SWmzwabUiGiW6l::8675309");

        let mut own = StaticChallenge { text: "PIN".to_owned(), echo: false, concat: false };
        assert_eq!(*static_password(&own, "bar", "8675309"), "SCRV1:YmFy:ODY3NTMwOQ==");
        own.concat = true;
        assert_eq!(*static_password(&own, "bar", "8675309"), "bar8675309");

        let challenge = TextChallenge::parse("CR_TEXT:R,E:Please enter your TOTP code!").unwrap();
        assert_eq!((challenge.text.as_str(), challenge.echo), ("Please enter your TOTP code!", true));
        assert_eq!(*response_message("Hallo Welt!"), "CR_RESPONSE,SGFsbG8gV2VsdCE=");
    }

    #[test]
    fn what_is_no_challenge() {
        for text in
            ["", "CRV1", "CRV1:R:state:Y3Ix", "CRV1:R:state:-:text", "CRV1:R:s::text", "TEMP:CRV1:R:s:Y3Ix:t"]
        {
            assert_eq!(Dynamic::parse(text), None, "{text}");
        }
        let odd = Dynamic::parse("CRV1:R:state:Y3Ix:a: b:c").unwrap();
        assert_eq!((odd.text.as_str(), odd.echo), ("a: b:c", false));
        for text in ["CR_TEXT:", "CR_TEXT:R", "CR_TEXT:E:for your information", "WEB_AUTH::https://x"] {
            assert_eq!(TextChallenge::parse(text), None, "{text}");
        }
    }
}
