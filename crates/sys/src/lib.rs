//! The few system calls that have no safe wrapper elsewhere, and code for instructions that not every processor has.
//!
//! All of adit's `unsafe` is in this crate; every other crate forbids it. Each block says why it is sound, and what is public is
//! safe to call.
#![deny(unsafe_op_in_unsafe_fn)]

mod every_thread;
mod inherited;
mod local_address;
mod outer_header;
mod own_umask;
mod seccomp;
mod tun;
mod vectors;

use std::ffi::CStr;
use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use adit_dataplane::OuterHeader;
use socket2::SockAddr;

pub use self::every_thread::{Step, in_every_thread};
pub use self::inherited::{hand_over, inherited};
pub use self::local_address::{LocalAddress, learn_local_addresses};
pub use self::outer_header::learn_traffic_classes;
pub use self::own_umask::unshare_file_system_attributes;
#[cfg(feature = "testing")]
pub use self::seccomp::call_without_arguments;
pub use self::seccomp::install_filter;
pub use self::tun::{
    tun_attach, tun_flags, tun_set_group, tun_set_header_size, tun_set_offload, tun_set_owner,
    tun_set_persist,
};
pub use self::vectors::{Vectors, word_sums};

/// Bytes of all control messages that one message of ours may have: a segment size, an IPv6 source address, traffic class and
/// hop limit, each with its header on a 64-bit machine.
const CONTROL_SIZE: usize = 24 + 40 + 24 + 24;

/// Room for the control messages that we send and receive, aligned as `struct cmsghdr` must be.
#[repr(C, align(8))]
struct ControlBuffer([u8; CONTROL_SIZE]);

impl ControlBuffer {
    /// Appends a control message behind the `used` bytes. Gives how many are used then: the same if there is no room.
    fn push<T: Copy>(&mut self, used: usize, level: libc::c_int, kind: libc::c_int, value: T) -> usize {
        let size = size_of::<T>() as libc::c_uint;
        // SAFETY: they only compute.
        let (space, len, data) =
            unsafe { (libc::CMSG_SPACE(size) as usize, libc::CMSG_LEN(size), libc::CMSG_LEN(0) as usize) };
        let Some(place) = self.0.get_mut(used..used + space) else { return used };
        // SAFETY: all-zero is a valid `cmsghdr`.
        let mut header: libc::cmsghdr = unsafe { mem::zeroed() };
        (header.cmsg_len, header.cmsg_level, header.cmsg_type) = (len as _, level, kind);
        // SAFETY: `place` has CMSG_SPACE(size) bytes, which are a header, padding up to CMSG_LEN(0), and room for the value.
        // Neither write assumes an alignment.
        unsafe {
            ptr::write_unaligned(place.as_mut_ptr().cast(), header);
            ptr::write_unaligned(place.as_mut_ptr().add(data).cast(), value);
        }
        used + space
    }
}

/// What one message of a receive brought.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Where its bytes start in the buffer.
    pub at: usize,
    /// How many they are.
    pub len: usize,
    /// Length of each datagram in the buffer but the last; equal to `len` when there is one.
    pub segment: usize,
    /// Who sent them.
    pub from: SocketAddr,
    /// Which of our addresses they came to, if the socket was told to say it.
    pub local: Option<LocalAddress>,
    /// The index of the device by which they came, if the socket was told to say it; else 0.
    pub device: u32,
    /// The traffic class of the header around them, if the socket was told to say it; else 0.
    pub traffic_class: u8,
    /// The buffer was too small and the rest is lost.
    pub truncated: bool,
}

/// A moment as clocks show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// The year of the Gregorian calendar.
    pub year: i32,
    /// From 1.
    pub month: i32,
    /// From 1.
    pub day: i32,
    /// From 0 to 23.
    pub hour: i32,
    /// From 0.
    pub minute: i32,
    /// From 0; 60 in a leap second.
    pub second: i32,
}

