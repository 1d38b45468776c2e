//! The state of the opening half: peers, the paths they use, their sessions, and the owner of each session. Every
//! change costs the same however many peers there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use adit_access::{Direction, Rules};
use adit_core::{DeviceId, Flow, Instant, IpNet, Notice, Path, PeerConfig, PeerId, PeerOrder, SessionId};

use crate::access::{Access, AllRoutes, PeerAccess, SharedFlows};
use crate::codec::{OpenSession, Opener};
use crate::counters::{Counters, DropReason, Half, PeerCounter};
use crate::event::EgressEvent;
use crate::headers::Ip;
use crate::outer::OuterPolicy;
use crate::receive::ReceiveBatch;
use crate::routes::Routes;
use crate::selectors::{Selectors, inbound, outbound};
use crate::slab::Slab;

/// Moves of one peer that are followed between two ticks. A peer that changes its address with each packet costs the protocol
/// no more. That it comes to another of our addresses is a move, too.
pub(crate) const MOVES: u8 = 16;

/// A session whose keys are here.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// The peer's slot.
    pub(crate) peer: u32,
    pub(crate) open: Box<dyn Opener>,
    pub(crate) is_keepalive: fn(&[u8]) -> bool,
    /// When it opens no more.
    pub(crate) expires: Option<Instant>,
    pub(crate) outer: OuterPolicy,
    /// The packets that it opens; `None`: all.
    pub(crate) selectors: Option<Arc<Selectors>>,
    pub(crate) used: bool,
    pub(crate) series: u32,
    /// Later sessions have higher numbers, from 1 on.
    pub(crate) number: u64,
}

/// The opener of a session's datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// We, with the session of that number.
    Here(u32),
    /// The worker that serves the peer in that slot.
    Elsewhere(u32),
}

pub(crate) struct Peer {
    pub(crate) id: PeerId,
    /// `None`: not known yet.
    pub(crate) path: Option<Path>,
    /// Another path, by which the peer's datagrams came: the protocol was notified of it and did not answer
    /// yet, or refused it.
    pub(crate) moved: Option<Path>,
    pub(crate) roams: bool,
    /// Whether its path is its own.
    by_path: bool,
    /// Moves that may still be followed before the next tick.
    pub(crate) moves: u8,
    /// The number of the latest session of each series that opened something. Packets that earlier sessions open are
    /// older.
    pub(crate) latest: BTreeMap<u32, u64>,
    pub(crate) device: DeviceId,
    pub(crate) max_mss: Option<u16>,
    /// The packets that are the peer's; `None`: all that its routes lead to.
    selectors: Option<Selectors>,
    pub(crate) counter: Arc<PeerCounter>,
    /// The worker that serves it, if it is another one. Then its sessions are known by their ids alone.
    pub(crate) worker: Option<u32>,
    /// A handful at most.
    sessions: Vec<SessionId>,
    access: PeerAccess,
}

/// All of them.
pub(crate) struct Peers {
    pub(crate) peers: Slab<Peer>,
    slots: BTreeMap<PeerId, u32>,
    pub(crate) paths: BTreeMap<Path, u32>,
    pub(crate) sessions: Slab<Session>,
    owners: BTreeMap<SessionId, Owner>,
    /// The routes of the main device.
    routes: Routes,
    other_routes: BTreeMap<DeviceId, Routes>,
    counters: Counters,
    /// Sessions installed so far.
    installed: u64,
    access: Access,
}

impl Peers {
    pub(crate) fn new(counters: Counters, flows: SharedFlows) -> Self {
        Peers {
            peers: Slab::default(),
            slots: BTreeMap::new(),
            paths: BTreeMap::new(),
            sessions: Slab::default(),
            owners: BTreeMap::new(),
            routes: Routes::default(),
            other_routes: BTreeMap::new(),
            counters,
            installed: 0,
            access: Access::new(Direction::FromPeer, flows),
        }
    }

    /// The owner of that session.
    pub(crate) fn owner(&self, id: SessionId) -> Option<Owner> {
        self.owners.get(&id).copied()
    }

    /// The peer that uses a path.
    pub(crate) fn at(&self, path: &Path) -> Option<&Peer> {
        self.peers.get(*self.paths.get(path)?)
    }

