//! The thread that takes packets from the TUN device to the network.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::iter;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use adit_core::{ConnectionId, Instant, Path};
use adit_dataplane::{Egress, Offload, Outbox, Train};

use super::mail::{EgressMail, Mail};
use super::status::{LossCounters, count};
use crate::clock;
use crate::mailbox::{MailReceiver, Mailbox};
use crate::poller::{Interest, Poller, Token};
use crate::tcp::{Taken, Writer};
use crate::tun::{READ_BUFFER, Tun};
use crate::udp::UdpSocket;

/// Packets read before the mailbox is looked at again.
const TUN_BATCH: usize = 64;
/// Bytes of packets after which the sealed datagrams are sent: about one full train.
const FLUSH_AT: usize = 48 * 1024;
/// Bytes that may wait for a connection before data records are dropped (server).
const QUEUE_LIMIT: usize = 256 * 1024;
/// Bytes that may wait for a connection before control records are dropped too.
const CONTROL_QUEUE_LIMIT: usize = 2 * QUEUE_LIMIT;
/// How long a closing connection may take to send what waits.
const CLOSE_PATIENCE: Duration = Duration::from_secs(3);
/// How long the connections may take to send what waits when the driver stops.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

struct Connection {
    writer: Writer,
    /// Registered with the poller: the socket is full.
    watched: bool,
    /// When it is closed even if something still waits.
    closing: Option<Instant>,
    broken: Option<io::Error>,
}

/// State of the egress thread.
pub(crate) struct EgressLoop {
    pub(crate) tun: Arc<Tun>,
    pub(crate) egress: Egress,
    pub(crate) mail: MailReceiver<EgressMail>,
    pub(crate) control: Mailbox<Mail>,
    pub(crate) losses: Arc<LossCounters>,
    /// A client leaves packets in the TUN device while its connection is full.
    pub(crate) back_pressure: bool,
}

struct Running {
    parts: EgressLoop,
    poller: Poller,
    outbox: Outbox,
    buffer: Vec<u8>,
    paths: Paths,
    tun_watched: bool,
}

/// The ways out.
struct Paths {
    sockets: BTreeMap<u32, Arc<UdpSocket>>,
    connections: BTreeMap<ConnectionId, Connection>,
    /// Connections with something that waits, that are closing, or that broke: those to look after.
    busy: BTreeSet<ConnectionId>,
}

impl EgressLoop {
    /// Runs until told to stop. An error is a sentence.
    pub(crate) fn run(self) -> Result<(), String> {
        let poller = Poller::new().map_err(|error| format!("cannot create an epoll set: {error}"))?;
        let watch = poller
            .add(&self.mail, Token::Mail, Interest::Read)
            .and_then(|()| poller.add(&*self.tun, Token::Tun, Interest::Read));
        watch.map_err(|error| format!("cannot wait for the TUN device: {error}"))?;
        let paths = Paths { sockets: BTreeMap::new(), connections: BTreeMap::new(), busy: BTreeSet::new() };
        let running = Running {
            parts: self,
            poller,
            outbox: Outbox::new(),
            buffer: vec![0; READ_BUFFER],
            paths,
            tun_watched: true,
        };
        running.run()
    }
}

impl Running {
    fn run(mut self) -> Result<(), String> {
        let mut ready = Vec::new();
        loop {
            let timeout = self.paths.closing().then_some(CLOSE_PATIENCE);
            self.poller
                .wait(timeout, &mut ready)
                .map_err(|error| format!("cannot wait for events: {error}"))?;
            let mut tun_ready = false;
            for token in &ready {
                match token {
                    Token::Mail => self.parts.mail.acknowledge(),
                    Token::Tun => tun_ready = true,
                    Token::Tcp(number) => self.paths.flush(ConnectionId(*number)),
                    Token::Udp(_) | Token::Listener(_) => {}
                }
            }
            let go_on = self.take_mail();
            if go_on && tun_ready && self.tun_watched {
                self.drain_tun()?;
            }
            self.settle();
            if !go_on {
                self.finish();
                return Ok(());
            }
        }
    }

    /// False when told to stop.
    fn take_mail(&mut self) -> bool {
        let mut go_on = true;
        while let Some(mail) = self.parts.mail.take() {
            match mail {
                EgressMail::Event(event) => {
                    self.parts.egress.apply(event, &mut self.outbox);
                    self.send();
                }
                EgressMail::Control { connection, datagram } => self.send_control(connection, &datagram),
                EgressMail::Relay(packet) => {
                    self.parts.egress.relay_packet(&packet, &mut self.outbox);
                    self.send();
                }
                EgressMail::AddSocket(number, socket) => {
                    self.paths.sockets.insert(number, socket);
                }
                EgressMail::RemoveSocket(number) => {
                    self.paths.sockets.remove(&number);
                }
                EgressMail::AddConnection(id, stream) => {
                    let writer = Writer::new(stream);
                    let connection = Connection { writer, watched: false, closing: None, broken: None };
                    self.paths.connections.insert(id, connection);
                }
                EgressMail::CloseConnection(id) => {
                    if let Some(connection) = self.paths.connections.get_mut(&id) {
                        connection.closing = Some(clock() + CLOSE_PATIENCE);
                        self.paths.busy.insert(id);
                    }
                }
                EgressMail::Stop => go_on = false,
            }
        }
        go_on
    }

