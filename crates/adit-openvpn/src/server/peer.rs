//! One client of a server.

mod establish;
mod learn;
mod point_to_point;
mod roaming;
mod scripts;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use adit_core::{Ended, Instant, Notice, Path, PeerId, Rejected, Report, Severity, Transport};
use adit_pki::RevocationLists;
use rand_chacha::ChaCha20Rng;
use zeroize::Zeroizing;

pub(super) use self::learn::{Learned, delete_address};
use self::learn::{Learning, LearningMore};
use super::authentication::{AuthRequest, AuthResult, Authentication};
use super::connect::Connecting;
use super::half_open::{HalfOpenState, Progress};
use super::pre_auth::PendingClient;
use crate::client_hello::server_hello;
use crate::control_channel::{ControlChannel, ControlOutput};
use crate::control_message::{ControlMessage, split};
use crate::data_keys::DataKeys;
use crate::data_message;
use crate::key_method::KeyMethod2;
use crate::key_state::{KeyStateError, earliest};
use crate::lease::ClientLease;
use crate::lifetime::{Lifetime, signal_of};
use crate::liveness::{Due, Liveness};
use crate::negotiate::{PeerAbilities, iv_proto, known_proto};
use crate::notices::{Heard, Hearing};
use crate::occ::parse_options;
use crate::params::{ControlParams, Keepalive, ServerParams};
use crate::request::{
    ClientDecision, DataEvent, Event, PeerDetail, PeerInfo, PeerSettings, ScriptId, ScriptOutcome,
};
use crate::wire::{Sid, TlsRole};

/// How long a client that is refused or halted gets to hear why.
const REFUSAL_TIME: Duration = Duration::from_secs(5);

/// What the server shall do with a peer after an input.
pub(super) enum Verdict {
    Continue,
    /// The whole server ends (`ping-exit`, `inactive`, `session-timeout` of a point-to-point tunnel).
    End {
        ended: Ended,
        /// In the word of scripts.
        signal: &'static str,
    },
    /// It proved its name; the server admits it or not.
    Authenticated,
    Remove {
        reason: String,
        severity: Severity,
    },
}

/// What a client is once it has its addresses.
struct Up {
    lease: ClientLease,
    since: Instant,
    push_messages: Vec<String>,
    pushed_at: Option<Instant>,
    /// It takes `EXIT` on the control channel.
    cc_exit: bool,
    /// What `learn-address` is asked about addresses that it was given since.
    learning: LearningMore,
}

/// One client, from its first reset to its end.
pub(super) struct Peer {
    /// Its id in the data plane: in a point-to-point tunnel that of the only peer.
    id: PeerId,
    path: Path,
    sid: Sid,
    /// It was seen to receive at its address.
    proven: bool,
    params: Arc<ServerParams>,
    channel: ControlChannel,
    data_keys: DataKeys,
    liveness: Liveness,
    lifetime: Lifetime,
    abilities: PeerAbilities,
    occ_cipher: Option<String>,
    /// Its options string names compression, and this server moves such clients off it (`compress migrate`).
    migrates: bool,
    /// Bytes received and sent in the tunnel.
    bytes: (u64, u64),
    /// What it told of itself, for scripts.
    peer_info: String,
    authentication: Authentication,
    /// Its first key exchange is complete.
    established: bool,
    /// The script that is asked about it now.
    connecting: Option<Box<Connecting>>,
    /// The script that is told of its addresses answers later.
    learning: Option<Box<Learning>>,
    up: Option<Up>,
    last_handshake: Instant,
    /// It waits for what holds for it alone, until then.
    waits_until: Option<Instant>,
    /// It asked for settings before there were any.
    asked_early: bool,
    /// It was refused or halted; until then it has time to receive the message that says so.
    refused_until: Option<Instant>,
    /// Scripts and programs heard that it goes.
    left: bool,
    /// It was up once.
    authenticated: bool,
    /// What it wants to say in the log and was not yet asked for: limited until it has authenticated.
    lines: Vec<(Severity, String)>,
    /// When the log may hear of its next move.
    next_move_report: Option<Instant>,
    verdict: Option<Verdict>,
    starts_over: bool,
}

