//! TCP connections on which peers come: those that a peer uses, and those that none does, which are limited by source.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use adit_core::{Instant, Path, PeerId, PrefixShares, PrefixTable, TableUsage};

/// Connections that no peer uses. Each holds a descriptor, and up to 64 KiB of a record that has not come whole.
const UNUSED: PrefixShares = PrefixShares::new(64, 1024);

/// How long the preamble of an accepted connection may take, and how long a connection that a peer has left stays. Lost
/// data comes within two retransmissions of TCP (RFC 6298: 1 s, then 2 s).
const PREAMBLE_TIME: Duration = Duration::from_secs(10);

/// How long a peer may take to use a connection whose preamble is complete: so long ProxyGuard's server waits for a
/// record (tunnel.go), whose client connects before it has one.
const SILENCE: Duration = Duration::from_secs(60);

/// All connections that are there.
pub(crate) struct Connections {
    /// The connections that no peer uses, each with the time at which it is closed.
    unused: PrefixTable<Path, Instant>,
    deadlines: BTreeSet<(Instant, Path)>,
    /// Which peers use each of the others.
    used: BTreeMap<Path, BTreeSet<PeerId>>,
    /// Some were accepted since the start.
    accepts: bool,
}

impl Connections {
    pub(crate) const fn new() -> Self {
        Connections {
            unused: PrefixTable::new("TCP connections without a peer", UNUSED),
            deadlines: BTreeSet::new(),
            used: BTreeMap::new(),
            accepts: false,
        }
    }

    /// A connection was accepted. Gives the one that is to be closed for it.
    pub(crate) fn accepted(&mut self, now: Instant, path: Path) -> Option<Path> {
        self.accepts = true;
        self.add_unused(path, now + PREAMBLE_TIME)
    }

    /// The preamble of an accepted connection is complete.
    pub(crate) fn prepared(&mut self, now: Instant, path: Path) {
        if let Some(deadline) = self.unused.get_mut(&path) {
            self.deadlines.remove(&(*deadline, path));
            *deadline = now + SILENCE;
            self.deadlines.insert((*deadline, path));
        }
    }

    /// Whether it is there.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.used.contains_key(path) || self.unused.contains(path)
    }

    /// A peer uses it from now on.
    pub(crate) fn take(&mut self, path: Path, peer: PeerId) {
        self.remove_unused(path);
        self.used.entry(path).or_default().insert(peer);
    }

    /// A peer uses it no more. Gives the one that is to be closed for it.
    pub(crate) fn leave(&mut self, now: Instant, path: Path, peer: PeerId) -> Option<Path> {
        let peers = self.used.get_mut(&path)?;
        peers.remove(&peer);
        if !peers.is_empty() {
            return None;
        }
        self.used.remove(&path);
        self.add_unused(path, now + PREAMBLE_TIME)
    }

    /// Handles the end of a connection. Gives the peers that used it.
    pub(crate) fn closed(&mut self, path: Path) -> BTreeSet<PeerId> {
        self.remove_unused(path);
        self.used.remove(&path).unwrap_or_default()
    }

    /// One that is to be closed now.
    pub(crate) fn take_late(&mut self, now: Instant) -> Option<Path> {
        let (_, path) = *self.deadlines.first().filter(|(deadline, _)| *deadline <= now)?;
        self.remove_unused(path);
        Some(path)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// `None`: none was ever accepted.
    pub(crate) fn usage(&self) -> Option<TableUsage> {
        self.accepts.then(|| self.unused.usage())
    }

    fn add_unused(&mut self, path: Path, deadline: Instant) -> Option<Path> {
        self.remove_unused(path);
        let evicted = self.unused.insert(path.remote().ip(), path, (), deadline);
        self.deadlines.insert((deadline, path));
        evicted.map(|(evicted, deadline)| {
            self.deadlines.remove(&(deadline, evicted));
            evicted
        })
    }

    fn remove_unused(&mut self, path: Path) {
        if let Some(deadline) = self.unused.remove(&path) {
            self.deadlines.remove(&(deadline, path));
        }
    }
}

#[cfg(test)]
mod tests {
    use adit_core::ConnectionId;

    use super::*;

    fn path(number: u32) -> Path {
        let remote = ([192, 0, 2, (number >> 8) as u8 + 1], 1000).into();
        Path::Tcp { connection: ConnectionId(number), remote }
    }

    const NOW: Instant = Instant::ORIGIN;
    const PEER: PeerId = PeerId(7);

    #[test]
    fn connections_without_a_peer_are_closed() {
        let mut connections = Connections::new();
        assert_eq!(connections.usage(), None);
        for number in 0..3 {
            assert_eq!(connections.accepted(NOW, path(number)), None);
        }
        connections.prepared(NOW, path(1));
        connections.take(path(2), PEER);
        let late = |connections: &mut Connections, after| connections.take_late(NOW + after);
        let just = |time: Duration| time - Duration::from_millis(1);
        assert_eq!(late(&mut connections, just(PREAMBLE_TIME)), None);
        assert_eq!(late(&mut connections, PREAMBLE_TIME), Some(path(0)));
        assert_eq!(late(&mut connections, just(SILENCE)), None);
        assert_eq!(late(&mut connections, SILENCE), Some(path(1)));
        assert_eq!((late(&mut connections, SILENCE * 100), connections.poll_timeout()), (None, None));
        assert!(connections.has(&path(2)) && !connections.has(&path(1)));
    }

    #[test]
    fn a_connection_is_used_until_its_last_peer_leaves() {
        let mut connections = Connections::new();
        connections.take(path(0), PEER);
        connections.take(path(0), PeerId(8));
        assert_eq!(connections.leave(NOW, path(0), PEER), None);
        assert_eq!(connections.poll_timeout(), None);
        assert_eq!(connections.leave(NOW, path(0), PeerId(8)), None);
        assert_eq!(connections.poll_timeout(), Some(NOW + PREAMBLE_TIME));
        // A peer comes back.
        connections.take(path(0), PEER);
        assert_eq!(connections.poll_timeout(), None);
        assert_eq!(connections.closed(path(0)), [PEER].into());
        assert!(!connections.has(&path(0)));
        assert_eq!(connections.leave(NOW, path(0), PEER), None, "it is gone");
        assert_eq!(connections.poll_timeout(), None);
    }

    #[test]
    fn one_source_has_its_share() {
        let mut connections = Connections::new();
        connections.take(path(1000), PEER);
        for number in 0..64 {
            assert_eq!(connections.accepted(NOW, path(number)), None, "{number}");
        }
        // The oldest goes; and of other sources none.
        assert_eq!(connections.accepted(NOW, path(64)), Some(path(0)));
        assert_eq!(connections.accepted(NOW, path(256)), None);
        let usage = connections.usage().expect("some were accepted");
        assert_eq!((usage.entries, usage.evicted, usage.share, usage.limit), (65, 1, 64, 1024));
        assert_eq!(connections.deadlines.len(), 65);
    }
}
