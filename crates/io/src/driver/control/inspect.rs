//! The part of `status` that is about the driver.

use std::sync::atomic::Ordering;

use adit_core::{HandshakeStage, Protocol, TableUsage};

use super::Control;
use crate::clock;
use crate::driver::Inspection;
use crate::driver::members::CONTROL_LIMIT;
use crate::driver::status::IoStatus;
use crate::offload::{OffloadState, OffloadStatus};
use crate::staged_queue::StageUsage;

/// The names of the queues of control datagrams, as `status` shows them.
const STAGES: [(&str, HandshakeStage); 3] = [
    ("control datagrams of known peers", HandshakeStage::Established),
    ("control datagrams with cookies", HandshakeStage::Returning),
    ("first packets", HandshakeStage::First),
];

impl<P: Protocol> Control<'_, P> {
    pub(super) fn inspect(&mut self, inspection: Inspection<P>) {
        // The numbers that the protocol gives of its peers are then as new as the snapshot.
        self.tell_totals(clock());
        let (snapshot, workers) = self.workers.snapshot();
        let (tun_read_bytes, tun_written_bytes) = self.network.link.bytes();
        let mut losses = self.losses.snapshot().plus(&self.workers.membership().device.losses.snapshot());
        losses.control_full +=
            STAGES.map(|(_, stage)| self.datagrams.usage(stage).evicted).iter().sum::<u64>();
        let status = IoStatus {
            tun_name: self.tun.name().to_owned(),
            offloads: self.offloads(),
            gso_limited_destinations: self.sockets.gso_limited_destinations(),
            tun_dropped: self.network.link.tx_dropped(),
            tun_read_bytes,
            tun_written_bytes,
            workers,
            connections: self.connections.count(),
            tables: self.tables(),
            losses,
        };
        inspection(&self.protocol, &snapshot, &status);
    }

    /// The tables and queues that unauthenticated peers can fill, where there are listening sockets.
    fn tables(&self) -> Vec<TableUsage> {
        let mut tables = Vec::new();
        if !self.sockets.listening.is_empty() || self.connections.listens() {
            let stages = STAGES.map(|(name, stage)| queue_usage(name, self.datagrams.usage(stage)));
            let in_queues: u64 = stages.iter().map(|stage| stage.refused).sum();
            let lost = self.losses.control_full.load(Ordering::Relaxed);
            let of_one = StageUsage {
                waiting: self.mail.waiting(),
                limit: CONTROL_LIMIT,
                evicted: 0,
                refused: lost.saturating_sub(in_queues),
            };
            tables.push(TableUsage {
                share: CONTROL_LIMIT,
                ..queue_usage("messages to the control thread", of_one)
            });
            tables.extend(stages);
        }
        tables.extend(self.connections.undecided.as_ref().map(|undecided| undecided.usage()));
        if self.connections.listens() {
            tables.push(TableUsage {
                name: "TCP connections",
                entries: self.connections.count(),
                share: self.connections.most(),
                limit: self.connections.most(),
                evicted: 0,
                refused: self.losses.connections_refused.load(Ordering::Relaxed),
            });
        }
        tables
    }

    /// Which offloads are in use. The kernel may have refused to cut GSO batches since the start.
    fn offloads(&self) -> OffloadStatus {
        let mut offloads = self.offloads.clone();
        if let Some(error) = self.sockets.gso_refusal() {
            offloads.udp_send = OffloadState::Failed(format!("the kernel refused it: {error}"));
        }
        offloads
    }
}

/// A queue in which one sender may have half.
fn queue_usage(name: &'static str, usage: StageUsage) -> TableUsage {
    let StageUsage { waiting, limit, evicted, refused } = usage;
    TableUsage { name, entries: waiting, share: limit / 2, limit, evicted, refused }
}
