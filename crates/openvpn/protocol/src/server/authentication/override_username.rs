//! `override-username`: a session's username that its settings give, in place of the one that the client gave (OpenVPN multi.c
//! `override_locked_username`).

use base64ct::{Base64, Encoding as _};

use super::Authentication;

/// Longest username that can be a client's name, in bytes (OpenVPN ssl_verify.h `TLS_USERNAME_LEN`).
const LONGEST_NAME: usize = 64;

impl Authentication {
    /// The username by which an exchange is judged in which the client gives `given`.
    pub(in crate::server) fn username_for<'a>(&'a self, given: &'a str) -> &'a str {
        match &self.replaced {
            Some(replaced) if replaced == given => self.username.as_str(),
            _ => given,
        }
    }

    /// The session has that username from now on: the first one that is said. Gives the username that it had, if that
    /// was another.
    ///
    /// # Errors
    /// Why it cannot have it, for the log.
    pub(in crate::server) fn override_username(&mut self, name: &str) -> Result<Option<&str>, String> {
        if self.username().is_empty() {
            return Err(
                "override-username, but nothing has judged a username of it (auth-user-pass-verify, plugin, \
                 management-client-auth)"
                    .to_owned(),
            );
        }
        if self.replaced.is_some() || self.username == name {
            return Ok(None);
        }
        if self.params.access.username_as_name && name.len() > LONGEST_NAME {
            return Err(format!(
                "override-username gives more than {LONGEST_NAME} bytes, which is too long for a name \
                 (username-as-common-name)"
            ));
        }
        let before = std::mem::replace(&mut self.username, name.to_owned());
        Ok(Some(self.replaced.insert(before).as_str()))
    }

    /// The option that is pushed beside a token whose username is not the one that the client gave.
    pub(in crate::server) fn token_username(&self) -> Option<String> {
        self.replaced.as_ref()?;
        Some(format!("auth-token-user {}", Base64::encode_string(self.username.as_bytes())))
    }
}
