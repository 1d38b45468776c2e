//! Which of our addresses datagrams came to: each has a number of its own at a socket, as if it were a socket.
//!
//! The numbers are the same for all data threads. Datagrams to a path with such a number are sent from its address. The
//! numbers cost nothing where no socket was set to learn its local addresses.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use adit_core::Instant;
use adit_sys::LocalAddress;

use crate::udp::PinnedSource;

/// Local addresses of one socket that have a number. A host that can have datagrams sent to any number of our addresses
/// (those of a whole network routed to this machine) finds the rest without one.
const MOST_ADDRESSES: usize = 4096;
/// Numbers that one socket gives out in its life: those of addresses that gave way are not used again.
const MOST_NUMBERS: usize = 65_536;
/// An address gives way to others when nothing came to it and nothing left from it for so long.
const IDLE: Duration = Duration::from_secs(180);
/// Devices at which datagrams to an address arrive that are told apart.
const MOST_DEVICES: usize = 4;
/// Between two looks at a full table for addresses that could give way.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The number and the address by which a datagram's local address is known.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// The number that its path has in place of the socket's.
    pub(super) number: u32,
    /// The address from which datagrams with that number leave. `None`: from the address that the system
    /// chooses.
    pub(super) pinned: Option<Arc<PinnedSource>>,
}

/// A local address and the devices at which datagrams to it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrivals {
    pub(super) address: IpAddr,
    pub(super) devices: Vec<u32>,
}

impl Source {
    /// A datagram came to the address: the system may send from it again.
    pub(super) fn restore(&self) {
        if let Some(pinned) = &self.pinned {
            pinned.restore();
        }
    }
}

/// Counts sockets, and knows the addresses of those that learn them.
#[derive(Debug, Default)]
pub(super) struct Sources {
    next: AtomicU32,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    sockets: BTreeMap<u32, Socket>,
    entries: BTreeMap<u32, Entry>,
}

#[derive(Debug)]
struct Socket {
    port: u16,
    /// The numbers of its addresses.
    known: BTreeMap<LocalAddress, u32>,
    /// How many numbers it has given out.
    given: usize,
    next_look: Instant,
}

#[derive(Debug)]
struct Entry {
    socket: u32,
    pinned: Option<Arc<PinnedSource>>,
    address: IpAddr,
    /// The devices at which datagrams to the address arrived; 0: a free place.
    devices: [AtomicU32; MOST_DEVICES],
    /// When it was used last, in nanoseconds.
    used: AtomicU64,
}

impl Sources {
    /// A number that no socket and no address of one had before.
    pub(super) fn next_number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A socket that learns its local addresses.
    pub(super) fn add_socket(&self, socket: u32, port: u16) {
        let new = Socket { port, known: BTreeMap::new(), given: 0, next_look: Instant::ORIGIN };
        self.write().sockets.insert(socket, new);
    }

    /// The socket is used no more: nor are the numbers of its addresses, which this gives.
    pub(super) fn remove_socket(&self, socket: u32) -> Vec<u32> {
        if !self.read().sockets.contains_key(&socket) {
            return Vec::new();
        }
        let mut state = self.write();
        state.sockets.remove(&socket);
        let mut numbers = Vec::new();
        state.entries.retain(|number, entry| {
            let goes = entry.socket == socket;
            numbers.extend(goes.then_some(*number));
            !goes
        });
        numbers
    }

    /// The number of a socket's local address, to which a datagram came at the device with that index. `announce` is
    /// called for a new one, before any other thread gets it. Where there is no room for it, the socket's own number is
    /// given.
    pub(super) fn arrived(
        &self,
        socket: u32,
        (local, device): (LocalAddress, u32),
        now: Instant,
        announce: impl FnOnce(u32, SocketAddr),
    ) -> Source {
        let found = self.read().find(socket, (&local, device), now);
        found.unwrap_or_else(|| {
            let mut state = self.write();
            // Another thread may have been quicker.
            state.find(socket, (&local, device), now).unwrap_or_else(|| {
                let added = state.add(socket, (local, device), now, || self.next_number());
                if let Some((source, port)) = &added {
                    announce(source.number, SocketAddr::new(local.ip.to_canonical(), *port));
                }
                added.map_or(Source { number: socket, pinned: None }, |(source, _)| source)
            })
        })
    }

