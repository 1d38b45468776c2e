//! The net between clients and server: datagrams that get lost, late, doubled or damaged, streams that stall
//! and break, and addresses that change under way.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use adit_core::{ConnectionId, Instant, Path};

use crate::dice::Dice;
use crate::scenario::{Scenario, UDP_HEADERS};

/// Where the server listens.
pub(crate) const SERVER_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), 1194);
/// The server's only UDP socket.
const SERVER_SOCKET: u32 = 0;
const FIRST_PORT: u16 = 1024;
/// Datagrams that an attacker remembers.
const MEMORY: usize = 500;

/// Index into a client's faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ToServer,
    ToClient,
}

/// Something on its way.
#[derive(Clone, Debug)]
pub(crate) enum Transit {
    /// To the server, from that address.
    ToServer { from: SocketAddr, datagram: Vec<u8> },
    /// To whoever has that address by then.
    ToClient { to: SocketAddr, datagram: Vec<u8> },
    /// A piece of a stream.
    Stream { connection: u32, way: Way, bytes: Vec<u8> },
    /// The news that a connection is closed.
    Closed { connection: u32, way: Way, reason: &'static str },
}

/// A TCP connection.
struct Connection {
    client: usize,
    remote: SocketAddr,
    /// Whether each side still has it; by [`Way`] as the side at its end.
    open: [bool; 2],
    /// When the last byte each way arrives: nothing overtakes it.
    last: [Instant; 2],
    /// What is on its way gets lost.
    broken: bool,
}

/// The net.
pub(crate) struct Net {
    dice: Dice,
    scenario: Scenario,
    /// Whether the scenario's faults are on.
    pub(crate) faulty: bool,
    /// Until when nothing passes to and from each client.
    silent_until: Vec<Instant>,
    /// How large the IP packets to and from a client may be, and until when.
    narrow: BTreeMap<usize, (usize, Instant)>,
    /// Where a client is, if it is not where it was first.
    hosts: BTreeMap<usize, [u8; 4]>,
    /// The address by which each socket of a client is seen.
    sockets: BTreeMap<(usize, u32), SocketAddr>,
    owners: BTreeMap<SocketAddr, (usize, u32)>,
    /// The address that each client had last.
    fixed: BTreeMap<usize, SocketAddr>,
    /// Addresses that clients left while nothing may be lost, each with the next one of that client.
    left: BTreeMap<SocketAddr, SocketAddr>,
    /// The addresses of such clients from which the server opened nothing yet, and whose they are.
    unheard: BTreeMap<SocketAddr, usize>,
    connections: BTreeMap<u32, Connection>,
    /// The last datagrams that arrived.
    seen: VecDeque<Transit>,
    next_number: u32,
    next_port: u16,
}

impl Net {
    pub(crate) fn new(scenario: &Scenario, dice: Dice) -> Self {
        Net {
            dice,
            scenario: scenario.clone(),
            faulty: false,
            silent_until: vec![Instant::ORIGIN; scenario.clients],
            narrow: BTreeMap::new(),
            hosts: BTreeMap::new(),
            sockets: BTreeMap::new(),
            owners: BTreeMap::new(),
            fixed: BTreeMap::new(),
            left: BTreeMap::new(),
            unheard: BTreeMap::new(),
            connections: BTreeMap::new(),
            seen: VecDeque::new(),
            next_number: 1,
            next_port: FIRST_PORT,
        }
    }

    /// Nothing passes to and from a client for a while.
    pub(crate) fn silence(&mut self, client: usize, until: Instant) {
        if let Some(silent) = self.silent_until.get_mut(client - 1) {
            *silent = until;
        }
    }

    /// Only small packets pass to and from a client for a while.
    pub(crate) fn narrow(&mut self, client: usize, mtu: usize, until: Instant) {
        self.narrow.insert(client, (mtu, until));
    }

    /// Whether a datagram of that length fits through the way to and from a client.
    fn fits(&self, now: Instant, client: usize, len: usize) -> bool {
        let narrow = self.narrow.get(&client).filter(|(_, until)| self.faulty && now < *until);
        let mtu = narrow.map_or(usize::MAX, |(mtu, _)| *mtu).min(self.scenario.mtu);
        len + UDP_HEADERS <= mtu
    }

    /// A datagram arrived.
    pub(crate) fn remember(&mut self, transit: &Transit) {
        if self.scenario.attack_every.is_none() {
            return;
        }
        if self.seen.len() == MEMORY {
            // Control packets are rare among data, and more interesting: some stay.
            let at = self.dice.below(MEMORY as u64) as usize;
            self.seen.remove(at);
        }
        self.seen.push_back(transit.clone());
    }

    /// One of the datagrams that arrived.
    pub(crate) fn seen(&self, dice: &mut Dice) -> Option<Transit> {
        self.seen.get(dice.below(self.seen.len() as u64) as usize).cloned()
    }

