//! A tunnel with a static key (`secret`): there is no handshake, and all datagrams are data.
//!
//! What is left to a protocol is where the one peer is, whether it is there, and when the packet ids of a session
//! begin: each session under the same keys begins at a later time than the one before (OpenVPN packet_id.h, the long
//! form).

mod facts;
mod reconfigure;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

use adit_core::{
    Command, Ended, Instant, IpNet, Ipv4Net, Ipv6Net, Notice, OpenFailure, Path, PeerConfig, PeerId,
    PrefixShares, PrefixTable, Protocol, Rejected, Report, SessionId, Severity, TableUsage, Transport,
    TunnelSettings,
};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use zeroize::Zeroizing;

use crate::codec::{Codec, Framing, StaticFraming, session_id};
use crate::data_message::{self, DataMessage};
use crate::key_state::earliest;
use crate::keys::static_directions;
use crate::lifetime::{Lifetime, signal_of};
use crate::liveness::{Due, Liveness};
use crate::negotiate::{max_mss_within, payloads};
use crate::occ::static_options_string;
use crate::params::StaticParams;
use crate::request::{DataEvent, Event, Install, PeerDetail, PeerInfo, Reply, Request};
use crate::wrap::KeyDirection;

/// The one session.
const SESSION: SessionId = session_id(PeerId::SERVER, 0);
/// Where a peer is that was not heard yet: no socket has this number.
const NOWHERE: Path =
    Path::Udp { socket: u32::MAX, remote: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)) };
/// Accepted connections on which the peer was not heard, besides the present one. Unauthenticated peers can open them.
const UNPROVEN: PrefixShares = PrefixShares::new(8, 64);
/// Attempts before the wait between attempts begins to double (OpenVPN `connect-retry`).
const STEADY_ATTEMPTS: u32 = 5;

/// What the tunnel is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waiting for the next attempt.
    Waiting(Instant),
    /// The driver opens a path.
    Opening,
    /// There is a path, or one is waited for.
    Running,
    /// Over for good.
    Ended,
}

/// One end of a tunnel with a static key as a state machine. In the data plane it has the peer
/// [`PeerId::SERVER`].
///
/// Who has remotes wants a path at once: drain [`Protocol::poll_event`] after construction.
pub struct StaticTunnel {
    params: StaticParams,
    /// Those that hold when the peer is looked or waited for anew.
    next: Option<Box<StaticParams>>,
    iv_key: Zeroizing<[u8; 16]>,
    now: Instant,
    state: State,
    /// Where the peer is reached.
    path: Option<Path>,
    /// Accepted connections on which the peer was not heard.
    unproven: PrefixTable<Path, ()>,
    /// When the present session began, in seconds since 1970.
    began: u32,
    /// The data plane seals.
    seals: bool,
    /// Since when the peer is there.
    up: Option<Instant>,
    /// The peer was heard since it was last looked or waited for.
    heard: bool,
    /// Datagrams of the peer's in all.
    received: u64,
    liveness: Liveness,
    lifetime: Lifetime,
    remote: usize,
    attempts: u32,
    /// How many remotes in a row have names that do not exist, and since when.
    unknown: (usize, Instant),
    ever_opened: bool,
    /// The log has heard that the peer is where it may not be.
    told_elsewhere: bool,
    /// Why what is there ends, in the word of scripts; empty if nothing is to be said.
    signal: &'static str,
    events: VecDeque<Event>,
}

impl StaticTunnel {
    /// An end that starts at `now`. `seed` is 32 bytes of secret randomness, used for nothing else.
    pub fn new(params: StaticParams, now: Instant, seed: [u8; 32]) -> Self {
        let mut iv_key = Zeroizing::new([0; 16]);
        ChaCha20Rng::from_seed(seed).fill_bytes(iv_key.as_mut_slice());
        let mut tunnel = StaticTunnel {
            iv_key,
            now,
            state: State::Running,
            path: None,
            unproven: PrefixTable::new("TCP connections without a peer", UNPROVEN),
            began: 0,
            seals: false,
            up: None,
            heard: false,
            received: 0,
            liveness: Liveness::new(now, params.keepalive),
            lifetime: Lifetime::new(now, params.limits),
            remote: 0,
            attempts: 0,
            unknown: (0, now),
            ever_opened: false,
            told_elsewhere: false,
            signal: "",
            events: VecDeque::new(),
            next: None,
            params,
        };
        tunnel.reach(NOWHERE);
        tunnel.begin();
        if tunnel.state == State::Running {
            match tunnel.params.waits() {
                true => tunnel.come_up(None),
                false => tunnel.open(),
            }
        }
        tunnel
    }

