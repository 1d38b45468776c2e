//! The firewall mark of the tunnel's own sockets, by which policy routing and the kill switch tell the tunnel's
//! datagrams from all others.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, SockRef, Socket, Type};

/// `adit` in ASCII. All tunnels share it, so that the datagrams of one do not go into another, and those of that
/// one into the first.
pub(crate) const MARK: u32 = 0x6164_6974;

/// The group of all tunnels' devices (ip-link(8) `group`), by which the kill switch knows them.
pub(crate) const DEVICE_GROUP: u32 = MARK;

/// Marks what this socket sends from now on.
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN` (or, since Linux 5.17, `CAP_NET_RAW`).
pub(crate) fn set(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_to(socket, MARK)
}

/// The same with the mark of a tunnel that has its own.
///
/// # Errors
/// As [`set`].
pub(crate) fn set_to(socket: BorrowedFd<'_>, mark: u32) -> io::Result<()> {
    SockRef::from(&socket).set_mark(mark)
}

/// Whether this thread may mark sockets.
///
/// # Errors
/// As [`set`].
pub(crate) fn probe() -> io::Result<()> {
    let socket = Socket::new(Domain::for_address((Ipv4Addr::LOCALHOST, 0).into()), Type::DGRAM, None)?;
    set(socket.as_fd())
}
