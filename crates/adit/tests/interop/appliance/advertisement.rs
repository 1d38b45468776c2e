//! A router's advertisement with a name server, for the tests (RFC 4861, section 4.2; RFC 8106, section 5.1).

use std::net::{Ipv6Addr, SocketAddrV6};

use adit_testbed::Namespace;
use socket2::{Domain, Protocol, Socket, Type};

/// The flag "other configuration".
const OTHER: u8 = 0x40;
/// All machines of a link.
const ALL: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Advertises a name server, and that there is DHCPv6, by the device `tap0`, once. The router is no default router.
pub(super) fn advertise(namespace: &Namespace, name_server: Ipv6Addr) -> std::io::Result<()> {
    // Type, code, checksum (the kernel's), hop limit, flags, then times of zero.
    let mut message = vec![134, 0, 0, 0, 64, OTHER, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // The option's type, its length in units of eight bytes, and a lifetime of 600 s.
    message.extend_from_slice(&[25, 3, 0, 0, 0, 0, 2, 88]);
    message.extend_from_slice(&name_server.octets());
    let send = || {
        let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))?;
        socket.bind_device(Some(b"tap0"))?;
        socket.set_multicast_hops_v6(255)?;
        socket.send_to(&message, &SocketAddrV6::new(ALL, 0, 0, 0).into())
    };
    namespace.enter(send).map_err(std::io::Error::other)?.map(drop)
}
