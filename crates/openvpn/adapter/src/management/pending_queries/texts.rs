//! Questions whose answer has several lines, up to `END`: a signature, and a certificate (OpenVPN
//! doc/management-notes.txt, "COMMAND -- pk-sig" and "COMMAND -- certificate"; manage.c, `management_query_multiline`).

use std::sync::PoisonError;

use base64ct::{Base64, Encoding as _};

use super::{LOOK_EVERY, PendingQueries};
use crate::management::program::ProgramId;
use adit_host::terminal::Waiting;

/// From this version on a program is asked by `>PK_SIGN` (`MCV_PKSIGN`).
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

/// A question as programs of a version know it.
struct Question {
    line: String,
    /// The name by which the success of its answer is reported.
    name: &'static str,
}

/// Makes the question for programs of a version.
type ByVersion = Box<dyn Fn(u32) -> Question + Send>;

/// A question that is to be answered by lines.
pub(super) struct PendingText {
    topic: TextTopic,
    question: ByVersion,
    answer: Answer,
}

enum Answer {
    Missing,
    /// Its lines are arriving from that program.
    Arriving(ProgramId),
    /// The answer is there, or cannot be used for that reason.
    There(Result<String, String>),
}

impl PendingText {
    fn new(topic: TextTopic, question: ByVersion) -> Self {
        PendingText { topic, question, answer: Answer::Missing }
    }

    /// The line of the question for programs of a version, while it is not answered.
    pub(super) fn open_line(&self, version: u32) -> Option<String> {
        (!matches!(self.answer, Answer::There(_))).then(|| (self.question)(version).line)
    }
}

impl PendingQueries {
    /// A program has left. Where it left in the midst of an answer, it has given none, and the others are asked again.
    pub(in crate::management) fn leave(&self, program: ProgramId) {
        let mut state = self.state();
        let left = |text: &&mut PendingText| matches!(text.answer, Answer::Arriving(by) if by == program);
        if let Some(text) = state.text.as_mut().filter(left) {
            text.answer = Answer::Missing;
            self.journal.say_by_version(|version| (text.question)(version).line);
        }
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
        let (data, algorithm) = (Base64::encode_string(data), algorithm.to_owned());
        let question = move |version: u32| match version {
            WITH_ALGORITHM.. => Question { line: format!(">PK_SIGN:{data},{algorithm}"), name: "pk-sign" },
            WITH_PK_SIGN => Question { line: format!(">PK_SIGN:{data}"), name: "pk-sign" },
            _ => Question { line: format!(">RSA_SIGN:{data}"), name: "rsa-sign" },
        };
        let lines = self.ask_for_text(TextTopic::Signature, Box::new(question), waiting)?;
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
        let line = format!(">NEED-CERTIFICATE:{hint}");
        let question = move |_| Question { line: line.clone(), name: "certificate" };
        let lines = self.ask_for_text(TextTopic::Certificate, Box::new(question), waiting)?;
        // OpenVPN takes PEM; its notes speak of base64.
        Ok(match lines.contains("-----BEGIN ") {
            true => lines,
            false => format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n"),
        })
    }

    /// Asks each program by the line that `question` makes for its version, and waits.
    fn ask_for_text(
        &self,
        topic: TextTopic,
        question: ByVersion,
        waiting: &dyn Waiting,
    ) -> Result<String, String> {
        let mut state = self.state();
        self.journal.say_by_version(|version| question(version).line);
        state.text = Some(PendingText::new(topic, question));
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

    /// The lines of an answer of `program` begin. False if it is not asked for, or another program answers.
    pub(in crate::management) fn begin_text(&self, topic: TextTopic, program: ProgramId) -> bool {
        let mut state = self.state();
        let wanted =
            |pending: &&mut PendingText| pending.topic == topic && matches!(pending.answer, Answer::Missing);
        match state.text.as_mut().filter(wanted) {
            Some(pending) => {
                pending.answer = Answer::Arriving(program);
                true
            }
            None => false,
        }
    }

    /// The lines of an answer of `program` have come, or why they cannot be used; gives what to answer.
    pub(in crate::management) fn take_text(
        &self,
        topic: TextTopic,
        program: ProgramId,
        text: Result<String, String>,
    ) -> String {
        let version = self.journal.version(program);
        let mut state = self.state();
        let arrives = |answer: &Answer| matches!(answer, Answer::Arriving(from) if *from == program);
        let wanted = |pending: &&mut PendingText| pending.topic == topic && arrives(&pending.answer);
        let Some(pending) = state.text.as_mut().filter(wanted) else {
            // It was withdrawn meanwhile.
            let name = match topic {
                TextTopic::Signature => "pk-sign",
                TextTopic::Certificate => "certificate",
            };
            return format!("ERROR: {name} command failed");
        };
        let name = (pending.question)(version).name;
        let done = match &text {
            Ok(_) => format!("SUCCESS: {name} command succeeded"),
            Err(_) => format!("ERROR: {name} command failed"),
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
            let [program, other] = [questions.journal.enter(), questions.journal.enter()];
            questions.journal.set_version(program, version);
            let asked = Arc::clone(&questions);
            let asking = thread::spawn(move || {
                let turns = Turns::default();
                asked.ask_for_signature(b"hash", "ECDSA", &turns.next())
            });
            until(|| questions.begin_text(TextTopic::Signature, other));
            assert_eq!(questions.journal.take(program), [line]);
            assert!(!questions.begin_text(TextTopic::Certificate, other), "it is not asked for");
            assert!(!questions.begin_text(TextTopic::Signature, program), "another program answers");
            // That program leaves in the midst.
            questions.leave(other);
            assert_eq!(questions.journal.take(program), [line]);
            assert_eq!(questions.greeting(), [">RSA_SIGN:aGFzaA=="]);
            assert!(questions.begin_text(TextTopic::Signature, program));
            let text = Ok("c2ln\nbmVk\n".to_owned());
            let taken = questions.take_text(TextTopic::Signature, program, text);
            assert_eq!(taken, format!("SUCCESS: {name} command succeeded"));
            assert_eq!(asking.join().expect("the thread ends"), Ok(b"signed".to_vec()));
            assert!(!questions.begin_text(TextTopic::Signature, program) && questions.greeting().is_empty());
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
            let program = questions.journal.enter();
            assert!(questions.begin_text(TextTopic::Certificate, program));
            questions.take_text(TextTopic::Certificate, program, Ok(text.to_owned()));
            assert_eq!(asking.join().expect("the thread ends"), Ok(PEM.to_owned()));
        }
    }

    #[test]
    fn what_is_no_signature_and_one_that_is_not_wanted() {
        for text in [Ok("?\n".to_owned()), Ok(String::new()), Err("it is too long".to_owned())] {
            let questions = questions(false);
            let asked = Arc::clone(&questions);
            let asking = thread::spawn(move || asked.ask_for_signature(b"", "", &Turns::default().next()));
            let program = questions.journal.enter();
            until(|| questions.begin_text(TextTopic::Signature, program));
            questions.take_text(TextTopic::Signature, program, text);
            assert!(asking.join().expect("the thread ends").is_err());
        }
        let (questions, turns) = (questions(false), Turns::default());
        let turn = turns.next();
        turns.next();
        assert!(questions.ask_for_signature(b"", "", &turn).is_err());
        assert!(questions.greeting().is_empty());
        let program = questions.journal.enter();
        let late = questions.take_text(TextTopic::Signature, program, Ok(String::new()));
        assert_eq!(late, "ERROR: pk-sign command failed");
    }
}
