//! The workers, as the control thread sees them: the worker that serves each peer, and the messages to each
//! worker.
//!
//! A worker is a thread with a queue of the TUN device, a socket at each UDP address, and a pair of halves of
//! the data plane. A peer is served by one worker, which alone has its sessions: no counter is used twice,
//! and no replay window has a gap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use adit_access::Rules;
use adit_core::{
    DataEvent, DeviceId, Install, PeerActivity, PeerConfig, PeerId, PeerOrder, SessionId, Transport,
};
use adit_dataplane::codec::{Demultiplexer, SessionCodec};
use adit_dataplane::{Counters, EgressEvent, IngressEvent, Snapshot, install, remote_peer, set_rules, split};

use super::binding::Recognised;
use super::device::Membership;
use super::ids::{EndpointId, Order};
use super::mail::DataMail;
use super::secondary_endpoints::SecondaryEndpoint;
use super::status::WorkerStatus;
use crate::mailbox::Mailbox;
use crate::tun::Tun;
use crate::udp::UdpSocket;

/// The most workers there may be. Systemd units of VPN services allow as few as 20 tasks (`TasksMax`); each worker is
/// one, and control, signals, status and later threads need some too.
pub const MAX_WORKERS: usize = 8;
/// Most sessions that are expected at once. The data threads are not woken for one that is forgotten.
const MOST_EXPECTED: usize = 1024;

/// One of them.
#[derive(Clone)]
pub(super) struct Worker {
    pub(super) mail: Mailbox<DataMail>,
    pub(super) counters: Counters,
    /// How much it forwarded.
    pub(super) forwarded: Arc<AtomicU64>,
}

/// A peer, and the worker that serves it.
struct Served {
    worker: usize,
    config: PeerConfig,
    has_session: bool,
}

/// All workers; there is at least one. Peers and sessions have the endpoint's own ids here, and those of the data plane
/// in the messages to the workers.
pub(super) struct Workers {
    all: Vec<Worker>,
    peers: BTreeMap<PeerId, Served>,
    /// The sessions that may come, whose datagrams the workers hold.
    expected: BTreeSet<SessionId>,
    membership: Membership,
}

impl Drop for Workers {
    /// The data plane forgets the endpoint's peers, whose protocol may have failed.
    fn drop(&mut self) {
        for peer in std::mem::take(&mut self.peers).into_keys() {
            self.tell_all(&DataEvent::Peer(PeerOrder::Remove(peer)), true);
        }
    }
}

impl Workers {
    /// The workers of the endpoint's device.
    pub(super) fn new(membership: Membership) -> Self {
        let all = membership.device.workers.clone();
        Workers { all, peers: BTreeMap::new(), expected: BTreeSet::new(), membership }
    }

    /// The endpoint's part in the device.
    pub(super) fn membership(&self) -> &Membership {
        &self.membership
    }

    fn id(&self) -> EndpointId {
        self.membership.id
    }

    /// Tells the data plane, which is woken by [`Workers::wake`].
    pub(super) fn order(&mut self, event: Order) {
        let wakes = self.wakes(&event);
        match event {
            DataEvent::Peer(PeerOrder::Add(config)) => {
                let worker = match self.peers.get(&config.peer) {
                    Some(served) => served.worker,
                    None => self.worker_for(&config),
                };
                self.place(config, worker);
            }
            DataEvent::Peer(order) => {
                self.note(&order);
                self.tell_all(&DataEvent::Peer(order), wakes);
            }
            DataEvent::Install(install) => match install.codec {},
            DataEvent::Retire { peer, session } => {
                let (own, old) = (self.id().peer(peer), self.id().session(session));
                self.tell_others(peer, false, || IngressEvent::Retire { peer: own, session: old });
                self.tell(peer, event, wakes);
            }
            DataEvent::Expect(session) => {
                if self.expected.len() >= MOST_EXPECTED {
                    self.expected.clear();
                }
                self.expected.insert(session);
                self.tell_all(&event, wakes);
            }
            DataEvent::Activate { peer, .. }
            | DataEvent::Deactivate(peer)
            | DataEvent::Inject { peer, .. }
            | DataEvent::InjectInto { peer, .. } => self.tell(peer, event, wakes),
        }
    }

