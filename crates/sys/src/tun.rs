//! The requests of `/dev/net/tun` (linux/if_tun.h).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::check;

/// `struct ifreq` as `TUNSETIFF` and `TUNGETIFF` use it.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: u16,
    padding: [u8; 22],
}

impl InterfaceRequest {
    const EMPTY: InterfaceRequest =
        InterfaceRequest { name: [0; libc::IFNAMSIZ], flags: 0, padding: [0; 22] };

    fn name(&self) -> String {
        let end = self.name.iter().position(|byte| *byte == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(self.name.get(..end).unwrap_or_default()).into_owned()
    }
}

/// Makes the open `/dev/net/tun` a queue of the device `name` (`tun%d` lets the kernel count), and gives
/// the device's name. A name must be shorter than 16 bytes.
pub fn tun_attach(tun: BorrowedFd<'_>, name: &str, flags: libc::c_int) -> io::Result<String> {
    let mut request = InterfaceRequest { flags: flags as u16, ..InterfaceRequest::EMPTY };
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
    Ok(request.name())
}

/// The name of the device that an open `/dev/net/tun` is a queue of, and with which `IFF_*` flags.
pub fn tun_flags(tun: BorrowedFd<'_>) -> io::Result<(String, libc::c_int)> {
    let mut request = InterfaceRequest::EMPTY;
    // SAFETY: `TUNGETIFF` writes one `struct ifreq`, which `request` is; other drivers know no request of this number,
    // which has the size of an `int` in it.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNGETIFF as _, &mut request) })?;
    Ok((request.name(), request.flags.into()))
}

/// Says which offloads the reader of this TUN understands (`TUN_F_*`).
pub fn tun_set_offload(tun: BorrowedFd<'_>, features: libc::c_uint) -> io::Result<()> {
    // SAFETY: `TUNSETOFFLOAD` takes its argument by value and touches no memory of ours.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD as _, features as libc::c_ulong) })?;
    Ok(())
}

/// Says whether the device outlasts its queues.
pub fn tun_set_persist(tun: BorrowedFd<'_>, persists: bool) -> io::Result<()> {
    // SAFETY: `TUNSETPERSIST` takes its argument by value and touches no memory of ours.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETPERSIST as _, libc::c_ulong::from(persists)) })?;
    Ok(())
}

/// Says whether the device has a carrier: without one its link is down for routing daemons, and the kernel drops packets for it.
pub fn tun_set_carrier(tun: BorrowedFd<'_>, has_carrier: bool) -> io::Result<()> {
    let value = libc::c_int::from(has_carrier);
    // SAFETY: `TUNSETCARRIER` reads one `int` from a pointer to a live one.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETCARRIER as _, &raw const value) })?;
    Ok(())
}

/// Lets the user of that number open the device without a right of its own.
pub fn tun_set_owner(tun: BorrowedFd<'_>, user: u32) -> io::Result<()> {
    // SAFETY: `TUNSETOWNER` takes its argument by value and touches no memory of ours.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOWNER as _, user as libc::c_ulong) })?;
    Ok(())
}

/// Lets the members of the group of that number open the device without a right of their own.
pub fn tun_set_group(tun: BorrowedFd<'_>, group: u32) -> io::Result<()> {
    // SAFETY: `TUNSETGROUP` takes its argument by value and touches no memory of ours.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETGROUP as _, group as libc::c_ulong) })?;
    Ok(())
}

/// Sets the length of the header in front of each packet of a device with `IFF_VNET_HDR`.
pub fn tun_set_header_size(tun: BorrowedFd<'_>, size: usize) -> io::Result<()> {
    let size = libc::c_int::try_from(size).map_err(io::Error::other)?;
    // SAFETY: `TUNSETVNETHDRSZ` reads one `int` from a pointer to a live one.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETVNETHDRSZ as _, &raw const size) })?;
    Ok(())
}
