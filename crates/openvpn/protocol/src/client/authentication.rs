//! The questions to the user that the server wants answered, and the server's refusal of the answers.

use std::time::Duration;

use adit_core::{Ended, Severity};

use super::challenge::Dynamic;
use super::retry::Next;
use super::user::{AfterRefusal, Temporary};
use super::{Client, State, connection};
use crate::request::{Challenge, ChallengeResponse, ConnectionFailure, Event, Request, UserPassword};

/// The least time before a refused client shows the same password again (`auth-retry nointeract`; OpenVPN's init.c,
/// `socket_restart_pause`).
const REFUSED_PAUSE: Duration = Duration::from_secs(10);

impl Client {
    pub(super) fn ask(&mut self, text: String, echo: bool) {
        self.questions = self.questions.wrapping_add(1);
        self.question = Some(self.questions);
        self.events.push_back(Event::Request(Request::Challenge(Challenge {
            id: self.questions,
            text,
            echo,
        })));
    }

    pub(super) fn auth_failed(&mut self, reason: &str) {
        let failure = ConnectionFailure::Refused(reason.to_owned());
        self.events.push_back(Event::Request(Request::ConnectionFailed(failure)));
        if let Some(Temporary { backoff, advance, reason }) = Temporary::parse(reason) {
            let text = format!("the server cannot let us in now (AUTH_FAILED,TEMP): {reason}");
            return self.try_again_after(&text, Next::after(advance), backoff.unwrap_or_default());
        }
        if !self.user.shows_token() {
            self.events.push_back(Event::Request(Request::AuthFailed(reason.to_owned())));
        }
        let by_program = self.user.answers_by_program();
        if let Some(challenge) = Dynamic::parse(reason).filter(|_| !by_program) {
            return self.challenged(challenge);
        }
        let text = connection::auth_failed(reason, &self.params.data.ciphers);
        match self.user.refused(if by_program { reason } else { &text }) {
            // This server is there, and knows us.
            AfterRefusal::Again => self.try_again_after(&text, Next::Same, Duration::ZERO),
            AfterRefusal::AgainTheSame => {
                let pause = REFUSED_PAUSE.min(self.params.retry.1);
                self.try_again_after(&text, Next::Same, pause);
            }
            AfterRefusal::End => {
                let text = format!("{}: {text}", self.remote_name());
                self.end(Ended::Failed(text));
            }
        }
    }

    /// The server's question is asked at once: the answer goes with the next connection, to the same server.
    fn challenged(&mut self, challenge: Dynamic) {
        let text = format!("{}: the server asks (AUTH_FAILED,CRV1): {}", self.remote_name(), challenge.text);
        self.leave_connection();
        if let Err(why) = self.user.challenged(challenge) {
            return self.end(Ended::Failed(format!("{text}; {why}")));
        }
        self.report(Severity::Info, None, text);
        self.wait_for_attempt(self.params.retry.0);
    }

    pub(super) fn question_answered(&mut self, response: ChallengeResponse) {
        if self.question != Some(response.id) {
            let text = "an answer to the server's question came too late".to_owned();
            return self.report(Severity::Warning, None, text);
        }
        self.question = None;
        let answer = match response.answer {
            Ok(answer) => answer,
            Err(why) => {
                let text = format!("{}: no answer to the server's question: {why}", self.remote_name());
                return self.end(Ended::Failed(text));
            }
        };
        match &mut self.state {
            State::Asking => {
                self.user.answered_question(answer);
                self.open();
            }
            State::Connected(connection) => connection.respond(self.now, &answer),
            _ => {}
        }
    }

    pub(super) fn answered(&mut self, answer: Result<UserPassword, String>) {
        if !matches!(self.state, State::Asking) {
            return;
        }
        match answer {
            Ok(credentials) => {
                self.user.answered(credentials);
                self.open();
            }
            Err(why) => self.end(Ended::Failed(format!("no username and password (auth-user-pass): {why}"))),
        }
    }
}
