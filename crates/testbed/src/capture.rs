//! The packets that leave a client beside its tunnel: a source of traffic, and a capture at the next router.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::socket::{LinkAddr, recvfrom};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{Namespace, TestbedError};

/// if_ether.h: packets of every protocol.
const ETH_P_ALL: u16 = 3;
/// if_packet.h: the packet was sent by this machine.
const PACKET_OUTGOING: u8 = 4;
/// How often a thread asks whether it is still needed.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Between two rounds of [`TrafficSource`].
const SEND_INTERVAL: Duration = Duration::from_millis(5);

/// The header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PacketHeader {
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes.
    pub destination: IpAddr,
    /// The protocol behind the IP header (1 ICMP, 6 TCP, 17 UDP, 58 ICMPv6, 0 IPv6 hop-by-hop options).
    pub protocol: u8,
    /// The destination's port of UDP and TCP; 0 without ports.
    pub port: u16,
}

impl fmt::Display for PacketHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PacketHeader { source, destination, protocol, port } = self;
        write!(f, "{source} > {destination} protocol {protocol} port {port}")
    }
}

impl PacketHeader {
    /// Reads an IP packet (RFC 791 §3.1, RFC 8200 §3). Nothing if it is none.
    pub fn read(packet: &[u8]) -> Option<PacketHeader> {
        let (source, destination, protocol, end): (IpAddr, IpAddr, u8, usize) = match packet.first()? >> 4 {
            4 => {
                let address = |at: usize| -> Option<Ipv4Addr> {
                    Some(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?.into())
                };
                let length = usize::from(packet.first()? & 15) * 4;
                (address(12)?.into(), address(16)?.into(), *packet.get(9)?, length)
            }
            6 => {
                let address = |at: usize| -> Option<Ipv6Addr> {
                    Some(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?.into())
                };
                (address(8)?.into(), address(24)?.into(), *packet.get(6)?, 40)
            }
            _ => return None,
        };
        let port = match protocol {
            6 | 17 => packet.get(end + 2..end + 4).map_or(0, |port| u16::from_be_bytes([port[0], port[1]])),
            _ => 0,
        };
        Some(PacketHeader { source, destination, protocol, port })
    }
}

/// Packets with their number.
type Found = BTreeMap<PacketHeader, u64>;

/// Counts the packets that come into a namespace by some of its devices and that are not expected there.
#[derive(Debug)]
pub struct Capture {
    found: Arc<Mutex<Found>>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Capture {
    /// Begins to look at these devices of the namespace.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub fn start(
        namespace: &Namespace,
        devices: &[&str],
        is_expected: impl Fn(&PacketHeader) -> bool + Send + 'static,
    ) -> Result<Capture, TestbedError> {
        let failed = |source| TestbedError::Network { what: "cannot look at packets".to_owned(), source };
        let open = || -> std::io::Result<Socket> {
            // packet(7).
            let every = Protocol::from(i32::from(ETH_P_ALL.to_be()));
            let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(every))?;
            let _ = socket.set_recv_buffer_size(8 << 20);
            socket.set_read_timeout(Some(LOOK_EVERY))?;
            Ok(socket)
        };
        let socket = namespace.enter(open)?.map_err(failed)?;
        let mut indices = Vec::new();
        for device in devices {
            let listing = namespace.ip(&["-oneline", "link", "show", "dev", device])?;
            indices.extend(listing.split(':').next().and_then(|index| index.trim().parse::<usize>().ok()));
        }
        let (found, ended) = (Arc::new(Mutex::new(Found::new())), Arc::new(AtomicBool::new(false)));
        let (list, over) = (Arc::clone(&found), Arc::clone(&ended));
        let look = move || {
            let mut buffer = [0; 256];
            while !over.load(Ordering::Relaxed) {
                let Ok((length, Some(from))) = recvfrom::<LinkAddr>(socket.as_raw_fd(), &mut buffer) else {
                    continue;
                };
                let incoming = from.pkttype() != PACKET_OUTGOING && indices.contains(&from.ifindex());
                let header = PacketHeader::read(buffer.get(..length).unwrap_or_default());
                if let Some(header) = header.filter(|header| incoming && !is_expected(header)) {
                    *list.lock().unwrap_or_else(PoisonError::into_inner).entry(header).or_insert(0) += 1;
                }
            }
        };
        Ok(Capture { found, ended, thread: Some(std::thread::spawn(look)) })
    }

    /// The packets that came since the last call.
    pub fn take(&self) -> Vec<(PacketHeader, u64)> {
        // Waits for packets that are on their way.
        std::thread::sleep(2 * LOOK_EVERY);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *found).into_iter().collect()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A program that sends small datagrams all the time, by whichever way the system has.
#[derive(Debug)]
pub struct TrafficSource {
    targets: Arc<Mutex<Vec<SocketAddr>>>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TrafficSource {
    /// Begins to send from the namespace.
    ///
    /// # Errors
    /// When there are no sockets.
    pub fn start(namespace: &Namespace, targets: &[SocketAddr]) -> Result<TrafficSource, TestbedError> {
        let open = || Ok([UdpSocket::bind("0.0.0.0:0")?, UdpSocket::bind("[::]:0")?]);
        let sockets: std::io::Result<[UdpSocket; 2]> = namespace.enter(open)?;
        let [v4, v6] = sockets
            .map_err(|source| TestbedError::Network { what: "cannot open sockets".to_owned(), source })?;
        let targets = Arc::new(Mutex::new(targets.to_vec()));
        let ended = Arc::new(AtomicBool::new(false));
        let (list, over) = (Arc::clone(&targets), Arc::clone(&ended));
        let send = move || {
            while !over.load(Ordering::Relaxed) {
                let targets = list.lock().unwrap_or_else(PoisonError::into_inner).clone();
                for target in targets {
                    let socket = if target.is_ipv4() { &v4 } else { &v6 };
                    // Some tests expect that nothing can be sent.
                    let _ = socket.send_to(b"inner", target);
                }
                std::thread::sleep(SEND_INTERVAL);
            }
        };
        Ok(TrafficSource { targets, ended, thread: Some(std::thread::spawn(send)) })
    }

    /// Sends to these from now on.
    pub fn aim(&self, targets: &[SocketAddr]) {
        *self.targets.lock().unwrap_or_else(PoisonError::into_inner) = targets.to_vec();
    }
}

impl Drop for TrafficSource {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read() {
        let mut packet = vec![0; 28];
        packet[0] = 0x45;
        packet[9] = 17;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 192, 0, 2, 1]);
        packet[22..24].copy_from_slice(&1194_u16.to_be_bytes());
        let header = PacketHeader::read(&packet).unwrap();
        assert_eq!((header.port, header.destination), (1194, "192.0.2.1".parse().unwrap()));
        for length in 0..packet.len() {
            let _ = PacketHeader::read(&packet[..length]);
        }
        let mut packet = vec![0; 48];
        (packet[0], packet[6], packet[24]) = (0x60, 58, 0xff);
        let header = PacketHeader::read(&packet).unwrap();
        assert_eq!((header.protocol, header.destination), (58, "ff00::".parse().unwrap()));
        assert_eq!(PacketHeader::read(&[0x10; 60]), None);
    }
}
