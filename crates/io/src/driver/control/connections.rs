//! TCP connections: accepted or opened; and the end of paths.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use adit_core::{Command, ConnectionId, Instant, OpenFailure, Path, Preamble, Protocol, Severity};

use super::Control;
use super::undecided::Undecided;
use crate::clock;
use crate::config::StreamOptions;
use crate::driver::mail::DataMail;
use crate::driver::status::count;
use crate::poller::{Interest, Poller, Token};
use crate::tcp::Listener;
use crate::tls::TlsClient;

/// Connections accepted before the rest has its turn.
const ACCEPT_BATCH: usize = 16;
/// How long the preamble of a connection to a remote may take: an answer that was lost comes within two retransmissions of
/// TCP (RFC 6298).
const PREAMBLE_TIME: Duration = Duration::from_secs(10);

/// The connections of the endpoint, and its listeners.
pub(super) struct Connections {
    listeners: Vec<Listener>,
    /// Connections at a shared port that are not the protocol's yet.
    pub(super) undecided: Option<Undecided>,
    /// The system had no descriptor left for a connection; the listeners rest until the next tick.
    listeners_rest: bool,
    open: BTreeMap<ConnectionId, Path>,
    streams: StreamOptions,
    /// Connections to remotes whose preamble is not complete.
    preparing: BTreeMap<ConnectionId, Preparing>,
    /// How many there may be at once.
    most: usize,
}

/// A connection to a remote whose preamble is not complete.
#[derive(Clone, Copy)]
struct Preparing {
    remote: usize,
    /// When it must be complete.
    until: Instant,
}

/// How a new connection begins.
struct Beginning {
    tls: Option<TlsClient>,
    preamble: Option<Arc<dyn Preamble>>,
}

impl Connections {
    pub(super) fn new(
        listeners: Vec<Listener>,
        undecided: Option<Undecided>,
        streams: StreamOptions,
        most: usize,
    ) -> Self {
        let (open, preparing) = (BTreeMap::new(), BTreeMap::new());
        Connections { listeners, undecided, listeners_rest: true, open, streams, preparing, most }
    }

    /// Whether there are listeners.
    pub(super) fn listens(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// How many are open.
    pub(super) fn count(&self) -> usize {
        self.open.len()
    }

    /// How many there may be at once.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Whether there are as many as may be.
    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= self.most
    }

    /// The path of an open connection.
    pub(super) fn path(&self, connection: ConnectionId) -> Option<Path> {
        self.open.get(&connection).copied()
    }

    pub(super) fn watch_listeners(&mut self, poller: &Poller) -> io::Result<()> {
        for (number, listener) in (0..).zip(&self.listeners) {
            poller.add(listener, Token::Listener(number), Interest::Read)?;
        }
        self.listeners_rest = false;
        Ok(())
    }

    /// Has listeners that rest accept again. If the system refuses once more, they rest until the next call.
    pub(super) fn end_rest(&mut self, poller: &Poller) {
        if self.listeners_rest {
            let _ = self.watch_listeners(poller);
        }
    }

    fn rest_listeners(&mut self, poller: &Poller) {
        self.listeners.iter().for_each(|listener| poller.remove(listener));
        self.listeners_rest = true;
    }

    fn accept(&self, number: u32) -> Option<io::Result<(TcpStream, SocketAddr)>> {
        let index = usize::try_from(number).ok()?;
        Some(self.listeners.get(index)?.accept())
    }
}

