//! The machine: one endpoint with its IKE SAs.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use adit_core::{
    Command, Ended, HandshakeStage, Instant, Notice, Path, PeerId, PeerInfo, PeerOrder, PrefixTable,
    Protocol, Rejected, SessionId, SharedPool, TableUsage,
};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore as _, SeedableRng as _};

use super::connections::Connections;
use super::context::{Context, Effect};
use super::cookie::Cookies;
use super::params::{BadParams, Codec, Limits, Params, PeerDetail, Request};
use super::peer::{Peers, child_of};
use super::pools::Pools;
use super::sa::{IkeSa, Phase};
use super::schedule::Schedule;
use super::shared::{DataEvent, Event, MARKER, Shared};
use crate::machine::Reply;
use crate::wire::{ExchangeType, Header, Message, Spi};

/// One end of IKE SAs. It initiates IKE SAs to peers whose address it knows, and answers those that any peer initiates.
pub struct Endpoint {
    pub(super) shared: Shared,
    pub(super) connections: Connections,
    pub(super) peers: Peers,
    pub(super) limits: Limits,
    pub(super) cookies: Cookies,
    /// The IKE SAs, each in an allocation of its own, so that the free places of the tree are small.
    pub(super) sas: BTreeMap<Spi, Box<IkeSa>>,
    /// IKE SAs of peers that have not authenticated, with the SPI and the path of the first request.
    pub(super) half_open: PrefixTable<Spi, (Spi, Path)>,
    pub(super) first_requests: BTreeMap<(Spi, Path), Spi>,
    /// The times when IKE SAs are due.
    pub(super) schedule: Schedule<Spi>,
    /// The times when this end initiates to peers, as their states have them.
    pub(super) initiations: Schedule<usize>,
    pub(super) has_ended: bool,
    /// The time from which on a message about an unknown SPI is looked at.
    pub(super) next_invalid_spi: Instant,
}

impl Endpoint {
    /// The local address and port of a path, where they are known.
    pub fn local_address(&self, path: Path) -> Option<SocketAddr> {
        self.shared.local_of(path)
    }

