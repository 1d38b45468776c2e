//! Fields of the IP headers around datagrams, as received and as they shall be sent, beside addresses: traffic class
//! and hop limit (`IP_TOS`, `IP_TTL`, `IPV6_TCLASS`, `IPV6_HOPLIMIT`).

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use adit_dataplane::OuterHeader;

use super::control_buffer::ControlBuffer;
use super::set_option;

/// Adds the control messages that give a datagram to that address this header; see [`ControlBuffer::push`].
pub(super) fn put(
    header: OuterHeader,
    to: &SocketAddr,
    control: &mut ControlBuffer,
    mut used: usize,
) -> usize {
    let OuterHeader { traffic_class, hop_limit } = header;
    // A datagram to a mapped address goes by IPv4, also from an IPv6 socket (ip_cmsg_send in Linux's
    // net/ipv4/ip_sockglue.c).
    let (level, class, limit) = match to.ip().to_canonical().is_ipv4() {
        true => (libc::SOL_IP, libc::IP_TOS, libc::IP_TTL),
        false => (libc::SOL_IPV6, libc::IPV6_TCLASS, libc::IPV6_HOPLIMIT),
    };
    if traffic_class != 0 {
        used = control.push(used, level, class, libc::c_int::from(traffic_class));
    }
    if hop_limit != 0 {
        used = control.push(used, level, limit, libc::c_int::from(hop_limit));
    }
    used
}

/// Has the kernel say of each datagram which traffic class the header around it had. A socket for both families reports
/// it of both. A socket of IPv6 for an IP protocol receives nothing by IPv4, and takes no option of IPv4 (`rawv6_setsockopt` in
/// Linux's net/ipv6/raw.c).
///
/// # Errors
/// The system's refusal.
pub fn learn_traffic_classes(socket: BorrowedFd<'_>, v6: bool) -> io::Result<()> {
    if v6 {
        set_option(socket, libc::SOL_IPV6, libc::IPV6_RECVTCLASS, 1)?;
    }
    match set_option(socket, libc::SOL_IP, libc::IP_RECVTOS, 1) {
        Err(error) if v6 && error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(()),
        other => other,
    }
}
