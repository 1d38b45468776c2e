//! The server stops: clients get the notice, and a moment to acknowledge it.

use std::time::Duration;

use adit_core::{Ended, PeerId, Severity};

use super::Server;
use crate::params::ExitNotify;
use crate::request::{Event, Request};

/// How long clients get to acknowledge the exit notice.
const EXIT_NOTICE_TIME: Duration = Duration::from_secs(1);

impl Server {
    pub(super) fn shut_down(&mut self) {
        if self.exit_until.is_some() || self.ended {
            return;
        }
        let message = match self.params.exit_notify {
            ExitNotify::Off => None,
            ExitNotify::Restart => Some("RESTART"),
            ExitNotify::NextServer => Some("RESTART,[N]"),
        };
        let sends_exit_notice =
            message.is_some() || self.params.point_to_point.as_ref().is_some_and(|point| point.exit_notify);
        self.exit_until = Some(if sends_exit_notice { self.now + EXIT_NOTICE_TIME } else { self.now });
        let ids: Vec<PeerId> = self.peers.keys().copied().collect();
        for id in ids {
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            match message {
                Some(text) => peer.send_message(self.now, text),
                None => peer.send_exit_notice(self.now, &mut self.events),
            }
            self.settle(id);
        }
        self.check_exit();
    }

    pub(super) fn check_exit(&mut self) {
        let Some(until) = self.exit_until else { return };
        let quiet = self.peers.values().all(|peer| !peer.is_up() || peer.is_quiet());
        if self.ended || (self.now < until && !quiet) {
            return;
        }
        self.end(Ended::Shutdown);
    }

    pub(super) fn end(&mut self, ended: Ended) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let ids: Vec<PeerId> = self.peers.keys().copied().collect();
        for id in ids {
            self.remove(id, "the server stops", Severity::Info);
        }
        if let Some(signal) = self.signal {
            self.after_words.push(Event::Request(Request::Signal(signal)));
        }
        self.after_words.push(Event::Down);
        self.after_words.push(Event::Ended(ended));
    }
}
