//! The network between clients and server: datagrams that are lost, delayed, duplicated or corrupted, streams that stall
//! and break, and addresses that change.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use adit_core::{ConnectionId, Instant, Path};

use crate::network;
use crate::openvpn::scenario::{Scenario, UDP_HEADERS};
use crate::rng::Rng;

/// Where the server listens.
pub(crate) const SERVER_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), 1194);
/// The server's only UDP socket.
const SERVER_SOCKET: u32 = 0;
const FIRST_PORT: u16 = 1024;
/// Datagrams that the attacker keeps.
const MAX_CAPTURED: usize = 500;

/// A direction between a client and the server; an index into the client's faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

/// Something in transit.
#[derive(Clone, Debug)]
pub(crate) enum Transit {
    /// A datagram to the server, from that address.
    ToServer { from: SocketAddr, datagram: Vec<u8> },
    /// A datagram to the client that has that address when it arrives.
    ToClient { to: SocketAddr, datagram: Vec<u8> },
    /// A piece of a stream.
    Stream { connection: u32, direction: Direction, bytes: Vec<u8> },
    /// The notice that a connection is closed.
    Closed { connection: u32, direction: Direction, reason: &'static str },
}

/// A TCP connection.
struct Connection {
    client: usize,
    remote: SocketAddr,
    /// Whether each side still has it, indexed by the [`Direction`] towards that side.
    open: [bool; 2],
    /// When the last byte in each direction arrives: TCP keeps the order.
    last: [Instant; 2],
    /// The bytes in transit are lost.
    broken: bool,
}

/// The simulated network.
pub(crate) struct Net {
    rng: Rng,
    scenario: Scenario,
    /// Whether the scenario's faults are on.
    pub(crate) faulty: bool,
    /// The time until which nothing passes to and from each client.
    blackhole_until: Vec<Instant>,
    /// How large the IP packets to and from a client may be, and until when.
    small_mtu: BTreeMap<usize, (usize, Instant)>,
    /// The host address of each client that moved to another network.
    hosts: BTreeMap<usize, [u8; 4]>,
    /// The address by which each socket of a client is seen.
    sockets: BTreeMap<(usize, u32), SocketAddr>,
    owners: BTreeMap<SocketAddr, (usize, u32)>,
    /// The address that each client had last.
    fixed: BTreeMap<usize, SocketAddr>,
    /// Addresses that clients had before [`Net::roam`], each with the next one of that client.
    replaced: BTreeMap<SocketAddr, SocketAddr>,
    /// Addresses from [`Net::roam`] from which the server opened no datagram yet, and their clients.
    unconfirmed: BTreeMap<SocketAddr, usize>,
    connections: BTreeMap<u32, Connection>,
    /// The last datagrams that arrived, for the attacker.
    captured: VecDeque<Transit>,
    next_number: u32,
    next_port: u16,
}

impl Net {
    pub(crate) fn new(scenario: &Scenario, rng: Rng) -> Self {
        Net {
            rng,
            scenario: scenario.clone(),
            faulty: false,
            blackhole_until: vec![Instant::ORIGIN; scenario.clients],
            small_mtu: BTreeMap::new(),
            hosts: BTreeMap::new(),
            sockets: BTreeMap::new(),
            owners: BTreeMap::new(),
            fixed: BTreeMap::new(),
            replaced: BTreeMap::new(),
            unconfirmed: BTreeMap::new(),
            connections: BTreeMap::new(),
            captured: VecDeque::new(),
            next_number: 1,
            next_port: FIRST_PORT,
        }
    }

    /// Nothing passes to and from a client for a while.
    pub(crate) fn blackhole(&mut self, client: usize, until: Instant) {
        if let Some(blackholed) = self.blackhole_until.get_mut(client - 1) {
            *blackholed = until;
        }
    }

    /// Only small packets pass to and from a client for a while.
    pub(crate) fn limit_mtu(&mut self, client: usize, mtu: usize, until: Instant) {
        self.small_mtu.insert(client, (mtu, until));
    }

    /// Whether a datagram of that length fits through the path to and from a client.
    fn fits(&self, now: Instant, client: usize, len: usize) -> bool {
        let small_mtu = self.small_mtu.get(&client).filter(|(_, until)| self.faulty && now < *until);
        let mtu = small_mtu.map_or(usize::MAX, |(mtu, _)| *mtu).min(self.scenario.network.mtu);
        len + UDP_HEADERS <= mtu
    }

