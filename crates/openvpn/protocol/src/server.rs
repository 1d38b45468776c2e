//! An OpenVPN server: admits clients, gives them addresses and settings, renews their keys.

mod admission;
mod authentication;
mod connect;
mod cookie;
mod establish;
mod evict;
mod exit;
mod half_open;
mod limits;
mod log_budget;
mod peer;
mod pre_auth;
mod pre_check;
mod push_update;
mod reconfigure;
mod removal;
mod reports;
mod revocation;
mod roaming;
mod settings;
mod shared_pool;
mod silent;
#[cfg(test)]
mod tests;
mod tls_crypt_v2_verify;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use adit_core::{
    Command, EndpointPool, HandshakeStage, Instant, IpNet, Notice, Path, PeerId, PoolRanges, Protocol,
    Rejected, Severity, SharedPool, TableUsage,
};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use zeroize::Zeroizing;

use crate::codec::Codec;
use crate::log_rate_limit::LogRateLimit;
use crate::outbox::Outbox;
use crate::params::{ControlParams, ServerParams};
use crate::request::{Event, PeerDetail, PeerInfo, Reply, Request, ScriptId};
use crate::wire::{Header, Opcode, Sid};
use half_open::HalfOpen;
use log_budget::LogBudget;
use peer::{Peer, Verdict};
use pre_auth::PreAuth;
pub use push_update::PushUpdateError;
use reconfigure::AtRestart;
use silent::SilentConnections;
use tls_crypt_v2_verify::TlsCryptV2Verify;

/// An OpenVPN server as a state machine.
pub struct Server {
    params: Arc<ServerParams>,
    control: Arc<ControlParams>,
    rng: ChaCha20Rng,
    now: Instant,
    peers: BTreeMap<PeerId, Peer>,
    /// Control packets find their peer by where they come from and by the session id they carry.
    by_sid: BTreeMap<(Path, Sid), PeerId>,
    /// The clients in the middle of their first handshake.
    half_open: HalfOpen,
    /// How many clients are up.
    up: usize,
    /// Clients that are up by their names, unless a name may be there twice (`duplicate-cn`).
    by_name: BTreeMap<String, PeerId>,
    deadlines: BTreeSet<(Instant, PeerId)>,
    deadline_of: BTreeMap<PeerId, Instant>,
    /// Peers that may have something to send.
    talkative: VecDeque<PeerId>,
    /// Last words of peers that are gone, and the events once they are sent.
    last_words: VecDeque<(Path, Vec<u8>)>,
    after_words: Vec<Event>,
    /// The only outer addresses that peers may have; `None`: any.
    only_from: Option<Vec<IpAddr>>,
    silent: SilentConnections,
    log_budget: LogBudget,
    /// The budget of log lines about datagrams that do not verify, for programs that look for these lines.
    unauthentic_budget: LogBudget,
    /// Limits the lines about scripts of clients that have left.
    unfinished_scripts: LogRateLimit,
    /// The tables of which the log said that they make room, and when it may say so again.
    told_full: BTreeMap<&'static str, Instant>,
    pre_auth: PreAuth,
    tls_crypt_v2_verify: TlsCryptV2Verify,
    pool: EndpointPool,
    at_restart: Option<AtRestart>,
    next_peer: u32,
    /// Clients that began a handshake; numbers them for scripts.
    admitted: u64,
    events: Outbox,
    exit_until: Option<Instant>,
    ended: bool,
    /// Why it ends, in the word of scripts, if no order ended it.
    signal: Option<&'static str>,
    /// Addresses for which `learn-address` ran and that no client has now; a client that takes over from its own
    /// earlier connection has them again in a moment. Each with the id of the script that would report the end of the
    /// address.
    vacated: BTreeMap<IpNet, (ScriptId, IpAddr)>,
}

/// A secret for the cookies.
fn secret(rng: &mut ChaCha20Rng) -> Zeroizing<[u8; 32]> {
    let mut secret = Zeroizing::new([0; 32]);
    rng.fill_bytes(secret.as_mut_slice());
    secret
}

impl Server {
    /// A server that starts at `now`. `seed` is 32 bytes of secret randomness, used for nothing else.
    pub fn new(params: ServerParams, now: Instant, seed: [u8; 32]) -> Self {
        Server::with_pool(params, &SharedPool::default(), now, seed)
    }

