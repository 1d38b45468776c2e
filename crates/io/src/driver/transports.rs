//! The ways to the network: UDP sockets and TCP connections, and the queues for them.

mod connection;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::iter;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use adit_core::{ConnectionId, Instant, Path, Preamble, PreambleVerdict};
use adit_dataplane::GsoBatch;
use adit_dataplane::codec::Demultiplexer;
use adit_sys::LocalAddress;

use self::connection::Connection;
use super::forward::{Forward, OtherWorkers};
use super::ids::EndpointId;
use super::mail::Mail;
use super::members::Members;
use super::secondary_endpoints::SecondaryEndpoints;
use super::sources::{Source, Sources};
use super::status::{LossCounters, count};
use crate::clock;
use crate::clock::coarse_clock;
use crate::poller::{Interest, Poller, Token};
use crate::tcp::Taken;
use crate::tls::TlsClient;
use crate::udp::{Backlog, UdpSocket};

/// Bytes that may wait for a connection before data records are dropped (server).
pub(super) const QUEUE_LIMIT: usize = 256 * 1024;
/// Bytes that may wait for a connection before control records are dropped too.
const CONTROL_QUEUE_LIMIT: usize = 2 * QUEUE_LIMIT;
/// How long the number of a local address is remembered.
const REMEMBER: Duration = Duration::from_secs(1);
/// How long a closing connection may take to send its queue.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// A UDP socket, and the datagrams that wait until it has room again.
struct BufferedSocket {
    /// The endpoint that has bound it. `None`: it has ended, or is not known yet, and secondaries use the socket.
    primary: Option<EndpointId>,
    /// Tells apart the primary's datagrams. `None`: the data plane's own does.
    demultiplexer: Option<Arc<dyn Demultiplexer>>,
    socket: Arc<UdpSocket>,
    backlog: Backlog,
    /// The poller waits for room too.
    awaits_room: bool,
    /// Which of our addresses the last datagram came to, if the socket says so.
    last: Option<Last>,
}

/// A local address and its number.
struct Last {
    local: LocalAddress,
    /// Where the datagram arrived.
    device: u32,
    source: Source,
    /// When the number is looked up again, which keeps it in use.
    until: Instant,
}

/// A connection that failed, and why.
pub(super) struct Broken {
    pub(super) endpoint: EndpointId,
    pub(super) connection: ConnectionId,
    pub(super) reason: String,
}

/// The sockets and connections of a data thread.
pub(super) struct Transports {
    sockets: BTreeMap<u32, BufferedSocket>,
    /// Endpoints that use sockets of others.
    pub(super) secondaries: SecondaryEndpoints,
    sources: Arc<Sources>,
    /// Sockets with something that waits, or that had until now: those to look after.
    stalled: BTreeSet<u32>,
    connections: BTreeMap<ConnectionId, Connection>,
    /// Connections with something that waits, that are closing, or that broke: those to look after.
    busy: BTreeSet<ConnectionId>,
}

impl Transports {
    pub(super) fn new(sources: Arc<Sources>) -> Self {
        Transports {
            sockets: BTreeMap::new(),
            secondaries: SecondaryEndpoints::default(),
            sources,
            stalled: BTreeSet::new(),
            connections: BTreeMap::new(),
            busy: BTreeSet::new(),
        }
    }

    /// The number for the path of a datagram that came to that address at a socket, by the device with that index. The
    /// control thread learns of a new one before it gets anything with it.
    pub(super) fn arrived(
        &mut self,
        number: u32,
        (local, device): (LocalAddress, u32),
        members: &Members,
    ) -> u32 {
        let Some(entry) = self.sockets.get_mut(&number) else { return number };
        let now = coarse_clock();
        let is_same = |last: &&Last| last.local == local && last.device == device && now < last.until;
        if let Some(last) = entry.last.as_ref().filter(is_same) {
            last.source.restore();
            return last.source.number;
        }
        let primary = entry.primary;
        let source = self.sources.arrived(number, (local, device), now, |number, local| {
            primary
                .into_iter()
                .for_each(|primary| members.post(primary, Mail::AddressLearnt { number, local }));
        });
        source.restore();
        let found = source.number;
        entry.last = Some(Last { local, device, source, until: now + REMEMBER });
        found
    }

    /// The local addresses of a socket have no numbers any more.
    pub(super) fn forget_addresses(&self, number: u32) {
        drop(self.sources.remove_socket(number));
    }

