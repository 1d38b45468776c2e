//! From the TUN device to the net: route, cut, seal.

use std::collections::BTreeMap;
use std::sync::Arc;

use adit_checksum::WordSum;
use adit_core::{Instant, Notice, OnFirstOpened, Path, PeerConfig, PeerId, PeerOrder, SessionId};

use crate::codec::{Place, Run, Sealer};
use crate::counters::{Counters, DropReason, Half, PeerCounter};
use crate::event::{EgressEvent, SealSession};
use crate::headers::Ip;
use crate::mss;
use crate::offload::{Offload, Segmentation};
use crate::outer::{OuterHeader, OuterPolicy};
use crate::routes::Routes;
use crate::segment::{Segments, finish_checksum};
use crate::slab::Slab;
use crate::staging::{StagedBytes, Staging};
use crate::transmit::TransmitBatch;
use crate::unreachable::Unreachable;

struct Session {
    id: SessionId,
    seal: Box<dyn Sealer>,
    is_keepalive: fn(&[u8]) -> bool,
    /// When it seals no more.
    expires: Option<Instant>,
    outer: OuterPolicy,
    on_first_opened: OnFirstOpened,
    /// The session has begun to seal by its first opened packet.
    began_by_packet: bool,
}

struct Peer {
    id: PeerId,
    /// `None`: not known yet.
    path: Option<Path>,
    max_mss: Option<u16>,
    /// A handful at most, in the order in which they were installed.
    sessions: Vec<Session>,
    /// Index of the session to seal with.
    active: Option<usize>,
    counter: Arc<PeerCounter>,
    /// The worker that serves it, if it is another one. Then there are no sessions.
    worker: Option<u32>,
    /// What waits for a session or a path; `None` where it is dropped.
    staging: Option<Box<Staging>>,
}

/// The half that seals. Owned by one thread.
pub struct Egress {
    words: WordSum,
    peers: Slab<Peer>,
    slots: BTreeMap<PeerId, u32>,
    routes: Routes,
    notices: Vec<Notice>,
    /// The headers of the super-packet that is being cut.
    template: Vec<u8>,
    counters: Counters,
    staged: StagedBytes,
    /// `None`: senders of packets that cannot be carried are not told.
    unreachable: Option<Unreachable>,
    /// That of the device. `None`: the sessions know it themselves.
    mtu: Option<u16>,
    now: Instant,
}

impl Egress {
    pub(crate) fn new(words: WordSum, counters: Counters) -> Self {
        Egress {
            words,
            peers: Slab::default(),
            slots: BTreeMap::new(),
            routes: Routes::default(),
            notices: Vec::new(),
            template: Vec::new(),
            counters,
            staged: StagedBytes::default(),
            unreachable: None,
            mtu: None,
            now: Instant::ORIGIN,
        }
    }

    /// Says what time it is: as often as there is something to seal, and the clock is cheap.
    #[inline]
    pub fn tick(&mut self, now: Instant) {
        self.now = now;
    }

    /// Whether packets for which there is no peer, or that wait for a peer without a path, are answered with ICMP host
    /// unreachable or ICMPv6 address unreachable ([`Egress::take_answers`]): 50 in a row, then 100 a second. Errors,
    /// multicast and later fragments are never answered, nor what is for a peer whose packets do not wait.
    pub fn answer_unreachable(&mut self, answer: bool) {
        match answer {
            true => drop(self.unreachable.get_or_insert_default()),
            false => self.unreachable = None,
        }
    }

    /// The answers since the last call: packets with complete checksums, for the TUN device.
    pub fn take_answers(&mut self) -> Vec<Vec<u8>> {
        self.unreachable.as_mut().map(Unreachable::take_answers).unwrap_or_default()
    }

