//! What a worker hands to another: packets and datagrams of peers that the other serves.
//!
//! The kernel brings nearly everything to the worker it is for (`udp/group.rs`, the queues of the TUN
//! device); this is for the rest, and for what one worker's client sends to another's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use adit_core::Path;
use adit_dataplane::{Offload, Passed};

use super::data::Running;
use super::status::{LossCounters, count};
use crate::mailbox::Mailbox;

/// Handovers that may wait for a worker; each is up to 64 KiB.
const LIMIT: usize = 256;
/// Handovers taken before a worker's own sockets and queue have their turn.
const BATCH: usize = 64;

/// One of them.
#[derive(Debug)]
pub(super) enum Handover {
    /// A packet to seal: read from the TUN device, or checked and from another worker's client.
    Packet { offload: Offload, bytes: Vec<u8> },
    /// Datagrams to open, `segment` bytes each.
    Datagrams { path: Path, segment: usize, bytes: Vec<u8> },
}

/// All workers, as one of them sees them.
#[derive(Debug)]
pub(super) struct Colleagues {
    boxes: Vec<Mailbox<Handover>>,
    /// Those that were given something and not yet woken, a bit each.
    to_wake: u64,
    /// How much was handed to others.
    handed: Arc<AtomicU64>,
}

impl Colleagues {
    /// `boxes` are the workers' in their order.
    pub(super) fn new(boxes: Vec<Mailbox<Handover>>, handed: Arc<AtomicU64>) -> Self {
        Colleagues { boxes, to_wake: 0, handed }
    }

    /// Hands over, or drops and counts when too much waits already. [`Colleagues::wake`] must follow.
    pub(super) fn hand(&mut self, worker: u32, what: Handover, losses: &LossCounters) {
        let taken = self.boxes.get(worker as usize).is_some_and(|colleague| colleague.offer(what, LIMIT));
        if !taken {
            return count(&losses.handover_full);
        }
        self.handed.fetch_add(1, Ordering::Relaxed);
        self.to_wake |= 1_u64.checked_shl(worker).unwrap_or(0);
    }

    /// Wakes those that were given something.
    #[inline]
    pub(super) fn wake(&mut self) {
        if self.to_wake == 0 {
            return;
        }
        for (worker, colleague) in self.boxes.iter().enumerate() {
            if self.to_wake >> worker & 1 == 1 {
                colleague.wake();
            }
        }
        self.to_wake = 0;
    }
}

impl Running {
    /// Seals and opens what colleagues handed over.
    pub(super) fn take_handovers(&mut self) -> Result<(), String> {
        // Keys that were ordered before it came must be known.
        self.take_mail()?;
        for _ in 0..BATCH {
            match self.handovers.take() {
                None => {
                    self.send();
                    return Ok(());
                }
                // Nothing is forwarded twice: what is not this worker's either is counted as dropped there.
                Some(Handover::Packet { offload, mut bytes }) => {
                    self.egress.seal_packet(offload, &mut bytes, &mut self.outbox);
                    if self.outbox.has_complete() {
                        self.send_complete();
                    }
                }
                Some(Handover::Datagrams { path, segment, mut bytes }) => {
                    self.ingress.open_datagrams(path, &mut bytes, segment, &mut self.inbox);
                    self.deliver(&mut bytes, Origin::Colleague);
                }
            }
        }
        self.send();
        self.handovers.stay_awake();
        Ok(())
    }

    /// Hands on what the inbox holds for colleagues.
    pub(super) fn pass_on(&mut self, bytes: &[u8], origin: Origin) {
        for passed in self.inbox.passed() {
            let (worker, range) = match passed {
                Passed::Packet { worker, range } | Passed::Datagrams { worker, range, .. } => (worker, range),
            };
            let Some(bytes) = bytes.get(range.clone()) else { continue };
            let bytes = bytes.to_vec();
            let what = match passed {
                Passed::Packet { .. } => Handover::Packet { offload: Offload::NONE, bytes },
                Passed::Datagrams { .. } if origin == Origin::Colleague => {
                    count(&self.losses.handover_full);
                    continue;
                }
                Passed::Datagrams { path, segment, .. } => {
                    Handover::Datagrams { path: *path, segment: *segment, bytes }
                }
            };
            self.colleagues.hand(*worker, what, &self.losses);
        }
        self.colleagues.wake();
    }
}

/// Who brought datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The network.
    Network,
    /// Another worker; they are not handed over once more.
    Colleague,
}
