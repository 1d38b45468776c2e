//! The server's lines in the log, and the limit on those that peers may cause that have not authenticated.

use adit_core::{Path, Report, Severity};

use super::Server;
use super::limits::{LOG_LINES, LOG_PERIOD};
use crate::request::{ConnectionFailure, Event, FailedClient, Request, ScriptOutcome};

impl Server {
    /// Logs an act of the server, or a line that a limit has admitted.
    pub(super) fn report(&mut self, severity: Severity, path: Option<Path>, text: String) {
        self.events.own_line(Report { severity, path, text });
    }

    /// Logs a line that a peer caused that has not authenticated, as far as there is room for such lines. False if
    /// there is none.
    pub(super) fn report_unauthenticated(&mut self, severity: Severity, path: Path, text: String) -> bool {
        let admitted = self.log_budget.admits(self.now, path.remote().ip());
        if admitted {
            self.report(severity, Some(path), text);
        }
        admitted
    }

    /// The connection to a peer failed: for those who look for that in the log.
    pub(super) fn tell_failure(&mut self, path: Path, name: Option<String>, failure: ConnectionFailure) {
        self.events.push_back(Event::Request(match self.params.point_to_point {
            Some(_) => Request::ConnectionFailed(failure),
            None => Request::ClientFailed(Box::new(FailedClient { path, name, failure })),
        }));
    }

    /// A datagram from there does not verify: for those who look for that in the log, as far as there is room for such lines.
    pub(super) fn tell_unauthentic(&mut self, path: Path) {
        if self.unauthentic_budget.admits(self.now, path.remote().ip()) {
            self.tell_failure(path, None, ConnectionFailure::Unauthentic(path));
        }
    }

    /// Says in the log, once in a while, that a table of unauthenticated peers makes room.
    pub(super) fn report_full(&mut self, what: &'static str) {
        let due = self.told_full.get(what).is_none_or(|at| self.now >= *at);
        if due {
            self.told_full.insert(what, self.now + LOG_PERIOD);
            let text = format!(
                "too many {what}: the oldest of the source with the most make room; `adit status` counts them, and \
                 this is said once in {} s",
                LOG_PERIOD.as_secs()
            );
            self.report(Severity::Warning, None, text);
        }
    }

    /// Logs the lines of a peer before it has authenticated.
    pub(super) fn report_lines(&mut self, path: Path, lines: Vec<(Severity, String)>) {
        for (severity, text) in lines {
            self.report_unauthenticated(severity, path, text);
        }
    }

    /// The outcome of a script about a client that has left matters only if the script did not run to its end.
    pub(super) fn report_unfinished_script(&mut self, outcome: &ScriptOutcome) {
        let Err(why) = &outcome.exit else { return };
        let text = format!("a script about a client that has left did not run to its end: {why}");
        if let Some(text) = self.unfinished_scripts.admit(self.now, text) {
            self.report(Severity::Warning, None, text);
        }
    }

    /// Says in the log how many lines about unauthenticated peers there was no room for.
    pub(super) fn report_dropped_lines(&mut self) {
        if let Some(dropped) = self.log_budget.poll_dropped(self.now) {
            let text = format!(
                "{dropped} lines about peers that did not authenticate were not written in the last {} s (at most {} \
                 are, and {} of one address)",
                LOG_PERIOD.as_secs(),
                LOG_LINES.total,
                LOG_LINES.ipv4
            );
            self.report(Severity::Warning, None, text);
        }
    }
}
