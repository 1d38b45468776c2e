//! Attempts to reach the peer at its remotes, and the waits between them.

use adit_core::{Ended, OpenFailure, Path, Severity};

use super::{State, StaticTunnel};
use crate::lifetime::Lifetime;
use crate::request::Event;
use crate::retry::{MOST_REFUSED_ADDRESSES, Retry};

impl StaticTunnel {
    pub(super) fn open(&mut self) {
        self.take_next();
        self.state = State::Opening;
        let text = format!("connecting to {}", self.remote_name());
        self.report(Severity::Info, None, text);
        self.events.push_back(Event::Open { remote: self.remote });
    }

    pub(super) fn remote_name(&self) -> &str {
        self.params.remotes.get(self.remote).map_or("the other end", |remote| remote.name.as_str())
    }

    /// Takes a path to the remote, or a connection that was accepted.
    pub(super) fn opened(&mut self, path: Path) {
        match self.state {
            // The path may lead to a remote of the settings before.
            State::Opening if self.next.is_some() => {
                self.events.push_back(Event::Close { path });
                self.try_again("the settings changed", false);
            }
            State::Opening => {
                self.state = State::Running;
                self.ever_opened = true;
                self.unknown.0 = 0;
                self.lifetime = Lifetime::new(self.now, self.params.limits);
                self.take(path);
                self.set_up_device(Some(path.remote().ip()));
            }
            State::Running if self.params.waits() && self.may_be_at(path) => self.accepted(path),
            _ => self.events.push_back(Event::Close { path }),
        }
    }

    pub(super) fn try_again(&mut self, reason: &str, advance: bool) {
        let was_up = self.up.is_some();
        self.come_down(reason);
        self.leave();
        self.take_next();
        self.attempts = self.attempts.saturating_add(1);
        self.refused_addresses = 0;
        let (waits, most_rounds) = (self.params.retry, self.params.retry_max);
        let retry = Retry { waits, most_rounds, remotes: self.params.remotes.len() };
        let Some(wait) = retry.wait_after(self.attempts, was_up) else {
            let name = self.remote_name();
            let text = format!("{name}: {reason}; connect-retry-max allows no further attempt");
            return self.end(Ended::Failed(text));
        };
        let text = format!("{}: {reason}; next attempt in {} s", self.remote_name(), wait.as_secs());
        self.report(Severity::Error, None, text);
        if advance && !was_up {
            self.remote = (self.remote + 1) % self.params.remotes.len().max(1);
        }
        self.state = State::Waiting(self.now + wait);
    }

    /// The address that was opened refuses datagrams: the remote's next address is tried at once. Where many have refused, the other
    /// end is perhaps not there yet: it may still be heard at the last one.
    pub(super) fn address_refused(&mut self, path: Path, reason: &str) {
        let is_heard = self.heard || self.up.is_some();
        let is_over = self.refused_addresses >= MOST_REFUSED_ADDRESSES || self.next.is_some();
        if self.path != Some(path) || self.params.waits() || is_heard || is_over {
            return;
        }
        self.refused_addresses += 1;
        let goes_on = if self.refused_addresses < MOST_REFUSED_ADDRESSES {
            "its next address is tried"
        } else {
            "its next address is tried, and kept, as many have refused"
        };
        let name = self.remote_name();
        let text = format!("{name}: {} refuses datagrams: {reason}; {goes_on}", path.remote());
        self.report(Severity::Warning, None, text);
        self.leave();
        self.open();
    }

    pub(super) fn open_failed(&mut self, failure: OpenFailure) {
        if self.state != State::Opening {
            return;
        }
        match failure {
            OpenFailure::UnknownName(text) => {
                if self.unknown.0 == 0 {
                    self.unknown.1 = self.now;
                }
                self.unknown.0 = self.unknown.0.saturating_add(1);
                let all = self.unknown.0 >= self.params.remotes.len();
                let over = |limit| self.now - self.unknown.1 >= limit;
                if all && !self.ever_opened && self.params.resolve_timeout.is_some_and(over) {
                    return self.end(Ended::Failed(format!(
                        "{text}; check the remote line, or write \"resolv-retry infinite\" to keep trying"
                    )));
                }
                self.try_again(&text, true);
            }
            OpenFailure::Unreachable(text) | OpenFailure::NeedsCredentials { text, .. } => {
                self.unknown.0 = 0;
                self.try_again(&text, true);
            }
        }
    }
}
