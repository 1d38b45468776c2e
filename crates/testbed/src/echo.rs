//! Round trips through a tunnel.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::{Ends, Ping, PingReport, TestbedError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};

/// A thousand a second.
const INTERVAL: Duration = Duration::from_millis(1);
/// How long the last answer may take. The tunnel under test may lose some.
const LATE: Duration = Duration::from_secs(2);
/// if_ether.h: packets of every protocol.
const ETH_P_ALL: u16 = 3;
/// How often a thread that reads packets asks whether it is still needed.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Between two requests of a [`Probe`] without [`Probe::every`].
const PROBE_INTERVAL: Duration = Duration::from_micros(250);
/// An echo request (RFC 792) with its checksum; the identifier is "ad".
const REQUEST: [u8; 8] = [8, 0, 0x96, 0x9b, 0x61, 0x64, 0, 0];
const REPLY: [u8; 8] = [0, 0, 0x9e, 0x9b, 0x61, 0x64, 0, 0];

/// Requests have numbers of 16 bits: more than this are sent as several series.
const SERIES: u32 = 50_000;

/// Sends so many echoes, a thousand a second, from the client to the server.
pub fn round_trips(ends: &Ends<'_>, count: u32) -> Result<PingReport, TestbedError> {
    let mut report = PingReport::default();
    let mut left = count;
    while left > 0 {
        let series = left.min(SERIES);
        left -= series;
        let count = u16::try_from(series).unwrap_or(u16::MAX);
        let ping = Ping { timeout: LATE, ..Ping::new(count, INTERVAL) };
        report.add(ping.run(ends.client, ends.target)?);
    }
    Ok(report)
}

/// Sees when the first IPv4 packet to an address leaves the namespace it was opened in, on any device.
pub struct FirstDatagram {
    socket: Socket,
    target: Ipv4Addr,
}

impl FirstDatagram {
    /// Begins to look. Datagrams that leave before are not seen.
    pub fn open(target: Ipv4Addr) -> Result<FirstDatagram, TestbedError> {
        // packet(7): only a socket for every protocol sees packets that leave.
        let every = Protocol::from(i32::from(ETH_P_ALL.to_be()));
        let open = || -> std::io::Result<Socket> {
            let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(every))?;
            socket.set_read_timeout(Some(LOOK_EVERY))?;
            Ok(socket)
        };
        let socket = open()
            .map_err(|source| TestbedError::Network { what: "cannot look at packets".to_owned(), source })?;
        Ok(FirstDatagram { socket, target })
    }

    /// When it left; nothing if `done` came true before.
    pub fn wait(&self, done: &AtomicBool) -> Option<Instant> {
        let mut packet = [0; 64];
        let mut socket = &self.socket;
        loop {
            let count = std::io::Read::read(&mut socket, &mut packet).unwrap_or(0);
            if is_to(packet.get(..count).unwrap_or_default(), self.target) {
                return Some(Instant::now());
            }
            if done.load(Ordering::Relaxed) {
                return None;
            }
        }
    }
}

/// RFC 791: the version in the first four bits, the destination at 16.
fn is_to(packet: &[u8], target: Ipv4Addr) -> bool {
    packet.first().is_some_and(|first| first >> 4 == 4) && packet.get(16..20) == Some(&target.octets())
}

/// Asks again and again until the tunnel answers. Belongs to the namespace it was opened in.
pub struct Probe {
    socket: Socket,
    target: SocketAddr,
    interval: Duration,
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
        Ok(Probe { socket, target: SocketAddr::new(target, 0), interval: PROBE_INTERVAL })
    }

    /// Asks so often, for links that four thousand requests a second would fill.
    pub fn every(self, interval: Duration) -> Probe {
        Probe { interval, ..self }
    }

    /// A probe for a tunnel's device: sends its requests through it, and takes only answers that come from
    /// it.
    pub fn open_on(target: IpAddr, device: &str) -> Result<Probe, TestbedError> {
        let probe = Probe::open(target)?;
        let bound = probe.socket.bind_device(Some(device.as_bytes()));
        bound.map_err(|source| TestbedError::Network { what: format!("cannot bind to {device}"), source })?;
        Ok(probe)
    }

    /// How long after `start` the first reply came.
    pub fn first_reply(&self, start: Instant, timeout: Duration) -> Result<Duration, TestbedError> {
        let target = self.target.into();
        let mut next = Instant::now();
        while start.elapsed() < timeout {
            let now = Instant::now();
            if now >= next {
                // Without a tunnel there is no route yet.
                let _ = self.socket.send_to(&REQUEST, &target);
                next = now + self.interval;
            }
            // Whatever else comes back ends the wait, but is no reason to ask more often.
            let wait = Timespec::try_from(next.saturating_duration_since(now)).unwrap_or_default();
            let mut ready = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
            let _ = poll(&mut ready, Some(&wait));
            if self.replied() {
                return Ok(start.elapsed());
            }
        }
        Err(TestbedError::TimedOut { what: format!("a reply from {}", target_text(self)), waited: timeout })
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
    fn only_packets_to_the_address_are_seen() {
        let mut packet = [0x45; 20];
        packet[16..].copy_from_slice(&[192, 0, 2, 1]);
        assert!(is_to(&packet, Ipv4Addr::new(192, 0, 2, 1)));
        assert!(!is_to(&packet, Ipv4Addr::new(192, 0, 2, 2)));
        assert!(!is_to(&packet[..19], Ipv4Addr::new(192, 0, 2, 1)));
        packet[0] = 0x60;
        assert!(!is_to(&packet, Ipv4Addr::new(192, 0, 2, 1)));
    }

    #[test]
    fn the_probe_has_the_right_checksum() {
        for message in [REQUEST, REPLY] {
            let words = message.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
            assert_eq!(words.sum::<u32>() % 0xffff, 0);
        }
    }
}
