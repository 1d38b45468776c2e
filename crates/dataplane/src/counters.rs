//! The counters of packets and datagrams that passed or were dropped. Each number has one writer (a half of
//! the data plane) and any number of readers; the packet path never takes a lock and never uses a locked
//! instruction.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use adit_core::{Activity, Instant, PeerActivity, PeerId};

/// Why a packet or datagram was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// No peer has a route to the packet's destination.
    NoRoute,
    /// An order named a peer that is not there, or a datagram came from an unknown one.
    NoPeer,
    /// The peer has no active session, or a datagram or an order names a session that is not there.
    NoSession,
    /// Authentic, but seen before or older than the replay window.
    Replay,
    /// The tag does not verify.
    BadTag,
    /// The inner source address is not behind that peer.
    BadSource,
    /// The session's selectors do not match the packet.
    NotSelected,
    /// Access rules do not let the packet pass.
    NotAllowed,
    /// The header around it has a congestion mark, which the packet's sender does not know (RFC 6040 §4.2).
    Congestion,
    /// A tunnel's datagram that went through too many tunnels, one in the other: they are routed into themselves.
    Loop,
    /// The packet or datagram does not parse.
    Malformed,
    /// Sealed, it would be longer than a datagram can be.
    TooBig,
    /// The payload is compressed, and the session decompresses nothing.
    Compressed,
    /// The payload does not decompress, or to more than a packet holds.
    Decompression,
    /// Parts of a packet never came.
    Incomplete,
    /// The session's counter, or its count of failed tags, is used up.
    Exhausted,
    /// More protocol messages, or more rebuilt packets, in one batch than are passed on.
    Flood,
}

impl DropReason {
    /// All reasons, in the order of [`DirectionSnapshot::drops`].
    pub const ALL: [DropReason; 17] = [
        DropReason::NoRoute,
        DropReason::NoPeer,
        DropReason::NoSession,
        DropReason::Replay,
        DropReason::BadTag,
        DropReason::BadSource,
        DropReason::NotSelected,
        DropReason::NotAllowed,
        DropReason::Congestion,
        DropReason::Loop,
        DropReason::Malformed,
        DropReason::TooBig,
        DropReason::Compressed,
        DropReason::Decompression,
        DropReason::Incomplete,
        DropReason::Exhausted,
        DropReason::Flood,
    ];

    /// The reason in words.
    pub const fn text(self) -> &'static str {
        match self {
            DropReason::NoRoute => "no route to the destination",
            DropReason::NoPeer => "no such peer",
            DropReason::NoSession => "no session",
            DropReason::Replay => "replayed or too old",
            DropReason::BadTag => "wrong tag: forged, damaged, or other keys",
            DropReason::BadSource => "inner source address not behind that peer",
            DropReason::NotSelected => "not selected: address, protocol or port",
            DropReason::NotAllowed => "not allowed by the access rules",
            DropReason::Congestion => "marked for congestion, which its sender does not know",
            DropReason::Loop => "a tunnel's datagrams are routed into the tunnel",
            DropReason::Malformed => "malformed",
            DropReason::TooBig => "too big for a datagram",
            DropReason::Compressed => "compressed, which was not asked for",
            DropReason::Decompression => "does not decompress, or to more than a packet",
            DropReason::Incomplete => "parts of a packet are missing",
            DropReason::Exhausted => "session used up, new keys are overdue",
            DropReason::Flood => "too many messages or rebuilt packets at once",
        }
    }
}

/// A number with one writer.
#[derive(Debug, Default)]
struct Cell(AtomicU64);

impl Cell {
    /// Only the one writer may call this: it is no atomic add.
    #[inline]
    fn add(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A moment with one writer; never, until the first.
#[derive(Debug, Default)]
struct Stamp(Cell);

impl Stamp {
    #[inline]
    fn set(&self, now: Instant) {
        self.0.0.store(now.as_nanos().max(1), Ordering::Relaxed);
    }

    fn get(&self) -> Option<Instant> {
        Some(self.0.get()).filter(|nanos| *nanos != 0).map(Instant::from_nanos)
    }
}

/// The counters of one half for one peer. Alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct PeerCounter {
    datagrams: Cell,
    bytes: Cell,
    /// The bytes among these of the protocol's own messages.
    message_bytes: Cell,
    keepalives: Cell,
    last_data: Stamp,
    last_keepalive: Stamp,
    last_other: Stamp,
}

impl PeerCounter {
    /// Counts datagrams, and their bytes without outer headers.
    #[inline]
    pub(crate) fn add(&self, datagrams: u64, bytes: u64) {
        self.datagrams.add(datagrams);
        self.bytes.add(bytes);
    }

    /// One of the datagrams carried data.
    #[inline]
    pub(crate) fn stamp_data(&self, now: Instant) {
        self.last_data.set(now);
    }

