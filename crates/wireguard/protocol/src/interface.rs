//! The machine: an interface with its private key and its peers.

mod configure;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use adit_core::{
    Command, Ended, HandshakeStage, Instant, IpNet, Notice, OpenFailure, Path, PeerId, Protocol, Rejected,
    TableUsage, Transport,
};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use crate::admission::Admission;
use crate::keys::PublicKey;
use crate::noise;
use crate::params::{Changes, Params, Sockets};
use crate::peer::Peer;
use crate::request::{Codec, Event, PeerDetail, PeerInfo, Reply, Request, Status};
use crate::shared::{Identity, Shared};
use crate::wire::{CookieReply, Initiation, Message, Response, WithMacs as _};

/// WireGuard as a state machine: one interface, which is initiator and responder at once.
///
/// It is configured by [`Params::configuration`] and by [`Reply::Configure`]. Its peers are ready to be asked by
/// [`Interface::status`] at any time; [`Protocol::peers`] gives those that have finished a handshake.
///
/// Its timers go by the times in [`Notice::Traffic`], which is to come once a second.
pub struct Interface {
    shared: Shared,
    admission: Admission,
    /// Boxed: a tree's nodes are half empty when peers come in the order of their ids, and a peer is large.
    peers: BTreeMap<PeerId, Box<Peer>>,
    ids: BTreeMap<PublicKey, PeerId>,
    /// The owner of each allowed IP.
    owners: BTreeMap<IpNet, PeerId>,
    next_id: u32,
    fwmark: u32,
    /// When each peer's next timer runs out.
    schedule: BTreeSet<(Instant, PeerId)>,
    scheduled: BTreeMap<PeerId, Instant>,
    /// Changes that wait for sockets, and those behind them.
    waiting: VecDeque<(u64, Box<Changes>)>,
    /// Peers that are blocked when they are added ([`Params::blocked`]).
    blocked: BTreeSet<PublicKey>,
    /// Each peer is blocked when it is added ([`Params::blocks_all`]).
    blocks_all: bool,
    ended: bool,
}

impl Interface {
    /// An interface that starts at `now`. `seed` is 32 bytes of secret randomness, used for nothing else.
    ///
    /// # Errors
    /// The configuration cannot be taken.
    pub fn new(params: Params, now: Instant, seed: [u8; 32]) -> Result<Self, crate::ConfigureError> {
        let shared = Shared::new(&params, now, ChaCha20Rng::from_seed(seed));
        let mut interface = Interface {
            shared,
            admission: Admission::new(params.load),
            peers: BTreeMap::new(),
            ids: BTreeMap::new(),
            owners: BTreeMap::new(),
            next_id: 0,
            fwmark: params.configuration.fwmark.unwrap_or_default(),
            schedule: BTreeSet::new(),
            scheduled: BTreeMap::new(),
            waiting: VecDeque::new(),
            blocked: params.blocked,
            blocks_all: params.blocks_all,
            ended: false,
        };
        if let Some(settings) = params.tunnel {
            interface.shared.emit(Event::Up(settings));
        }
        interface.check(&params.configuration)?;
        interface.apply(params.configuration);
        Ok(interface)
    }

    /// All of it, its secrets included.
    pub fn status(&self) -> Status {
        Status {
            private_key: self.shared.identity.as_ref().map(|identity| identity.private.clone()),
            listen_port: self.shared.sockets.port,
            fwmark: self.fwmark,
            peers: self.peers.values().map(|peer| peer.status()).collect(),
        }
    }

    /// The firewall mark of its datagrams; 0: none.
    pub fn fwmark(&self) -> u32 {
        self.fwmark
    }

    /// The sockets that it sends from. A peer at an address of a family without one cannot be reached.
    pub fn sockets(&self) -> Sockets {
        self.shared.sockets
    }

    /// Our public key, if there is a private key.
    pub fn public_key(&self) -> Option<PublicKey> {
        self.shared.identity.as_ref().map(|identity| identity.pair.public)
    }

    /// The peer with that key.
    pub fn peer_id(&self, key: &PublicKey) -> Option<PeerId> {
        self.ids.get(key).copied()
    }

    /// The state of the peer with that key.
    pub fn peer(&self, key: &PublicKey) -> Option<PeerDetail> {
        self.peers.get(&self.peer_id(key)?).map(|peer| peer.detail())
    }

    /// The configured peers that [`Protocol::peers`] does not give: those without a handshake.
    pub fn unconnected(&self) -> impl Iterator<Item = PeerDetail> {
        self.peers.values().filter(|peer| peer.info().is_none()).map(|peer| peer.detail())
    }

    /// Runs something on a peer, and sees to its timers afterwards.
    fn with_peer<R>(&mut self, id: PeerId, run: impl FnOnce(&mut Peer, &mut Shared) -> R) -> Option<R> {
        let peer = self.peers.get_mut(&id)?;
        let result = run(peer, &mut self.shared);
        let due = peer.due();
        self.reschedule(id, due);
        Some(result)
    }

