//! Whether an address refuses UDP datagrams at once: no route leads there, or ICMP says so. The next address of the name is tried
//! then, without the wait for an answer (RFC 8305 is about TCP, where `connect` fails at a refusal anyway).
//!
//! An empty datagram of a socket of its own is sent beside the first datagram of the protocol, which is not delayed,
//! and a server that receives the empty one drops it.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use adit_system::{SocketRouting, mark};
use socket2::{Domain, Socket, Type};

/// How long an answer by ICMP counts.
pub(crate) const LISTENING: Duration = Duration::from_secs(3);
/// The time that the preferred address of several has to refuse, before anything is sent there (RFC 8305, section 5, "Connection
/// Attempt Delay").
pub(crate) const DELAY: Duration = Duration::from_millis(250);

/// The least time for reading an answer that has come.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// A datagram that was sent, and the results that may follow.
#[derive(Debug)]
pub struct Question(UdpSocket);

impl Question {
    /// Asks. The error is a refusal: the system has no route, or none of its addresses is of that family.
    pub(crate) fn ask(address: SocketAddr, routing: SocketRouting, own_mark: u32) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
        mark::route(&socket, routing)?;
        if routing.mark.is_none() {
            // Without the right to, only tunnels without policy routing work.
            let _ = mark::set_to(socket.as_fd(), own_mark);
        }
        Question::by(socket, address)
    }

    /// Asks by that socket, which waits for answers.
    pub(crate) fn by(socket: Socket, address: SocketAddr) -> io::Result<Self> {
        // The socket also reports errors that may pass, such as that of a host that is off (ip(7), ipv6(7)).
        let (level, name) = match address {
            SocketAddr::V4(_) => (libc::SOL_IP, libc::IP_RECVERR),
            SocketAddr::V6(_) => (libc::SOL_IPV6, libc::IPV6_RECVERR),
        };
        let _ = adit_sys::set_option(socket.as_fd(), level, name, 1);
        socket.connect(&address.into())?;
        let socket = UdpSocket::from(socket);
        socket.send(&[])?;
        Ok(Question(socket))
    }

    /// The refusal, if one comes within that time.
    pub(crate) fn refusal(&self, within: Duration) -> Option<io::Error> {
        self.refusal_until(Instant::now() + within)
    }

    /// The refusal, if one has come or comes until then.
    pub(crate) fn refusal_until(&self, until: Instant) -> Option<io::Error> {
        let until = until.max(Instant::now() + LEAST_WAIT);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.0.set_read_timeout(Some(left)).is_err() {
                return None;
            }
            match self.0.recv(&mut [0; 16]) {
                // The address answers.
                Ok(_) => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Some(error).filter(is_refusal),
            }
        }
    }
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EACCES | libc::ENOPROTOOPT)
    )
}

/// The first of a name's addresses that does not refuse datagrams at once; the first if all do. Waits for 250 ms at most, and not where
/// there is one address. Datagrams have that mark.
pub fn first_not_refusing(addresses: &[SocketAddr], mark: u32) -> Option<SocketAddr> {
    if addresses.len() < 2 {
        return addresses.first().copied();
    }
    let routing = SocketRouting::default();
    let asked: Vec<Option<Question>> =
        addresses.iter().map(|address| Question::ask(*address, routing, mark).ok()).collect();
    let until = Instant::now() + DELAY;
    let accepts = |question: &Option<Question>| {
        question.as_ref().is_some_and(|question| question.refusal_until(until).is_none())
    };
    let place = asked.iter().position(accepts).unwrap_or(0);
    addresses.get(place).copied()
}

#[cfg(test)]
mod tests {
    use adit_system::testing::in_fresh_network;

    use super::*;

    #[test]
    fn the_first_address_that_does_not_refuse_is_taken() {
        in_fresh_network(|| {
            let server = UdpSocket::bind("127.0.0.1:0").unwrap();
            let listening = server.local_addr().unwrap();
            let at = |text: &str| SocketAddr::new(text.parse().unwrap(), listening.port());
            // No socket is there, and ICMP says so at once; and to the last no route leads.
            let (closed, closed_v6, no_route) = (at("127.0.0.2"), at("::1"), at("192.0.2.1"));
            let started = Instant::now();
            assert_eq!(first_not_refusing(&[closed, closed_v6, no_route, listening], 0), Some(listening));
            assert_eq!(first_not_refusing(&[closed, no_route], 0), Some(closed), "all refuse");
            assert_eq!(first_not_refusing(&[no_route], 0), Some(no_route));
            assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
            let question = Question::ask(closed, SocketRouting::default(), 0).unwrap();
            let refusal = question.refusal(LISTENING).expect("a refusal");
            assert_eq!(refusal.kind(), io::ErrorKind::ConnectionRefused);
            Question::ask(no_route, SocketRouting::default(), 0).expect_err("no route leads there");
        });
    }
}
