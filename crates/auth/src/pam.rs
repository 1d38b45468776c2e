//! The conversation with PAM's modules, as OpenVPN's plugin `openvpn-plugin-auth-pam` holds it (`src/plugins/auth-pam`).

use std::sync::atomic::{AtomicBool, Ordering};

use zeroize::Zeroizing;

use crate::login::{Login, static_answer};

/// The word in an answer that stands for the answer to `static-challenge`.
const ONE_TIME: &str = "OTP";

/// A PAM service, and the answers to the questions of its modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its name: that of a file in `/etc/pam.d`.
    pub name: String,
    /// The beginning of each question, and its answer, in which the words `USERNAME`, `PASSWORD`, `COMMONNAME` and
    /// `OTP` stand for values of the login. Without any, visible questions are answered with the username and hidden
    /// ones with the password.
    pub answers: Vec<(String, String)>,
}

impl Service {
    /// Reads `SERVICE [QUESTION ANSWER]...`.
    ///
    /// # Errors
    /// The error says what would be right.
    pub fn from_arguments(arguments: &[String]) -> Result<Self, String> {
        let (name, pairs) = arguments.split_first().ok_or("the name of a PAM service is missing")?;
        let (pairs, rest) = pairs.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(
                "after the service come pairs: what a question begins with, and its answer".to_owned()
            );
        }
        let answers = pairs.iter().map(|[question, answer]| (question.clone(), answer.clone())).collect();
        Ok(Service { name: name.clone(), answers })
    }
}

/// How a module asks for an answer to be typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// Visibly, as a username.
    On,
    /// Hidden, as a password.
    Off,
}

/// The answers to all questions about one login. It has no `Debug`, which would show the password.
pub struct Conversation {
    answers: Vec<(String, String)>,
    login: Login,
    /// The answer to the client's `static-challenge`; empty if it gave none.
    one_time: Zeroizing<String>,
    /// A module was given that answer.
    gave_one_time: AtomicBool,
}

impl Conversation {
    /// The conversation for that login; `None` if it has neither a password nor a one-time password that an answer uses
    /// (`OTP`).
    pub fn new(answers: Vec<(String, String)>, mut login: Login) -> Option<Self> {
        let mut one_time = Zeroizing::default();
        if let Some(answered) = static_answer(&login.password) {
            (login.password, one_time) = (answered.password, answered.answer);
        }
        let has_any = !login.password.is_empty() || (!one_time.is_empty() && uses_one_time(&answers));
        has_any.then_some(Conversation { answers, login, one_time, gave_one_time: AtomicBool::new(false) })
    }

    /// Whether the login may pass if PAM accepts it: it has a password, or a module was given its one-time password.
    ///
    /// A module may accept an empty password (`nullok` of pam_unix), and a service may ask for no one-time password.
    pub fn is_proven(&self) -> bool {
        !self.login.password.is_empty() || self.gave_one_time.load(Ordering::Relaxed)
    }

    /// The answer to a question; `None` if there is none.
    pub fn answer(&self, question: &str, echo: Echo) -> Option<Zeroizing<String>> {
        if !self.answers.is_empty() {
            let (_, answer) = self.answers.iter().find(|(begin, _)| begins(question, begin))?;
            return Some(self.filled(answer));
        }
        Some(match echo {
            Echo::On => Zeroizing::new(self.login.username.clone()),
            Echo::Off => self.login.password.clone(),
        })
    }

    /// An answer with the values in the place of its words. Values are not searched for words.
    fn filled(&self, answer: &str) -> Zeroizing<String> {
        let words = [
            ("USERNAME", self.login.username.as_str()),
            ("PASSWORD", self.login.password.as_str()),
            ("COMMONNAME", self.login.common_name.as_str()),
            (ONE_TIME, self.one_time.as_str()),
        ];
        let longest = answer.len() + words.iter().map(|(_, value)| value.len()).sum::<usize>();
        let mut filled = Zeroizing::new(String::with_capacity(longest));
        let mut rest = answer;
        while let Some(first) = rest.chars().next() {
            let word =
                words.iter().find_map(|(word, value)| Some((*word, rest.strip_prefix(*word)?, *value)));
            if let Some((word, after, value)) = word {
                if word == ONE_TIME && !value.is_empty() {
                    self.gave_one_time.store(true, Ordering::Relaxed);
                }
                filled.push_str(value);
                rest = after;
            } else {
                filled.push(first);
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
            }
        }
        filled
    }
}

/// Whether an answer uses the one-time password.
fn uses_one_time(answers: &[(String, String)]) -> bool {
    answers.iter().any(|(_, answer)| answer.contains(ONE_TIME))
}