    fn with_all_peers(&mut self, mut run: impl FnMut(&mut Peer, &mut Shared)) {
        let ids: Vec<PeerId> = self.peers.keys().copied().collect();
        for id in ids {
            self.with_peer(id, &mut run);
        }
    }

    fn reschedule(&mut self, id: PeerId, due: Option<Instant>) {
        let before = match due {
            Some(due) => self.scheduled.insert(id, due),
            None => self.scheduled.remove(&id),
        };
        if before == due {
            return;
        }
        if let Some(before) = before {
            self.schedule.remove(&(before, id));
        }
        self.schedule.extend(due.map(|due| (due, id)));
    }

    fn initiation(&mut self, path: Path, message: &Initiation<'_>) -> Result<(), Rejected> {
        self.admission.admit(&mut self.shared, path, message)?;
        let Some(Identity { pair, .. }) = &self.shared.identity else {
            return Err(Rejected::Unexpected("there is no private key"));
        };
        let named = noise::name(pair, message)
            .map_err(|_| Rejected::Unauthentic("the sender's key does not open"))?;
        let no_peer = Rejected::Unauthentic("no peer has the sender's key");
        let id = self.peer_id(&named.initiator).ok_or(no_peer)?;
        self.with_peer(id, |peer, shared| peer.take_initiation(shared, path, named, message))
            .unwrap_or(Err(no_peer))
    }

    fn response(&mut self, path: Path, message: &Response<'_>) -> Result<(), Rejected> {
        self.admission.admit(&mut self.shared, path, message)?;
        let no_index = Rejected::Unexpected("no initiation waits for this response");
        let id = self.shared.peer_of(message.receiver()).ok_or(no_index)?;
        self.with_peer(id, |peer, shared| peer.take_response(shared, path, message)).unwrap_or(Err(no_index))
    }

    fn cookie_reply(&mut self, message: &CookieReply<'_>) -> Result<(), Rejected> {
        let no_index = Rejected::Unexpected("the cookie answers none of our messages");
        let id = self.shared.peer_of(message.receiver()).ok_or(no_index)?;
        self.with_peer(id, |peer, shared| peer.take_cookie(shared, message)).unwrap_or(Err(no_index))
    }

    fn end(&mut self, ended: Ended) {
        let ids: Vec<PeerId> = self.peers.keys().copied().collect();
        ids.into_iter().for_each(|id| self.remove_peer(id));
        self.shared.identity = None;
        self.shared.emit(Event::Ended(ended));
        self.ended = true;
    }

    fn opened(&mut self, path: Path) {
        // Remotes are reached by connections with a preamble.
        if path.transport() == Transport::Tcp {
            let evicted = self.shared.connections.accepted(self.shared.now, path);
            evicted.into_iter().for_each(|path| self.shared.emit(Event::Close { path }));
        }
    }

    fn prepared(&mut self, path: Path, remote: Option<usize>) {
        let Some(remote) = remote else { return self.shared.connections.prepared(self.shared.now, path) };
        match self.awaiting(remote) {
            Some(id) => {
                self.with_peer(id, |peer, shared| peer.connected(shared, path));
            }
            // The peer is not configured any more.
            None => self.shared.emit(Event::Close { path }),
        }
    }

    fn not_connected(&mut self, remote: usize, failure: &OpenFailure) {
        if let Some(id) = self.awaiting(remote) {
            self.with_peer(id, |peer, shared| peer.not_connected(shared, failure));
        }
    }

    /// The peer that waits for a connection to that remote.
    fn awaiting(&self, remote: usize) -> Option<PeerId> {
        self.peers.iter().find(|(_, peer)| peer.awaits(remote)).map(|(id, _)| *id)
    }

    fn closed(&mut self, path: Path, reason: &str) {
        for id in self.shared.connections.closed(path) {
            self.with_peer(id, |peer, shared| peer.closed(shared, path, reason));
        }
    }

    /// Refuses datagrams on a connection that we have closed.
    fn check_connection(&self, path: Path) -> Result<(), Rejected> {
        match path.transport() == Transport::Udp || self.shared.connections.has(&path) {
            true => Ok(()),
            false => Err(Rejected::Unexpected("its connection was closed")),
        }
    }
}

impl Protocol for Interface {
    type Request = Request;
    type Reply = Reply;
    type Detail = PeerDetail;
    type Codec = Codec;

    fn handle_datagram(&mut self, now: Instant, path: Path, datagram: &[u8]) -> Result<(), Rejected> {
        self.shared.now = now;
        self.check_connection(path)?;
        match Message::parse(datagram)? {
            Message::Initiation(message) => self.initiation(path, &message),
            Message::Response(message) => self.response(path, &message),
            Message::CookieReply(message) => self.cookie_reply(&message),
            Message::Data(_) => Err(Rejected::Unexpected("a data message")),
        }
    }

