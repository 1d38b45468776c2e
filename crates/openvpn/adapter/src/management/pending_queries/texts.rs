//! Questions whose answer has several lines, up to `END`: a signature, and a certificate (OpenVPN
//! doc/management-notes.txt, "COMMAND -- pk-sig" and "COMMAND -- certificate"; manage.c, `management_query_multiline`).

use std::sync::PoisonError;

use base64ct::{Base64, Encoding as _};

use super::{LOOK_EVERY, PendingQueries};
use adit_host::terminal::Waiting;

/// The version of a client that has not told its own (OpenVPN manage.h, `MCV_DEFAULT`).
pub(super) const DEFAULT_VERSION: u32 = 1;
/// From this version on a client is asked by `>PK_SIGN` (`MCV_PKSIGN`).
const WITH_PK_SIGN: u32 = 2;
/// The version from which on it gets the algorithm to sign by (`MCV_PKSIGN_ALG`).
const WITH_ALGORITHM: u32 = 3;

/// The topic of a question for a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextTopic {
    /// A signature with our private key.
    Signature,
    /// Our certificate.
    Certificate,
}

/// A question that is to be answered by lines.
pub(super) struct PendingText {
    topic: TextTopic,
    /// The line of the question.
    line: String,
    /// The name by which its success is reported.
    name: &'static str,
    answer: Answer,
}

enum Answer {
    Missing,
    /// Its lines are arriving.
    Arriving,
    /// The answer is there, or cannot be used for that reason.
    There(Result<String, String>),
}

impl PendingText {
    fn new(topic: TextTopic, line: String, name: &'static str) -> Self {
        PendingText { topic, line, name, answer: Answer::Missing }
    }

    /// The line of the question, while it is not answered. A client that left in the midst of its answer has given
    /// none.
    pub(super) fn ask_again(&mut self) -> Option<String> {
        if matches!(self.answer, Answer::There(_)) {
            return None;
        }
        self.answer = Answer::Missing;
        Some(self.line.clone())
    }
}

impl PendingQueries {
    /// `version`: the connected client says what it knows.
    pub(in crate::management) fn set_version(&self, version: u32) {
        self.state().version = version;
    }

    /// Asks for a signature of `data`, made as `algorithm` says, and waits for it.
    ///
    /// # Errors
    /// Why there is none: what came is no base64, or the question was withdrawn.
    pub(crate) fn ask_for_signature(
        &self,
        data: &[u8],
        algorithm: &str,
        waiting: &dyn Waiting,
    ) -> Result<Vec<u8>, String> {
        let data = Base64::encode_string(data);
        let question = move |version: u32| match version {
            WITH_ALGORITHM.. => (format!(">PK_SIGN:{data},{algorithm}"), "pk-sign"),
            WITH_PK_SIGN => (format!(">PK_SIGN:{data}"), "pk-sign"),
            _ => (format!(">RSA_SIGN:{data}"), "rsa-sign"),
        };
        let lines = self.ask_for_text(TextTopic::Signature, question, waiting)?;
        let encoded: String = lines.split_ascii_whitespace().collect();
        match Base64::decode_vec(&encoded) {
            Ok(signature) if !signature.is_empty() => Ok(signature),
            _ => Err("the program at the management socket gave no signature in base64".to_owned()),
        }
    }

