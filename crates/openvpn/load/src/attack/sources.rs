//! The addresses that attackers come from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Where control channels and connections come from.
#[derive(Clone, Copy, Debug)]
pub enum Sources {
    /// The address that the system takes, and any port.
    One,
    /// Any IPv6 address below this network of that prefix length; each has another. The addresses must be
    /// the attackers' own (`ip -6 route add local NETWORK dev lo`).
    Prefix(Ipv6Addr, u8),
}

impl Sources {
    /// A UDP socket with source number `number`.
    pub(super) fn bind(self, number: u64, target: SocketAddr) -> std::io::Result<UdpSocket> {
        let address = match self {
            Sources::One if target.is_ipv4() => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Sources::One => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            Sources::Prefix(network, length) => IpAddr::V6(scattered(network, length, number)),
        };
        let socket = UdpSocket::bind(SocketAddr::new(address, 0))?;
        socket.connect(target)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// A TCP connection from source number `number`. It fails if the target has not accepted it by then.
    pub(super) fn connect(
        self,
        number: u64,
        target: SocketAddr,
        timeout: Duration,
    ) -> std::io::Result<TcpStream> {
        let stream = match self {
            Sources::One => TcpStream::connect_timeout(&target, timeout)?,
            Sources::Prefix(network, length) => {
                connect_from(scattered(network, length, number), target, timeout)?
            }
        };
        stream.set_nonblocking(true)?;
        Ok(stream)
    }
}

/// The standard library cannot bind a socket before it connects it.
fn connect_from(source: Ipv6Addr, target: SocketAddr, timeout: Duration) -> std::io::Result<TcpStream> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::INET6, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddr::new(source.into(), 0))?;
    // It bounds the time of connect, too (Linux socket(7), SO_SNDTIMEO).
    set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    rustix::net::connect(&socket, &target)?;
    Ok(TcpStream::from(socket))
}

/// The address number `number` below a network: they follow each other in no order.
fn scattered(network: Ipv6Addr, length: u8, number: u64) -> Ipv6Addr {
    let host = u128::from(number + 1).wrapping_mul(0xda94_2042_e4dd_58b5_9e37_79b9_7f4a_7c15);
    let mask = u128::MAX.checked_shr(length.into()).unwrap_or(0);
    Ipv6Addr::from_bits(network.to_bits() & !mask | host & mask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn addresses_stay_in_their_network() {
        let network: Ipv6Addr = "2001:db8:8000::".parse().unwrap();
        for length in [61, 64] {
            let addresses: BTreeSet<Ipv6Addr> =
                (0..1000).map(|number| scattered(network, length, number)).collect();
            assert_eq!(addresses.len(), 1000);
            let shift = 128 - u32::from(length);
            assert!(addresses.iter().all(|address| address.to_bits() >> shift == network.to_bits() >> shift));
        }
        let subnets: BTreeSet<u16> =
            (0..1000).map(|number| scattered(network, 61, number).segments()[3]).collect();
        assert_eq!(subnets.len(), 8);
    }
}
