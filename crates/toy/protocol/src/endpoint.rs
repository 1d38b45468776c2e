//! The machine: one endpoint with its peers.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use adit_core::{
    Command, Ended, Instant, Notice, Path, PeerId, PeerInfo, Protocol, Rejected, TableUsage, TunnelSettings,
    UnixTime,
};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use crate::peer::{ControlPath, Peer, Shared};
use crate::wire::{self, MARKER, Message};
use crate::{Codec, PeerSettings, Settings};

pub(crate) type Event = adit_core::Event<(), Codec, ()>;

/// The time until a remote that could not be opened is tried again.
const REOPEN: Duration = Duration::from_secs(1);
/// Peers that an index can name.
const MAX_PEERS: usize = 256;

/// A remote to open: the index of the peer, and whether it is its socket for control messages alone.
#[derive(Clone, Copy)]
struct Opening {
    peer: usize,
    control: bool,
    remote: usize,
}

/// One end of tunnels: it initiates handshakes with peers that it can reach, and answers those of all.
pub struct Endpoint {
    pub(crate) shared: Shared,
    pub(crate) peers: Vec<Peer>,
    /// Remotes that are not open yet. The first one is being opened: [`Command::Opened`] does not say which one it is.
    opening: VecDeque<Opening>,
    reopen_at: Option<Instant>,
}

impl Endpoint {
    /// An endpoint that starts at `now`. `seed` is 32 bytes of secret randomness, used for nothing else. More than 256
    /// peers are left out.
    pub fn new(settings: Settings, now: Instant, seed: [u8; 32]) -> Self {
        let uptime = (now - Instant::ORIGIN).as_secs();
        let mut shared = Shared {
            events: VecDeque::new(),
            transmits: VecDeque::new(),
            now,
            rng: ChaCha20Rng::from_seed(seed),
            origin: UnixTime(settings.started.0.saturating_sub(uptime)),
            timestamp: 0,
            locals: BTreeMap::new(),
        };
        let mut opening = VecDeque::new();
        let mut peers = Vec::new();
        for (number, peer) in settings.peers.into_iter().take(MAX_PEERS).enumerate() {
            if let Some(remotes) = peer.remotes {
                let control = remotes.control.map(|remote| (remote, true));
                let all = control.into_iter().chain([(remotes.data, false)]);
                opening.extend(all.map(|(remote, control)| Opening { peer: number, control, remote }));
            }
            peers.push(Peer::new(PeerId(number as u32), peer, &mut shared));
        }
        // After the peers, so that the first packet finds its own.
        let (addresses, mtu) = (settings.addresses, settings.mtu);
        shared.events.push_back(Event::Up(TunnelSettings { addresses, mtu, ..TunnelSettings::default() }));
        let mut endpoint = Endpoint { shared, peers, opening, reopen_at: None };
        endpoint.open();
        endpoint
    }

    /// One more peer, which reaches us: it has no remotes. A peer beyond 256 is left out.
    pub fn add_peer(&mut self, settings: PeerSettings, now: Instant) {
        self.shared.now = now;
        if self.peers.len() < MAX_PEERS {
            let id = PeerId(self.peers.len() as u32);
            self.peers.push(Peer::new(id, settings, &mut self.shared));
        }
    }

    fn open(&mut self) {
        self.reopen_at = None;
        let next = self.opening.front().map(|opening| Event::Open { remote: opening.remote });
        self.shared.events.extend(next);
    }

    fn opened(&mut self, path: Path) {
        let Some(Opening { peer, control, .. }) = self.opening.pop_front() else { return };
        if let Some(peer) = self.peers.get_mut(peer) {
            if control {
                peer.control = Some(ControlPath { path, marked: false });
            } else {
                peer.control.get_or_insert(ControlPath { path, marked: true });
                peer.reached(path, &mut self.shared);
            }
        }
        self.open();
    }

    fn end_all(&mut self, reason: &str) {
        self.peers.iter_mut().for_each(|peer| peer.end(reason, true, &mut self.shared));
    }