    /// Follows an order. An injected payload is sealed into `out`, and so is what waited for a session or a path that
    /// is there now.
    pub fn apply(&mut self, event: EgressEvent, out: &mut TransmitBatch) {
        match event {
            EgressEvent::SetMtu(mtu) => self.set_mtu(mtu),
            EgressEvent::Peer(order) => self.change_peer(order, out),
            EgressEvent::AddRemotePeer { peer, worker } => self.add_peer(peer, Some(worker)),
            EgressEvent::Install { peer, session, on_first_opened, mut seal } => {
                if let Some(mtu) = self.mtu {
                    seal.codec.set_mtu(mtu);
                }
                if let Some(peer) = self.peer(peer) {
                    peer.install(session, on_first_opened, seal);
                }
            }
            EgressEvent::Activate { peer, session } => {
                if self.peer(peer).is_some_and(|peer| !peer.activate(session)) {
                    self.counters.drop_one(Half::Egress, DropReason::NoSession);
                }
                self.send_staged(peer, out);
            }
            EgressEvent::FirstOpened { peer, session } => {
                // The peer may be gone by now: its orders come to this half first.
                if let Some(peer) = self.slots.get(&peer).and_then(|slot| self.peers.get_mut(*slot)) {
                    peer.first_opened(session);
                }
                self.send_staged(peer, out);
            }
            EgressEvent::Deactivate(peer) => {
                if let Some(peer) = self.peer(peer) {
                    peer.deactivate(usize::MAX);
                }
            }
            EgressEvent::Retire { peer, session } => {
                if let Some(peer) = self.peer(peer) {
                    peer.retire(session);
                }
            }
            EgressEvent::Inject { peer, session, payload } => self.inject(peer, session, &payload, out),
        }
    }

    fn change_peer(&mut self, order: PeerOrder, out: &mut TransmitBatch) {
        match order {
            PeerOrder::Add(config) => {
                let peer = config.peer;
                self.add_peer(config, None);
                self.send_staged(peer, out);
            }
            PeerOrder::Remove(peer) => self.remove_peer(peer),
            PeerOrder::Move { peer, path } => {
                if let Some(known) = self.peer(peer) {
                    known.path = Some(path);
                    self.send_staged(peer, out);
                }
            }
            PeerOrder::SetMaxMss { peer, max_mss } => {
                if let Some(known) = self.peer(peer) {
                    known.max_mss = max_mss;
                }
            }
            PeerOrder::AddRoute { peer, route } => {
                if let Some(slot) = self.slot(peer) {
                    self.routes.insert(route, slot);
                }
            }
            PeerOrder::RemoveRoute { peer, route } => {
                if let Some(slot) = self.slot(peer) {
                    self.routes.delete(route, slot);
                }
            }
        }
    }

    /// Seals one read from the TUN device: a packet, or a super-packet that is cut on the way, for which
    /// `packet` is used up. What cannot be sent is dropped and counted.
    #[inline]
    pub fn seal_packet(&mut self, offload: Offload, packet: &mut [u8], out: &mut TransmitBatch) {
        if self.seal_or_pass(offload, packet, out).is_some() {
            self.counters.drop_one(Half::Egress, DropReason::NoSession);
        }
    }

    /// The same, but what is for a peer that another worker serves is left to the caller, who hands it to
    /// that worker.
    #[inline]
    pub fn seal_or_pass(
        &mut self,
        offload: Offload,
        packet: &mut [u8],
        out: &mut TransmitBatch,
    ) -> Option<u32> {
        let reason = self.try_seal(&offload, packet, out).err()?;
        if reason == DropReason::NoSession {
            return self.without_session(offload, packet);
        }
        if matches!(reason, DropReason::NoRoute | DropReason::NoPeer) {
            self.answer(packet);
        }
        self.count(reason)
    }

    /// Tells the sender of a packet that it cannot be carried.
    #[cold]
    fn answer(&mut self, packet: &[u8]) {
        if let Some(unreachable) = &mut self.unreachable {
            unreachable.answer(packet, self.now);
        }
    }