    fn peer_info(&self) -> Option<PeerInfo> {
        let since = self.up?;
        Some(PeerInfo {
            name: "the other end".to_owned(),
            path: self.path?,
            addresses: self.params.local.peer_address.into_iter().collect(),
            cipher: self.params.cipher,
            rekeys: 0,
            last_handshake: since,
            since,
            heard: self.liveness.last_heard(),
            routes: Vec::new(),
            detail: PeerDetail { tls: "static key".to_owned(), ..PeerDetail::default() },
        })
    }

    fn settings(&self, server: Option<IpAddr>) -> TunnelSettings {
        let local = &self.params.local;
        TunnelSettings {
            addresses: local.addresses.clone(),
            peer_address: local.peer_address,
            mtu: self.params.tun_mtu,
            routes: local.routes.clone(),
            table: local.table,
            redirect: local.redirect,
            block_ipv6: local.block_ipv6,
            dns: local.dns.clone(),
            server,
        }
    }

    /// The device can be set up: `server` is where the other end is, if we have gone there.
    fn come_up(&mut self, server: Option<IpAddr>) {
        let settings = self.settings(server);
        self.events.extend(self.facts(&settings));
        self.events.push_back(Event::Up(settings));
    }

    fn report(&mut self, severity: Severity, path: Option<Path>, text: String) {
        self.events.push_back(Event::Report(Report { severity, path, text }));
    }

    fn data(&mut self, event: DataEvent) {
        self.events.push_back(Event::Data(event));
    }

    /// A session begins, later than all before it. That must not come about more than once a second, least of all by
    /// what unauthenticated peers do: sessions would run ahead of the clock, and the peer would not hear us after our next start.
    fn begin(&mut self) {
        let passed = (self.now - Instant::ORIGIN).as_secs();
        let wall = self.params.wall_at_origin.0.saturating_add(passed);
        let began = u32::try_from(wall).ok().zip(self.began.checked_add(1));
        let Some((wall, least)) = began else {
            let text = "the system's clock is beyond the year 2106, and a static key's packet ids end there";
            return self.end(Ended::Failed(text.to_owned()));
        };
        self.began = wall.max(least);
        let params = &self.params;
        let (cipher, digest) = (params.cipher, params.digest);
        let (seal, open) = static_directions(&params.key, params.direction, cipher, digest, &self.iv_key);
        let framing =
            Framing::StaticKey(StaticFraming { began: self.began, compression: params.compression });
        // The session stays when the path becomes one of the other address family.
        let payloads = payloads(None, params.tun_mtu, &params.shape(), params.decompress);
        let codec = Codec { framing, cipher, seal, open, replay_window: params.replay_window, payloads };
        self.data(DataEvent::Install(Box::new(Install { peer: PeerId::SERVER, session: SESSION, codec })));
    }

    /// Nothing was heard. With one key for both directions, an attacker may have replayed to us what we sent in an earlier run,
    /// and that is later than all that the peer sends: what was taken must be forgotten, as OpenVPN does. With keys
    /// for each direction that cannot be, and nothing is taken twice.
    fn forgive(&mut self) {
        if self.params.direction == KeyDirection::Bidirectional {
            self.data(DataEvent::Retire { peer: PeerId::SERVER, session: SESSION });
            self.begin();
            if self.seals {
                self.activate();
            }
        }
    }

