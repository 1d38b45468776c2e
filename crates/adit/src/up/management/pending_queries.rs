//! What the tunnel waits for at the management socket: a release, a username, a password, a word on where to connect.

mod certificates;
mod texts;

use std::borrow::Cow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use adit_openvpn::request::{RemoteQuery, UserPassword};
use zeroize::Zeroizing;

use super::journal::Journal;
use crate::up::terminal::Waiting;
pub(in crate::up) use certificates::Listed;
pub(in crate::up) use texts::TextTopic;
use texts::{DEFAULT_VERSION, PendingText};

/// How often is looked whether the question still stands.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A password that is asked for, or another word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::up) enum Topic {
    /// That of `auth-user-pass`, with the username.
    Auth,
    /// That of our private key.
    PrivateKey,
    /// The PIN of the token with that label.
    Token(String),
    /// Whether the token with that label is there now: `ok` or `cancel`.
    Insertion(String),
    /// The name of a certificate on a token.
    Certificate,
    /// That of an HTTP proxy, with the username.
    HttpProxy,
    /// That of a SOCKS proxy, with the username.
    SocksProxy,
}

impl Topic {
    /// Whether a username goes with it.
    const fn has_username(&self) -> bool {
        matches!(self, Topic::Auth | Topic::HttpProxy | Topic::SocksProxy)
    }

    /// What is asked for, in the management protocol, with what `more` says of it.
    fn question(&self, more: &str) -> String {
        let name = self.name();
        let what = match self {
            Topic::Auth | Topic::HttpProxy | Topic::SocksProxy => "username/password",
            Topic::PrivateKey | Topic::Token(_) => "password",
            // OpenVPN pkcs11.c, `_pkcs11_openvpn_token_prompt` and `tls_ctx_use_pkcs11`.
            Topic::Insertion(label) => {
                return format!(">NEED-OK:Need '{name}' confirmation MSG:Please insert {label} token");
            }
            Topic::Certificate => {
                return format!(">NEED-STR:Need '{name}' string MSG:Please specify PKCS#11 id to use");
            }
        };
        let space = if more.is_empty() { "" } else { " " };
        format!(">PASSWORD:Need '{name}' {what}{space}{more}")
    }

    /// Whether that kind of answer belongs to it.
    fn takes(&self, what: &str) -> bool {
        match self {
            Topic::Auth | Topic::HttpProxy | Topic::SocksProxy => matches!(what, "username" | "password"),
            Topic::PrivateKey | Topic::Token(_) => what == "password",
            Topic::Insertion(_) => what == "needok-confirmation",
            Topic::Certificate => what == "needstr-string",
        }
    }

    /// Its name in the management protocol.
    pub(super) fn name(&self) -> Cow<'static, str> {
        match self {
            Topic::Auth => "Auth".into(),
            Topic::PrivateKey => "Private Key".into(),
            // OpenVPN pkcs11.c, `_pkcs11_openvpn_pin_prompt`.
            Topic::Token(label) => format!("{label} token").into(),
            Topic::Insertion(_) => "token-insertion-request".into(),
            Topic::Certificate => "pkcs11-id-request".into(),
            // OpenVPN proxy.h and socks.c, `UP_TYPE_PROXY` and `UP_TYPE_SOCKS`.
            Topic::HttpProxy => "HTTP Proxy".into(),
            Topic::SocksProxy => "SOCKS Proxy".into(),
        }
    }
}

/// Queries for the client at the management socket, one at a time.
pub(in crate::up) struct PendingQueries {
    state: Mutex<QueryState>,
    changed: Condvar,
    journal: Journal,
}

#[derive(Default)]
struct QueryState {
    /// What `hold` shows.
    hold: bool,
    holding: bool,
    pending: Option<Pending>,
    attempt: Option<Attempt>,
    /// The remote whose proxy was named last, and what that proxy may ask for.
    named_proxy: Option<(usize, Topic)>,
    /// What is to be answered by lines.
    text: Option<PendingText>,
    /// The certificates on tokens, of which the client names one.
    certificates: Vec<Listed>,
    /// What the connected client says it knows (`version`).
    version: u32,
}

/// What a running client waits for before it connects.
enum Attempt {
    /// `hold release`.
    Held(String),
    /// `remote`.
    Remote(RemoteQuery),
    /// `proxy`.
    Proxy(RemoteQuery),
}