/// Whether a question begins with `begin`, in upper or lower case. Characters before its first letter or digit do not count
/// (`name_value_match` in auth-pam.c).
fn begins(question: &str, begin: &str) -> bool {
    let question = question.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    question.get(..begin.len()).is_some_and(|start| start.eq_ignore_ascii_case(begin))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn login(username: &str, password: &str) -> Login {
        Login {
            username: username.to_owned(),
            password: Zeroizing::new(password.to_owned()),
            common_name: "client1".to_owned(),
            remote: String::new(),
        }
    }

    fn conversation(service: &str, password: &str) -> Conversation {
        let service = Service::from_arguments(&words(service)).unwrap();
        Conversation::new(service.answers, login("ann", password)).unwrap()
    }

    fn answer(conversation: &Conversation, question: &str) -> Option<String> {
        conversation.answer(question, Echo::Off).map(|answer| answer.to_string())
    }

    #[test]
    fn a_service_and_pairs() {
        let service = Service::from_arguments(&words("openvpn login USERNAME password PASSWORD")).unwrap();
        let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
        assert_eq!(service.name, "openvpn");
        assert_eq!(service.answers, [pair("login", "USERNAME"), pair("password", "PASSWORD")]);
        assert!(Service::from_arguments(&words("openvpn")).unwrap().answers.is_empty());
        assert!(Service::from_arguments(&words("openvpn login")).is_err());
        assert!(Service::from_arguments(&[]).is_err());
    }

    #[test]
    fn without_pairs_the_kind_of_question_decides() {
        let conversation = conversation("openvpn", "s3");
        assert_eq!(conversation.answer("Password: ", Echo::Off).unwrap().as_str(), "s3");
        assert_eq!(conversation.answer("anything", Echo::On).unwrap().as_str(), "ann");
    }

    #[test]
    fn pairs_answer_what_begins_so() {
        let pairs =
            "openvpn login USERNAME password PASSWORD host COMMONNAME verification OTP realm x-USERNAME-y";
        let conversation = conversation(pairs, "SCRV1:czM=:MTIzNDU2");
        let expected = [
            ("Login: ", Some("ann")),
            ("** PASSWORD for ann:", Some("s3")),
            ("password", Some("s3")),
            ("Host?", Some("client1")),
            ("Verification code: ", Some("123456")),
            ("realm", Some("x-ann-y")),
            ("pass", None),
            ("Your password", None),
            ("", None),
            ("::", None),
            ("ä", None),
        ];
        for (question, expected) in expected {
            assert_eq!(answer(&conversation, question).as_deref(), expected, "{question}");
        }
    }

    #[test]
    fn a_password_that_only_looks_packed_is_a_password() {
        let conversation = conversation("openvpn password PASSWORD code OTP", "SCRV1:not base64:x");
        assert_eq!(answer(&conversation, "password").unwrap(), "SCRV1:not base64:x");
        assert_eq!(answer(&conversation, "code").unwrap(), "");
    }

    #[test]
    fn a_login_without_a_password_has_no_conversation() {
        let new = |service: &str, password: &str| {
            let service = Service::from_arguments(&words(service)).unwrap();
            Conversation::new(service.answers, login("ann", password))
        };
        for service in ["openvpn", "openvpn password PASSWORD", "openvpn password PASSWORD code OTP"] {
            assert!(new(service, "").is_none() && new(service, "SCRV1::").is_none(), "{service}");
            assert!(new(service, "x").is_some() && new(service, "SCRV1:czM=:").is_some(), "{service}");
        }
        assert!(new("openvpn", "SCRV1::MTIz").is_none(), "no answer uses the one-time password");
        assert!(new("openvpn password PASSWORD", "SCRV1::MTIz").is_none());
        assert!(new("openvpn code OTP", "SCRV1::MTIz").is_some(), "a one-time password alone");
    }

    #[test]
    fn an_empty_password_passes_only_with_a_one_time_password_that_was_given() {
        let pairs = "openvpn password PASSWORD code OTP";
        let without = conversation(pairs, "SCRV1::MTIz");
        assert_eq!(answer(&without, "Password: ").unwrap(), "");
        assert!(!without.is_proven(), "the service asked for the empty password alone");
        assert_eq!(answer(&without, "Code: ").unwrap(), "123");
        assert!(without.is_proven());
        assert!(conversation(pairs, "s3").is_proven());
    }

    proptest! {
        /// Words in a username are not replaced.
        #[test]
        fn names_are_not_looked_at_for_words(name in "[A-ZOTPUSERNAMEäß ]{1,40}") {
            let answers = vec![("q".to_owned(), "<USERNAME>".to_owned())];
            let conversation = Conversation::new(answers, login(&name, "s3cretPASSWORD")).unwrap();
            prop_assert_eq!(answer(&conversation, "q").unwrap(), format!("<{name}>"));
        }

        #[test]
        fn any_question_may_come(question: String, begin in "[a-zä]{1,5}") {
            let answers = vec![(begin, "x".to_owned())];
            let conversation = Conversation::new(answers, login("ann", "s3")).unwrap();
            conversation.answer(&question, Echo::On);
        }
    }
}
