//! TCP connections: accepted or opened; and the end of paths.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use adit_core::{Command, ConnectionId, Instant, OpenFailure, Path, Preamble, Protocol, Severity};

use super::Control;
use crate::clock;
use crate::driver::mail::DataMail;
use crate::driver::status::count;
use crate::poller::{Interest, Token};
use crate::tls::TlsClient;

/// Connections accepted before the rest has its turn.
const ACCEPT_BATCH: usize = 16;
/// How long the preamble of a connection to a remote may take: an answer that was lost comes within two retransmissions of
/// TCP (RFC 6298).
const PREAMBLE_TIME: Duration = Duration::from_secs(10);

impl<P: Protocol> Control<'_, P> {
    pub(super) fn add_connection(
        &mut self,
        stream: TcpStream,
        remote: SocketAddr,
        (tls, preamble): (Option<TlsClient>, Option<Arc<dyn Preamble>>),
    ) -> Path {
        let membership = self.workers.membership();
        let (endpoint, connection) = (membership.id, ConnectionId(membership.device.next_connection()));
        let path = Path::Tcp { connection, remote };
        self.connections.insert(connection, path);
        let mail = DataMail::AddConnection { endpoint, connection, stream, path, tls, preamble };
        self.workers.post_first(mail);
        self.workers.wake();
        path
    }

    /// Takes a connection to a remote. The protocol hears of it at once, or when its preamble is complete.
    pub(super) fn connected(&mut self, now: Instant, remote: usize, stream: TcpStream, address: SocketAddr) {
        let preamble = self.streams.remotes.get(&remote).map(Arc::clone);
        let is_prepared = preamble.is_none();
        let tls = self.streams.tls.get(&remote).cloned();
        let path = self.add_connection(stream, address, (tls, preamble));
        match path {
            Path::Tcp { connection, .. } if !is_prepared => {
                self.preparing.insert(connection, (remote, now + PREAMBLE_TIME));
            }
            path => self.protocol.handle_command(now, Command::Opened { path }),
        }
    }

    /// The preamble of a connection is complete.
    pub(super) fn prepared(&mut self, now: Instant, connection: ConnectionId) {
        let Some(path) = self.connections.get(&connection).copied() else { return };
        let remote = self.preparing.remove(&connection).map(|(remote, _)| remote);
        self.protocol.handle_command(now, Command::Prepared { path, remote });
    }

    /// Closes the connections to remotes whose preamble takes too long. Called once a second.
    pub(super) fn close_unprepared(&mut self, now: Instant) {
        let late = self.preparing.iter().filter(|(_, (_, until))| *until <= now);
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
        let preamble = self.streams.accepted.clone();
        let path = self.add_connection(stream, remote, (None, preamble));
        self.protocol.handle_command(clock(), Command::Opened { path });
        self.pump();
    }

    /// The protocol uses the path no more.
    pub(super) fn close(&mut self, path: Path) {
        match path {
            Path::Udp { socket, .. } if self.is_listening(socket) => {}
            Path::Udp { socket, .. } => self.remove_sockets(socket),
            Path::Tcp { connection, .. } => self.forget(connection),
        }
    }

    pub(super) fn forget(&mut self, connection: ConnectionId) {
        if self.connections.remove(&connection).is_some() {
            self.workers.post_first(DataMail::CloseConnection(connection));
        }
    }

    pub(super) fn broken(&mut self, now: Instant, connection: ConnectionId, reason: String) {
        let Some(path) = self.connections.get(&connection).copied() else { return };
        self.forget(connection);
        self.workers.wake();
        let command = match self.preparing.remove(&connection) {
            Some((remote, _)) => {
                let failure = OpenFailure::Unreachable(format!("{}: {reason}", path.remote()));
                Command::OpenFailed { remote, failure }
            }
            None => Command::Closed { path, reason },
        };
        self.protocol.handle_command(now, command);
    }

    /// A client hears it by its protocol. A server's protocol has nothing to say of a connection before its first
    /// control packet, and what comes after one may be as wrong.
    pub(super) fn not_framed(&mut self, now: Instant, connection: ConnectionId, why: String) {
        if let Some(path) = self.connections.get(&connection).copied()
            && !self.listeners.is_empty()
            && !self.preparing.contains_key(&connection)
        {
            count(&self.losses.rejected);
            self.complain(now, path, format!("closed a connection: {why}"));
        }
        self.broken(now, connection, why);
    }

    pub(super) fn accept(&mut self, number: u32) {
        for _ in 0..ACCEPT_BATCH {
            let Some(listener) = usize::try_from(number).ok().and_then(|index| self.listeners.get(index))
            else {
                return;
            };
            match listener.accept() {
                // At a shared port it may be the other server's.
                Ok(_) if self.undecided.is_none() && self.connections.len() >= self.max_connections => {
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
                    self.rest_listeners();
                    let text = format!("cannot accept TCP connections for a moment: {error}");
                    return self.report(Severity::Warning, None, text);
                }
            }
        }
    }

    pub(super) fn watch_listeners(&mut self) -> io::Result<()> {
        for (number, listener) in (0..).zip(&self.listeners) {
            self.poller.add(listener, Token::Listener(number), Interest::Read)?;
        }
        self.listeners_rest = false;
        Ok(())
    }

    pub(super) fn rest_listeners(&mut self) {
        self.listeners.iter().for_each(|listener| self.poller.remove(listener));
        self.listeners_rest = true;
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
