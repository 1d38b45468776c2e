//! Connections at a shared TCP port of which it is not known yet whether they are of the protocol.
//!
//! Their first bytes are read without being taken from the socket: the protocol, or the other server, gets them too.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use adit_core::{Instant, PrefixShares, PrefixTable, Protocol, Severity, TableUsage};
use adit_dataplane::codec::Demultiplexer;

use super::Control;
use super::datagrams::COMPLAIN_EVERY;
use crate::clock;
use crate::driver::status::count;
use crate::helper_channels::ForwardChannel;
use crate::poller::{Interest, Token};
use crate::port_share::Forwarder;

/// Connections that have not sent enough: of one IPv4 address or IPv6 /64, and in all. Where a reverse proxy is before this
/// port, all are of its address, and browsers open some before they have a request.
const SHARES: PrefixShares = PrefixShares::new(256, 1024);
/// How long a connection may take to send enough.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The number of bytes that decide ([`Demultiplexer::begins_stream`]).
const DECIDING: usize = 3;

/// The forwarder of connections that are not of the protocol.
pub(crate) enum Sharing {
    /// A thread of this process.
    Own(Forwarder),
    /// The helper.
    Helper(Box<dyn ForwardChannel>),
}

/// The connections that have not sent enough.
pub(crate) struct Undecided {
    sharing: Sharing,
    demultiplexer: Arc<dyn Demultiplexer>,
    waiting: PrefixTable<u32, Waiting>,
    next: u32,
    next_complaint: Instant,
}

struct Waiting {
    stream: TcpStream,
    source: SocketAddr,
    until: Instant,
}

impl Undecided {
    pub(super) fn new(sharing: Sharing, demultiplexer: Arc<dyn Demultiplexer>) -> Self {
        let waiting = PrefixTable::new("undecided connections", SHARES);
        Undecided { sharing, demultiplexer, waiting, next: 0, next_complaint: clock() }
    }

    /// How full their table is.
    pub(super) fn usage(&self) -> TableUsage {
        self.waiting.usage()
    }
}

impl<P: Protocol> Control<'_, P> {
    /// Takes a connection that was accepted, if the port is shared; else gives it back.
    pub(super) fn let_wait(&mut self, stream: TcpStream, source: SocketAddr) -> Option<TcpStream> {
        let Some(undecided) = &mut self.connections.undecided else { return Some(stream) };
        let number = undecided.next;
        undecided.next = undecided.next.wrapping_add(1);
        // The socket is readable when there is enough to decide, or no more will come.
        let waits = adit_sys::set_option(
            stream.as_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            DECIDING as libc::c_int,
        );
        let token = Token::Undecided(number);
        if waits.and_then(|()| self.poller.add(&stream, token, Interest::Read)).is_ok() {
            let waiting = Waiting { stream, source, until: clock() + TIMEOUT };
            // One that made room is closed.
            drop(undecided.waiting.insert(source.ip(), number, (), waiting));
        } else {
            undecided.waiting.count_refusal();
            count(&self.losses.connections_refused);
        }
        None
    }

    /// Decides about a connection that has sent enough, or has ended.
    pub(super) fn decide(&mut self, number: u32) {
        let Some(undecided) = &mut self.connections.undecided else { return };
        let Some(Waiting { stream, source, .. }) = undecided.waiting.remove(&number) else { return };
        self.poller.remove(&stream);
        let mut first = [0; DECIDING];
        let peeked = match stream.peek(&mut first) {
            Ok(0) | Err(_) => return,
            Ok(peeked) => peeked,
        };
        if adit_sys::set_option(stream.as_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, 1).is_err() {
            return;
        }
        let first = first.get(..peeked).unwrap_or_default();
        if undecided.demultiplexer.begins_stream(first) {
            // Others may have come since this one was accepted.
            if self.connections.is_full() {
                return count(&self.losses.connections_refused);
            }
            self.begin_connection(stream, source);
        } else if let Err(error) = forward(&undecided.sharing, stream, source) {
            count(&self.losses.connections_refused);
            let now = clock();
            // Any sender can open such connections, so few of them are logged.
            if now >= undecided.next_complaint {
                undecided.next_complaint = now + COMPLAIN_EVERY;
                let text = format!("cannot forward a connection of {source}: {error}");
                self.report(Severity::Warning, None, text);
            }
        }
    }

    /// Closes connections that take too long. Called once a second.
    pub(super) fn end_undecided(&mut self, now: Instant) {
        let Some(undecided) = &mut self.connections.undecided else { return };
        while let Some((number, _)) = undecided.waiting.oldest().filter(|(_, waiting)| waiting.until <= now) {
            let number = *number;
            undecided.waiting.remove(&number);
        }
    }
}

fn forward(sharing: &Sharing, stream: TcpStream, source: SocketAddr) -> io::Result<()> {
    match sharing {
        Sharing::Own(forwarder) => forwarder.take(stream, source),
        Sharing::Helper(channel) => channel.forward(stream.as_fd(), source),
    }
}