    /// The socket behind the number of a local address, and the address from which its datagrams leave. `None`: it is
    /// no such number, or its socket is gone.
    pub(super) fn resolve(&self, number: u32, now: Instant) -> Option<(u32, Option<Arc<PinnedSource>>)> {
        let state = self.read();
        let entry = state.entries.get(&number)?;
        entry.touch(now);
        Some((entry.socket, entry.pinned.clone()))
    }

    /// The local address that a number is of, and where datagrams to it arrived. `None`: datagrams sent by the number
    /// leave from the address that the system chooses, or they arrived at more devices than the table distinguishes.
    pub(super) fn arrivals(&self, number: u32) -> Option<Arrivals> {
        let state = self.read();
        let entry = state.entries.get(&number).filter(|entry| entry.pinned.is_some())?;
        let devices = entry.devices.iter().map(|place| place.load(Ordering::Relaxed));
        let devices: Vec<u32> = devices.filter(|device| *device != 0).collect();
        (1..MOST_DEVICES).contains(&devices.len()).then_some(Arrivals { address: entry.address, devices })
    }

    /// The socket behind a number: itself, if it is not that of a local address.
    pub(super) fn socket_of(&self, number: u32) -> u32 {
        self.read().entries.get(&number).map_or(number, |entry| entry.socket)
    }

    /// The state is whole after each statement, whatever happened to a thread that held the lock.
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn find(&self, socket: u32, (local, device): (&LocalAddress, u32), now: Instant) -> Option<Source> {
        let number = *self.sockets.get(&socket)?.known.get(local)?;
        let entry = self.entries.get(&number)?;
        entry.touch(now);
        entry.note_device(device);
        Some(Source { number, pinned: entry.pinned.clone() })
    }

    /// A new address, with its socket's port.
    fn add(
        &mut self,
        number: u32,
        (local, device): (LocalAddress, u32),
        now: Instant,
        next: impl FnOnce() -> u32,
    ) -> Option<(Source, u16)> {
        let State { sockets, entries } = self;
        let socket = sockets.get_mut(&number)?;
        if socket.known.len() >= MOST_ADDRESSES {
            socket.make_room(entries, now);
        }
        if socket.known.len() >= MOST_ADDRESSES || socket.given >= MOST_NUMBERS {
            return None;
        }
        let pinned = Some(Arc::new(PinnedSource::new(local)));
        let source = Source { number: next(), pinned: pinned.clone() };
        socket.given += 1;
        socket.known.insert(local, source.number);
        let (address, used) = (local.ip.to_canonical(), AtomicU64::new(now.as_nanos()));
        let entry = Entry { socket: number, pinned, address, devices: Default::default(), used };
        entry.note_device(device);
        entries.insert(source.number, entry);
        Some((source, socket.port))
    }
}

impl Socket {
    /// Has the addresses that are not in use give way. Datagrams that are still sent by their numbers leave from the
    /// address that the system chooses.
    fn make_room(&mut self, entries: &mut BTreeMap<u32, Entry>, now: Instant) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + LOOK_EVERY;
        self.known.retain(|_, number| {
            let Some(entry) = entries.get_mut(number) else { return false };
            let is_idle = now - Instant::from_nanos(entry.used.load(Ordering::Relaxed)) >= IDLE;
            if is_idle {
                entry.pinned = None;
            }
            !is_idle
        });
    }
}

impl Entry {
    fn touch(&self, now: Instant) {
        self.used.store(now.as_nanos(), Ordering::Relaxed);
    }

