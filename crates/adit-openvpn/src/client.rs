//! An OpenVPN client: finds a server, connects, follows its push, and comes back when the server is lost.

mod attempt;
mod challenge;
mod connection;
mod reconfigure;
mod user;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use adit_core::{
    Command, Ended, Instant, Notice, OpenFailure, Path, PeerId, Protocol, Rejected, Report, Severity,
    TableUsage,
};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};

use crate::codec::Codec;
use crate::params::{ClientParams, ControlParams};
use crate::request::{
    Challenge, ChallengeResponse, Event, PeerDetail, PeerInfo, Progress, Reply, Request, UserPassword,
};
use challenge::{Dynamic, TextChallenge};
use connection::{Connection, Outcome};
use user::{AfterRefusal, Need, Temporary, User};

/// Attempts at one remote before the wait between attempts begins to double (OpenVPN `connect-retry`).
const STEADY_ATTEMPTS: u32 = 5;

/// Where the next attempt goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// To the same remote.
    Same,
    /// To the same remote if it was just there; one that was not makes room for the next.
    Usual,
    /// To the next remote.
    Other,
}

impl Next {
    fn after(advance: bool) -> Self {
        if advance { Next::Other } else { Next::Usual }
    }
}

/// What the client is doing.
enum State {
    /// Waiting for the next attempt.
    Waiting(Instant),
    /// The adapter is asked whether to go on; the wait between attempts is over then.
    Held(Instant),
    /// The adapter is asked where to connect.
    Choosing,
    /// The user is asked for username and password, or for the answer to a challenge.
    Asking,
    /// The driver opens a path to the remote.
    Opening,
    /// The user is asked for the username and the password of a proxy.
    AskingForProxy {
        /// What the proxy said.
        text: String,
        /// It refused others, and that was an attempt: when the next one may come.
        not_before: Option<Instant>,
    },
    /// There is a path.
    Connected(Box<Connection>),
    /// Over for good.
    Ended,
}

/// An OpenVPN client as a state machine.
///
/// It wants a path at once: drain [`Protocol::poll_event`] after construction.
pub struct Client {
    params: Arc<ClientParams>,
    control: Arc<ControlParams>,
    rng: ChaCha20Rng,
    now: Instant,
    state: State,
    user: User,
    remote: usize,
    /// Attempts since a connection was last up.
    attempts: u32,
    /// Where this attempt goes in place of the remote, if the adapter said so.
    instead: Option<(String, u16)>,
    /// The adapter has said where the next attempt goes.
    chosen: bool,
    ever_up: bool,
    /// How many remotes in a row have names that do not exist, and since when.
    unknown: (usize, Instant),
    /// Questions that were asked so far, and the one that waits for its answer.
    questions: u32,
    question: Option<u32>,
    events: VecDeque<Event>,
    /// Last words on a path that we leave, and what happens once they are sent.
    last_words: VecDeque<(Path, Vec<u8>)>,
    after_words: Vec<Event>,
    /// Connections that were begun; numbers them for scripts.
    connections: u64,
    /// Why the connection ends, in the word of scripts, if it is not for the connection to say.
    signal: Option<&'static str>,
}

impl Client {
    /// A client that starts at `now`. `seed` is 32 bytes of secret randomness, used for nothing else.
    pub fn new(params: ClientParams, now: Instant, seed: [u8; 32]) -> Self {
        let control = Arc::new(params.control.clone());
        let user = User::new(params.auth.clone());
        Client {
            params: Arc::new(params),
            control,
            rng: ChaCha20Rng::from_seed(seed),
            now,
            state: State::Waiting(now),
            user,
            remote: 0,
            attempts: 0,
            instead: None,
            chosen: false,
            ever_up: false,
            unknown: (0, now),
            questions: 0,
            question: None,
            events: VecDeque::new(),
            last_words: VecDeque::new(),
            after_words: Vec::new(),
            connections: 0,
            signal: None,
        }
        .started(now)
    }

    fn started(mut self, now: Instant) -> Self {
        self.handle_timeout(now);
        self
    }

    fn report(&mut self, severity: Severity, path: Option<Path>, text: String) {
        self.events.push_back(Event::Report(Report { severity, path, text }));
    }

    fn open(&mut self) {
        if self.params.asks_for_remote && !self.chosen {
            return self.ask_for_remote();
        }
        if let Some(need) = self.user.need() {
            self.state = State::Asking;
            return match need {
                Need::Credentials => {
                    let reason = self.user.why_asked();
                    self.events.push_back(Event::Request(Request::Credentials { reason }));
                }
                Need::Answer { text, echo } => self.ask(text, echo),
            };
        }
        self.state = State::Opening;
        self.chosen = false;
        let text = format!("connecting to {}", self.remote_name());
        self.report(Severity::Info, None, text);
        self.events.push_back(Event::Open { remote: self.remote });
        self.tell_opening();
    }

