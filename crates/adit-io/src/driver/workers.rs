//! The workers, as the control thread sees them: which of them serves a peer, and what each must be told.
//!
//! A worker is a thread with a queue of the TUN device, a socket at each UDP address, and a pair of halves of
//! the data plane. A peer is served by one worker, which alone has its sessions: no counter is used twice,
//! and no replay window has a gap.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use adit_core::{DataEvent, Framing, Install, OpenVpnFraming, OpenVpnHeader, PeerConfig, PeerId, Transport};
use adit_dataplane::{Counters, EgressEvent, IngressEvent, Snapshot, foreign, split};

use super::mail::DataMail;
use super::status::WorkerStatus;
use crate::mailbox::Mailbox;
use crate::udp::UdpSocket;

/// The most workers there may be. OpenVPN's systemd unit allows its service 20 tasks (`TasksMax`); each worker
/// is one, and control, signals, status and what comes later need some too.
pub const MAX_WORKERS: usize = 8;

/// One of them.
pub(super) struct Worker {
    pub(super) mail: Mailbox<DataMail>,
    pub(super) counters: Counters,
    /// How much it handed to others.
    pub(super) handed: Arc<AtomicU64>,
}

/// A peer, and who serves it.
struct Served {
    worker: usize,
    config: PeerConfig,
    has_session: bool,
}

/// All workers; there is at least one.
pub(super) struct Workers {
    all: Vec<Worker>,
    peers: BTreeMap<PeerId, Served>,
}

impl Workers {
    pub(super) fn new(all: Vec<Worker>) -> Self {
        Workers { all, peers: BTreeMap::new() }
    }

    /// Tells the data plane, which is woken by [`Workers::wake`].
    pub(super) fn order(&mut self, event: DataEvent) {
        match event {
            DataEvent::AddPeer(config) => {
                let worker = match self.peers.get(&config.peer) {
                    Some(served) => served.worker,
                    None => self.worker_for(&config),
                };
                self.place(config, worker);
            }
            DataEvent::RemovePeer(peer) => {
                self.peers.remove(&peer);
                self.tell_all(&event);
            }
            DataEvent::MovePeer { peer, path } => {
                if let Some(served) = self.peers.get_mut(&peer) {
                    served.config.path = path;
                }
                self.tell_all(&event);
            }
            DataEvent::Install(install) => {
                self.before_session(&install);
                self.tell(install.peer, DataEvent::Install(install));
            }
            DataEvent::Activate { peer, .. }
            | DataEvent::Retire { peer, .. }
            | DataEvent::Inject { peer, .. } => self.tell(peer, event),
        }
    }

    /// Who shall serve a new peer. What the kernel steers by is the peer-id in datagrams; connections belong
    /// to the first worker.
    fn worker_for(&self, config: &PeerConfig) -> usize {
        match config.path.transport() {
            Transport::Udp => config.peer.0 as usize % self.all.len().max(1),
            Transport::Tcp => 0,
        }
    }

    /// A peer that does not put its peer-id into datagrams is served by the first worker, where they arrive.
    /// This shows with its first session.
    fn before_session(&mut self, install: &Install) {
        let Some(served) = self.peers.get_mut(&install.peer) else { return };
        let first = !std::mem::replace(&mut served.has_session, true);
        if first && served.worker != 0 && is_without_peer_id(&install.framing) {
            let config = served.config.clone();
            self.place(config, 0);
        }
    }

    /// Makes a peer known to all, to one of them as its own.
    fn place(&mut self, config: PeerConfig, worker: usize) {
        for (number, each) in self.all.iter().enumerate() {
            if number == worker {
                post(each, split(DataEvent::AddPeer(config.clone())));
            } else {
                let (egress, ingress) = foreign(config.clone(), worker as u32);
                post(each, (Some(egress), Some(ingress)));
            }
        }
        let has_session = self.peers.get(&config.peer).is_some_and(|served| served.has_session);
        self.peers.insert(config.peer, Served { worker, config, has_session });
    }

    fn tell_all(&self, event: &DataEvent) {
        for worker in &self.all {
            post(worker, split(event.clone()));
        }
    }

    /// Tells the peer's worker; the first counts what belongs to no peer.
    fn tell(&self, peer: PeerId, event: DataEvent) {
        let number = self.peers.get(&peer).map_or(0, |served| served.worker);
        if let Some(worker) = self.all.get(number) {
            post(worker, split(event));
        }
    }

    /// Wakes those that were told something.
    pub(super) fn wake(&self) {
        self.all.iter().for_each(|worker| worker.mail.wake_for_mail());
    }

    /// Gives each worker its socket at an address.
    pub(super) fn add_sockets(&self, number: u32, sockets: &[Arc<UdpSocket>]) {
        for (worker, socket) in self.all.iter().zip(sockets) {
            worker.mail.post(DataMail::AddSocket(number, Arc::clone(socket)));
        }
    }

    /// The sockets at an address are used no more.
    pub(super) fn remove_sockets(&self, number: u32) {
        for worker in &self.all {
            worker.mail.post(DataMail::RemoveSocket(number));
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
        self.all.get(number)?.counters.traffic(peer)
    }

    /// Bytes in what a peer's datagrams brought and took.
    pub(super) fn traffic_bytes(&self, peer: PeerId) -> Option<(u64, u64)> {
        let number = self.peers.get(&peer)?.worker;
        self.all.get(number)?.counters.traffic_bytes(peer)
    }

    /// Of those bytes, the protocol's own messages.
    pub(super) fn message_bytes(&self, peer: PeerId) -> Option<u64> {
        let number = self.peers.get(&peer)?.worker;
        self.all.get(number)?.counters.message_bytes(peer)
    }

    /// The counters of all, and what part each has in them.
    pub(super) fn snapshot(&self) -> (Snapshot, Vec<WorkerStatus>) {
        let mut total = Snapshot::default();
        let mut parts = Vec::with_capacity(self.all.len());
        for worker in &self.all {
            let snapshot = worker.counters.snapshot();
            parts.push(WorkerStatus {
                peers: snapshot.peers.len(),
                packets_sent: snapshot.egress.packets,
                packets_received: snapshot.ingress.packets,
                handed_over: worker.handed.load(Ordering::Relaxed),
            });
            total.merge(snapshot);
        }
        (total, parts)
    }
}

fn is_without_peer_id(framing: &Framing) -> bool {
    let v1 = |framing: &OpenVpnFraming| framing.header == OpenVpnHeader::V1;
    match framing {
        Framing::OpenVpn(framing) => v1(framing),
        Framing::OpenVpnStatic(_) => true,
        Framing::OpenVpnEpoch(_) | Framing::WireGuard { .. } => false,
    }
}

/// A worker that is gone has told why by a mail of its own.
fn post(worker: &Worker, (egress, ingress): (Option<EgressEvent>, Option<IngressEvent>)) {
    if let Some(event) = egress {
        worker.mail.post(DataMail::Egress(event));
    }
    if let Some(event) = ingress {
        worker.mail.post(DataMail::Ingress(event));
    }
}