impl Attempt {
    /// What asks for it.
    fn line(&self) -> String {
        match self {
            Attempt::Held(line) => line.clone(),
            Attempt::Remote(query) => format!(">REMOTE:{},{},{}", query.host, query.port, query.protocol),
            Attempt::Proxy(query) => {
                let transport = if query.protocol.starts_with("tcp") { "TCP" } else { "UDP" };
                format!(">PROXY:{},{transport},{}", query.remote + 1, query.host)
            }
        }
    }
}

struct Pending {
    topic: Topic,
    /// What asks for it.
    line: String,
    username: Option<String>,
    password: Option<Zeroizing<String>>,
}

impl Pending {
    fn is_answered(&self) -> bool {
        self.password.is_some() && (!self.topic.has_username() || self.username.is_some())
    }
}

impl PendingQueries {
    /// `hold` says whether the tunnel waits for its release.
    pub(super) fn new(hold: bool, journal: Journal) -> Self {
        let state = QueryState { hold, version: DEFAULT_VERSION, ..QueryState::default() };
        PendingQueries { state: Mutex::new(state), changed: Condvar::new(), journal }
    }

    fn state(&self) -> MutexGuard<'_, QueryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first line for a new client, which has not told yet what it knows.
    pub(super) fn greeting(&self) -> Option<String> {
        let mut state = self.state();
        state.version = DEFAULT_VERSION;
        let text = state.text.as_mut().and_then(PendingText::ask_again);
        match &state.pending {
            _ if state.holding => Some(held(0)),
            Some(pending) if !pending.is_answered() => Some(pending.line.clone()),
            _ => text.or_else(|| state.attempt.as_ref().map(Attempt::line)),
        }
    }

