//! One client of a server.

mod establish;
mod info;
mod judge;
mod learn;
mod point_to_point;
mod roaming;
mod scripts;

use std::sync::Arc;

use adit_core::{Ended, Instant, Notice, Path, PeerId, Rejected, Report, Severity, Transport};
use rand_chacha::ChaCha20Rng;
use zeroize::Zeroizing;

use self::learn::{LaterAddresses, Learning};
pub(super) use self::learn::{Learned, delete_address};
use super::authentication::Authentication;
use super::connect::Connecting;
use super::pre_auth::PendingClient;
use crate::control_channel::{ControlChannel, ControlOutput};
use crate::control_message::{ControlMessage, split};
use crate::data_keys::DataKeys;
use crate::data_message;
use crate::key_state::{KeyStateError, earliest};
use crate::lease::ClientLease;
use crate::lifetime::{Lifetime, signal_of};
use crate::liveness::{Due, Liveness};
use crate::log_rate_limit::LogRateLimit;
use crate::negotiate::PeerAbilities;
use crate::notices::{Heard, Hearing};
use crate::outbox::Outbox;
use crate::params::{ControlParams, Keepalive, ServerParams};
use crate::request::{ConnectionFailure, DataEvent, Event};
use crate::wire::{Sid, TlsRole};

/// The server's step with a peer after an input.
pub(super) enum Verdict {
    Continue,
    /// The whole server ends (`ping-exit`, `inactive`, `session-timeout` of a point-to-point tunnel).
    End {
        ended: Ended,
        /// The reason in the word of scripts.
        signal: &'static str,
    },
    /// The peer proved its name; the server admits it or not.
    Authenticated,
    Remove {
        reason: String,
        severity: Severity,
    },
}

/// The state of a client once it has its addresses.
struct Up {
    lease: ClientLease,
    since: Instant,
    push_messages: Vec<String>,
    pushed_at: Option<Instant>,
    /// The client takes `EXIT` on the control channel.
    cc_exit: bool,
    /// The `learn-address` scripts that run about addresses that it was given since.
    learning: LaterAddresses,
}

/// One client, from its first reset to its end.
pub(super) struct Peer {
    /// Its id in the data plane: in a point-to-point tunnel that of the only peer.
    id: PeerId,
    path: Path,
    /// The MTU of the path, where the system knows it.
    path_mtu: Option<u16>,
    sid: Sid,
    /// The client was seen to receive at its address.
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
    /// Its peer info, for scripts.
    peer_info: String,
    authentication: Authentication,
    /// Its first key exchange is complete.
    established: bool,
    /// The script that is asked about it now.
    connecting: Option<Box<Connecting>>,
    /// The `learn-address` script about its addresses answers later.
    learning: Option<Box<Learning>>,
    up: Option<Up>,
    last_handshake: Instant,
    /// The end of the time in which the client waits for the settings for it alone.
    waits_until: Option<Instant>,
    /// The client asked for settings before there were any.
    asked_early: bool,
    /// The end of the time in which the client, refused or halted, may receive the message that says so.
    refused_until: Option<Instant>,
    /// Scripts and programs heard that it goes.
    left: bool,
    /// The client was up once.
    authenticated: bool,
    /// Its lines for the log that were not yet taken: limited until it has authenticated.
    lines: Vec<(Severity, String)>,
    /// Limits the lines of the log that it causes from then on.
    log_limit: LogRateLimit,
    /// Why its connection fails, for programs that look for that in the log.
    failure: Option<ConnectionFailure>,
    /// When its next move may be logged.
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
            path_mtu: None,
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
            log_limit: LogRateLimit::default(),
            failure: None,
            next_move_report: None,
            verdict: None,
            starts_over: false,
        })
    }

    /// Takes other settings, which hold where they do not depend on the agreement. A client of many was sent its ping
    /// times; the other end of a point-to-point tunnel was not, and is judged by the new times.
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

    /// Its lines for the log, as far as there is room for peers that have not authenticated.
    pub(super) fn take_lines(&mut self) -> Vec<(Severity, String)> {
        std::mem::take(&mut self.lines)
    }

    /// Why its connection fails, once.
    pub(super) fn take_failure(&mut self) -> Option<ConnectionFailure> {
        self.failure.take()
    }

    /// Its settings were asked for.
    pub(super) fn wait_for_settings(&mut self, now: Instant) {
        self.waits_until = Some(now + self.params.control.rekey.handshake);
    }

    /// Its settings came. False if they were not asked for.
    pub(super) fn settings_came(&mut self) -> bool {
        self.waits_until.take().is_some()
    }

    /// Another control channel took its place: further messages would only confuse the client.
    pub(super) fn fall_silent(&mut self) {
        self.channel.fall_silent();
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
        let limits = self.params.control.rekey.limits;
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

    pub(super) fn handle_timeout(&mut self, now: Instant, events: &mut Outbox) {
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
                let exits = self.params.point_to_point.is_some() && self.liveness.exits();
                let name = Some(self.channel.peer_name().unwrap_or_default().to_owned());
                self.failure.get_or_insert(ConnectionFailure::Silent { name, exits });
                let seconds = self.liveness.timeout().as_secs();
                if exits {
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
        events: &mut Outbox,
    ) {
        if self.params.point_to_point.is_none() {
            self.channel.fall_silent();
            self.verdict = Some(Verdict::Remove { reason: why, severity: Severity::Info });
            return;
        }
        let text = format!("{}: {why}; this ends the tunnel", self.name());
        events.own_line(Report { severity: Severity::Info, path: Some(self.path), text });
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

    /// Works through the control channel's messages.
    pub(super) fn settle(&mut self, now: Instant, events: &mut Outbox) -> Verdict {
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
        events: &mut Outbox,
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
            ControlOutput::Failed { reason, failure, .. } => {
                self.failure.get_or_insert(failure);
                self.verdict = Some(Verdict::Remove { reason, severity: Severity::Warning });
            }
        }
        Ok(())
    }

    /// Logs a line that the client causes: until it has authenticated, as far as there is room for such clients; from
    /// then on so many lines a minute.
    fn tell(&mut self, severity: Severity, text: String, events: &mut Outbox) {
        if !self.authenticated {
            return self.lines.push((severity, text));
        }
        let line = Report { severity, path: Some(self.path), text };
        events.limited_line(&mut self.log_limit, line);
    }

    /// Once all is known that it takes to let the client in, the server goes on with it.
    fn proceed(&mut self) {
        let waits = self.waits_until.is_some() || self.refused_until.is_some();
        if self.established && self.authentication.is_open() && self.up.is_none() && !waits {
            self.verdict.get_or_insert(Verdict::Authenticated);
        }
    }

    fn handle_record(&mut self, now: Instant, mut record: Zeroizing<Vec<u8>>, events: &mut Outbox) {
        record.push(0);
        for message in split(&mut record) {
            if self.verdict.is_some() {
                break;
            }
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
