//! A peer that is reached over TCP: its connection is opened when something is to be sent, and again when it broke.

use std::time::Duration;

use adit_core::{Instant, OpenFailure, Path, Severity};

use super::Peer;
use crate::request::Event;
use crate::shared::Shared;

/// The wait before a connection is opened again.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait: each is twice the one before, while nothing authentic comes.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Initiations without an answer, 5 s apart, after which the connection is taken for dead: TCP itself may wait a
/// quarter of an hour (tcp(7), `tcp_retries2`).
const UNANSWERED: u32 = 3;

/// A peer's connection.
#[derive(Debug)]
pub(super) struct Stream {
    /// The driver's number of the remote.
    remote: usize,
    state: State,
    /// Connections without anything authentic, one after the other.
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The connection is opened when something is to be sent.
    Idle,
    /// The connection was asked for.
    Opening,
    /// The connection is there, and is the peer's path.
    Open(Path),
    /// The connection broke, or could not be had: not before then.
    Waiting(Instant),
}

impl Stream {
    fn wait(&mut self, now: Instant) {
        let wait = FIRST_WAIT.saturating_mul(1 << self.failures.min(6)).min(LONGEST_WAIT);
        self.failures = self.failures.saturating_add(1);
        self.state = State::Waiting(now + wait);
    }

    /// The peer uses that connection no more. True if it was the peer's own, which is of no use then.
    pub(super) fn leave(&mut self, path: Path) -> bool {
        let is_own = self.state == State::Open(path);
        if is_own {
            self.state = State::Idle;
        }
        is_own
    }

    /// When it is opened again.
    pub(super) const fn due(&self) -> Option<Instant> {
        match self.state {
            State::Waiting(due) => Some(due),
            _ => None,
        }
    }
}

impl Peer {
    /// The peer is reached over TCP, by that remote of the driver's.
    pub(crate) fn set_stream(&mut self, remote: usize) {
        if self.stream.as_ref().is_none_or(|stream| stream.remote != remote) {
            self.stream = Some(Stream { remote, state: State::Idle, failures: 0 });
        }
    }

    /// Whether it waits for a connection to that remote.
    pub(crate) fn awaits(&self, remote: usize) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.remote == remote && stream.state == State::Opening)
    }

    /// Asks for a connection, if the peer has none and is reached by one.
    pub(super) fn connect(&mut self, shared: &mut Shared) {
        if self.blocked || self.path.is_some() {
            return;
        }
        if let Some(stream) = self.stream.as_mut().filter(|stream| stream.state == State::Idle) {
            stream.state = State::Opening;
            shared.emit(Event::Open { remote: stream.remote });
        }
    }

    /// The connection is there. The other end knows it by the first datagram on it.
    pub(crate) fn connected(&mut self, shared: &mut Shared, path: Path) {
        if let Some(stream) = &mut self.stream {
            stream.state = State::Open(path);
        }
        (self.remote, self.configured) = (None, None);
        self.set_path(shared, path);
        if self.sessions.usable(shared.now).is_some() {
            return self.send_keepalive(shared);
        }
        // Messages that were sent on an earlier connection are lost with it.
        self.handshake_sent = None;
        if self.is_needed(shared.now) {
            self.initiate(shared, true);
        }
    }

    /// No connection was to be had.
    pub(crate) fn not_connected(&mut self, shared: &mut Shared, failure: &OpenFailure) {
        let Some(stream) = &mut self.stream else { return };
        stream.wait(shared.now);
        let text = format!("{}: it cannot be reached over TCP: {}", self.called(), failure.text());
        shared.report(Severity::Warning, None, text);
    }

    /// A connection broke. If it was the peer's, its other endpoint counts again, or a new connection is opened.
    pub(crate) fn closed(&mut self, shared: &mut Shared, path: Path, reason: &str) {
        let is_own = self.stream.as_ref().is_some_and(|stream| stream.state == State::Open(path));
        if is_own {
            let text = format!("{}: the connection broke: {reason}", self.called());
            shared.report(Severity::Info, Some(path), text);
            self.wait_for_stream(shared.now);
        }
        self.leave_connection(shared);
    }

    /// The connection is gone: when the next is opened.
    fn wait_for_stream(&mut self, now: Instant) {
        let is_needed = self.is_needed(now);
        if let Some(stream) = &mut self.stream {
            match is_needed {
                true => stream.wait(now),
                false => stream.state = State::Idle,
            }
        }
    }

    /// Uses no connection any more. If the peer was reached by UDP before, it is again.
    pub(super) fn leave_connection(&mut self, shared: &mut Shared) {
        if let Some(Path::Tcp { .. }) = self.path {
            self.lose_path(shared);
            self.find_path(shared);
        }
    }

    /// Opens a new connection where the path seems dead. True if it does.
    pub(super) fn renew_stream(&mut self, shared: &mut Shared) -> bool {
        let is_dead = self.unanswered > 0 && self.unanswered.is_multiple_of(UNANSWERED);
        if !is_dead || self.stream.is_none() || self.path.is_none() {
            return false;
        }
        (self.remote, self.configured) = (None, None);
        self.lose_path(shared);
        self.connect(shared);
        true
    }

    /// Something authentic came: the connection is a good one.
    pub(super) const fn stream_is_good(&mut self) {
        if let Some(stream) = &mut self.stream {
            stream.failures = 0;
        }
    }

    /// The next connection need not be waited for.
    pub(super) fn end_wait(&mut self) {
        if let Some(stream) = self.stream.as_mut().filter(|it| it.due().is_some()) {
            stream.state = State::Idle;
        }
    }

    /// The wait for the next connection is over, if it is.
    pub(super) fn look_at_stream(&mut self, shared: &mut Shared) {
        let is_needed = self.is_needed(shared.now);
        let now = shared.now;
        let Some(stream) = self.stream.as_mut().filter(|it| it.due().is_some_and(|due| due <= now)) else {
            return;
        };
        stream.state = State::Idle;
        if is_needed {
            self.connect(shared);
        }
    }

    /// Whether there is something to send, or to be received.
    fn is_needed(&self, now: Instant) -> bool {
        let is_used = self.wanted || self.persistent_keepalive != 0 || self.timers.retry.is_some();
        !self.blocked && (is_used || self.sessions.usable(now).is_some())
    }
}