    /// A path by the socket that a path is by.
    pub(super) fn socket_path(&self, path: &Path) -> Path {
        match path.socket().filter(|socket| !self.sockets.contains_key(socket)) {
            Some(address) => path.by_socket(self.sources.socket_of(address)),
            None => *path,
        }
    }

    /// Receives from a socket, if it is not received from already.
    pub(super) fn use_socket(
        &mut self,
        number: u32,
        socket: Arc<UdpSocket>,
        poller: &Poller,
    ) -> io::Result<()> {
        if self.sockets.contains_key(&number) {
            return Ok(());
        }
        poller.add(&*socket, Token::Udp(number), Interest::Read)?;
        let backlog = Backlog::default();
        let entry = BufferedSocket {
            primary: None,
            demultiplexer: None,
            socket,
            backlog,
            awaits_room: false,
            last: None,
        };
        self.sockets.insert(number, entry);
        Ok(())
    }

    /// Sets the endpoint that has bound a socket, and the demultiplexer of its datagrams there.
    pub(super) fn set_primary(
        &mut self,
        number: u32,
        primary: EndpointId,
        demultiplexer: Option<Arc<dyn Demultiplexer>>,
    ) {
        if let Some(entry) = self.sockets.get_mut(&number) {
            (entry.primary, entry.demultiplexer) = (Some(primary), demultiplexer);
        }
    }

    /// The endpoint that has bound a socket.
    pub(super) fn primary(&self, number: u32) -> Option<EndpointId> {
        self.sockets.get(&number)?.primary
    }

    /// The demultiplexer of a socket's primary endpoint. `None`: the data plane's demultiplexer is in use, or there is
    /// no primary endpoint.
    pub(super) fn demultiplexer(&self, number: u32) -> Option<Arc<dyn Demultiplexer>> {
        self.sockets.get(&number)?.demultiplexer.clone()
    }

    /// An endpoint uses a socket no more, which is closed when no other endpoint does.
    pub(super) fn leave(&mut self, number: u32, endpoint: EndpointId, poller: &Poller) {
        self.secondaries.remove(number, endpoint);
        let Some(entry) = self.sockets.get_mut(&number) else { return };
        if entry.primary == Some(endpoint) {
            (entry.primary, entry.demultiplexer) = (None, None);
        }
        if entry.primary.is_none() && self.secondaries.at(number).is_empty() {
            poller.remove(&*entry.socket);
            self.sockets.remove(&number);
            self.stalled.remove(&number);
        }
    }

    pub(super) fn socket(&self, number: u32) -> Option<Arc<UdpSocket>> {
        self.sockets.get(&number).map(|entry| Arc::clone(&entry.socket))
    }

    pub(super) fn add_connection(
        &mut self,
        (endpoint, id): (EndpointId, ConnectionId),
        stream: TcpStream,
        path: Path,
        poller: &Poller,
    ) -> io::Result<()> {
        let mut connection = Connection::new(endpoint, stream, path);
        connection.watch(id, poller)?;
        self.connections.insert(id, connection);
        Ok(())
    }

