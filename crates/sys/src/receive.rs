//! Datagrams received, with the values of their control messages: one `recvmsg`, or many messages by one `recvmmsg`.

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::LocalAddress;
use super::control_buffer::{CONTROL_SIZE, ControlBuffer};

/// A message that was received.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Where its bytes start in the buffer.
    pub at: usize,
    /// How many they are.
    pub len: usize,
    /// Length of each datagram in the buffer but the last; equal to `len` when there is one.
    pub segment: usize,
    /// Their sender.
    pub from: SocketAddr,
    /// The address of ours to which they came, if the socket reports it.
    pub local: Option<LocalAddress>,
    /// The index of the device by which they came, if the socket reports it; else 0.
    pub device: u32,
    /// The traffic class of the header around them, if the socket reports it; else 0.
    pub traffic_class: u8,
    /// The buffer was too small and the rest is lost.
    pub truncated: bool,
}

/// The place where one message is received, to which a `msghdr` points.
struct Place {
    from: libc::sockaddr_storage,
    piece: libc::iovec,
    control: ControlBuffer,
}

impl Place {
    fn new(buffer: &mut [u8]) -> Place {
        Place {
            // SAFETY: all-zero is a valid `sockaddr_storage`.
            from: unsafe { mem::zeroed() },
            piece: libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() },
            control: ControlBuffer([0; CONTROL_SIZE]),
        }
    }

    /// A header that points into this place, which must stay where it is while the header is used.
    fn header(&mut self) -> libc::msghdr {
        // SAFETY: all-zero is a valid `msghdr` (null pointers and zero lengths).
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_name = ptr::from_mut(&mut self.from).cast();
        header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        header.msg_iov = &mut self.piece;
        header.msg_iovlen = 1;
        header.msg_control = self.control.0.as_mut_ptr().cast();
        header.msg_controllen = self.control.0.len() as _;
        header
    }
}

/// The message that the kernel described in a header: `len` bytes at `at` of the caller's buffer.
///
/// # Safety
/// `header` must come from a [`Place`] that is still alive, and a receive must have filled it.
unsafe fn received(header: &libc::msghdr, at: usize, len: usize) -> io::Result<Received> {
    // SAFETY: the caller vouches for the header: its name is the `sockaddr_storage` of a place, which was
    // zeroed at creation, and the kernel wrote at most its size.
    let from = address(unsafe { &*header.msg_name.cast::<libc::sockaddr_storage>() })?;
    // SAFETY: the caller vouches that the receive succeeded and that the control buffer is alive.
    let Told { segment, local, device, traffic_class } = unsafe { control_messages(header) };
    let segment = segment.filter(|size| *size > 0).unwrap_or(len.max(1));
    let truncated = header.msg_flags & libc::MSG_TRUNC != 0;
    Ok(Received { at, len, segment, from, local, device, traffic_class, truncated })
}

/// One `recvmsg` without waiting. With UDP_GRO it may bring several datagrams of one sender, all of
/// [`Received::segment`] bytes but the last.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    let mut place = Place::new(buffer);
    let mut header = place.header();
    // SAFETY: name, iov and control each point to live, exclusively borrowed memory of the length given.
    let read = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_DONTWAIT) };
    let len = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the receive succeeded, and `place` is alive.
    unsafe { received(&header, 0, len) }
}

/// Messages that one call of [`receive_many`] brings at most.
pub const RECEIVE_SLOTS: usize = 8;