    /// The attacker keeps a datagram that arrived.
    pub(crate) fn capture(&mut self, transit: &Transit) {
        if self.scenario.intervals.attack.is_none() {
            return;
        }
        if self.captured.len() == MAX_CAPTURED {
            // Control packets are rare among data, and more useful for an attack: some stay.
            let at = self.rng.below(MAX_CAPTURED as u64) as usize;
            self.captured.remove(at);
        }
        self.captured.push_back(transit.clone());
    }

    /// One of the datagrams that the attacker keeps.
    pub(crate) fn captured(&self, rng: &mut Rng) -> Option<Transit> {
        self.captured.get(rng.below(self.captured.len() as u64) as usize).cloned()
    }

    /// The address by which a new socket of that client is seen.
    fn socket_address(&mut self, client: usize) -> SocketAddr {
        match self.fixed.get(&client) {
            Some(address) if self.scenario.network.fixed_port => *address,
            _ => {
                let address = self.fresh_address(client);
                self.fixed.insert(client, address);
                address
            }
        }
    }

    fn fresh_address(&mut self, client: usize) -> SocketAddr {
        self.next_port = self.next_port.checked_add(1).unwrap_or(FIRST_PORT);
        let host = self.hosts.get(&client).copied().unwrap_or([198, 51, 100, client as u8]);
        SocketAddr::from((host, self.next_port))
    }

    fn fresh_number(&mut self) -> u32 {
        self.next_number += 1;
        self.next_number
    }

    /// A client opened a UDP socket: its path to the server.
    pub(crate) fn open_socket(&mut self, client: usize) -> Path {
        let socket = self.fresh_number();
        let address = self.socket_address(client);
        self.sockets.insert((client, socket), address);
        self.owners.insert(address, (client, socket));
        Path::Udp { socket, remote: SERVER_ADDRESS }
    }

    /// A client and the server have a TCP connection: the client's and the server's path.
    pub(crate) fn open_connection(&mut self, now: Instant, client: usize) -> (Path, Path) {
        let number = self.fresh_number();
        let remote = self.fresh_address(client);
        let connection = Connection { client, remote, open: [true; 2], last: [now; 2], broken: false };
        self.connections.insert(number, connection);
        let connection = ConnectionId(number);
        (Path::Tcp { connection, remote: SERVER_ADDRESS }, Path::Tcp { connection, remote })
    }

    /// The client's sockets get other addresses; datagrams to the old ones are lost.
    pub(crate) fn rebind(&mut self, client: usize) {
        let sockets: Vec<u32> =
            self.sockets.keys().filter(|(owner, _)| *owner == client).map(|(_, socket)| *socket).collect();
        self.fixed.remove(&client);
        for socket in sockets {
            let address = self.socket_address(client);
            if let Some(old) = self.sockets.insert((client, socket), address) {
                self.owners.remove(&old);
            }
            self.owners.insert(address, (client, socket));
        }
    }

    /// The client's newest socket, if `known` is its address, gets another address. Datagrams to the old one still
    /// arrive if they were sent before the server opened something from the new one; later ones are lost.
    pub(crate) fn roam(&mut self, client: usize, known: SocketAddr) -> Option<SocketAddr> {
        let newest = self.sockets.iter().rfind(|((owner, _), _)| *owner == client);
        let (socket, old) = newest.map(|(socket, address)| (*socket, *address))?;
        if old != known || self.unconfirmed.contains_key(&old) {
            return None;
        }
        let address = self.fresh_address(client);
        self.fixed.insert(client, address);
        self.sockets.insert(socket, address);
        self.owners.insert(address, socket);
        self.replaced.insert(old, address);
        self.unconfirmed.insert(address, client);
        Some(address)
    }

    /// The client that moved to that address by [`Net::roam`], if the server opened nothing from there yet.
    pub(crate) fn roamed(&self, from: SocketAddr) -> Option<usize> {
        self.unconfirmed.get(&from).copied()
    }

    /// The server opened a datagram from that address.
    pub(crate) fn confirm_address(&mut self, address: SocketAddr) {
        self.unconfirmed.remove(&address);
    }

    /// Whether the server knows that a client is not at that address any more.
    fn is_replaced(&self, address: SocketAddr) -> bool {
        self.replaced.get(&address).is_some_and(|next| !self.unconfirmed.contains_key(next))
    }

    /// A client moves to another network: its sockets get other addresses, and its connections are dead.
    pub(crate) fn move_to(&mut self, now: Instant, client: usize, host: [u8; 4]) -> Vec<(Instant, Transit)> {
        self.hosts.insert(client, host);
        self.rebind(client);
        self.break_connections(now, client)
    }

