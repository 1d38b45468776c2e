use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{ConnectionId, SourcePrefix};

/// The carrier of the datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Transport {
    /// One datagram a UDP datagram.
    Udp,
    /// Records with a 16-bit length in front on a stream.
    Tcp,
    /// One datagram an IP packet of the protocol with that number (the `Protocol` of RFC 791, the `Next Header` of RFC 8200),
    /// without a port.
    Ip(u8),
}

/// Where datagrams come from and go to: a peer's address as seen from one of our sockets, or a TCP
/// connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// `remote` as seen from UDP socket number `socket` of the driver.
    Udp {
        /// The driver's number of the socket. Never reused within a process. [`crate::Command::SocketBound`] says which
        /// local address it has.
        socket: u32,
        /// The peer's address and port.
        remote: SocketAddr,
    },
    /// An established connection.
    Tcp {
        /// The driver's number of the connection.
        connection: ConnectionId,
        /// The peer's address and port.
        remote: SocketAddr,
    },
    /// `remote` as seen from socket number `socket` of the driver, which is one for an IP protocol.
    Ip {
        /// The driver's number of the socket; no UDP socket has the same.
        socket: u32,
        /// The number of the IP protocol.
        protocol: u8,
        /// The peer's address. The port is 0.
        remote: SocketAddr,
    },
}

impl Path {
    /// The peer's address and port.
    pub const fn remote(&self) -> SocketAddr {
        match self {
            Path::Udp { remote, .. } | Path::Tcp { remote, .. } | Path::Ip { remote, .. } => *remote,
        }
    }

    /// Whether both are one path. `==` gives the same answer; this one is inlined where packets are compared.
    #[inline]
    pub fn is_path(&self, other: &Path) -> bool {
        match (self, other) {
            (Path::Udp { socket, remote }, Path::Udp { socket: other, remote: address }) => {
                socket == other && remote == address
            }
            _ => self == other,
        }
    }

    /// The narrowest prefix that the peer's address is counted by.
    pub const fn source_prefix(&self) -> SourcePrefix {
        SourcePrefix::narrowest(self.remote().ip())
    }

    /// The carrier of the datagrams.
    pub const fn transport(&self) -> Transport {
        match self {
            Path::Udp { .. } => Transport::Udp,
            Path::Tcp { .. } => Transport::Tcp,
            Path::Ip { protocol, .. } => Transport::Ip(*protocol),
        }
    }

    /// The driver's number of the socket; `None` for a connection.
    pub const fn socket(&self) -> Option<u32> {
        match self {
            Path::Udp { socket, .. } | Path::Ip { socket, .. } => Some(*socket),
            Path::Tcp { .. } => None,
        }
    }

    /// The path to the same address by another socket of its kind. A connection is not changed.
    #[must_use]
    pub const fn by_socket(mut self, number: u32) -> Self {
        match &mut self {
            Path::Udp { socket, .. } | Path::Ip { socket, .. } => *socket = number,
            Path::Tcp { .. } => {}
        }
        self
    }

    /// The path by the same socket to another address. A connection is not changed.
    #[must_use]
    pub const fn to_remote(mut self, address: SocketAddr) -> Self {
        match &mut self {
            Path::Udp { remote, .. } | Path::Ip { remote, .. } => *remote = address,
            Path::Tcp { .. } => {}
        }
        self
    }

    /// Whether it is a stream of records.
    pub const fn is_stream(&self) -> bool {
        matches!(self, Path::Tcp { .. })
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Udp { remote, .. } => write!(f, "udp {remote}"),
            Path::Tcp { remote, .. } => write!(f, "tcp {remote}"),
            Path::Ip { protocol, remote, .. } => write!(f, "ip {protocol} {}", remote.ip()),
        }
    }
}
