//! Clients in their first handshake, as far as they are counted.

use adit_core::{Path, PeerId, PrefixTable, Rejected, TableUsage};

use super::limits;

/// How far a client's first handshake is. Of one source, those that are less far make room first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Progress {
    /// It returned a cookie, or connected.
    Begun,
    /// The server answered its TLS.
    Tls,
    /// TLS is complete: its certificate, if it must have one, is good.
    Identified,
}

/// What counts of a client that is not up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) progress: Progress,
    /// It was seen to receive at its address.
    pub(super) proven: bool,
    /// A judge told it to wait for a person.
    pub(super) put_off: bool,
}

/// The clients that are not up.
pub(super) struct HalfOpen {
    handshakes: PrefixTable<PeerId, (), Progress>,
    /// Counted apart, so that those who wait for a person keep nobody else from a handshake.
    put_off: PrefixTable<PeerId, ()>,
    unproven: PrefixTable<PeerId, ()>,
}

impl HalfOpen {
    pub(super) fn new(max_clients: usize) -> Self {
        HalfOpen {
            handshakes: PrefixTable::new("handshakes", limits::HANDSHAKES),
            put_off: PrefixTable::new("clients put off for sign-on", limits::put_off(max_clients)),
            unproven: PrefixTable::new("handshakes without a proof of the address", limits::UNPROVEN),
        }
    }

    /// Whether one more client may begin its handshake there.
    pub(super) fn check_room(&mut self, path: Path, proven: bool) -> Result<(), Rejected> {
        if !proven && !self.unproven.has_room(path.remote().ip()) {
            self.unproven.count_refusal();
            return Err(Rejected::Limited("clients that cannot prove their address"));
        }
        Ok(())
    }

    /// A client begins its handshake. Gives the one that makes room for it.
    pub(super) fn insert(&mut self, path: Path, id: PeerId, proven: bool) -> Option<PeerId> {
        let source = path.remote().ip();
        if !proven {
            // There was room for it.
            let _ = self.unproven.try_insert(source, id, (), ());
        }
        self.handshakes.insert(source, id, Progress::Begun, ()).map(|(evicted, ())| evicted)
    }

    /// Takes note of how far a client is. Gives the one that makes room for it, if it is counted otherwise now.
    pub(super) fn note(&mut self, path: Path, id: PeerId, standing: Standing) -> Option<PeerId> {
        let source = path.remote().ip();
        if standing.proven {
            self.unproven.remove(&id);
        }
        let evicted = match (standing.put_off, self.put_off.contains(&id)) {
            (true, false) if self.handshakes.remove(&id).is_some() => self.put_off.insert(source, id, (), ()),
            (false, true) => {
                self.put_off.remove(&id);
                self.handshakes.insert(source, id, standing.progress, ())
            }
            _ => {
                self.handshakes.set_class(&id, standing.progress);
                None
            }
        };
        evicted.map(|(evicted, ())| evicted)
    }

    pub(super) fn remove(&mut self, id: PeerId) {
        self.handshakes.remove(&id);
        self.put_off.remove(&id);
        self.unproven.remove(&id);
    }

    pub(super) fn len(&self) -> usize {
        self.handshakes.len() + self.put_off.len()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = PeerId> {
        self.handshakes.iter().chain(self.put_off.iter()).map(|(id, ())| *id)
    }

    pub(super) fn usage(&self) -> [TableUsage; 3] {
        [self.handshakes.usage(), self.put_off.usage(), self.unproven.usage()]
    }
}