    fn ask(&mut self, text: String, echo: bool) {
        self.questions = self.questions.wrapping_add(1);
        self.question = Some(self.questions);
        self.events.push_back(Event::Request(Request::Challenge(Challenge {
            id: self.questions,
            text,
            echo,
        })));
    }

    fn end(&mut self, ended: Ended) {
        self.leave_connection();
        self.after_words.push(Event::Down);
        self.after_words.push(Event::Ended(ended));
        self.state = State::Ended;
    }

    /// Takes the connection down, and its peer out of the data plane. True if it was up.
    fn leave_connection(&mut self) -> bool {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Connected(mut connection) => {
                let signal = self.signal.take().unwrap_or_else(|| connection.signal());
                if self.params.local.scripts.is_some() && connection.is_up() {
                    self.events.push_back(Event::Request(Request::Signal(signal)));
                }
                self.user.connection_ended();
                self.question = None;
                let mut datagram = Vec::new();
                while let Some(path) = connection.poll_transmit(self.now, &mut datagram) {
                    self.last_words.push_back((path, std::mem::take(&mut datagram)));
                }
                self.after_words.push(Event::Close { path: connection.path() });
                connection.close(&mut self.events)
            }
            _ => false,
        }
    }

    /// The connection or the attempt is over: the next one after a while.
    fn try_again(&mut self, reason: &str, advance: bool) {
        self.try_again_after(reason, Next::after(advance), Duration::ZERO);
    }

    /// The same, but not before `least` has passed.
    fn try_again_after(&mut self, reason: &str, next: Next, least: Duration) {
        // The server, or the network, may be quicker to end what we were told to end.
        if matches!(&self.state, State::Connected(connection) if connection.is_exiting()) {
            return self.end(Ended::Shutdown);
        }
        if self.params.ends_when_lost {
            let text = format!("{}: {reason}; this ends the tunnel (remap-usr1)", self.remote_name());
            self.report(Severity::Error, None, text);
            return self.end(Ended::Shutdown);
        }
        let was_up = self.leave_connection();
        if was_up {
            self.attempts = 0;
        }
        let Some(wait) = self.count_attempt(reason, was_up) else { return };
        let advance = next == Next::Other || (next == Next::Usual && !was_up);
        self.wait_to_try_again(reason, advance, wait.max(least));
    }

    /// One more attempt, or a connection that was up, is over. Gives the wait before the next attempt; `None`, and the client
    /// ends, if `connect-retry-max` allows no further one.
    fn count_attempt(&mut self, reason: &str, was_up: bool) -> Option<Duration> {
        self.attempts = self.attempts.saturating_add(1);
        let remotes = u32::try_from(self.params.remotes.len()).unwrap_or(u32::MAX).max(1);
        let round = (self.attempts - 1) / remotes;
        if self
            .params
            .retry_max
            .is_some_and(|max| !was_up && round + 1 >= max && self.attempts.is_multiple_of(remotes))
        {
            let text =
                format!("{}: {reason}; connect-retry-max allows no further attempt", self.remote_name());
            self.end(Ended::Failed(text));
            return None;
        }
        Some(self.wait_after(round))
    }

    /// Says why the last attempt is over, and waits for the next one. `advance`: it goes to the next remote.
    fn wait_to_try_again(&mut self, reason: &str, advance: bool, wait: Duration) {
        let text = format!("{}: {reason}; next attempt in {} s", self.remote_name(), wait.as_secs());
        self.report(Severity::Error, None, text);
        if advance {
            self.remote = (self.remote + 1) % self.params.remotes.len().max(1);
        }
        self.wait_for_attempt(wait);
    }

    /// The server let us in, but the tunnel would be none.
    fn not_up(&mut self, reason: &str) {
        if matches!(&self.state, State::Connected(connection) if connection.is_up()) {
            let untold = self.events.iter().any(|event| matches!(event, Event::PeerUp { .. }));
            self.try_again(reason, false);
            // Who was never told that the peer is there need not hear that it is gone.
            self.events
                .retain(|event| !(untold && matches!(event, Event::PeerUp { .. } | Event::PeerDown { .. })));
        }
    }

    fn wait_after(&self, round: u32) -> Duration {
        let (first, longest) = self.params.retry;
        let doublings = (round + 1).saturating_sub(STEADY_ATTEMPTS).min(16);
        (first * (1 << doublings)).min(longest.max(first))
    }

    fn opened(&mut self, path: Path) {
        if !matches!(self.state, State::Opening) {
            self.events.push_back(Event::Close { path });
            return;
        }
        self.unknown.0 = 0;
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        let rng = ChaCha20Rng::from_seed(seed);
        let credentials = self.user.credentials();
        let Some(remote) = self.params.remotes.get(self.remote).cloned() else {
            return self.end(Ended::Failed("there is no remote".to_owned()));
        };
        self.connections = self.connections.wrapping_add(1);
        let to = (path, remote, self.connections);
        match Connection::new(self.now, to, self.params.clone(), self.control.clone(), credentials, rng) {
            Ok(connection) => {
                self.events.push_back(Event::Request(Request::Progress(Progress::Waiting)));
                self.state = State::Connected(Box::new(connection));
            }
            Err(error) => {
                self.events.push_back(Event::Close { path });
                self.end(Ended::Failed(format!("TLS cannot start: {error}")));
            }
        }
    }

    fn open_failed(&mut self, failure: OpenFailure) {
        if !matches!(self.state, State::Opening) {
            return;
        }
        match failure {
            OpenFailure::UnknownName(text) if self.tires_of_unknown_names() => {
                self.end(Ended::Failed(format!(
                    "{text}; check the remote line, or write \"resolv-retry infinite\" to keep trying"
                )));
            }
            OpenFailure::UnknownName(text) => self.try_again(&text, true),
            OpenFailure::NeedsCredentials { text, refused } if self.params.asks_for_proxy_credentials => {
                self.unknown.0 = 0;
                self.ask_for_proxy(text, refused);
            }
            OpenFailure::Unreachable(text) | OpenFailure::NeedsCredentials { text, .. } => {
                self.unknown.0 = 0;
                self.try_again(&text, true);
            }
        }
    }

    /// One more name does not exist: whether that is the end, as no other does and `resolv-retry` is over.
    fn tires_of_unknown_names(&mut self) -> bool {
        if self.unknown.0 == 0 {
            self.unknown.1 = self.now;
        }
        self.unknown.0 = self.unknown.0.saturating_add(1);
        let all = self.unknown.0 >= self.params.remotes.len();
        let over = self.params.resolve_timeout.is_some_and(|limit| self.now - self.unknown.1 >= limit);
        all && over && !self.ever_up
    }

    fn auth_failed(&mut self, reason: &str) {
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

    fn question_answered(&mut self, response: ChallengeResponse) {
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

    fn answered(&mut self, answer: Result<UserPassword, String>) {
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

    /// The next handshakes are judged by the new lists; a server on them is left.
    fn take_revocations(&mut self, content: &[u8]) {
        let Some(revocations) = &self.control.revocations else { return };
        if let Err(error) = revocations.update(content) {
            let text = format!("crl-verify: {error}; the list read before stays in force");
            return self.report(Severity::Error, None, text);
        }
        let lists = revocations.current();
        if matches!(&self.state, State::Connected(connection) if connection.is_revoked(&lists)) {
            self.try_again("the server's certificate was revoked (crl-verify)", true);
        }
    }

    /// Lets the connection say what came of the last input.
    fn settle(&mut self) {
        let outcome = loop {
            let State::Connected(connection) = &mut self.state else { return };
            let outcome = connection.settle(self.now, &mut self.events);
            if let Some(token) = connection.take_token() {
                self.user.take_token(token);
            }
            let challenge = connection.take_challenge();
            if connection.is_up() {
                self.attempts = 0;
                self.ever_up = true;
            }
            // What follows the question is settled after it.
            let more = challenge.is_some() && matches!(outcome, Outcome::Continue);
            if let Some(TextChallenge { text, echo }) = challenge {
                self.ask(text, echo);
            }
            if !more {
                break outcome;
            }
        };
        match outcome {
            Outcome::Continue => {}
            Outcome::Retry { reason, advance } => self.try_again(&reason, advance),
            Outcome::Restart { reason, advance, keep_token } => {
                if !keep_token {
                    self.user.forget_token();
                }
                self.try_again(&reason, advance);
            }
            Outcome::AuthFailed(reason) => self.auth_failed(&reason),
            Outcome::Refused(reason) if self.ever_up => self.try_again(&reason, true),
            Outcome::Refused(reason) | Outcome::Fatal(reason) => {
                let text = format!("{}: {reason}", self.remote_name());
                self.end(Ended::Failed(text));
            }
            Outcome::Exited => self.end(Ended::Shutdown),
        }
    }
}

impl Protocol for Client {
    type Request = Request;
    type Reply = Reply;
    type Detail = PeerDetail;
    type Codec = Codec;

    fn handle_datagram(&mut self, now: Instant, path: Path, datagram: &[u8]) -> Result<(), Rejected> {
        self.now = now;
        let State::Connected(connection) = &mut self.state else {
            return Err(Rejected::Unexpected("not connected"));
        };
        let result = connection.handle_datagram(now, path, datagram);
        self.settle();
        result
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        self.now = now;
        match command {
            Command::Opened { path } => self.opened(path),
            Command::OpenFailed { remote, failure } if remote == self.remote => self.open_failed(failure),
            Command::NotUp { reason } => self.not_up(&reason),
            Command::OpenFailed { .. }
            | Command::Disconnect { .. }
            | Command::SocketBound { .. }
            | Command::Prepared { .. }
            | Command::LeasesMoved => {}
            Command::Closed { path, reason } => {
                if matches!(&self.state, State::Connected(connection) if connection.path() == path) {
                    self.signal = Some("connection-reset");
                    self.try_again(&format!("the connection broke: {reason}"), false);
                }
            }
            Command::Shutdown => match &mut self.state {
                State::Connected(connection) => {
                    self.signal = Some("sigterm");
                    connection.send_exit_notice(now, &mut self.events);
                }
                State::Ended => {}
                _ => self.end(Ended::Shutdown),
            },
            Command::Restart => {
                // One that is held back, or asks where to go, begins anew anyway (OpenVPN manage.c, `MANSIG_IGNORE_USR1_HUP`).
                if !matches!(self.state, State::Ended | State::Held(_) | State::Choosing) {
                    self.signal = matches!(self.state, State::Connected(_)).then_some("sigusr1");
                    self.try_again("told to restart", false);
                }
            }
            Command::Rekey { .. } => {
                if let State::Connected(connection) = &mut self.state {
                    connection.rekey(now);
                }
            }
        }
        self.settle();
    }

    fn handle_reply(&mut self, now: Instant, reply: Reply) {
        self.now = now;
        match reply {
            Reply::Credentials(answer) => self.answered(answer),
            Reply::ChallengeResponse(response) => self.question_answered(response),
            Reply::GoOn { at_once } => self.go_on(at_once),
            Reply::Remote(decision) => self.remote_decided(decision),
            Reply::ProxyCredentials(answer) => self.proxy_answered(answer),
            Reply::ServerResponse(answer) => self.respond(&answer),
            Reply::ForgetPasswords => self.user.forget_all(),
            Reply::RevocationList(content) => self.take_revocations(&content),
            Reply::ScriptDone { id, outcome } => {
                if let State::Connected(connection) = &mut self.state {
                    connection.script_done(now, id, &outcome, &mut self.events);
                }
            }
            Reply::TlsStepDone(step) => {
                if let State::Connected(connection) = &mut self.state {
                    connection.step_done(now, &step);
                }
            }
            // For servers.
            Reply::ClientDecision { .. }
            | Reply::PeerAddresses(_)
            | Reply::KillClient { .. }
            | Reply::PeerSettings { .. } => {}
        }
        self.settle();
    }

    fn handle_notice(&mut self, now: Instant, notice: Notice) {
        self.now = now;
        if let State::Connected(connection) = &mut self.state {
            connection.handle_notice(now, &notice);
        }
        self.settle();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        match &mut self.state {
            State::Waiting(until) if now >= *until => self.open(),
            State::Connected(connection) => connection.handle_timeout(now, &mut self.events),
            _ => {}
        }
        self.settle();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Waiting(until) => Some(*until),
            State::Connected(connection) => connection.poll_timeout(),
            State::Held(_)
            | State::Choosing
            | State::Asking
            | State::Opening
            | State::AskingForProxy { .. }
            | State::Ended => None,
        }
    }

    fn poll_transmit(&mut self, buf: &mut Vec<u8>) -> Option<Path> {
        if let Some((path, datagram)) = self.last_words.pop_front() {
            buf.extend_from_slice(&datagram);
            return Some(path);
        }
        match &mut self.state {
            State::Connected(connection) => connection.poll_transmit(self.now, buf),
            _ => None,
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        if self.last_words.is_empty() {
            self.events.extend(self.after_words.drain(..));
        }
        self.events.pop_front()
    }

    fn peers(&self) -> Vec<(PeerId, PeerInfo)> {
        match &self.state {
            State::Connected(connection) => {
                connection.peer_info().map(|info| (PeerId::SERVER, info)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn tables(&self) -> Vec<TableUsage> {
        Vec::new()
    }
}
