//! The way from the TUN device to the net: route, cut, seal.

mod access;
mod choices;
mod peer;

use std::collections::BTreeMap;
use std::sync::Arc;

use adit_access::Direction;
use adit_checksum::WordSum;
use adit_core::{DeviceId, Flow, Instant, Notice, PeerConfig, PeerId, PeerOrder, SessionId};

use self::choices::Choices;
use self::peer::{Active, Peer, Session};
use crate::access::{Access, SharedFlows};
use crate::codec::Run;
use crate::counters::{Counters, DropReason, Half};
use crate::event::EgressEvent;
use crate::headers::Ip;
use crate::mss;
use crate::offload::{Offload, Segmentation};
use crate::routes::Routes;
use crate::segment::{Segments, finish_checksum};
use crate::selectors::{Selectors, outbound};
use crate::slab::Slab;
use crate::staging::{Staged, StagedBytes};
use crate::transmit::TransmitBatch;
use crate::unreachable::Unreachable;

/// The half that seals. Owned by one thread.
pub struct Egress {
    words: WordSum,
    peers: Slab<Peer>,
    slots: BTreeMap<PeerId, u32>,
    /// The routes of the main device.
    routes: Routes,
    other_routes: BTreeMap<DeviceId, Routes>,
    notices: Vec<Notice>,
    /// The headers of the super-packet that is being cut.
    template: Vec<u8>,
    counters: Counters,
    staged: StagedBytes,
    /// `None`: senders of packets that cannot be carried get no answer.
    unreachable: Option<Unreachable>,
    /// The MTU of the device. `None`: the sessions know it themselves.
    mtu: Option<u16>,
    choices: Choices,
    access: Access,
    now: Instant,
}

