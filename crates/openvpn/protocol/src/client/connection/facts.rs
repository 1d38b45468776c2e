//! The facts of the connection for scripts.

use super::{Connection, retry};
use crate::environment::{Environment, place_text};
use crate::outbox::Outbox;
use crate::params::ScriptParams;
use crate::request::{Event, PeerFacts, Request};

/// Why a connection ends, in OpenVPN's words, if nothing else is known.
pub(super) const TLS_ERROR: &str = "tls-error";
/// The reason of a client that ends and has sent its server the exit notice (its sig.c,
/// `process_explicit_exit_notification_timer_wakeup`).
pub(in crate::client) const EXIT_NOTICE: &str = "exit-with-notification";

impl Connection {
    /// Why it ends, in the word of scripts.
    pub(in crate::client) fn signal(&self) -> &'static str {
        self.signal
    }

    pub(super) fn peer_left(&mut self) {
        self.signal = "remote-exit";
        self.verdict = Some(retry("the server left (exit notice)"));
    }

    /// The server has authenticated itself, or moved.
    pub(super) fn tell_peer(&mut self, events: &mut Outbox) {
        let Some(scripts) = self.params.local.scripts.as_deref() else { return };
        if std::mem::replace(&mut self.told_peer, true) {
            return;
        }
        let env = self.environment(scripts);
        let facts = PeerFacts { env: env.into_list(), address: place_text(self.path) };
        events.push_back(Event::Request(Request::PeerFacts(Box::new(facts))));
    }

    fn environment(&self, scripts: &ScriptParams) -> Environment {
        let mut env = Environment::new(&scripts.env);
        env.certificates(&self.channel.peer_certificates());
        env.place(self.path, false);
        env.place(self.path, true);
        env.set("common_name", self.channel.peer_name().unwrap_or_default());
        // The other end of a point-to-point tunnel tells of itself; a server does not.
        if !self.params.pull {
            env.peer_info(self.channel.peer_info().unwrap_or_default());
        }
        env
    }
}
