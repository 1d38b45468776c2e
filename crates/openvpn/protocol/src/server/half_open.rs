//! Clients in their first handshake, as far as they are counted.

use adit_core::{Path, PeerId, PrefixTable, Rejected, TableUsage};

use super::limits;

/// How far a client's first handshake is. Of one source, those that are less far make room first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Progress {
    /// The client returned a cookie, or connected.
    Begun,
    /// The server answered its TLS.
    Tls,
    /// TLS is complete: its certificate, if it must have one, is good.
    Identified,
}

/// The state of a client that is not up, by which it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HalfOpenState {
    pub(super) progress: Progress,
    /// The client was seen to receive at its address.
    pub(super) proven: bool,
    /// A judge had it wait for a person.
    pub(super) put_off: bool,
}

/// The clients that are not up.
pub(super) struct HalfOpen {
    handshakes: PrefixTable<PeerId, (), Progress>,
    /// Counted apart, so that clients that wait for a person do not use up the room for handshakes.
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

    /// Takes another limit of connected clients.
    pub(super) fn set_max_clients(&mut self, max_clients: usize) {
        self.put_off.set_shares(limits::put_off(max_clients));
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
    pub(super) fn note(&mut self, path: Path, id: PeerId, half_open_state: HalfOpenState) -> Option<PeerId> {
        let source = path.remote().ip();
        if half_open_state.proven {
            self.unproven.remove(&id);
        }
        let evicted = match (half_open_state.put_off, self.put_off.contains(&id)) {
            (true, false) if self.handshakes.remove(&id).is_some() => self.put_off.insert(source, id, (), ()),
            (false, true) => {
                self.put_off.remove(&id);
                self.handshakes.insert(source, id, half_open_state.progress, ())
            }
            _ => {
                self.handshakes.set_class(&id, half_open_state.progress);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(last: u8) -> Path {
        Path::Udp { socket: 0, remote: ([192, 0, 2, last], 40_000).into() }
    }

    const BEGUN: HalfOpenState = HalfOpenState { progress: Progress::Begun, proven: true, put_off: false };
    const PUT_OFF: HalfOpenState = HalfOpenState { progress: Progress::Identified, put_off: true, ..BEGUN };

    /// One address has as many clients that wait for sign-on as there may be; those of others wait beside them, and
    /// clients that need not wait are not concerned.
    #[test]
    fn who_is_put_off_makes_room_for_others_who_are() {
        let mut clients = HalfOpen::new(400);
        let mut put_off = |number, from| {
            assert_eq!(clients.insert(at(from), PeerId(number), true), None);
            clients.note(at(from), PeerId(number), PUT_OFF)
        };
        for number in 0..256 {
            assert_eq!(put_off(number, 1), None);
        }
        assert_eq!(put_off(256, 1), Some(PeerId(0)), "one address has 256 of 400");
        for number in 1000..1144 {
            assert_eq!(put_off(number, 2), None);
        }
        assert_eq!(put_off(2000, 3), Some(PeerId(1)), "the oldest of the address with the most");
        assert_eq!((clients.put_off.len(), clients.handshakes.len()), (400, 0));
        assert_eq!(clients.insert(at(4), PeerId(3000), true), None, "handshakes have their own room");
        // Signed on, it is in its handshake again until it is up.
        assert_eq!(clients.note(at(3), PeerId(2000), BEGUN), None);
        assert_eq!((clients.put_off.len(), clients.handshakes.len()), (399, 2));
    }

    #[test]
    fn who_acknowledges_our_reset_has_proved_its_address() {
        let mut clients = HalfOpen::new(1);
        for number in 0..16 {
            assert_eq!(clients.check_room(at(1), false), Ok(()));
            clients.insert(at(1), PeerId(number), false);
        }
        assert!(clients.check_room(at(1), false).is_err());
        assert_eq!((clients.check_room(at(1), true), clients.check_room(at(2), false)), (Ok(()), Ok(())));
        clients.note(at(1), PeerId(3), BEGUN);
        assert_eq!((clients.check_room(at(1), false), clients.len()), (Ok(()), 16));
    }
}
