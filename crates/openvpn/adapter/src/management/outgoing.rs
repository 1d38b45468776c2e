//! `management-client`: the connection to a program that listens, in place of a socket of ours.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use adit_openvpn_config::ManagementAddress;

use super::listener::Listener;

/// The connection that was made.
pub(super) enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection that is taken once, as a listening socket gives a client.
pub(super) struct Outgoing {
    connection: RefCell<Option<Connection>>,
    /// Readable as long as the connection was not taken.
    ready: UnixStream,
    /// Kept open for `ready`.
    _other: UnixStream,
    place: String,
}

/// Connects to the program.
///
/// # Errors
/// Why that cannot be.
pub(super) fn connect_to(address: &ManagementAddress) -> Result<Listener, String> {
    let (place, connection) = match address {
        ManagementAddress::Tcp(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port));
            (format!("TCP {host}:{port}"), stream.and_then(tcp))
        }
        ManagementAddress::Unix(path) => {
            (path.display().to_string(), UnixStream::connect(path).and_then(unix))
        }
    };
    let failed = |error: io::Error| {
        format!("cannot connect to {place}: {error}; with `management-client` a program must listen there")
    };
    let connection = connection.map_err(failed)?;
    let (ready, other) = UnixStream::pair().map_err(|error| error.to_string())?;
    io::Write::write_all(&mut &other, &[0]).map_err(|error| error.to_string())?;
    Ok(Listener::Outgoing(Outgoing {
        connection: RefCell::new(Some(connection)),
        ready,
        _other: other,
        place,
    }))
}

fn tcp(stream: TcpStream) -> io::Result<Connection> {
    stream.set_nonblocking(true)?;
    Ok(Connection::Tcp(stream))
}

fn unix(stream: UnixStream) -> io::Result<Connection> {
    stream.set_nonblocking(true)?;
    Ok(Connection::Unix(stream))
}

impl Outgoing {
    /// The connection, once.
    pub(super) fn take(&self) -> io::Result<Connection> {
        let connection = self.connection.borrow_mut().take().ok_or(io::ErrorKind::WouldBlock)?;
        io::Read::read_exact(&mut &self.ready, &mut [0])?;
        Ok(connection)
    }
}

impl AsFd for Outgoing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

impl fmt::Display for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}