    /// The peer that a command or notice is about.
    fn with_peer(&mut self, id: PeerId, change: impl FnOnce(&mut Peer, &mut Shared)) {
        if let Some(peer) = self.peers.get_mut(id.0 as usize) {
            change(peer, &mut self.shared);
        }
    }
}

impl Protocol for Endpoint {
    type Request = ();
    type Reply = ();
    type Detail = ();
    type Codec = Codec;

    fn handle_datagram(&mut self, now: Instant, path: Path, datagram: &[u8]) -> Result<(), Rejected> {
        self.shared.now = now;
        let (marked, message) = match datagram.strip_prefix(&MARKER) {
            Some(message) => (true, message),
            None => (false, datagram),
        };
        let shared = &mut self.shared;
        match wire::decode(message).ok_or(Rejected::Malformed("no control message"))? {
            Message::Initiation(initiation, sealed) => {
                let peer = self.peers.iter_mut().find(|peer| peer.settings.identity == initiation.identity);
                let peer = peer.ok_or(Rejected::Unexpected("an unknown identity"))?;
                peer.handle_initiation(ControlPath { path, marked }, &initiation, sealed, shared)
            }
            Message::Response(response, sealed) => {
                let peer = self.peers.get_mut(wire::peer_of(response.receiver));
                let peer = peer.ok_or(Rejected::Unexpected("an unknown index"))?;
                peer.handle_response(&response, sealed, shared)
            }
        }
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        self.shared.now = now;
        match command {
            Command::Opened { path } => self.opened(path),
            Command::OpenFailed { .. } => self.reopen_at = Some(now + REOPEN),
            Command::Rekey { peer } => self.with_peer(peer, Peer::initiate),
            Command::Disconnect { peer } => {
                self.with_peer(peer, |peer, shared| peer.end("disconnected", true, shared));
            }
            Command::Restart => self.end_all("restarted"),
            Command::Shutdown => {
                self.end_all("shut down");
                self.shared.events.push_back(Event::Ended(Ended::Shutdown));
            }
            Command::NotUp { reason } => self.shared.events.push_back(Event::Ended(Ended::Failed(reason))),
            Command::SocketBound { socket, local } => drop(self.shared.locals.insert(socket, local)),
            // There are no connections and no pool.
            Command::Closed { .. }
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
        self.with_peer(notice.peer(), |peer, shared| match notice {
            Notice::Traffic { activity, .. } => {
                activity.received.last().into_iter().for_each(|at| peer.note_heard(at))
            }
            Notice::FirstOpened { session, .. } => peer.confirm(session, shared),
            Notice::Moved { path, .. } => peer.roamed(path, shared),
            Notice::Message { payload, .. } if payload == wire::EXIT_NOTICE => {
                peer.end("it ended", false, shared)
            }
            Notice::Message { .. } => {}
            Notice::Wanted { flow, .. } => peer.want(&flow, shared),
            Notice::LimitNear { session, .. } => peer.limit_near(session, shared),
        });
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.shared.now = now;
        if self.reopen_at.is_some_and(|at| at <= now) {
            self.open();
        }
        self.peers.iter_mut().for_each(|peer| peer.handle_timeout(&mut self.shared));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.peers.iter().filter_map(Peer::timeout).chain(self.reopen_at).min()
    }

    fn poll_transmit(&mut self, buf: &mut Vec<u8>) -> Option<Path> {
        let (path, datagram) = self.shared.transmits.pop_front()?;
        buf.extend_from_slice(&datagram);
        Some(path)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.shared.events.pop_front()
    }

    fn peers(&self) -> Vec<(PeerId, PeerInfo<()>)> {
        self.peers.iter().filter_map(|peer| Some((peer.id, peer.info()?))).collect()
    }

    /// Nothing is kept of a datagram that is not authentic.
    fn tables(&self) -> Vec<TableUsage> {
        Vec::new()
    }
}
