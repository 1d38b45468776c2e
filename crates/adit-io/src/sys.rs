//! The few system calls that have no safe wrapper elsewhere. All of adit's `unsafe` is in this file.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use socket2::SockAddr;

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

/// What one `recvmsg` brought.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Bytes in the buffer.
    pub(crate) len: usize,
    /// Length of each datagram in the buffer but the last; equal to `len` when there is one.
    pub(crate) segment: usize,
    /// Who sent them.
    pub(crate) from: SocketAddr,
    /// The buffer was too small and the rest is lost.
    pub(crate) truncated: bool,
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

/// One `recvmsg` without waiting. With UDP_GRO it may bring several datagrams of one sender, all of
/// [`Received::segment`] bytes but the last.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    let mut from = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut control = ControlBuffer([0; 64]);
    let mut iov = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all-zero is a valid `msghdr` (null pointers and zero lengths).
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = from.as_mut_ptr().cast();
    message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    message.msg_iov = &mut iov;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: name, iov and control each point to live, exclusively borrowed memory of the length given.
    let read = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
    let len = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the storage was zeroed at creation, and all-zero is a valid `sockaddr_storage`; the kernel
    // wrote at most its size.
    let from = address(unsafe { from.assume_init_ref() })?;
    // SAFETY: `message` is as the kernel left it and `control` is still alive.
    let segment = unsafe { gro_segment(&message) }.filter(|size| *size > 0).unwrap_or(len.max(1));
    Ok(Received { len, segment, from, truncated: message.msg_flags & libc::MSG_TRUNC != 0 })
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

/// One `sendmsg` without waiting. With `segment` the kernel cuts `bytes` into datagrams of that many bytes
/// (UDP_SEGMENT); the last may be shorter.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    to: &SockAddr,
    segment: Option<u16>,
) -> io::Result<()> {
    let mut control = ControlBuffer([0; 64]);
    let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero is a valid `msghdr` (null pointers and zero lengths).
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = to.as_ptr().cast_mut().cast();
    message.msg_namelen = to.len();
    message.msg_iov = &mut iov;
    message.msg_iovlen = 1;
    if let Some(size) = segment {
        message.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: CMSG_SPACE and CMSG_LEN only compute; CMSG_FIRSTHDR points to the start of `control`,
        // which is aligned for a `cmsghdr` and larger than CMSG_SPACE(2).
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(2) as _;
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_UDP;
            (*header).cmsg_type = libc::UDP_SEGMENT;
            (*header).cmsg_len = libc::CMSG_LEN(2) as _;
            ptr::write_unaligned(libc::CMSG_DATA(header).cast::<u16>(), size);
        }
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: name, iov and control point to live memory of the lengths given; the kernel only reads it.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, flags) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
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
