//! A program beside the scripts judges clients too (`management-client-auth`): it gets each key exchange, and answers
//! when it likes, within the time there is.

use std::time::Duration;

use adit_core::Instant;
use zeroize::Zeroizing;

use super::challenge::MAX_RESPONSES;
use super::token::login_state;
use super::{AuthRequest, AuthResult, Authentication, Verified, refused};
use crate::auth_token::Login;
use crate::environment::Environment;
use crate::params::ControlParams;
use crate::request::{ClientDecision, ClientEvent, ClientStep, Event, PeerSettings, Request};

/// Longest message to a client in bytes (OpenVPN common.h `PUSH_BUNDLE_SIZE`, with the NUL).
const MAX_MESSAGE: usize = 1023;

/// The questions to the program about a client, and its answers.
#[derive(Default)]
pub(super) struct ManagementAuth {
    /// The number of the latest keys, counted from the client's first.
    key: u32,
    /// The program was ever asked about this client.
    asked: bool,
    /// The program has still to answer about the latest keys.
    waits: bool,
    /// The program accepted the latest keys.
    accepted: bool,
    /// When the latest keys began to be judged.
    since: Instant,
    /// The settings that it granted for the client alone, until the client comes in.
    granted: Option<Box<PeerSettings>>,
}

impl ManagementAuth {
    /// There are new keys to judge, the client's first ones unless it was let in with others (`again`).
    pub(super) fn begin(&mut self, now: Instant, again: bool) {
        self.key = self.key.wrapping_add(1);
        (self.since, self.waits, self.accepted) = (now, false, false);
        self.granted.take_if(|_| !again);
    }

    /// The answer is no longer needed.
    pub(super) fn forget(&mut self) {
        self.waits = false;
    }

    pub(super) fn waits(&self) -> bool {
        self.waits
    }
}

impl Authentication {
    /// The client's number, as people know it.
    pub(in crate::server) fn number(&self) -> u64 {
        self.owner.saturating_sub(1)
    }

    /// The program was asked about this client, and shall get its later events.
    pub(in crate::server) fn has_asked_program(&self) -> bool {
        self.management.asked
    }

    /// The program answers for the client, even if nothing names that.
    pub(in crate::server) fn is_vouched_for(&self) -> bool {
        self.management.accepted
    }

    /// The settings that the program granted for this client alone; once.
    pub(in crate::server) fn granted(&mut self) -> Option<Box<PeerSettings>> {
        self.management.granted.take()
    }

    /// Something to tell the program.
    pub(in crate::server) fn client_event(&self, step: ClientStep, env: Environment) -> Event {
        Event::Request(Request::Client(Box::new(ClientEvent {
            client: self.number(),
            step,
            env: env.into_list(),
        })))
    }

    /// Asks the program about a client with that password or token.
    pub(super) fn ask_program(
        &mut self,
        request: &AuthRequest<'_>,
        token: Option<Option<Verified>>,
        events: &mut impl Extend<Event>,
    ) {
        let mut env = self.told.clone();
        env.server(&self.params);
        self.tell_login(&mut env, token);
        (self.management.asked, self.management.waits) = (true, true);
        let password = sanitized(&request.hello.password);
        let step = ClientStep::AuthRequest { key: self.management.key, again: self.open, password };
        events.extend([self.client_event(step, env)]);
    }

    /// Sets the variables of the login for the judges of tokens.
    pub(super) fn tell_login(&self, env: &mut Environment, token: Option<Option<Verified>>) {
        let Some(tokens) = &self.params.access.tokens else { return };
        let shown = Login { id: self.login_id(), since: 0 }.token(tokens, "", 0);
        env.set("session_state", login_state(token));
        // The login's id is the beginning of a token: 12 bytes are 16 letters.
        env.set("session_id", shown.get(11..27).unwrap_or_default());
    }

    /// The program speaks. `None` if it was not asked about these keys, or has answered.
    pub(in crate::server) fn decided(
        &mut self,
        now: Instant,
        key: u32,
        decision: &ClientDecision,
        events: &mut impl Extend<Event>,
    ) -> Option<AuthResult> {
        if !self.management.asked || key != self.management.key {
            return None;
        }
        match decision {
            // As in OpenVPN, it may change its mind.
            ClientDecision::Deny { reason, told } => {
                self.forget(events);
                Some(refused(
                    fitted(told, "AUTH_FAILED,"),
                    format!("management-client-auth says no: {reason}"),
                ))
            }
            _ if !self.management.waits => None,
            ClientDecision::Pending { text, timeout } => {
                let most = longest(&self.params.control).saturating_sub(now - self.management.since);
                let timeout = (*timeout).min(most);
                self.wait_until(now + timeout);
                self.put_off = true;
                let pending = self.pending(timeout.as_secs());
                Some(AuthResult::Pending(vec![pending, format!("INFO_PRE,{}", fitted(text, "INFO_PRE,"))]))
            }
            ClientDecision::Accept(Some(settings)) if settings.disabled && !self.open => {
                self.forget(events);
                Some(refused("", "client-auth says `disable`".to_owned()))
            }
            ClientDecision::Accept(settings) => {
                (self.management.waits, self.management.accepted) = (false, true);
                if !self.open {
                    self.management.granted.clone_from(settings);
                }
                Some(self.settled())
            }
        }
    }

    /// The client answers a question of the program's. An error says why the program is not informed.
    pub(super) fn pass_on(&mut self, response: &str, events: &mut impl Extend<Event>) -> Result<(), String> {
        if !self.management.waits {
            return Err("nothing was asked".to_owned());
        }
        if self.responses >= MAX_RESPONSES {
            return Err(format!("it answered {MAX_RESPONSES} times already"));
        }
        let response = sanitized(response);
        let step = ClientStep::ChallengeResponse { key: self.management.key, response };
        events.extend([self.client_event(step, self.told.clone())]);
        Ok(())
    }
}

/// How long keys may wait to be judged (OpenVPN push.c `send_auth_pending_messages`).
fn longest(control: &ControlParams) -> Duration {
    control.rekey.after.map_or(control.rekey.handshake, |reneg| control.rekey.handshake.max(reneg / 2))
}

/// As OpenVPN has it (ssl_verify.c `verify_user_pass`): a password is one line.
pub(super) fn sanitized(text: &str) -> Zeroizing<String> {
    // It does not grow, so that no copy is left behind.
    let mut tamed = Zeroizing::new(String::with_capacity(text.len()));
    tamed.extend(text.chars().map(|c| if c.is_control() { '_' } else { c }));
    tamed
}

/// As much of it as one message holds behind these words, and that a message can hold.
fn fitted<'a>(text: &'a str, behind: &str) -> &'a str {
    let text = text.split(char::is_control).next().unwrap_or_default();
    let most = MAX_MESSAGE.saturating_sub(behind.len());
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_holds_so_much() {
        assert_eq!(fitted("no\nentry", ""), "no");
        assert_eq!(fitted("CRV1:R,E:x:eQ==:PIN?", "AUTH_FAILED,"), "CRV1:R,E:x:eQ==:PIN?");
        let long = "ä".repeat(1000);
        assert_eq!(fitted(&long, "AUTH_FAILED,").len(), 1010);
        assert_eq!(fitted(&long, "").len(), 1022);
    }
}