impl Peer {
    pub(super) fn new(
        now: Instant,
        id: PeerId,
        path: Path,
        pending: PendingClient,
        authentication: Authentication,
        control: Arc<ControlParams>,
        rng: ChaCha20Rng,
    ) -> Result<Self, KeyStateError> {
        let id = if authentication.params().point_to_point.is_some() { PeerId::SERVER } else { id };
        Ok(Peer {
            params: authentication.params().clone(),
            authentication,
            established: false,
            connecting: None,
            learning: None,
            peer_info: String::new(),
            id,
            path,
            sid: pending.sid,
            proven: path.transport() == Transport::Tcp || pending.cookie.is_some(),
            channel: ControlChannel::server(now, control, pending.wrap, (pending.sid, pending.cookie), rng)?,
            data_keys: DataKeys::new(id, TlsRole::Server),
            liveness: Liveness::new(now, Keepalive::default()),
            lifetime: Lifetime::default(),
            abilities: PeerAbilities::default(),
            occ_cipher: None,
            migrates: false,
            bytes: (0, 0),
            up: None,
            last_handshake: now,
            waits_until: None,
            asked_early: false,
            refused_until: None,
            left: false,
            authenticated: false,
            lines: Vec::new(),
            next_move_report: None,
            verdict: None,
            starts_over: false,
        })
    }

    /// The settings that hold for it.
    pub(super) fn params(&self) -> &Arc<ServerParams> {
        &self.params
    }

    /// Takes other settings, which hold where they do not depend on what was agreed. A client of many was told when to
    /// ping; the other end of a point-to-point tunnel was not, and is judged by the new times.
    pub(super) fn reconfigure(&mut self, params: &Arc<ServerParams>) {
        self.params = Arc::clone(params);
        if params.point_to_point.is_some() && self.up.is_some() {
            self.liveness.set_keepalive(params.keepalive);
            self.lifetime.set_limits(params.limits);
        }
        self.authentication.set_params(Arc::clone(params));
        self.channel.reconfigure(&params.control);
    }

    /// Its addresses, wherever they wait to be its own.
    pub(super) fn leases_mut(&mut self) -> impl Iterator<Item = &mut ClientLease> {
        let Peer { up, connecting, learning, .. } = self;
        let up = up.as_mut().map(|up| &mut up.lease);
        let connecting = connecting.as_mut().map(|connecting| connecting.lease_mut());
        let learning = learning.as_mut().map(|learning| learning.lease_mut());
        up.into_iter().chain(connecting).chain(learning)
    }

    /// Its id in the data plane.
    pub(super) fn data_id(&self) -> PeerId {
        self.id
    }

    pub(super) fn path(&self) -> Path {
        self.path
    }

    pub(super) fn sid(&self) -> Sid {
        self.sid
    }

    /// How far it is on its way in; `None` once it is up, or was.
    pub(super) fn half_open_state(&self) -> Option<HalfOpenState> {
        let progress = match (self.channel.is_identified(), self.channel.has_answered_tls()) {
            (true, _) => Progress::Identified,
            (false, true) => Progress::Tls,
            (false, false) => Progress::Begun,
        };
        let proven = self.proven || self.channel.reset_is_acknowledged();
        (!self.authenticated).then(|| HalfOpenState { progress, proven, put_off: self.is_put_off() })
    }

    /// It was up once.
    pub(super) fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// What the log shall say of it, as far as there is room for peers that have not authenticated.
    pub(super) fn take_lines(&mut self) -> Vec<(Severity, String)> {
        std::mem::take(&mut self.lines)
    }

    /// Whether its authentication was deferred to wait for the user.
    pub(super) fn is_put_off(&self) -> bool {
        self.authentication.is_put_off()
    }

    /// The proven name, or what stands for it.
    pub(super) fn name(&self) -> &str {
        self.known_name().unwrap_or("unknown client")
    }

    /// The common name of its certificate, or the username that was judged. A client without either is not the earlier connection of any other, and
    /// has no later one.
    pub(super) fn known_name(&self) -> Option<&str> {
        let username = Some(self.authentication.username()).filter(|name| !name.is_empty());
        let certified = self.channel.peer_name();
        if self.params.access.username_as_name { username.or(certified) } else { certified.or(username) }
    }

    /// By what scripts know it.
    pub(super) fn owner(&self) -> u64 {
        self.authentication.owner()
    }

    /// By what people know it, and programs that judge it.
    pub(super) fn number(&self) -> u64 {
        self.authentication.number()
    }

    /// What a program that judges clients said for it alone; once.
    pub(super) fn granted(&mut self) -> Option<Box<PeerSettings>> {
        self.authentication.granted()
    }