    /// The address by which a new socket of that client is seen.
    fn socket_address(&mut self, client: usize) -> SocketAddr {
        match self.fixed.get(&client) {
            Some(address) if self.scenario.fixed_port => *address,
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

    /// The client's newest socket, if `known` is its address, gets another address. What is sent to the old one still
    /// arrives if it was sent before the server opened something from the new one; after that it is lost.
    pub(crate) fn roam(&mut self, client: usize, known: SocketAddr) -> Option<SocketAddr> {
        let newest = self.sockets.iter().rfind(|((owner, _), _)| *owner == client);
        let (socket, old) = newest.map(|(socket, address)| (*socket, *address))?;
        if old != known || self.unheard.contains_key(&old) {
            return None;
        }
        let address = self.fresh_address(client);
        self.fixed.insert(client, address);
        self.sockets.insert(socket, address);
        self.owners.insert(address, socket);
        self.left.insert(old, address);
        self.unheard.insert(address, client);
        Some(address)
    }

    /// The client that moved to that address by [`Net::roam`], if the server opened nothing from there yet.
    pub(crate) fn roamed(&self, from: SocketAddr) -> Option<usize> {
        self.unheard.get(&from).copied()
    }

    /// The server opened something from there.
    pub(crate) fn heard_from(&mut self, address: SocketAddr) {
        self.unheard.remove(&address);
    }

    /// Whether the server knows that a client is not at that address any more.
    fn is_left(&self, address: SocketAddr) -> bool {
        self.left.get(&address).is_some_and(|next| !self.unheard.contains_key(next))
    }

    /// A client is somewhere else: its sockets get other addresses, and its connections are dead.
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

    /// The client's path of a datagram that arrives at `address`, and whose it is.
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
        self.connection_end(connection.0, Way::ToServer).is_some()
    }

    /// Who is at the end of that connection, by which path; `None` if that side does not have it any more.
    pub(crate) fn connection_end(&self, number: u32, way: Way) -> Option<(usize, Path)> {
        let found = self.connections.get(&number).filter(|found| found.open[way as usize])?;
        let connection = ConnectionId(number);
        Some(match way {
            Way::ToServer => (crate::model::SERVER, Path::Tcp { connection, remote: found.remote }),
            Way::ToClient => (found.client, Path::Tcp { connection, remote: SERVER_ADDRESS }),
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
            Path::Udp { remote, .. } if end == crate::model::SERVER => {
                if self.is_left(remote) {
                    return Vec::new();
                }
                let client = self.owners.get(&remote).map_or(0, |(client, _)| *client);
                if !self.fits(now, client, datagram.len()) {
                    return Vec::new();
                }
                let copies = self.fate(now, client, Way::ToClient, datagram);
                let transit = |(at, datagram)| (at, Transit::ToClient { to: remote, datagram });
                copies.into_iter().map(transit).collect()
            }
            Path::Udp { socket, .. } => {
                let Some(from) = self.sockets.get(&(end, socket)).copied() else { return Vec::new() };
                if !self.fits(now, end, datagram.len()) {
                    return Vec::new();
                }
                let copies = self.fate(now, end, Way::ToServer, datagram);
                let transit = |(at, datagram)| (at, Transit::ToServer { from, datagram });
                copies.into_iter().map(transit).collect()
            }
        }
    }

    fn delay(&mut self) -> Duration {
        self.scenario.delay + self.dice.millis(0, self.scenario.jitter.as_millis() as u64)
    }

    /// When a datagram arrives, and as what: never, once, or twice.
    fn fate(&mut self, now: Instant, client: usize, way: Way, datagram: &[u8]) -> Vec<(Instant, Vec<u8>)> {
        let faults = match self.scenario.faults.get(client.wrapping_sub(1)) {
            Some(faults) if self.faulty => faults[way as usize],
            _ => return vec![(now + self.delay(), datagram.to_vec())],
        };
        let silent = self.silent_until.get(client - 1).is_some_and(|until| now < *until);
        if silent || self.dice.chance(faults.loss) {
            return Vec::new();
        }
        let copies = 1 + usize::from(self.dice.chance(faults.duplication));
        let mut arrivals = Vec::with_capacity(copies);
        for _ in 0..copies {
            let mut delay = self.delay();
            if self.dice.chance(faults.reordering) {
                delay += self.dice.millis(1, faults.hold.as_millis() as u64);
            }
            let mut bytes = datagram.to_vec();
            if self.dice.chance(faults.corruption) {
                self.flip_bits(&mut bytes);
            }
            arrivals.push((now + delay, bytes));
        }
        arrivals
    }

    fn flip_bits(&mut self, bytes: &mut Vec<u8>) {
        if self.dice.chance(100) {
            let keep = self.dice.below(bytes.len() as u64) as usize;
            bytes.truncate(keep);
            return;
        }
        for _ in 0..self.dice.between(1, 4) {
            // Headers are short, and the worse for it: half of all damage is done to them.
            let reach = if self.dice.chance(500) { bytes.len().min(40) } else { bytes.len() };
            let at = self.dice.below(reach as u64) as usize;
            let bit = self.dice.below(8);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
        }
    }

    fn send_record(
        &mut self,
        now: Instant,
        end: usize,
        number: u32,
        record: &[u8],
    ) -> Vec<(Instant, Transit)> {
        let way = if end == crate::model::SERVER { Way::ToClient } else { Way::ToServer };
        let own = if end == crate::model::SERVER { Way::ToServer } else { Way::ToClient };
        let mut delay = self.delay();
        let Some(connection) = self.connections.get_mut(&number) else { return Vec::new() };
        if !connection.open[own as usize] || connection.broken {
            return Vec::new();
        }
        let mut at = now;
        if self.faulty {
            let client = connection.client - 1;
            let loss = self.scenario.faults.get(client).map_or(0, |faults| faults[way as usize].loss);
            if self.dice.chance(loss) {
                delay += self.dice.millis(200, 3000);
            }
            at = at.max(self.silent_until.get(client).copied().unwrap_or(now));
        }
        let at = (at + delay).max(connection.last[way as usize]);
        connection.last[way as usize] = at;
        let mut bytes = (record.len() as u16).to_be_bytes().to_vec();
        bytes.extend_from_slice(record);
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let cut = if self.dice.chance(300) {
                self.dice.between(1, bytes.len() as u64) as usize
            } else {
                bytes.len()
            };
            let rest = bytes.split_off(cut);
            pieces.push((at, Transit::Stream { connection: number, way, bytes }));
            bytes = rest;
        }
        pieces
    }

    /// An end gave a path up: a socket is closed, or a connection, of which the other side hears.
    pub(crate) fn close(&mut self, now: Instant, end: usize, path: Path) -> Vec<(Instant, Transit)> {
        match path {
            Path::Udp { socket, .. } => {
                self.sockets.remove(&(end, socket));
                self.owners.retain(|_, owner| *owner != (end, socket));
                Vec::new()
            }
            Path::Tcp { connection, .. } => {
                let own = if end == crate::model::SERVER { Way::ToServer } else { Way::ToClient };
                self.close_side(now, connection.0, own)
            }
        }
    }

    fn close_side(&mut self, now: Instant, number: u32, own: Way) -> Vec<(Instant, Transit)> {
        let delay = self.delay();
        let other = match own {
            Way::ToServer => Way::ToClient,
            Way::ToClient => Way::ToServer,
        };
        let Some(connection) = self.connections.get_mut(&number) else { return Vec::new() };
        connection.open[own as usize] = false;
        if !connection.open[other as usize] {
            self.connections.remove(&number);
            return Vec::new();
        }
        let at = (now + delay).max(connection.last[other as usize]);
        vec![(at, Transit::Closed { connection: number, way: other, reason: "closed by the other end" })]
    }

    /// That side heard that the connection is closed.
    pub(crate) fn forget_side(&mut self, number: u32, way: Way) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.open[way as usize] = false;
            if connection.open == [false; 2] {
                self.connections.remove(&number);
            }
        }
    }