    /// Two clients get each other's addresses.
    pub(crate) fn swap(&mut self, one: usize, other: usize) {
        let find = |client| self.sockets.iter().rfind(|((owner, _), _)| *owner == client);
        let (Some((one, at_one)), Some((other, at_other))) = (find(one), find(other)) else { return };
        let (one, at_one, other, at_other) = (*one, *at_one, *other, *at_other);
        self.sockets.extend([(one, at_other), (other, at_one)]);
        self.owners.extend([(at_other, one), (at_one, other)]);
        self.fixed.extend([(one.0, at_other), (other.0, at_one)]);
    }

    /// The client's path of a datagram that arrives at `address`, and the number of that client.
    pub(crate) fn owner(&self, address: SocketAddr) -> Option<(usize, Path)> {
        let (client, socket) = *self.owners.get(&address)?;
        Some((client, Path::Udp { socket, remote: SERVER_ADDRESS }))
    }

    /// The server's path for datagrams from that address.
    pub(crate) fn server_path(from: SocketAddr) -> Path {
        Path::Udp { socket: SERVER_SOCKET, remote: from }
    }

    /// Whether the server still has that connection.
    pub(crate) fn server_has(&self, path: Path) -> bool {
        let Path::Tcp { connection, .. } = path else { return false };
        self.connection_end(connection.0, Direction::ToServer).is_some()
    }

    /// The end of that connection in that direction, and its path; `None` if that side does not have it any more.
    pub(crate) fn connection_end(&self, number: u32, direction: Direction) -> Option<(usize, Path)> {
        let found = self.connections.get(&number).filter(|found| found.open[direction as usize])?;
        let connection = ConnectionId(number);
        Some(match direction {
            Direction::ToServer => {
                (crate::openvpn::model::SERVER, Path::Tcp { connection, remote: found.remote })
            }
            Direction::ToClient => (found.client, Path::Tcp { connection, remote: SERVER_ADDRESS }),
        })
    }

    /// An end sends a datagram (a record, on a connection).
    pub(crate) fn send(
        &mut self,
        now: Instant,
        end: usize,
        path: Path,
        datagram: &[u8],
    ) -> Vec<(Instant, Transit)> {
        match path {
            Path::Tcp { connection, .. } => self.send_record(now, end, connection.0, datagram),
            Path::Udp { remote, .. } | Path::Ip { remote, .. } if end == crate::openvpn::model::SERVER => {
                if self.is_replaced(remote) {
                    return Vec::new();
                }
                let client = self.owners.get(&remote).map_or(0, |(client, _)| *client);
                if !self.fits(now, client, datagram.len()) {
                    return Vec::new();
                }
                let copies = self.fate(now, client, Direction::ToClient, datagram);
                let transit = |(at, datagram)| (at, Transit::ToClient { to: remote, datagram });
                copies.into_iter().map(transit).collect()
            }
            Path::Udp { socket, .. } | Path::Ip { socket, .. } => {
                let Some(from) = self.sockets.get(&(end, socket)).copied() else { return Vec::new() };
                if !self.fits(now, end, datagram.len()) {
                    return Vec::new();
                }
                let copies = self.fate(now, end, Direction::ToServer, datagram);
                let transit = |(at, datagram)| (at, Transit::ToServer { from, datagram });
                copies.into_iter().map(transit).collect()
            }
        }
    }

    fn delay(&mut self) -> Duration {
        self.scenario.network.delay.draw(&mut self.rng)
    }

    /// The arrivals of a datagram, each with its time and its content: none, one or two.
    fn fate(
        &mut self,
        now: Instant,
        client: usize,
        direction: Direction,
        datagram: &[u8],
    ) -> Vec<(Instant, Vec<u8>)> {
        let faults = self.scenario.network.faults.get(client.wrapping_sub(1)).filter(|_| self.faulty);
        let is_blackholed = || self.blackhole_until.get(client - 1).is_some_and(|until| now < *until);
        if faults.is_some() && is_blackholed() {
            return Vec::new();
        }
        let faults = faults.map(|faults| faults[direction as usize]);
        network::transmit(&mut self.rng, now, self.scenario.network.delay, faults, datagram)
    }

