use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{Namespace, TestbedError};

/// The first source address. The addresses after it, up to [`MAX_SOURCES`], hold none that a test bed uses.
const FIRST_SOURCE: u32 = u32::from_be_bytes([11, 0, 0, 0]);
/// 11.0.0.0 to 99.255.255.255.
const MAX_SOURCES: u32 = 89 << 24;
/// How often a batch is sent at a given rate.
const BEAT: Duration = Duration::from_micros(100);
/// Datagrams of one system call.
const BATCH: usize = 64;
/// The device that the answers to forged sources leave by.
const ANSWERS: &str = "answers";
const IP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
/// The attackers have computers of their own, but here they share the processors with the server.
const NICENESS: i32 = 19;

/// UDP datagrams with forged IPv4 source addresses, until this is dropped. Answers are not looked at.
///
/// They leave through a raw socket, so that each datagram has an address of its own: `sources` of them, chosen at
/// random.
pub struct SpoofedFlood {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    sent: AtomicU64,
    stop: AtomicBool,
}

impl SpoofedFlood {
    /// Has `target` send its answers to a TUN device that no process reads, which drops them: on a real network they go
    /// to others, whose work is not to be done by this machine's processors.
    pub fn route(namespace: &Namespace, target: &Namespace) -> Result<(), TestbedError> {
        namespace.ip(&["route", "add", "blackhole", "default"])?;
        target.ip(&["tuntap", "add", "dev", ANSWERS, "mode", "tun"])?;
        target.ip(&["link", "set", ANSWERS, "up"])?;
        target.ip(&["route", "add", "default", "dev", ANSWERS]).map(drop)
    }

    /// Sends these datagrams from `namespace` to `target`, again and again, `rate` a second, or as fast as one thread
    /// can (`None`), from as many as `sources` addresses.
    pub fn start(
        namespace: &Namespace,
        target: SocketAddrV4,
        rate: Option<u32>,
        sources: u32,
        datagrams: &[Vec<u8>],
    ) -> Result<Self, TestbedError> {
        let open = || -> std::io::Result<Socket> {
            // With this protocol the packets bring their IP header (raw(7)).
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255)))?;
            socket.connect(&target.into())?;
            Ok(socket)
        };
        let network = |source| TestbedError::Network { what: "cannot open a raw socket".into(), source };
        let socket = namespace.enter(open)?.map_err(network)?;
        let packets = datagrams.iter().map(|datagram| packet(target, datagram)).collect();
        let shared = Arc::new(Shared::default());
        let sender = Sender {
            shared: Arc::clone(&shared),
            socket,
            rate,
            sources: sources.clamp(1, MAX_SOURCES),
            packets,
            next: 0,
            random: 0x9e37_79b9_7f4a_7c15,
        };
        let thread = std::thread::spawn(move || sender.run());
        Ok(SpoofedFlood { shared, thread: Some(thread) })
    }

    /// How many were sent.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }
}

impl Drop for SpoofedFlood {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An IPv4 packet with that UDP payload, without a source. The kernel fills in the header's checksum, and the
/// identification if it is 0; UDP over IPv4 needs no checksum (RFC 768).
fn packet(target: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let length = |headers: usize| u16::try_from(headers + payload.len()).unwrap_or(u16::MAX).to_be_bytes();
    let mut packet = vec![0; IP_HEADER + UDP_HEADER];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&length(IP_HEADER + UDP_HEADER));
    packet[5] = 1;
    packet[8] = 64;
    packet[9] = 17;
    packet[16..20].copy_from_slice(&target.ip().octets());
    packet[22..24].copy_from_slice(&target.port().to_be_bytes());
    packet[24..26].copy_from_slice(&length(UDP_HEADER));
    packet.extend_from_slice(payload);
    packet
}

struct Sender {
    shared: Arc<Shared>,
    socket: Socket,
    rate: Option<u32>,
    sources: u32,
    packets: Vec<Vec<u8>>,
    /// Which packet is sent next.
    next: usize,
    random: u64,
}

