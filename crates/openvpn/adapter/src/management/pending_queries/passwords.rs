//! Passwords, and other answers in one word: they are asked for, and the client gives them.

use adit_openvpn::request::UserPassword;
use zeroize::Zeroizing;

use super::{LOOK_EVERY, PendingQueries, Topic};
use adit_host::terminal::Waiting;

/// A question that is to be answered by a word, or two.
pub(super) struct Pending {
    number: u64,
    topic: Topic,
    /// The line of the question.
    line: String,
    username: Option<String>,
    password: Option<Zeroizing<String>>,
}

impl Pending {
    fn is_answered(&self) -> bool {
        self.password.is_some() && (!self.topic.has_username() || self.username.is_some())
    }

    /// Whether that kind of answer is missing.
    fn wants(&self, what: &str) -> bool {
        !self.is_answered() && self.topic.takes(what)
    }

    /// The line of the question, while it is not answered.
    pub(super) fn open_line(&self) -> Option<String> {
        (!self.is_answered()).then(|| self.line.clone())
    }
}

impl PendingQueries {
    /// Reports that the answer was wrong. `reason` is the other end's, in its own words; it may be empty.
    pub(crate) fn was_wrong(&self, topic: Topic, reason: &str) {
        self.journal.say(&refusal(topic, reason));
    }

    /// Asks, with what `more` says of a further question (OpenVPN doc/management-notes.txt, "SC:"), and waits for
    /// the answer. The username is empty where none was asked for.
    pub(crate) fn ask(
        &self,
        topic: Topic,
        more: &str,
        waiting: &dyn Waiting,
    ) -> Result<UserPassword, String> {
        self.ask_and(topic, more, waiting, || ())
    }

    /// Asks, and does something else now and then while it waits.
    pub(super) fn ask_and(
        &self,
        topic: Topic,
        more: &str,
        waiting: &dyn Waiting,
        mut meanwhile: impl FnMut(),
    ) -> Result<UserPassword, String> {
        let line = topic.question(more);
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        self.journal.say(&line);
        state.pending.push(Pending { number, topic, line, username: None, password: None });
        loop {
            let is_done = |pending: &Pending| pending.number == number && pending.is_answered();
            if let Some(place) = state.pending.iter().position(is_done) {
                let Pending { username, password, .. } = state.pending.remove(place);
                return Ok(UserPassword {
                    username: username.unwrap_or_default(),
                    password: password.unwrap_or_default(),
                });
            }
            if !waiting.wants_it() {
                state.pending.retain(|pending| pending.number != number);
                return Err("the question was withdrawn".to_owned());
            }
            drop(self.changed.wait_timeout(state, LOOK_EVERY));
            meanwhile();
            state = self.state();
        }
    }

    /// `username TYPE TEXT`; gives what to answer.
    pub(in crate::management) fn take_username(&self, topic: &str, text: &str) -> String {
        self.take("username", topic, |pending| pending.username = Some(text.to_owned()))
    }

    /// `password TYPE TEXT`.
    pub(in crate::management) fn take_password(&self, topic: &str, text: &str) -> String {
        self.take("password", topic, |pending| pending.password = Some(Zeroizing::new(text.to_owned())))
    }

    /// `needok TYPE ok|cancel`.
    pub(in crate::management) fn take_confirmation(&self, topic: &str, text: &str) -> String {
        let put = |pending: &mut Pending| pending.password = Some(Zeroizing::new(text.to_owned()));
        self.take("needok-confirmation", topic, put)
    }

    /// `needstr TYPE TEXT`.
    pub(in crate::management) fn take_string(&self, topic: &str, text: &str) -> String {
        let put = |pending: &mut Pending| pending.password = Some(Zeroizing::new(text.to_owned()));
        self.take("needstr-string", topic, put)
    }

