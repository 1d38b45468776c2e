//! Passwords, and other answers in one word: they are asked for, and the client gives them.

use adit_openvpn::request::UserPassword;
use zeroize::Zeroizing;

use super::{LOOK_EVERY, PendingQueries, Topic};
use crate::up::terminal::Waiting;

/// A question that is to be answered by a word, or two.
pub(super) struct Pending {
    topic: Topic,
    /// What asks for it.
    pub(super) line: String,
    username: Option<String>,
    password: Option<Zeroizing<String>>,
}

impl Pending {
    pub(super) fn is_answered(&self) -> bool {
        self.password.is_some() && (!self.topic.has_username() || self.username.is_some())
    }
}

impl PendingQueries {
    /// What was given was wrong. `reason` is the other end's, in its own words; it may be empty.
    pub(in crate::up) fn was_wrong(&self, topic: Topic, reason: &str) {
        self.journal.say(refusal(topic, reason));
    }

    /// Asks, with what `more` says of a further question (OpenVPN doc/management-notes.txt, "SC:"), and waits for
    /// the answer. The username is empty where none was asked for.
    pub(in crate::up) fn ask(
        &self,
        topic: Topic,
        more: &str,
        waiting: &dyn Waiting,
    ) -> Result<UserPassword, String> {
        self.ask_and(topic, more, waiting, || ())
    }

    /// The same; does something else now and then while it waits.
    pub(super) fn ask_and(
        &self,
        topic: Topic,
        more: &str,
        waiting: &dyn Waiting,
        mut meanwhile: impl FnMut(),
    ) -> Result<UserPassword, String> {
        let line = topic.question(more);
        let mut state = self.state();
        state.pending = Some(Pending { topic, line: line.clone(), username: None, password: None });
        self.journal.say(line);
        loop {
            if state.pending.as_ref().is_none_or(Pending::is_answered) {
                let pending = state.pending.take();
                let (username, password) =
                    pending.map(|pending| (pending.username, pending.password)).unwrap_or_default();
                return Ok(UserPassword {
                    username: username.unwrap_or_default(),
                    password: password.unwrap_or_default(),
                });
            }
            if !waiting.wants_it() {
                state.pending = None;
                return Err("the question was withdrawn".to_owned());
            }
            drop(self.changed.wait_timeout(state, LOOK_EVERY));
            meanwhile();
            state = self.state();
        }
    }

    /// `username TYPE TEXT`; gives what to answer.
    pub(in crate::up::management) fn take_username(&self, topic: &str, text: &str) -> String {
        self.take("username", topic, |pending| pending.username = Some(text.to_owned()))
    }

    /// `password TYPE TEXT`.
    pub(in crate::up::management) fn take_password(&self, topic: &str, text: &str) -> String {
        self.take("password", topic, |pending| pending.password = Some(Zeroizing::new(text.to_owned())))
    }

    /// `needok TYPE ok|cancel`.
    pub(in crate::up::management) fn take_confirmation(&self, topic: &str, text: &str) -> String {
        let put = |pending: &mut Pending| pending.password = Some(Zeroizing::new(text.to_owned()));
        self.take("needok-confirmation", topic, put)
    }

    /// `needstr TYPE TEXT`.
    pub(in crate::up::management) fn take_string(&self, topic: &str, text: &str) -> String {
        let put = |pending: &mut Pending| pending.password = Some(Zeroizing::new(text.to_owned()));
        self.take("needstr-string", topic, put)
    }

    fn take(&self, what: &str, topic: &str, put: impl FnOnce(&mut Pending)) -> String {
        let mut state = self.state();
        let wanted = |pending: &&mut Pending| !pending.is_answered() && pending.topic.takes(what);
        let Some(pending) = state.pending.as_mut().filter(wanted) else {
            return format!("ERROR: no {what} is currently needed at this time");
        };
        let needed = pending.topic.name();
        if topic != needed {
            return format!("ERROR: {what} of type '{topic}' entered, but we need one of type '{needed}'");
        }
        put(pending);
        self.changed.notify_all();
        format!("SUCCESS: '{topic}' {what} entered, but not yet verified")
    }
}

/// Says that something was wrong, with the reason that the other end gave: a question, if it begins with `CRV1:`
/// (OpenVPN manage.c, `management_auth_failure`).
pub(in crate::up::management) fn refusal(topic: Topic, reason: &str) -> String {
    let reason = if reason.is_empty() { String::new() } else { format!(" ['{reason}']") };
    format!(">PASSWORD:Verification Failed: '{}'{reason}", topic.name())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::super::tests::{questions, until};
    use super::*;
    use crate::up::terminal::Turns;

    #[test]
    fn a_password_is_asked_for_and_taken() {
        let questions = questions(false);
        assert_eq!(
            questions.take_password("Auth", "x"),
            "ERROR: no password is currently needed at this time"
        );
        let prompt = Arc::clone(&questions);
        let asking = thread::spawn(move || {
            let turns = Turns::default();
            prompt.ask(Topic::Auth, "SC:1,PIN?", &turns.next())
        });
        until(|| questions.greeting().is_some());
        let line = ">PASSWORD:Need 'Auth' username/password SC:1,PIN?";
        assert_eq!(questions.greeting().as_deref(), Some(line));
        assert_eq!(
            questions.take_password("Private Key", "x"),
            "ERROR: password of type 'Private Key' entered, but we need one of type 'Auth'"
        );
        let taken = "SUCCESS: 'Auth' password entered, but not yet verified";
        assert_eq!(questions.take_password("Auth", "s3 cret"), taken);
        assert!(questions.take_username("Auth", "ann").starts_with("SUCCESS: "));
        let answer = asking.join().expect("the thread ends").expect("an answer");
        assert_eq!((answer.username.as_str(), answer.password.as_str()), ("ann", "s3 cret"));
        assert_eq!(questions.greeting(), None);
    }

    #[test]
    fn a_key_has_no_username() {
        let questions = questions(false);
        let prompt = Arc::clone(&questions);
        let asking = thread::spawn(move || prompt.ask(Topic::PrivateKey, "", &Turns::default().next()));
        until(|| questions.greeting().is_some());
        assert_eq!(
            questions.take_username("Private Key", "x"),
            "ERROR: no username is currently needed at this time"
        );
        assert!(questions.take_password("Private Key", "").starts_with("SUCCESS: "));
        assert!(asking.join().expect("the thread ends").is_ok());
    }

    #[test]
    fn a_question_is_withdrawn() {
        let (questions, turns) = (questions(false), Turns::default());
        let turn = turns.next();
        turns.next();
        assert!(questions.ask(Topic::Auth, "", &turn).is_err());
        assert_eq!(questions.greeting(), None);
    }

    #[test]
    fn a_refusal_has_the_reason_of_the_other_end() {
        assert_eq!(refusal(Topic::Auth, ""), ">PASSWORD:Verification Failed: 'Auth'");
        assert_eq!(
            refusal(Topic::Auth, "CRV1:R:state:Y3Ix:PIN?"),
            ">PASSWORD:Verification Failed: 'Auth' ['CRV1:R:state:Y3Ix:PIN?']"
        );
    }
}
