//! A tunnel with a static key (`secret`): there is no handshake, and all datagrams are data.
//!
//! The protocol has to find out where the one peer is, whether it is there, and when the packet ids of a session begin:
//! each session under the same keys begins at a later time than the one before (OpenVPN packet_id.h, the long form).

mod attempt;
mod facts;
mod path;
mod reconfigure;
mod session;

use std::net::IpAddr;

use adit_core::{
    Command, Ended, Instant, Notice, Path, PeerId, PeerOrder, PrefixShares, PrefixTable, Protocol, Rejected,
    Report, Severity, TableUsage, Transport, TunnelSettings,
};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use zeroize::Zeroizing;

use self::path::NOWHERE;
use crate::codec::Codec;
use crate::data_message::{self, DataMessage};
use crate::key_state::earliest;
use crate::lifetime::{Lifetime, signal_of};
use crate::liveness::{Due, Liveness};
use crate::occ::static_options_string;
use crate::outbox::Outbox;
use crate::params::StaticParams;
use crate::request::{ConnectionFailure, DataEvent, Event, PeerDetail, PeerInfo, Reply, Request};

/// Accepted connections on which the peer was not heard, besides the present one. Unauthenticated peers can open them.
const UNPROVEN: PrefixShares = PrefixShares::new(8, 64);

/// The state of the tunnel.
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
/// A tunnel with remotes wants a path at once: drain [`Protocol::poll_event`] after construction.
pub struct StaticTunnel {
    params: StaticParams,
    /// The settings that hold when the peer is looked or waited for anew.
    next: Option<Box<StaticParams>>,
    iv_key: Zeroizing<[u8; 16]>,
    now: Instant,
    state: State,
    /// Where the peer is reached.
    path: Option<Path>,
    /// The MTU of the path, where the system knows it.
    path_mtu: Option<u16>,
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
    /// Addresses that refused datagrams, one after the other, in this attempt.
    refused_addresses: u32,
    /// How many remotes in a row have names that do not exist, and since when.
    unknown: (usize, Instant),
    ever_opened: bool,
    /// The log has heard that the peer is where it may not be.
    told_elsewhere: bool,
    /// Why the present path or connection ends, in the word of scripts; empty if there is no word for it.
    signal: &'static str,
    events: Outbox,
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
            path_mtu: None,
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
            refused_addresses: 0,
            unknown: (0, now),
            ever_opened: false,
            told_elsewhere: false,
            signal: "",
            events: Outbox::default(),
            next: None,
            params,
        };
        tunnel.reach(NOWHERE);
        tunnel.begin();
        if tunnel.state == State::Running {
            match tunnel.params.waits() {
                true => tunnel.set_up_device(None),
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
            ..TunnelSettings::default()
        }
    }

    /// The device can be set up: `server` is where the other end is, if we have gone there.
    fn set_up_device(&mut self, server: Option<IpAddr>) {
        let settings = self.settings(server);
        self.events.extend(self.facts(&settings));
        self.events.push_back(Event::Up(settings));
    }

    fn set_now(&mut self, now: Instant) {
        self.now = now;
        self.events.set_now(now);
    }

    /// Logs an event that happens once in an attempt to connect, or in the time of a peer.
    fn report(&mut self, severity: Severity, path: Option<Path>, text: String) {
        self.events.own_line(Report { severity, path, text });
    }

    fn data(&mut self, event: DataEvent) {
        self.events.push_back(Event::Data(event));
    }

    /// The peer asks for the options of our file, to warn of differences in its own.
    fn tell_options(&mut self) {
        let Some(path) = self.path else { return };
        let payload = data_message::occ_reply(&static_options_string(&self.params, path.transport()));
        self.data(DataEvent::Inject { peer: PeerId::SERVER, payload });
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

    /// Sets the reason of a loss for scripts. An end that waits starts over only for a peer that was heard: any host
    /// can open connections, and close them or be silent.
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

    fn closed(&mut self, path: Path, reason: &str) {
        if self.path != Some(path) {
            self.unproven.remove(&path);
            return;
        }
        match path.transport() {
            _ if self.state != State::Running => {}
            Transport::Udp | Transport::Ip(_) => self.address_refused(path, reason),
            Transport::Tcp => {
                self.loses_by("connection-reset");
                self.lose(&format!("the connection broke: {reason}"), false);
            }
        }
    }

    /// Ends as the file says, which is no failure.
    fn be_over(&mut self, why: &str, signal: &'static str) {
        self.signal = signal;
        self.report(Severity::Info, None, format!("{why}; this ends the tunnel"));
        self.shut_down();
    }

    /// Sends the peer the exit notice, if the tunnel can carry it, and ends.
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
        self.data(DataEvent::Peer(PeerOrder::Remove(PeerId::SERVER)));
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
                if self.up.is_some() || !self.params.waits() {
                    let failure = ConnectionFailure::Silent { name: None, exits };
                    self.events.push_back(Event::Request(Request::ConnectionFailed(failure)));
                }
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
        self.set_now(now);
        Err(Rejected::Unexpected("with a static key all datagrams are data"))
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        self.set_now(now);
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
            Command::PathMtu { remote, mtu } => self.take_path_mtu(remote, mtu),
            Command::OpenFailed { .. }
            | Command::SocketBound { .. }
            | Command::Prepared { .. }
            | Command::Restart
            | Command::Rekey { .. }
            | Command::Disconnect { .. }
            | Command::MtuChanged { .. }
            | Command::RouteChanged { .. }
            | Command::LeasesMoved => {}
        }
    }

    fn handle_reply(&mut self, now: Instant, reply: Reply) {
        self.set_now(now);
        if let Reply::PeerAddresses(addresses) = reply {
            self.params.only_from = self.params.only_from.take().map(|_| addresses);
        }
    }

    fn handle_notice(&mut self, now: Instant, notice: Notice) {
        self.set_now(now);
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
            Notice::Moved { path, .. } => self.roamed(path),
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
        self.set_now(now);
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
