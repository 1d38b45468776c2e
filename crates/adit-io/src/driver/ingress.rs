//! The thread that takes datagrams from the network to the TUN device.

use std::collections::BTreeMap;
use std::io::{self, IoSlice, Read};
use std::net::TcpStream;
use std::sync::Arc;

use adit_core::{ConnectionId, Notice, Path};
use adit_dataplane::{Inbox, Ingress, MergePolicy, TunPacket};

use super::mail::{EgressMail, IngressMail, Mail};
use super::status::{LossCounters, count};
use crate::mailbox::{MailReceiver, Mailbox};
use crate::poller::{Interest, Poller, Token};
use crate::tun::Tun;
use crate::udp::{Gathered, RECEIVE_BUFFER, UdpSocket};

/// Receives from one socket before the others have their turn.
const RECEIVE_BATCH: usize = 16;
/// Room for the rest of one record and another read of 64 KiB.
const STREAM_BUFFER: usize = 2 * 65_538;
/// Mails to the control thread that may wait before control datagrams are dropped.
const CONTROL_LIMIT: usize = 1024;
/// The same for messages in the data channel, which only authenticated peers send.
const NOTICE_LIMIT: usize = 4096;
/// Packets between clients that may wait for the egress thread.
const RELAY_LIMIT: usize = 1024;
/// Pieces of one packet that are gathered without an allocation.
const PIECES: usize = 80;

struct Connection {
    stream: Arc<TcpStream>,
    path: Path,
    /// The start of a record whose end has not come yet.
    partial: Vec<u8>,
}

/// State of the ingress thread.
pub(crate) struct IngressLoop {
    pub(crate) tun: Arc<Tun>,
    pub(crate) ingress: Ingress,
    pub(crate) mail: MailReceiver<IngressMail>,
    pub(crate) control: Mailbox<Mail>,
    pub(crate) egress: Mailbox<EgressMail>,
    pub(crate) losses: Arc<LossCounters>,
    /// What the TUN device takes merged.
    pub(crate) merge: MergePolicy,
}

struct Running {
    parts: IngressLoop,
    poller: Poller,
    inbox: Inbox,
    gathered: Gathered,
    sockets: BTreeMap<u32, Arc<UdpSocket>>,
    connections: BTreeMap<ConnectionId, Connection>,
    stopped: bool,
}

impl IngressLoop {
    /// Runs until told to stop. An error is a sentence.
    pub(crate) fn run(self) -> Result<(), String> {
        let poller = Poller::new().map_err(|error| format!("cannot create an epoll set: {error}"))?;
        poller
            .add(&self.mail, Token::Mail, Interest::Read)
            .map_err(|error| format!("cannot wait for orders: {error}"))?;
        let running = Running {
            poller,
            inbox: Inbox::new(self.merge),
            gathered: Gathered::default(),
            parts: self,
            sockets: BTreeMap::new(),
            connections: BTreeMap::new(),
            stopped: false,
        };
        running.run()
    }
}

impl Running {
    fn run(mut self) -> Result<(), String> {
        let mut ready = Vec::new();
        let mut buffer = vec![0; STREAM_BUFFER.max(RECEIVE_BUFFER)];
        while !self.stopped {
            self.poller.wait(None, &mut ready).map_err(|error| format!("cannot wait for events: {error}"))?;
            for token in &ready {
                match token {
                    Token::Mail => {
                        self.parts.mail.acknowledge();
                        self.take_mail()?;
                    }
                    Token::Udp(number) => self.receive_datagrams(*number, &mut buffer)?,
                    Token::Tcp(number) => self.receive_stream(ConnectionId(*number), &mut buffer)?,
                    Token::Tun | Token::Listener(_) => {}
                }
            }
        }
        Ok(())
    }

    fn take_mail(&mut self) -> Result<(), String> {
        while let Some(mail) = self.parts.mail.take() {
            match mail {
                IngressMail::Event(event) => self.parts.ingress.apply(event),
                IngressMail::AddSocket(number, socket) => {
                    self.poller
                        .add(&*socket, Token::Udp(number), Interest::Read)
                        .map_err(|error| format!("cannot wait for a UDP socket: {error}"))?;
                    self.sockets.insert(number, socket);
                }
                IngressMail::RemoveSocket(number) => {
                    if let Some(socket) = self.sockets.remove(&number) {
                        self.poller.remove(&*socket);
                    }
                }
                IngressMail::AddConnection { connection, stream, path } => {
                    self.poller
                        .add(&*stream, Token::Tcp(connection.0), Interest::Read)
                        .map_err(|error| format!("cannot wait for a TCP connection: {error}"))?;
                    self.connections.insert(connection, Connection { stream, path, partial: Vec::new() });
                }
                IngressMail::RemoveConnection(id) => self.forget(id),
                IngressMail::Stop => self.stopped = true,
            }
        }
        Ok(())
    }