    /// Keeps the facts of a peer in line with an order.
    fn note(&mut self, order: &PeerOrder) {
        if let PeerOrder::Remove(peer) = order {
            self.peers.remove(peer);
        }
        let Some(Served { config, .. }) = self.peers.get_mut(&order.peer()) else { return };
        match order {
            PeerOrder::Add(_) | PeerOrder::Remove(_) => {}
            PeerOrder::Move { path, .. } => config.path = Some(*path),
            PeerOrder::SetMaxMss { max_mss, .. } => config.max_mss = *max_mss,
            PeerOrder::AddRoute { route, .. } => config.routes.push(*route),
            PeerOrder::RemoveRoute { route, .. } => config.routes.retain(|other| other != route),
        }
    }

    /// Gives the peer's worker a session, whose id the others learn.
    pub(super) fn install(&mut self, new: Install<SessionCodec>) {
        let peer = new.peer;
        self.before_session(peer, &new.codec);
        // Datagrams of the session may wait for it.
        let wakes = self.expected.remove(&new.session);
        let (own, session) = (self.id().peer(peer), self.id().session(new.session));
        self.tell_others(peer, wakes, || IngressEvent::InstallRemote { peer: own, session });
        let (egress, ingress) = install(Install { peer: own, session, ..new });
        self.post_to(peer, (Some(egress), Some(ingress)), wakes);
    }

    /// The worker that serves a new peer: the one to which the kernel steers its datagrams
    /// ([`adit_dataplane::codec::Steering`]). Connections belong to the first worker.
    fn worker_for(&self, config: &PeerConfig) -> usize {
        match config.path.map(|path| path.transport()) {
            Some(Transport::Udp | Transport::Ip(_)) | None => config.peer.0 as usize % self.all.len().max(1),
            Some(Transport::Tcp) => 0,
        }
    }

    /// A peer whose datagrams cannot be steered is served by the first worker, where they arrive. This shows with its
    /// first session.
    fn before_session(&mut self, peer: PeerId, codec: &SessionCodec) {
        let Some(served) = self.peers.get_mut(&peer) else { return };
        let first = !std::mem::replace(&mut served.has_session, true);
        if first && served.worker != 0 && !codec.steered {
            let config = served.config.clone();
            self.place(config, 0);
        }
    }

    /// Makes a peer known to all, to one of them as its own.
    fn place(&mut self, config: PeerConfig, worker: usize) {
        let (told, wakes) = (self.id().config(config.clone()), config.staging);
        for (number, each) in self.all.iter().enumerate() {
            if number == worker {
                post(each, divide(DataEvent::Peer(PeerOrder::Add(told.clone()))), wakes);
            } else {
                let (egress, ingress) = remote_peer(told.clone(), worker as u32);
                post(each, (Some(egress), Some(ingress)), wakes);
            }
        }
        let has_session = self.peers.get(&config.peer).is_some_and(|served| served.has_session);
        self.peers.insert(config.peer, Served { worker, config, has_session });
    }

    fn tell_all(&self, event: &Order, wakes: bool) {
        for worker in &self.all {
            post(worker, divide(self.id().order(event.clone())), wakes);
        }
    }

    /// Tells the peer's worker; the first counts orders for peers that are not there.
    fn tell(&self, peer: PeerId, event: Order, wakes: bool) {
        self.post_to(peer, divide(self.id().order(event)), wakes);
    }

    fn post_to(&self, peer: PeerId, events: (Option<EgressEvent>, Option<IngressEvent>), wakes: bool) {
        let number = self.peers.get(&peer).map_or(0, |served| served.worker);
        if let Some(worker) = self.all.get(number) {
            post(worker, events, wakes);
        }
    }

