use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::ConnectionId;

/// What carries the datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Transport {
    /// One datagram a UDP datagram.
    Udp,
    /// Records with a 16-bit length in front on a stream.
    Tcp,
}

/// Where datagrams come from and go to: a peer's address as seen from one of our sockets, or a TCP
/// connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// `remote` as seen from UDP socket number `socket` of the driver.
    Udp {
        /// The driver's number of the socket. Never reused within a process.
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
}

impl Path {
    /// The peer's address and port.
    pub const fn remote(&self) -> SocketAddr {
        match self {
            Path::Udp { remote, .. } | Path::Tcp { remote, .. } => *remote,
        }
    }

    /// Whose address the peer has.
    pub const fn subscriber(&self) -> Subscriber {
        Subscriber::of(self.remote().ip())
    }

    /// What carries the datagrams.
    pub const fn transport(&self) -> Transport {
        match self {
            Path::Udp { .. } => Transport::Udp,
            Path::Tcp { .. } => Transport::Tcp,
        }
    }
}

/// What one subscriber has: an IPv4 address, or an IPv6 /64. Limits count by it, as within its /64 everybody has as
/// many addresses as they like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subscriber(u128);

impl Subscriber {
    /// Whose address that is. An IPv4 address is the same one when it is written as IPv6 (`::ffff:192.0.2.1`).
    pub const fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Subscriber(v4.to_ipv6_mapped().to_bits()),
            IpAddr::V6(v6) => Subscriber(v6.to_bits() >> 64 << 64),
        }
    }

    /// Sixteen bytes that tell it from all others.
    pub const fn octets(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Udp { remote, .. } => write!(f, "udp {remote}"),
            Path::Tcp { remote, .. } => write!(f, "tcp {remote}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscriber_is_an_ipv4_address_or_an_ipv6_64() {
        let of = |text: &str| Subscriber::of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::2:3:4:5"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_ne!(of("0.0.0.0"), of("::"));
    }
}