    /// Asks for the certificate that `hint` stands for, and waits for it. Gives it as PEM.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn ask_for_certificate(&self, hint: &str, waiting: &dyn Waiting) -> Result<String, String> {
        let question = |_| (format!(">NEED-CERTIFICATE:{hint}"), "certificate");
        let lines = self.ask_for_text(TextTopic::Certificate, question, waiting)?;
        // OpenVPN takes PEM; its notes speak of base64.
        Ok(match lines.contains("-----BEGIN ") {
            true => lines,
            false => format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n"),
        })
    }

    /// Asks by the line that `question` makes for the version of the client that is connected, and waits.
    fn ask_for_text(
        &self,
        topic: TextTopic,
        question: impl FnOnce(u32) -> (String, &'static str),
        waiting: &dyn Waiting,
    ) -> Result<String, String> {
        let mut state = self.state();
        let (line, name) = question(state.version);
        self.journal.say(line.clone());
        state.text = Some(PendingText::new(topic, line, name));
        loop {
            if let Some(PendingText { answer: Answer::There(answer), .. }) =
                state.text.take_if(|pending| matches!(pending.answer, Answer::There(_)))
            {
                return answer;
            }
            if !waiting.wants_it() {
                state.text = None;
                return Err("the question at the management socket was withdrawn".to_owned());
            }
            let waited = self.changed.wait_timeout(state, LOOK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The lines of an answer begin. False if it is not asked for.
    pub(in crate::management) fn begin_text(&self, topic: TextTopic) -> bool {
        let mut state = self.state();
        let wanted =
            |pending: &&mut PendingText| pending.topic == topic && matches!(pending.answer, Answer::Missing);
        match state.text.as_mut().filter(wanted) {
            Some(pending) => {
                pending.answer = Answer::Arriving;
                true
            }
            None => false,
        }
    }

    /// The lines of an answer have come, or why they cannot be used; gives what to answer.
    pub(in crate::management) fn take_text(&self, topic: TextTopic, text: Result<String, String>) -> String {
        let mut state = self.state();
        let wanted =
            |pending: &&mut PendingText| pending.topic == topic && matches!(pending.answer, Answer::Arriving);
        let Some(pending) = state.text.as_mut().filter(wanted) else {
            // It was withdrawn meanwhile.
            let name = match topic {
                TextTopic::Signature => "pk-sign",
                TextTopic::Certificate => "certificate",
            };
            return format!("ERROR: {name} command failed");
        };
        let done = match &text {
            Ok(_) => format!("SUCCESS: {} command succeeded", pending.name),
            Err(_) => format!("ERROR: {} command failed", pending.name),
        };
        pending.answer = Answer::There(text);
        self.changed.notify_all();
        done
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::super::tests::{questions, until};
    use super::*;
    use adit_host::terminal::Turns;

    #[test]
    fn a_signature_is_asked_for_as_the_client_knows_it() {
        for (version, line, name) in [
            (1, ">RSA_SIGN:aGFzaA==", "rsa-sign"),
            (2, ">PK_SIGN:aGFzaA==", "pk-sign"),
            (3, ">PK_SIGN:aGFzaA==,ECDSA", "pk-sign"),
            (5, ">PK_SIGN:aGFzaA==,ECDSA", "pk-sign"),
        ] {
            let questions = questions(false);
            questions.set_version(version);
            let asked = Arc::clone(&questions);
            let asking = thread::spawn(move || {
                let turns = Turns::default();
                asked.ask_for_signature(b"hash", "ECDSA", &turns.next())
            });
            until(|| questions.begin_text(TextTopic::Signature));
            assert!(!questions.begin_text(TextTopic::Certificate), "it is not asked for");
            // One more client: the one before has left in the midst.
            assert_eq!(questions.greeting(), [line]);
            assert!(questions.begin_text(TextTopic::Signature));
            let taken = questions.take_text(TextTopic::Signature, Ok("c2ln\nbmVk\n".to_owned()));
            assert_eq!(taken, format!("SUCCESS: {name} command succeeded"));
            assert_eq!(asking.join().expect("the thread ends"), Ok(b"signed".to_vec()));
            assert!(!questions.begin_text(TextTopic::Signature) && questions.greeting().is_empty());
        }
    }

    #[test]
    fn a_certificate_is_asked_for_by_its_hint() {
        const PEM: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for text in ["AAAA\n", PEM] {
            let questions = questions(false);
            let asked = Arc::clone(&questions);
            let asking = thread::spawn(move || asked.ask_for_certificate("o=x", &Turns::default().next()));
            until(|| questions.greeting() == [">NEED-CERTIFICATE:o=x"]);
            assert!(questions.begin_text(TextTopic::Certificate));
            questions.take_text(TextTopic::Certificate, Ok(text.to_owned()));
            assert_eq!(asking.join().expect("the thread ends"), Ok(PEM.to_owned()));
        }
    }

    #[test]
    fn what_is_no_signature_and_one_that_is_not_wanted() {
        for text in [Ok("?\n".to_owned()), Ok(String::new()), Err("it is too long".to_owned())] {
            let questions = questions(false);
            let asked = Arc::clone(&questions);
            let asking = thread::spawn(move || asked.ask_for_signature(b"", "", &Turns::default().next()));
            until(|| questions.begin_text(TextTopic::Signature));
            questions.take_text(TextTopic::Signature, text);
            assert!(asking.join().expect("the thread ends").is_err());
        }
        let (questions, turns) = (questions(false), Turns::default());
        let turn = turns.next();
        turns.next();
        assert!(questions.ask_for_signature(b"", "", &turn).is_err());
        assert!(questions.greeting().is_empty());
        let late = questions.take_text(TextTopic::Signature, Ok(String::new()));
        assert_eq!(late, "ERROR: pk-sign command failed");
    }
}
