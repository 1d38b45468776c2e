//! UDP sockets, and sockets for other IP protocols, that carry many datagrams a system call where the kernel can.

mod backlog;
mod batch;
mod group;
mod ip;
mod pair;
mod relay;
mod segment_limits;
mod self_test;
mod source;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use adit_dataplane::OuterHeader;
use adit_sys::{LocalAddress, Message, Received};
use adit_system::{Fragmentation, SocketRouting, mark};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};

pub(crate) use self::backlog::Backlog;
pub(crate) use self::batch::Gathered;
pub(crate) use self::ip::IpGroup;
pub(crate) use self::pair::{PairOptions, UdpPair};
pub use self::relay::Relay;
use self::segment_limits::SegmentLimits;
pub(crate) use self::self_test::self_test;
pub(crate) use self::source::PinnedSource;
use crate::clock;
use crate::config::Buffers;
use crate::helper_channels::SocketChannel;

/// Room for the largest message (UDP_GRO gathers up to 64 KiB).
pub(crate) const RECEIVE_SLOT: usize = 65_536;
/// Room for the datagrams that [`UdpSocket::receive`] takes at most.
pub(crate) const RECEIVE_BUFFER: usize = adit_sys::RECEIVE_SLOTS * RECEIVE_SLOT;

/// How long a send may wait for room in the socket's buffer before the datagrams are dropped.
const SEND_TIMEOUT: Duration = Duration::from_millis(200);

/// Socket buffers that are set when the configuration names none: room for datagrams that arrive while the
/// thread is away for a scheduler's turn. Without CAP_NET_ADMIN `net.core.rmem_max` and `wmem_max` limit it.
const DEFAULT_BUFFER: usize = 4 << 20;

/// How UDP sockets are made.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct UdpOptions {
    /// Sizes of the buffers.
    pub buffers: Buffers,
    /// Use UDP_SEGMENT.
    pub gso: bool,
    /// Use UDP_GRO.
    pub gro: bool,
    /// How their datagrams are routed.
    pub routing: SocketRouting,
}

/// The parts of a socket that it shares with others.
#[derive(Clone, Copy, Debug, Default)]
struct Sharing {
    /// Its address, to sockets that allow it as well (SO_REUSEPORT).
    address: bool,
    /// IPv4, also where it is bound to `[::]` (IPV6_V6ONLY).
    v4: bool,
}

/// Has the datagrams of a fresh socket cut into fragments, or not.
fn set_fragmentation(socket: &Socket, v6: bool, fragmentation: Fragmentation) -> io::Result<()> {
    let (v4_value, v6_value) = match fragmentation {
        Fragmentation::System => return Ok(()),
        Fragmentation::Allowed => (libc::IP_PMTUDISC_DONT, libc::IPV6_PMTUDISC_DONT),
        Fragmentation::ByPath => (libc::IP_PMTUDISC_WANT, libc::IPV6_PMTUDISC_WANT),
        Fragmentation::Forbidden => (libc::IP_PMTUDISC_DO, libc::IPV6_PMTUDISC_DO),
    };
    if v6 {
        adit_sys::set_option(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, v6_value)?;
    }
    // IPv6 sockets send IPv4 datagrams, too: those to mapped addresses.
    adit_sys::set_option(socket.as_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, v4_value)
}

/// Datagrams to send to one address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagrams<'a> {
    pub(crate) bytes: &'a [u8],
    /// Bytes of each, the last may be shorter.
    pub(crate) segment: usize,
    pub(crate) to: SocketAddr,
    /// The fields of the IP header around each.
    pub(crate) outer: OuterHeader,
}

/// The result of sending a GSO batch.
#[derive(Debug)]
enum Sent {
    /// The socket took all of it.
    All,
    /// The system refused a part of it at least; the rest was sent.
    Refused(io::Error),
    /// The socket's buffer is full: it took the first `taken` bytes, whole datagrams.
    Blocked { taken: usize },
}

/// A bound socket, of UDP or of another IP protocol, that talks to any address. Calls do not wait, but for [`UdpSocket::send`].
#[derive(Debug)]
pub struct UdpSocket {
    socket: Socket,
    v6: bool,
    /// Use UDP_SEGMENT.
    gso: bool,
    /// The error number with which the kernel said that it does not know UDP_SEGMENT, or 0.
    refusal: AtomicI32,
    /// The segment sizes that paths refused.
    limits: SegmentLimits,
    framing: Framing,
    /// The number of the IP protocol; `None`: UDP.
    protocol: Option<u8>,
}