    fn note_device(&self, device: u32) {
        for place in &self.devices {
            match place.compare_exchange(0, device, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(known) if known == device => return,
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::IpAddr;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    fn address(number: u32) -> LocalAddress {
        LocalAddress { ip: IpAddr::from((0x0a00_0000 + number).to_be_bytes()), device: 0 }
    }

    /// Sockets 0 and 1, which learn their addresses.
    fn sources() -> Sources {
        let sources = Sources::default();
        for port in [500, 4500] {
            let number = sources.next_number();
            sources.add_socket(number, port);
        }
        sources
    }

    fn number(sources: &Sources, socket: u32, local: u32, seconds: u64) -> u32 {
        sources.arrived(socket, (address(local), 2), at(seconds), |_, _| ()).number
    }

    #[test]
    fn each_address_of_each_socket_has_a_number_that_is_announced_once() {
        let sources = sources();
        let announced = Cell::new(None);
        let tell = |number, local| announced.set(Some((number, local)));
        let first = sources.arrived(1, (address(7), 2), at(0), tell).number;
        assert_eq!(announced.take(), Some((first, "10.0.0.7:4500".parse().unwrap())));
        assert_eq!(sources.arrived(1, (address(7), 3), at(1), tell).number, first);
        assert_eq!(announced.take(), None);
        let others = [number(&sources, 0, 7, 0), number(&sources, 1, 8, 0)];
        assert!(!others.contains(&first) && others[0] != others[1]);
        assert_eq!((sources.socket_of(first), sources.socket_of(others[0]), sources.socket_of(1)), (1, 0, 1));
        assert!(sources.resolve(first, at(0)).unwrap().1.is_some() && sources.resolve(1, at(0)).is_none());
    }

    #[test]
    fn the_devices_at_which_datagrams_arrive_are_known() {
        let sources = sources();
        let arrive = |device| sources.arrived(0, (address(7), device), at(0), |_, _| ()).number;
        let number = arrive(2);
        let arrivals = |devices: &[u32]| Some(Arrivals { address: address(7).ip, devices: devices.to_vec() });
        assert_eq!(sources.arrivals(number), arrivals(&[2]));
        [3, 2, 3].into_iter().for_each(|device| assert_eq!(arrive(device), number));
        assert_eq!(sources.arrivals(number), arrivals(&[2, 3]));
        [4, 5].into_iter().for_each(|device| assert_eq!(arrive(device), number));
        assert_eq!(sources.arrivals(number), None, "too many");
        assert_eq!(sources.arrivals(0), None, "the number of a socket");
    }

    #[test]
    fn addresses_go_with_their_socket() {
        let sources = sources();
        let (stays, goes) = (number(&sources, 0, 7, 0), number(&sources, 1, 7, 0));
        assert_eq!(sources.remove_socket(1), [goes]);
        assert!(sources.resolve(stays, at(0)).is_some() && sources.resolve(goes, at(0)).is_none());
        assert_eq!(number(&sources, 1, 7, 0), 1, "what still comes gets no new number");
    }

    #[test]
    fn the_addresses_of_a_socket_are_bounded_and_idle_ones_give_way() {
        let sources = sources();
        let most = MOST_ADDRESSES as u32;
        let first = number(&sources, 0, 0, 0);
        (1..most).for_each(|local| assert_ne!(number(&sources, 0, local, 0), 0));
        assert_eq!(number(&sources, 0, most, 1), 0, "full: the socket's own number");
        // Sent datagrams count as use, too.
        let kept = number(&sources, 0, 5, 100);
        let used = number(&sources, 0, 6, 0);
        sources.resolve(used, at(100));
        assert_eq!(number(&sources, 0, most, 179), 0);
        assert_ne!(number(&sources, 0, most, 181), 0);
        assert_eq!((number(&sources, 0, 5, 182), number(&sources, 0, 6, 182)), (kept, used));
        // One that gave way is still that of its socket, but of no address.
        assert!(matches!(sources.resolve(first, at(182)), Some((0, None))));
        assert_ne!(number(&sources, 0, 0, 182), first);
    }

    #[test]
    fn a_socket_gives_out_so_many_numbers_and_no_more() {
        let sources = sources();
        let mut refused = 0;
        for round in 0..20_u32 {
            for local in 0..MOST_ADDRESSES as u32 {
                let seconds = u64::from(round) * 1000;
                refused += u32::from(number(&sources, 0, round << 16 | local, seconds) == 0);
            }
        }
        assert_eq!(refused, 4 * MOST_ADDRESSES as u32);
        assert_eq!(sources.read().entries.len(), MOST_NUMBERS);
    }
}
