//! The few system calls that have no safe wrapper elsewhere. All of adit's `unsafe` is in this file and below it.
#![allow(unsafe_code)]

mod every_thread;
mod vectors;

use std::ffi::CStr;
use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use socket2::SockAddr;

pub(crate) use self::every_thread::{Step, in_every_thread};
pub(crate) use self::vectors::Vectors;

/// `struct ifreq` as `TUNSETIFF` uses it.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: u16,
    padding: [u8; 22],
}

/// Room for the control messages that we send and receive, aligned as `struct cmsghdr` must be.
#[repr(C, align(8))]
struct ControlBuffer([u8; 64]);

/// What one message of a receive brought.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Where its bytes start in the buffer.
    pub(crate) at: usize,
    /// How many they are.
    pub(crate) len: usize,
    /// Length of each datagram in the buffer but the last; equal to `len` when there is one.
    pub(crate) segment: usize,
    /// Who sent them.
    pub(crate) from: SocketAddr,
    /// The buffer was too small and the rest is lost.
    pub(crate) truncated: bool,
}

/// A moment as clocks show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalTime {
    pub(crate) year: i32,
    /// From 1.
    pub(crate) month: i32,
    pub(crate) day: i32,
    pub(crate) hour: i32,
    pub(crate) minute: i32,
    pub(crate) second: i32,
}

/// What clocks of this place show so many seconds after 1970. `None` beyond what they can show.
pub(crate) fn local_time(seconds: u64) -> Option<LocalTime> {
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

/// Makes the open `/dev/net/tun` a queue of the device `name` (`tun%d` lets the kernel count), and gives
/// the device's name. A name must be shorter than 16 bytes.
pub(crate) fn tun_attach(tun: BorrowedFd<'_>, name: &str, flags: libc::c_int) -> io::Result<String> {
    let mut request = InterfaceRequest { name: [0; libc::IFNAMSIZ], flags: flags as u16, padding: [0; 22] };
    let bytes = name.as_bytes();
    if bytes.len() >= request.name.len() || bytes.contains(&0) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    for (to, from) in request.name.iter_mut().zip(bytes) {
        *to = *from;
    }
    // SAFETY: `TUNSETIFF` reads and writes one `struct ifreq` (40 bytes on every 64-bit target, less on
    // 32-bit ones), which `request` is; the descriptor is open for the length of the call.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF as _, &mut request) })?;
    let end = request.name.iter().position(|byte| *byte == 0).unwrap_or(request.name.len());
    Ok(String::from_utf8_lossy(&request.name[..end]).into_owned())
}

/// Says which offloads the reader of this TUN understands (`TUN_F_*`).
pub(crate) fn tun_set_offload(tun: BorrowedFd<'_>, features: libc::c_uint) -> io::Result<()> {
    // SAFETY: `TUNSETOFFLOAD` takes its argument by value and touches no memory of ours.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD as _, features as libc::c_ulong) })?;
    Ok(())
}

/// `setsockopt` with an `int` value.
pub(crate) fn set_option(
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
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) jump_true: u8,
    pub(crate) jump_false: u8,
    pub(crate) k: u32,
}

/// Gives the group of sockets that share this socket's address (SO_REUSEPORT) a program that chooses among
/// them: it sees a datagram's payload and returns a socket's number in the order of binding.
pub(crate) fn attach_reuseport_program(socket: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
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
            control: ControlBuffer([0; 64]),
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
    let segment = unsafe { gro_segment(header) }.filter(|size| *size > 0).unwrap_or(len.max(1));
    Ok(Received { at, len, segment, from, truncated: header.msg_flags & libc::MSG_TRUNC != 0 })
}

/// One `recvmsg` without waiting. With UDP_GRO it may bring several datagrams of one sender, all of
/// [`Received::segment`] bytes but the last.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    let mut place = Place::new(buffer);
    let mut header = place.header();
    // SAFETY: name, iov and control each point to live, exclusively borrowed memory of the length given.
    let read = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_DONTWAIT) };
    let len = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the receive succeeded, and `place` is alive.
    unsafe { received(&header, 0, len) }
}

/// Messages that one call of [`receive_many`] brings at most.
pub(crate) const RECEIVE_SLOTS: usize = 8;

