//! A client is judged, at first and at each renegotiation: its message, the verdict, and the reaction.

use std::time::Duration;

use adit_core::{Instant, Severity};

use super::{Peer, Verdict};
use crate::client_hello::server_hello;
use crate::data_keys::DataKeys;
use crate::key_method::KeyMethod2;
use crate::negotiate::{PeerAbilities, iv_proto, known_proto};
use crate::occ::parse_options;
use crate::outbox::Outbox;
use crate::request::{ClientDecision, ConnectionFailure, PeerSettings, ScriptId, ScriptOutcome};
use crate::server::authentication::{AuthRequest, AuthResult};
use crate::wire::TlsRole;

/// How long a client that is refused or halted has to get the reason.
const REFUSAL_TIME: Duration = Duration::from_secs(5);

impl Peer {
    /// The settings that a program that judges clients granted for it alone; once.
    pub(in crate::server) fn granted(&mut self) -> Option<Box<PeerSettings>> {
        self.authentication.granted()
    }

    pub(super) fn answer_hello(&mut self, now: Instant, key_id: u8, hello: &KeyMethod2, events: &mut Outbox) {
        if self.up.is_none() {
            self.peer_info.clone_from(&hello.peer_info);
            self.abilities = PeerAbilities::parse(&hello.peer_info);
            self.abilities.proto = known_proto(&self.params.data, self.abilities.proto);
            if !self.channel.may_export() {
                self.abilities.proto &= !iv_proto::EXPORTS;
            }
            let options = parse_options(&hello.options);
            self.occ_cipher = options.get("cipher").map(|name| (*name).to_owned());
            // The word stands for every kind of compression (OpenVPN ssl.c, `remote_usescomp`).
            let may_migrate = self.params.data.migrate && self.params.point_to_point.is_none();
            self.migrates = may_migrate && options.contains_key("comp-lzo");
        }
        self.channel.answer_hello(now, key_id, server_hello(&self.params, self.path, self.migrates));
        // A refused client is not judged again: whether `AUTH_FAILED` follows would tell if its password was right.
        if self.is_refused() {
            return;
        }
        let complete = self.params.access.asks_others().then(|| self.channel.peer_certificates());
        let chain = complete.as_deref().unwrap_or_else(|| self.channel.shown_certificates());
        let certified = self.channel.peer_name();
        let user = self.authentication.username_for(&hello.username).to_owned();
        let request = AuthRequest { now, path: self.path, hello, user: &user, certified, chain };
        let auth_result = self.authentication.judge(&request, events);
        self.follow(now, auth_result, events);
    }

    pub(super) fn follow(&mut self, now: Instant, auth_result: AuthResult, events: &mut Outbox) {
        if self.is_refused() {
            return;
        }
        match auth_result {
            AuthResult::Pending(messages) => {
                messages.iter().for_each(|message| self.channel.send_message(now, message));
            }
            AuthResult::Passed if self.known_name().is_none() && !self.authentication.is_vouched_for() => {
                let reason = "nothing names it: there is neither a certificate nor a username";
                self.refuse(now, "", reason, events);
            }
            AuthResult::Passed if self.up.is_some() => {
                if let Some(token) = self.authentication.token(now) {
                    let username = self.authentication.token_username().map(|option| format!(",{option}"));
                    let username = username.unwrap_or_default();
                    self.channel.send_message(now, &format!("PUSH_REPLY,auth-token {}{username}", *token));
                }
            }
            AuthResult::Passed => self.proceed(),
            AuthResult::Failed { reason } => {
                self.refuse_for_now(now, &reason, events);
                if self.up.is_some() {
                    let reason = "could not be judged at a renegotiation".to_owned();
                    self.verdict = Some(Verdict::Remove { reason, severity: Severity::Error });
                }
            }
            AuthResult::Refused { told, reason } if self.up.is_some() => {
                self.failure.get_or_insert(ConnectionFailure::Login);
                self.refuse(now, &told, &reason, events);
                let reason = "was refused at a renegotiation".to_owned();
                self.verdict = Some(Verdict::Remove { reason, severity: Severity::Warning });
            }
            AuthResult::Refused { told, reason } => {
                self.failure.get_or_insert(ConnectionFailure::Login);
                self.refuse(now, &told, &reason, events);
            }
        }
    }

    /// A script answered that judges the client.
    pub(in crate::server) fn script_done(
        &mut self,
        now: Instant,
        id: ScriptId,
        outcome: &ScriptOutcome,
        events: &mut Outbox,
    ) {
        if let Some(auth_result) = self.authentication.script_done(now, id, outcome, events) {
            self.follow(now, auth_result, events);
        }
    }

    /// A program judges the client, which has this number.
    pub(in crate::server) fn decided(
        &mut self,
        now: Instant,
        key: u32,
        decision: &ClientDecision,
        events: &mut Outbox,
    ) {
        // A decision on a client that is being sent away changes nothing.
        if !self.is_refused()
            && let Some(auth_result) = self.authentication.decided(now, key, decision, events)
        {
            self.follow(now, auth_result, events);
        }
    }

    /// Sends the client `AUTH_FAILED`, with the text `told` if that is not empty, and removes it after the time that it has to
    /// receive that. The log says `reason`. Requests for a verdict that are still open are withdrawn.
    pub(in crate::server) fn refuse(&mut self, now: Instant, told: &str, reason: &str, events: &mut Outbox) {
        let comma = if told.is_empty() { "" } else { "," };
        self.send_away(now, &format!("AUTH_FAILED{comma}{told}"), events);
        self.tell(Severity::Warning, format!("{}: refused: {reason}", self.name()), events);
    }

    /// Sends the client away for a fault of the server's, so that it comes again, and removes it after the time that it has to
    /// receive that. To a client before OpenVPN 2.6 any `AUTH_FAILED` is final; `RESTART` makes it connect anew after
    /// `connect-retry`.
    pub(in crate::server) fn refuse_for_now(&mut self, now: Instant, reason: &str, events: &mut Outbox) {
        let message = match self.understands_later() {
            true => "AUTH_FAILED,TEMP:the server has a fault, which its log names",
            false => "RESTART",
        };
        self.send_away(now, message, events);
        let text = format!("{}: put off by a fault here: {reason}", self.name());
        self.tell(Severity::Error, text, events);
    }

    fn send_away(&mut self, now: Instant, message: &str, events: &mut Outbox) {
        self.channel.send_message(now, message);
        // Whatever it says meanwhile does not put its end off.
        self.refused_until.get_or_insert(now + REFUSAL_TIME);
        self.authentication.forget(events);
    }

    /// The client has neither addresses nor data keys any more. A message says why; the client is removed after the time
    /// that it has to receive that message.
    ///
    /// With HALT it stays away and shows the reason: OpenVPN 2 ends (`server_pushed_signal`), OpenVPN 3 ends with
    /// CLIENT_HALT (cliproto.hpp `recv_halt_restart`). RESTART would have both try again without end, each time refused
    /// by an alert of TLS that says less.
    pub(in crate::server) fn halt(&mut self, now: Instant, told: &str) {
        self.channel.send_message(now, &format!("HALT,{told}"));
        self.up = None;
        self.data_keys = DataKeys::new(self.id, TlsRole::Server);
        self.refused_until.get_or_insert(now + REFUSAL_TIME);
    }
}
