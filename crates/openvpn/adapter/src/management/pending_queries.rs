//! The questions of the tunnel that wait at the management socket: a release, a username, a password, the next remote.

mod certificates;
mod passwords;
mod texts;
mod topic;

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use adit_openvpn::request::RemoteQuery;

use super::journal::{DEFAULT_VERSION, Journal};
use adit_host::terminal::Waiting;
pub(crate) use certificates::Listed;
use passwords::Pending;
pub(super) use passwords::refusal;
use texts::PendingText;
pub(crate) use texts::TextTopic;
pub(crate) use topic::Topic;

/// How often is looked whether the question still stands.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Queries for the client at the management socket.
pub(crate) struct PendingQueries {
    state: Mutex<QueryState>,
    changed: Condvar,
    journal: Journal,
}

#[derive(Default)]
struct QueryState {
    /// The value that `hold` shows.
    hold: bool,
    holding: bool,
    /// The questions that are answered by a word, or two. Threads ask beside each other: for a username, for the PIN of
    /// a token.
    pending: Vec<Pending>,
    /// The number of the last of them.
    last: u64,
    attempt: Option<Attempt>,
    /// The remote whose proxy was named last, and what that proxy may ask for.
    named_proxy: Option<(usize, Topic)>,
    /// The question that is answered by lines.
    text: Option<PendingText>,
    /// The certificates on tokens, of which the client names one.
    certificates: Vec<Listed>,
}

/// The question that a running client waits for before it connects.
enum Attempt {
    /// `hold release`.
    Held(String),
    /// `remote`.
    Remote(RemoteQuery),
    /// `proxy`.
    Proxy(RemoteQuery),
}

impl Attempt {
    /// The line of the question.
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

impl PendingQueries {
    /// `hold` says whether the tunnel waits for its release.
    pub(super) fn new(hold: bool, journal: Journal) -> Self {
        let state = QueryState { hold, ..QueryState::default() };
        PendingQueries { state: Mutex::new(state), changed: Condvar::new(), journal }
    }

    fn state(&self) -> MutexGuard<'_, QueryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lines for a new program, which has not told yet what it knows: each question that is open. OpenVPN waits for one at
    /// a time, and says that one (manage.c, `man_welcome`).
    pub(super) fn greeting(&self) -> Vec<String> {
        let state = self.state();
        let mut lines = Vec::new();
        if state.holding {
            lines.push(held(0));
        }
        lines.extend(state.pending.iter().filter_map(Pending::open_line));
        lines.extend(state.text.as_ref().and_then(|text| text.open_line(DEFAULT_VERSION)));
        lines.extend(state.attempt.as_ref().map(Attempt::line));
        lines
    }

    /// Waits for `hold release`, if the tunnel is to wait at all. False if the start was cancelled.
    pub(super) fn wait_for_release(&self, waiting: &dyn Waiting) -> bool {
        let mut state = self.state();
        if !state.hold {
            return true;
        }
        state.holding = true;
        self.journal.say(&held(0));
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
        self.journal.say(&attempt.line());
        state.attempt = Some(attempt);
    }

    /// The remote that was asked about, if one was and there is no answer yet. It is answered by that.
    pub(super) fn take_remote(&self) -> Option<RemoteQuery> {
        match self.state().attempt.take_if(|attempt| matches!(attempt, Attempt::Remote(_))) {
            Some(Attempt::Remote(query)) => Some(query),
            _ => None,
        }
    }

    /// Takes the question of [`Self::ask_for_proxy`].
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

    /// The topic of the questions of the proxy that was named for a remote, if one was.
    pub(crate) fn named_proxy(&self, remote: usize) -> Option<Topic> {
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
}

/// The seconds: how long the tunnel would wait without a management client.
fn held(seconds: u64) -> String {
    format!(">HOLD:Waiting for hold release:{seconds}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use adit_host::terminal::Turns;

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
    fn a_held_tunnel_waits() {
        let questions = questions(true);
        let shared = Arc::clone(&questions);
        let waiting = thread::spawn(move || shared.wait_for_release(&Turns::default().next()));
        until(|| questions.greeting() == [held(0)]);
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
        assert_eq!((questions.greeting(), questions.is_held()), (Vec::new(), false));
        questions.set_hold(true);
        assert!(questions.hold_attempt(Duration::from_secs(5)) && questions.is_held());
        assert_eq!(questions.greeting(), [">HOLD:Waiting for hold release:5"]);
        assert_eq!(questions.take_remote(), None);
        assert!(questions.release() && !questions.release());
        let query =
            RemoteQuery { remote: 1, host: "vpn.example".to_owned(), port: 443, protocol: "tcp-client" };
        questions.ask_for_remote(query.clone());
        assert_eq!(questions.greeting(), [">REMOTE:vpn.example,443,tcp-client"]);
        assert!(!questions.is_held() && !questions.release());
        assert_eq!((questions.take_remote(), questions.take_remote()), (Some(query), None));
        assert!(questions.greeting().is_empty());
    }
}
