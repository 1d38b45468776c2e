//! From the net to the TUN device: find the session, open, check, merge.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use adit_core::{Instant, Notice, Path, PeerId, SessionId, Transport};
use thiserror::Error;

use crate::counters::{Counters, Drop, Half, PeerCounter};
use crate::event::{EgressEvent, IngressEvent, PeerRoutes};
use crate::framing::{self, Class, MAX_CONTROL, OpenSession};
use crate::headers::Ip;
use crate::inbox::Inbox;
use crate::outbox::MAX_DATAGRAM;
use crate::routes::Routes;
use crate::{Config, Role, Wire, mss};

/// The longest record on a TCP connection: no longer than the largest datagram.
pub const MAX_RECORD: usize = MAX_DATAGRAM;

/// How often sessions hear the time.
const TICK: Duration = Duration::from_secs(1);
/// Moves of one peer that are followed at once; each tick allows another. A peer that changes its address with each packet
/// costs the protocol no more.
const MOVES: u8 = 3;

/// Bytes of a protocol message that are passed on.
const MESSAGE_MAX: usize = 1024;

/// Why a TCP connection must be closed: its stream makes no sense from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StreamError {
    /// A record of no bytes.
    #[error("the peer sent a record of length 0; it is no OpenVPN peer, or the stream lost its step")]
    Empty,
    /// A record longer than any may be.
    #[error(
        "the peer announced a record of {0} bytes, more than {MAX_RECORD}; it is no OpenVPN peer, or the stream lost its step"
    )]
    Oversize(usize),
    /// A record longer than any control packet, on a connection that no peer of a server uses yet.
    #[error(
        "the peer announced a record of {0} bytes, but a control packet has at most {MAX_CONTROL}; it is no OpenVPN \
         peer, or leaves out the lengths, as MirageVPN does with `remote ... tcp` and no `proto tcp` in its file"
    )]
    OversizeControl(usize),
}

struct Session {
    id: SessionId,
    /// The peer's slot.
    peer: u32,
    open: Box<OpenSession>,
    used: bool,
    /// Later sessions have higher numbers, from 1 on.
    number: u64,
}

struct Peer {
    id: PeerId,
    path: Path,
    /// Another path, which the protocol was told of: it did not answer yet, or refused it.
    moved: Option<Path>,
    roams: bool,
    /// Moves that may still be followed before the next tick.
    moves: u8,
    /// The number of the latest session that opened something. What earlier ones open is older.
    latest: u64,
    max_mss: Option<u16>,
    counter: Arc<PeerCounter>,
    /// Who serves it, if another worker does. Then there are no sessions.
    worker: Option<u32>,
}

/// The half that opens. Owned by one thread.
pub struct Ingress {
    config: Config,
    peers: Vec<Option<Peer>>,
    slots: BTreeMap<PeerId, u32>,
    paths: BTreeMap<Path, u32>,
    sessions: Vec<Option<Session>>,
    by_id: BTreeMap<SessionId, u32>,
    /// The session found last: datagrams come in runs.
    last: Option<(SessionId, u32)>,
    routes: Routes,
    counters: Counters,
    next_tick: Instant,
    /// Sessions installed so far.
    installed: u64,
}

impl Ingress {
    pub(crate) fn new(config: Config, counters: Counters) -> Self {
        Ingress {
            config,
            peers: Vec::new(),
            slots: BTreeMap::new(),
            paths: BTreeMap::new(),
            sessions: Vec::new(),
            by_id: BTreeMap::new(),
            last: None,
            routes: Routes::default(),
            counters,
            next_tick: Instant::ORIGIN,
            installed: 0,
        }
    }

    /// Follows an order.
    pub fn apply(&mut self, event: IngressEvent) {
        self.last = None;
        match event {
            IngressEvent::AddPeer(peer) => self.add_peer(peer, None),
            IngressEvent::AddForeign { peer, worker } => self.add_peer(peer, Some(worker)),
            IngressEvent::RemovePeer(peer) => self.remove_peer(peer),
            IngressEvent::MovePeer { peer, path } => self.move_peer(peer, path),
            IngressEvent::Install { peer, session, open } => self.install(peer, session, open),
            IngressEvent::Retire { session, .. } => {
                self.retire(session);
            }
        }
    }

    /// Says what time it is: as often as there is something to open, and the clock is cheap. Replay windows are
    /// limited in time by it; whoever never says it has windows of packets alone.
    #[inline]
    pub fn tick(&mut self, now: Instant) {
        if now >= self.next_tick {
            self.tick_sessions(now);
        }
    }