    /// Waits for `hold release`, if the tunnel is to wait at all. False if the start was cancelled.
    pub(super) fn wait_for_release(&self, waiting: &dyn Waiting) -> bool {
        let mut state = self.state();
        if !state.hold {
            return true;
        }
        state.holding = true;
        self.journal.say(held(0));
        while state.holding && waiting.wants_it() {
            let waited = self.changed.wait_timeout(state, LOOK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        !state.holding
    }

    /// `hold release`. True if a running client waited for it.
    pub(super) fn release(&self) -> bool {
        let mut state = self.state();
        state.holding = false;
        self.changed.notify_all();
        state.attempt.take_if(|attempt| matches!(attempt, Attempt::Held(_))).is_some()
    }

    /// Holds a running client back before its next attempt, which it would make after `wait` without a management client, if
    /// `hold` says so. False if it may go on.
    pub(super) fn hold_attempt(&self, wait: Duration) -> bool {
        let mut state = self.state();
        if state.hold {
            self.expect(&mut state, Attempt::Held(held(wait.as_secs())));
        }
        state.hold
    }

    /// Asks where the running client is to connect.
    pub(super) fn ask_for_remote(&self, query: RemoteQuery) {
        self.expect(&mut self.state(), Attempt::Remote(query));
    }

    /// Asks by which proxy the running client is to connect.
    pub(super) fn ask_for_proxy(&self, query: RemoteQuery) {
        self.expect(&mut self.state(), Attempt::Proxy(query));
    }

    fn expect(&self, state: &mut QueryState, attempt: Attempt) {
        self.journal.say(attempt.line());
        state.attempt = Some(attempt);
    }

    /// The remote that was asked about, if one was and there is no answer yet. It is answered by that.
    pub(super) fn take_remote(&self) -> Option<RemoteQuery> {
        match self.state().attempt.take_if(|attempt| matches!(attempt, Attempt::Remote(_))) {
            Some(Attempt::Remote(query)) => Some(query),
            _ => None,
        }
    }

    /// The same of [`Self::ask_for_proxy`].
    pub(super) fn take_proxy(&self) -> Option<RemoteQuery> {
        match self.state().attempt.take_if(|attempt| matches!(attempt, Attempt::Proxy(_))) {
            Some(Attempt::Proxy(query)) => Some(query),
            _ => None,
        }
    }

    /// From now on a remote is reached by a proxy that asks for that; `None`: by that of the file.
    pub(super) fn name_proxy(&self, remote: usize, topic: Option<Topic>) {
        self.state().named_proxy = topic.map(|topic| (remote, topic));
    }

    /// What the proxy may ask for that was named for a remote, if one was.
    pub(in crate::up) fn named_proxy(&self, remote: usize) -> Option<Topic> {
        let state = self.state();
        let (_, topic) = state.named_proxy.as_ref().filter(|(place, _)| *place == remote)?;
        Some(topic.clone())
    }

    /// Whether the tunnel waits for `hold release`.
    pub(super) fn is_held(&self) -> bool {
        let state = self.state();
        state.holding || matches!(state.attempt, Some(Attempt::Held(_)))
    }

    /// Whether the next start would wait.
    pub(super) fn hold(&self) -> bool {
        self.state().hold
    }

    /// `hold on`, `hold off`.
    pub(super) fn set_hold(&self, hold: bool) {
        self.state().hold = hold;
    }

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
    fn ask_and(
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
    pub(super) fn take_username(&self, topic: &str, text: &str) -> String {
        self.take("username", topic, |pending| pending.username = Some(text.to_owned()))
    }

    /// `password TYPE TEXT`.
    pub(super) fn take_password(&self, topic: &str, text: &str) -> String {
        self.take("password", topic, |pending| pending.password = Some(Zeroizing::new(text.to_owned())))
    }

    /// `needok TYPE ok|cancel`.
    pub(super) fn take_confirmation(&self, topic: &str, text: &str) -> String {
        let put = |pending: &mut Pending| pending.password = Some(Zeroizing::new(text.to_owned()));
        self.take("needok-confirmation", topic, put)
    }

    /// `needstr TYPE TEXT`.
    pub(super) fn take_string(&self, topic: &str, text: &str) -> String {
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

/// The seconds: how long the tunnel would wait without a management client.
fn held(seconds: u64) -> String {
    format!(">HOLD:Waiting for hold release:{seconds}")
}

/// Says that something was wrong, with the reason that the other end gave: a question, if it begins with `CRV1:`
/// (OpenVPN manage.c, `management_auth_failure`).
pub(super) fn refusal(topic: Topic, reason: &str) -> String {
    let reason = if reason.is_empty() { String::new() } else { format!(" ['{reason}']") };
    format!(">PASSWORD:Verification Failed: '{}'{reason}", topic.name())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::up::terminal::Turns;

    pub(super) fn questions(hold: bool) -> Arc<PendingQueries> {
        let (waker, _woken) = UnixStream::pair().expect("a pair of sockets");
        waker.set_nonblocking(true).expect("a socket that does not block");
        Arc::new(PendingQueries::new(hold, Journal::new(1, waker)))
    }

    pub(super) fn until(what: impl Fn() -> bool) {
        while !what() {
            thread::sleep(Duration::from_millis(1));
        }
    }

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
    fn a_held_tunnel_waits() {
        let questions = questions(true);
        let shared = Arc::clone(&questions);
        let waiting = thread::spawn(move || shared.wait_for_release(&Turns::default().next()));
        until(|| questions.greeting() == Some(held(0)));
        assert!(questions.is_held() && !questions.release(), "no running client waited");
        assert!(waiting.join().expect("the thread ends"), "released");
        let turns = Turns::default();
        let withdrawn = turns.next();
        turns.next();
        assert!(!questions.wait_for_release(&withdrawn), "cancelled");
        questions.set_hold(false);
        assert!(questions.wait_for_release(&turns.next()), "it does not wait");
        assert!(!questions.hold());
    }

    #[test]
    fn a_running_client_waits_before_it_connects() {
        let questions = questions(false);
        assert!(!questions.hold_attempt(Duration::from_secs(5)), "it may go on");
        assert_eq!((questions.greeting(), questions.is_held()), (None, false));
        questions.set_hold(true);
        assert!(questions.hold_attempt(Duration::from_secs(5)) && questions.is_held());
        assert_eq!(questions.greeting().as_deref(), Some(">HOLD:Waiting for hold release:5"));
        assert_eq!(questions.take_remote(), None);
        assert!(questions.release() && !questions.release());
        let query =
            RemoteQuery { remote: 1, host: "vpn.example".to_owned(), port: 443, protocol: "tcp-client" };
        questions.ask_for_remote(query.clone());
        assert_eq!(questions.greeting().as_deref(), Some(">REMOTE:vpn.example,443,tcp-client"));
        assert!(!questions.is_held() && !questions.release());
        assert_eq!((questions.take_remote(), questions.take_remote()), (Some(query), None));
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