impl Sender {
    fn run(mut self) {
        let _ = rustix::process::nice(NICENESS);
        let (start, mut number) = (Instant::now(), 0);
        while !self.shared.stop.load(Ordering::Relaxed) && !self.packets.is_empty() {
            let due = self.rate.map(|rate| (start.elapsed().as_secs_f64() * f64::from(rate)) as u64);
            let room = due.map_or(BATCH, |due| due.saturating_sub(number).min(BATCH as u64) as usize);
            if room == 0 {
                std::thread::sleep(BEAT);
                continue;
            }
            self.address(room);
            let count = room.min(self.packets.len());
            // A full queue on the way loses them, as the net would.
            let sent = self.send(count).unwrap_or(count);
            number += sent as u64;
            self.shared.sent.store(number, Ordering::Relaxed);
        }
    }

    /// Gives the next packets source addresses and ports.
    fn address(&mut self, count: usize) {
        let packets = self.packets.len();
        for step in 0..count.min(packets) {
            let random = self.random();
            let source = Ipv4Addr::from_bits(FIRST_SOURCE + (random >> 32) as u32 % self.sources);
            let port = (random as u16) | 0x400;
            if let Some(packet) = self.packets.get_mut((self.next + step) % packets) {
                packet[12..16].copy_from_slice(&source.octets());
                packet[20..22].copy_from_slice(&port.to_be_bytes());
            }
        }
    }

    fn send(&mut self, count: usize) -> rustix::io::Result<usize> {
        let (head, tail) = self.packets.split_at(self.next);
        let slices: Vec<[IoSlice<'_>; 1]> =
            tail.iter().chain(head).take(count).map(|packet| [IoSlice::new(packet)]).collect();
        self.next = (self.next + count) % self.packets.len();
        let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> =
            std::iter::repeat_with(SendAncillaryBuffer::default).take(count).collect();
        let mut messages: Vec<MMsgHdr<'_>> =
            slices.iter().zip(&mut controls).map(|(slice, control)| MMsgHdr::new(slice, control)).collect();
        sendmmsg(&self.socket, &mut messages, SendFlags::empty())
    }

    /// xorshift64* (Vigna 2016): the same in every run.
    fn random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MAX_WAIT, can_run, connect, wait_until};
    use std::collections::BTreeSet;
    use std::net::{SocketAddr, UdpSocket};

    #[test]
    fn datagrams_arrive_from_many_addresses() {
        if !can_run("datagrams_arrive_from_many_addresses", &[]) {
            return;
        }
        let [target, attackers] = ["target", "attackers"].map(|name| Namespace::create(name).unwrap());
        connect(&target, &["198.51.100.1/24"], &attackers, &["198.51.100.2/24"], "wire").unwrap();
        SpoofedFlood::route(&attackers, &target).unwrap();
        let address: SocketAddrV4 = "198.51.100.1:1194".parse().unwrap();
        let socket = target.enter(|| UdpSocket::bind(address)).unwrap().unwrap();
        socket.set_read_timeout(Some(MAX_WAIT)).unwrap();
        let datagrams = [b"one".to_vec(), b"other".to_vec()];
        let flood = SpoofedFlood::start(&attackers, address, Some(2_000), 100, &datagrams).unwrap();
        let mut sources = BTreeSet::new();
        for _ in 0..300 {
            let mut buffer = [0; 64];
            let (length, source) = socket.recv_from(&mut buffer).unwrap();
            assert!(datagrams.iter().any(|datagram| datagram == &buffer[..length]));
            let SocketAddr::V4(source) = source else { panic!("{source}") };
            assert!((11..=99).contains(&source.ip().octets()[0]), "{source}");
            sources.insert(*source.ip());
        }
        assert!((50..=100).contains(&sources.len()), "{}", sources.len());
        // The sender counts after the receiver has the datagrams.
        wait_until("the count", MAX_WAIT, || flood.sent() >= 300).unwrap();
    }
}