    /// A server that shares the pool of its tunnel with other endpoints. Their ranges must be those of `params`, and one
    /// name is one client wherever it comes in, unless a name may be there twice (`duplicate-cn`).
    pub fn with_pool(params: ServerParams, pool: &SharedPool, now: Instant, seed: [u8; 32]) -> Self {
        let facts = settings::facts(&params).map(|facts| Event::Request(Request::TunnelFacts(facts)));
        let mut events = Outbox::default();
        events.extend(facts.into_iter().chain([Event::Up(settings::tunnel(&params))]));
        let mut rng = ChaCha20Rng::from_seed(seed);
        Server {
            pre_auth: PreAuth::new(&params, secret(&mut rng)),
            control: Arc::new(params.control.clone()),
            rng,
            now,
            peers: BTreeMap::new(),
            by_sid: BTreeMap::new(),
            half_open: HalfOpen::new(params.max_clients),
            up: 0,
            by_name: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            deadline_of: BTreeMap::new(),
            talkative: VecDeque::new(),
            last_words: VecDeque::new(),
            after_words: Vec::new(),
            only_from: params.point_to_point.as_ref().and_then(|point| point.only_from.clone()),
            silent: SilentConnections::new(),
            log_budget: LogBudget::new("lines of the log about unauthenticated peers, a minute"),
            unauthentic_budget: LogBudget::new(
                "lines of the log about datagrams that do not verify, a minute",
            ),
            unfinished_scripts: LogRateLimit::default(),
            told_full: BTreeMap::new(),
            tls_crypt_v2_verify: TlsCryptV2Verify::new(),
            pool: pool.join(PoolRanges { v4: params.pool4, v6: params.pool6 }, &params.per_client.remembered),
            at_restart: None,
            next_peer: 0,
            admitted: 0,
            events,
            exit_until: None,
            ended: false,
            signal: None,
            vacated: BTreeMap::new(),
            params: Arc::new(params),
        }
    }

    fn set_now(&mut self, now: Instant) {
        self.now = now;
        self.events.set_now(now);
    }

    /// Gives scripts the facts of the start again.
    fn start_over(&mut self, signal: &'static str) {
        if let Some(facts) = settings::facts(&self.params) {
            let requests = [Request::Signal(signal), Request::TunnelFacts(facts)];
            self.events.extend(requests.map(Event::Request));
        }
    }

    /// Clients in the middle of their first handshake.
    pub fn half_open(&self) -> usize {
        self.half_open.len()
    }

    /// Clients whose control packets come along this path.
    fn at(&self, path: Path) -> impl Iterator<Item = PeerId> {
        self.by_sid.range((path, Sid([0; 8]))..=(path, Sid([0xff; 8]))).map(|(_, id)| *id)
    }

    /// The peer whose id in the data plane this is.
    fn by_data_id(&self, id: PeerId) -> PeerId {
        match self.params.point_to_point {
            Some(_) => self.peers.iter().find(|(_, peer)| peer.is_up()).map_or(id, |(id, _)| *id),
            None => id,
        }
    }

    /// Works through the events of a peer, and notes when it wants attention again.
    fn settle(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let verdict = peer.settle(self.now, &mut self.events);
        let (path, lines, half_open_state) = (peer.path(), peer.take_lines(), peer.half_open_state());
        self.report_lines(path, lines);
        if let Some(half_open_state) = half_open_state
            && let Some(evicted) = self.half_open.note(path, id, half_open_state)
        {
            self.evict(evicted);
        }
        match verdict {
            Verdict::Continue => {}
            Verdict::Authenticated => self.request_client_config(id),
            Verdict::Remove { reason, severity } => {
                let starts_over = self.peers.get(&id).is_some_and(Peer::starts_over);
                self.remove(id, &reason, severity);
                if starts_over {
                    self.start_over("ping-restart");
                }
                return;
            }
            Verdict::End { ended, signal } => {
                self.signal = Some(signal);
                return self.end(ended);
            }
        }
        self.reschedule(id);
    }

    /// The peer may have something to send, and its next deadline may be another.
    fn reschedule(&mut self, id: PeerId) {
        if self.peers.contains_key(&id) {
            self.talkative.push_back(id);
            self.note_deadline(id);
        }
    }

