//! The network between the ends: their addresses, the NAT in front of end A, and the fate of datagrams.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use adit_core::{Instant, Path};

use super::scenario::{A, B, Scenario};
use super::settings::{ESP, MARKED, PLAIN, first_address, port};
use crate::network::{self, Faults};
use crate::rng::Rng;

/// The outside address of the NAT.
const OUTSIDE: [u8; 4] = [198, 51, 100, 1];
/// The number of ESP as an IP protocol.
const ESP_PROTOCOL: u8 = 50;

/// A datagram on its way, with the addresses that the receiver sees.
#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    pub(crate) to: SocketAddr,
    pub(crate) path: Path,
    pub(crate) bytes: Vec<u8>,
}

/// The simulated network.
pub(crate) struct Net {
    rng: Rng,
    /// Whether the faults are on.
    pub(crate) is_faulty: bool,
    faults: Faults,
    /// The number of control datagrams until one is lost. `None`: none is lost.
    pub(crate) loses_after: Option<u64>,
    addresses: [IpAddr; 2],
    has_nat: bool,
    /// End A's sockets behind the ports of the NAT.
    mappings: BTreeMap<u16, u32>,
    next_port: u16,
    /// The time until which nothing passes.
    cut_off_until: Instant,
}

impl Net {
    pub(crate) fn new(scenario: &Scenario, rng: Rng) -> Self {
        let mut net = Net {
            rng,
            is_faulty: false,
            faults: scenario.faults,
            loses_after: None,
            addresses: [first_address(A), first_address(B)],
            has_nat: scenario.has_nat,
            mappings: BTreeMap::new(),
            next_port: 1024,
            cut_off_until: Instant::ORIGIN,
        };
        net.map_anew();
        net
    }

    /// The address of an end's sockets.
    pub(crate) const fn address(&self, end: usize) -> IpAddr {
        self.addresses[end]
    }

    /// The NAT forgets its ports and takes others.
    pub(crate) fn map_anew(&mut self) {
        self.mappings.clear();
        for socket in [PLAIN, MARKED] {
            self.next_port = self.next_port.checked_add(1).unwrap_or(1024);
            self.mappings.insert(self.next_port, socket);
        }
    }

    /// End A gets another address.
    pub(crate) fn move_a(&mut self, number: u8) {
        self.addresses[A] = IpAddr::from([192, 0, 2, 10 + number % 200]);
        self.map_anew();
    }

    pub(crate) fn cut_off(&mut self, until: Instant) {
        self.cut_off_until = until;
    }

    /// The end and the socket that a datagram to an address reaches.
    pub(crate) fn owner(&self, to: SocketAddr) -> Option<(usize, u32)> {
        let socket = || [PLAIN, MARKED, ESP].into_iter().find(|socket| port(*socket) == to.port());
        if to.ip() == self.addresses[B] {
            return Some((B, socket()?));
        }
        if self.has_nat {
            let mapped = self.mappings.get(&to.port()).filter(|_| to.ip() == IpAddr::from(OUTSIDE));
            return mapped.map(|socket| (A, *socket));
        }
        (to.ip() == self.addresses[A]).then_some(())?;
        Some((A, socket()?))
    }

    /// The address that the peer of an end sees it at. `None`: a NAT lets nothing of that socket pass.
    fn source(&self, end: usize, socket: u32) -> Option<SocketAddr> {
        if end == A && self.has_nat {
            let mut mapped = self.mappings.iter();
            let port = mapped.find(|(_, mapped)| **mapped == socket).map(|(port, _)| *port)?;
            return Some(SocketAddr::from((OUTSIDE, port)));
        }
        Some(SocketAddr::new(self.addresses[end], port(socket)))
    }

    /// Whether that datagram is the one to be lost.
    fn is_lost(&mut self) -> bool {
        match self.loses_after {
            Some(0) => {
                self.loses_after = None;
                true
            }
            Some(more) => {
                self.loses_after = Some(more - 1);
                false
            }
            None => false,
        }
    }

    /// The arrivals of a datagram that an end sends now, each with its time.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        scenario: &Scenario,
        sent: Sent<'_>,
    ) -> Vec<(Instant, Datagram)> {
        let Sent { end, path, bytes, is_control } = sent;
        let socket = path.socket().unwrap_or_default();
        let Some(source) = self.source(end, socket) else { return Vec::new() };
        let is_cut_off = self.is_faulty && now < self.cut_off_until;
        if is_cut_off || (is_control && self.is_lost()) {
            return Vec::new();
        }
        let faults = self.is_faulty.then_some(self.faults);
        let delay = scenario.delays(self.is_faulty);
        let path_of = |socket| match socket {
            ESP => Path::Ip { socket, protocol: ESP_PROTOCOL, remote: source },
            _ => Path::Udp { socket, remote: source },
        };
        let to = path.remote();
        network::transmit(&mut self.rng, now, delay, faults, bytes)
            .into_iter()
            .map(|(at, bytes)| (at, Datagram { to, path: path_of(socket), bytes }))
            .collect()
    }
}

/// A datagram that an end sends.
pub(crate) struct Sent<'a> {
    pub(crate) end: usize,
    pub(crate) path: Path,
    pub(crate) bytes: &'a [u8],
    /// Whether it is an IKE message.
    pub(crate) is_control: bool,
}
