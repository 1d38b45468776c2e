//! The machine: one endpoint with its IKE SAs.

use std::collections::{BTreeMap, BTreeSet};

use adit_core::{
    Command, Ended, HandshakeStage, Instant, Notice, Path, PeerId, PeerInfo, PrefixTable, Protocol, Rejected,
    SessionId, Severity, TableUsage,
};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore as _, SeedableRng as _};
use thiserror::Error;

use super::context::{Context, Effect, PeerState};
use super::cookie::Cookies;
use super::params::{Codec, Connection, Limits, Params, PeerDetail};
use super::sa::{IkeSa, Phase};
use super::shared::{Event, MARKER, Shared};
use crate::wire::{ExchangeType, Header, Message, Spi};

/// Most connections.
const MAX_CONNECTIONS: usize = 1 << 16;
/// The reason why parameters were refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadParams {
    /// There are too many connections.
    #[error("{0} connections, allowed are 65536")]
    Count(usize),
    /// A connection has no proposals, or no selectors.
    #[error("connection {0}: proposals for IKE and for ESP, and selectors of both ends are needed")]
    Empty(String),
    /// A connection has additional key exchanges.
    #[error("connection {0}: additional key exchanges (ke1_ to ke7_) are not supported yet; leave them out")]
    Additional(String),
    /// Two connections have the same identities.
    #[error("connections {0} and {1} have the same identities")]
    Identities(String, String),
}

/// One end of IKE SAs. It initiates IKE SAs to peers whose address it knows, and answers those that any peer initiates.
pub struct Endpoint {
    pub(super) shared: Shared,
    pub(super) connections: Vec<Connection>,
    pub(super) peers: Vec<PeerState>,
    pub(super) limits: Limits,
    pub(super) cookies: Cookies,
    pub(super) sas: BTreeMap<Spi, IkeSa>,
    /// IKE SAs of peers that have not authenticated, with the SPI and the path of the first request.
    pub(super) half_open: PrefixTable<Spi, (Spi, Path)>,
    pub(super) first_requests: BTreeMap<(Spi, Path), Spi>,
    /// The times when IKE SAs are due.
    pub(super) schedule: BTreeSet<(Instant, Spi)>,
    pub(super) due: BTreeMap<Spi, Instant>,
    pub(super) has_ended: bool,
}

impl Endpoint {
    /// An endpoint that starts at `now`. `seed` is 32 bytes of secret randomness, used for nothing else.
    ///
    /// # Errors
    /// There are too many connections, or a connection, which the error names, cannot be used.
    pub fn new(params: Params, now: Instant, seed: [u8; 32]) -> Result<Self, BadParams> {
        check(&params.connections)?;
        let mut rng = ChaCha20Rng::from_seed(seed);
        let cookies = Cookies::new(|secret| rng.fill_bytes(secret));
        let mut shared = Shared::new(now, rng, params.sockets);
        let initiate_at = |connection: &Connection| connection.remote.map(|_| now);
        let state = |connection| PeerState { initiate_at: initiate_at(connection), ..PeerState::default() };
        let peers = params.connections.iter().map(state).collect();
        params.tunnel.into_iter().for_each(|tunnel| shared.emit(Event::Up(tunnel)));
        Ok(Endpoint {
            shared,
            connections: params.connections,
            peers,
            limits: params.limits,
            cookies,
            sas: BTreeMap::new(),
            half_open: PrefixTable::new("half-open IKE SAs", params.limits.half_open),
            first_requests: BTreeMap::new(),
            schedule: BTreeSet::new(),
            due: BTreeMap::new(),
            has_ended: false,
        })
    }