    /// Follows an order.
    pub(crate) fn change(&mut self, order: PeerOrder) {
        match order {
            PeerOrder::Add(config) => self.add(config, None),
            PeerOrder::Remove(peer) => self.remove(peer),
            PeerOrder::Move { peer, path } => self.relocate(peer, path),
            PeerOrder::SetMaxMss { peer, max_mss } => self.set_max_mss(peer, max_mss),
            PeerOrder::AddRoute { peer, route } => self.add_route(peer, route),
            PeerOrder::RemoveRoute { peer, route } => self.remove_route(peer, route),
        }
    }

    pub(crate) fn add(&mut self, config: PeerConfig, worker: Option<u32>) {
        let known = self.slots.get(&config.peer).and_then(|slot| self.peers.get(*slot));
        if known.is_some_and(|known| known.worker != worker) {
            // Another worker serves it now: its sessions stay with the one that has their counters.
            self.remove(config.peer);
        }
        let PeerConfig {
            peer: id, path, routes, device, selectors, max_mss, roams, by_path, identity, ..
        } = config;
        self.access.note_change();
        let is_served_here = worker.is_none();
        let selectors = (!selectors.is_empty()).then(|| Selectors::new(&selectors));
        let shares = selectors.is_some();
        let slot = match self.slots.get(&id).copied() {
            Some(slot) => {
                self.leave_device(slot, device);
                if let Some(peer) = self.peers.get_mut(slot) {
                    peer.leave_paths(slot, &mut self.paths);
                    // The moves that may be followed before the next tick stay as many as they were: a change of the
                    // peer's address may be the cause of the new facts.
                    (peer.path, peer.max_mss) = (path, max_mss);
                    (peer.roams, peer.by_path) = (roams, by_path);
                    peer.selectors = selectors;
                    self.access.identify(id, &mut peer.access, identity, is_served_here);
                }
                slot
            }
            None => {
                let counter = match worker {
                    None => self.counters.add_peer(Half::Ingress, id),
                    // It counts nothing here.
                    Some(_) => Arc::default(),
                };
                let sessions = Vec::new();
                let (moved, moves, latest) = (None, MOVES, BTreeMap::new());
                let access = self.access.admit(id, identity, is_served_here);
                let peer = Peer {
                    id,
                    path,
                    moved,
                    roams,
                    by_path,
                    moves,
                    latest,
                    device,
                    max_mss,
                    selectors,
                    counter,
                    worker,
                    sessions,
                    access,
                };
                let slot = self.peers.insert(peer);
                self.slots.insert(id, slot);
                slot
            }
        };
        if let Some(path) = path.filter(|path| owns(path, by_path)) {
            self.paths.insert(path, slot);
        }
        self.routes_of(device).replace(slot, routes, shares);
    }

    fn routes_of(&mut self, device: DeviceId) -> &mut Routes {
        match device {
            DeviceId::MAIN => &mut self.routes,
            other => self.other_routes.entry(other).or_default(),
        }
    }

    /// The peer has that device from now on, and no routes of the one before.
    fn leave_device(&mut self, slot: u32, device: DeviceId) {
        let Some(peer) = self.peers.get_mut(slot) else { return };
        let before = std::mem::replace(&mut peer.device, device);
        self.routes_of(before).remove(slot);
    }

    /// The slot of a peer, and the routes of its device. Orders for one that is not there are counted.
    fn routes_to(&mut self, id: PeerId) -> Option<(u32, &mut Routes)> {
        let Some(slot) = self.slots.get(&id).copied() else {
            self.count_no_peer();
            return None;
        };
        let device = self.peers.get(slot)?.device;
        Some((slot, self.routes_of(device)))
    }

    /// Whether the peer that an address of the main device belongs to depends on selectors.
    pub(crate) fn share_routes(&self) -> bool {
        self.routes.are_shared()
    }

    /// Whether the peer in the slot may send a packet with that header to the main device. `selected`: the packet's session has
    /// selectors, which were found to match.
    #[inline]
    pub(crate) fn may_send(&self, slot: u32, ip: &Ip, payload: &[u8], selected: bool) -> bool {
        match self.routes.are_shared() {
            true => self.is_sender(&self.routes, slot, ip, payload, selected),
            false => self.routes.lookup(ip.source) == Some(slot),
        }
    }

