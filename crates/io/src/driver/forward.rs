//! Forwarding between workers: packets and datagrams of peers that another worker serves.
//!
//! The kernel brings nearly everything to the worker it is for (`udp/group.rs`, the queues of the TUN
//! device); this is for the rest, and for packets of one worker's client to another's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use adit_core::{ConnectionId, DeviceId, Path};
use adit_dataplane::Offload;

use super::status::{LossCounters, count};
use crate::mailbox::Mailbox;

/// Items that may wait for a worker; each is up to 64 KiB.
const LIMIT: usize = 256;

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

/// The origin of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The network.
    Network,
    /// Another worker; they are not forwarded once more.
    OtherWorker,
}