    /// What becomes of a packet that cannot be sealed now: another worker serves the peer, or it waits, or it is
    /// dropped.
    #[cold]
    fn without_session(&mut self, offload: Offload, packet: &[u8]) -> Option<u32> {
        let Some(slot) = Ip::parse(packet).and_then(|ip| self.routes.lookup(ip.destination)) else {
            return self.count(DropReason::NoRoute);
        };
        let Some(peer) = self.peers.get_mut(slot) else { return self.count(DropReason::NoPeer) };
        if peer.worker.is_some() {
            return peer.worker;
        }
        let has_path = peer.path.is_some();
        let Some(staging) = &mut peer.staging else { return self.count(DropReason::NoSession) };
        let dropped = staging.push(offload, packet, &mut self.staged);
        if staging.take_notice(self.now) {
            self.notices.push(Notice::Wanted { peer: peer.id });
        }
        (0..dropped).for_each(|_| self.counters.drop_one(Half::Egress, DropReason::NoSession));
        if !has_path {
            // It waits all the same, in case that a path is found.
            self.answer(packet);
        }
        None
    }

    fn count(&self, reason: DropReason) -> Option<u32> {
        self.counters.drop_one(Half::Egress, reason);
        None
    }

    /// Seals what waited for that peer, if it can be sealed by now.
    fn send_staged(&mut self, id: PeerId, out: &mut TransmitBatch) {
        let Some(slot) = self.slots.get(&id).copied() else { return };
        while let Some(peer) = self.peers.get_mut(slot)
            && peer.is_ready(self.now)
            && let Some((offload, mut packet)) =
                peer.staging.as_mut().and_then(|staging| staging.take(&mut self.staged))
        {
            if let Err(reason) = self.try_seal(&offload, &mut packet, out) {
                self.counters.drop_one(Half::Egress, reason);
            }
        }
    }

    /// Seals a packet that another peer sent and [`crate::Ingress`] checked ([`crate::ReceiveBatch::relay`]).
    pub fn relay_packet(&mut self, packet: &mut [u8], out: &mut TransmitBatch) {
        self.seal_packet(Offload::NONE, packet, out);
    }

    /// What the protocol should hear: [`Notice::LimitNear`], [`Notice::Wanted`].
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn try_seal(
        &mut self,
        offload: &Offload,
        packet: &mut [u8],
        out: &mut TransmitBatch,
    ) -> Result<(), DropReason> {
        let ip = Ip::parse(packet).ok_or(DropReason::Malformed)?;
        let slot = self.routes.lookup(ip.destination).ok_or(DropReason::NoRoute)?;
        let peer = self.peers.get_mut(slot).ok_or(DropReason::NoPeer)?;
        // What is passed on, or waits, must be whole.
        if !peer.is_ready(self.now) {
            return Err(DropReason::NoSession);
        }
        let sealed = if offload.segmentation == Segmentation::None {
            let packet = packet.get_mut(..ip.len).ok_or(DropReason::Malformed)?;
            finish_checksum(self.words, offload, packet)?;
            if let Some(max) = peer.max_mss {
                mss::clamp(packet, &ip, max);
            }
            peer.seal(Some(&ip), packet, out)
        } else {
            let segments = Segments::new(self.words, offload, packet, &ip, &mut self.template)?;
            let run = Run { segments: &segments, template: &self.template, packet, next: 0 };
            peer.seal_run(&ip, run, out)
        };
        if sealed.is_ok() {
            peer.counter.stamp_data(self.now);
        }
        peer.note_limit(&mut self.notices);
        sealed
    }

    fn set_mtu(&mut self, mtu: u16) {
        self.mtu = Some(mtu);
        for session in self.peers.iter_mut().flat_map(|peer| &mut peer.sessions) {
            session.seal.set_mtu(mtu);
        }
    }

    fn inject(&mut self, id: PeerId, session: Option<SessionId>, payload: &[u8], out: &mut TransmitBatch) {
        let sealed = match self.slots.get(&id).and_then(|slot| self.peers.get_mut(*slot)) {
            None => Err(DropReason::NoPeer),
            Some(peer) => {
                let before = peer.counter.bytes();
                let session = session.map_or(peer.active, |session| peer.position(session));
                let sealed = peer.seal_message(session, payload, self.now, out);
                match sealed {
                    Ok(()) if peer.is_keepalive(session, payload) => peer.counter.add_keepalive(self.now),
                    Ok(()) => peer.counter.stamp_other(self.now),
                    Err(_) => {}
                }
                peer.counter.add_message(peer.counter.bytes().wrapping_sub(before));
                peer.note_limit(&mut self.notices);
                sealed
            }
        };
        if let Err(reason) = sealed {
            self.counters.drop_one(Half::Egress, reason);
        }
    }

