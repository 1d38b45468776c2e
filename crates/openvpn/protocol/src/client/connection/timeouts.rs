//! The work that is due at a time: questions for the push, pings, and the ends that silence, time limits and the file
//! set.

use std::time::Duration;

use adit_core::{Instant, PeerId, Report, Severity, Transport};

use super::facts::EXIT_NOTICE;
use super::news::news;
use super::{Connection, Outcome, retry};
use crate::data_message;
use crate::key_state::earliest;
use crate::lifetime::signal_of;
use crate::liveness::Due;
use crate::outbox::Outbox;
use crate::request::{ConnectionFailure, DataEvent, Event, Request};

/// How often to ask for the push reply (OpenVPN `PUSH_REQUEST_INTERVAL`).
const PUSH_REQUEST_INTERVAL: Duration = Duration::from_secs(5);
/// How long the exit notice may take.
const EXIT_NOTICE_TIME: Duration = Duration::from_secs(1);

impl Connection {
    /// Sends the server the exit notice, if the connection can carry it, and ends soon. `commanded`: the client was
    /// ordered to end. True if `explicit-exit-notify` asks for the notice.
    pub(in crate::client) fn send_exit_notice(
        &mut self,
        now: Instant,
        commanded: bool,
        events: &mut Outbox,
    ) -> bool {
        let is_first = self.exit_until.is_none();
        self.exit_until.get_or_insert(now);
        let Some(up) = &self.up else { return false };
        let is_asked_for = up.exit_notify && self.path.transport() == Transport::Udp;
        if is_asked_for && is_first {
            news(Request::ExitNotice { commanded }, events);
        }
        if up.cc_exit {
            self.channel.send_message(now, "EXIT");
            self.exit_until = Some(now + EXIT_NOTICE_TIME);
        } else if is_asked_for {
            let payload = data_message::occ_exit();
            events.push_back(Event::Data(DataEvent::Inject { peer: PeerId::SERVER, payload }));
        }
        is_asked_for
    }

    /// Whether it was ordered to end.
    pub(in crate::client) fn is_exiting(&self) -> bool {
        self.exit_until.is_some()
    }

    pub(in crate::client) fn handle_timeout(&mut self, now: Instant, events: &mut Outbox) {
        self.channel.handle_timeout(now);
        if self.ask_at.is_some_and(|at| now >= at) {
            self.ask_at = Some(now + PUSH_REQUEST_INTERVAL);
            self.channel.send_message(now, "PUSH_REQUEST");
        }
        if self.up.is_none() {
            self.check_timeouts(now);
            return;
        }
        if self.is_exiting() {
            events.changes().withdraw();
            return;
        }
        if events.change_due().is_some_and(|at| now >= at) {
            self.change_settings(now, events);
        }
        if let Some(why) = self.lifetime.over(now) {
            self.signal = signal_of(&why);
            return self.end_as_configured(now, &why, events);
        }
        match self.liveness.poll(now) {
            Some(Due::Ping) => {
                let payload = data_message::PING.to_vec();
                events.push_back(Event::Data(DataEvent::Inject { peer: PeerId::SERVER, payload }));
            }
            Some(Due::Timeout) if self.liveness.exits() => {
                self.signal = "ping-exit";
                self.tell_silence(events);
                self.end_as_configured(now, &self.silence("ping-exit"), events);
            }
            Some(Due::Timeout) => {
                self.signal = "ping-restart";
                self.tell_silence(events);
                self.verdict = Some(retry(&self.silence("ping-restart")));
            }
            None => {}
        }
    }

    /// The connection is over, as the configuration wants it to be: that ends the client for good, and is no failure
    /// (as in OpenVPN, which ends itself by SIGTERM here and exits with 0).
    fn end_as_configured(&mut self, now: Instant, why: &str, events: &mut Outbox) {
        let text = format!("{why}; this ends the tunnel");
        events.own_line(Report { severity: Severity::Info, path: Some(self.path), text });
        if self.send_exit_notice(now, false, events) {
            self.signal = EXIT_NOTICE;
        }
    }

    fn tell_silence(&self, events: &mut Outbox) {
        let name = Some(self.channel.peer_name().unwrap_or_default().to_owned());
        let failure = ConnectionFailure::Silent { name, exits: self.liveness.exits() };
        news(Request::ConnectionFailed(failure), events);
    }

    fn silence(&self, directive: &str) -> String {
        let seconds = self.liveness.timeout().as_secs();
        format!("nothing heard from the server for {seconds} s ({directive})")
    }

    fn check_timeouts(&mut self, now: Instant) {
        if !self.channel.heard() && now >= self.started + self.remote.poll_timeout {
            let seconds = self.remote.poll_timeout.as_secs();
            let reason = format!(
                "no answer within {seconds} s (server-poll-timeout): a firewall is in the way, the server is not running there, or its tls-auth/tls-crypt key is another"
            );
            self.verdict = Some(Outcome::Retry { reason, advance: true });
        } else if self.push_deadline.is_some_and(|at| now >= at) {
            self.verdict = Some(retry(&match self.pending {
                Some(pending) => pending.reason(),
                None => "the server accepted us but sent no settings (PUSH_REPLY)".to_owned(),
            }));
        }
    }

    pub(in crate::client) fn poll_timeout(&self) -> Option<Instant> {
        let mut next = earliest(self.channel.poll_timeout(), self.ask_at);
        next = earliest(next, self.exit_until);
        if self.up.is_some() && self.is_exiting() {
            return next;
        }
        if self.up.is_some() {
            return earliest(earliest(next, self.lifetime.poll_timeout()), self.liveness.poll_timeout());
        }
        let unheard = (!self.channel.heard()).then(|| self.started + self.remote.poll_timeout);
        earliest(earliest(next, unheard), self.push_deadline)
    }
}
