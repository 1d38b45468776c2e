//! An OpenVPN client: finds a server, connects, follows its push, and comes back when the server is lost.

mod attempt;
mod authentication;
mod challenge;
mod connection;
mod open;
mod reconfigure;
mod retry;
mod user;

use std::collections::VecDeque;
use std::sync::Arc;

use adit_core::{
    Command, Ended, Instant, Notice, Path, PeerId, Protocol, Rejected, Report, Severity, TableUsage,
    Transport,
};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use crate::codec::Codec;
use crate::key_state::earliest;
use crate::outbox::Outbox;
use crate::params::{ClientParams, ControlParams};
use crate::request::{Event, PeerDetail, PeerInfo, Reply, Request};
use challenge::TextChallenge;
use connection::{Connection, Outcome};
use user::User;

/// The state of the client.
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
        /// The proxy's message.
        text: String,
        /// When the next attempt may come, if the proxy refused other credentials and that was an attempt.
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
    /// Addresses that refused datagrams, one after the other, in this attempt.
    refused_addresses: u32,
    /// Where this attempt goes in place of the remote, if the adapter said so.
    instead: Option<(String, u16)>,
    /// The adapter has said where the next attempt goes.
    chosen: bool,
    ever_up: bool,
    /// How many remotes in a row have names that do not exist, and since when.
    unknown: (usize, Instant),
    /// Attempts in a row that ended because one end does not accept the other.
    refusals: usize,
    /// Questions that were asked so far, and the one that waits for its answer.
    questions: u32,
    question: Option<u32>,
    events: Outbox,
    /// Last words on a path that we leave, and the events once they are sent.
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
            refused_addresses: 0,
            instead: None,
            chosen: false,
            ever_up: false,
            unknown: (0, now),
            refusals: 0,
            questions: 0,
            question: None,
            events: Outbox::default(),
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

    fn set_now(&mut self, now: Instant) {
        self.now = now;
        self.events.set_now(now);
    }

    /// Logs an event that happens once in an attempt to connect.
    fn report(&mut self, severity: Severity, path: Option<Path>, text: String) {
        self.events.own_line(Report { severity, path, text });
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
                self.events.changes().withdraw();
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

    /// Follows the connection's outcome of the last input.
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
            // Messages after the question are handled after it.
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
            Outcome::Refused(reason) => self.refused(&reason),
            Outcome::Fatal(reason) => {
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
        self.set_now(now);
        let State::Connected(connection) = &mut self.state else {
            return Err(Rejected::Unexpected("not connected"));
        };
        let result = connection.handle_datagram(now, path, datagram);
        self.settle();
        result
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        self.set_now(now);
        match command {
            Command::Opened { path } => self.opened(path),
            Command::OpenFailed { remote, failure } if remote == self.remote => self.open_failed(failure),
            Command::NotUp { reason } => self.not_up(&reason),
            Command::PathMtu { remote, mtu } => {
                if let State::Connected(connection) = &mut self.state {
                    connection.take_path_mtu(remote, mtu, &mut self.events);
                }
            }
            Command::OpenFailed { .. }
            | Command::Disconnect { .. }
            | Command::SocketBound { .. }
            | Command::Prepared { .. }
            | Command::MtuChanged { .. }
            | Command::RouteChanged { .. }
            | Command::LeasesMoved => {}
            Command::Closed { path, reason } => {
                if path.transport() == Transport::Udp {
                    self.address_refused(path, &reason);
                } else if matches!(&self.state, State::Connected(connection) if connection.path() == path) {
                    self.signal = Some("connection-reset");
                    self.try_again(&format!("the connection broke: {reason}"), false);
                }
            }
            Command::Shutdown => match &mut self.state {
                State::Connected(connection) => {
                    let is_told = connection.send_exit_notice(now, true, &mut self.events);
                    self.signal = Some(if is_told { connection::EXIT_NOTICE } else { "sigterm" });
                }
                State::Ended => {}
                _ => self.end(Ended::Shutdown),
            },
            Command::Restart => self.restart(),
            Command::Rekey { .. } => {
                if let State::Connected(connection) = &mut self.state {
                    connection.rekey(now);
                }
            }
        }
        self.settle();
    }

    fn handle_reply(&mut self, now: Instant, reply: Reply) {
        self.set_now(now);
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
        self.set_now(now);
        if let State::Connected(connection) = &mut self.state {
            connection.handle_notice(now, &notice);
        }
        self.settle();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.set_now(now);
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
            State::Connected(connection) => earliest(connection.poll_timeout(), self.events.change_due()),
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

#[cfg(any(test, feature = "testing"))]
impl Client {
    /// Sends a control message of any text to the server, as a client that keeps to no rule does.
    pub fn say(&mut self, now: Instant, text: &str) {
        self.set_now(now);
        if let State::Connected(connection) = &mut self.state {
            connection.say(now, text);
        }
    }
}
