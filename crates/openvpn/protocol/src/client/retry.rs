//! An attempt or a connection is over: which remote is next, and when ([`Retry`]).

use std::time::Duration;

use adit_core::{Ended, Path, Severity};

use super::connection::Connection;
use super::{Client, State};
use crate::request::{Event, Request};
use crate::retry::{MOST_REFUSED_ADDRESSES, Retry};

/// Where the next attempt goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The remote of the attempt before.
    Same,
    /// The same remote if it was just there; one that was not makes room for the next.
    Usual,
    /// The next remote.
    Other,
}

impl Next {
    pub(super) fn after(advance: bool) -> Self {
        if advance { Next::Other } else { Next::Usual }
    }
}

impl Client {
    /// The connection or the attempt is over: the next one after a while.
    pub(super) fn try_again(&mut self, reason: &str, advance: bool) {
        self.try_again_after(reason, Next::after(advance), Duration::ZERO);
    }

    /// Makes another attempt, but not before `least` has passed.
    pub(super) fn try_again_after(&mut self, reason: &str, next: Next, least: Duration) {
        // The server, or the network, may end the connection before the client that was ordered to end it.
        if matches!(&self.state, State::Connected(connection) if connection.is_exiting()) {
            return self.end(Ended::Shutdown);
        }
        if self.params.ends_when_lost {
            let text = format!("{}: {reason}; this ends the tunnel (remap-usr1)", self.remote_name());
            self.report(Severity::Error, None, text);
            return self.end(Ended::Shutdown);
        }
        let was_up = self.leave_connection();
        if was_up {
            self.attempts = 0;
        }
        let Some(wait) = self.count_attempt(reason, was_up) else { return };
        let advance = next == Next::Other || (next == Next::Usual && !was_up);
        self.wait_to_try_again(reason, advance, wait.max(least));
    }

    /// One end does not accept the other (a certificate, a version of TLS). The next attempt goes to the next remote; a client
    /// that was never up ends when each remote in turn has ended so.
    pub(super) fn refused(&mut self, reason: &str) {
        let refusals = self.refusals.saturating_add(1);
        if !self.ever_up && refusals >= self.params.remotes.len() {
            let text = format!("{}: {reason}", self.remote_name());
            return self.end(Ended::Failed(text));
        }
        self.try_again(reason, true);
        // The wait for the next attempt has begun the count anew.
        self.refusals = refusals;
    }

    /// The address of the connection refuses datagrams. The attempt goes on at the remote's next address at once, unless many have
    /// refused. Where the server was heard, the refusal is of something else.
    pub(super) fn address_refused(&mut self, path: Path, reason: &str) {
        let is_unheard = |connection: &Connection| connection.path() == path && !connection.has_heard();
        if !matches!(&self.state, State::Connected(connection) if is_unheard(connection)) {
            return;
        }
        let reason = format!("{} refuses datagrams: {reason}", path.remote());
        self.refused_addresses += 1;
        if self.refused_addresses > MOST_REFUSED_ADDRESSES {
            return self.try_again(&reason, true);
        }
        let text = format!("{}: {reason}; its next address is tried", self.remote_name());
        self.report(Severity::Warning, None, text);
        self.leave_connection();
        self.chosen = true;
        self.open();
    }

    /// The connection or the attempt is given up on request, and the next one comes after the wait.
    pub(super) fn restart(&mut self) {
        let reason = "told to restart";
        if matches!(self.state, State::AskingForProxy { .. }) {
            self.events.push_back(Event::Request(Request::ProxyCredentialsNotNeeded));
        }
        match self.state {
            // One that is held back, or asks where to go, begins anew anyway (OpenVPN manage.c, `MANSIG_IGNORE_USR1_HUP`).
            State::Ended | State::Held(_) | State::Choosing => {}
            // That attempt was counted when the proxy refused it.
            State::AskingForProxy { not_before: Some(at), .. } => {
                self.wait_to_try_again(reason, true, at.saturating_since(self.now));
            }
            _ => {
                self.signal = matches!(self.state, State::Connected(_)).then_some("sigusr1");
                self.try_again(reason, false);
            }
        }
    }

    /// One more attempt, or a connection that was up, is over. Gives the wait before the next attempt; `None`, and the client
    /// ends, if `connect-retry-max` allows no further one.
    pub(super) fn count_attempt(&mut self, reason: &str, was_up: bool) -> Option<Duration> {
        self.attempts = self.attempts.saturating_add(1);
        let (waits, most_rounds) = (self.params.retry, self.params.retry_max);
        let retry = Retry { waits, most_rounds, remotes: self.params.remotes.len() };
        let wait = retry.wait_after(self.attempts, was_up);
        if wait.is_none() {
            let text =
                format!("{}: {reason}; connect-retry-max allows no further attempt", self.remote_name());
            self.end(Ended::Failed(text));
        }
        wait
    }

    /// Says why the last attempt is over, and waits for the next one. `advance`: it goes to the next remote.
    pub(super) fn wait_to_try_again(&mut self, reason: &str, advance: bool, wait: Duration) {
        let text = format!("{}: {reason}; next attempt in {} s", self.remote_name(), wait.as_secs());
        self.report(Severity::Error, None, text);
        if advance {
            self.remote = (self.remote + 1) % self.params.remotes.len().max(1);
        }
        self.wait_for_attempt(wait);
    }

    /// The server let us in, but the tunnel would be none.
    pub(super) fn not_up(&mut self, reason: &str) {
        if matches!(&self.state, State::Connected(connection) if connection.is_up()) {
            let untold = self.events.iter().any(|event| matches!(event, Event::PeerUp { .. }));
            self.try_again(reason, false);
            // Without a report that the peer is up there is none that it is down.
            self.events
                .retain(|event| !(untold && matches!(event, Event::PeerUp { .. } | Event::PeerDown { .. })));
        }
    }
}