/// The bytes before each datagram of a socket, beside the kernel's own headers.
#[derive(Debug)]
enum Framing {
    Nothing,
    /// The header of a relay, by which its datagrams go.
    Relay(Box<Relay>),
    /// Before each that is received, the IP header around it (raw(7)).
    IpHeader,
}

impl UdpSocket {
    /// Binds to `address`; `[::]` means IPv6 and IPv4, or IPv4 alone on a machine without IPv6.
    pub fn bind(address: SocketAddr, options: &UdpOptions) -> io::Result<UdpSocket> {
        let alone = Sharing::default();
        match UdpSocket::bind_one(address, options, alone) {
            Err(error) if is_any_v6(address) && lacks_v6(&error) => {
                UdpSocket::bind_one((Ipv4Addr::UNSPECIFIED, address.port()).into(), options, alone)
            }
            result => result,
        }
    }

    /// Binds to a port of all addresses of a family, and to no address of the other; a `shared` one leaves the port to others
    /// that do so, too (SO_REUSEPORT).
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn bind_to_port(port: u16, v6: bool, shared: bool, options: &UdpOptions) -> io::Result<UdpSocket> {
        let all: IpAddr = if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        UdpSocket::bind_one((all, port).into(), options, Sharing { address: shared, v4: true })
    }

    /// Binds to a port by a helper, if there is one.
    fn bind_to_port_by(
        helper: Option<&dyn SocketChannel>,
        (port, v6): (u16, bool),
        shared: bool,
        options: &UdpOptions,
    ) -> io::Result<UdpSocket> {
        match helper {
            Some(helper) => UdpSocket::adopt(helper.bind(port, v6, shared)?, options),
            None => UdpSocket::bind_to_port(port, v6, shared, options),
        }
    }

    /// One more socket with the address of this one, which allows it.
    fn bind_another(&self, options: &UdpOptions) -> io::Result<UdpSocket> {
        let v4 = self.v6 && self.socket.only_v6()?;
        UdpSocket::bind_one(self.local_address()?, options, Sharing { address: true, v4 })
    }