    /// All that passes on a new connection is within TLS.
    pub(super) fn begin_tls(&mut self, id: ConnectionId, client: &TlsClient) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.broken = connection.begin_tls(client).err();
            self.busy.insert(id);
        }
    }

    /// Something is said on a new connection before its records.
    pub(super) fn begin_preamble(
        &mut self,
        id: ConnectionId,
        preamble: Arc<dyn Preamble>,
        losses: &LossCounters,
    ) {
        let opening = preamble.opening();
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.preamble = Some(preamble);
        }
        if !opening.is_empty() {
            self.write(id, &opening, CONTROL_QUEUE_LIMIT, losses);
        }
    }

    /// Judges all that came on a connection whose preamble is not complete, and answers it. `None`: it has no preamble, or
    /// that was complete before.
    pub(super) fn judge_preamble(
        &mut self,
        id: ConnectionId,
        received: &[u8],
        losses: &LossCounters,
    ) -> Option<PreambleVerdict> {
        let connection = self.connections.get_mut(&id)?;
        let mut answer = Vec::new();
        let verdict = connection.preamble.as_ref()?.judge(received, &mut answer);
        if verdict != PreambleVerdict::Incomplete {
            connection.preamble = None;
        }
        if !answer.is_empty() {
            self.write(id, &answer, CONTROL_QUEUE_LIMIT, losses);
        }
        Some(verdict)
    }

    pub(super) fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.get_mut(&id)
    }

    /// Reads from a connection the bytes that are there; 0: the other end has closed it.
    pub(super) fn read(&mut self, id: ConnectionId, room: &mut [u8]) -> io::Result<usize> {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let result = connection.read(room);
        if connection.waiting() > 0 {
            self.busy.insert(id);
        }
        result
    }

    /// The endpoint that a control datagram is for, by its path; and by its first bytes where several use the socket.
    pub(super) fn endpoint_of(&self, path: &Path, datagram: &[u8]) -> Option<EndpointId> {
        match &self.socket_path(path) {
            Path::Udp { socket, .. } | Path::Ip { socket, .. } => {
                let secondary = self.secondaries.recognise(*socket, datagram);
                secondary.or_else(|| self.sockets.get(socket)?.primary)
            }
            Path::Tcp { connection, .. } => Some(self.connections.get(connection)?.endpoint),
        }
    }

    /// The sockets that the endpoint uses.
    pub(super) fn sockets_of(&self, endpoint: EndpointId) -> Vec<u32> {
        let own = self.sockets.iter().filter(|(_, entry)| entry.primary == Some(endpoint));
        own.map(|(number, _)| *number).chain(self.secondaries.sockets_of(endpoint)).collect()
    }

    /// The endpoint's connections.
    pub(super) fn connections_of(&self, endpoint: EndpointId) -> Vec<ConnectionId> {
        let own = self.connections.iter().filter(|(_, connection)| connection.endpoint == endpoint);
        own.map(|(id, _)| *id).collect()
    }

    /// Reads no more from a connection; its queue is still sent.
    pub(super) fn stop_reading(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.reading = false;
            connection.partial = Vec::new();
            self.busy.insert(id);
        }
    }

    /// Reads no more, and closes when the queue is sent or timeout ends.
    pub(super) fn close(&mut self, id: ConnectionId) {
        self.stop_reading(id);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.begin_to_close(clock() + CLOSE_TIMEOUT);
        }
    }

    /// Sends GSO batches in order; those in a row that leave by the same UDP socket go together. `limit` is how
    /// much may wait for a connection before data is dropped. Connections are the first worker's, which `others` knows.
    pub(super) fn send<'a>(
        &mut self,
        gso_batches: impl Iterator<Item = GsoBatch<'a>>,
        limit: usize,
        others: &mut OtherWorkers,
        losses: &LossCounters,
    ) {
        let mut gso_batches = gso_batches.peekable();
        while let Some(gso_batch) = gso_batches.next() {
            match gso_batch.path {
                Path::Udp { socket: by, .. } | Path::Ip { socket: by, .. } => {
                    let (number, source) = match self.sockets.contains_key(&by) {
                        true => (by, None),
                        false => self.sources.resolve(by, coarse_clock()).unwrap_or((by, None)),
                    };
                    let Some(BufferedSocket { socket, backlog, .. }) = self.sockets.get_mut(&number) else {
                        count(&losses.no_path);
                        continue;
                    };
                    let others = iter::from_fn(|| gso_batches.next_if(|next| is_by_socket(next, by)));
                    let all = iter::once(gso_batch).chain(others);
                    let refused = socket.send_gso_batches(source.as_ref(), all, backlog);
                    if !backlog.is_empty() {
                        self.stalled.insert(number);
                    }
                    losses.udp_send.fetch_add(refused, Ordering::Relaxed);
                }
                Path::Tcp { connection, .. } if others.has_connections() => {
                    self.write(connection, gso_batch.bytes, limit, losses);
                }
                Path::Tcp { connection, .. } => {
                    let bytes = gso_batch.bytes.to_vec();
                    others.forward(0, Forward::Records { connection, bytes }, losses);
                }
            }
        }
    }

    /// Sends the datagrams that wait for a socket, as far as it takes them.
    pub(super) fn flush_socket(&mut self, number: u32, losses: &LossCounters) {
        if let Some(BufferedSocket { socket, backlog, .. }) = self.sockets.get_mut(&number) {
            losses.udp_send.fetch_add(backlog.flush(socket), Ordering::Relaxed);
        }
    }

    /// Whether a UDP socket has more to send than its buffer takes.
    pub(super) fn stalled(&self) -> bool {
        let mut stalled = self.stalled.iter().filter_map(|number| self.sockets.get(number));
        stalled.any(|entry| !entry.backlog.is_empty())
    }

    /// Sends a control datagram on a connection, as a record.
    pub(super) fn send_control(&mut self, connection: ConnectionId, datagram: &[u8], losses: &LossCounters) {
        let Ok(length) = u16::try_from(datagram.len()) else { return count(&losses.no_path) };
        let mut record = Vec::with_capacity(2 + datagram.len());
        record.extend_from_slice(&length.to_be_bytes());
        record.extend_from_slice(datagram);
        self.write(connection, &record, CONTROL_QUEUE_LIMIT, losses);
    }

    /// Writes records to a connection, if no more than `limit` bytes wait for it.
    pub(super) fn write(&mut self, id: ConnectionId, records: &[u8], limit: usize, losses: &LossCounters) {
        let Some(connection) = self.connections.get_mut(&id).filter(|found| found.broken.is_none()) else {
            return count(&losses.no_path);
        };
        match connection.write(records, limit) {
            Ok(Taken::Yes) => {}
            Ok(Taken::Full) => count(&losses.tcp_full),
            Err(error) => connection.broken = Some(error),
        }
        if connection.broken.is_some() || connection.waiting() > 0 {
            self.busy.insert(id);
        }
    }

    /// Writes the queue of a connection, as far as its socket takes it.
    pub(super) fn flush(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.broken = connection.flush().err();
            self.busy.insert(id);
        }
    }

    /// Writes the queues of all connections that have one.
    pub(super) fn flush_all(&mut self) {
        self.busy.clone().into_iter().for_each(|id| self.flush(id));
    }

    fn busy(&self) -> impl Iterator<Item = &Connection> {
        self.busy.iter().filter_map(|id| self.connections.get(id))
    }

    /// Whether a connection has more to send than its socket takes.
    pub(super) fn full(&self) -> bool {
        self.busy().any(|connection| connection.waiting() > 0)
    }

    /// Whether a connection waits to be closed.
    pub(super) fn closing(&self) -> bool {
        self.busy().any(|connection| connection.closing.is_some())
    }

    /// Looks after the stalled sockets and the busy connections, and brings the poller's set in line with the queues.
    /// Gives the connections that broke.
    pub(super) fn settle(&mut self, poller: &Poller) -> Vec<Broken> {
        let sockets = &mut self.sockets;
        self.stalled.retain(|number| {
            sockets.get_mut(number).is_some_and(|entry| {
                let wanted = !entry.backlog.is_empty();
                if wanted != entry.awaits_room {
                    let interest = if wanted { Interest::Both } else { Interest::Read };
                    let changed = poller.change(&*entry.socket, Token::Udp(*number), interest);
                    entry.awaits_room = if changed.is_ok() { wanted } else { entry.awaits_room };
                }
                entry.awaits_room || wanted
            })
        });
        std::mem::take(&mut self.busy).into_iter().filter_map(|id| self.settle_one(id, poller)).collect()
    }

    fn settle_one(&mut self, id: ConnectionId, poller: &Poller) -> Option<Broken> {
        let connection = self.connections.get_mut(&id)?;
        let full = connection.waiting() > 0;
        let over = connection.closing.is_some_and(|deadline| !full || clock() >= deadline);
        if !over && connection.broken.is_none() {
            connection.broken = connection.watch(id, poller).err();
        }
        if over || connection.broken.is_some() {
            let mut connection = self.connections.remove(&id)?;
            poller.remove(&*connection.stream);
            connection.shut_down();
            let error = connection.broken.take()?;
            // Nothing more is reported about a connection that is closing.
            let told = connection.closing.is_some();
            let endpoint = connection.endpoint;
            return (!told).then(|| Broken {
                endpoint,
                connection: id,
                reason: format!("cannot write: {error}"),
            });
        }
        if full || connection.closing.is_some() {
            self.busy.insert(id);
        }
        None
    }

    /// Closes all connections at once.
    pub(super) fn close_all(&self) {
        self.connections.values().for_each(Connection::shut_down);
    }
}

fn is_by_socket(gso_batch: &GsoBatch<'_>, number: u32) -> bool {
    gso_batch.path.socket() == Some(number)
}
