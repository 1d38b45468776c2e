//! Tokens in the place of passwords (`auth-gen-token`): the one that a client shows, and the one that it is given.

use adit_core::Instant;
use zeroize::Zeroizing;

use super::{AuthRequest, AuthResult, Authentication, refused};
use crate::auth_token::{self, Login, Verified, is_token};

impl Authentication {
    /// The result of verifying its password, if that is a token.
    pub(super) fn shown_token(&self, request: &AuthRequest<'_>) -> Option<Option<Verified>> {
        let hello = request.hello;
        let tokens = self.params.access.tokens.as_ref().filter(|_| is_token(&hello.password))?;
        Some(auth_token::verify(tokens, request.user, &hello.password, self.wall(request.now)))
    }

    pub(super) fn take_token(&mut self, verified: Option<Verified>) -> Result<(), AuthResult> {
        match verified {
            None => Err(refused("", "its token is none of ours".to_owned())),
            Some(verified) if verified.expired => {
                Err(refused("SESSION: token expired", "its token has run out".to_owned()))
            }
            Some(verified) if self.token.is_some_and(|known| known.id != verified.login.id) => {
                Err(refused("", "its token is of another login".to_owned()))
            }
            Some(verified) => {
                self.token = Some(verified.login);
                self.nameless = verified.nameless;
                if verified.nameless {
                    self.username.clear();
                }
                Ok(())
            }
        }
    }

    pub(super) fn login_id(&self) -> [u8; 12] {
        self.token.map_or(self.fresh_login, |token| token.id)
    }

    /// The token to push to the client that passed, so that it needs its password no more.
    pub(in crate::server) fn token(&mut self, now: Instant) -> Option<Zeroizing<String>> {
        let params = self.params.clone();
        let tokens = params.access.tokens.as_ref().filter(|_| params.access.wants_password())?;
        if self.username.is_empty() && !self.nameless && !params.access.optional {
            return None;
        }
        let wall = self.wall(now);
        let id = self.login_id();
        let login = self.token.get_or_insert(Login { id, since: wall });
        let name = if self.nameless { "" } else { self.username.as_str() };
        Some(login.token(tokens, name, wall))
    }

    fn wall(&self, now: Instant) -> u64 {
        self.params.control.wall_at_origin.0.saturating_add(now.as_nanos() / 1_000_000_000)
    }
}

/// The words for it in OpenVPN's `session_state`.
pub(super) fn login_state(token: Option<Option<Verified>>) -> &'static str {
    match token {
        None => "Initial",
        Some(None) => "Invalid",
        Some(Some(Verified { expired: false, nameless: false, .. })) => "Authenticated",
        Some(Some(Verified { expired: true, nameless: false, .. })) => "Expired",
        Some(Some(Verified { expired: false, nameless: true, .. })) => "AuthenticatedEmptyUser",
        Some(Some(Verified { expired: true, nameless: true, .. })) => "ExpiredEmptyUser",
    }
}