    #[cold]
    fn tick_sessions(&mut self, now: Instant) {
        self.next_tick = now + TICK;
        for session in self.sessions.iter_mut().flatten() {
            session.open.tick(now);
        }
        for peer in self.peers.iter_mut().flatten() {
            peer.moves = MOVES.min(peer.moves + 1);
        }
    }

    /// Opens the datagrams of one receive call: all `segment` bytes long, the last perhaps shorter.
    pub fn open_datagrams(&mut self, path: Path, bytes: &mut [u8], segment: usize, out: &mut Inbox) {
        self.gather_datagrams(path, bytes, 0..bytes.len(), segment, out);
        out.finish(bytes);
    }

    /// The same for datagrams that lie in a part of a buffer, `within`. Packets of the next call may be merged
    /// with these until [`Inbox::finish`] is called.
    pub fn gather_datagrams(
        &mut self,
        path: Path,
        buffer: &mut [u8],
        within: Range<usize>,
        segment: usize,
        out: &mut Inbox,
    ) {
        let segment = if segment == 0 { within.len() } else { segment };
        let mut start = within.start;
        while start < within.end {
            let end = start.saturating_add(segment).min(within.end);
            self.open_one(path, buffer, start..end, out);
            start = end;
        }
    }

    /// Opens the whole records at the start of `bytes` and says how many bytes they took; the rest is the
    /// beginning of a record. After an error the connection is of no more use.
    pub fn open_stream(
        &mut self,
        path: Path,
        bytes: &mut [u8],
        out: &mut Inbox,
    ) -> Result<usize, StreamError> {
        let mut start = 0;
        let outcome = loop {
            let Some(prefix) = bytes.get(start..).and_then(|rest| rest.first_chunk()) else {
                break Ok(start);
            };
            let len = usize::from(u16::from_be_bytes(*prefix));
            if len == 0 {
                break Err(StreamError::Empty);
            }
            if len > MAX_CONTROL
                && let Err(error) = self.check_long_record(&path, len)
            {
                break Err(error);
            }
            let record = start + prefix.len()..start + prefix.len() + len;
            if record.end > bytes.len() {
                break Ok(start);
            }
            start = record.end;
            self.open_one(path, bytes, record, out);
        };
        out.finish(bytes);
        outcome
    }

    /// Whether a peer uses this path.
    pub fn serves(&self, path: &Path) -> bool {
        self.paths.contains_key(path)
    }

    /// A server's client sends data only after the server was ordered to open it; until then its records are control
    /// packets. A client has no such order: its server's first data may come before its keys are installed.
    #[cold]
    fn check_long_record(&self, path: &Path, len: usize) -> Result<(), StreamError> {
        if len > MAX_RECORD {
            return Err(StreamError::Oversize(len));
        }
        let Config { role, wire, .. } = self.config;
        if role == Role::Server && wire == Wire::OpenVpn && !self.serves(path) {
            return Err(StreamError::OversizeControl(len));
        }
        Ok(())
    }

    #[inline]
    fn open_one(&mut self, path: Path, bytes: &mut [u8], range: Range<usize>, out: &mut Inbox) {
        let datagram = bytes.get(range.clone()).unwrap_or_default();
        let class = framing::classify(self.config.wire, self.config.role, datagram);
        let found = match class {
            Class::Control => return out.push_control(path, range),
            Class::Session(id) => self.find(id),
            Class::ByPath(key_id) => self.find_by_path(&path, key_id),
            Class::Malformed => Err(Drop::Malformed),
        };
        let opened = found.and_then(|index| self.open_data(path, bytes, range.clone(), index, out));
        let Err(reason) = opened else { return };
        if reason == Drop::NoSession
            && let Some(worker) = self.worker_of(class, &path)
        {
            return out.pass_datagram(worker, path, range);
        }
        self.counters.drop_one(Half::Ingress, reason);
    }

    /// The other worker that serves the peer which a datagram is from.
    fn worker_of(&self, class: Class, path: &Path) -> Option<u32> {
        let slot = match class {
            Class::Session(id) if self.config.wire == Wire::OpenVpn => self.slots.get(&id.openvpn_peer())?,
            Class::ByPath(_) => self.paths.get(path)?,
            _ => return None,
        };
        self.peers.get(*slot as usize)?.as_ref()?.worker
    }

    #[inline]
    fn find(&mut self, id: SessionId) -> Result<u32, Drop> {
        if let Some((last, index)) = self.last
            && last == id
        {
            return Ok(index);
        }
        let index = *self.by_id.get(&id).ok_or(Drop::NoSession)?;
        self.last = Some((id, index));
        Ok(index)
    }