    /// The slot of the peer an order is about. Orders for one that is not there are counted.
    fn slot(&self, id: PeerId) -> Option<u32> {
        let slot = self.slots.get(&id).copied();
        if slot.is_none() {
            self.counters.drop_one(Half::Egress, DropReason::NoPeer);
        }
        slot
    }

    /// The peer an order is about. Orders for one that is not there are counted.
    fn peer(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.slot(id).and_then(|slot| self.peers.get_mut(slot))
    }

    fn add_peer(&mut self, config: PeerConfig, worker: Option<u32>) {
        let known = self.slots.get(&config.peer).and_then(|slot| self.peers.get(*slot));
        if known.is_some_and(|known| known.worker != worker) {
            // Another worker serves it now: its sessions stay with the one that has their counters.
            self.remove_peer(config.peer);
        }
        let PeerConfig { peer: id, path, routes, max_mss, staging, .. } = config;
        let slot = match self.slots.get(&id).copied() {
            Some(slot) => {
                if let Some(peer) = self.peers.get_mut(slot) {
                    (peer.path, peer.max_mss) = (path, max_mss);
                    if !staging && let Some(mut staging) = peer.staging.take() {
                        staging.clear(&mut self.staged);
                    } else if staging {
                        peer.staging.get_or_insert_default();
                    }
                }
                slot
            }
            None => {
                let counter = match worker {
                    None => self.counters.add_peer(Half::Egress, id),
                    // It counts nothing here.
                    Some(_) => Arc::default(),
                };
                let (sessions, active) = (Vec::new(), None);
                let staging = staging.then(Box::default);
                let peer = Peer { id, path, max_mss, sessions, active, counter, worker, staging };
                let slot = self.peers.insert(peer);
                self.slots.insert(id, slot);
                slot
            }
        };
        self.routes.replace(slot, routes);
    }

    fn remove_peer(&mut self, id: PeerId) {
        let Some(slot) = self.slots.remove(&id) else { return };
        self.routes.remove(slot);
        if let Some(mut staging) = self.peers.remove(slot).and_then(|peer| peer.staging) {
            staging.clear(&mut self.staged);
        }
        self.counters.remove_peer(Half::Egress, id);
    }
}

impl Peer {
    fn install(&mut self, id: SessionId, on_first_opened: OnFirstOpened, session: SealSession) {
        // One with the same id is replaced; if it was active, it stops being so until activated anew.
        self.retire(id);
        let SealSession { codec: seal, is_keepalive, expires, outer } = session;
        let began_by_packet = false;
        self.sessions.push(Session {
            id,
            seal,
            is_keepalive,
            expires,
            outer,
            on_first_opened,
            began_by_packet,
        });
    }

    /// Has the session seal. Returns false, and changes nothing, if there is no such session. Returns true, and changes nothing,
    /// if a later session has begun to seal by its first packet, which came after the order was given.
    fn activate(&mut self, id: SessionId) -> bool {
        let Some(index) = self.position(id) else { return false };
        let overtaken = self.active.is_some_and(|active| index < active)
            && self.active().is_some_and(|session| session.began_by_packet);
        if !overtaken {
            self.active = Some(index);
        }
        true
    }

    /// Makes the change of the session's first opened packet, unless a later session seals.
    fn first_opened(&mut self, id: SessionId) {
        let Some(index) = self.position(id).filter(|index| self.active.is_none_or(|active| active < *index))
        else {
            return;
        };
        let Some(session) = self.sessions.get_mut(index) else { return };
        match session.on_first_opened {
            OnFirstOpened::Activate => {
                session.began_by_packet = true;
                self.active = Some(index);
            }
            OnFirstOpened::Deactivate => self.deactivate(index + 1),
            OnFirstOpened::Nothing => {}
        }
    }

