//! Round trips through a tunnel.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use crate::{Ends, Ping, PingReport, TestbedError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};

/// A thousand a second.
const INTERVAL: Duration = Duration::from_millis(1);
/// Between two requests of a [`Probe`].
const PROBE_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000 };
/// An echo request (RFC 792) with its checksum; the identifier is "ad".
const REQUEST: [u8; 8] = [8, 0, 0x96, 0x9b, 0x61, 0x64, 0, 0];
const REPLY: [u8; 8] = [0, 0, 0x9e, 0x9b, 0x61, 0x64, 0, 0];

/// A thousand echoes a second, from the client to the server.
pub fn round_trips(ends: &Ends<'_>, time: Duration) -> Result<PingReport, TestbedError> {
    let count = u16::try_from(time.as_millis()).unwrap_or(u16::MAX);
    Ping::new(count, INTERVAL).run(ends.client, ends.target)
}

/// Asks again and again until the tunnel answers. Belongs to the namespace it was opened in.
pub struct Probe {
    socket: Socket,
    target: SocketAddr,
}

impl Probe {
    /// A socket that can ask.
    pub fn open(target: IpAddr) -> Result<Probe, TestbedError> {
        let open = || -> std::io::Result<Socket> {
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = open()
            .map_err(|source| TestbedError::Network { what: "cannot open a socket".to_owned(), source })?;
        Ok(Probe { socket, target: SocketAddr::new(target, 0) })
    }

    /// How long after `start` the first reply came.
    pub fn first_reply(&self, start: Instant, patience: Duration) -> Result<Duration, TestbedError> {
        let target = self.target.into();
        while start.elapsed() < patience {
            // Without a tunnel there is no route yet.
            let _ = self.socket.send_to(&REQUEST, &target);
            let mut ready = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
            let _ = poll(&mut ready, Some(&PROBE_INTERVAL));
            if self.replied() {
                return Ok(start.elapsed());
            }
        }
        Err(TestbedError::TimedOut { what: format!("a reply from {}", target_text(self)), waited: patience })
    }

    fn replied(&self) -> bool {
        let mut buffer = [0; 256];
        let mut socket = &self.socket;
        while let Ok(count) = std::io::Read::read(&mut socket, &mut buffer) {
            if buffer.get(..count).is_some_and(|packet| packet.ends_with(&REPLY)) {
                return true;
            }
        }
        false
    }
}

fn target_text(probe: &Probe) -> String {
    probe.target.ip().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_has_the_right_checksum() {
        for message in [REQUEST, REPLY] {
            let words = message.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
            assert_eq!(words.sum::<u32>() % 0xffff, 0);
        }
    }
}