    /// All connections of a client break: what is under way is lost; each side hears of it sooner or later,
    /// or finds out by itself.
    pub(crate) fn break_connections(&mut self, now: Instant, client: usize) -> Vec<(Instant, Transit)> {
        let mut news = Vec::new();
        for (number, connection) in &mut self.connections {
            if connection.client != client || connection.broken {
                continue;
            }
            connection.broken = true;
            for way in [Way::ToServer, Way::ToClient] {
                if self.dice.chance(700) {
                    let at = now + self.dice.millis(0, 5000);
                    let reason = "the connection was reset";
                    news.push((at, Transit::Closed { connection: *number, way, reason }));
                }
            }
        }
        news
    }

    /// An end's process is gone: the system closes what it had.
    pub(crate) fn crash(&mut self, now: Instant, end: usize) -> Vec<(Instant, Transit)> {
        if end != crate::model::SERVER {
            self.sockets.retain(|(owner, _), _| *owner != end);
            self.owners.retain(|_, (owner, _)| *owner != end);
        }
        let own = if end == crate::model::SERVER { Way::ToServer } else { Way::ToClient };
        let concerned = |connection: &Connection| {
            connection.open[own as usize] && (end == crate::model::SERVER || connection.client == end)
        };
        let numbers: Vec<u32> = self
            .connections
            .iter()
            .filter(|(_, connection)| concerned(connection))
            .map(|(number, _)| *number)
            .collect();
        numbers.into_iter().flat_map(|number| self.close_side(now, number, own)).collect()
    }

    /// Whether what arrives on that connection is lost.
    pub(crate) fn is_broken(&self, number: u32) -> bool {
        self.connections.get(&number).is_none_or(|connection| connection.broken)
    }
}
