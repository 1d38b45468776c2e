//! The few system calls that have no safe wrapper elsewhere, and code for instructions that not every processor has.
//!
//! All of adit's `unsafe` is in this crate; every other crate forbids it. Each block says why it is sound, and public
//! functions are safe to call.
#![deny(unsafe_op_in_unsafe_fn)]

mod control_buffer;
mod every_thread;
mod inherited;
mod local_address;
mod local_time;
#[cfg(feature = "testing")]
mod namespace;
mod outer_header;
mod own_umask;
mod receive;
mod seccomp;
mod send;
mod tun;
mod unknown_name;
mod vectors;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

pub use self::every_thread::{Step, in_every_thread};
pub use self::inherited::{hand_over, inherited};
pub use self::local_address::{LocalAddress, learn_local_addresses};
pub use self::local_time::{LocalTime, local_time};
#[cfg(feature = "testing")]
pub use self::namespace::enter_fresh_network_namespace;
pub use self::outer_header::learn_traffic_classes;
pub use self::own_umask::unshare_file_system_attributes;
pub use self::receive::{RECEIVE_SLOTS, Received, receive, receive_many};
#[cfg(feature = "testing")]
pub use self::seccomp::call_without_arguments;
pub use self::seccomp::install_filter;
pub use self::send::{MOST_SEGMENTS, Message, SEND_BATCH, send, send_many, send_with_header};
pub use self::tun::{
    tun_attach, tun_flags, tun_set_carrier, tun_set_group, tun_set_header_size, tun_set_offload,
    tun_set_owner, tun_set_persist,
};
pub use self::unknown_name::unknown_name_text;
pub use self::vectors::{Vectors, word_sums};

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// `setsockopt` with an `int` value.
///
/// # Errors
/// The system's refusal, as all functions here.
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
    attach_program(socket, libc::SO_ATTACH_REUSEPORT_CBPF, program)
}

/// Gives a socket a program that says of each packet how many bytes of it the socket takes; 0: none, not even the packet.
pub fn attach_filter(socket: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    attach_program(socket, libc::SO_ATTACH_FILTER, program)
}

fn attach_program(socket: BorrowedFd<'_>, option: libc::c_int, program: &[Instruction]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    // The kernel copies the program and does not write to it.
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: `program` is a live `sock_fprog` that points to `len` instructions laid out as the kernel's.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            ptr::from_ref(&program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    })?;
    Ok(())
}