    /// Whether the peer in the slot, of a device that is not the main one, may send a packet with that header there.
    pub(crate) fn may_send_at(
        &self,
        device: DeviceId,
        slot: u32,
        ip: &Ip,
        payload: &[u8],
        selected: bool,
    ) -> bool {
        let routes = self.other_routes.get(&device);
        routes.is_some_and(|routes| self.is_sender(routes, slot, ip, payload, selected))
    }

    #[inline(never)]
    fn is_sender(&self, routes: &Routes, slot: u32, ip: &Ip, payload: &[u8], selected: bool) -> bool {
        if selected {
            return routes.lead_to(ip.source, slot);
        }
        let flow = inbound(ip, payload);
        routes.find(ip.source, |slot| self.selects(slot, &flow)) == Ok(slot)
    }

    /// The slot of the peer of the main device that a packet is for.
    pub(crate) fn receiver(&self, ip: &Ip, payload: &[u8]) -> Option<u32> {
        if !self.routes.are_shared() {
            return self.routes.lookup(ip.destination);
        }
        let flow = outbound(ip, payload);
        self.routes.find(ip.destination, |slot| self.selects(slot, &flow)).ok()
    }

    /// Judges packets by these access rules from now on.
    pub(crate) fn set_rules(&mut self, rules: Arc<Rules>) {
        self.access.set_rules(rules);
        for peer in self.peers.iter_mut() {
            self.access.renew(peer.id, &mut peer.access, peer.worker.is_none());
        }
    }

    /// Whether there are access rules.
    #[inline]
    pub(crate) fn has_rules(&self) -> bool {
        self.access.has_rules()
    }

    /// Whether the access rules let a packet pass that the peer in that slot sent.
    #[inline(never)]
    pub(crate) fn is_allowed(&mut self, slot: u32, packet: &[u8], now: Instant) -> bool {
        let Some(peer) = self.peers.get_mut(slot) else { return false };
        let (device, Some(mut guard)) = (peer.device, peer.access.take_guard()) else { return true };
        let routes = AllRoutes { main: &self.routes, others: &self.other_routes };
        let access = |slot: u32| self.peers.get(slot).map(|peer| &peer.access);
        let passes = guard
            .passes(packet, self.access.moment(now), |address| routes.owner((slot, device), address, access));
        if let Some(peer) = self.peers.get_mut(slot) {
            peer.access.put_back(guard);
        }
        passes
    }

    /// Whether a packet is one of those that a peer with selectors has.
    fn selects(&self, slot: u32, flow: &Flow) -> bool {
        let selectors = self.peers.get(slot).and_then(|peer| peer.selectors.as_ref());
        selectors.is_some_and(|selectors| selectors.select(flow))
    }

    fn remove(&mut self, id: PeerId) {
        let Some(slot) = self.slots.remove(&id) else { return };
        let Some(mut peer) = self.peers.remove(slot) else { return };
        self.access.note_change();
        self.routes_of(peer.device).remove(slot);
        peer.leave_paths(slot, &mut self.paths);
        for session in peer.sessions {
            if let Some(Owner::Here(index)) = self.owners.remove(&session) {
                self.sessions.remove(index);
            }
        }
        self.counters.remove_peer(Half::Ingress, id);
    }

    fn relocate(&mut self, id: PeerId, path: Path) {
        let Some(slot) = self.slots.get(&id).copied() else { return self.count_no_peer() };
        let Some(peer) = self.peers.get_mut(slot) else { return };
        let refused = peer.moved.filter(|_| peer.path == Some(path));
        peer.leave_paths(slot, &mut self.paths);
        if owns(&path, peer.by_path) {
            self.paths.insert(path, slot);
        }
        peer.path = Some(path);
        // It is not asked about again.
        peer.moved = refused;
    }

    fn set_max_mss(&mut self, id: PeerId, max_mss: Option<u16>) {
        let Some(slot) = self.slots.get(&id).copied() else { return self.count_no_peer() };
        if let Some(peer) = self.peers.get_mut(slot) {
            peer.max_mss = max_mss;
        }
    }

    fn add_route(&mut self, id: PeerId, route: IpNet) {
        if let Some((slot, routes)) = self.routes_to(id) {
            routes.insert(route, slot);
        }
        self.access.note_change();
    }

    fn remove_route(&mut self, id: PeerId, route: IpNet) {
        if let Some((slot, routes)) = self.routes_to(id) {
            routes.delete(route, slot);
        }
        self.access.note_change();
    }