impl<P: Protocol> Control<'_, P> {
    fn add_connection(&mut self, stream: TcpStream, remote: SocketAddr, beginning: Beginning) -> Path {
        let membership = self.workers.membership();
        let (endpoint, connection) = (membership.id, ConnectionId(membership.device.next_connection()));
        let path = Path::Tcp { connection, remote };
        self.connections.open.insert(connection, path);
        let Beginning { tls, preamble } = beginning;
        let mail = DataMail::AddConnection { endpoint, connection, stream, path, tls, preamble };
        self.workers.post_first(mail);
        self.workers.wake();
        path
    }

    /// Takes a connection to a remote. The protocol gets the command at once, or when its preamble is
    /// complete.
    pub(super) fn connected(&mut self, now: Instant, remote: usize, stream: TcpStream, address: SocketAddr) {
        let streams = &self.connections.streams;
        let preamble = streams.remotes.get(&remote).map(Arc::clone);
        let is_prepared = preamble.is_none();
        let tls = streams.tls.get(&remote).cloned();
        let path = self.add_connection(stream, address, Beginning { tls, preamble });
        match path {
            Path::Tcp { connection, .. } if !is_prepared => {
                let preparing = Preparing { remote, until: now + PREAMBLE_TIME };
                self.connections.preparing.insert(connection, preparing);
            }
            path => self.protocol.handle_command(now, Command::Opened { path }),
        }
    }

    /// The preamble of a connection is complete.
    pub(super) fn prepared(&mut self, now: Instant, connection: ConnectionId) {
        let Some(path) = self.connections.path(connection) else { return };
        let remote = self.connections.preparing.remove(&connection).map(|preparing| preparing.remote);
        self.protocol.handle_command(now, Command::Prepared { path, remote });
    }

    /// Closes the connections to remotes whose preamble takes too long. Called once a second.
    pub(super) fn close_unprepared(&mut self, now: Instant) {
        let late = self.connections.preparing.iter().filter(|(_, preparing)| preparing.until <= now);
        let late: Vec<ConnectionId> = late.map(|(connection, _)| *connection).collect();
        for connection in late {
            let seconds = PREAMBLE_TIME.as_secs();
            self.broken(
                now,
                connection,
                format!("no answer to what the connection begins with within {seconds} s"),
            );
            self.pump();
        }
    }

    /// The protocol has one more connection of a listener.
    pub(super) fn begin_connection(&mut self, stream: TcpStream, remote: SocketAddr) {
        let preamble = self.connections.streams.accepted.clone();
        let path = self.add_connection(stream, remote, Beginning { tls: None, preamble });
        self.protocol.handle_command(clock(), Command::Opened { path });
        self.pump();
    }

    /// The protocol uses the path no more.
    pub(super) fn close(&mut self, path: Path) {
        match path {
            Path::Tcp { connection, .. } => self.forget(connection),
            Path::Udp { socket, .. } | Path::Ip { socket, .. } => {
                if !self.sockets.is_listening(socket) {
                    self.remove_sockets(socket);
                }
            }
        }
    }

    pub(super) fn forget(&mut self, connection: ConnectionId) {
        if self.connections.open.remove(&connection).is_some() {
            self.workers.post_first(DataMail::CloseConnection(connection));
        }
    }

    pub(super) fn broken(&mut self, now: Instant, connection: ConnectionId, reason: String) {
        let Some(path) = self.connections.path(connection) else { return };
        self.forget(connection);
        self.workers.wake();
        let command = match self.connections.preparing.remove(&connection) {
            Some(Preparing { remote, .. }) => {
                let failure = OpenFailure::Unreachable(format!("{}: {reason}", path.remote()));
                Command::OpenFailed { remote, failure }
            }
            None => Command::Closed { path, reason },
        };
        self.protocol.handle_command(now, command);
    }

    /// A client's protocol gets a command. A server's protocol has nothing to say of a connection before its first
    /// control packet, and the bytes after one may be as wrong.
    pub(super) fn not_framed(&mut self, now: Instant, connection: ConnectionId, why: String) {
        if let Some(path) = self.connections.path(connection)
            && self.connections.listens()
            && !self.connections.preparing.contains_key(&connection)
        {
            count(&self.losses.rejected);
            self.complain(now, path, format!("closed a connection: {why}"));
        }
        self.broken(now, connection, why);
    }

    pub(super) fn accept(&mut self, number: u32) {
        for _ in 0..ACCEPT_BATCH {
            let Some(accepted) = self.connections.accept(number) else { return };
            match accepted {
                // At a shared port it may be the other server's.
                Ok(_) if self.connections.undecided.is_none() && self.connections.is_full() => {
                    count(&self.losses.connections_refused)
                }
                Ok((stream, remote)) => {
                    if let Some(stream) = self.let_wait(stream, remote) {
                        self.begin_connection(stream, remote);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_of_the_peer(&error) => {}
                Err(error) => {
                    self.connections.rest_listeners(&self.poller);
                    let text = format!("cannot accept TCP connections for a moment: {error}");
                    return self.report(Severity::Warning, None, text);
                }
            }
        }
    }
}

/// The connection failed before it was accepted, or a signal came; the listener is well.
fn is_of_the_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
    )
}