    /// Lets no session seal. The first opened packets of the earliest `sessions` sessions change nothing any more.
    fn deactivate(&mut self, sessions: usize) {
        self.active = None;
        for session in self.sessions.iter_mut().take(sessions) {
            session.on_first_opened = OnFirstOpened::Nothing;
        }
    }

    fn retire(&mut self, id: SessionId) {
        let active = self.active.and_then(|index| self.sessions.get(index)).map(|session| session.id);
        self.sessions.retain(|session| session.id != id);
        self.active = active.and_then(|active| self.sessions.iter().position(|session| session.id == active));
    }

    #[inline]
    fn active(&self) -> Option<&Session> {
        self.sessions.get(self.active?)
    }

    /// Whether it is known where the peer is, and there is a session to seal with.
    #[inline]
    fn is_ready(&self, now: Instant) -> bool {
        let is_alive = |session: &Session| session.expires.is_none_or(|expires| now < expires);
        self.path.is_some() && self.active().is_some_and(is_alive)
    }

    /// Where a session is among the peer's.
    fn position(&self, id: SessionId) -> Option<usize> {
        self.sessions.iter().position(|session| session.id == id)
    }

    /// Whether that payload is a keepalive of the session at an index.
    fn is_keepalive(&self, session: Option<usize>, payload: &[u8]) -> bool {
        let session = session.and_then(|index| self.sessions.get(index));
        session.is_some_and(|session| (session.is_keepalive)(payload))
    }

    /// Seals a message of the protocol's own with the session at an index, if that has not expired.
    fn seal_message(
        &mut self,
        session: Option<usize>,
        payload: &[u8],
        now: Instant,
        out: &mut TransmitBatch,
    ) -> Result<(), DropReason> {
        let active = std::mem::replace(&mut self.active, session);
        let sealed = match self.is_ready(now) {
            true => self.seal(None, payload, out),
            false => Err(DropReason::NoSession),
        };
        self.active = active;
        sealed
    }

    /// Seals one payload: a packet with that header, or something else. Datagrams that were sealed before an error are
    /// counted, too: they are sent.
    #[inline]
    fn seal(&mut self, ip: Option<&Ip>, payload: &[u8], out: &mut TransmitBatch) -> Result<(), DropReason> {
        let session =
            self.active.and_then(|index| self.sessions.get_mut(index)).ok_or(DropReason::NoSession)?;
        let outer = match ip {
            Some(ip) => session.outer.header(ip, payload)?,
            None => OuterHeader::default(),
        };
        let mut place = Place::new(out, self.path.as_ref().ok_or(DropReason::NoSession)?, outer);
        let sealed = session.seal.seal(payload, &mut place);
        if sealed.is_ok() {
            place.commit();
        }
        let (datagrams, bytes) = place.taken();
        self.counter.add(datagrams, bytes);
        sealed
    }

    /// Seals the packets of a super-packet with that header, up to the first that cannot be.
    #[inline]
    fn seal_run(&mut self, ip: &Ip, mut run: Run<'_>, out: &mut TransmitBatch) -> Result<(), DropReason> {
        let session =
            self.active.and_then(|index| self.sessions.get_mut(index)).ok_or(DropReason::NoSession)?;
        let outer = session.outer.header(ip, run.packet)?;
        let mut place = Place::new(out, self.path.as_ref().ok_or(DropReason::NoSession)?, outer);
        let sealed = session.seal.seal_run(&mut run, &mut place);
        let (datagrams, bytes) = place.taken();
        self.counter.add(datagrams, bytes);
        sealed
    }

    #[inline]
    fn note_limit(&mut self, notices: &mut Vec<Notice>) {
        let Some(session) = self.active.and_then(|index| self.sessions.get_mut(index)) else { return };
        if session.seal.take_limit_near() {
            notices.push(Notice::LimitNear { peer: self.id, session: session.id });
        }
    }
}