    fn note_deadline(&mut self, id: PeerId) {
        let deadline = self.peers.get(&id).and_then(Peer::poll_timeout);
        if self.deadline_of.get(&id).copied() == deadline {
            return;
        }
        self.unschedule(id);
        if let Some(at) = deadline {
            self.deadlines.insert((at, id));
            self.deadline_of.insert(id, at);
        }
    }

    fn unschedule(&mut self, id: PeerId) {
        if let Some(at) = self.deadline_of.remove(&id) {
            self.deadlines.remove(&(at, id));
        }
    }

    fn take_datagram(&mut self, path: Path, datagram: &[u8]) -> Result<(), Rejected> {
        let id = match self.peer_of(path, datagram) {
            Ok(Some(id)) => id,
            Ok(None) => return Ok(()),
            Err(why) => {
                // A client begins with a valid packet. When there is no room for it now, it sends it again.
                if self.silent.is_silent(path) && !matches!(why, Rejected::Limited(_)) {
                    self.close_unused(path);
                }
                return Err(why);
            }
        };
        let Some(peer) = self.peers.get_mut(&id) else {
            return Err(Rejected::Unexpected("no such control channel"));
        };
        let result = peer.handle_datagram(self.now, datagram);
        self.settle(id);
        self.check_exit();
        result
    }

    /// The peer that a datagram belongs to. `None`: it was answered, and that is all for now.
    fn peer_of(&mut self, path: Path, datagram: &[u8]) -> Result<Option<PeerId>, Rejected> {
        // No answer can be sent to port 0 (RFC 768: the source port is zero if it is not used).
        if path.remote().port() == 0 {
            return Err(Rejected::Unexpected("source port 0"));
        }
        let sid = peek_sid(datagram).ok_or(Rejected::Malformed("shorter than an opcode and a session id"))?;
        match self.by_sid.get(&(path, sid)) {
            Some(id) => Ok(Some(*id)),
            None => self.admit((path, sid), datagram),
        }
    }
}

/// Session id of a control packet, readable in every wrapping.
fn peek_sid(datagram: &[u8]) -> Option<Sid> {
    datagram.get(1..9)?.try_into().ok().map(Sid)
}

impl Protocol for Server {
    type Request = Request;
    type Reply = Reply;
    type Detail = PeerDetail;
    type Codec = Codec;

    fn handle_datagram(&mut self, now: Instant, path: Path, datagram: &[u8]) -> Result<(), Rejected> {
        self.set_now(now);
        let result = self.take_datagram(path, datagram);
        if matches!(result, Err(Rejected::Unauthentic(_))) {
            self.tell_unauthentic(path);
        }
        result
    }

    fn stage_of(&self, path: Path, datagram: &[u8]) -> HandshakeStage {
        let header = datagram.first().and_then(|byte| Header::from_byte(*byte));
        match (header.map(|header| header.opcode), peek_sid(datagram)) {
            (Some(Opcode::Control | Opcode::Ack | Opcode::ControlWkc | Opcode::SoftReset), Some(sid)) => {
                match self.by_sid.contains_key(&(path, sid)) {
                    true => HandshakeStage::Established,
                    false => HandshakeStage::Returning,
                }
            }
            _ => HandshakeStage::First,
        }
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        self.set_now(now);
        match command {
            Command::Opened { path } => self.opened(path),
            Command::Closed { path, reason } => self.closed(path, &reason),
            Command::Shutdown => self.shut_down(),
            Command::Rekey { peer } => {
                let id = self.by_data_id(peer);
                if let Some(peer) = self.peers.get_mut(&id) {
                    peer.rekey(now);
                }
                self.settle(id);
            }
            Command::Disconnect { peer } => {
                self.remove(self.by_data_id(peer), "disconnected on request", Severity::Info)
            }
            Command::Restart => {
                let ids: Vec<PeerId> = self.peers.keys().copied().collect();
                for id in ids {
                    self.remove(id, "told to restart", Severity::Info);
                }
                // Else a late packet could begin one of them again, under the same ids as before.
                self.tls_crypt_v2_verify.clear(&mut self.events);
                self.pre_auth.renew(&self.params, secret(&mut self.rng));
                self.take_what_waits();
                self.start_over("sigusr1");
            }
            Command::LeasesMoved => self.follow_pool(),
            Command::PathMtu { remote, mtu } => {
                let peers = self.peers.values_mut();
                peers.for_each(|peer| peer.take_path_mtu(remote, mtu, &mut self.events));
            }
            // Its routes may fail one by one, which the driver reports.
            Command::NotUp { .. }
            | Command::OpenFailed { .. }
            | Command::Prepared { .. }
            | Command::MtuChanged { .. }
            | Command::RouteChanged { .. }
            | Command::SocketBound { .. } => {}
        }
    }

