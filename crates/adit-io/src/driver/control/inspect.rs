//! What status shows of the driver.

use std::sync::atomic::{AtomicU64, Ordering};

use adit_core::{Protocol, TableUsage};

use super::{Control, DATAGRAM_LIMIT};
use crate::clock;
use crate::driver::Inspection;
use crate::driver::status::IoStatus;
use crate::offload::{OffloadState, OffloadStatus};

impl<P: Protocol> Control<'_, P> {
    pub(super) fn inspect(&mut self, inspection: Inspection<P>) {
        // What the protocol says of its peers is then as new as the snapshot.
        self.tell_totals(clock());
        let (snapshot, workers) = self.workers.snapshot();
        let (tun_read_bytes, tun_written_bytes) = self.link.bytes();
        let status = IoStatus {
            tun_name: self.tun.name().to_owned(),
            offloads: self.offloads(),
            gso_limited_destinations: self.gso_limited_destinations(),
            tun_dropped: self.link.tx_dropped(),
            tun_read_bytes,
            tun_written_bytes,
            workers,
            connections: self.connections.len(),
            tables: self.tables(),
            losses: self.losses.snapshot().plus(&self.workers.membership().device.losses.snapshot()),
        };
        inspection(&self.protocol, &snapshot, &status);
    }

    fn gso_limited_destinations(&self) -> usize {
        self.sockets.values().flatten().map(|socket| socket.gso_limited_destinations()).sum()
    }

    /// What anybody can fill here, if anybody can reach it.
    fn tables(&self) -> Vec<TableUsage> {
        let table = |name, entries, share, limit, refused: &AtomicU64| TableUsage {
            name,
            entries,
            share,
            limit,
            evicted: 0,
            refused: refused.load(Ordering::Relaxed),
        };
        let (waiting, connections) = (self.datagrams.len(), self.connections.len());
        let most = self.max_connections;
        let queue = ("control datagrams that wait", &self.losses.control_full);
        let mut tables = Vec::new();
        if !self.listening.is_empty() {
            tables.push(table(queue.0, waiting, DATAGRAM_LIMIT / 2, DATAGRAM_LIMIT, queue.1));
        }
        if !self.listeners.is_empty() {
            let refused = &self.losses.connections_refused;
            tables.push(table("TCP connections", connections, most, most, refused));
        }
        tables
    }

    /// Which offloads are in use. The kernel may have refused to cut GSO batches since the start.
    fn offloads(&self) -> OffloadStatus {
        let mut offloads = self.offloads.clone();
        if let Some(error) = self.sockets.values().flatten().find_map(|socket| socket.gso_refusal()) {
            offloads.udp_send = OffloadState::Failed(format!("the kernel refused it: {error}"));
        }
        offloads
    }
}