    /// One of the datagrams was a keepalive.
    pub(crate) fn add_keepalive(&self, now: Instant) {
        self.keepalives.add(1);
        self.last_keepalive.set(now);
    }

    /// One of the datagrams was neither.
    pub(crate) fn stamp_other(&self, now: Instant) {
        self.last_other.set(now);
    }

    fn activity(&self) -> Activity {
        Activity {
            keepalives: self.keepalives.get(),
            last_data: self.last_data.get(),
            last_keepalive: self.last_keepalive.get(),
            last_other: self.last_other.get(),
        }
    }

    /// All bytes counted so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Bytes that were counted are a protocol's own message.
    pub(crate) fn add_message(&self, bytes: u64) {
        self.message_bytes.add(bytes);
    }
}

/// The counters of one half that belong to no peer that is there.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Direction {
    /// Counts of the peers that have gone.
    departed: PeerCounter,
    drops: [Cell; DropReason::ALL.len()],
}

/// A half of the data plane, as a writer of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Egress,
    Ingress,
}

#[derive(Debug, Default)]
struct PeerPair {
    sent: Option<Arc<PeerCounter>>,
    received: Option<Arc<PeerCounter>>,
}

#[derive(Debug, Default)]
struct Shared {
    egress: Direction,
    ingress: Direction,
    /// Locked to add and remove peers and to take snapshots, never for a packet.
    peers: Mutex<BTreeMap<PeerId, PeerPair>>,
}

/// The counters of a data plane. Clones show the same numbers.
#[derive(Clone, Debug)]
pub struct Counters(Arc<Shared>);

impl Counters {
    pub(crate) fn new() -> Self {
        Counters(Arc::new(Shared::default()))
    }

    /// The counters' values now. Numbers written during the call may or may not be in it.
    pub fn snapshot(&self) -> Snapshot {
        let registry = self.registry();
        let peers: Vec<PeerSnapshot> = registry
            .iter()
            .map(|(peer, pair)| {
                let (packets_received, bytes_received) = read(pair.received.as_ref());
                let (packets_sent, bytes_sent) = read(pair.sent.as_ref());
                PeerSnapshot { peer: *peer, packets_received, bytes_received, packets_sent, bytes_sent }
            })
            .collect();
        let mut egress = self.0.egress.snapshot();
        let mut ingress = self.0.ingress.snapshot();
        drop(registry);
        for peer in &peers {
            egress.packets = egress.packets.wrapping_add(peer.packets_sent);
            egress.bytes = egress.bytes.wrapping_add(peer.bytes_sent);
            ingress.packets = ingress.packets.wrapping_add(peer.packets_received);
            ingress.bytes = ingress.bytes.wrapping_add(peer.bytes_received);
        }
        Snapshot { egress, ingress, peers }
    }

    /// Datagrams (received and authentic, sealed) of a peer since it was added:
    /// [`adit_core::Notice::Traffic`].
    pub fn traffic(&self, peer: PeerId) -> Option<(u64, u64)> {
        let registry = self.registry();
        let pair = registry.get(&peer)?;
        Some((read(pair.received.as_ref()).0, read(pair.sent.as_ref()).0))
    }

    /// Bytes (received, sent) of a peer since it was added, of the same datagrams.
    pub fn traffic_bytes(&self, peer: PeerId) -> Option<(u64, u64)> {
        let registry = self.registry();
        let pair = registry.get(&peer)?;
        Some((read(pair.received.as_ref()).1, read(pair.sent.as_ref()).1))
    }

    /// Keepalives, and when data, keepalives and the rest passed last, by the time that the halves were given
    /// ([`crate::Egress::tick`], [`crate::Ingress::tick`]).
    pub fn activity(&self, peer: PeerId) -> Option<PeerActivity> {
        let registry = self.registry();
        let pair = registry.get(&peer)?;
        let activity = |half: &Option<Arc<PeerCounter>>| half.as_ref().map(|half| half.activity());
        Some(PeerActivity {
            received: activity(&pair.received).unwrap_or_default(),
            sent: activity(&pair.sent).unwrap_or_default(),
        })
    }

    /// The bytes, in both directions, of the protocol's own messages. It must be read after
    /// [`Counters::traffic_bytes`], so that a message just counted is not taken for packets.
    pub fn message_bytes(&self, peer: PeerId) -> Option<u64> {
        let registry = self.registry();
        let pair = registry.get(&peer)?;
        let halves = [pair.received.as_ref(), pair.sent.as_ref()];
        Some(halves.into_iter().flatten().map(|half| half.message_bytes.get()).sum())
    }

    #[inline]
    pub(crate) fn drop_one(&self, half: Half, reason: DropReason) {
        if let Some(cell) = self.direction(half).drops.get(reason as usize) {
            cell.add(1);
        }
    }

