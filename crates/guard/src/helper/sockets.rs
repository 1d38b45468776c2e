//! UDP sockets that the helper binds and marks for its tunnel.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use adit_io::{SocketChannel, UdpOptions, UdpSocket};
use socket2::{Protocol, SockRef};

use super::channel::Channel;
use super::request::{Refusal, Request, SocketRequest};

/// The tunnel's end.
#[derive(Debug)]
pub(super) struct HelperSockets {
    channel: Channel,
}

impl HelperSockets {
    pub(super) fn new(channel: Channel) -> Self {
        HelperSockets { channel }
    }
}

impl SocketChannel for HelperSockets {
    fn bind(&self, port: u16, v6: bool, shared: bool) -> io::Result<OwnedFd> {
        self.channel.send(&Request::Socket(SocketRequest::Bind { port, v6, shared }))?;
        let (answer, socket): (Result<(), Refusal>, _) = self.channel.receive()?;
        answer?;
        socket.ok_or_else(|| io::Error::other("an answer without a socket"))
    }

    fn mark(&self, socket: BorrowedFd<'_>, mark: u32) -> io::Result<()> {
        self.channel.send_with(&Request::Socket(SocketRequest::Mark(mark)), Some(socket))?;
        let (answer, _): (Result<(), Refusal>, _) = self.channel.receive()?;
        Ok(answer?)
    }
}

/// The helper's end: carries out the requests.
pub(super) fn serve(
    channel: &Channel,
    request: SocketRequest,
    (options, descriptor): (&UdpOptions, Option<OwnedFd>),
) -> io::Result<()> {
    match request {
        SocketRequest::Bind { port, v6, shared } => {
            match UdpSocket::bind_to_port(port, v6, shared, options) {
                Ok(socket) => channel.send_with(&Ok::<(), Refusal>(()), Some(socket.as_fd())),
                Err(error) => channel.send(&Err::<(), _>(Refusal::from(error))),
            }
        }
        SocketRequest::Mark(mark) => channel.send(&set_mark(descriptor, mark).map_err(Refusal::from)),
    }
}

fn set_mark(socket: Option<OwnedFd>, mark: u32) -> io::Result<()> {
    let socket = socket.ok_or(io::ErrorKind::InvalidInput)?;
    let socket = SockRef::from(&socket);
    if socket.protocol()? != Some(Protocol::UDP) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "no UDP socket"));
    }
    socket.set_mark(mark)
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use adit_io::{Buffers, DriverHelper as _, RefusalCheck};
    use adit_system::SocketRouting;
    use adit_system::testing::in_fresh_network;

    use super::*;
    use crate::helper::{Helper, Policy};

    #[test]
    fn sockets_are_bound_and_marked_if_the_policy_says_so() {
        let buffers = Buffers { sndbuf: None, rcvbuf: None };
        let udp = Some(UdpOptions { buffers, gso: true, gro: true, routing: SocketRouting::default() });
        in_fresh_network(move || {
            let helper = |binds_udp| {
                let policy = Policy { binds_udp, udp, ..Policy::default() };
                Helper::within_process(policy).unwrap()
            };
            assert!(helper(false).access().sockets().unwrap().bind(0, false, false).is_err());
            let helper = helper(true);
            let sockets = helper.access().sockets().unwrap();
            for v6 in [false, true] {
                let socket: UdpSocket = sockets.bind(500, v6, false).unwrap().into();
                let address = socket.local_addr().unwrap();
                assert!(address.ip().is_unspecified() && (address.port(), address.is_ipv6()) == (500, v6));
                sockets.mark(socket.as_fd(), 7).unwrap();
                assert_eq!(SockRef::from(&socket).mark().unwrap(), 7);
                let error = sockets.bind(500, v6, false).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
            }
            let stream = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            assert!(sockets.mark(stream.as_fd(), 7).is_err(), "no UDP socket");
        });
    }

    /// A tunnel that runs asks by its helper's sockets.
    #[test]
    fn addresses_that_refuse_are_found_by_the_helpers_sockets() {
        in_fresh_network(|| {
            let server = UdpSocket::bind("127.0.0.1:0").unwrap();
            let listening = server.local_addr().unwrap();
            let at = |text: &str| SocketAddr::new(text.parse().unwrap(), listening.port());
            let (closed, closed_v6, no_route) = (at("127.0.0.2"), at("::1"), at("192.0.2.1"));
            let udp = UdpOptions {
                buffers: Buffers::default(),
                gso: false,
                gro: false,
                routing: SocketRouting::default(),
            };
            let policy =
                Policy { udp: Some(udp), binds_udp: true, without_sandbox: true, ..Policy::default() };
            let helper = Helper::within_process(policy).unwrap();
            let check = RefusalCheck::new(&helper.access()).unwrap();
            for mark in [0, 7] {
                assert_eq!(check.not_refusing(&[closed, listening, closed_v6, no_route], mark), [listening]);
                assert_eq!(check.not_refusing(&[closed], mark), []);
            }
        });
    }
}
