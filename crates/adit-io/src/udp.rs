//! UDP sockets that carry many datagrams a system call where the kernel can.

mod backlog;
mod batch;
mod group;
mod segment_limits;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};

pub(crate) use self::backlog::Backlog;
pub(crate) use self::batch::Gathered;
use self::segment_limits::SegmentLimits;
use crate::clock;
use crate::config::Buffers;
use crate::sys::{self, Message, Received};

/// Room for the largest message (UDP_GRO gathers up to 64 KiB).
pub(crate) const RECEIVE_SLOT: usize = 65_536;
/// Room for what [`UdpSocket::receive`] takes at most.
pub(crate) const RECEIVE_BUFFER: usize = sys::RECEIVE_SLOTS * RECEIVE_SLOT;

/// How long a send may wait for room in the socket's buffer before the datagrams are dropped.
const SEND_TIMEOUT: Duration = Duration::from_millis(200);

/// Socket buffers that are asked for when the configuration names none: room for what arrives while the
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
}

/// What became of a GSO batch.
#[derive(Debug)]
enum Sent {
    /// The socket took all of it.
    All,
    /// The system refused a part of it at least; the rest was sent.
    Refused(io::Error),
    /// The socket's buffer is full: it took the first `taken` bytes, whole datagrams.
    Blocked { taken: usize },
}

/// A bound socket that talks to any address. Calls do not wait, but for [`UdpSocket::send`].
#[derive(Debug)]
pub struct UdpSocket {
    socket: Socket,
    v6: bool,
    /// Use UDP_SEGMENT.
    gso: bool,
    /// The error number with which the kernel said that it does not know UDP_SEGMENT, or 0.
    refusal: AtomicI32,
    /// What paths refused.
    limits: SegmentLimits,
}

impl UdpSocket {
    /// Binds to `address`; `[::]` means IPv6 and IPv4, or IPv4 alone on a machine without IPv6.
    pub fn bind(address: SocketAddr, options: &UdpOptions) -> io::Result<UdpSocket> {
        match UdpSocket::bind_one(address, options, false) {
            Err(error) if is_any_v6(address) && lacks_v6(&error) => {
                UdpSocket::bind_one((Ipv4Addr::UNSPECIFIED, address.port()).into(), options, false)
            }
            result => result,
        }
    }

    /// One more socket with the address of another, which allows it.
    fn bind_sharing(address: SocketAddr, options: &UdpOptions) -> io::Result<UdpSocket> {
        UdpSocket::bind_one(address, options, true)
    }