    pub(crate) fn install(&mut self, peer: PeerId, id: SessionId, series: u32, session: OpenSession) {
        let Some(slot) = self.slots.get(&peer).copied() else { return self.count_no_peer() };
        let OpenSession { codec: mut open, is_keepalive, expires, outer, selectors } = session;
        if let Some(window) = self.retire(id).and_then(|mut replaced| replaced.take_window()) {
            open.adopt_window(window);
        }
        self.installed += 1;
        let number = self.installed;
        let session = Session {
            id,
            peer: slot,
            open,
            is_keepalive,
            expires,
            outer,
            selectors,
            used: false,
            series,
            number,
        };
        let index = self.sessions.insert(session);
        self.own(slot, id, Owner::Here(index));
    }

    /// A session whose keys another worker has.
    pub(crate) fn install_remote(&mut self, peer: PeerId, id: SessionId) {
        let Some(slot) = self.slots.get(&peer).copied() else { return self.count_no_peer() };
        self.retire(id);
        self.own(slot, id, Owner::Elsewhere(slot));
    }

    fn own(&mut self, slot: u32, id: SessionId, owner: Owner) {
        self.owners.insert(id, owner);
        if let Some(peer) = self.peers.get_mut(slot) {
            peer.sessions.reserve_exact(1);
            peer.sessions.push(id);
        }
    }

    /// Removes a session, and gives its opener if it was here.
    pub(crate) fn retire(&mut self, id: SessionId) -> Option<Box<dyn Opener>> {
        let owner = self.owners.remove(&id)?;
        let (slot, session) = match owner {
            Owner::Elsewhere(slot) => (slot, None),
            Owner::Here(index) => {
                let session = self.sessions.remove(index)?;
                (session.peer, Some(session))
            }
        };
        let peer = self.peers.get_mut(slot)?;
        peer.sessions.retain(|other| *other != id);
        let session = session?;
        if peer.latest.get(&session.series) == Some(&session.number) {
            let left = peer.sessions.iter().filter_map(|id| match self.owners.get(id)? {
                Owner::Here(index) => self.sessions.get(*index),
                Owner::Elsewhere(_) => None,
            });
            let left = left.filter(|left| left.used && left.series == session.series);
            match left.map(|left| left.number).max() {
                Some(latest) => peer.latest.insert(session.series, latest),
                None => peer.latest.remove(&session.series),
            };
        }
        Some(session.open)
    }

    fn count_no_peer(&self) {
        self.counters.drop_one(Half::Ingress, DropReason::NoPeer);
    }
}

/// Whether a peer has a path for itself alone: each connection has one peer.
fn owns(path: &Path, by_path: bool) -> bool {
    by_path || path.is_stream()
}

impl Peer {
    /// The peer's newest datagram came by `path`. Tells the protocol, once, that it is elsewhere than was known, and
    /// sends there at once if the peer may roam and no other is there; or again to where it was known to be.
    /// `anywhere`: it may also come by a TCP connection, or by another one.
    #[cold]
    pub(crate) fn note_path(
        &mut self,
        slot: u32,
        path: Path,
        anywhere: bool,
        paths: &mut BTreeMap<Path, u32>,
        out: &mut ReceiveBatch,
    ) {
        let is_back = self.path == Some(path);
        let datagrams = !path.is_stream() && !self.path.as_ref().is_some_and(Path::is_stream);
        if self.moved == Some(path) || !(is_back || datagrams || anywhere) || (self.moves == 0 && !is_back) {
            return;
        }
        self.release(slot, paths);
        if !is_back {
            self.moves -= 1;
            self.moved = Some(path);
            out.push_notice(Notice::Moved { peer: self.id, path });
        }
        let owns = owns(&path, self.by_path);
        if self.roams && (is_back || !owns || *paths.entry(path).or_insert(slot) == slot) {
            out.push_order(EgressEvent::Peer(PeerOrder::Move { peer: self.id, path }));
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

    /// Leaves all its paths to others.
    fn leave_paths(&mut self, slot: u32, paths: &mut BTreeMap<Path, u32>) {
        self.release(slot, paths);
        if let Some(path) = &self.path
            && paths.get(path) == Some(&slot)
        {
            paths.remove(path);
        }
    }
}
