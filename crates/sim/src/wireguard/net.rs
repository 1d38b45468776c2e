//! The network between the ends: their addresses, and the fate of datagrams.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use adit_core::Instant;

use super::scenario::Scenario;
use crate::network::{self, Delay, Faults};
use crate::rng::Rng;

/// The port of ends that do not move.
const PORT: u16 = 51820;
/// How long datagrams to the address before still arrive after an end moved on a clean net.
const GRACE: Duration = Duration::from_millis(1500);

/// The simulated network.
pub(crate) struct Net {
    rng: Rng,
    delay: Delay,
    faults: Faults,
    ipv6: bool,
    /// Whether the faults are on.
    pub(crate) faulty: bool,
    addresses: Vec<SocketAddr>,
    owners: BTreeMap<SocketAddr, usize>,
    /// Addresses that ends had before, and until when they are reached there.
    before: BTreeMap<SocketAddr, (usize, Instant)>,
    /// The time until which nothing passes to and from each end.
    unreachable_until: Vec<Instant>,
    next_port: u16,
}

impl Net {
    pub(crate) fn new(scenario: &Scenario, rng: Rng) -> Self {
        let mut net = Net {
            rng,
            delay: scenario.delay,
            faults: scenario.faults,
            ipv6: scenario.ipv6,
            faulty: false,
            addresses: Vec::new(),
            owners: BTreeMap::new(),
            before: BTreeMap::new(),
            unreachable_until: vec![Instant::ORIGIN; scenario.ends.len()],
            next_port: 1024,
        };
        for end in 0..scenario.ends.len() {
            let address = net.make_address(end, PORT);
            net.addresses.push(address);
            net.owners.insert(address, end);
        }
        net
    }

    fn make_address(&self, end: usize, port: u16) -> SocketAddr {
        match self.ipv6 {
            true => ([0x2001, 0xdb8, 0, 0, 0, 0, 0, end as u16 + 1], port).into(),
            false => ([192, 0, 2, end as u8 + 1], port).into(),
        }
    }

    /// By which address an end is seen.
    pub(crate) fn address(&self, end: usize) -> SocketAddr {
        self.addresses[end]
    }

    /// The end that a datagram to that address reaches.
    pub(crate) fn owner(&self, now: Instant, address: SocketAddr) -> Option<usize> {
        let before = self.before.get(&address).filter(|(_, until)| now < *until);
        self.owners.get(&address).copied().or(before.map(|(end, _)| *end))
    }

    /// An end is seen at an address that none had before.
    pub(crate) fn move_end(&mut self, now: Instant, end: usize) {
        self.next_port = self.next_port.checked_add(1).unwrap_or(1024);
        let address = self.make_address(end, self.next_port);
        let old = std::mem::replace(&mut self.addresses[end], address);
        self.owners.remove(&old);
        self.owners.insert(address, end);
        if !self.faulty {
            self.before.insert(old, (end, now + GRACE));
        }
    }

    /// Two ends get each other's addresses.
    pub(crate) fn swap(&mut self, one: usize, other: usize) {
        self.addresses.swap(one, other);
        for end in [one, other] {
            self.owners.insert(self.addresses[end], end);
        }
    }

    /// Nothing passes to and from an end until then, while the net is faulty.
    pub(crate) fn cut_off(&mut self, end: usize, until: Instant) {
        self.unreachable_until[end] = until;
    }

    /// The arrivals of a datagram that is sent now, each with its time and its content.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        end: usize,
        to: SocketAddr,
        datagram: &[u8],
    ) -> Vec<(Instant, Vec<u8>)> {
        let cut_off = |end: usize| self.faulty && now < self.unreachable_until[end];
        if cut_off(end) || self.owner(now, to).is_some_and(cut_off) {
            return Vec::new();
        }
        let faults = self.faulty.then_some(self.faults);
        network::transmit(&mut self.rng, now, self.delay, faults, datagram)
    }
}