    /// As [`Self::new`], with the pool of a tunnel that has other endpoints, too: the first pool of the connections is that one.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_pool(
        params: Params,
        pool: SharedPool,
        now: Instant,
        seed: [u8; 32],
    ) -> Result<Self, BadParams> {
        let mut endpoint = Endpoint::new(params, now, seed)?;
        endpoint.shared.pools = Pools::with_tunnel(pool);
        Ok(endpoint)
    }

    /// An endpoint that starts at `now`. `seed` is 32 bytes of secret randomness, used for nothing else.
    ///
    /// # Errors
    /// There are too many connections, or a connection, which the error names, cannot be used.
    pub fn new(params: Params, now: Instant, seed: [u8; 32]) -> Result<Self, BadParams> {
        let mut rng = ChaCha20Rng::from_seed(seed);
        let cookies = Cookies::new(|secret| rng.fill_bytes(secret));
        let mut endpoint = Endpoint {
            shared: Shared::new(now, rng, params.sockets, params.wall_at_origin),
            connections: Connections::default(),
            peers: Peers::new(),
            limits: params.limits,
            cookies,
            sas: BTreeMap::new(),
            half_open: PrefixTable::new("half-open IKE SAs", params.limits.half_open),
            first_requests: BTreeMap::new(),
            schedule: Schedule::default(),
            initiations: Schedule::default(),
            has_ended: false,
            next_invalid_spi: now,
        };
        for connection in params.connections {
            endpoint.add_connection(connection)?;
        }
        params.tunnel.into_iter().for_each(|tunnel| endpoint.set_tunnel(tunnel));
        Ok(endpoint)
    }

    /// Lowers the MSS of TCP that passes to this one, in bytes for IPv4, where it is greater: for a device whose MTU is that of other
    /// peers.
    pub fn limit_mss(&mut self, max_mss: u16) {
        self.shared.max_mss = Some(max_mss);
        let entries = self.peers.values_mut().filter_map(|state| state.entry.as_mut());
        for entry in entries {
            entry.max_mss = Some(max_mss);
            let order = PeerOrder::SetMaxMss { peer: entry.peer, max_mss: Some(max_mss) };
            self.shared.order(DataEvent::Peer(order));
        }
    }

    /// Runs `act` with the context and the IKE SA `spi`, and carries out the orders of that IKE SA.
    pub(super) fn run<T>(
        &mut self,
        spi: Option<Spi>,
        act: impl FnOnce(&mut Context<'_>, Option<&mut IkeSa>) -> T,
    ) -> T {
        let mut effects = Vec::new();
        let before = self.shape(spi);
        let mut cx = Context {
            shared: &mut self.shared,
            connections: &self.connections,
            peers: &mut self.peers,
            effects: &mut effects,
        };
        let result = act(&mut cx, spi.and_then(|spi| self.sas.get_mut(&spi)).map(|sa| &mut **sa));
        if let Some(spi) = spi {
            effects.into_iter().for_each(|effect| self.carry_out(spi, effect));
            self.announce(spi);
            self.set_due(spi);
            self.notify_change(Some(spi), before);
        }
        self.update_settings();
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
        self.schedule.set(spi, due);
    }

    fn carry_out(&mut self, spi: Spi, effect: Effect) {
        match effect {
            Effect::Add(sa) => self.add(sa),
            Effect::Established { is_initial_contact } => {
                self.established(spi, is_initial_contact);
                if is_initial_contact {
                    self.remove_other_instances(spi);
                }
            }
            Effect::MoveChildren(to) => self.move_children(spi, to),
            Effect::Expire(redundant) => self.expire(redundant),
            Effect::Reauthenticate => self.reauthenticate(spi),
            Effect::Reauthenticated => self.reauthenticated(spi),
            Effect::Down(ending) => self.down(spi, &ending),
            Effect::Remove(ending) => self.remove(spi, &ending),
        }
    }

    pub(super) fn add(&mut self, sa: Box<IkeSa>) {
        let spi = sa.own_spi;
        self.sas.insert(spi, sa);
        self.set_due(spi);
    }

    /// A child SA is there: the peer is up.
    fn announce(&mut self, spi: Spi) {
        let Some(sa) = self.sas.get(&spi).filter(|sa| !sa.children.is_empty()) else { return };
        let Some(state) = sa.connection.and_then(|number| self.peers.get_mut(&number)) else { return };
        if state.is_up || state.sa != Some(spi) {
            return;
        }
        (state.is_up, state.since) = (true, self.shared.now);
        if let (Some(peer), Some(info)) = (sa.peer(), sa.info(&self.connections, &self.peers)) {
            self.shared.emit(Event::PeerUp { peer, info: Box::new(info) });
        }
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
        if let Some(rejected) = self.heed_unknown_spi(path, &message) {
            return Err(rejected);
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

    pub(super) fn current(&self, peer: PeerId) -> Option<Spi> {
        self.peers.get(&(peer.0 as usize))?.sa
    }

    /// Addresses of this end have changed, or the way to peers.
    pub(super) fn addresses_changed(&mut self, is_concerned: impl Fn(&IkeSa) -> bool) {
        let concerned: Vec<Spi> =
            self.sas.values().filter(|sa| is_concerned(sa)).map(|sa| sa.own_spi).collect();
        concerned.into_iter().for_each(|spi| self.with_sa(spi, |sa, cx| sa.addresses_changed(cx)));
    }

    /// A packet waits for a child SA.
    fn wanted(&mut self, peer: PeerId, flow: &adit_core::Flow) {
        let number = peer.0 as usize;
        let child = self.connections.get(number).and_then(|connection| child_of(connection, flow));
        child.into_iter().for_each(|child| self.want(number, child));
    }

    /// The child SA of a session.
    pub(super) fn with_session(
        &mut self,
        peer: PeerId,
        session: SessionId,
        act: impl FnOnce(&mut IkeSa, &mut Context<'_>, u32),
    ) {
        let Ok(child) = u32::try_from(session.0) else { return };
        let has = |spi: &Spi| self.sas.get(spi).is_some_and(|sa| sa.children.contains_key(&child));
        let current = self.current(peer).filter(has);
        let older = || self.sas.values().find(|sa| sa.peer() == Some(peer) && has(&sa.own_spi));
        if let Some(spi) = current.or_else(|| older().map(|sa| sa.own_spi)) {
            self.with_sa(spi, |sa, cx| act(sa, cx, child));
        }
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

impl Protocol for Endpoint {
    type Request = Request;
    type Reply = Reply;
    type Detail = PeerDetail;
    type Codec = Codec;

    fn handle_datagram(&mut self, now: Instant, path: Path, datagram: &[u8]) -> Result<(), Rejected> {
        self.shared.now = now;
        let message = if self.shared.is_marked(path) {
            datagram
                .strip_prefix(&MARKER)
                .ok_or(Rejected::Malformed("no marker in front of an IKE message"))?
        } else {
            datagram
        };
        self.handle_message(path, message)
    }

    fn stage_of(&self, path: Path, datagram: &[u8]) -> HandshakeStage {
        let message = if self.shared.is_marked(path) { datagram.get(MARKER.len()..) } else { Some(datagram) };
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
                let before = self.shared.bound(socket, local);
                if before.is_some_and(|before| before != local) {
                    self.addresses_changed(|sa| sa.path.socket() == Some(socket));
                }
            }
            Command::RouteChanged { peer, .. } => self.addresses_changed(|sa| sa.peer() == Some(peer)),
            Command::Rekey { peer } => {
                let spi = self.current(peer);
                spi.into_iter().for_each(|spi| self.with_sa(spi, |sa, cx| sa.rekey_children(cx)));
            }
            Command::Disconnect { peer } => self.close_peer(peer.0 as usize, "disconnected"),
            Command::Restart => self.restart(),
            Command::Shutdown => self.shut_down(),
            Command::LeasesMoved => self.leave_evicted(),
            Command::NotUp { reason } => self.shared.emit(Event::Ended(Ended::Failed(reason))),
            // There are no connections, and the system chooses source addresses where none is bound.
            Command::Opened { .. }
            | Command::OpenFailed { .. }
            | Command::Closed { .. }
            | Command::Prepared { .. }
            | Command::MtuChanged { .. }
            | Command::PathMtu { .. } => {}
        }
    }

    fn handle_reply(&mut self, now: Instant, reply: Reply) {
        self.shared.now = now;
        self.obey(reply);
    }

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
                let state = self.peers.get_mut(&(peer.0 as usize)).zip(activity.last_data());
                state.into_iter().for_each(|(state, at)| state.last_data = state.last_data.max(at));
                let Some(spi) = self.current(peer) else { return };
                self.with_sa(spi, |sa, _| sa.note_activity(&activity));
            }
            Notice::Moved { path, .. } => {
                let spi = self.current(peer);
                spi.into_iter().for_each(|spi| self.with_sa(spi, |sa, cx| sa.moved(cx, path)));
            }
            Notice::Wanted { flow, .. } => self.wanted(peer, &flow),
            Notice::Message { .. } => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.shared.now = now;
        self.shared.retire_over();
        self.initiations.due(now).into_iter().for_each(|number| self.initiate(number));
        self.schedule.due(now).into_iter().for_each(|spi| self.with_sa(spi, |sa, cx| sa.handle_timeout(cx)));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let lingering = self.shared.lingering.next();
        self.initiations.next().into_iter().chain(self.schedule.next()).chain(lingering).min()
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
        let up = self.peers.iter().filter(|(_, state)| state.is_up);
        let with_info = up.filter_map(|(number, state)| {
            let info = self.sas.get(&state.sa?)?.info(&self.connections, &self.peers)?;
            Some((PeerId(*number as u32), info))
        });
        with_info.collect()
    }

    fn tables(&self) -> Vec<TableUsage> {
        vec![self.half_open.usage()]
    }
}
