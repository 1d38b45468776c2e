//! Forwarding between workers: packets and datagrams of peers that another worker serves.
//!
//! The kernel brings nearly everything to the worker it is for (`udp/group.rs`, the queues of the TUN
//! device); this is for the rest, and for packets of one worker's client to another's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use adit_core::{ConnectionId, DeviceId, Path};
use adit_dataplane::{Arrival, Offload, Passed};

use super::data::Running;
use super::status::{LossCounters, count};
use super::transports::QUEUE_LIMIT;
use crate::mailbox::Mailbox;

/// Items that may wait for a worker; each is up to 64 KiB.
const LIMIT: usize = 256;
/// Items taken before a worker's own sockets and queue have their turn.
const BATCH: usize = 64;

/// One of them.
#[derive(Debug)]
pub(super) enum Forward {
    /// A packet to seal: read from that device, or checked and from another worker's client.
    Packet { device: DeviceId, offload: Offload, bytes: Vec<u8> },
    /// Datagrams to open, `segment` bytes each.
    Datagrams { path: Path, traffic_class: u8, segment: usize, bytes: Vec<u8> },
    /// Sealed records to send: all connections belong to the first worker.
    Records { connection: ConnectionId, bytes: Vec<u8> },
}

/// All workers, as one of them sees them.
#[derive(Debug)]
pub(super) struct OtherWorkers {
    /// The number of this one.
    own: usize,
    boxes: Vec<Mailbox<Forward>>,
    /// The workers that have packets and are not woken yet, a bit each.
    to_wake: u64,
    /// How much was forwarded.
    forwarded: Arc<AtomicU64>,
}

impl OtherWorkers {
    /// `boxes` are the workers' in their order.
    pub(super) fn new(own: usize, boxes: Vec<Mailbox<Forward>>, forwarded: Arc<AtomicU64>) -> Self {
        OtherWorkers { own, boxes, to_wake: 0, forwarded }
    }

    /// Whether connections are those of this worker.
    #[inline]
    pub(super) fn has_connections(&self) -> bool {
        self.own == 0
    }

    /// Forwards, or drops and counts when too much waits already. [`OtherWorkers::wake`] must follow.
    pub(super) fn forward(&mut self, worker: u32, what: Forward, losses: &LossCounters) {
        let taken = self.boxes.get(worker as usize).is_some_and(|other| other.offer(what, LIMIT));
        if !taken {
            return count(&losses.forward_full);
        }
        self.forwarded.fetch_add(1, Ordering::Relaxed);
        self.to_wake |= 1_u64.checked_shl(worker).unwrap_or(0);
    }

    /// Wakes those that were given something.
    #[inline]
    pub(super) fn wake(&mut self) {
        if self.to_wake == 0 {
            return;
        }
        for (worker, other) in self.boxes.iter().enumerate() {
            if self.to_wake >> worker & 1 == 1 {
                other.wake();
            }
        }
        self.to_wake = 0;
    }
}

impl Running {
    /// Seals and opens the packets and datagrams that other workers forwarded.
    pub(super) fn take_forwards(&mut self) -> Result<(), String> {
        // Keys that were ordered before it came must be known.
        self.take_mail()?;
        for _ in 0..BATCH {
            match self.forwards.take() {
                None => {
                    self.send();
                    return Ok(());
                }
                // Nothing is forwarded twice: a packet that is for no peer of ours either is counted.
                Some(Forward::Packet { device, offload, mut bytes }) => {
                    self.egress.seal_packet_from(device, offload, &mut bytes, &mut self.transmit_batch);
                    if self.transmit_batch.has_complete() {
                        self.send_complete();
                    }
                }
                Some(Forward::Datagrams { path, traffic_class, segment, mut bytes }) => {
                    let arrival = Arrival { socket: self.transports.socket_path(&path), path, traffic_class };
                    let all = 0..bytes.len();
                    let out = &mut self.receive_batch;
                    self.ingress.gather_datagrams_at(&arrival, &mut bytes, all, segment, out);
                    out.finish(&mut bytes);
                    self.deliver(&mut bytes, Origin::OtherWorker);
                }
                Some(Forward::Records { connection, bytes }) => {
                    self.transports.write(connection, &bytes, QUEUE_LIMIT, &self.losses);
                }
            }
        }
        self.send();
        self.forwards.stay_awake();
        Ok(())
    }

    /// Forwards the packets and datagrams that the receive batch holds for other workers.
    pub(super) fn pass_on(&mut self, bytes: &[u8], origin: Origin) {
        for passed in self.receive_batch.passed() {
            let (worker, range) = match passed {
                Passed::Packet { worker, range } | Passed::Datagrams { worker, range, .. } => (worker, range),
            };
            let Some(bytes) = self.receive_batch.slice(bytes, range) else { continue };
            let bytes = bytes.to_vec();
            let what = match passed {
                Passed::Packet { .. } => {
                    Forward::Packet { device: DeviceId::MAIN, offload: Offload::NONE, bytes }
                }
                Passed::Datagrams { .. } if origin == Origin::OtherWorker => {
                    count(&self.losses.forward_full);
                    continue;
                }
                Passed::Datagrams { path, traffic_class, segment, .. } => {
                    let (path, traffic_class, segment) = (*path, *traffic_class, *segment);
                    Forward::Datagrams { path, traffic_class, segment, bytes }
                }
            };
            self.others.forward(*worker, what, &self.losses);
        }
        self.others.wake();
    }
}

/// The origin of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The network.
    Network,
    /// Another worker; they are not forwarded once more.
    OtherWorker,
}