    fn find_by_path(&mut self, path: &Path, key_id: u8) -> Result<u32, Drop> {
        let slot = self.paths.get(path).ok_or(Drop::NoPeer)?;
        let peer = self.peers.get(*slot as usize).and_then(Option::as_ref).ok_or(Drop::NoPeer)?;
        let id = SessionId::openvpn(peer.id, key_id);
        self.find(id)
    }

    #[inline]
    fn open_data(
        &mut self,
        path: Path,
        bytes: &mut [u8],
        range: Range<usize>,
        index: u32,
        out: &mut Inbox,
    ) -> Result<(), Drop> {
        let session =
            self.sessions.get_mut(index as usize).and_then(Option::as_mut).ok_or(Drop::NoSession)?;
        let slot = session.peer;
        let peer = self.peers.get_mut(slot as usize).and_then(Option::as_mut).ok_or(Drop::NoPeer)?;
        let datagram = bytes.get_mut(range.clone()).ok_or(Drop::Malformed)?;
        let opened = match session.open.open(datagram) {
            Ok(opened) => opened,
            Err(reason) => {
                if reason == Drop::BadTag && session.open.limit_near() {
                    out.push_notice(Notice::LimitNear { peer: peer.id, session: session.id });
                }
                return Err(reason);
            }
        };
        peer.counter.add(1, datagram.len() as u64);
        if !session.used {
            session.used = true;
            peer.latest = peer.latest.max(session.number);
            out.push_notice(Notice::FirstOpened { peer: peer.id, session: session.id });
        }
        // Late datagrams say nothing about where the peer is now.
        let newest = opened.newest && session.number == peer.latest;
        if newest && (path != peer.path || peer.moved.is_some()) {
            let anywhere = self.config.wire == Wire::OpenVpnStatic;
            peer.note_path(slot, path, anywhere, &mut self.paths, out);
        }
        let payload = session.open.unframe(datagram, opened.payload)?;
        let payload = range.start + payload.start..range.start + payload.end;
        let bytes_of = bytes.get_mut(payload.clone()).ok_or(Drop::Malformed)?;
        match bytes_of.first().map(|first| first >> 4) {
            Some(4 | 6) => {}
            None => return Ok(()),
            Some(_) => {
                peer.counter.add_message(range.len() as u64);
                return message(peer.id, session.id, bytes_of, out);
            }
        }
        let ip = Ip::parse(bytes_of).ok_or(Drop::Malformed)?;
        if let Some(max) = peer.max_mss {
            mss::clamp(bytes_of, &ip, max);
        }
        let packet = payload.start..payload.start + ip.len;
        self.deliver(slot, bytes, packet, &ip, out)
    }

    /// Checks where a packet comes from and sends it on its way.
    #[inline]
    fn deliver(
        &self,
        slot: u32,
        bytes: &[u8],
        packet: Range<usize>,
        ip: &Ip,
        out: &mut Inbox,
    ) -> Result<(), Drop> {
        if self.config.role == Role::Server {
            if self.routes.lookup(ip.source) != Some(slot) {
                return Err(Drop::BadSource);
            }
            // What is for all, and what no peer has a route for (ourselves), goes to the device.
            if self.config.client_to_client
                && !ip.destination.is_multicast()
                && let Some(other) = self.routes.lookup(ip.destination)
                && other != slot
            {
                match self.peers.get(other as usize).and_then(|peer| peer.as_ref()?.worker) {
                    Some(worker) => out.pass_packet(worker, packet),
                    None => out.push_relay(packet),
                }
                return Ok(());
            }
        }
        out.push_packet(bytes, packet, ip);
        Ok(())
    }

    fn add_peer(&mut self, config: PeerRoutes, worker: Option<u32>) {
        let known = self.slots.get(&config.peer).and_then(|slot| self.peers.get(*slot as usize)?.as_ref());
        if known.is_some_and(|known| known.worker != worker) {
            // It changed hands: nothing that it had is left.
            self.remove_peer(config.peer);
        }
        let slot = match self.slots.get(&config.peer) {
            Some(slot) => *slot,
            None => {
                let slot = vacant(&mut self.peers);
                self.slots.insert(config.peer, slot);
                slot
            }
        };
        self.routes.remove(slot);
        for net in config.routes {
            self.routes.insert(net, slot);
        }
        let Some(place) = self.peers.get_mut(slot as usize) else { return };
        let mut latest = 0;
        let counter = match place.take() {
            Some(mut peer) => {
                latest = peer.latest;
                peer.release(slot, &mut self.paths);
                if self.paths.get(&peer.path) == Some(&slot) {
                    self.paths.remove(&peer.path);
                }
                peer.counter
            }
            None if worker.is_none() => self.counters.add_peer(Half::Ingress, config.peer),
            // It counts nothing here.
            None => Arc::default(),
        };
        self.paths.insert(config.path, slot);
        let PeerRoutes { peer: id, path, max_mss, roams, .. } = config;
        *place = Some(Peer { id, path, moved: None, roams, moves: MOVES, latest, max_mss, counter, worker });
    }