/// One `recvmmsg` without waiting: each message into its own `slot` bytes of `buffer`, up to
/// [`RECEIVE_SLOTS`] of them. They are put into `found`, which is cleared first; fewer than slots means that
/// none is left in the socket. A message from no IP address is passed over.
pub(crate) fn receive_many(
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

/// The segment size that UDP_GRO reports.
///
/// # Safety
/// `message` must come from a successful `recvmsg` whose control buffer is still alive.
unsafe fn gro_segment(message: &libc::msghdr) -> Option<usize> {
    // SAFETY: the caller vouches for the message; the CMSG functions stay within msg_controllen, and the
    // value is read only when the header says that it is there, without assuming its alignment.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            let is_gro = (*header).cmsg_level == libc::SOL_UDP && (*header).cmsg_type == libc::UDP_GRO;
            if is_gro && (*header).cmsg_len as usize >= libc::CMSG_LEN(4) as usize {
                let size = ptr::read_unaligned(libc::CMSG_DATA(header).cast::<libc::c_int>());
                return usize::try_from(size).ok();
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
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
pub(crate) struct Message<'a> {
    /// The bytes of all of them.
    pub(crate) bytes: &'a [u8],
    /// Where to, in the socket's own address family.
    pub(crate) to: SocketAddr,
    /// Bytes of each datagram, the last may be shorter; `None` sends one datagram.
    pub(crate) segment: Option<u16>,
}

impl Message<'_> {
    /// An empty message without an address: the initial value of array elements.
    pub(crate) const NONE: Message<'static> = Message {
        bytes: &[],
        to: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
        segment: None,
    };
}

/// Messages that one call of [`send_many`] takes at most.
pub(crate) const SEND_BATCH: usize = 64;

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
            control: ControlBuffer([0; 64]),
        }
    }

    /// A header that points into these parts, which must stay where they are while it is used.
    fn header(&mut self, segment: Option<u16>) -> libc::msghdr {
        // SAFETY: all-zero is a valid `msghdr` (null pointers and zero lengths).
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_name = self.name.as_ptr().cast_mut().cast();
        header.msg_namelen = self.name.len();
        header.msg_iov = &mut self.piece;
        header.msg_iovlen = 1;
        if let Some(size) = segment {
            header.msg_control = self.control.0.as_mut_ptr().cast();
            // SAFETY: CMSG_SPACE and CMSG_LEN only compute; CMSG_FIRSTHDR points to the start of `control`,
            // which is aligned for a `cmsghdr` and larger than CMSG_SPACE(2).
            unsafe {
                header.msg_controllen = libc::CMSG_SPACE(2) as _;
                let control = libc::CMSG_FIRSTHDR(&header);
                (*control).cmsg_level = libc::SOL_UDP;
                (*control).cmsg_type = libc::UDP_SEGMENT;
                (*control).cmsg_len = libc::CMSG_LEN(2) as _;
                ptr::write_unaligned(libc::CMSG_DATA(control).cast::<u16>(), size);
            }
        }
        header
    }
}

/// One `sendmsg` without waiting.
pub(crate) fn send(socket: BorrowedFd<'_>, message: &Message<'_>) -> io::Result<()> {
    let mut parts = Parts::of(message);
    let header = parts.header(message.segment);
    // SAFETY: name, iov and control point into `parts` and `message`, which outlive the call; the kernel
    // only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &header, SEND_FLAGS) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// One `sendmmsg` without waiting, of up to [`SEND_BATCH`] messages in order. Gives how many were taken; an
/// error means that the first was not.
pub(crate) fn send_many(socket: BorrowedFd<'_>, messages: &[Message<'_>]) -> io::Result<usize> {
    let mut all_parts = [const { MaybeUninit::<Parts>::uninit() }; SEND_BATCH];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; SEND_BATCH];
    let mut count: libc::c_uint = 0;
    for ((message, parts), header) in messages.iter().zip(&mut all_parts).zip(&mut headers) {
        let msg_hdr = parts.write(Parts::of(message)).header(message.segment);
        header.write(libc::mmsghdr { msg_hdr, msg_len: 0 });
        count += 1;
    }
    // SAFETY: the first `count` headers were written; what they point to lies in `all_parts` and `messages`,
    // which are not moved and outlive the call. The kernel writes `msg_len` alone.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr().cast(), count, SEND_FLAGS) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// The resolver's words for "there is no such name" (`EAI_NONAME`).
pub(crate) fn unknown_name_text() -> String {
    // SAFETY: `gai_strerror` gives a pointer to a constant, NUL-terminated text for any number.
    let text = unsafe { CStr::from_ptr(libc::gai_strerror(libc::EAI_NONAME)) };
    text.to_string_lossy().into_owned()
}

/// Moves this thread, and those it starts from now on, into a fresh network namespace.
#[cfg(test)]
pub(crate) fn enter_fresh_network_namespace() -> io::Result<()> {
    // SAFETY: CLONE_NEWNET does not touch the descriptor table, which is what makes `unshare` unsafe.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }?;
    Ok(())
}