    /// A fresh counter for a peer that was added.
    pub(crate) fn add_peer(&self, half: Half, peer: PeerId) -> Arc<PeerCounter> {
        let counter = Arc::new(PeerCounter::default());
        let mut registry = self.registry();
        let pair = registry.entry(peer).or_default();
        match half {
            Half::Egress => pair.sent = Some(counter.clone()),
            Half::Ingress => pair.received = Some(counter.clone()),
        }
        counter
    }

    /// Forgets a peer's counter; the totals keep its counts.
    pub(crate) fn remove_peer(&self, half: Half, peer: PeerId) {
        let mut registry = self.registry();
        let Some(pair) = registry.get_mut(&peer) else { return };
        let gone = match half {
            Half::Egress => pair.sent.take(),
            Half::Ingress => pair.received.take(),
        };
        if pair.sent.is_none() && pair.received.is_none() {
            registry.remove(&peer);
        }
        let (datagrams, bytes) = read(gone.as_ref());
        self.direction(half).departed.add(datagrams, bytes);
    }

    fn direction(&self, half: Half) -> &Direction {
        match half {
            Half::Egress => &self.0.egress,
            Half::Ingress => &self.0.ingress,
        }
    }

    fn registry(&self) -> MutexGuard<'_, BTreeMap<PeerId, PeerPair>> {
        // The map is whole after every statement that changes it, so a panic elsewhere cannot spoil it.
        self.0.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(counter: Option<&Arc<PeerCounter>>) -> (u64, u64) {
    counter.map_or((0, 0), |counter| (counter.datagrams.get(), counter.bytes.get()))
}

impl Direction {
    fn snapshot(&self) -> DirectionSnapshot {
        let mut drops = [0; DropReason::ALL.len()];
        for (value, cell) in drops.iter_mut().zip(&self.drops) {
            *value = cell.get();
        }
        DirectionSnapshot { packets: self.departed.datagrams.get(), bytes: self.departed.bytes.get(), drops }
    }
}

/// All counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The direction from the TUN device to the net: sealed datagrams.
    pub egress: DirectionSnapshot,
    /// The direction from the net to the TUN device: opened datagrams.
    pub ingress: DirectionSnapshot,
    /// Each present peer, by id.
    pub peers: Vec<PeerSnapshot>,
}

impl Snapshot {
    /// Adds the counts of another worker.
    pub fn merge(&mut self, other: Snapshot) {
        self.egress.merge(&other.egress);
        self.ingress.merge(&other.ingress);
        self.peers.extend(other.peers);
        self.peers.sort_by_key(|peer| peer.peer);
    }
}

/// Totals of one direction since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectionSnapshot {
    /// Data datagrams sealed, or opened and authentic.
    pub packets: u64,
    /// Their bytes as UDP or TCP payload.
    pub bytes: u64,
    /// Drops by reason, in the order of [`DropReason::ALL`].
    pub drops: [u64; DropReason::ALL.len()],
}

impl DirectionSnapshot {
    fn merge(&mut self, other: &DirectionSnapshot) {
        self.packets = self.packets.wrapping_add(other.packets);
        self.bytes = self.bytes.wrapping_add(other.bytes);
        for (sum, more) in self.drops.iter_mut().zip(&other.drops) {
            *sum = sum.wrapping_add(*more);
        }
    }

    /// How many were dropped for that reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops.get(reason as usize).copied().unwrap_or(0)
    }
}

/// Totals of one peer since it was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSnapshot {
    /// The peer.
    pub peer: PeerId,
    /// Data datagrams from it that were authentic and new.
    pub packets_received: u64,
    /// Their bytes as UDP or TCP payload.
    pub bytes_received: u64,
    /// Data datagrams sealed for it.
    pub packets_sent: u64,
    /// Their bytes as UDP or TCP payload.
    pub bytes_sent: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_in_order() {
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
    }

    #[test]
    fn totals_outlive_peers() {
        let counters = Counters::new();
        let sent = counters.add_peer(Half::Egress, PeerId(3));
        let received = counters.add_peer(Half::Ingress, PeerId(3));
        sent.add(2, 200);
        received.add(5, 500);
        assert_eq!(counters.traffic(PeerId(3)), Some((5, 2)));
        counters.remove_peer(Half::Egress, PeerId(3));
        counters.remove_peer(Half::Ingress, PeerId(3));
        assert_eq!(counters.traffic(PeerId(3)), None);
        let snapshot = counters.snapshot();
        assert_eq!((snapshot.egress.packets, snapshot.egress.bytes), (2, 200));
        assert_eq!((snapshot.ingress.packets, snapshot.ingress.bytes), (5, 500));
        assert!(snapshot.peers.is_empty());
    }
}
