//! A server of stateless DHCPv6 for the tests (RFC 8415, section 18.3.6).

use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::thread::JoinHandle;
use std::time::Duration;

use adit_testbed::Namespace;
use socket2::{Domain, Socket, Type};

/// The address of all servers.
const SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);

/// Answers one question that comes by the device `tap0`, with a name server. The thread ends with that, or after `limit`.
pub(super) fn answer_once(namespace: &Namespace, name_server: Ipv6Addr, limit: Duration) -> JoinHandle<()> {
    let listing = namespace.ip(&["-oneline", "link", "show", "dev", "tap0"]).unwrap();
    let index = listing.split(':').next().unwrap().trim().parse().unwrap();
    let open = || {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM, None).unwrap();
        socket.bind_device(Some(b"tap0")).unwrap();
        socket.bind(&SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 547, 0, 0).into()).unwrap();
        socket.join_multicast_v6(&SERVERS, index).unwrap();
        UdpSocket::from(socket)
    };
    let socket = namespace.enter(open).unwrap();
    socket.set_read_timeout(Some(limit)).unwrap();
    std::thread::spawn(move || {
        let mut question = [0; 1500];
        let Ok((length, from)) = socket.recv_from(&mut question) else { return };
        // The number of the exchange, and the client's number, which is the first option: four bytes and ten.
        let mut reply = question[..18.min(length)].to_vec();
        assert_eq!((reply[0], &reply[4..8]), (11, &[0, 1, 0, 10][..]));
        reply[0] = 7;
        reply.extend_from_slice(&[0, 2, 0, 10, 0, 3, 0, 1, 2, 0, 0, 0, 0, 1]);
        reply.extend_from_slice(&[0, 23, 0, 16]);
        reply.extend_from_slice(&name_server.octets());
        let _ = socket.send_to(&reply, from);
    })
}