    /// The other end of a point-to-point tunnel is silent: this end starts over.
    pub(super) fn starts_over(&self) -> bool {
        self.starts_over
    }

    pub(super) fn is_up(&self) -> bool {
        self.up.is_some()
    }

    pub(super) fn is_revoked(&self, lists: &RevocationLists) -> bool {
        self.channel.is_revoked(lists)
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.channel.is_quiet()
    }

    pub(super) fn lease(&self) -> Option<&ClientLease> {
        self.up.as_ref().map(|up| &up.lease)
    }

    pub(super) fn lease_mut(&mut self) -> Option<&mut ClientLease> {
        self.up.as_mut().map(|up| &mut up.lease)
    }

    /// It has addresses, but scripts have still to say whether it may come up.
    pub(super) fn is_judged(&self) -> bool {
        self.connecting.is_some() || self.learning.is_some()
    }

    /// Its settings were asked for.
    pub(super) fn wait_for_settings(&mut self, now: Instant) {
        self.waits_until = Some(now + self.params.control.hand_window);
    }

    /// Its settings came. False if they were not asked for.
    pub(super) fn settings_came(&mut self) -> bool {
        self.waits_until.take().is_some()
    }

    /// Another control channel took its place: what it still has to say would only confuse the client.
    pub(super) fn fall_silent(&mut self) {
        self.channel.fall_silent();
    }

    /// It is being sent away.
    pub(super) fn is_refused(&self) -> bool {
        self.refused_until.is_some()
    }

    /// Whether it comes back after `AUTH_FAILED,TEMP`; to older clients any `AUTH_FAILED` is the end.
    pub(super) fn understands_later(&self) -> bool {
        self.abilities.has(iv_proto::AUTH_FAIL_TEMP)
    }

    /// Whether it follows PUSH_UPDATE.
    pub(super) fn understands_updates(&self) -> bool {
        self.params.point_to_point.is_none() && self.abilities.has(iv_proto::PUSH_UPDATE)
    }

    pub(super) fn info(&self) -> Option<PeerInfo> {
        let (up, agreement) = (self.up.as_ref()?, self.data_keys.agreement()?);
        Some(PeerInfo {
            name: self.name().to_owned(),
            path: self.path,
            addresses: self.inner_addresses(&up.lease),
            cipher: agreement.cipher,
            rekeys: self.data_keys.rekeys(),
            last_handshake: self.last_handshake,
            since: up.since,
            heard: self.liveness.last_heard(),
            routes: up.lease.routes.clone(),
            detail: PeerDetail {
                epochs: agreement.epoch,
                tls: self.channel.tls_description().to_owned(),
                username: self.authentication.username().to_owned(),
                number: self.authentication.number(),
            },
        })
    }

    pub(super) fn handle_datagram(&mut self, now: Instant, datagram: &[u8]) -> Result<(), Rejected> {
        self.channel.handle(now, datagram)?;
        self.liveness.heard(now);
        Ok(())
    }

    pub(super) fn handle_notice(&mut self, now: Instant, notice: &Notice) {
        if let Notice::Traffic { received_bytes, sent_bytes, .. } = notice {
            self.bytes = (*received_bytes, *sent_bytes);
        }
        let limits = self.params.control.reneg_use;
        let Peer { channel, data_keys, liveness, lifetime, .. } = self;
        match (Hearing { channel, data_keys, liveness, lifetime, limits }).hear(now, notice) {
            Heard::ExitNotice => self.verdict = Some(exit_notice()),
            // The server follows it, as others may be where it is now.
            Heard::Nothing | Heard::Moved(_) => {}
        }
    }

    pub(super) fn rekey(&mut self, now: Instant) {
        self.channel.rekey(now);
    }

