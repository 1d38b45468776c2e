//! The firewall mark of the tunnel's own sockets, by which policy routing and the kill switch tell the tunnel's
//! datagrams from all others.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};

use adit_core::DeviceName;
use serde::{Deserialize, Serialize};
use socket2::{Domain, SockRef, Socket, Type};

/// `adit` in ASCII. All tunnels share it, so that no tunnel's datagrams go into another tunnel.
pub const MARK: u32 = 0x6164_6974;

/// The group of all tunnels' devices (ip-link(8) `group`), by which the kill switch knows them.
pub(crate) const DEVICE_GROUP: u32 = MARK;

/// How the system routes the datagrams of a tunnel's own sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketRouting {
    /// The firewall mark (SO_MARK) of their datagrams. By it the rules of policy routing and the kill switch know the
    /// tunnel's datagrams. `None`: the mark that all tunnels share, for sockets that reach a configured remote, and
    /// none for others.
    pub mark: Option<u32>,
    /// The device that they send and receive by (SO_BINDTODEVICE), such as a VRF.
    pub device: Option<DeviceName>,
    /// Whether routers may cut IPv4 datagrams that they send over UDP.
    pub fragmentation: Fragmentation,
}

/// Whether datagrams may be cut into fragments (IP_MTU_DISCOVER and IPV6_MTU_DISCOVER, ip(7) and ipv6(7)). IPv6 routers
/// never do it (RFC 8200 §5), but the sender may.
///
/// Batches of IPv4 datagrams (UDP_SEGMENT) may be cut in any case but [`Fragmentation::Forbidden`]: Linux sets DF
/// on datagrams that fit the path's MTU, and takes a batch for one long datagram (`__ip_make_skb` in net/ipv4/ip_output.c).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fragmentation {
    /// As the system has it (`net.ipv4.ip_no_pmtu_disc`): by default a single datagram has DF, and ICMP says which size fits
    /// (RFC 1191). Where ICMP messages get lost, so do long datagrams.
    #[default]
    System,
    /// Routers cut datagrams that do not fit: none has DF.
    Allowed,
    /// Datagrams that fit the MTU that the system knows of the path have DF. The system cuts those that do not.
    ByPath,
    /// Each datagram has DF. The system refuses one that is longer than the MTU that it knows of the path.
    Forbidden,
}

/// Marks the datagrams that this socket sends from now on.
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN` (or, since Linux 5.17, `CAP_NET_RAW`).
pub(crate) fn set(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_to(socket, MARK)
}

/// Marks the datagrams that this socket sends from now on with the mark of a tunnel that has its own.
///
/// # Errors
/// The system's refusal: `EPERM` without `CAP_NET_ADMIN`.
pub fn set_to(socket: BorrowedFd<'_>, mark: u32) -> io::Result<()> {
    SockRef::from(&socket).set_mark(mark)
}

/// Has the datagrams of a fresh socket routed as is configured.
///
/// # Errors
/// The system's refusal: `EPERM` for a mark without `CAP_NET_ADMIN`, `ENODEV` for a device that is not there.
pub fn route(socket: &Socket, routing: SocketRouting) -> io::Result<()> {
    if let Some(device) = routing.device {
        socket.bind_device(Some(device.as_str().as_bytes())).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot bind to the device {device}: {error}"))
        })?;
    }
    let Some(mark) = routing.mark else { return Ok(()) };
    socket
        .set_mark(mark)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot set the mark {mark:#x}: {error}")))
}

/// Whether this thread may mark sockets.
///
/// # Errors
/// As [`set`].
pub(crate) fn probe() -> io::Result<()> {
    let socket = Socket::new(Domain::for_address((Ipv4Addr::LOCALHOST, 0).into()), Type::DGRAM, None)?;
    set(socket.as_fd())
}