    fn bind_one(address: SocketAddr, options: &UdpOptions, sharing: Sharing) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        mark::route(&socket, options.routing)?;
        set_fragmentation(&socket, address.is_ipv6(), options.routing.fragmentation)?;
        socket.set_reuse_port(sharing.address)?;
        socket.set_nonblocking(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(sharing.v4 || !is_any_v6(address))?;
        }
        let Buffers { sndbuf, rcvbuf } = options.buffers;
        set_buffers(
            &socket,
            Buffers { sndbuf: sndbuf.or(Some(DEFAULT_BUFFER)), rcvbuf: rcvbuf.or(Some(DEFAULT_BUFFER)) },
        );
        if options.gro {
            // Without it each receive brings one datagram; nothing else changes.
            let _ = adit_sys::set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1);
        }
        socket.bind(&address.into())?;
        Ok(UdpSocket::of(socket, address.is_ipv6(), options))
    }

    fn of(socket: Socket, v6: bool, options: &UdpOptions) -> UdpSocket {
        UdpSocket {
            socket,
            v6,
            gso: options.gso,
            refusal: AtomicI32::new(0),
            limits: SegmentLimits::default(),
            framing: Framing::Nothing,
            protocol: None,
        }
    }

    /// One that another process made by [`UdpSocket::bind`], with these options.
    pub(crate) fn adopt(socket: OwnedFd, options: &UdpOptions) -> io::Result<UdpSocket> {
        let socket = Socket::from(socket);
        let v6 = socket.local_addr()?.is_ipv6();
        match socket.r#type()? {
            Type::RAW => UdpSocket::of_ip(socket, v6, options),
            _ => Ok(UdpSocket::of(socket, v6, options)),
        }
    }

    /// The address that it is bound to.
    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        let address = self.socket.local_addr()?.as_socket();
        let mut address = address.ok_or_else(|| io::Error::other("not an IP socket"))?;
        if self.protocol.is_some() {
            // The kernel has the protocol's number there.
            address.set_port(0);
        }
        Ok(address)
    }

    /// Whether it talks to IPv4 addresses.
    pub(crate) fn reaches_ipv4(&self) -> bool {
        !self.v6 || self.socket.only_v6().is_ok_and(|only_v6| !only_v6)
    }

    /// Whether it talks to IPv6 addresses.
    pub(crate) const fn reaches_ipv6(&self) -> bool {
        self.v6
    }

    /// Marks the datagrams that it sends from now on for the firewall and for routing rules (SO_MARK), by a helper if
    /// there is one; 0: no mark.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_ADMIN` (or, since Linux 5.17, `CAP_NET_RAW`).
    pub(crate) fn set_mark(&self, mark: u32, helper: Option<&dyn SocketChannel>) -> io::Result<()> {
        match helper {
            Some(helper) => helper.mark(self.as_fd(), mark),
            None => self.socket.set_mark(mark),
        }
    }

    /// Says from now on which of our addresses each datagram came to.
    pub(crate) fn learn_local_addresses(&self) -> io::Result<()> {
        adit_sys::learn_local_addresses(self.as_fd(), self.v6)
    }

    /// Says from now on which traffic class the IP header around each datagram had.
    pub(crate) fn learn_traffic_classes(&self) -> io::Result<()> {
        adit_sys::learn_traffic_classes(self.as_fd(), self.v6)
    }

    /// Why UDP_SEGMENT, which was in use at first, is in use no more.
    pub(crate) fn gso_refusal(&self) -> Option<io::Error> {
        match self.refusal.load(Ordering::Relaxed) {
            0 => None,
            number => Some(io::Error::from_raw_os_error(number)),
        }
    }

    /// How many destinations lately refused UDP_SEGMENT, or segments beyond some length.
    pub(crate) fn gso_limited_destinations(&self) -> usize {
        self.limits.len()
    }

    /// Destinations to which datagrams lately did not fit the path's MTU.
    pub(crate) fn narrow_destinations(&self) -> Vec<IpAddr> {
        self.limits.narrow(clock()).into_iter().map(|address| address.to_canonical()).collect()
    }

    /// The longest segment that the kernel may be asked to cut for this destination; 0 if none.
    fn longest_segment(&self, to: SocketAddr) -> usize {
        // The kernel refuses each large send to port 0 with EINVAL, which says nothing about its path.
        if !self.gso || to.port() == 0 || self.refusal.load(Ordering::Relaxed) != 0 {
            return 0;
        }
        self.limits.longest(to.ip(), clock).min(usize::from(u16::MAX))
    }

    /// Receives one message without waiting, which may be a GSO batch that UDP_GRO gathered.
    fn receive_one(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let mut received = adit_sys::receive(self.socket.as_fd(), buffer)?;
        received.from = normalised(received.from);
        Ok(received)
    }

    /// Sends `bytes` as datagrams of `segment` bytes, the last perhaps shorter. Waits a little while the
    /// socket's buffer is full. When the kernel refuses to cut them, the same bytes go out one by one.
    pub fn send(&self, bytes: &[u8], segment: usize, to: SocketAddr) -> io::Result<()> {
        self.send_from(None, Datagrams { bytes, segment, to, outer: OuterHeader::default() })
    }

    /// Sends from that address.
    pub(crate) fn send_from(
        &self,
        source: Option<&PinnedSource>,
        mut datagrams: Datagrams<'_>,
    ) -> io::Result<()> {
        let mut waited = false;
        loop {
            match self.try_send(source, datagrams) {
                Sent::All => return Ok(()),
                Sent::Refused(error) => return Err(error),
                Sent::Blocked { .. } if waited => return Err(io::ErrorKind::WouldBlock.into()),
                Sent::Blocked { taken } => {
                    datagrams.bytes = datagrams.bytes.get(taken..).unwrap_or_default();
                    waited = true;
                    wait_writable(self.socket.as_fd(), SEND_TIMEOUT)?;
                }
            }
        }
    }

    /// Sends without waiting.
    fn try_send(&self, source: Option<&PinnedSource>, datagrams: Datagrams<'_>) -> Sent {
        let (to, segment) = (self.wire_address(datagrams.to), datagrams.segment.max(1));
        let datagrams = Datagrams { to, segment, ..datagrams };
        match &self.framing {
            Framing::Relay(relay) => self.try_send_by_relay(relay, source, datagrams),
            Framing::Nothing | Framing::IpHeader => self.try_send_message(source, datagrams),
        }
    }

    /// Sends without waiting to an address of the socket's own family, and no more bytes than go into one
    /// message.
    fn try_send_message(&self, source: Option<&PinnedSource>, datagrams: Datagrams<'_>) -> Sent {
        let Datagrams { bytes, segment, to, outer } = datagrams;
        if bytes.len() > segment && segment <= self.longest_segment(to) {
            let size = u16::try_from(segment).ok();
            match self.send_one(source, &Message { bytes, to, segment: size, outer }) {
                Err(error) if self.learn(&error, segment, to) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Sent::Blocked { taken: 0 },
                Err(error) => return Sent::Refused(error),
                Ok(()) => return Sent::All,
            }
        }
        let mut outcome = Sent::All;
        for (number, datagram) in bytes.chunks(segment).enumerate() {
            match self.send_one(source, &Message { bytes: datagram, to, segment: None, outer }) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Sent::Blocked { taken: number * segment };
                }
                Err(error) => outcome = Sent::Refused(error),
            }
        }
        outcome
    }

    /// Whether the error means that the kernel will not cut segments of this size for this destination; remembered.
    fn learn(&self, error: &io::Error, segment: usize, to: SocketAddr) -> bool {
        let longest = match error.raw_os_error() {
            Some(number @ (libc::EOPNOTSUPP | libc::ENOPROTOOPT)) => {
                self.refusal.store(number, Ordering::Relaxed);
                return true;
            }
            // The device on this path has no checksum offload, or its route has a transform (udp_send_skb in
            // Linux's net/ipv4/udp.c).
            Some(libc::EIO) => 0,
            // A segment does not fit the path's MTU: alone it may travel in fragments.
            Some(libc::EINVAL | libc::EMSGSIZE) => segment - 1,
            _ => return false,
        };
        self.limits.set(to.ip(), longest, clock());
        true
    }

    /// Sends one message. Where the system may have refused the source address, it chooses one itself; if that works, it
    /// does so from then on.
    fn send_one(&self, source: Option<&PinnedSource>, message: &Message<'_>) -> io::Result<()> {
        let pinned = source.and_then(|source| Some((source, source.get()?)));
        let Some((source, address)) = pinned else { return self.send_message(message, None) };
        match self.send_message(message, Some(address)) {
            Err(error) if source::may_be_refusal(&error) => {
                self.send_message(message, None)?;
                source.refuse();
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn send_message(&self, message: &Message<'_>, source: Option<LocalAddress>) -> io::Result<()> {
        let mut refused = false;
        loop {
            match relay::send(self, message, source) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The answer of an ICMP message to an earlier datagram, not to this one.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && !refused => refused = true,
                result => return result,
            }
        }
    }

    /// An IPv6 socket reaches IPv4 by mapped addresses.
    fn wire_address(&self, address: SocketAddr) -> SocketAddr {
        match address {
            SocketAddr::V4(v4) if self.v6 => SocketAddr::new(IpAddr::V6(v4.ip().to_ipv6_mapped()), v4.port()),
            other => other,
        }
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Waits until `fd` takes more, or until `timeout` ends (which is no error).
pub(crate) fn wait_writable(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<()> {
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    match poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::OUT)], Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sets the buffers that are given, beyond the system's limit where the right is there. A smaller buffer is
/// no error.
pub(crate) fn set_buffers(socket: &Socket, buffers: Buffers) {
    for (force, wish) in [(libc::SO_SNDBUFFORCE, buffers.sndbuf), (libc::SO_RCVBUFFORCE, buffers.rcvbuf)] {
        let Some(size) = wish else { continue };
        let Ok(value) = libc::c_int::try_from(size) else { continue };
        if adit_sys::set_option(socket.as_fd(), libc::SOL_SOCKET, force, value).is_err() {
            let _ = match force {
                libc::SO_SNDBUFFORCE => socket.set_send_buffer_size(size),
                _ => socket.set_recv_buffer_size(size),
            };
        }
    }
}

/// An IPv4 address mapped into IPv6 becomes an IPv4 address. An IPv6 address keeps its scope, without which a
/// link-local peer cannot be answered (RFC 4007, section 6), and loses its flow label.
pub(crate) fn normalised(address: SocketAddr) -> SocketAddr {
    match (address, address.ip().to_canonical()) {
        (SocketAddr::V6(v6), IpAddr::V6(ip)) => SocketAddrV6::new(ip, v6.port(), 0, v6.scope_id()).into(),
        (_, ip) => SocketAddr::new(ip, address.port()),
    }
}

pub(crate) fn is_any_v6(address: SocketAddr) -> bool {
    address.is_ipv6() && address.ip().is_unspecified()
}

/// Whether UDP sockets for IPv6 can be made on this machine. A socket for IPv6 does not need an address or a route.
pub fn has_ipv6() -> bool {
    let bound = std::net::UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0));
    bound.map_or_else(|error| !lacks_v6(&error), |_| true)
}

pub(crate) fn lacks_v6(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}

fn wait_readable(socket: &UdpSocket) -> io::Result<bool> {
    readable(socket.as_fd())
}

/// Waits half a second for something to read.
pub(crate) fn readable(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
    let ready = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&timeout))?;
    Ok(ready > 0)
}

#[cfg(test)]
mod tests;
