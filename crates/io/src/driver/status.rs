//! The driver's counters, and its part of `status`.

use std::sync::atomic::{AtomicU64, Ordering};

use adit_core::TableUsage;

use crate::offload::OffloadStatus;

/// The state of the driver's devices and sockets, and their losses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoStatus {
    /// Name of the TUN device.
    pub tun_name: String,
    /// Which offloads are in use, and why not the others.
    pub offloads: OffloadStatus,
    /// Destinations whose path lately refused UDP_SEGMENT or segments of full length, so that their datagrams are sent
    /// one by one.
    pub gso_limited_destinations: usize,
    /// Packets that the TUN device's queue dropped because adit did not read them in time.
    pub tun_dropped: u64,
    /// Bytes of packets read from the TUN device.
    pub tun_read_bytes: u64,
    /// Bytes of packets written to the TUN device.
    pub tun_written_bytes: u64,
    /// The threads that move packets.
    pub workers: Vec<WorkerStatus>,
    /// TCP connections that are open.
    pub connections: usize,
    /// How full the tables and queues are that unauthenticated peers can fill.
    pub tables: Vec<TableUsage>,
    /// The losses in sockets and queues.
    pub losses: Losses,
}

/// One worker's part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerStatus {
    /// Peers that it serves.
    pub peers: usize,
    /// Data datagrams that it sealed.
    pub packets_sent: u64,
    /// Data datagrams that it opened.
    pub packets_received: u64,
    /// Packets and receives that it handed to the worker which serves their peer.
    pub handed_over: u64,
}

/// The numbers of datagrams and packets that were lost on the way, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Sends of UDP datagrams that the system refused.
    pub udp_send: u64,
    /// UDP datagrams larger than the receive buffer.
    pub udp_truncated: u64,
    /// Packets that the TUN device refused, or for which there is no device ([`crate::TunConfig::is_null`]).
    pub tun_write: u64,
    /// Datagrams for a path that is closed.
    pub no_path: u64,
    /// Batches of records for a TCP connection whose queue was full.
    pub tcp_full: u64,
    /// Control datagrams, and ends of connections, that came faster than the protocol took them.
    pub control_full: u64,
    /// Messages in the data channel that came faster than the protocol took them.
    pub notices_full: u64,
    /// Packets and receives that came faster than the worker they are for took them.
    pub forward_full: u64,
    /// TCP connections refused because there were too many, because their first bytes could not be waited for, or because they
    /// could not be forwarded.
    pub connections_refused: u64,
    /// Control datagrams that the protocol rejected.
    pub rejected: u64,
}

impl Losses {
    /// The sum of these losses and others.
    pub(crate) fn plus(self, other: &Losses) -> Losses {
        Losses {
            udp_send: self.udp_send.wrapping_add(other.udp_send),
            udp_truncated: self.udp_truncated.wrapping_add(other.udp_truncated),
            tun_write: self.tun_write.wrapping_add(other.tun_write),
            no_path: self.no_path.wrapping_add(other.no_path),
            tcp_full: self.tcp_full.wrapping_add(other.tcp_full),
            control_full: self.control_full.wrapping_add(other.control_full),
            notices_full: self.notices_full.wrapping_add(other.notices_full),
            forward_full: self.forward_full.wrapping_add(other.forward_full),
            connections_refused: self.connections_refused.wrapping_add(other.connections_refused),
            rejected: self.rejected.wrapping_add(other.rejected),
        }
    }
}

/// The counters behind [`Losses`]. Only rare paths touch these.
#[derive(Debug, Default)]
pub(crate) struct LossCounters {
    pub(crate) udp_send: AtomicU64,
    pub(crate) udp_truncated: AtomicU64,
    pub(crate) tun_write: AtomicU64,
    pub(crate) no_path: AtomicU64,
    pub(crate) tcp_full: AtomicU64,
    pub(crate) control_full: AtomicU64,
    pub(crate) notices_full: AtomicU64,
    pub(crate) forward_full: AtomicU64,
    pub(crate) connections_refused: AtomicU64,
    pub(crate) rejected: AtomicU64,
}

impl LossCounters {
    pub(crate) fn snapshot(&self) -> Losses {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Losses {
            udp_send: read(&self.udp_send),
            udp_truncated: read(&self.udp_truncated),
            tun_write: read(&self.tun_write),
            no_path: read(&self.no_path),
            tcp_full: read(&self.tcp_full),
            control_full: read(&self.control_full),
            notices_full: read(&self.notices_full),
            forward_full: read(&self.forward_full),
            connections_refused: read(&self.connections_refused),
            rejected: read(&self.rejected),
        }
    }
}

/// Counts one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
