//! The path to a remote: it is asked for, and comes or does not.

use adit_core::{Ended, OpenFailure, Path, Severity};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};

use super::connection::Connection;
use super::user::Need;
use super::{Client, State};
use crate::request::{Event, Progress, Request};

impl Client {
    pub(super) fn open(&mut self) {
        if self.params.asks_for_remote && !self.chosen {
            return self.ask_for_remote();
        }
        if let Some(need) = self.user.need() {
            self.state = State::Asking;
            return match need {
                Need::Credentials => {
                    let reason = self.user.why_asked();
                    self.events.push_back(Event::Request(Request::Credentials { reason }));
                }
                Need::Answer { text, echo } => self.ask(text, echo),
            };
        }
        self.state = State::Opening;
        self.chosen = false;
        let text = format!("connecting to {}", self.remote_name());
        self.report(Severity::Info, None, text);
        self.events.push_back(Event::Open { remote: self.remote });
        self.tell_opening();
    }

    pub(super) fn opened(&mut self, path: Path) {
        if !matches!(self.state, State::Opening) {
            self.events.push_back(Event::Close { path });
            return;
        }
        self.unknown.0 = 0;
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        let rng = ChaCha20Rng::from_seed(seed);
        let credentials = self.user.credentials();
        let Some(remote) = self.params.remotes.get(self.remote).cloned() else {
            return self.end(Ended::Failed("there is no remote".to_owned()));
        };
        self.connections = self.connections.wrapping_add(1);
        let to = (path, remote, self.connections);
        match Connection::new(self.now, to, self.params.clone(), self.control.clone(), credentials, rng) {
            Ok(connection) => {
                self.events.push_back(Event::Request(Request::Progress(Progress::Waiting)));
                self.state = State::Connected(Box::new(connection));
            }
            Err(error) => {
                self.events.push_back(Event::Close { path });
                self.end(Ended::Failed(format!("TLS cannot start: {error}")));
            }
        }
    }

    pub(super) fn open_failed(&mut self, failure: OpenFailure) {
        if !matches!(self.state, State::Opening) {
            return;
        }
        match failure {
            OpenFailure::UnknownName(text) if self.tires_of_unknown_names() => {
                self.end(Ended::Failed(format!(
                    "{text}; check the remote line, or write \"resolv-retry infinite\" to keep trying"
                )));
            }
            OpenFailure::UnknownName(text) => self.try_again(&text, true),
            OpenFailure::NeedsCredentials { text, refused } if self.params.asks_for_proxy_credentials => {
                self.unknown.0 = 0;
                self.ask_for_proxy(text, refused);
            }
            OpenFailure::Unreachable(text) | OpenFailure::NeedsCredentials { text, .. } => {
                self.unknown.0 = 0;
                self.try_again(&text, true);
            }
        }
    }

    /// One more name does not exist: whether that is the end, as no other does and `resolv-retry` is over.
    fn tires_of_unknown_names(&mut self) -> bool {
        if self.unknown.0 == 0 {
            self.unknown.1 = self.now;
        }
        self.unknown.0 = self.unknown.0.saturating_add(1);
        let all = self.unknown.0 >= self.params.remotes.len();
        let over = self.params.resolve_timeout.is_some_and(|limit| self.now - self.unknown.1 >= limit);
        all && over && !self.ever_up
    }
}
