//! The username and password of a client, and the token that a server gives in their place.

use std::time::Duration;

use zeroize::Zeroizing;

use super::challenge::{Dynamic, static_password};
use crate::params::{AuthRetry, UserAuth};
use crate::request::UserPassword;

/// The step after the server refused us.
pub(super) enum AfterRefusal {
    /// The refusal is final.
    End,
    /// Another attempt, with other words.
    Again,
    /// Another attempt with the same words.
    AgainTheSame,
}

/// The input that a person must give before the next connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Username and password.
    Credentials,
    /// The answer to a question.
    Answer { text: String, echo: bool },
}

/// The credentials of a client.
pub(super) struct User {
    auth: Option<UserAuth>,
    /// The answer to the file's own question (`static-challenge`).
    answer: Option<Zeroizing<String>>,
    token: Option<UserPassword>,
    /// The server's question instead of letting us in.
    challenge: Option<Dynamic>,
    /// The answer to it, for one connection.
    once: Option<UserPassword>,
    refused: Option<String>,
}

impl User {
    pub(super) fn new(auth: Option<UserAuth>) -> Self {
        User { auth, answer: None, token: None, challenge: None, once: None, refused: None }
    }

    /// The input that the user must give before the next connection.
    pub(super) fn need(&self) -> Option<Need> {
        if let Some(Dynamic { text, echo, .. }) = &self.challenge {
            return Some(Need::Answer { text: text.clone(), echo: *echo });
        }
        let auth = self.auth.as_ref().filter(|_| self.once.is_none() && self.token.is_none())?;
        if auth.credentials.is_none() {
            return Some(Need::Credentials);
        }
        let challenge = auth.challenge.as_ref().filter(|_| self.answer.is_none())?;
        Some(Need::Answer { text: challenge.text.clone(), echo: challenge.echo })
    }

    /// Whether a program answers that knows OpenVPN's own words.
    pub(super) fn answers_by_program(&self) -> bool {
        self.auth.as_ref().is_some_and(|auth| auth.by_program)
    }

    /// Whether the server is shown a token, which may only have run out.
    pub(super) fn shows_token(&self) -> bool {
        self.once.is_none() && self.token.is_some()
    }

    /// Forgets the credentials that the user or a server gave.
    pub(super) fn forget_all(&mut self) {
        (self.token, self.once, self.answer) = (None, None, None);
        if let Some(auth) = &mut self.auth {
            auth.credentials = None;
        }
    }

    /// Why the last credentials did not do.
    pub(super) fn why_asked(&mut self) -> Option<String> {
        self.refused.take()
    }

    pub(super) fn answered(&mut self, credentials: UserPassword) {
        if let Some(auth) = &mut self.auth {
            auth.credentials = Some(credentials);
        }
    }

    /// The answer to the question of [`User::need`].
    pub(super) fn answered_question(&mut self, answer: Zeroizing<String>) {
        match self.challenge.take() {
            Some(challenge) => self.once = Some(challenge.answer(&answer)),
            None => self.answer = Some(answer),
        }
    }

    /// The credentials to send to the server: the answer to its question before the token before the
    /// password.
    pub(super) fn credentials(&self) -> Option<UserPassword> {
        if let Some(shown) = self.once.as_ref().or(self.token.as_ref()) {
            return Some(shown.clone());
        }
        let auth = self.auth.as_ref()?;
        let mut credentials = auth.credentials.clone()?;
        if let (Some(challenge), Some(answer)) = (&auth.challenge, &self.answer) {
            credentials.password = static_password(challenge, &credentials.password, answer);
        }
        Some(credentials)
    }

    /// The server gave a token in place of the password. The answer to a question is hardly good twice.
    pub(super) fn take_token(&mut self, token: UserPassword) {
        self.token = Some(token);
        self.answer = None;
        self.forget_password();
    }

    fn forget_password(&mut self) {
        if let Some(auth) = self.auth.as_mut().filter(|auth| auth.nocache) {
            auth.credentials = None;
            self.answer = None;
        }
    }

    /// A connection has ended.
    pub(super) fn connection_ended(&mut self) {
        self.once = None;
        self.forget_password();
    }

    /// The server wants us to authenticate ourselves by the password again.
    pub(super) fn forget_token(&mut self) {
        self.token = None;
    }

    /// The server sent a challenge instead of accepting the client. An error: the user may not be asked.
    pub(super) fn challenged(&mut self, challenge: Dynamic) -> Result<(), &'static str> {
        match &self.auth {
            None => Err("there is no `auth-user-pass` in the file, so no user is asked"),
            Some(auth) if auth.retry == AuthRetry::NoInteract => Err(
                "`auth-retry nointeract` says that the user is not to be asked; write `auth-retry interact`",
            ),
            Some(_) if challenge.wants_answer => {
                self.challenge = Some(challenge);
                Ok(())
            }
            Some(_) => {
                self.once = Some(challenge.answer(""));
                Ok(())
            }
        }
    }

    /// The server refused our credentials. A refused token may only have run out.
    pub(super) fn refused(&mut self, reason: &str) -> AfterRefusal {
        if self.token.take().is_some() {
            return AfterRefusal::Again;
        }
        match self.auth.as_mut() {
            Some(auth) if auth.retry == AuthRetry::Interact => {
                auth.credentials = None;
                self.answer = None;
                self.refused = Some(reason.to_owned());
                AfterRefusal::Again
            }
            Some(auth) if auth.retry == AuthRetry::NoInteract => AfterRefusal::AgainTheSame,
            _ => AfterRefusal::End,
        }
    }
}

/// `AUTH_FAILED,TEMP[backoff SECONDS,advance no|addr|remote]:REASON` (OpenVPN push.c
/// `parse_auth_failed_temp`): the server cannot judge us now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Temporary {
    /// How long to wait.
    pub(super) backoff: Option<Duration>,
    /// To go on with the next remote.
    pub(super) advance: bool,
    pub(super) reason: String,
}

impl Temporary {
    /// Reads the text after `AUTH_FAILED,`; `None` if it is another kind of refusal.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("TEMP")?;
        let (flags, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((flags, rest)) => (flags, rest),
            None => ("", rest),
        };
        let mut temporary =
            Temporary { backoff: None, advance: false, reason: rest.trim_start_matches(':').to_owned() };
        for flag in flags.split(',').map(str::trim) {
            match flag.split_once(' ') {
                Some(("backoff", seconds)) => {
                    let seconds: Option<u32> = seconds.trim().parse().ok();
                    temporary.backoff = seconds.map(|seconds| Duration::from_secs(seconds.into()));
                }
                Some(("advance", "remote")) => temporary.advance = true,
                _ => {}
            }
        }
        Some(temporary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_failures() {
        let parse = |text| Temporary::parse(text).unwrap();
        let wanted = Temporary {
            backoff: Some(Duration::from_secs(42)),
            advance: false,
            reason: "no more".to_owned(),
        };
        assert_eq!(parse("TEMP[backoff 42,advance no]:no more"), wanted);
        let wanted = Temporary { backoff: None, advance: true, reason: "away".to_owned() };
        assert_eq!(parse("TEMP[advance remote]:away"), wanted);
        assert_eq!(parse("TEMP[backoff 99999999999999]").backoff, None);
        assert_eq!(parse("TEMP").reason, "");
        assert_eq!(parse("TEMP:later").reason, "later");
        assert_eq!(Temporary::parse("SESSION: token expired"), None);
    }
}