    /// The peer is reached there from now on.
    fn reach(&mut self, path: Path) {
        let params = &self.params;
        let max_mss = max_mss_within(params.mssfix, params.tun_mtu, path, &params.shape());
        // As in `may_be_at`, for any path.
        let anywhere = if params.waits() { params.only_from.is_none() } else { params.float };
        let roams = anywhere && path != NOWHERE;
        self.data(DataEvent::AddPeer(PeerConfig {
            peer: PeerId::SERVER,
            path: Some(path),
            routes: vec![IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())],
            max_mss,
            roams,
            staging: false,
            by_path: true,
        }));
    }

    /// What is sent goes there.
    fn take(&mut self, path: Path) {
        self.path = Some(path);
        self.told_elsewhere = false;
        self.reach(path);
        if !std::mem::replace(&mut self.seals, true) {
            self.activate();
        }
        self.liveness.restart(self.now);
    }

    fn activate(&mut self) {
        self.data(DataEvent::Activate { peer: PeerId::SERVER, session: SESSION });
    }

    /// The peer asks what our file says, to warn of what differs in its own.
    fn tell_options(&mut self) {
        let Some(path) = self.path else { return };
        let payload = data_message::occ_reply(&static_options_string(&self.params, path.transport()));
        self.data(DataEvent::Inject { peer: PeerId::SERVER, payload });
    }

    /// There is no way to the peer for now.
    fn leave(&mut self) {
        if let Some(path) = self.path.take() {
            self.events.push_back(Event::Close { path });
            self.reach(NOWHERE);
        }
    }

    fn open(&mut self) {
        self.take_next();
        self.state = State::Opening;
        let text = format!("connecting to {}", self.remote_name());
        self.report(Severity::Info, None, text);
        self.events.push_back(Event::Open { remote: self.remote });
    }

    fn remote_name(&self) -> &str {
        self.params.remotes.get(self.remote).map_or("the other end", |remote| remote.name.as_str())
    }

    /// There is a path to the remote, or a connection was accepted.
    fn opened(&mut self, path: Path) {
        match self.state {
            // It may be the way to a remote of before.
            State::Opening if self.next.is_some() => {
                self.events.push_back(Event::Close { path });
                self.try_again("the settings changed", false);
            }
            State::Opening => {
                self.state = State::Running;
                self.ever_opened = true;
                self.unknown.0 = 0;
                self.lifetime = Lifetime::new(self.now, self.params.limits);
                self.take(path);
                self.come_up(Some(path.remote().ip()));
            }
            State::Running if self.params.waits() && self.may_be_at(path) => self.accepted(path),
            _ => self.events.push_back(Event::Close { path }),
        }
    }

    /// Until the peer was heard, the newest connection is taken for its.
    fn accepted(&mut self, path: Path) {
        if self.up.is_some() {
            self.keep(path);
        } else {
            if let Some(before) = self.path.filter(|before| before.transport() == Transport::Tcp) {
                self.keep(before);
            }
            self.take(path);
        }
    }

    /// Keeps a connection on which the peer may be heard later.
    fn keep(&mut self, path: Path) {
        if let Some((path, ())) = self.unproven.insert(path.remote().ip(), path, (), ()) {
            self.events.push_back(Event::Close { path });
        }
    }

    /// Whether the peer may be there.
    fn may_be_at(&self, path: Path) -> bool {
        match self.params.waits() {
            true => {
                let address = path.remote().ip().to_canonical();
                self.params.only_from.as_ref().is_none_or(|addresses| addresses.contains(&address))
            }
            false => self.params.float || self.path == Some(path),
        }
    }

    /// What the peer sealed came from there.
    fn moved(&mut self, path: Path) {
        if self.state != State::Running || self.path == Some(path) {
            return;
        }
        if !self.may_be_at(path) {
            // An attacker who sees both ends' datagrams can replay them from any number of addresses.
            if std::mem::replace(&mut self.told_elsewhere, true) {
                return;
            }
            let answers = match self.path {
                Some(known) => format!("answers still go to {} alone", known.remote()),
                None => "it gets no answer".to_owned(),
            };
            let text = format!(
                "datagrams of the other end come from here, where it is not by `remote`: {answers}, as anyone who \
                 overhears its datagrams can send them again from any address. If the other end may change its \
                 address, write `float`; if it is here for good, correct `remote`"
            );
            return self.report(Severity::Warning, Some(path), text);
        }
        if path.transport() == Transport::Tcp && self.unproven.remove(&path).is_none() {
            return;
        }
        if let Some(before) = self.path.filter(|before| before.transport() == Transport::Tcp) {
            self.events.push_back(Event::Close { path: before });
        }
        self.take(path);
        self.heard = true;
        if self.up.is_some() {
            self.report(Severity::Info, Some(path), "the other end moved here".to_owned());
            self.tell_peer();
        }
        self.establish();
    }

    /// The peer was heard.
    fn establish(&mut self) {
        if !self.heard || self.up.is_some() || self.path.is_none() {
            return;
        }
        self.up = Some(self.now);
        self.attempts = 0;
        self.tell_peer();
        if let Some(info) = self.peer_info() {
            self.events.push_back(Event::PeerUp { peer: PeerId::SERVER, info: Box::new(info) });
        }
    }

    fn come_down(&mut self, reason: &str) {
        self.heard = false;
        let signal = std::mem::take(&mut self.signal);
        if self.has_scripts() && !signal.is_empty() {
            self.events.push_back(Event::Request(Request::Signal(signal)));
        }
        if self.up.take().is_some() {
            let reason = reason.to_owned();
            self.events.push_back(Event::PeerDown { peer: PeerId::SERVER, reason });
        }
    }

    /// What scripts hear of a loss. An end that waits starts over only for a peer that was heard: any host can open connections,
    /// and close them or be silent.
    fn loses_by(&mut self, signal: &'static str) {
        if self.up.is_some() || !self.params.waits() {
            self.signal = signal;
        }
    }

    /// The peer is lost, and looked or waited for anew.
    fn lose(&mut self, reason: &str, advance: bool) {
        if !self.params.waits() {
            return self.try_again(reason, advance);
        }
        // An unauthenticated peer can open a connection and close it.
        let severity = if self.up.is_some() { Severity::Warning } else { Severity::Debug };
        self.report(severity, self.path, format!("{reason}; waiting for the other end"));
        let starts_over = !self.signal.is_empty() && self.next.is_none();
        self.come_down(reason);
        self.leave();
        self.take_next();
        if starts_over {
            let facts = self.facts(&self.settings(None));
            self.events.extend(facts);
        }
        let newest = self.unproven.newest().map(|(path, ())| *path);
        if let Some(path) = newest {
            self.unproven.remove(&path);
            self.take(path);
        }
    }

    fn try_again(&mut self, reason: &str, advance: bool) {
        let was_up = self.up.is_some();
        self.come_down(reason);
        self.leave();
        self.take_next();
        self.attempts = self.attempts.saturating_add(1);
        let remotes = u32::try_from(self.params.remotes.len()).unwrap_or(u32::MAX).max(1);
        let round = (self.attempts - 1) / remotes;
        let last = self.attempts.is_multiple_of(remotes) && !was_up;
        if self.params.retry_max.is_some_and(|max| last && round + 1 >= max) {
            let name = self.remote_name();
            let text = format!("{name}: {reason}; connect-retry-max allows no further attempt");
            return self.end(Ended::Failed(text));
        }
        let (first, longest) = self.params.retry;
        let doublings = (round + 1).saturating_sub(STEADY_ATTEMPTS).min(16);
        let wait = (first * (1 << doublings)).min(longest.max(first));
        let text = format!("{}: {reason}; next attempt in {} s", self.remote_name(), wait.as_secs());
        self.report(Severity::Error, None, text);
        if advance && !was_up {
            self.remote = (self.remote + 1) % self.params.remotes.len().max(1);
        }
        self.state = State::Waiting(self.now + wait);
    }

    fn open_failed(&mut self, failure: OpenFailure) {
        if self.state != State::Opening {
            return;
        }
        match failure {
            OpenFailure::UnknownName(text) => {
                if self.unknown.0 == 0 {
                    self.unknown.1 = self.now;
                }
                self.unknown.0 = self.unknown.0.saturating_add(1);
                let all = self.unknown.0 >= self.params.remotes.len();
                let over = |limit| self.now - self.unknown.1 >= limit;
                if all && !self.ever_opened && self.params.resolve_timeout.is_some_and(over) {
                    return self.end(Ended::Failed(format!(
                        "{text}; check the remote line, or write \"resolv-retry infinite\" to keep trying"
                    )));
                }
                self.try_again(&text, true);
            }
            OpenFailure::Unreachable(text) | OpenFailure::NeedsCredentials { text, .. } => {
                self.unknown.0 = 0;
                self.try_again(&text, true);
            }
        }
    }

    fn closed(&mut self, path: Path, reason: &str) {
        if self.path != Some(path) {
            self.unproven.remove(&path);
            return;
        }
        if self.state == State::Running {
            self.loses_by("connection-reset");
            self.lose(&format!("the connection broke: {reason}"), false);
        }
    }

    /// Ends as the file says, which is no failure.
    fn be_over(&mut self, why: &str, signal: &'static str) {
        self.signal = signal;
        self.report(Severity::Info, None, format!("{why}; this ends the tunnel"));
        self.shut_down();
    }

    /// Tells the peer, as far as it can be told, and ends.
    fn shut_down(&mut self) {
        let exit_notify = match self.params.remotes.get(self.remote) {
            Some(remote) => remote.exit_notify,
            None => self.params.exit_notify,
        };
        let by_udp = self.path.is_some_and(|path| path.transport() == Transport::Udp);
        if exit_notify && by_udp {
            self.data(DataEvent::Inject { peer: PeerId::SERVER, payload: data_message::occ_exit() });
        }
        self.end(Ended::Shutdown);
    }

    fn end(&mut self, ended: Ended) {
        if self.state == State::Ended {
            return;
        }
        self.come_down("the tunnel ends");
        self.data(DataEvent::RemovePeer(PeerId::SERVER));
        let paths = self.path.into_iter().chain(self.unproven.iter().map(|(path, ())| *path));
        self.events.extend(paths.map(|path| Event::Close { path }));
        self.path = None;
        self.unproven.clear();
        self.events.extend([Event::Down, Event::Ended(ended)]);
        self.state = State::Ended;
    }

    fn look_after_peer(&mut self) {
        if let Some(why) = self.lifetime.over(self.now) {
            return self.be_over(&why, signal_of(&why));
        }
        if self.path.is_none() {
            return;
        }
        match self.liveness.poll(self.now) {
            Some(Due::Ping) => {
                let payload = data_message::PING.to_vec();
                self.data(DataEvent::Inject { peer: PeerId::SERVER, payload });
            }
            Some(Due::Timeout) => {
                // An unauthenticated connection, and its silence, ends nothing.
                let exits = self.liveness.exits() && (self.up.is_some() || !self.params.waits());
                let directive = if exits { "ping-exit" } else { "ping-restart" };
                let seconds = self.liveness.timeout().as_secs();
                let reason = format!("nothing heard from the other end for {seconds} s ({directive})");
                if exits {
                    return self.be_over(&reason, "ping-exit");
                }
                self.loses_by("ping-restart");
                self.lose(&reason, true);
                self.forgive();
            }
            None => {}
        }
    }
}