    fn handle_reply(&mut self, now: Instant, reply: Reply) {
        self.set_now(now);
        match reply {
            Reply::PeerSettings { peer, name, settings } => self.settings_came(peer, &name, settings),
            Reply::ScriptDone { id, outcome } => self.script_done(id, &outcome),
            Reply::ClientDecision { client, key, decision } => self.decided(client, key, &decision),
            Reply::KillClient { client, message } => self.kill(now, client, &message),
            // A peer that may have any address is known by no name.
            Reply::PeerAddresses(addresses) => {
                self.only_from = self.only_from.take().map(|_| addresses);
            }
            Reply::RevocationList(content) => self.take_revocations(&content),
            // For clients.
            Reply::Credentials(_)
            | Reply::ChallengeResponse(_)
            | Reply::GoOn { .. }
            | Reply::Remote(_)
            | Reply::ServerResponse(_)
            | Reply::ForgetPasswords
            | Reply::ProxyCredentials(_)
            | Reply::TlsStepDone(_) => {}
        }
    }

    fn handle_notice(&mut self, now: Instant, notice: Notice) {
        self.set_now(now);
        let id = self.by_data_id(notice.peer());
        if let Notice::Moved { path, .. } = notice {
            self.roamed(id, path);
        } else if let Some(peer) = self.peers.get_mut(&id) {
            peer.handle_notice(now, &notice);
        }
        self.settle(id);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.set_now(now);
        // Each once: the datagrams of a peer stay due until it is polled for them.
        let due: Vec<PeerId> =
            self.deadlines.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id).collect();
        for id in due {
            if let Some(peer) = self.peers.get_mut(&id) {
                peer.handle_timeout(now, &mut self.events);
            }
            self.settle(id);
        }
        self.close_silent_connections();
        self.report_dropped_lines();
        self.check_exit();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.ended {
            return None;
        }
        let peers = self.deadlines.first().map(|(at, _)| *at);
        let others = [self.silent.poll_timeout(), self.log_budget.poll_timeout(), self.exit_until];
        [peers].into_iter().chain(others).flatten().min()
    }

    fn poll_transmit(&mut self, buf: &mut Vec<u8>) -> Option<Path> {
        if let Some((path, datagram)) = self.last_words.pop_front().or_else(|| self.pre_auth.poll_answer()) {
            buf.extend_from_slice(&datagram);
            return Some(path);
        }
        while let Some(id) = self.talkative.front().copied() {
            if let Some(peer) = self.peers.get_mut(&id)
                && peer.poll_transmit(self.now, buf)
            {
                return Some(peer.path());
            }
            self.talkative.pop_front();
            self.note_deadline(id);
        }
        None
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.forget_vacated();
        if self.last_words.is_empty() {
            self.events.extend(self.after_words.drain(..));
        }
        self.events.pop_front()
    }

    fn peers(&self) -> Vec<(PeerId, PeerInfo)> {
        self.peers.values().filter_map(|peer| Some((peer.data_id(), peer.info()?))).collect()
    }

    fn tables(&self) -> Vec<TableUsage> {
        self.table_usage()
    }
}

#[cfg(any(test, feature = "testing"))]
impl Server {
    /// Sends a control message of any text to all clients, as a server that keeps to no rule does.
    pub fn say(&mut self, now: Instant, text: &str) {
        self.set_now(now);
        let ids: Vec<PeerId> = self.peers.keys().copied().collect();
        for id in ids {
            self.peers.get_mut(&id).into_iter().for_each(|peer| peer.send_message(now, text));
            self.reschedule(id);
        }
    }
}
