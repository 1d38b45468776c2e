//! The server's control messages, and the reaction to each.

use std::time::Duration;

use adit_core::{Instant, Report, Severity};
use zeroize::Zeroizing;

use super::super::challenge::decode_name;
use super::news::{news, notice};
use super::{Connection, Outcome, Pending, retry};
use crate::control_message::{ControlMessage, split};
use crate::key_state::KeyStateError;
use crate::outbox::Outbox;
use crate::request::{Progress, Request, UserPassword};

impl Connection {
    pub(super) fn handle_record(
        &mut self,
        now: Instant,
        mut record: Zeroizing<Vec<u8>>,
        events: &mut Outbox,
    ) -> Result<(), KeyStateError> {
        record.push(0);
        for message in split(&mut record) {
            // The message that ends the connection is the last one that is handled.
            if self.verdict.is_some() {
                break;
            }
            match message {
                Ok(text) => self.handle_message(now, &text, events)?,
                Err(error) => {
                    let text = format!("a control message was dropped: {error}");
                    self.tell(Severity::Warning, text, events);
                }
            }
        }
        Ok(())
    }

    fn handle_message(&mut self, now: Instant, text: &str, events: &mut Outbox) -> Result<(), KeyStateError> {
        match ControlMessage::parse(text) {
            ControlMessage::PushReply(_) if !self.params.pull => {}
            ControlMessage::PushReply(options) if self.up.is_none() => match self.assembler.add(options) {
                Ok(Some(options)) => self.establish(now, &options, events)?,
                Ok(None) => {}
                Err(error) => self.verdict = Some(retry(&error.to_string())),
            },
            ControlMessage::PushUpdate(_) if !self.params.pull => {}
            ControlMessage::PushUpdate(options) => match self.updates.add(options) {
                Ok(Some(options)) => self.update(now, &options, events),
                Ok(None) => {}
                Err(error) => self.verdict = Some(retry(&error.to_string())),
            },
            // At each renegotiation the server may give another token.
            ControlMessage::PushReply(options) => {
                let tokens = options.iter().filter(|option| option.starts_with("auth-token"));
                self.take_tokens(tokens.map(String::as_str));
            }
            ControlMessage::AuthFailed(reason) => self.verdict = Some(Outcome::AuthFailed(reason)),
            ControlMessage::AuthPending { timeout } if self.up.is_none() => {
                self.wait_for_verdict(now, timeout);
                news(Request::Progress(Progress::Pending(timeout)), events);
                let text = "the server waits for more to let us in".to_owned();
                self.tell(Severity::Info, text, events);
            }
            ControlMessage::Restart(how) => {
                notice("server-pushed-connection-reset", &how.to_string(), events);
                let reason = "the server asks us to reconnect (RESTART)".to_owned();
                self.signal = "server-pushed-connection-reset";
                let (advance, keep_token) = (how.next_remote, how.keep_credentials);
                self.verdict = Some(Outcome::Restart { reason, advance, keep_token });
            }
            ControlMessage::Halt(how) => {
                notice("server-pushed-halt", &how.to_string(), events);
                let text = format!("the server ended the connection (HALT): {}", how.reason);
                let text = text.trim_end_matches([':', ' ']).to_owned();
                events.own_line(Report { severity: Severity::Warning, path: Some(self.path), text });
                self.signal = "server-pushed-halt";
                self.verdict = Some(Outcome::Exited);
            }
            ControlMessage::Exit => {
                notice("remote-exit", "EXIT", events);
                self.peer_left();
            }
            ControlMessage::InfoPre(text) | ControlMessage::Info(text) => self.be_told(&text, events),
            _ => {}
        }
        Ok(())
    }

    /// Authentication takes longer (`AUTH_PENDING`): at most half the life of a key, as OpenVPN
    /// (`receive_auth_pending`).
    fn wait_for_verdict(&mut self, now: Instant, timeout: Option<u32>) {
        let control = &self.params.control;
        let most = control.rekey.after.unwrap_or_default().div_f64(2.0).max(control.rekey.handshake);
        let theirs = timeout.map(|seconds| Duration::from_secs(seconds.into()));
        let ours = theirs.unwrap_or(control.rekey.handshake).min(most);
        self.pending = Some(Pending { theirs, ours });
        self.push_deadline = Some(now + ours);
    }

    /// `auth-token` and `auth-token-user`: the credentials to send in place of username and password from now
    /// on.
    pub(super) fn take_tokens<'a>(&mut self, options: impl Iterator<Item = &'a str>) {
        let mut password = None;
        for option in options {
            match option.split_once(' ') {
                Some(("auth-token", token)) => password = Some(Zeroizing::new(token.trim().to_owned())),
                Some(("auth-token-user", name)) => {
                    if let Some(name) = decode_name(name.trim()) {
                        self.username = name;
                    }
                }
                _ => {}
            }
        }
        let Some(password) = password else { return };
        let token = UserPassword { username: self.username.clone(), password };
        self.channel.set_credentials(&token);
        self.token = Some(token);
    }
}