impl Protocol for StaticTunnel {
    type Request = Request;
    type Reply = Reply;
    type Detail = PeerDetail;
    type Codec = Codec;

    fn handle_datagram(&mut self, now: Instant, _: Path, _: &[u8]) -> Result<(), Rejected> {
        self.now = now;
        Err(Rejected::Unexpected("with a static key all datagrams are data"))
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        self.now = now;
        match command {
            Command::Opened { path } => self.opened(path),
            Command::OpenFailed { remote, failure } if remote == self.remote => self.open_failed(failure),
            Command::Closed { path, reason } => self.closed(path, &reason),
            Command::Shutdown => {
                self.signal = "sigterm";
                self.shut_down();
            }
            Command::Restart if self.state == State::Running => {
                self.signal = "sigusr1";
                self.lose("told to restart", false);
            }
            Command::NotUp { reason } => self.end(Ended::Failed(reason)),
            Command::OpenFailed { .. }
            | Command::SocketBound { .. }
            | Command::Prepared { .. }
            | Command::Restart
            | Command::Rekey { .. }
            | Command::Disconnect { .. }
            | Command::LeasesMoved => {}
        }
    }

    fn handle_reply(&mut self, now: Instant, reply: Reply) {
        self.now = now;
        if let Reply::PeerAddresses(addresses) = reply {
            self.params.only_from = self.params.only_from.take().map(|_| addresses);
        }
    }

