//! The timers of a peer (whitepaper §6; wireguard-go device/timers.go, with the same names where it has any).
//!
//! | timer | set | cleared |
//! |---|---|---|
//! | `retry` | 5 s and jitter after an initiation | by a completed handshake |
//! | `keepalive` | 10 s after the first packet received since the last send | by any send |
//! | `unanswered` | 15 s and jitter after the first packet sent since the last receive | by any receive |
//! | `persistent` | the interval after any send or receive | – |
//! | `wipe` | 540 s after a session was made | by the next session |

use std::time::Duration;

use adit_core::{Instant, Severity};

use super::Peer;
use super::sessions::{REJECT_AFTER_TIME, id_of};
use super::stream::Stream;
use crate::request::DataEvent;
use crate::shared::Shared;

/// `Rekey-After-Time`: the age at which an initiator's session is replaced when it sends.
pub(super) const REKEY_AFTER_TIME: Duration = Duration::from_secs(120);
/// `Rekey-Timeout`: the time between initiations.
pub(crate) const REKEY_TIMEOUT: Duration = Duration::from_secs(5);
/// `Keepalive-Timeout`.
pub(super) const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// The age at which an initiator that only receives replaces its session: 165 s.
pub(super) const LAST_MINUTE: Duration = Duration::from_secs(180 - 10 - 5);
/// Initiations after the first that are not answered. `Rekey-Attempt-Time`, 90 s, is counted in attempts: 20 in all
/// (wireguard-go: `MaxTimerHandshakes`).
const RETRIES: u32 = 19;
/// Initiations without an answer at the address that a peer was heard from last, before the configured address is tried, too.
const ROAMED_ATTEMPTS: u32 = 2;
/// When the keys of a peer that is silent are forgotten.
const WIPE_AFTER: Duration = REJECT_AFTER_TIME.saturating_mul(3);

#[derive(Debug, Default)]
pub(super) struct Timers {
    pub(super) retry: Option<Instant>,
    /// Retries since an initiation was last asked for.
    pub(super) attempts: u32,
    pub(super) keepalive: Option<Instant>,
    /// More packets came while `keepalive` ran: it is set again when it has fired.
    pub(super) another_keepalive: bool,
    pub(super) unanswered: Option<Instant>,
    persistent: Option<Instant>,
    wipe: Option<Instant>,
    /// The session's last-minute initiation was sent.
    pub(super) last_minute: bool,
}

impl Timers {
    pub(super) fn session_derived(&mut self, now: Instant) {
        self.wipe = Some(now + WIPE_AFTER);
    }

    pub(super) fn handshake_complete(&mut self) {
        (self.retry, self.attempts, self.last_minute) = (None, 0, false);
    }

    pub(super) fn give_up(&mut self, now: Instant) {
        (self.keepalive, self.another_keepalive) = (None, false);
        self.wipe.get_or_insert(now + WIPE_AFTER);
    }

    /// All but the persistent keepalive's.
    pub(super) fn clear_handshakes(&mut self) {
        *self = Timers { persistent: self.persistent, ..Timers::default() };
    }

    fn due(&self) -> Option<Instant> {
        [self.retry, self.keepalive, self.unanswered, self.persistent, self.wipe].into_iter().flatten().min()
    }
}

/// Takes a timer that has run out.
fn expired(timer: &mut Option<Instant>, now: Instant) -> bool {
    timer.take_if(|due| *due <= now).is_some()
}

impl Peer {
    /// When [`Peer::handle_timeout`] is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        let reconnects = self.stream.as_ref().and_then(Stream::due);
        let post_quantum = self.post_quantum.as_ref().and_then(|state| state.due());
        self.timers.due().into_iter().chain(reconnects).chain(post_quantum).min()
    }

    pub(crate) fn handle_timeout(&mut self, shared: &mut Shared) {
        let now = shared.now;
        self.look_at_stream(shared);
        if expired(&mut self.timers.wipe, now) {
            self.wipe(shared, "no handshake for 540 s");
        }
        if expired(&mut self.timers.retry, now) {
            self.retry(shared);
        }
        if expired(&mut self.timers.unanswered, now) {
            let text = format!("{}: no answer for 15 s, so a new handshake", self.called());
            shared.report(Severity::Debug, self.path, text);
            self.forget_source(shared);
            self.initiate(shared, false);
        }
        if expired(&mut self.timers.keepalive, now) {
            let another = std::mem::take(&mut self.timers.another_keepalive);
            self.send_keepalive(shared);
            self.timers.keepalive = another.then_some(now + KEEPALIVE_TIMEOUT);
        }
        if expired(&mut self.timers.persistent, now) {
            self.restart_persistent(now);
            self.send_keepalive(shared);
        }
        self.handle_post_quantum_timeout(shared);
    }

    fn retry(&mut self, shared: &mut Shared) {
        if self.timers.attempts >= RETRIES {
            return self.give_up(shared);
        }
        self.timers.attempts += 1;
        if self.renew_stream(shared) {
            return;
        }
        self.forget_source(shared);
        self.tries_configured = self.unanswered >= ROAMED_ATTEMPTS && !self.tries_configured;
        self.initiate(shared, true);
        // Where a response was sent less than 5 s ago, nothing may be sent: it is tried again when that has passed. Without
        // a path, as when a TCP connection broke, it is tried again as if it had been sent.
        if self.timers.retry.is_none()
            && let Some(sent) = self.handshake_sent
        {
            let opens = sent + REKEY_TIMEOUT;
            let due = if opens > shared.now { opens } else { shared.now + REKEY_TIMEOUT };
            self.timers.retry = Some(due + shared.jitter());
        }
    }

    /// Sends an empty packet, or an initiation where there is no session to send it with.
    pub(super) fn send_keepalive(&mut self, shared: &mut Shared) {
        if self.path.is_none() {
            return self.connect(shared);
        }
        let Some(session) = self.sessions.usable(shared.now).copied() else {
            return self.initiate(shared, false);
        };
        let (peer, payload) = (self.id, Vec::new());
        shared.order(match self.is_held(session) {
            false => DataEvent::Inject { peer, payload },
            true => DataEvent::InjectInto { peer, session: id_of(session.index), payload },
        });
        self.sent_anything(shared.now);
        self.keep_key_fresh(shared, shared.now);
    }

    /// A message was sent at `at`: if the session was old by then, a new one is due.
    pub(super) fn keep_key_fresh(&mut self, shared: &mut Shared, at: Instant) {
        if self.sessions.wants_rekey(at) {
            self.initiate(shared, false);
        }
    }

    /// Something was sent at `at`.
    pub(super) fn sent_anything(&mut self, at: Instant) {
        self.heard.note_sent(at);
        (self.timers.keepalive, self.timers.another_keepalive) = (None, false);
        self.restart_persistent(at);
    }

    /// Something was sent or received at `at`.
    pub(super) fn restart_persistent(&mut self, at: Instant) {
        let interval = Duration::from_secs(self.persistent_keepalive.into());
        self.timers.persistent = (!interval.is_zero()).then(|| at + interval);
    }
}