/// What clocks of this place show so many seconds after 1970. `None` beyond what they can show.
pub fn local_time(seconds: u64) -> Option<LocalTime> {
    let seconds = libc::time_t::try_from(seconds).ok()?;
    let mut time = MaybeUninit::<libc::tm>::uninit();
    // SAFETY: both point to values of their types that live through the call. The environment, which the call may
    // read, never changes: `std::env::set_var` is unsafe, and no code here calls it.
    let result = unsafe { libc::localtime_r(&seconds, time.as_mut_ptr()) };
    if result.is_null() {
        return None;
    }
    // SAFETY: the call succeeded and has filled it in.
    let time = unsafe { time.assume_init() };
    let (year, month) = (time.tm_year + 1900, time.tm_mon + 1);
    Some(LocalTime {
        year,
        month,
        day: time.tm_mday,
        hour: time.tm_hour,
        minute: time.tm_min,
        second: time.tm_sec,
    })
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// `setsockopt` with an `int` value.
///
/// # Errors
/// What the system refuses, as all functions here.
pub fn set_option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of::<c_int>()` bytes from a pointer to a live `c_int`.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            ptr::from_ref(&value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// One instruction of a classic BPF program: `struct sock_filter` (linux/filter.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// Instructions that a condition which holds passes over.
    pub jump_true: u8,
    /// Instructions that a condition which does not hold passes over.
    pub jump_false: u8,
    /// The operand.
    pub k: u32,
}

/// Gives the group of sockets that share this socket's address (SO_REUSEPORT) a program that chooses among
/// them: it sees a datagram's payload and returns a socket's number in the order of binding.
pub fn attach_reuseport_program(socket: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    // The kernel copies the program and does not write to it.
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: `program` is a live `sock_fprog` that points to `len` instructions laid out as the kernel's.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            ptr::from_ref(&program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// Where one message is received: what a `msghdr` points to.
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

/// What the kernel left in a header: `len` bytes at `at` of the caller's buffer.
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
    // SAFETY: the first `count` headers were written. What they point to lies in `places`, which is not
    // moved, and in disjoint parts of `buffer`, which is exclusively borrowed. A null timeout is none.
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

/// What control messages say of a message that was received.
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
            // SAFETY: as above, for `sockaddr_in6`.
            let address = unsafe { &*pointer.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            let port = u16::from_be(address.sin6_port);
            Ok(SocketAddrV6::new(ip, port, 0, address.sin6_scope_id).into())
        }
        family => Err(io::Error::other(format!("a datagram came from address family {family}"))),
    }
}

/// A datagram to send, or equal datagrams in a row that the kernel shall cut (UDP_SEGMENT).
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The bytes of all of them.
    pub bytes: &'a [u8],
    /// Where to, in the socket's own address family.
    pub to: SocketAddr,
    /// Bytes of each datagram, the last may be shorter; `None` sends one datagram.
    pub segment: Option<u16>,
    /// What the IP header around each shall have.
    pub outer: OuterHeader,
}

impl Message<'_> {
    /// An empty message without an address: the initial value of array elements.
    pub const NONE: Message<'static> = Message {
        bytes: &[],
        to: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
        segment: None,
        outer: OuterHeader { traffic_class: 0, hop_limit: 0 },
    };
}

/// Datagrams that the kernel cuts a message into at most (linux/udp.h `UDP_MAX_SEGMENTS`; later kernels allow more).
pub const MOST_SEGMENTS: usize = 64;

/// Messages that one call of [`send_many`] takes at most.
pub const SEND_BATCH: usize = 64;

const SEND_FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// What a `msghdr` points to.
struct Parts {
    name: SockAddr,
    piece: libc::iovec,
    control: ControlBuffer,
}

impl Parts {
    fn of(message: &Message<'_>) -> Parts {
        let bytes = message.bytes;
        Parts {
            name: message.to.into(),
            piece: libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() },
            control: ControlBuffer([0; CONTROL_SIZE]),
        }
    }

    /// A header that points into these parts, which must stay where they are while it is used.
    fn header(&mut self, message: &Message<'_>, source: Option<LocalAddress>) -> libc::msghdr {
        // SAFETY: all-zero is a valid `msghdr` (null pointers and zero lengths).
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_name = self.name.as_ptr().cast_mut().cast();
        header.msg_namelen = self.name.len();
        header.msg_iov = &mut self.piece;
        header.msg_iovlen = 1;
        let mut used = 0;
        if let Some(size) = message.segment {
            used = self.control.push(used, libc::SOL_UDP, libc::UDP_SEGMENT, size);
        }
        if let Some(source) = source {
            used = source.put(&mut self.control, used);
        }
        if message.outer != OuterHeader::default() {
            used = outer_header::put(message.outer, &message.to, &mut self.control, used);
        }
        if used > 0 {
            header.msg_control = self.control.0.as_mut_ptr().cast();
            header.msg_controllen = used as _;
        }
        header
    }
}

/// One `sendmsg` without waiting, from that local address or, without one, from that which the system chooses.
pub fn send(socket: BorrowedFd<'_>, message: &Message<'_>, source: Option<LocalAddress>) -> io::Result<()> {
    let mut parts = Parts::of(message);
    let header = parts.header(message, source);
    // SAFETY: name, iov and control point into `parts` and `message`, which outlive the call; the kernel
    // only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &header, SEND_FLAGS) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The same with `header` before each of the message's datagrams. Of more than [`MOST_SEGMENTS`] datagrams those beyond are not
/// sent.
pub fn send_with_header(
    socket: BorrowedFd<'_>,
    header: &[u8],
    message: &Message<'_>,
    source: Option<LocalAddress>,
) -> io::Result<()> {
    let piece =
        |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut pieces = [const { libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 } }; 2 * MOST_SEGMENTS];
    let mut count = 0;
    let segment = message.segment.map_or(message.bytes.len(), usize::from).max(1);
    for (place, datagram) in pieces.chunks_exact_mut(2).zip(message.bytes.chunks(segment)) {
        place.copy_from_slice(&[piece(header), piece(datagram)]);
        count += 2;
    }
    let cut = message.segment.and_then(|size| size.checked_add(u16::try_from(header.len()).ok()?));
    let mut parts = Parts::of(message);
    let mut whole = parts.header(&Message { segment: cut, ..*message }, source);
    whole.msg_iov = pieces.as_mut_ptr();
    whole.msg_iovlen = count;
    // SAFETY: name and control point into `parts`, iov to the first `count` of `pieces`, and these into `header` and `message`;
    // all outlive the call, and the kernel only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &whole, SEND_FLAGS) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// One `sendmmsg` without waiting, of up to [`SEND_BATCH`] messages in order, all from the same address as with [`send`].
/// Gives how many were taken; an error means that the first was not.
pub fn send_many(
    socket: BorrowedFd<'_>,
    messages: &[Message<'_>],
    source: Option<LocalAddress>,
) -> io::Result<usize> {
    let mut all_parts = [const { MaybeUninit::<Parts>::uninit() }; SEND_BATCH];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; SEND_BATCH];
    let mut count: libc::c_uint = 0;
    for ((message, parts), header) in messages.iter().zip(&mut all_parts).zip(&mut headers) {
        let msg_hdr = parts.write(Parts::of(message)).header(message, source);
        header.write(libc::mmsghdr { msg_hdr, msg_len: 0 });
        count += 1;
    }
    // SAFETY: the first `count` headers were written; what they point to lies in `all_parts` and `messages`,
    // which are not moved and outlive the call. The kernel writes `msg_len` alone.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr().cast(), count, SEND_FLAGS) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// The resolver's words for "there is no such name" (`EAI_NONAME`).
pub fn unknown_name_text() -> String {
    // SAFETY: `gai_strerror` gives a pointer to a constant, NUL-terminated text for any number.
    let text = unsafe { CStr::from_ptr(libc::gai_strerror(libc::EAI_NONAME)) };
    text.to_string_lossy().into_owned()
}

/// Moves this thread, and those it starts from now on, into a fresh network namespace.
///
/// # Errors
/// Without `CAP_SYS_ADMIN`.
#[cfg(feature = "testing")]
pub fn enter_fresh_network_namespace() -> io::Result<()> {
    // SAFETY: CLONE_NEWNET does not touch the descriptor table, which is what makes `unshare` unsafe.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }?;
    Ok(())
}
