//! Control messages that go with a datagram that is sent (cmsg(3)).

use std::{mem, ptr};

/// Bytes of all control messages that one message of ours may have: a segment size, an IPv6 source address, traffic
/// class and hop limit, each with its header on a 64-bit machine.
pub(super) const CONTROL_SIZE: usize = 24 + 40 + 24 + 24;

/// Room for the control messages that we send and receive, aligned as `struct cmsghdr` must be.
#[repr(C, align(8))]
pub(super) struct ControlBuffer(pub(super) [u8; CONTROL_SIZE]);

impl ControlBuffer {
    /// Appends a control message behind the `used` bytes. Gives how many are used then: the same if there is no room.
    pub(super) fn push<T: Copy>(
        &mut self,
        used: usize,
        level: libc::c_int,
        kind: libc::c_int,
        value: T,
    ) -> usize {
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
