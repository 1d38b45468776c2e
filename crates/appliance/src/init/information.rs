//! Name servers and time servers by stateless DHCPv6, where a router says that there is DHCPv6 (RFC 8415, section 18.2.6).

use std::io::{self, Read as _};
use std::net::{Ipv6Addr, SocketAddrV6};
use std::thread;
use std::time::{Duration, Instant};

use rand_core::{OsRng, TryRngCore as _};
use socket2::{Domain, Protocol, Socket, Type};

use crate::dhcp6::{Answer, question, says_dhcp};

/// The ports of clients and servers, and the address of all servers (RFC 8415, section 7.1 and 7.2).
const CLIENT: u16 = 546;
const SERVER: u16 = 547;
const SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
/// How long to wait for the first answer, and at most (RFC 8415, section 7.6).
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// The largest message without fragments on Ethernet.
const LARGEST: usize = 1500;

/// A device that is up.
pub(super) struct Client<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// Its hardware address.
    pub(super) hardware: [u8; 6],
}

impl Client<'_> {
    /// Asks for servers whenever they are to be asked for, and tells of each answer. Ends only when the system fails.
    pub(super) fn run(&self, mut tell: impl FnMut(Answer)) -> io::Result<()> {
        let mut advertisements = self.socket(Type::RAW, Protocol::ICMPV6)?;
        let socket = self.socket(Type::DGRAM, Protocol::UDP)?;
        socket.bind(&SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, CLIENT, 0, 0).into())?;
        let mut message = [0; LARGEST];
        loop {
            let length = advertisements.read(&mut message)?;
            if message.get(..length).is_some_and(says_dhcp) {
                let answer = self.ask(&socket)?;
                let refresh = answer.refresh;
                tell(answer);
                thread::sleep(refresh);
            }
        }
    }

    fn socket(&self, kind: Type, protocol: Protocol) -> io::Result<Socket> {
        let socket = Socket::new(Domain::IPV6, kind, Some(protocol))?;
        socket.set_reuse_address(true)?;
        socket.bind_device(Some(self.name.as_bytes()))?;
        Ok(socket)
    }

    /// Asks until a server answers.
    fn ask(&self, socket: &Socket) -> io::Result<Answer> {
        let transaction = OsRng.try_next_u32().map_err(|error| io::Error::other(error.to_string()))?;
        let mut wait = FIRST_WAIT;
        loop {
            // The device may have no address of its link yet.
            let _ = socket.send_to(
                &question(transaction, self.hardware),
                &SocketAddrV6::new(SERVERS, SERVER, 0, 0).into(),
            );
            let deadline = Instant::now() + wait;
            if let Some(answer) = self.answer(socket, transaction, deadline)? {
                return Ok(answer);
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    fn answer(&self, mut socket: &Socket, transaction: u32, deadline: Instant) -> io::Result<Option<Answer>> {
        let mut message = [0; LARGEST];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // A time-out of zero would be none.
            if left.is_zero() {
                return Ok(None);
            }
            socket.set_read_timeout(Some(left))?;
            let Ok(length) = socket.read(&mut message) else {
                thread::sleep(deadline.saturating_duration_since(Instant::now()));
                return Ok(None);
            };
            let answer =
                message.get(..length).and_then(|message| Answer::decode(message, transaction, self.hardware));
            if answer.is_some() {
                return Ok(answer);
            }
        }
    }
}