    pub(super) fn send_message(&mut self, now: Instant, text: &str) {
        self.channel.send_message(now, text);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, events: &mut VecDeque<Event>) {
        self.channel.handle_timeout(now);
        if self.refused_until.is_some_and(|until| now >= until) {
            // The log said why when it was refused.
            let reason = "was refused".to_owned();
            self.verdict = Some(Verdict::Remove { reason, severity: Severity::Debug });
        }
        if self.authentication.deadline().is_some_and(|at| now >= at) {
            let auth_result = self.authentication.late(events);
            self.follow(now, auth_result, events);
        }
        if self.waits_until.is_some_and(|until| now >= until) {
            let reason =
                "no answer came about its settings (client-config-dir, client-connect, learn-address)"
                    .to_owned();
            self.verdict = Some(Verdict::Remove { reason, severity: Severity::Error });
        }
        if self.up.is_none() {
            return;
        }
        if let Some(why) = self.lifetime.over(now) {
            let signal = signal_of(&why);
            return self.end_as_configured(now, (why, signal), events);
        }
        match self.liveness.poll(now) {
            Some(Due::Ping) => {
                let payload = data_message::PING.to_vec();
                events.push_back(Event::Data(DataEvent::Inject { peer: self.id, payload }));
            }
            Some(Due::Timeout) => {
                let seconds = self.liveness.timeout().as_secs();
                if self.params.point_to_point.is_some() && self.liveness.exits() {
                    let why = format!("not heard for {seconds} s (ping-exit)");
                    return self.end_as_configured(now, (why, "ping-exit"), events);
                }
                self.starts_over = self.params.point_to_point.is_some();
                self.channel.fall_silent();
                let reason = format!("not heard for {seconds} s (ping-restart)");
                self.verdict = Some(Verdict::Remove { reason, severity: Severity::Info });
            }
            None => {}
        }
    }

