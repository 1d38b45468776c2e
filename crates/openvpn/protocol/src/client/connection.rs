//! A client's connection to one server.

mod establish;
mod facts;
mod judge;
mod messages;
mod news;
mod point_to_point;
mod roaming;
mod timeouts;
mod update;

use std::sync::Arc;
use std::time::Duration;

use adit_core::{
    Cipher, Instant, Notice, Path, PeerId, PeerLimits, PeerOrder, Rejected, Report, Severity, TunnelSettings,
};
use adit_pki::RevocationLists;
use rand_chacha::ChaCha20Rng;
use zeroize::Zeroizing;

pub(super) use self::facts::EXIT_NOTICE;
use self::judge::Judging;
use self::news::news;
use super::challenge::{TextChallenge, response_message};
use crate::client_hello::client_hello;
use crate::control_channel::{ControlChannel, ControlOutput};
use crate::control_message::PushAssembler;
use crate::data_keys::{Agreement, DataKeys};
use crate::key_state::KeyStateError;
use crate::lifetime::Lifetime;
use crate::liveness::Liveness;
use crate::notices::{Heard, Hearing};
use crate::outbox::Outbox;
use crate::params::{ClientParams, ControlParams, Keepalive, RemoteParams};
use crate::pushed::Pushed;
use crate::request::{DataEvent, Event, PeerDetail, PeerInfo, Progress, Request, TunnelFacts, UserPassword};
use crate::tls::TlsStep;
use crate::wire::TlsRole;

/// After which time to ask for the second time: OpenVPN 2.4's server takes the first question, if it comes as soon
/// as the keys are there, for the beginning of its work and answers the next.
const PUSH_REQUEST_AGAIN: Duration = Duration::from_secs(1);

/// The effect of the last input.
pub(super) enum Outcome {
    Continue,
    /// This connection is over; another attempt may succeed. `advance`: at the next remote.
    Retry {
        reason: String,
        advance: bool,
    },
    /// The server asks us to connect anew.
    Restart {
        reason: String,
        advance: bool,
        keep_token: bool,
    },
    /// The server refused us, in these words.
    AuthFailed(String),
    /// One of the two ends does not accept the other: worth another try if it ever worked, or at another remote.
    Refused(String),
    /// Trying again is of no use.
    Fatal(String),
    /// The exit notice is sent: we may go.
    Exited,
}

/// The server waits for more than a password.
#[derive(Clone, Copy)]
struct Pending {
    /// How long, by its own words.
    theirs: Option<Duration>,
    /// How long we wait with it.
    ours: Duration,
}

impl Pending {
    /// The time is over.
    fn reason(self) -> String {
        let ours = self.ours.as_secs();
        let whose = match self.theirs {
            Some(theirs) if theirs > self.ours => format!(
                "it gives {} s, but here half of reneg-sec or hand-window, whichever is longer, ends the wait; raise one of them",
                theirs.as_secs()
            ),
            Some(_) => "that is all the time it gives; be quicker, or let it give more".to_owned(),
            None => "it names no time, so hand-window ends the wait here; be quicker, or raise it".to_owned(),
        };
        format!("the server was still waiting for the second factor after {ours} s (AUTH_PENDING): {whose}")
    }
}

/// The state of a connection once the server's push has arrived.
struct Up {
    name: String,
    addresses: Vec<std::net::IpAddr>,
    cipher: Cipher,
    epochs: bool,
    since: Instant,
    cc_exit: bool,
    exit_notify: bool,
    /// The options that the server pushed, and the settings that follow from them: an update changes both.
    pushed: Pushed,
    settings: TunnelSettings,
}

/// The terms on which a tunnel comes up.
struct Terms {
    agreement: Agreement,
    /// Renegotiations are wrapped by dynamic tls-crypt.
    dynamic: bool,
    keepalive: Keepalive,
    cc_exit: bool,
    exit_notify: bool,
    settings: TunnelSettings,
    /// The settings of the tunnel for scripts, if there are any.
    facts: Option<Box<TunnelFacts>>,
    limits: PeerLimits,
    pushed: Pushed,
}

/// One connection to one server, from the first reset to the exit notice.
pub(super) struct Connection {
    path: Path,
    /// The MTU of the path, where the system knows it.
    path_mtu: Option<u16>,
    remote: RemoteParams,
    params: Arc<ClientParams>,
    channel: ControlChannel,
    data_keys: DataKeys,
    liveness: Liveness,
    lifetime: Lifetime,
    started: Instant,
    assembler: PushAssembler,
    /// The parts of an update.
    updates: PushAssembler,
    ask_at: Option<Instant>,
    push_deadline: Option<Instant>,
    /// How long the server said that it waits for more (`AUTH_PENDING`), and how long we do.
    pending: Option<Pending>,
    up: Option<Up>,
    last_handshake: Instant,
    exit_until: Option<Instant>,
    verdict: Option<Outcome>,
    /// Why it ends, in the word of scripts.
    signal: &'static str,
    /// Scripts were given the facts of the peer.
    told_peer: bool,
    judging: Judging,
    /// The address from which the server's data comes now (`float`), until the data plane has been notified.
    moved_to: Option<Path>,
    /// A token that the server gave, until the client takes it.
    token: Option<UserPassword>,
    /// A question of the server's, until the client takes it.
    challenge: Option<TextChallenge>,
    /// The username for tokens that name none.
    username: String,
    /// The client was notified that the server answered.
    told_heard: bool,
}