    /// Reads what waits in the TUN device, up to a batch, and sends it sealed.
    fn drain_tun(&mut self) -> Result<(), String> {
        let mut unsent = 0;
        for _ in 0..TUN_BATCH {
            let length = match self.parts.tun.read(&mut self.buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let name = self.parts.tun.name();
                    return Err(format!("cannot read from {name}: {error}; was the device deleted?"));
                }
            };
            let Some((header, packet)) = self.buffer.get(..length).and_then(|b| b.split_first_chunk()) else {
                continue;
            };
            if let Some(offload) = Offload::from_vnet_header(header) {
                self.parts.egress.seal_packet(offload, packet, &mut self.outbox);
            }
            unsent += length;
            if unsent >= FLUSH_AT {
                unsent = 0;
                self.send();
                if self.parts.back_pressure && self.paths.full() {
                    break;
                }
            }
        }
        self.send();
        Ok(())
    }

    /// Sends what the data plane put into the outbox.
    fn send(&mut self) {
        // A client has stopped reading before its queue grows; what still comes is not dropped.
        let limit = if self.parts.back_pressure { usize::MAX } else { QUEUE_LIMIT };
        self.paths.send(self.outbox.iter(), limit, &self.parts.losses);
        self.outbox.clear();
        for notice in self.parts.egress.take_notices() {
            self.parts.control.post(Mail::Notice(notice));
            self.parts.control.wake();
        }
    }

    fn send_control(&mut self, connection: ConnectionId, datagram: &[u8]) {
        let Ok(length) = u16::try_from(datagram.len()) else {
            count(&self.parts.losses.no_path);
            return;
        };
        let mut record = Vec::with_capacity(2 + datagram.len());
        record.extend_from_slice(&length.to_be_bytes());
        record.extend_from_slice(datagram);
        self.paths.write(connection, &record, CONTROL_QUEUE_LIMIT, &self.parts.losses);
    }

    /// Looks after the busy connections and brings the poller's set in line with what waits.
    fn settle(&mut self) {
        for id in std::mem::take(&mut self.paths.busy) {
            self.settle_connection(id);
        }
        let watch = !(self.parts.back_pressure && self.paths.full());
        if watch == self.tun_watched {
            return;
        }
        if watch {
            self.tun_watched = self.poller.add(self.parts.tun.as_fd(), Token::Tun, Interest::Read).is_ok();
        } else {
            self.poller.remove(self.parts.tun.as_fd());
            self.tun_watched = false;
        }
    }

    fn settle_connection(&mut self, id: ConnectionId) {
        let Some(connection) = self.paths.connections.get_mut(&id) else { return };
        let full = connection.writer.waiting() > 0;
        let over = connection.closing.is_some_and(|deadline| !full || clock() >= deadline);
        if over || connection.broken.is_some() {
            self.poller.remove(&connection.writer);
            connection.writer.close();
            if let (Some(error), None) = (connection.broken.take(), connection.closing) {
                let reason = format!("cannot write: {error}");
                self.parts.control.post(Mail::Broken { connection: id, reason });
                self.parts.control.wake();
            }
            self.paths.connections.remove(&id);
            return;
        }
        if full && !connection.watched {
            connection.watched =
                self.poller.add(&connection.writer, Token::Tcp(id.0), Interest::Write).is_ok();
        } else if !full && connection.watched {
            self.poller.remove(&connection.writer);
            connection.watched = false;
        }
        if full || connection.closing.is_some() {
            self.paths.busy.insert(id);
        }
    }

    /// Gives the connections a moment to send what waits, then closes them.
    fn finish(mut self) {
        let deadline = clock() + STOP_PATIENCE;
        let mut ready = Vec::new();
        self.poller.remove(self.parts.tun.as_fd());
        while self.paths.full() && clock() < deadline {
            if self.poller.wait(Some(Duration::from_millis(50)), &mut ready).is_err() {
                break;
            }
            self.paths.busy.clone().into_iter().for_each(|id| self.paths.flush(id));
            self.settle();
        }
        self.paths.connections.values().for_each(|connection| connection.writer.close());
    }
}

impl Paths {
    fn busy(&self) -> impl Iterator<Item = &Connection> {
        self.busy.iter().filter_map(|id| self.connections.get(id))
    }

    /// Whether a connection has more to send than its socket takes.
    fn full(&self) -> bool {
        self.busy().any(|connection| connection.writer.waiting() > 0)
    }

    fn closing(&self) -> bool {
        self.busy().any(|connection| connection.closing.is_some())
    }

    /// Sends trains in order. Those in a row that leave by the same UDP socket go together.
    fn send<'a>(&mut self, trains: impl Iterator<Item = Train<'a>>, limit: usize, losses: &LossCounters) {
        let mut trains = trains.peekable();
        while let Some(train) = trains.next() {
            match train.path {
                Path::Udp { socket: number, .. } => match self.sockets.get(&number) {
                    Some(socket) => {
                        let others = iter::from_fn(|| trains.next_if(|next| is_by_socket(next, number)));
                        let refused = socket.send_trains(iter::once(train).chain(others));
                        losses.udp_send.fetch_add(refused, Ordering::Relaxed);
                    }
                    None => count(&losses.no_path),
                },
                Path::Tcp { connection, .. } => self.write(connection, train.bytes, limit, losses),
            }
        }
    }

    fn write(&mut self, id: ConnectionId, records: &[u8], limit: usize, losses: &LossCounters) {
        let Some(connection) = self.connections.get_mut(&id).filter(|found| found.broken.is_none()) else {
            return count(&losses.no_path);
        };
        match connection.writer.write(records, limit) {
            Ok(Taken::Yes) => {}
            Ok(Taken::Full) => count(&losses.tcp_full),
            Err(error) => connection.broken = Some(error),
        }
        if connection.broken.is_some() || connection.writer.waiting() > 0 {
            self.busy.insert(id);
        }
    }

    fn flush(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.broken = connection.writer.flush().err();
            self.busy.insert(id);
        }
    }
}

fn is_by_socket(train: &Train<'_>, number: u32) -> bool {
    matches!(train.path, Path::Udp { socket, .. } if socket == number)
}