    fn stage_of(&self, _path: Path, datagram: &[u8]) -> HandshakeStage {
        let is_known = |index| self.shared.peer_of(index).is_some();
        match Message::parse(datagram) {
            Ok(Message::Initiation(message)) if !message.has_mac2() => HandshakeStage::First,
            Ok(Message::Response(message)) if is_known(message.receiver()) => HandshakeStage::Established,
            Ok(Message::CookieReply(message)) if is_known(message.receiver()) => HandshakeStage::Established,
            Ok(Message::Initiation(_) | Message::Response(_) | Message::CookieReply(_)) => {
                HandshakeStage::Returning
            }
            Ok(Message::Data(_)) | Err(_) => HandshakeStage::First,
        }
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        self.shared.now = now;
        if self.ended {
            return;
        }
        match command {
            Command::Shutdown => self.end(Ended::Shutdown),
            Command::NotUp { reason } => self.end(Ended::Failed(reason)),
            Command::Restart => self.with_all_peers(Peer::start_over),
            Command::Rekey { peer } => {
                self.with_peer(peer, |peer, shared| peer.initiate(shared, false));
            }
            Command::Disconnect { peer } => {
                self.with_peer(peer, |peer, shared| peer.wipe(shared, "it was disconnected"));
            }
            Command::Opened { path } => self.opened(path),
            Command::Prepared { path, remote } => self.prepared(path, remote),
            Command::OpenFailed { remote, failure } => self.not_connected(remote, &failure),
            Command::Closed { path, reason } => self.closed(path, &reason),
            Command::RouteChanged { peer, path } => {
                self.with_peer(peer, |peer, shared| peer.route_changed(shared, path));
            }
            Command::MtuChanged { mtu } if self.shared.set_mtu(mtu) => {
                self.peers.values().for_each(|peer| peer.tell_mss(&mut self.shared));
            }
            Command::PathMtu { remote, mtu } => {
                let there = self.peers.values_mut().filter(|peer| peer.is_at(remote));
                there.for_each(|peer| peer.set_path_mtu(&mut self.shared, mtu));
            }
            Command::MtuChanged { .. } => {}
            // The adapter says which sockets are ours ([`Reply::Rebound`]).
            Command::SocketBound { .. } | Command::LeasesMoved => {}
        }
    }

    fn handle_reply(&mut self, now: Instant, reply: Reply) {
        self.shared.now = now;
        if self.ended {
            return;
        }
        match reply {
            Reply::Configure { id, changes } => self.configure(id, changes),
            Reply::Rebound(outcome) => self.rebound(outcome),
            Reply::Clock(clock) => self.shared.timestamps.set_clock(clock),
            Reply::Tunnel(settings) => self.shared.emit(Event::Up(settings)),
            Reply::UnderLoad(loaded) => self.admission.tell(loaded),
        }
    }

    fn handle_notice(&mut self, now: Instant, notice: Notice) {
        self.shared.now = now;
        self.with_peer(notice.peer(), |peer, shared| match notice {
            Notice::Traffic { received_bytes, sent_bytes, activity, .. } => {
                peer.traffic(received_bytes, sent_bytes);
                peer.passed(shared, activity);
            }
            Notice::FirstOpened { session, .. } => peer.first_opened(shared, session),
            Notice::Moved { path, .. } => peer.roamed(shared, path),
            Notice::Wanted { .. } => peer.wanted(shared),
            Notice::LimitNear { session, .. } => peer.limit_near(shared, session),
            Notice::Message { session, payload, .. } => peer.take_inner(shared, session, &payload),
        });
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.shared.now = now;
        // A timer that runs out may set another that is due at once, but none forever.
        while let Some(&(due, id)) = self.schedule.first()
            && due <= now
        {
            self.with_peer(id, |peer, shared| peer.handle_timeout(shared));
        }
        while let Some(path) = self.shared.connections.take_late(now) {
            self.shared.emit(Event::Close { path });
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let of_peers = self.schedule.first().map(|(due, _)| *due);
        of_peers.into_iter().chain(self.shared.connections.poll_timeout()).min()
    }

    fn poll_transmit(&mut self, buf: &mut Vec<u8>) -> Option<Path> {
        self.shared.next_transmit(buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.shared.next_event()
    }

    fn peers(&self) -> Vec<(PeerId, PeerInfo)> {
        self.peers.iter().filter_map(|(id, peer)| Some((*id, peer.info()?))).collect()
    }

    /// Unauthenticated peers leave nothing here but TCP connections.
    fn tables(&self) -> Vec<TableUsage> {
        self.shared.connections.usage().into_iter().collect()
    }
}
