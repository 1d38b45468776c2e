//! Before an attempt: whether it is made now, and where it goes, if the adapter wants a say in it.
//!
//! The order is OpenVPN's (init.c, `do_startup_pause` before `next_connection_entry`): first the hold, which takes the place
//! of the wait between attempts, then the remote.

use std::net::IpAddr;
use std::time::Duration;

use adit_core::Severity;

use super::{Client, State};
use crate::request::{Event, Progress, RemoteDecision, RemoteQuery, Request};

impl Client {
    /// How messages call the server that is being tried.
    pub(super) fn remote_name(&self) -> String {
        match (&self.instead, self.params.remotes.get(self.remote)) {
            (Some((host, port)), Some(remote)) => format!("{host}:{port} ({})", remote.protocol),
            (None, Some(remote)) => remote.name.clone(),
            (_, None) => "the server".to_owned(),
        }
    }

    /// The next attempt comes after `wait`, unless the adapter holds it back.
    pub(super) fn wait_for_attempt(&mut self, wait: Duration) {
        // Where the next one goes is another question.
        (self.instead, self.chosen) = (None, false);
        (self.refusals, self.refused_addresses) = (0, 0);
        let until = self.now + wait;
        if !self.params.asks_to_go_on {
            self.state = State::Waiting(until);
            return;
        }
        self.state = State::Held(until);
        self.events.push_back(Event::Request(Request::MayGoOn { wait }));
    }

    /// The adapter lets the client go on.
    pub(super) fn go_on(&mut self, at_once: bool) {
        let State::Held(until) = self.state else { return };
        self.state = State::Waiting(if at_once { self.now } else { until });
        if at_once {
            self.open();
        }
    }

    pub(super) fn ask_for_remote(&mut self) {
        let Some(remote) = self.params.remotes.get(self.remote) else { return };
        let query = RemoteQuery {
            remote: self.remote,
            host: remote.host.clone(),
            port: remote.port,
            protocol: remote.protocol,
        };
        self.state = State::Choosing;
        self.events.push_back(Event::Request(Request::Remote(Box::new(query))));
    }

    /// The adapter says where to connect.
    pub(super) fn remote_decided(&mut self, decision: RemoteDecision) {
        if !matches!(self.state, State::Choosing) {
            return;
        }
        match decision {
            RemoteDecision::Try { instead } => {
                (self.instead, self.chosen) = (instead, true);
                self.open();
            }
            RemoteDecision::Skip(places) => {
                let remotes = self.params.remotes.len().max(1);
                self.remote = (self.remote + places.max(1) % remotes) % remotes;
                self.ask_for_remote();
            }
        }
    }

    /// The proxy wants our credentials. If it got and refused them, the attempt has failed: the user is asked at once,
    /// but the next attempt waits as after any other that failed (`connect-retry`), and is at the same remote.
    pub(super) fn ask_for_proxy(&mut self, text: String, refused: bool) {
        let mut not_before = None;
        if refused {
            if self.params.ends_when_lost {
                return self.try_again(&text, false);
            }
            let Some(wait) = self.count_attempt(&text, false) else { return };
            not_before = Some(self.now + wait);
            let text = format!(
                "{}: {text}; next attempt in {} s at the earliest",
                self.remote_name(),
                wait.as_secs()
            );
            self.report(Severity::Error, None, text);
        }
        self.state = State::AskingForProxy { text, not_before };
        let request = Request::ProxyCredentials { remote: self.remote, refused };
        self.events.push_back(Event::Request(request));
    }

    /// The adapter has passed the credentials to the opener of paths: the same attempt goes on, or the next one comes
    /// in its time. Or the attempt has failed.
    pub(super) fn proxy_answered(&mut self, answer: Result<(), String>) {
        let State::AskingForProxy { text, not_before } = &self.state else { return };
        let not_before = *not_before;
        match (answer, not_before) {
            (Ok(()), not_before) => {
                self.chosen = true;
                match not_before.filter(|at| *at > self.now) {
                    Some(at) => self.state = State::Waiting(at),
                    None => self.open(),
                }
            }
            // That attempt was counted when the proxy refused it.
            (Err(why), Some(at)) => {
                let text = format!("{text}; {why}");
                self.wait_to_try_again(&text, true, at.saturating_since(self.now));
            }
            (Err(why), None) => {
                let text = format!("{text}; {why}");
                self.try_again(&text, true);
            }
        }
    }

    /// Tells those who watch that a path is opened.
    pub(super) fn tell_opening(&mut self) {
        let Some(remote) = self.params.remotes.get(self.remote) else { return };
        let host = self.instead.as_ref().map_or(&remote.host, |(host, _)| host);
        let progress =
            Progress::Opening { named: host.parse::<IpAddr>().is_err(), transport: remote.transport };
        self.events.push_back(Event::Request(Request::Progress(progress)));
    }

    /// A program answers a question of the server's, in base64.
    pub(super) fn respond(&mut self, answer: &str) {
        if let State::Connected(connection) = &mut self.state {
            self.question = None;
            connection.respond_encoded(self.now, answer);
        }
    }
}