    /// Tells the workers that do not serve the peer, if there is such a peer.
    fn tell_others(&self, peer: PeerId, wakes: bool, event: impl Fn() -> IngressEvent) {
        let Some(served) = self.peers.get(&peer) else { return };
        let others = self.all.iter().enumerate().filter(|(number, _)| *number != served.worker);
        others.for_each(|(_, worker)| post(worker, (None, Some(event())), wakes));
    }

    /// Whether a sleeping data thread must act on an order at once: if a payload or packets that wait for their peer are to
    /// be sealed. It takes its mail before it opens or seals anything, so peers, routes and keys that come and go change
    /// nothing while it sleeps. To wake it for each costs a server as much as one Diffie-Hellman agreement.
    fn wakes(&self, event: &Order) -> bool {
        match event {
            DataEvent::Inject { .. } | DataEvent::InjectInto { .. } => true,
            DataEvent::Peer(PeerOrder::Add(config)) => config.staging,
            DataEvent::Peer(PeerOrder::Move { peer, .. }) | DataEvent::Activate { peer, .. } => {
                self.peers.get(peer).is_some_and(|served| served.config.staging)
            }
            DataEvent::Peer(_)
            | DataEvent::Install(_)
            | DataEvent::Expect(_)
            | DataEvent::Deactivate(_)
            | DataEvent::Retire { .. } => false,
        }
    }

    /// Tells all the MTU of the device, before they seal anything else.
    pub(super) fn set_mtu(&self, mtu: u16) {
        for worker in &self.all {
            worker.mail.post_for_later(DataMail::Egress(EgressEvent::SetMtu(mtu)));
        }
    }

    /// Has all judge packets by these access rules. Each worker takes its mail in order, so that peers that are added later are
    /// judged by them from their first packet on.
    pub(super) fn set_rules(&self, rules: &Arc<Rules>) {
        for worker in &self.all {
            let (egress, ingress) = set_rules(Arc::clone(rules));
            post(worker, (Some(egress), Some(ingress)), true);
            worker.mail.wake();
        }
    }

    /// Wakes the workers that have a message on which they must act at once.
    pub(super) fn wake(&self) {
        self.all.iter().for_each(|worker| worker.mail.wake_for_mail());
    }

    /// Wakes the workers that have any message and have not taken it.
    pub(super) fn wake_for_rest(&self) {
        self.all.iter().for_each(|worker| worker.mail.wake_for_any());
    }

    /// Gives each worker its socket at an address, with the demultiplexer that it has of its own.
    pub(super) fn add_sockets(
        &self,
        number: u32,
        sockets: &[Arc<UdpSocket>],
        demultiplexer: Option<&Arc<dyn Demultiplexer>>,
    ) {
        for (worker, socket) in self.all.iter().zip(sockets) {
            let demultiplexer = demultiplexer.map(|own| self.id().demultiplexer(own));
            let (endpoint, socket) = (self.id(), Arc::clone(socket));
            worker.mail.post(DataMail::AddSocket { endpoint, number, socket, demultiplexer });
        }
    }

    /// Gives each worker sockets that another endpoint has bound, whose datagrams of `own` are for this
    /// endpoint.
    pub(super) fn share_sockets(
        &self,
        number: u32,
        sockets: &[Arc<UdpSocket>],
        (recognises, own): &Recognised,
    ) {
        let (endpoint, recognises) = (self.id(), *recognises);
        let secondary =
            SecondaryEndpoint { endpoint, recognises, demultiplexer: endpoint.demultiplexer(own) };
        for (worker, socket) in self.all.iter().zip(sockets) {
            let (socket, secondary) = (Arc::clone(socket), secondary.clone());
            worker.mail.post(DataMail::ShareSocket { number, socket, secondary });
        }
    }

    /// The endpoint uses the sockets at an address no more.
    pub(super) fn leave_sockets(&self, number: u32) {
        for worker in &self.all {
            worker.mail.post(DataMail::LeaveSocket { endpoint: self.id(), number });
        }
    }

