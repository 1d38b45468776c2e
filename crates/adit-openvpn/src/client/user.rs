//! The username and password of a client, and the token that a server gives in their place.

use std::time::Duration;

use adit_core::UserPassword;

use crate::params::{AuthRetry, UserAuth};

/// What to do after the server refused us.
pub(super) enum AfterRefusal {
    /// It is final.
    End,
    /// Another attempt.
    Again,
}

/// What a client knows to authenticate itself with.
pub(super) struct User {
    auth: Option<UserAuth>,
    token: Option<UserPassword>,
    refused: Option<String>,
}

impl User {
    pub(super) fn new(auth: Option<UserAuth>) -> Self {
        User { auth, token: None, refused: None }
    }

    /// Whether somebody must be asked before the next connection.
    pub(super) fn must_ask(&self) -> bool {
        self.token.is_none() && self.auth.as_ref().is_some_and(|auth| auth.credentials.is_none())
    }

    /// Why the last answer did not do.
    pub(super) fn why_asked(&mut self) -> Option<String> {
        self.refused.take()
    }

    pub(super) fn answered(&mut self, credentials: UserPassword) {
        if let Some(auth) = &mut self.auth {
            auth.credentials = Some(credentials);
        }
    }

    /// What to show the server: the token before the password.
    pub(super) fn credentials(&self) -> Option<&UserPassword> {
        self.token.as_ref().or(self.auth.as_ref()?.credentials.as_ref())
    }

    /// The server gave a token in place of the password.
    pub(super) fn take_token(&mut self, token: UserPassword) {
        self.token = Some(token);
        self.forget_password();
    }

    fn forget_password(&mut self) {
        if let Some(auth) = self.auth.as_mut().filter(|auth| auth.nocache) {
            auth.credentials = None;
        }
    }

    /// A connection has ended.
    pub(super) fn connection_ended(&mut self) {
        self.forget_password();
    }

    /// The server wants us to authenticate ourselves by the password again.
    pub(super) fn forget_token(&mut self) {
        self.token = None;
    }

    /// The server refused what we showed. A refused token may only have run out.
    pub(super) fn refused(&mut self, reason: &str) -> AfterRefusal {
        if self.token.take().is_some() {
            return AfterRefusal::Again;
        }
        match self.auth.as_mut() {
            Some(auth) if auth.retry == AuthRetry::Interact => {
                auth.credentials = None;
                self.refused = Some(reason.to_owned());
                AfterRefusal::Again
            }
            Some(auth) if auth.retry == AuthRetry::NoInteract => AfterRefusal::Again,
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
    /// Reads what follows `AUTH_FAILED,`; `None` if it is another kind of refusal.
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
