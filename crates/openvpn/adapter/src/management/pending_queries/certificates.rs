//! Which certificate is used, of those on tokens (`pkcs11-id-management`; OpenVPN doc/management-notes.txt, "COMMAND --
//! pkcs11-id-get").

use std::time::{Duration, Instant};

use base64ct::{Base64, Encoding as _};

use super::{PendingQueries, Topic};
use adit_host::terminal::Waiting;

/// How often is looked which certificates there are, while one is asked for.
const LIST_EVERY: Duration = Duration::from_secs(2);

/// A certificate on a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Its name.
    pub(crate) name: String,
    /// In DER.
    pub(crate) certificate: Vec<u8>,
}

impl PendingQueries {
    /// Asks for the name of one of the certificates that `list` gives, and waits for it. While `list` gives `None`, those of
    /// before hold.
    ///
    /// # Errors
    /// When the question was withdrawn.
    pub(crate) fn ask_which(
        &self,
        list: impl Fn() -> Option<Vec<Listed>>,
        waiting: &dyn Waiting,
    ) -> Result<String, String> {
        self.state().certificates = list().unwrap_or_default();
        let mut listed = Instant::now();
        let meanwhile = || {
            if listed.elapsed() < LIST_EVERY {
                return;
            }
            if let Some(certificates) = list() {
                self.state().certificates = certificates;
            }
            listed = Instant::now();
        };
        let answer = self.ask_and(Topic::Certificate, "", waiting, meanwhile)?;
        Ok(answer.password.as_str().to_owned())
    }

    /// `pkcs11-id-count`.
    pub(in crate::management) fn count_certificates(&self) -> String {
        format!(">PKCS11ID-COUNT:{}", self.state().certificates.len())
    }

    /// `pkcs11-id-get INDEX`.
    pub(in crate::management) fn certificate(&self, index: usize) -> String {
        match self.state().certificates.get(index) {
            Some(Listed { name, certificate }) => {
                let blob = Base64::encode_string(certificate);
                format!(">PKCS11ID-ENTRY:'{index}', ID:'{name}', BLOB:'{blob}'")
            }
            None => format!(">PKCS11ID-ENTRY:'{index}'"),
        }
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
    fn a_client_names_one_of_the_certificates() {
        let questions = questions(false);
        assert_eq!(questions.count_certificates(), ">PKCS11ID-COUNT:0");
        let asked = Arc::clone(&questions);
        let asking = thread::spawn(move || {
            let one = |name: &str| Listed { name: name.to_owned(), certificate: b"x509".to_vec() };
            let list = || Some(vec![one("pkcs11:id=%01"), one("pkcs11:id=%02")]);
            asked.ask_which(list, &Turns::default().next())
        });
        let line = ">NEED-STR:Need 'pkcs11-id-request' string MSG:Please specify PKCS#11 id to use";
        until(|| questions.greeting() == [line]);
        assert_eq!(questions.count_certificates(), ">PKCS11ID-COUNT:2");
        let entry = ">PKCS11ID-ENTRY:'1', ID:'pkcs11:id=%02', BLOB:'eDUwOQ=='";
        assert_eq!(questions.certificate(1), entry);
        assert_eq!(questions.certificate(2), ">PKCS11ID-ENTRY:'2'");
        let none = "ERROR: no needok-confirmation is currently needed at this time";
        assert_eq!(questions.take_confirmation("pkcs11-id-request", "ok"), none);
        let taken = "SUCCESS: 'pkcs11-id-request' needstr-string entered, but not yet verified";
        assert_eq!(questions.take_string("pkcs11-id-request", "pkcs11:id=%02"), taken);
        assert_eq!(asking.join().expect("the thread ends"), Ok("pkcs11:id=%02".to_owned()));
    }

    #[test]
    fn a_token_is_asked_for() {
        let questions = questions(false);
        let asked = Arc::clone(&questions);
        let topic = Topic::Insertion("Ann's card".to_owned());
        let asking = thread::spawn(move || asked.ask(topic, "", &Turns::default().next()));
        let line = ">NEED-OK:Need 'token-insertion-request' confirmation MSG:Please insert Ann's card token";
        until(|| questions.greeting() == [line]);
        let none = "ERROR: no password is currently needed at this time";
        assert_eq!(questions.take_password("token-insertion-request", "x"), none);
        let taken = "SUCCESS: 'token-insertion-request' needok-confirmation entered, but not yet verified";
        assert_eq!(questions.take_confirmation("token-insertion-request", "ok"), taken);
        let answer = asking.join().expect("the thread ends").expect("an answer");
        assert_eq!(answer.password.as_str(), "ok");
    }
}