    /// Runs `act` with the context and the IKE SA `spi`, and carries out the orders of that IKE SA.
    pub(super) fn run<T>(
        &mut self,
        spi: Option<Spi>,
        act: impl FnOnce(&mut Context<'_>, Option<&mut IkeSa>) -> T,
    ) -> T {
        let mut effects = Vec::new();
        let mut cx = Context {
            shared: &mut self.shared,
            connections: &self.connections,
            peers: &mut self.peers,
            effects: &mut effects,
        };
        let result = act(&mut cx, spi.and_then(|spi| self.sas.get_mut(&spi)));
        if let Some(spi) = spi {
            effects.into_iter().for_each(|effect| self.carry_out(spi, effect));
            self.announce(spi);
            self.set_due(spi);
        }
        result
    }

    pub(super) fn with_sa(&mut self, spi: Spi, act: impl FnOnce(&mut IkeSa, &mut Context<'_>)) {
        self.run(Some(spi), |cx, sa| {
            if let Some(sa) = sa {
                act(sa, cx);
            }
        });
    }

    pub(super) fn set_due(&mut self, spi: Spi) {
        let mut effects = Vec::new();
        let cx = Context {
            shared: &mut self.shared,
            connections: &self.connections,
            peers: &mut self.peers,
            effects: &mut effects,
        };
        let due = self.sas.get(&spi).and_then(|sa| sa.timeout(&cx));
        let before = match due {
            Some(due) => self.due.insert(spi, due),
            None => self.due.remove(&spi),
        };
        before.into_iter().for_each(|before| {
            self.schedule.remove(&(before, spi));
        });
        self.schedule.extend(due.map(|due| (due, spi)));
    }

    fn carry_out(&mut self, spi: Spi, effect: Effect) {
        match effect {
            Effect::Add(sa) => self.add(*sa),
            Effect::Established { is_initial_contact } => self.established(spi, is_initial_contact),
            Effect::MoveChildren(to) => self.move_children(spi, to),
            Effect::Expire(redundant) => self.expire(redundant),
            Effect::Down(reason) => self.down(spi, &reason),
            Effect::Remove(reason) => self.remove(spi, &reason),
        }
    }

    pub(super) fn add(&mut self, sa: IkeSa) {
        let spi = sa.own_spi;
        self.sas.insert(spi, sa);
        self.set_due(spi);
    }

    /// A child SA is there: the peer is up.
    fn announce(&mut self, spi: Spi) {
        let Some(sa) = self.sas.get(&spi).filter(|sa| !sa.children.is_empty()) else { return };
        let Some(state) = sa.connection.and_then(|index| self.peers.get_mut(index)) else { return };
        if state.is_up || state.sa != Some(spi) {
            return;
        }
        (state.is_up, state.since) = (true, self.shared.now);
        if let (Some(peer), Some(info)) = (sa.peer(), sa.info(&self.connections, &self.peers)) {
            self.shared.emit(Event::PeerUp { peer, info: Box::new(info) });
        }
    }

    fn initiate(&mut self, index: usize) {
        let Some(state) = self.peers.get_mut(index) else { return };
        state.initiate_at = None;
        let Some(remote) = self.connections.get(index).and_then(|connection| connection.remote) else {
            return;
        };
        let sockets = self.shared.sockets;
        let plain = sockets.plain.path_to(remote).filter(|_| remote.port() != super::init::MARKED_PORT);
        let Some(path) = plain.or_else(|| sockets.marked.path_to(remote)) else {
            return self.shared.report(Severity::Error, None, format!("there is no socket for {remote}"));
        };
        let sa = self.run(None, |cx, _| IkeSa::initiate(cx, index, path));
        sa.into_iter().for_each(|sa| self.add(sa));
    }

    fn handle_message(&mut self, path: Path, datagram: &[u8]) -> Result<(), Rejected> {
        let message = Message::decode(datagram).map_err(|_| Rejected::Malformed("no IKE message"))?;
        let header = &message.header;
        let is_first = header.exchange == ExchangeType::IKE_SA_INIT;
        if is_first && !header.flags.is_response {
            if header.responder_spi != Spi::ZERO {
                return Err(Rejected::Unexpected("a first request with two SPIs"));
            }
            return self.handle_first_request(path, datagram, &message);
        }
        let (own, peer) = own_and_peer(header);
        let unknown = Rejected::Unexpected("an IKE SA that is not known");
        let sa = self.sas.get(&own).ok_or(unknown)?;
        if is_first {
            if !sa.is_initiator || header.flags.is_initiator {
                return Err(unknown);
            }
            return self.run(Some(own), |cx, sa| {
                sa.map_or(Err(unknown), |sa| sa.handle_init_response(cx, path, datagram, &message))
            });
        }
        if sa.peer_spi != peer {
            return Err(unknown);
        }
        self.run(Some(own), |cx, sa| {
            sa.map_or(Err(unknown), |sa| sa.handle_protected(cx, path, datagram, &message))
        })
    }

    fn current(&self, peer: PeerId) -> Option<Spi> {
        self.peers.get(peer.0 as usize)?.sa
    }

    fn close_all(&mut self, reason: &str) {
        let all: Vec<Spi> = self.sas.keys().copied().collect();
        for spi in all {
            self.with_sa(spi, |sa, cx| {
                if !matches!(sa.phase, Phase::Closing) {
                    sa.close(cx, reason);
                }
            });
        }
    }

    fn disconnect(&mut self, peer: PeerId) {
        let Some(spi) = self.current(peer) else { return };
        self.with_sa(spi, |sa, cx| sa.close(cx, "disconnected"));
        if let Some(state) = self.peers.get_mut(peer.0 as usize) {
            state.initiate_at = None;
        }
    }

    fn shut_down(&mut self) {
        self.has_ended = true;
        self.peers.iter_mut().for_each(|state| state.initiate_at = None);
        self.close_all("shut down");
        self.shared.emit(Event::Ended(Ended::Shutdown));
    }

    /// The child SA of a session.
    fn with_session(
        &mut self,
        peer: PeerId,
        session: SessionId,
        act: impl FnOnce(&mut IkeSa, &mut Context<'_>, u32),
    ) {
        let (Some(spi), Ok(child)) = (self.current(peer), u32::try_from(session.0)) else { return };
        self.with_sa(spi, |sa, cx| {
            if sa.children.contains_key(&child) {
                act(sa, cx, child);
            }
        });
    }
}

/// This end's SPI in a message of the peer, and the peer's.
const fn own_and_peer(header: &Header) -> (Spi, Spi) {
    if header.flags.is_initiator {
        (header.responder_spi, header.initiator_spi)
    } else {
        (header.initiator_spi, header.responder_spi)
    }
}

fn check(connections: &[Connection]) -> Result<(), BadParams> {
    if connections.len() > MAX_CONNECTIONS {
        return Err(BadParams::Count(connections.len()));
    }
    let mut identities = BTreeMap::new();
    for connection in connections {
        let Connection { name, ike, esp, local, remote_traffic, .. } = connection;
        if ike.is_empty() || esp.is_empty() || local.is_empty() || remote_traffic.is_empty() {
            return Err(BadParams::Empty(name.clone()));
        }
        if ike.iter().chain(esp).any(|own| own.has_additional()) {
            return Err(BadParams::Additional(name.clone()));
        }
        if let Some(other) = identities.insert((&connection.local_id, &connection.remote_id), name) {
            return Err(BadParams::Identities(other.clone(), name.clone()));
        }
    }
    Ok(())
}

impl Protocol for Endpoint {
    type Request = ();
    type Reply = ();
    type Detail = PeerDetail;
    type Codec = Codec;

    fn handle_datagram(&mut self, now: Instant, path: Path, datagram: &[u8]) -> Result<(), Rejected> {
        self.shared.now = now;
        let message = if self.shared.sockets.is_marked(path) {
            datagram
                .strip_prefix(&MARKER)
                .ok_or(Rejected::Malformed("no marker in front of an IKE message"))?
        } else {
            datagram
        };
        self.handle_message(path, message)
    }

    fn stage_of(&self, path: Path, datagram: &[u8]) -> HandshakeStage {
        let message =
            if self.shared.sockets.is_marked(path) { datagram.get(MARKER.len()..) } else { Some(datagram) };
        let Some(Ok(header)) = message.map(Header::peek) else { return HandshakeStage::First };
        let is_request = header.exchange == ExchangeType::IKE_SA_INIT && !header.flags.is_response;
        let sa = self.sas.get(&own_and_peer(&header).0);
        match sa.map(|sa| &sa.phase) {
            Some(Phase::HalfOpen(_) | Phase::Failed) => HandshakeStage::Returning,
            Some(_) => HandshakeStage::Established,
            // A cookie is the first payload (RFC 7296 section 2.6).
            None if is_request && message.and_then(|message| message.get(16)) == Some(&41) => {
                HandshakeStage::Returning
            }
            None => HandshakeStage::First,
        }
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        self.shared.now = now;
        match command {
            Command::SocketBound { socket, local } => {
                self.shared.locals.insert(socket, local);
            }
            Command::Rekey { peer } => {
                let spi = self.current(peer);
                spi.into_iter().for_each(|spi| self.with_sa(spi, |sa, cx| sa.rekey_children(cx)));
            }
            Command::Disconnect { peer } => self.disconnect(peer),
            Command::Restart => {
                self.close_all("restarted");
                let again = |(state, connection): (&mut PeerState, &Connection)| {
                    state.initiate_at = connection.remote.map(|_| now);
                };
                self.peers.iter_mut().zip(&self.connections).for_each(again);
            }
            Command::Shutdown => self.shut_down(),
            Command::NotUp { reason } => self.shared.emit(Event::Ended(Ended::Failed(reason))),
            // There are no connections and no pool, and the system chooses source addresses where none is bound.
            Command::Opened { .. }
            | Command::OpenFailed { .. }
            | Command::Closed { .. }
            | Command::Prepared { .. }
            | Command::MtuChanged { .. }
            | Command::PathMtu { .. }
            | Command::RouteChanged { .. }
            | Command::LeasesMoved => {}
        }
    }

    fn handle_reply(&mut self, _now: Instant, (): ()) {}

    fn handle_notice(&mut self, now: Instant, notice: Notice) {
        self.shared.now = now;
        let peer = notice.peer();
        match notice {
            Notice::FirstOpened { session, .. } => {
                self.with_session(peer, session, |sa, cx, spi| sa.opened_first(cx, spi));
            }
            Notice::LimitNear { session, .. } => {
                self.with_session(peer, session, |sa, cx, spi| sa.rekey_child_now(cx, spi));
            }
            Notice::Traffic { activity, .. } => {
                let (Some(spi), Some(at)) = (self.current(peer), activity.received.last()) else { return };
                self.with_sa(spi, |sa, _| sa.heard = sa.heard.max(at));
            }
            Notice::Moved { path, .. } => {
                let spi = self.current(peer);
                spi.into_iter().for_each(|spi| self.with_sa(spi, |sa, cx| sa.moved(cx, path)));
            }
            Notice::Message { .. } | Notice::Wanted { .. } => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.shared.now = now;
        let is_due = |state: &PeerState| state.initiate_at.is_some_and(|at| at <= now);
        let initiating: Vec<usize> = self
            .peers
            .iter()
            .enumerate()
            .filter(|(_, state)| is_due(state))
            .map(|(index, _)| index)
            .collect();
        initiating.into_iter().for_each(|index| self.initiate(index));
        let due: Vec<Spi> =
            self.schedule.iter().take_while(|(at, _)| *at <= now).map(|(_, spi)| *spi).collect();
        due.into_iter().for_each(|spi| self.with_sa(spi, |sa, cx| sa.handle_timeout(cx)));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let initiating = self.peers.iter().filter_map(|state| state.initiate_at);
        initiating.chain(self.schedule.first().map(|(at, _)| *at)).min()
    }

    fn poll_transmit(&mut self, buf: &mut Vec<u8>) -> Option<Path> {
        let (path, datagram) = self.shared.next_transmit()?;
        buf.extend_from_slice(&datagram);
        Some(path)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.shared.next_event()
    }

    fn peers(&self) -> Vec<(PeerId, PeerInfo<PeerDetail>)> {
        let up = self.peers.iter().enumerate().filter(|(_, state)| state.is_up);
        let info = |(index, state): (usize, &PeerState)| {
            let info = self.sas.get(&state.sa?)?.info(&self.connections, &self.peers)?;
            Some((PeerId(index as u32), info))
        };
        up.filter_map(info).collect()
    }

    fn tables(&self) -> Vec<TableUsage> {
        vec![self.half_open.usage()]
    }
}