/// One `recvmmsg` without waiting: each message into its own `slot` bytes of `buffer`, up to
/// [`RECEIVE_SLOTS`] of them. They are put into `found`, which is cleared first; fewer than slots means that
/// none is left in the socket. A message from no IP address is passed over.
pub fn receive_many(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    slot: usize,
    found: &mut Vec<Received>,
) -> io::Result<()> {
    found.clear();
    let mut places = [const { MaybeUninit::<Place>::uninit() }; RECEIVE_SLOTS];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; RECEIVE_SLOTS];
    let mut count: libc::c_uint = 0;
    for ((bytes, place), header) in buffer.chunks_exact_mut(slot).zip(&mut places).zip(&mut headers) {
        let msg_hdr = place.write(Place::new(bytes)).header();
        header.write(libc::mmsghdr { msg_hdr, msg_len: 0 });
        count += 1;
    }
    // SAFETY: the first `count` headers were written. Their pointers lead into `places`, which is not moved,
    // and into disjoint parts of `buffer`, which is exclusively borrowed. A null timeout is none.
    let taken = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            count,
            libc::MSG_DONTWAIT,
            ptr::null_mut(),
        )
    };
    let taken = usize::try_from(taken).map_err(|_| io::Error::last_os_error())?;
    for (index, header) in headers.iter().take(taken).enumerate() {
        // SAFETY: `taken` is at most `count`, so this header was written; its receive succeeded, and its
        // place is alive.
        let message = unsafe {
            let header = header.assume_init_ref();
            received(&header.msg_hdr, index * slot, header.msg_len as usize)
        };
        found.extend(message);
    }
    Ok(())
}

/// The properties of a message that its control messages tell.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// The segment size that UDP_GRO reports.
    segment: Option<usize>,
    local: Option<LocalAddress>,
    device: u32,
    traffic_class: u8,
}

/// Reads the control messages.
///
/// # Safety
/// `message` must come from a successful `recvmsg` whose control buffer is still alive.
unsafe fn control_messages(message: &libc::msghdr) -> Told {
    let mut told = Told::default();
    // SAFETY: the caller vouches for the message; the CMSG functions stay within msg_controllen, and a value is read only
    // when the header says that all of it is there, without assuming its alignment. Any bytes are valid values.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            let len = (*header).cmsg_len as usize;
            let holds = |size: usize| len >= libc::CMSG_LEN(size as libc::c_uint) as usize;
            let data = libc::CMSG_DATA(header);
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) if holds(size_of::<libc::c_int>()) => {
                    let size = ptr::read_unaligned(data.cast::<libc::c_int>());
                    told.segment = usize::try_from(size).ok();
                }
                (libc::SOL_IP, libc::IP_PKTINFO) if holds(size_of::<libc::in_pktinfo>()) => {
                    let info = ptr::read_unaligned(data.cast::<libc::in_pktinfo>());
                    told.local = LocalAddress::of_v4(&info);
                    told.device = u32::try_from(info.ipi_ifindex).unwrap_or_default();
                }
                (libc::SOL_IPV6, libc::IPV6_PKTINFO) if holds(size_of::<libc::in6_pktinfo>()) => {
                    let info = ptr::read_unaligned(data.cast::<libc::in6_pktinfo>());
                    (told.local, told.device) = (LocalAddress::of_v6(&info), info.ipi6_ifindex);
                }
                // One byte (ip_cmsg_recv_tos in Linux's net/ipv4/ip_sockglue.c).
                (libc::SOL_IP, libc::IP_TOS) if holds(size_of::<u8>()) => {
                    told.traffic_class = ptr::read_unaligned(data.cast::<u8>());
                }
                (libc::SOL_IPV6, libc::IPV6_TCLASS) if holds(size_of::<libc::c_int>()) => {
                    let class = ptr::read_unaligned(data.cast::<libc::c_int>());
                    told.traffic_class = u8::try_from(class).unwrap_or_default();
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    told
}

fn address(storage: &libc::sockaddr_storage) -> io::Result<SocketAddr> {
    let pointer = ptr::from_ref(storage);
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: a `sockaddr_storage` is larger than and aligned for any socket address; the family
            // says that it holds a `sockaddr_in`.
            let address = unsafe { &*pointer.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            Ok(SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: a `sockaddr_storage` is larger than and aligned for any socket address; the family says
            // that it holds a `sockaddr_in6`.
            let address = unsafe { &*pointer.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            let port = u16::from_be(address.sin6_port);
            Ok(SocketAddrV6::new(ip, port, 0, address.sin6_scope_id).into())
        }
        family => Err(io::Error::other(format!("a datagram came from address family {family}"))),
    }
}