    fn forget(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(&id) {
            self.poller.remove(&*connection.stream);
        }
    }

    fn receive_datagrams(&mut self, number: u32, buffer: &mut [u8]) -> Result<(), String> {
        let Some(socket) = self.sockets.get(&number).map(Arc::clone) else { return Ok(()) };
        for _ in 0..RECEIVE_BATCH {
            let more = match socket.receive(buffer, &mut self.gathered) {
                Ok(more) => more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // ICMP's word on an earlier send, or a signal: nothing was received.
                Err(_) => continue,
            };
            // Keys that were ready when these datagrams came must be known when they are opened.
            self.take_mail()?;
            for message in self.gathered.messages() {
                if message.truncated {
                    count(&self.parts.losses.udp_truncated);
                    continue;
                }
                let path = Path::Udp { socket: number, remote: message.from };
                let Some(bytes) = buffer.get_mut(message.at..message.at + message.len) else { continue };
                self.inbox.set_base(message.at);
                self.parts.ingress.open_datagrams(path, bytes, message.segment, &mut self.inbox);
            }
            self.inbox.set_base(0);
            self.deliver(buffer);
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn receive_stream(&mut self, id: ConnectionId, buffer: &mut [u8]) -> Result<(), String> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let kept = connection.partial.len();
        let Some((front, rest)) = buffer.split_at_mut_checked(kept) else { return Ok(()) };
        let count = match (&*connection.stream).read(rest) {
            Ok(0) => return self.break_off(id, "the other end closed the connection".to_owned()),
            Ok(count) => count,
            Err(error) if is_transient(&error) => return Ok(()),
            Err(error) => return self.break_off(id, format!("cannot read: {error}")),
        };
        front.copy_from_slice(&connection.partial);
        let path = connection.path;
        self.take_mail()?;
        let Some(bytes) = buffer.get_mut(..kept + count) else { return Ok(()) };
        let result = self.parts.ingress.open_stream(path, bytes, &mut self.inbox);
        self.deliver(bytes);
        match result {
            Ok(consumed) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.partial.clear();
                    connection.partial.extend_from_slice(bytes.get(consumed..).unwrap_or_default());
                }
                Ok(())
            }
            Err(error) => self.break_off(id, error.to_string()),
        }
    }

    fn break_off(&mut self, connection: ConnectionId, reason: String) -> Result<(), String> {
        self.forget(connection);
        self.parts.control.post(Mail::Broken { connection, reason });
        self.parts.control.wake();
        Ok(())
    }

    /// Hands out what was opened, and empties the inbox.
    fn deliver(&mut self, bytes: &[u8]) {
        for packet in self.inbox.packets() {
            if write_packet(&self.parts.tun, &packet, bytes).is_err() {
                count(&self.parts.losses.tun_write);
            }
        }
        let mut wake_egress = false;
        for range in self.inbox.relay() {
            let Some(packet) = bytes.get(range.clone()) else { continue };
            match self.parts.egress.offer(EgressMail::Relay(packet.to_vec()), RELAY_LIMIT) {
                true => wake_egress = true,
                false => count(&self.parts.losses.relay_full),
            }
        }
        let mut wake_control = false;
        for (path, range) in self.inbox.control() {
            let Some(datagram) = bytes.get(range.clone()) else { continue };
            let mail = Mail::Datagram { path: *path, bytes: datagram.to_vec() };
            match self.parts.control.offer(mail, CONTROL_LIMIT) {
                true => wake_control = true,
                false => count(&self.parts.losses.control_full),
            }
        }
        for notice in self.inbox.notices().drain(..) {
            // A peer can make any number of messages, but of the others at most one a session or change.
            let limit = if matches!(notice, Notice::Message { .. }) { NOTICE_LIMIT } else { usize::MAX };
            match self.parts.control.offer(Mail::Notice(notice), limit) {
                true => wake_control = true,
                false => count(&self.parts.losses.notices_full),
            }
        }
        self.inbox.clear();
        if wake_egress {
            self.parts.egress.wake();
        }
        if wake_control {
            self.parts.control.wake();
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// One write of a header and the pieces of a packet.
fn write_packet(tun: &Tun, packet: &TunPacket<'_>, bytes: &[u8]) -> io::Result<()> {
    let mut slices = std::iter::once(&packet.header()[..])
        .chain(packet.pieces().filter_map(|piece| bytes.get(piece)))
        .map(IoSlice::new);
    let mut few = [IoSlice::new(&[]); PIECES];
    let mut used = 0;
    for place in &mut few {
        let Some(slice) = slices.next() else { break };
        *place = slice;
        used += 1;
    }
    match slices.next() {
        None => tun.write(few.get(..used).unwrap_or_default())?,
        Some(next) => {
            let all: Vec<IoSlice<'_>> = few.into_iter().chain([next]).chain(slices).collect();
            tun.write(&all)?
        }
    };
    Ok(())
}