    fn send_record(
        &mut self,
        now: Instant,
        end: usize,
        number: u32,
        record: &[u8],
    ) -> Vec<(Instant, Transit)> {
        let direction =
            if end == crate::openvpn::model::SERVER { Direction::ToClient } else { Direction::ToServer };
        let own =
            if end == crate::openvpn::model::SERVER { Direction::ToServer } else { Direction::ToClient };
        let mut delay = self.delay();
        let Some(connection) = self.connections.get_mut(&number) else { return Vec::new() };
        if !connection.open[own as usize] || connection.broken {
            return Vec::new();
        }
        let mut at = now;
        if self.faulty {
            let client = connection.client - 1;
            let loss =
                self.scenario.network.faults.get(client).map_or(0, |faults| faults[direction as usize].loss);
            if self.rng.chance(loss) {
                delay += self.rng.millis(200, 3000);
            }
            at = at.max(self.blackhole_until.get(client).copied().unwrap_or(now));
        }
        let at = (at + delay).max(connection.last[direction as usize]);
        connection.last[direction as usize] = at;
        let mut bytes = (record.len() as u16).to_be_bytes().to_vec();
        bytes.extend_from_slice(record);
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let cut = if self.rng.chance(300) {
                self.rng.between(1, bytes.len() as u64) as usize
            } else {
                bytes.len()
            };
            let rest = bytes.split_off(cut);
            pieces.push((at, Transit::Stream { connection: number, direction, bytes }));
            bytes = rest;
        }
        pieces
    }

    /// An end closes a path: a socket, or a connection, of which the other side gets a notice.
    pub(crate) fn close(&mut self, now: Instant, end: usize, path: Path) -> Vec<(Instant, Transit)> {
        match path {
            Path::Udp { socket, .. } | Path::Ip { socket, .. } => {
                self.sockets.remove(&(end, socket));
                self.owners.retain(|_, owner| *owner != (end, socket));
                Vec::new()
            }
            Path::Tcp { connection, .. } => {
                let own = if end == crate::openvpn::model::SERVER {
                    Direction::ToServer
                } else {
                    Direction::ToClient
                };
                self.close_side(now, connection.0, own)
            }
        }
    }

    fn close_side(&mut self, now: Instant, number: u32, own: Direction) -> Vec<(Instant, Transit)> {
        let delay = self.delay();
        let other = match own {
            Direction::ToServer => Direction::ToClient,
            Direction::ToClient => Direction::ToServer,
        };
        let Some(connection) = self.connections.get_mut(&number) else { return Vec::new() };
        connection.open[own as usize] = false;
        if !connection.open[other as usize] {
            self.connections.remove(&number);
            return Vec::new();
        }
        let at = (now + delay).max(connection.last[other as usize]);
        vec![(
            at,
            Transit::Closed { connection: number, direction: other, reason: "closed by the other end" },
        )]
    }

    /// Notes that a side got the notice that the connection is closed.
    pub(crate) fn forget_side(&mut self, number: u32, direction: Direction) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.open[direction as usize] = false;
            if connection.open == [false; 2] {
                self.connections.remove(&number);
            }
        }
    }

    /// Breaks all connections of a client: bytes in transit are lost; each side gets a notice after a while, or none,
    /// and must find out by itself.
    pub(crate) fn break_connections(&mut self, now: Instant, client: usize) -> Vec<(Instant, Transit)> {
        let mut transits = Vec::new();
        for (number, connection) in &mut self.connections {
            if connection.client != client || connection.broken {
                continue;
            }
            connection.broken = true;
            for direction in [Direction::ToServer, Direction::ToClient] {
                if self.rng.chance(700) {
                    let at = now + self.rng.millis(0, 5000);
                    let reason = "the connection was reset";
                    transits.push((at, Transit::Closed { connection: *number, direction, reason }));
                }
            }
        }
        transits
    }

    /// Handles the end of an end's process: the system closes its sockets and connections.
    pub(crate) fn crash(&mut self, now: Instant, end: usize) -> Vec<(Instant, Transit)> {
        if end != crate::openvpn::model::SERVER {
            self.sockets.retain(|(owner, _), _| *owner != end);
            self.owners.retain(|_, (owner, _)| *owner != end);
        }
        let own =
            if end == crate::openvpn::model::SERVER { Direction::ToServer } else { Direction::ToClient };
        let concerned = |connection: &Connection| {
            connection.open[own as usize]
                && (end == crate::openvpn::model::SERVER || connection.client == end)
        };
        let numbers: Vec<u32> = self
            .connections
            .iter()
            .filter(|(_, connection)| concerned(connection))
            .map(|(number, _)| *number)
            .collect();
        numbers.into_iter().flat_map(|number| self.close_side(now, number, own)).collect()
    }

    /// Whether bytes that arrive on that connection are lost.
    pub(crate) fn is_broken(&self, number: u32) -> bool {
        self.connections.get(&number).is_none_or(|connection| connection.broken)
    }
}