    fn take(&self, what: &str, topic: &str, put: impl FnOnce(&mut Pending)) -> String {
        let mut state = self.state();
        let Some(first) = state.pending.iter().find(|pending| pending.wants(what)) else {
            return format!("ERROR: no {what} is currently needed at this time");
        };
        let needed = first.topic.name();
        let is_named = |pending: &&mut Pending| pending.wants(what) && pending.topic.name() == topic;
        let Some(pending) = state.pending.iter_mut().find(is_named) else {
            return format!("ERROR: {what} of type '{topic}' entered, but we need one of type '{needed}'");
        };
        put(pending);
        self.changed.notify_all();
        format!("SUCCESS: '{topic}' {what} entered, but not yet verified")
    }
}

/// Says that something was wrong, with the reason that the other end gave: a question, if it begins with `CRV1:`
/// (OpenVPN manage.c, `management_auth_failure`).
pub(in crate::management) fn refusal(topic: Topic, reason: &str) -> String {
    let reason = if reason.is_empty() { String::new() } else { format!(" ['{reason}']") };
    format!(">PASSWORD:Verification Failed: '{}'{reason}", topic.name())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::super::tests::{questions, until};
    use super::*;
    use adit_host::terminal::Turns;

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
        until(|| !questions.greeting().is_empty());
        let line = ">PASSWORD:Need 'Auth' username/password SC:1,PIN?";
        assert_eq!(questions.greeting(), [line]);
        assert_eq!(
            questions.take_password("Private Key", "x"),
            "ERROR: password of type 'Private Key' entered, but we need one of type 'Auth'"
        );
        let taken = "SUCCESS: 'Auth' password entered, but not yet verified";
        assert_eq!(questions.take_password("Auth", "s3 cret"), taken);
        assert!(questions.take_username("Auth", "ann").starts_with("SUCCESS: "));
        let answer = asking.join().expect("the thread ends").expect("an answer");
        assert_eq!((answer.username.as_str(), answer.password.as_str()), ("ann", "s3 cret"));
        assert!(questions.greeting().is_empty());
    }

    #[test]
    fn a_key_has_no_username() {
        let questions = questions(false);
        let prompt = Arc::clone(&questions);
        let asking = thread::spawn(move || prompt.ask(Topic::PrivateKey, "", &Turns::default().next()));
        until(|| !questions.greeting().is_empty());
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
        assert!(questions.greeting().is_empty());
    }

    /// A handshake asks for the PIN of a token while another thread asks for a username and a password.
    #[test]
    fn questions_beside_each_other_get_their_own_answers() {
        let questions = questions(false);
        let asked = |topic: Topic| {
            let questions = Arc::clone(&questions);
            thread::spawn(move || questions.ask(topic, "", &Turns::default().next()))
        };
        let auth = asked(Topic::Auth);
        until(|| questions.greeting().len() == 1);
        let token = asked(Topic::Token("Ann's card".to_owned()));
        until(|| questions.greeting().len() == 2);
        let [first, second] =
            [">PASSWORD:Need 'Auth' username/password", ">PASSWORD:Need 'Ann's card token' password"];
        assert_eq!(questions.greeting(), [first, second], "each that is open");
        assert_eq!(
            questions.take_password("Private Key", "x"),
            "ERROR: password of type 'Private Key' entered, but we need one of type 'Auth'"
        );
        assert!(questions.take_password("Ann's card token", "1234").starts_with("SUCCESS: "));
        let pin = token.join().expect("the thread ends").expect("an answer");
        assert_eq!((pin.username.as_str(), pin.password.as_str()), ("", "1234"));
        assert_eq!(questions.greeting(), [first]);
        assert!(questions.take_username("Auth", "ann").starts_with("SUCCESS: "));
        assert!(questions.take_password("Auth", "s3 cret").starts_with("SUCCESS: "));
        let answer = auth.join().expect("the thread ends").expect("an answer");
        assert_eq!((answer.username.as_str(), answer.password.as_str()), ("ann", "s3 cret"));
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