    fn bind_one(address: SocketAddr, options: &UdpOptions, share: bool) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_reuse_port(share)?;
        socket.set_nonblocking(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(!is_any_v6(address))?;
        }
        let Buffers { sndbuf, rcvbuf } = options.buffers;
        set_buffers(
            &socket,
            Buffers { sndbuf: sndbuf.or(Some(DEFAULT_BUFFER)), rcvbuf: rcvbuf.or(Some(DEFAULT_BUFFER)) },
        );
        if options.gro {
            // Without it each receive brings one datagram; nothing else changes.
            let _ = sys::set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1);
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
        }
    }

    /// One that another process made by [`UdpSocket::bind`], with these options.
    pub(crate) fn adopt(socket: OwnedFd, options: &UdpOptions) -> io::Result<UdpSocket> {
        let socket = Socket::from(socket);
        let v6 = socket.local_addr()?.is_ipv6();
        Ok(UdpSocket::of(socket, v6, options))
    }

    /// The address that it is bound to.
    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::Error::other("not an IP socket"))
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

    /// The longest segment that the kernel may be asked to cut for this destination; 0 if none.
    fn longest_segment(&self, to: SocketAddr) -> usize {
        // The kernel refuses each large send to port 0 with EINVAL, which says nothing about its path.
        if !self.gso || to.port() == 0 || self.refusal.load(Ordering::Relaxed) != 0 {
            return 0;
        }
        self.limits.longest(to.ip(), clock).min(usize::from(u16::MAX))
    }

    /// Receives what one system call brings, without waiting: one message, which may be a GSO batch that
    /// UDP_GRO gathered.
    fn receive_one(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let mut received = sys::receive(self.socket.as_fd(), buffer)?;
        received.from = normalised(received.from);
        Ok(received)
    }

    /// Sends `bytes` as datagrams of `segment` bytes, the last perhaps shorter. Waits a little while the
    /// socket's buffer is full. When the kernel refuses to cut them, the same bytes go out one by one.
    pub fn send(&self, bytes: &[u8], segment: usize, to: SocketAddr) -> io::Result<()> {
        let mut rest = bytes;
        let mut waited = false;
        loop {
            match self.try_send(rest, segment, to) {
                Sent::All => return Ok(()),
                Sent::Refused(error) => return Err(error),
                Sent::Blocked { .. } if waited => return Err(io::ErrorKind::WouldBlock.into()),
                Sent::Blocked { taken } => {
                    rest = rest.get(taken..).unwrap_or_default();
                    waited = true;
                    wait_writable(self.socket.as_fd(), SEND_TIMEOUT)?;
                }
            }
        }
    }

    /// The same without waiting.
    fn try_send(&self, bytes: &[u8], segment: usize, to: SocketAddr) -> Sent {
        let to = self.wire_address(to);
        let segment = segment.max(1);
        if bytes.len() > segment && segment <= self.longest_segment(to) {
            let size = u16::try_from(segment).ok();
            match self.send_one(&Message { bytes, to, segment: size }) {
                Err(error) if self.learn(&error, segment, to) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Sent::Blocked { taken: 0 },
                Err(error) => return Sent::Refused(error),
                Ok(()) => return Sent::All,
            }
        }
        let mut outcome = Sent::All;
        for (number, datagram) in bytes.chunks(segment).enumerate() {
            match self.send_one(&Message { bytes: datagram, to, segment: None }) {
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

    fn send_one(&self, message: &Message<'_>) -> io::Result<()> {
        let mut refused = false;
        loop {
            match sys::send(self.socket.as_fd(), message) {
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
        if sys::set_option(socket.as_fd(), libc::SOL_SOCKET, force, value).is_err() {
            let _ = match force {
                libc::SO_SNDBUFFORCE => socket.set_send_buffer_size(size),
                _ => socket.set_recv_buffer_size(size),
            };
        }
    }
}

/// An IPv4 address mapped into IPv6 becomes what it is. An IPv6 address keeps its scope, without which a link-local
/// peer cannot be answered (RFC 4007, section 6), and loses its flow label.
pub(crate) fn normalised(address: SocketAddr) -> SocketAddr {
    match (address, address.ip().to_canonical()) {
        (SocketAddr::V6(v6), IpAddr::V6(ip)) => SocketAddrV6::new(ip, v6.port(), 0, v6.scope_id()).into(),
        (_, ip) => SocketAddr::new(ip, address.port()),
    }
}

pub(crate) fn is_any_v6(address: SocketAddr) -> bool {
    address.is_ipv6() && address.ip().is_unspecified()
}

pub(crate) fn lacks_v6(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}

/// Which UDP offloads this kernel gets right, and what went wrong with the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UdpOffloads {
    /// UDP_SEGMENT.
    pub(crate) gso: Result<(), String>,
    /// UDP_GRO.
    pub(crate) gro: Result<(), String>,
}

/// Tries both on the loopback device: GSO batches with and without a short tail must arrive byte for byte.
/// Where the loopback device is down, the kernel is asked whether it knows the options, and believed.
pub(crate) fn self_test() -> UdpOffloads {
    match try_offloads() {
        Ok(offloads) => offloads,
        Err(_) => UdpOffloads { gso: knows(libc::UDP_SEGMENT), gro: knows(libc::UDP_GRO) },
    }
}

fn knows(option: libc::c_int) -> Result<(), String> {
    Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))
        .and_then(|socket| sys::set_option(socket.as_fd(), libc::SOL_UDP, option, 1))
        .map_err(|error| format!("the kernel does not know it: {error}"))
}

fn try_offloads() -> io::Result<UdpOffloads> {
    let mut offloads = UdpOffloads { gso: Ok(()), gro: knows(libc::UDP_GRO) };
    let options = UdpOptions { buffers: Buffers::default(), gso: false, gro: offloads.gro.is_ok() };
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let receiver = UdpSocket::bind(loopback, &options)?;
    let sender = UdpSocket::bind(loopback, &options)?;
    let to = receiver.local_address()?;
    // Without this the loopback device may be down, which says nothing about offloads.
    sender.send_one(&Message { bytes: &[0], to, segment: None })?;
    let mut buffer = vec![0; RECEIVE_SLOT];
    wait_readable(&receiver)?;
    receiver.receive_one(&mut buffer)?;

    for length in [1500, 1401, 1502] {
        let sent: Vec<u8> = (0..length).map(|index: u32| index.wrapping_mul(31).to_le_bytes()[0]).collect();
        if let Err(error) = sender.send_one(&Message { bytes: &sent, to, segment: Some(300) }) {
            offloads.gso = Err(format!("a gso_batch to the loopback device was refused: {error}"));
            break;
        }
        let mut arrived = Vec::new();
        while arrived.len() < sent.len() && wait_readable(&receiver)? {
            let received = receiver.receive_one(&mut buffer)?;
            // Either one datagram, or several of the size that was asked for.
            if received.segment != 300 && received.segment != received.len {
                let size = received.segment;
                offloads.gro = Err(format!("datagrams of 300 bytes were joined as if they had {size}"));
            }
            arrived.extend_from_slice(&buffer[..received.len]);
        }
        if arrived != sent {
            offloads.gso = Err("a gso_batch to the loopback device arrived damaged".to_owned());
        }
    }
    Ok(offloads)
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
mod tests {
    use adit_core::TunnelSettings;

    use super::*;
    use crate::routing::Routing;
    use crate::testing::in_fresh_network;
    use crate::tun::{READ_BUFFER, Tun, TunConfig, VNET_HEADER};

    pub(super) fn options(offloads: bool) -> UdpOptions {
        UdpOptions { buffers: Buffers::default(), gso: offloads, gro: offloads }
    }

    /// Sends one GSO batch and gives the datagrams that arrive.
    fn carry(from: &UdpSocket, to: &UdpSocket, address: SocketAddr, gso_batch: &[u8]) -> Vec<Vec<u8>> {
        from.send(gso_batch, 700, address).unwrap();
        let mut datagrams = Vec::new();
        let mut buffer = vec![0; RECEIVE_SLOT];
        let mut total = 0;
        while total < gso_batch.len() {
            assert!(wait_readable(to).unwrap(), "only {total} of {} bytes came", gso_batch.len());
            let received = to.receive_one(&mut buffer).unwrap();
            assert!(!received.truncated);
            datagrams.extend(buffer[..received.len].chunks(received.segment).map(<[u8]>::to_vec));
            total += received.len;
        }
        datagrams
    }

    #[test]
    fn trains_arrive_with_and_without_offloads() {
        let gso_batch: Vec<u8> = (0..700 * 5 + 123_u32).map(|index| index.to_le_bytes()[0]).collect();
        let expected: Vec<Vec<u8>> = gso_batch.chunks(700).map(<[u8]>::to_vec).collect();
        for (send, receive) in [(true, true), (true, false), (false, true), (false, false)] {
            let to = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(receive)).unwrap();
            let from = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(send)).unwrap();
            let address = to.local_address().unwrap();
            assert_eq!(carry(&from, &to, address, &gso_batch), expected, "gso {send}, gro {receive}");
        }
    }

    #[test]
    fn a_dual_stack_socket_shows_ipv4_as_ipv4() {
        let server = UdpSocket::bind("[::]:0".parse().unwrap(), &options(true)).unwrap();
        let port = server.local_address().unwrap().port();
        let client = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(true)).unwrap();
        client.send(b"hello", 5, ([127, 0, 0, 1], port).into()).unwrap();
        assert!(wait_readable(&server).unwrap());
        let mut buffer = [0; 16];
        let received = server.receive_one(&mut buffer).unwrap();
        assert_eq!(received.from, client.local_address().unwrap());
        server.send(b"back", 4, received.from).unwrap();
        assert!(wait_readable(&client).unwrap());
        assert_eq!(client.receive_one(&mut buffer).unwrap().len, 4);
    }

    #[test]
    fn a_link_local_peer_is_answered() {
        in_fresh_network(|| {
            for command in [
                "link add left type veth peer name right",
                "link set left addrgenmode none up",
                "link set right addrgenmode none up",
                "addr add fe80::1/64 dev left nodad",
                "addr add fe80::2/64 dev right nodad",
            ] {
                let status = std::process::Command::new("ip").args(command.split(' ')).status().unwrap();
                assert!(status.success(), "ip {command}");
            }
            let mut netlink = crate::netlink::Netlink::open().unwrap();
            let [left, right] = ["left", "right"].map(|name| netlink.link(name).unwrap().index);
            let server = UdpSocket::bind("[::]:0".parse().unwrap(), &options(true)).unwrap();
            let port = server.local_address().unwrap().port();
            let own = SocketAddrV6::new("fe80::1".parse().unwrap(), 0, 0, left);
            let client = UdpSocket::bind(own.into(), &options(true)).unwrap();
            client
                .send(b"hello", 5, SocketAddrV6::new("fe80::2".parse().unwrap(), port, 0, left).into())
                .unwrap();
            assert!(wait_readable(&server).unwrap());
            let mut buffer = [0; 16];
            let from = server.receive_one(&mut buffer).unwrap().from;
            assert!(matches!(from, SocketAddr::V6(v6) if v6.scope_id() == right), "{from}");
            server.send(b"back", 4, from).unwrap();
            assert!(wait_readable(&client).unwrap());
            assert_eq!(client.receive_one(&mut buffer).unwrap().len, 4);
        });
    }

    #[test]
    fn segments_beyond_the_mtu_go_out_one_by_one() {
        // The loopback device's MTU is 65,536: two segments do not fit a send at all, so the kernel
        // refuses, and the fallback must deliver.
        let to = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(true)).unwrap();
        let from = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(true)).unwrap();
        let gso_batch = vec![7; 2 * 40_000];
        from.send(&gso_batch, 40_000, to.local_address().unwrap()).unwrap();
        let mut buffer = vec![0; RECEIVE_SLOT];
        for _ in 0..2 {
            assert!(wait_readable(&to).unwrap());
            assert_eq!(to.receive_one(&mut buffer).unwrap().len, 40_000);
        }
    }

    #[test]
    fn this_kernel_has_the_offloads() {
        assert_eq!(self_test(), UdpOffloads { gso: Ok(()), gro: Ok(()) });
    }

    /// A TUN device without any offload is the only way to 10.5.0.0/24.
    pub(super) fn narrow_link(mtu: u16) -> (Tun, Routing) {
        let mut config = TunConfig::default();
        (config.offloads.tun_tcp, config.offloads.tun_udp) = (false, false);
        let tun = Tun::create(&config).unwrap();
        let mut routing = Routing::new(tun.name()).unwrap();
        let addresses = vec!["10.5.0.1/24".parse().unwrap()];
        let settings = TunnelSettings { addresses, mtu, ..TunnelSettings::default() };
        assert_eq!(routing.apply(&settings), []);
        (tun, routing)
    }

    /// The next `count` IPv4 packets that come out of the device, without their headers.
    pub(super) fn payloads(tun: &Tun, count: usize) -> Vec<Vec<u8>> {
        let mut buffer = vec![0; READ_BUFFER];
        let mut found = Vec::new();
        while found.len() < count {
            assert!(readable(tun.as_fd()).unwrap(), "only {} of {count} packets came", found.len());
            let length = tun.read(&mut buffer).unwrap();
            let packet = &buffer[VNET_HEADER..length];
            if packet[0] == 0x45 {
                found.push(packet[20..].to_vec());
            }
        }
        found
    }

    #[test]
    fn a_device_without_offloads_gets_every_datagram() {
        in_fresh_network(|| {
            let (tun, _routing) = narrow_link(1500);
            let socket = UdpSocket::bind("10.5.0.1:0".parse().unwrap(), &options(true)).unwrap();
            let gso_batch: Vec<u8> = (0..5).flat_map(|number| vec![number; 1000]).chain([9; 300]).collect();
            for _ in 0..2 {
                socket.send(&gso_batch, 1000, "10.5.0.2:9".parse().unwrap()).unwrap();
                let payloads = payloads(&tun, 6);
                assert!(payloads.iter().map(|payload| &payload[8..]).eq(gso_batch.chunks(1000)));
            }
        });
    }

    #[test]
    fn a_kernel_without_segmentation_is_not_asked_again() {
        let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(true)).unwrap();
        let to: SocketAddr = "192.0.2.1:9".parse().unwrap();
        assert!(!socket.learn(&io::Error::from_raw_os_error(libc::ENETUNREACH), 1000, to));
        assert!(socket.gso_refusal().is_none());
        assert!(socket.learn(&io::Error::from_raw_os_error(libc::ENOPROTOOPT), 500, to));
        assert_eq!(socket.gso_refusal().unwrap().raw_os_error(), Some(libc::ENOPROTOOPT));
        assert_eq!(socket.longest_segment("198.51.100.1:9".parse().unwrap()), 0);
    }

    #[test]
    fn what_one_path_refuses_holds_for_that_path_alone() {
        let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(true)).unwrap();
        let [narrow, plain, other]: [SocketAddr; 3] =
            ["192.0.2.1:9", "192.0.2.2:9", "192.0.2.3:9"].map(|address| address.parse().unwrap());
        assert!(socket.learn(&io::Error::from_raw_os_error(libc::EMSGSIZE), 1300, narrow));
        // What older kernels say of a device without checksum offload.
        assert!(socket.learn(&io::Error::from_raw_os_error(libc::EIO), 500, plain));
        let longest = [narrow, plain, other].map(|to| socket.longest_segment(to));
        assert_eq!(longest, [1299, 0, usize::from(u16::MAX)]);
        assert!(socket.gso_refusal().is_none(), "other paths use it");
        assert_eq!(socket.gso_limited_destinations(), 2);
    }

    #[test]
    fn a_narrow_path_leaves_the_others_their_large_sends() {
        in_fresh_network(|| {
            let (narrow, _routing) = narrow_link(600);
            let socket = UdpSocket::bind("0.0.0.0:0".parse().unwrap(), &options(true)).unwrap();
            let receiver = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(true)).unwrap();
            std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
            socket.send(&[7; 3000], 1000, "10.5.0.2:9".parse().unwrap()).unwrap();
            payloads(&narrow, 6);
            assert_eq!(socket.gso_limited_destinations(), 1);
            socket.send(&[8; 3000], 1000, receiver.local_address().unwrap()).unwrap();
            assert!(wait_readable(&receiver).unwrap());
            let received = receiver.receive_one(&mut vec![0; RECEIVE_SLOT]).unwrap();
            assert_eq!(
                (received.len, received.segment),
                (3000, 1000),
                "one large send, which loopback keeps whole"
            );
        });
    }

    #[test]
    fn a_peer_at_port_0_changes_nothing_for_its_address() {
        let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options(true)).unwrap();
        let _ = socket.send(&[1; 3000], 1000, "127.0.0.1:0".parse().unwrap());
        assert_eq!(socket.gso_limited_destinations(), 0);
        assert_eq!(socket.longest_segment("127.0.0.1:9".parse().unwrap()), usize::from(u16::MAX));
    }

    #[test]
    fn datagrams_longer_than_the_mtu_travel_in_fragments() {
        in_fresh_network(|| {
            let (tun, _routing) = narrow_link(600);
            let socket = UdpSocket::bind("10.5.0.1:0".parse().unwrap(), &options(true)).unwrap();
            socket.send(&[7; 3000], 1000, "10.5.0.2:9".parse().unwrap()).unwrap();
            let total: usize = payloads(&tun, 6).iter().map(Vec::len).sum();
            assert_eq!(total, 3 * 1008, "three datagrams with a UDP header each");
            assert_eq!(
                socket.longest_segment("10.5.0.2:9".parse().unwrap()),
                999,
                "shorter ones are still cut"
            );
            socket.send(&[8; 1200], 400, "10.5.0.2:9".parse().unwrap()).unwrap();
            assert!(payloads(&tun, 3).iter().all(|payload| payload.len() == 408));
        });
    }
}