impl Connection {
    pub(super) fn new(
        now: Instant,
        (path, remote, owner): (Path, RemoteParams, u64),
        params: Arc<ClientParams>,
        control: Arc<ControlParams>,
        credentials: Option<UserPassword>,
        rng: ChaCha20Rng,
    ) -> Result<Self, KeyStateError> {
        let mut hello = client_hello(&params, path);
        if let Some(credentials) = &credentials {
            hello.username.clone_from(&credentials.username);
            hello.password.clone_from(&credentials.password);
        }
        let mut channel = ControlChannel::client(now, control, hello, rng)?;
        if !params.pull {
            channel.let_server_begin();
        }
        Ok(Connection {
            path,
            path_mtu: None,
            remote,
            channel,
            data_keys: DataKeys::new(PeerId::SERVER, TlsRole::Client),
            // Until the push arrives, the hand window watches.
            liveness: Liveness::new(now, Keepalive::default()),
            lifetime: Lifetime::default(),
            started: now,
            assembler: PushAssembler::new(),
            updates: PushAssembler::new(),
            ask_at: None,
            push_deadline: None,
            pending: None,
            up: None,
            last_handshake: now,
            exit_until: None,
            verdict: None,
            signal: facts::TLS_ERROR,
            told_peer: false,
            judging: Judging::new(owner),
            moved_to: None,
            token: None,
            challenge: None,
            username: credentials.map(|credentials| credentials.username).unwrap_or_default(),
            told_heard: false,
            params,
        })
    }

    pub(super) fn path(&self) -> Path {
        self.path
    }

    /// A token that the server gave since this was last asked.
    pub(super) fn take_token(&mut self) -> Option<UserPassword> {
        self.token.take()
    }

    /// A question that the server asked since this was last asked.
    pub(super) fn take_challenge(&mut self) -> Option<TextChallenge> {
        self.challenge.take()
    }

    /// Answers the server's question.
    pub(super) fn respond(&mut self, now: Instant, answer: &str) {
        self.channel.send_message(now, &response_message(answer));
    }

