//! Local addresses of datagrams: where received ones came to (`IP_PKTINFO`, `IPV6_RECVPKTINFO`), and where those that are
//! sent shall leave from.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::BorrowedFd;

use super::control_buffer::ControlBuffer;
use super::set_option;

/// A local address of a datagram, in the socket's own address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalAddress {
    /// The address itself.
    pub ip: IpAddr,
    /// The device that a link-local IPv6 address belongs to; 0 for all other addresses, which hold for all devices.
    pub device: u32,
}

impl LocalAddress {
    /// The address in an `in_pktinfo`. `None`: an address that nothing can leave from.
    pub(super) fn of_v4(info: &libc::in_pktinfo) -> Option<Self> {
        // Not `ipi_addr`, which may be a broadcast address.
        let ip = Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr));
        (!ip.is_unspecified()).then_some(LocalAddress { ip: ip.into(), device: 0 })
    }

    /// The address in an `in6_pktinfo`. `None`: an address that nothing can leave from.
    pub(super) fn of_v6(info: &libc::in6_pktinfo) -> Option<Self> {
        let ip = Ipv6Addr::from(info.ipi6_addr.s6_addr);
        let device = if ip.is_unicast_link_local() { info.ipi6_ifindex } else { 0 };
        (!ip.is_unspecified() && !ip.is_multicast()).then_some(LocalAddress { ip: ip.into(), device })
    }

    /// Adds the control message that has a datagram leave from here; see [`ControlBuffer::push`].
    pub(super) fn put(&self, control: &mut ControlBuffer, used: usize) -> usize {
        match self.ip {
            IpAddr::V4(ip) => {
                let address = libc::in_addr { s_addr: u32::from(ip).to_be() };
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: address,
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                control.push(used, libc::SOL_IP, libc::IP_PKTINFO, info)
            }
            IpAddr::V6(ip) => {
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr { s6_addr: ip.octets() },
                    ipi6_ifindex: self.device,
                };
                control.push(used, libc::SOL_IPV6, libc::IPV6_PKTINFO, info)
            }
        }
    }
}

/// Has the kernel say of each datagram where it came to.
pub fn learn_local_addresses(socket: BorrowedFd<'_>, v6: bool) -> io::Result<()> {
    match v6 {
        true => set_option(socket, libc::SOL_IPV6, libc::IPV6_RECVPKTINFO, 1),
        false => set_option(socket, libc::SOL_IP, libc::IP_PKTINFO, 1),
    }
}
