//! Accepted TCP connections that no control channel uses yet.

use std::collections::BTreeSet;

use adit_core::{Instant, Path, PrefixTable, TableUsage};

use super::limits;

/// The packets that came on a connection. Of one source, those without a valid packet are closed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Heard {
    Nothing,
    /// A valid first packet, about which a judge is being asked.
    FirstPacket,
}

/// The connections, each with the time at which it is closed.
pub(super) struct SilentConnections {
    table: PrefixTable<Path, Instant, Heard>,
    deadlines: BTreeSet<(Instant, Path)>,
}

impl SilentConnections {
    pub(super) fn new() -> Self {
        SilentConnections {
            table: PrefixTable::new("TCP connections without a control channel", limits::SILENT_CONNECTIONS),
            deadlines: BTreeSet::new(),
        }
    }

    /// A connection was accepted. Gives the one that must be closed for it.
    pub(super) fn opened(&mut self, now: Instant, path: Path) -> Option<Path> {
        let deadline = now + limits::FIRST_PACKET_TIME;
        let evicted = self.table.insert(path.remote().ip(), path, Heard::Nothing, deadline);
        self.deadlines.insert((deadline, path));
        evicted.map(|(evicted, deadline)| {
            self.deadlines.remove(&(deadline, evicted));
            evicted
        })
    }

    /// A judge is being asked about a client on the connection, until then.
    pub(super) fn heard(&mut self, path: Path, until: Instant) {
        if let Some(deadline) = self.table.get_mut(&path) {
            self.deadlines.remove(&(*deadline, path));
            self.deadlines.insert((until, path));
            *deadline = until;
            self.table.set_class(&path, Heard::FirstPacket);
        }
    }

    /// A control channel uses it, or it is closed. False if it is none of these.
    pub(super) fn remove(&mut self, path: Path) -> bool {
        let Some(deadline) = self.table.remove(&path) else { return false };
        self.deadlines.remove(&(deadline, path))
    }

    /// Whether nothing valid came on the connection.
    pub(super) fn is_silent(&self, path: Path) -> bool {
        self.table.class(&path) == Some(Heard::Nothing)
    }

    /// A connection that is to be closed now.
    pub(super) fn take_late(&mut self, now: Instant) -> Option<Path> {
        let (_, path) = *self.deadlines.first().filter(|(deadline, _)| *deadline <= now)?;
        self.remove(path).then_some(path)
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub(super) fn usage(&self) -> TableUsage {
        self.table.usage()
    }
}