    fn handle_notice(&mut self, now: Instant, notice: Notice) {
        self.now = now;
        if self.state != State::Running {
            return;
        }
        match notice {
            Notice::Traffic { received, received_bytes, sent_bytes, message_bytes, activity, .. } => {
                self.liveness.traffic(&activity);
                self.heard |= received > std::mem::replace(&mut self.received, received);
                self.establish();
                let bytes = received_bytes.saturating_add(sent_bytes).saturating_sub(message_bytes);
                self.lifetime.traffic(activity.last_data().unwrap_or(now), bytes);
            }
            Notice::FirstOpened { .. } => {
                self.heard = true;
                self.establish();
            }
            Notice::Moved { path, .. } => self.moved(path),
            Notice::Message { payload, .. } => match data_message::classify(&payload) {
                DataMessage::OccExit => {
                    self.signal = "remote-exit";
                    self.lose("the other end left (exit notice)", false);
                }
                DataMessage::OccRequest => self.tell_options(),
                _ => {}
            },
            // Its peer has no staging.
            Notice::Wanted { .. } => {}
            // The numbers of packets run out: they begin again, later.
            Notice::LimitNear { .. } => {
                self.begin();
                if self.seals {
                    self.activate();
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        match self.state {
            State::Waiting(until) if now >= until => self.open(),
            State::Running => self.look_after_peer(),
            State::Waiting(_) | State::Opening | State::Ended => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Waiting(until) => Some(until),
            State::Running => {
                let alive = self.path.and_then(|_| self.liveness.poll_timeout());
                earliest(self.lifetime.poll_timeout(), alive)
            }
            State::Opening | State::Ended => None,
        }
    }

    fn poll_transmit(&mut self, _: &mut Vec<u8>) -> Option<Path> {
        None
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn peers(&self) -> Vec<(PeerId, PeerInfo)> {
        self.peer_info().map(|info| (PeerId::SERVER, info)).into_iter().collect()
    }

    fn tables(&self) -> Vec<TableUsage> {
        if self.params.waits() { vec![self.unproven.usage()] } else { Vec::new() }
    }
}