    /// Answers the server's question, in base64.
    pub(super) fn respond_encoded(&mut self, now: Instant, answer: &str) {
        self.channel.send_message(now, &Zeroizing::new(["CR_RESPONSE,", answer].concat()));
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn say(&mut self, now: Instant, text: &str) {
        self.channel.send_message(now, text);
    }

    /// A step of the TLS handshake was made.
    pub(super) fn step_done(&mut self, now: Instant, step: &TlsStep) {
        self.channel.step_done(now, step);
    }

    /// Whether the server was heard.
    pub(super) fn has_heard(&self) -> bool {
        self.channel.heard()
    }

    pub(super) fn is_up(&self) -> bool {
        self.up.is_some()
    }

    pub(super) fn is_revoked(&self, lists: &RevocationLists) -> bool {
        self.channel.is_revoked(lists)
    }

    pub(super) fn peer_info(&self) -> Option<PeerInfo> {
        let up = self.up.as_ref()?;
        Some(PeerInfo {
            name: up.name.clone(),
            path: self.path,
            addresses: up.addresses.clone(),
            cipher: up.cipher,
            rekeys: self.data_keys.rekeys(),
            last_handshake: self.last_handshake,
            since: up.since,
            heard: self.liveness.last_heard(),
            routes: Vec::new(),
            detail: PeerDetail {
                epochs: up.epochs,
                tls: self.channel.tls_description().to_owned(),
                username: self.username.clone(),
                number: 0,
            },
        })
    }

    /// Takes the peer out of the data plane. True if it was up.
    pub(super) fn close(self, events: &mut Outbox) -> bool {
        self.judging.cancel(events);
        if self.up.is_some() {
            events.push_back(Event::Data(DataEvent::Peer(PeerOrder::Remove(PeerId::SERVER))));
            events.push_back(Event::PeerDown { peer: PeerId::SERVER, reason: "connection ended".to_owned() });
        }
        self.up.is_some()
    }

    pub(super) fn handle_datagram(
        &mut self,
        now: Instant,
        path: Path,
        datagram: &[u8],
    ) -> Result<(), Rejected> {
        if path != self.path && !self.may_answer_from(path) {
            return Err(Rejected::Unexpected("not from our server's address"));
        }
        self.channel.handle(now, datagram)?;
        self.path = path;
        self.liveness.heard(now);
        Ok(())
    }

    pub(super) fn handle_notice(&mut self, now: Instant, notice: &Notice) {
        let limits = self.params.control.rekey.limits;
        let Connection { channel, data_keys, liveness, lifetime, .. } = self;
        match (Hearing { channel, data_keys, liveness, lifetime, limits }).hear(now, notice) {
            Heard::Nothing => {}
            Heard::ExitNotice => self.peer_left(),
            // Without `float`, a client follows its server only by connecting anew.
            Heard::Moved(path) => self.moved_to = self.params.float.then_some(path),
        }
    }

    pub(super) fn rekey(&mut self, now: Instant) {
        self.channel.rekey(now);
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Path> {
        self.channel.poll_transmit(now, buf).then_some(self.path)
    }

    /// Works through the control channel's messages, up to a question, which the client takes before the messages after
    /// it.
    pub(super) fn settle(&mut self, now: Instant, events: &mut Outbox) -> Outcome {
        self.follow(now, events);
        self.tell_answered(events);
        while self.verdict.is_none() && self.challenge.is_none() {
            let Some(output) = self.channel.poll_output() else { break };
            if let Err(error) = self.handle_output(now, output, events) {
                self.verdict = Some(retry(&error.to_string()));
            }
        }
        if let Some(verdict) = self.verdict.take() {
            return verdict;
        }
        match self.exit_until {
            Some(until) if now >= until || self.channel.is_quiet() => Outcome::Exited,
            _ => Outcome::Continue,
        }
    }

    fn handle_output(
        &mut self,
        now: Instant,
        output: ControlOutput,
        events: &mut Outbox,
    ) -> Result<(), KeyStateError> {
        match output {
            ControlOutput::Hello { .. } => {}
            ControlOutput::Secured { key_id } => self.data_keys.prepare(key_id, &self.channel, events)?,
            ControlOutput::Established { key_id } => {
                self.last_handshake = now;
                self.tell_peer(events);
                self.data_keys.established(key_id, &self.channel, events)?;
                if self.data_keys.rekeys() > 0 {
                    let text = format!("renegotiated keys (number {})", self.data_keys.rekeys());
                    self.tell(Severity::Info, text, events);
                }
                if !self.params.pull && self.up.is_none() {
                    self.establish_without_push(now, events)?;
                }
                if self.up.is_none() && self.params.pull && self.push_deadline.is_none() {
                    // Servers since 2.6 answer unasked; older ones wait for the question.
                    self.channel.send_message(now, "PUSH_REQUEST");
                    news(Request::Progress(Progress::AskingForSettings), events);
                    self.ask_at = Some(now + PUSH_REQUEST_AGAIN);
                    self.push_deadline = Some(now + self.params.control.rekey.handshake);
                }
            }
            ControlOutput::Judge { key_id } => self.judge(now, key_id, events),
            ControlOutput::Step(step) => events.push_back(Event::Request(Request::TlsStep(step))),
            ControlOutput::Activate { key_id } => self.data_keys.activate(key_id, events),
            ControlOutput::Retire { key_id } => self.data_keys.retire(key_id, events),
            ControlOutput::Message(bytes) => self.handle_record(now, bytes, events)?,
            ControlOutput::Unfinished { known } => {
                let text = self.channel.unfinished_text(known);
                self.tell(Severity::Warning, text, events);
            }
            ControlOutput::Failed { reason, refused, failure } => {
                news(Request::ConnectionFailed(failure), events);
                self.verdict = Some(match refused {
                    _ if self.params.tls_exit => Outcome::Fatal(format!("{reason} (tls-exit)")),
                    true => Outcome::Refused(reason),
                    false => retry(&reason),
                });
            }
        }
        Ok(())
    }

    /// Logs a line that the server causes, so many a minute.
    fn tell(&self, severity: Severity, text: String, events: &mut Outbox) {
        events.push_back(Event::Report(Report { severity, path: Some(self.path), text }));
    }
}

fn retry(reason: &str) -> Outcome {
    Outcome::Retry { reason: reason.to_owned(), advance: false }
}

pub(super) fn auth_failed(reason: &str, ciphers: &[Cipher]) -> String {
    match reason {
        "" => "the server refused us (AUTH_FAILED); its log says why".to_owned(),
        // The words of OpenVPN's server and of ours.
        reason if reason.contains("no shared cipher") => {
            let ours: Vec<String> = ciphers.iter().map(ToString::to_string).collect();
            format!(
                "the server refused us (AUTH_FAILED): {reason}; we offer {}: let `data-ciphers` name one cipher at both ends",
                ours.join(", ")
            )
        }
        reason => format!("the server refused us (AUTH_FAILED): {reason}"),
    }
}
