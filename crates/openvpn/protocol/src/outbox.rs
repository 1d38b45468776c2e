//! The events of a machine on their way to its driver, and the limits on those that a peer causes.

use std::collections::VecDeque;

use adit_core::{Instant, Report};

use crate::change_rate::ChangeRate;
use crate::log_rate_limit::LogRateLimit;
use crate::request::{Event, Request};

/// The events of a machine, in their order.
///
/// All events of a machine go through this type, so that no message of a peer writes lines or asks questions without a
/// limit: an [`Event::Report`] that is simply pushed counts as caused by a peer. [`Outbox::own_line`] is for lines that
/// something else bounds. `docs/use/LIMITS.md` has the numbers.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    now: Instant,
    events: VecDeque<Event>,
    lines: LogRateLimit,
    questions: LogRateLimit,
    words: LogRateLimit,
    changes: ChangeRate,
}

/// How requests of one kind are bounded.
enum Bound {
    /// The lines by their cause: an attempt to connect, a step of a machine, a table, or the adapter, where one
    /// supersedes the one before it.
    Elsewhere,
    /// As questions to a person.
    Question,
    /// As words for a person.
    Words,
}

fn bound(request: &Request) -> Bound {
    match request {
        Request::Challenge(_) => Bound::Question,
        Request::ServerInfo(_) => Bound::Words,
        // Tables bound scripts and the events of clients; the adapter keeps the last messages by `echo` and the last states.
        Request::RunScript(_)
        | Request::CancelScript(_)
        | Request::Client(_)
        | Request::Echo(_)
        | Request::Progress(_)
        // Once for a connection or an attempt.
        | Request::PeerSettings { .. }
        | Request::Leased(_)
        | Request::Signal(_)
        | Request::Credentials { .. }
        | Request::MayGoOn { .. }
        | Request::Remote(_)
        | Request::ProxyCredentials { .. }
        | Request::ProxyCredentialsNotNeeded
        | Request::AuthFailed(_)
        | Request::ConnectionFailed(_)
        | Request::ClientFailed(_)
        | Request::ExitNotice { .. }
        | Request::ServerNotice(_)
        // A later one supersedes the one before it.
        | Request::PeerFacts(_)
        | Request::TunnelFacts(_)
        | Request::TlsStep(_) => Bound::Elsewhere,
    }
}

impl Outbox {
    /// Sets the time that limits go by.
    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Adds an event, unless the limit on its kind is used up.
    pub(crate) fn push_back(&mut self, event: Event) {
        match event {
            Event::Report(Report { severity, path, text }) => {
                if let Some(text) = self.lines.admit(self.now, text) {
                    self.own_line(Report { severity, path, text });
                }
            }
            Event::Request(request) => {
                let admitted = match bound(&request) {
                    Bound::Elsewhere => true,
                    Bound::Question => self.questions.admits(self.now),
                    Bound::Words => self.words.admits(self.now),
                };
                if admitted {
                    self.events.push_back(Event::Request(request));
                }
            }
            Event::Data(_)
            | Event::Open { .. }
            | Event::Close { .. }
            | Event::Up(_)
            | Event::Down
            | Event::PeerUp { .. }
            | Event::PeerDown { .. }
            | Event::LeasesMoved
            | Event::Ended(_) => self.events.push_back(event),
        }
    }

    /// Adds a line that a peer does not cause as often as it likes: it is said once in an attempt or a connection, or another
    /// limit has admitted it.
    pub(crate) fn own_line(&mut self, line: Report) {
        self.events.push_back(Event::Report(line));
    }

    /// Adds a line that `limit` counts.
    pub(crate) fn limited_line(&mut self, limit: &mut LogRateLimit, line: Report) {
        let Report { severity, path, text } = line;
        if let Some(text) = limit.admit(self.now, text) {
            self.own_line(Report { severity, path, text });
        }
    }

    /// Limits how often the peer has the tunnel changed, over all its connections.
    pub(crate) fn changes(&mut self) -> &mut ChangeRate {
        &mut self.changes
    }

    /// When a change of the tunnel that waits may be made.
    pub(crate) fn change_due(&self) -> Option<Instant> {
        self.changes.due()
    }

    /// The oldest event.
    pub(crate) fn pop_front(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The events that wait.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    /// Keeps the events for which `keeps` says so.
    pub(crate) fn retain(&mut self, keeps: impl FnMut(&Event) -> bool) {
        self.events.retain(keeps);
    }
}

impl Extend<Event> for Outbox {
    fn extend<T: IntoIterator<Item = Event>>(&mut self, events: T) {
        events.into_iter().for_each(|event| self.push_back(event));
    }
}

#[cfg(test)]
mod tests {
    use adit_core::Severity;

    use super::*;
    use crate::request::Challenge;

    #[test]
    fn what_a_peer_causes_is_limited_unless_it_says_otherwise() {
        let mut outbox = Outbox::default();
        let line = || Report { severity: Severity::Info, path: None, text: "line".to_owned() };
        let question = |id| Challenge { id, text: "PIN".to_owned(), echo: false };
        for id in 0..1000 {
            outbox.push_back(Event::Report(line()));
            outbox.push_back(Event::Request(Request::Challenge(question(id))));
            outbox.extend([Event::Request(Request::ServerInfo("words".to_owned()))]);
        }
        let count = |is: fn(&Event) -> bool| outbox.iter().filter(|event| is(event)).count();
        assert_eq!(count(|event| matches!(event, Event::Report(_))), 16);
        assert_eq!(count(|event| matches!(event, Event::Request(Request::Challenge(_)))), 16);
        assert_eq!(count(|event| matches!(event, Event::Request(Request::ServerInfo(_)))), 16);
        outbox.own_line(line());
        assert_eq!(outbox.iter().count(), 49);
    }
}