    /// Gives all workers a device of the endpoint beside the main one.
    pub(super) fn add_device(&self, id: DeviceId, tun: &Arc<Tun>) {
        for worker in &self.all {
            let (endpoint, tun) = (self.id(), Arc::clone(tun));
            worker.mail.post(DataMail::AddDevice { endpoint, id, tun });
            worker.mail.wake();
        }
    }

    /// Tells the first worker, to which all connections belong.
    pub(super) fn post_first(&self, mail: DataMail) {
        if let Some(worker) = self.all.first() {
            worker.mail.post(mail);
        }
    }

    /// Datagrams received from a peer and sealed for it since it was added.
    pub(super) fn traffic(&self, peer: PeerId) -> Option<(u64, u64)> {
        let number = self.peers.get(&peer)?.worker;
        self.all.get(number)?.counters.traffic(self.id().peer(peer))
    }

    /// Bytes that a peer's datagrams brought and took.
    pub(super) fn traffic_bytes(&self, peer: PeerId) -> Option<(u64, u64)> {
        let number = self.peers.get(&peer)?.worker;
        self.all.get(number)?.counters.traffic_bytes(self.id().peer(peer))
    }

    /// The bytes of the protocol's own messages among these.
    pub(super) fn message_bytes(&self, peer: PeerId) -> Option<u64> {
        let number = self.peers.get(&peer)?.worker;
        self.all.get(number)?.counters.message_bytes(self.id().peer(peer))
    }

    /// When data, keepalives and the rest of a peer passed last.
    pub(super) fn activity(&self, peer: PeerId) -> Option<PeerActivity> {
        let number = self.peers.get(&peer)?.worker;
        self.all.get(number)?.counters.activity(self.id().peer(peer))
    }

    /// The counters of all, with the endpoint's peers, and the part of each worker in them.
    pub(super) fn snapshot(&self) -> (Snapshot, Vec<WorkerStatus>) {
        let mut total = Snapshot::default();
        let mut parts = Vec::with_capacity(self.all.len());
        for worker in &self.all {
            let snapshot = worker.counters.snapshot();
            parts.push(WorkerStatus {
                peers: snapshot.peers.len(),
                packets_sent: snapshot.egress.packets,
                packets_received: snapshot.ingress.packets,
                handed_over: worker.forwarded.load(Ordering::Relaxed),
            });
            total.merge(snapshot);
        }
        self.id().narrow(&mut total);
        (total, parts)
    }
}

/// An order that installs nothing; or the session that is installed.
pub(super) fn or_install<C>(event: DataEvent<C>) -> Result<Order, Box<Install<C>>> {
    Ok(match event {
        DataEvent::Install(install) => return Err(install),
        DataEvent::Peer(order) => DataEvent::Peer(order),
        DataEvent::Expect(session) => DataEvent::Expect(session),
        DataEvent::Activate { peer, session } => DataEvent::Activate { peer, session },
        DataEvent::Deactivate(peer) => DataEvent::Deactivate(peer),
        DataEvent::Retire { peer, session } => DataEvent::Retire { peer, session },
        DataEvent::Inject { peer, payload } => DataEvent::Inject { peer, payload },
        DataEvent::InjectInto { peer, session, payload } => DataEvent::InjectInto { peer, session, payload },
    })
}

fn divide(event: Order) -> (Option<EgressEvent>, Option<IngressEvent>) {
    split(event, |install| match install.codec {})
}

/// A worker that is gone has sent the reason by a mail of its own.
fn post(worker: &Worker, (egress, ingress): (Option<EgressEvent>, Option<IngressEvent>), wakes: bool) {
    let mails = egress.map(DataMail::Egress).into_iter().chain(ingress.map(DataMail::Ingress));
    for mail in mails {
        if wakes {
            worker.mail.post(mail);
        } else {
            worker.mail.post_for_later(mail);
        }
    }
}