impl Egress {
    pub(crate) fn new(words: WordSum, counters: Counters, flows: SharedFlows) -> Self {
        Egress {
            words,
            peers: Slab::default(),
            slots: BTreeMap::new(),
            routes: Routes::default(),
            other_routes: BTreeMap::new(),
            notices: Vec::new(),
            template: Vec::new(),
            counters,
            staged: StagedBytes::default(),
            unreachable: None,
            mtu: None,
            choices: Choices::default(),
            access: Access::new(Direction::ToPeer, flows),
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
    /// multicast and later fragments are never answered, nor packets for a peer whose packets do not wait.
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

    /// Follows an order. An injected payload is sealed into `out`, and so are the packets that waited for a session or
    /// a path that is there now.
    pub fn apply(&mut self, event: EgressEvent, out: &mut TransmitBatch) {
        self.choices.clear();
        match event {
            EgressEvent::SetMtu(mtu) => self.set_mtu(mtu),
            EgressEvent::SetRules(rules) => self.set_rules(rules),
            EgressEvent::Peer(order) => self.change_peer(order, out),
            EgressEvent::AddRemotePeer { peer, worker } => self.add_peer(peer, Some(worker)),
            EgressEvent::Install { peer, session, series, on_first_opened, mut seal } => {
                let mtu = self.mtu;
                if let Some(peer) = self.peer(peer) {
                    if let Some(mtu) = mtu.filter(|_| peer.device.is_main()) {
                        seal.codec.set_mtu(mtu);
                    }
                    peer.install(Session::new(session, series, on_first_opened, seal));
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
                    peer.deactivate_all();
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
                if let Some((slot, routes)) = self.routes_to(peer) {
                    routes.insert(route, slot);
                }
                self.access.note_change();
            }
            PeerOrder::RemoveRoute { peer, route } => {
                if let Some((slot, routes)) = self.routes_to(peer) {
                    routes.delete(route, slot);
                }
                self.access.note_change();
            }
        }
    }

    /// The slot of a peer, and the routes of its device. Orders for one that is not there are counted.
    fn routes_to(&mut self, peer: PeerId) -> Option<(u32, &mut Routes)> {
        let slot = self.slot(peer)?;
        let device = self.peers.get(slot)?.device;
        Some((slot, self.routes_of(device)))
    }

    fn routes_of(&mut self, device: DeviceId) -> &mut Routes {
        match device {
            DeviceId::MAIN => &mut self.routes,
            other => self.other_routes.entry(other).or_default(),
        }
    }

    /// The slot of the peer that a packet from that device is for.
    fn find_from(&self, device: DeviceId, ip: &Ip, flow: &Flow) -> Result<u32, DropReason> {
        let routes = match device {
            DeviceId::MAIN => &self.routes,
            other => self.other_routes.get(&other).ok_or(DropReason::NoRoute)?,
        };
        routes.find(ip.destination, |slot| {
            let selectors = self.peers.get(slot).and_then(|peer| peer.selectors.as_ref());
            selectors.is_some_and(|selectors| selectors.select(flow))
        })
    }

    /// Seals one read from the main TUN device: a packet, or a super-packet that is cut on the way, for which
    /// `packet` is used up. A packet that cannot be sent is dropped and counted.
    #[inline]
    pub fn seal_packet(&mut self, offload: Offload, packet: &mut [u8], out: &mut TransmitBatch) {
        if self.seal_or_pass(offload, packet, out).is_some() {
            self.counters.drop_one(Half::Egress, DropReason::NoSession);
        }
    }

    /// Seals as [`Egress::seal_packet`] does, but leaves a packet for a peer that another worker serves to
    /// the caller, and gives the number of that worker, to which the caller hands the packet.
    #[inline]
    pub fn seal_or_pass(
        &mut self,
        offload: Offload,
        packet: &mut [u8],
        out: &mut TransmitBatch,
    ) -> Option<u32> {
        let reason = self.try_seal(&offload, packet, out).err()?;
        if matches!(reason, DropReason::NoSession | DropReason::NotSelected) {
            return self.without_session(DeviceId::MAIN, offload, packet, reason);
        }
        if matches!(reason, DropReason::NoRoute | DropReason::NoPeer) {
            self.answer(packet);
        }
        self.count(reason)
    }

    /// [`Egress::seal_or_pass`] for a read from any device of the tunnel. The sender of a packet that came from another
    /// device than the main one and that no peer takes gets no answer.
    #[inline]
    pub fn seal_from(
        &mut self,
        device: DeviceId,
        offload: Offload,
        packet: &mut [u8],
        out: &mut TransmitBatch,
    ) -> Option<u32> {
        match device.is_main() {
            true => self.seal_or_pass(offload, packet, out),
            false => self.seal_from_other(device, offload, packet, out),
        }
    }

    #[inline(never)]
    fn seal_from_other(
        &mut self,
        device: DeviceId,
        offload: Offload,
        packet: &mut [u8],
        out: &mut TransmitBatch,
    ) -> Option<u32> {
        match self.try_seal_from(device, &offload, packet, out).err()? {
            reason @ (DropReason::NoSession | DropReason::NotSelected) => {
                self.without_session(device, offload, packet, reason)
            }
            reason => self.count(reason),
        }
    }

    /// [`Egress::seal_packet`] for a read from any device of the tunnel.
    pub fn seal_packet_from(
        &mut self,
        device: DeviceId,
        offload: Offload,
        packet: &mut [u8],
        out: &mut TransmitBatch,
    ) {
        if self.seal_from(device, offload, packet, out).is_some() {
            self.counters.drop_one(Half::Egress, DropReason::NoSession);
        }
    }

    /// Tells the sender of a packet that it cannot be carried.
    #[cold]
    fn answer(&mut self, packet: &[u8]) {
        if let Some(unreachable) = &mut self.unreachable {
            unreachable.answer(packet, self.now);
        }
    }

    /// Handles a packet that cannot be sealed now for that reason: another worker serves the peer, or the packet waits,
    /// or it is dropped.
    #[cold]
    fn without_session(
        &mut self,
        device: DeviceId,
        offload: Offload,
        packet: &[u8],
        reason: DropReason,
    ) -> Option<u32> {
        let Some(ip) = Ip::parse(packet) else { return self.count(DropReason::Malformed) };
        let flow = outbound(&ip, packet);
        let slot = match self.find_from(device, &ip, &flow) {
            Ok(slot) => slot,
            Err(reason) => return self.count(reason),
        };
        let Some(peer) = self.peers.get_mut(slot) else { return self.count(DropReason::NoPeer) };
        if peer.worker.is_some() {
            return peer.worker;
        }
        let has_path = peer.path.is_some();
        let selector = match &peer.selectors {
            Some(selectors) => selectors.position(&flow),
            // It has sessions, and none is to come that carries other packets.
            None => (reason == DropReason::NoSession).then_some(0),
        };
        let (Some(staging), Some(selector)) = (&mut peer.staging, selector) else {
            return self.count(reason);
        };
        let staged = Staged { offload, packet: packet.to_vec(), selector };
        let dropped = staging.push(staged, &mut self.staged);
        if staging.take_notice(selector, self.now) {
            self.notices.push(Notice::Wanted { peer: peer.id, flow });
        }
        (0..dropped).for_each(|_| self.counters.drop_one(Half::Egress, DropReason::NoSession));
        if !has_path && device.is_main() {
            // It waits all the same, in case that a path is found.
            self.answer(packet);
        }
        None
    }

    fn count(&self, reason: DropReason) -> Option<u32> {
        self.counters.drop_one(Half::Egress, reason);
        None
    }

    /// Seals the packets that waited for that peer, if they can be sealed by now.
    fn send_staged(&mut self, id: PeerId, out: &mut TransmitBatch) {
        let (Some(slot), now) = (self.slots.get(&id).copied(), self.now) else { return };
        let Some(peer) = self.peers.get_mut(slot).filter(|peer| peer.is_ready(now)) else { return };
        let Some(mut staging) = peer.staging.take() else { return };
        let mut from = 0;
        while let Some(peer) = self.peers.get(slot)
            && let Some((place, mut staged)) =
                staging.take(from, |packet| peer.can_seal(packet, now), &mut self.staged)
        {
            from = place;
            let device = peer.device;
            if let Err(reason) = self.try_seal_from(device, &staged.offload, &mut staged.packet, out) {
                self.counters.drop_one(Half::Egress, reason);
            }
        }
        staging.forget_notices();
        if let Some(peer) = self.peers.get_mut(slot) {
            peer.staging = Some(staging);
        }
    }

    /// Seals a packet that another peer sent and [`crate::Ingress`] checked ([`crate::ReceiveBatch::relay`]).
    pub fn relay_packet(&mut self, packet: &mut [u8], out: &mut TransmitBatch) {
        self.seal_packet(Offload::NONE, packet, out);
    }

    /// The notices for the protocol: [`Notice::LimitNear`], [`Notice::Wanted`].
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
        let (slot, session) = match self.choices.get(&ip, packet, self.now) {
            Some(chosen) => (chosen.slot, chosen.session),
            None => self.session_of(&ip, packet)?,
        };
        self.seal_with(slot, session, &ip, offload, packet, out)
    }

    /// The slot of the peer of a packet from the main device, and the index of the session that seals it.
    #[inline(never)]
    fn session_of(&mut self, ip: &Ip, packet: &[u8]) -> Result<(u32, usize), DropReason> {
        if !self.routes.are_shared() {
            let slot = self.routes.lookup(ip.destination).ok_or(DropReason::NoRoute)?;
            let peer = self.peers.get(slot).ok_or(DropReason::NoPeer)?;
            if let Some(session) = peer.only_session(self.now) {
                // A packet that is passed on, or waits, must be whole.
                let session = session?;
                self.choices.note_destination(ip.destination, peer.choice(slot, session));
                return Ok((slot, session));
            }
        }
        self.choose(DeviceId::MAIN, ip, packet)
    }

    fn try_seal_from(
        &mut self,
        device: DeviceId,
        offload: &Offload,
        packet: &mut [u8],
        out: &mut TransmitBatch,
    ) -> Result<(), DropReason> {
        let ip = Ip::parse(packet).ok_or(DropReason::Malformed)?;
        let (slot, session) = self.choose(device, &ip, packet)?;
        self.seal_with(slot, session, &ip, offload, packet, out)
    }

    /// The slot of the peer of a packet from that device, and the index of the session that seals it.
    #[inline(never)]
    fn choose(&mut self, device: DeviceId, ip: &Ip, packet: &[u8]) -> Result<(u32, usize), DropReason> {
        let flow = outbound(ip, packet);
        let slot = self.find_from(device, ip, &flow)?;
        let peer = self.peers.get(slot).ok_or(DropReason::NoPeer)?;
        let session = peer.session_for(&flow, self.now)?;
        if device.is_main() {
            self.choices.note_flow(ip, packet, peer.choice(slot, session));
        }
        Ok((slot, session))
    }

    /// Seals a packet with that header for the peer in that slot, with the session at that index.
    #[inline(always)]
    fn seal_with(
        &mut self,
        slot: u32,
        session: usize,
        ip: &Ip,
        offload: &Offload,
        packet: &mut [u8],
        out: &mut TransmitBatch,
    ) -> Result<(), DropReason> {
        if self.access.has_rules() && !self.may_receive(slot, packet.get(..ip.len).unwrap_or_default()) {
            return Err(DropReason::NotAllowed);
        }
        let peer = self.peers.get_mut(slot).ok_or(DropReason::NoPeer)?;
        let sealed = if offload.segmentation == Segmentation::None {
            let packet = packet.get_mut(..ip.len).ok_or(DropReason::Malformed)?;
            finish_checksum(self.words, offload, packet)?;
            if let Some(max) = peer.max_mss {
                mss::clamp(packet, ip, max);
            }
            peer.seal(session, Some(ip), packet, &mut self.notices, out)
        } else {
            let segments = Segments::new(self.words, offload, packet, ip, &mut self.template)?;
            let run = Run { segments: &segments, template: &self.template, packet, next: 0 };
            peer.seal_run(session, ip, run, &mut self.notices, out)
        };
        if sealed.is_ok() {
            peer.counter.stamp_data(self.now);
        }
        sealed
    }

    fn set_mtu(&mut self, mtu: u16) {
        self.mtu = Some(mtu);
        let peers = self.peers.iter_mut().filter(|peer| peer.device.is_main());
        for session in peers.flat_map(|peer| &mut peer.sessions) {
            session.seal.set_mtu(mtu);
        }
    }

    fn inject(&mut self, id: PeerId, session: Option<SessionId>, payload: &[u8], out: &mut TransmitBatch) {
        let sealed = match self.slots.get(&id).and_then(|slot| self.peers.get_mut(*slot)) {
            None => Err(DropReason::NoPeer),
            Some(peer) => {
                let session = match session {
                    Some(id) => peer.position(id),
                    None => peer.first_active(self.now),
                };
                match session {
                    Some(index) => peer.seal_message(index, payload, self.now, &mut self.notices, out),
                    None => Err(DropReason::NoSession),
                }
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
        let PeerConfig { peer: id, path, routes, device, selectors, max_mss, staging, identity, .. } = config;
        self.access.note_change();
        let is_served_here = worker.is_none();
        let selectors = (!selectors.is_empty()).then(|| Selectors::new(&selectors));
        let shares = selectors.is_some();
        let slot = match self.slots.get(&id).copied() {
            Some(slot) => {
                self.routes_to(id).into_iter().for_each(|(slot, routes)| routes.remove(slot));
                if let Some(peer) = self.peers.get_mut(slot) {
                    (peer.path, peer.max_mss, peer.device) = (path, max_mss, device);
                    self.access.identify(id, &mut peer.access, identity, is_served_here);
                    let stays = staging && peer.selectors == selectors;
                    peer.selectors = selectors;
                    if let Some(mut waiting) = peer.staging.take_if(|_| !stays) {
                        waiting.clear(&mut self.staged);
                    }
                    if staging {
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
                let (sessions, active) = (Vec::new(), Active::None);
                let staging = staging.then(Box::default);
                let access = self.access.admit(id, identity, is_served_here);
                let peer = Peer {
                    id,
                    path,
                    max_mss,
                    device,
                    sessions,
                    active,
                    selectors,
                    counter,
                    worker,
                    staging,
                    access,
                };
                let slot = self.peers.insert(peer);
                self.slots.insert(id, slot);
                slot
            }
        };
        self.routes_of(device).replace(slot, routes, shares);
    }

    fn remove_peer(&mut self, id: PeerId) {
        let Some(slot) = self.slots.remove(&id) else { return };
        let Some(peer) = self.peers.remove(slot) else { return };
        self.access.note_change();
        self.routes_of(peer.device).remove(slot);
        if let Some(mut staging) = peer.staging {
            staging.clear(&mut self.staged);
        }
        self.counters.remove_peer(Half::Egress, id);
    }
}