    /// `inactive` or `session-timeout`: the client goes; in a point-to-point tunnel that is the end, and no failure,
    /// as with `ping-exit`.
    fn end_as_configured(
        &mut self,
        now: Instant,
        (why, signal): (String, &'static str),
        events: &mut VecDeque<Event>,
    ) {
        if self.params.point_to_point.is_none() {
            self.channel.fall_silent();
            self.verdict = Some(Verdict::Remove { reason: why, severity: Severity::Info });
            return;
        }
        self.tell(Severity::Info, format!("{}: {why}; this ends the tunnel", self.name()), events);
        self.send_exit_notice(now, events);
        self.verdict = Some(Verdict::End { ended: Ended::Shutdown, signal });
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let next = earliest(earliest(self.channel.poll_timeout(), self.refused_until), self.waits_until);
        let next = earliest(next, self.authentication.deadline());
        if self.up.is_none() {
            return next;
        }
        earliest(earliest(next, self.lifetime.poll_timeout()), self.liveness.poll_timeout())
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> bool {
        self.channel.poll_transmit(now, buf)
    }

    /// Works through what the control channel reported.
    pub(super) fn settle(&mut self, now: Instant, events: &mut VecDeque<Event>) -> Verdict {
        while self.verdict.is_none() {
            let Some(output) = self.channel.poll_output() else { break };
            if let Err(error) = self.handle_output(now, output, events) {
                self.verdict =
                    Some(Verdict::Remove { reason: error.to_string(), severity: Severity::Warning });
            }
        }
        self.verdict.take().unwrap_or(Verdict::Continue)
    }

    fn handle_output(
        &mut self,
        now: Instant,
        output: ControlOutput,
        events: &mut VecDeque<Event>,
    ) -> Result<(), KeyStateError> {
        match output {
            ControlOutput::Hello { key_id, message } => self.answer_hello(now, key_id, &message, events),
            ControlOutput::Established { key_id } => {
                self.last_handshake = now;
                self.data_keys.established(key_id, &self.channel, events)?;
                if self.data_keys.rekeys() > 0 {
                    let text =
                        format!("{}: renegotiated keys (number {})", self.name(), self.data_keys.rekeys());
                    self.tell(Severity::Info, text, events);
                }
                self.established = true;
                self.proceed();
            }
            // A server's keys are in the data plane before it sends its key method 2; it judges clients after theirs.
            ControlOutput::Secured { .. } | ControlOutput::Judge { .. } | ControlOutput::Step(_) => {}
            ControlOutput::Activate { key_id } => self.data_keys.activate(key_id, events),
            ControlOutput::Retire { key_id } => self.data_keys.retire(key_id, events),
            ControlOutput::Message(bytes) => self.handle_record(now, bytes, events),
            ControlOutput::Unfinished { known } => {
                let text = format!("{}: {}", self.name(), self.channel.unfinished_text(known));
                self.tell(Severity::Warning, text, events);
            }
            ControlOutput::Failed { reason, .. } => {
                self.verdict = Some(Verdict::Remove { reason, severity: Severity::Warning });
            }
        }
        Ok(())
    }

    fn tell(&mut self, severity: Severity, text: String, events: &mut VecDeque<Event>) {
        if !self.authenticated {
            return self.lines.push((severity, text));
        }
        events.push_back(Event::Report(Report { severity, path: Some(self.path), text }));
    }

    /// Once all is known that it takes to let the client in, the server goes on with it.
    fn proceed(&mut self) {
        let waits = self.waits_until.is_some() || self.refused_until.is_some();
        if self.established && self.authentication.is_open() && self.up.is_none() && !waits {
            self.verdict.get_or_insert(Verdict::Authenticated);
        }
    }

    /// A script answered that judges the client.
    pub(super) fn script_done(
        &mut self,
        now: Instant,
        id: ScriptId,
        outcome: &ScriptOutcome,
        events: &mut VecDeque<Event>,
    ) {
        if let Some(auth_result) = self.authentication.script_done(now, id, outcome, events) {
            self.follow(now, auth_result, events);
        }
    }

    /// A program judges the client, which has this number.
    pub(super) fn decided(
        &mut self,
        now: Instant,
        key: u32,
        decision: &ClientDecision,
        events: &mut VecDeque<Event>,
    ) {
        // What it says of one that is being sent away changes nothing.
        if !self.is_refused()
            && let Some(auth_result) = self.authentication.decided(now, key, decision, events)
        {
            self.follow(now, auth_result, events);
        }
    }

    fn follow(&mut self, now: Instant, auth_result: AuthResult, events: &mut VecDeque<Event>) {
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
            AuthResult::Refused { told, reason } if self.up.is_some() => {
                self.refuse(now, &told, &reason, events);
                let reason = "was refused at a renegotiation".to_owned();
                self.verdict = Some(Verdict::Remove { reason, severity: Severity::Warning });
            }
            AuthResult::Refused { told, reason } => self.refuse(now, &told, &reason, events),
        }
    }

    fn answer_hello(&mut self, now: Instant, key_id: u8, hello: &KeyMethod2, events: &mut VecDeque<Event>) {
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

    /// The client is told `AUTH_FAILED`, with words for it if there are any, and goes when it had time to
    /// hear it. The log says `reason`. Judges that have not answered are asked no more.
    pub(super) fn refuse(&mut self, now: Instant, told: &str, reason: &str, events: &mut VecDeque<Event>) {
        let comma = if told.is_empty() { "" } else { "," };
        self.channel.send_message(now, &format!("AUTH_FAILED{comma}{told}"));
        // Whatever it says meanwhile does not put its end off.
        self.refused_until.get_or_insert(now + REFUSAL_TIME);
        self.authentication.forget(events);
        self.tell(Severity::Warning, format!("{}: refused: {reason}", self.name()), events);
    }

    /// The client has neither addresses nor data keys any more. A message says why; the client is removed after the time
    /// that it has to receive that message.
    ///
    /// With HALT it stays away and shows the reason: OpenVPN 2 ends (`server_pushed_signal`), OpenVPN 3 ends with
    /// CLIENT_HALT (cliproto.hpp `recv_halt_restart`). RESTART would have both try again without end, each time refused
    /// by an alert of TLS that says less.
    pub(super) fn halt(&mut self, now: Instant, told: &str) {
        self.channel.send_message(now, &format!("HALT,{told}"));
        self.up = None;
        self.data_keys = DataKeys::new(self.id, TlsRole::Server);
        self.refused_until.get_or_insert(now + REFUSAL_TIME);
    }

    fn handle_record(&mut self, now: Instant, mut record: Zeroizing<Vec<u8>>, events: &mut VecDeque<Event>) {
        record.push(0);
        for message in split(&mut record) {
            match message.as_deref().map(|text| ControlMessage::parse(text)) {
                Ok(ControlMessage::PushRequest) => self.push(now),
                Ok(ControlMessage::CrResponse(response)) => {
                    if let Err(why) = self.authentication.respond(&response, events) {
                        let text = format!("{}: its answer (CR_RESPONSE) is not judged: {why}", self.name());
                        self.tell(Severity::Warning, text, events);
                    }
                }
                Ok(ControlMessage::Exit) => self.verdict = Some(exit_notice()),
                Ok(_) => {}
                Err(error) => {
                    let text = format!("{}: a control message was dropped: {error}", self.name());
                    self.tell(Severity::Warning, text, events);
                }
            }
        }
    }
}

fn exit_notice() -> Verdict {
    Verdict::Remove { reason: "left (exit notice)".to_owned(), severity: Severity::Info }
}