    fn remove_peer(&mut self, id: PeerId) {
        let Some(slot) = self.slots.remove(&id) else { return };
        self.routes.remove(slot);
        self.paths.retain(|_, owner| *owner != slot);
        for place in &mut self.sessions {
            if let Some(session) = place
                && session.peer == slot
            {
                self.by_id.remove(&session.id);
                *place = None;
            }
        }
        if let Some(place) = self.peers.get_mut(slot as usize) {
            *place = None;
        }
        self.counters.remove_peer(Half::Ingress, id);
    }

    fn move_peer(&mut self, id: PeerId, path: Path) {
        let Some(slot) = self.slots.get(&id).copied() else { return self.count_no_peer() };
        let Some(peer) = self.peers.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        let refused = peer.moved.filter(|_| peer.path == path);
        peer.release(slot, &mut self.paths);
        if self.paths.get(&peer.path) == Some(&slot) {
            self.paths.remove(&peer.path);
        }
        self.paths.insert(path, slot);
        peer.path = path;
        // It is not asked about again.
        peer.moved = refused;
    }

    fn install(&mut self, peer: PeerId, id: SessionId, mut open: Box<OpenSession>) {
        let Some(slot) = self.slots.get(&peer).copied() else { return self.count_no_peer() };
        if let Some(replaced) = self.retire(id) {
            open.succeed(*replaced);
        }
        let index = vacant(&mut self.sessions);
        self.installed += 1;
        if let Some(place) = self.sessions.get_mut(index as usize) {
            *place = Some(Session { id, peer: slot, open, used: false, number: self.installed });
            self.by_id.insert(id, index);
        }
    }

    /// Gives what it was.
    fn retire(&mut self, id: SessionId) -> Option<Box<OpenSession>> {
        let index = self.by_id.remove(&id)?;
        let session = self.sessions.get_mut(index as usize)?.take()?;
        let peer = self.peers.get_mut(session.peer as usize).and_then(Option::as_mut);
        if let Some(peer) = peer.filter(|peer| peer.latest == session.number) {
            let left = self.sessions.iter().flatten().filter(|left| left.peer == session.peer && left.used);
            peer.latest = left.map(|left| left.number).max().unwrap_or_default();
        }
        Some(session.open)
    }

    fn count_no_peer(&self) {
        self.counters.drop_one(Half::Ingress, Drop::NoPeer);
    }
}

impl Peer {
    /// The peer's newest datagram came by `path`. Tells the protocol, once, that it is elsewhere than was known, and
    /// sends there at once if the peer may roam and no other is there; or again to where it was known to be.
    /// `anywhere`: it may also come by another TCP connection, which is for the protocol to take.
    #[cold]
    fn note_path(
        &mut self,
        slot: u32,
        path: Path,
        anywhere: bool,
        paths: &mut BTreeMap<Path, u32>,
        out: &mut Inbox,
    ) {
        let is_back = path == self.path;
        let udp = path.transport() == Transport::Udp && self.path.transport() == Transport::Udp;
        if self.moved == Some(path) || !(is_back || udp || anywhere) || (self.moves == 0 && !is_back) {
            return;
        }
        self.release(slot, paths);
        if !is_back {
            self.moves -= 1;
            self.moved = Some(path);
            out.push_notice(Notice::Moved { peer: self.id, path });
        }
        if self.roams && udp && (is_back || *paths.entry(path).or_insert(slot) == slot) {
            out.push_order(EgressEvent::MovePeer { peer: self.id, path });
        }
    }

    /// Leaves the path that it moved to to others.
    fn release(&mut self, slot: u32, paths: &mut BTreeMap<Path, u32>) {
        if let Some(path) = self.moved.take()
            && paths.get(&path) == Some(&slot)
        {
            paths.remove(&path);
        }
    }
}

fn message(peer: PeerId, session: SessionId, payload: &[u8], out: &mut Inbox) -> Result<(), Drop> {
    if !out.admit_message() {
        return Err(Drop::Flood);
    }
    let payload = payload.iter().copied().take(MESSAGE_MAX).collect();
    out.push_notice(Notice::Message { peer, session, payload });
    Ok(())
}

/// A free place; the vector grows if there is none.
fn vacant<T>(places: &mut Vec<Option<T>>) -> u32 {
    let index = places.iter().position(Option::is_none).unwrap_or_else(|| {
        places.push(None);
        places.len() - 1
    });
    index as u32
}
