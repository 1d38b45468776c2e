//! The client's reports to its watchers: how far it has come, and the server's messages besides settings.

use adit_core::Severity;

use super::super::challenge::TextChallenge;
use super::Connection;
use crate::outbox::Outbox;
use crate::request::{Event, Progress, Request, ServerNotice};

/// Tells something that wants no answer.
pub(super) fn news(request: Request, events: &mut Outbox) {
    events.push_back(Event::Request(request));
}

/// The server ended the connection, with these words.
pub(super) fn notice(kind: &'static str, text: &str, events: &mut Outbox) {
    news(Request::ServerNotice(ServerNotice { kind, text: text.to_owned() }), events);
}

impl Connection {
    /// Tells once that the server answered.
    pub(super) fn tell_answered(&mut self, events: &mut Outbox) {
        if self.channel.heard() && !std::mem::replace(&mut self.told_heard, true) {
            news(Request::Progress(Progress::Authenticating), events);
        }
    }

    /// Words for the person in charge: a question, a page to open, or anything else. A program that watches gets them as
    /// they are, and answers a question itself if the user's answers come from it.
    pub(super) fn be_told(&mut self, text: &str, events: &mut Outbox) {
        news(Request::ServerInfo(text.to_owned()), events);
        if let Some(challenge) = TextChallenge::parse(text) {
            let by_program = self.params.auth.as_ref().is_some_and(|auth| auth.by_program);
            self.challenge = Some(challenge).filter(|_| !by_program);
            return;
        }
        let page = text.strip_prefix("OPEN_URL:");
        let page = page.or_else(|| Some(text.strip_prefix("WEB_AUTH:")?.split_once(':')?.1));
        let text = match page {
            Some(page) => format!("the server lets us in once this page was opened and done: {page}"),
            None => format!("the server says: {text}"),
        };
        self.tell(Severity::Info, text, events);
    }

    /// Passes a pushed message on to those who watch (`echo`, or `parameter`, its other name).
    pub(super) fn tell_echo(option: &str, events: &mut Outbox) {
        if let Some(("echo" | "parameter", text)) = option.split_once(' ') {
            news(Request::Echo(text.trim().to_owned()), events);
        }
    }
}
