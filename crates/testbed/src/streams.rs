//! Steady UDP streams through many tunnels at once. Each packet has a number, and the far end sends it back.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::{LossCounter, Losses, Namespace, TestbedError, wait_until};

/// Where the far end listens (RFC 862).
const PORT: u16 = 7;
/// Bytes in front of a packet: the stream's number and the packet's.
const HEADER: usize = 12;
/// A socket's buffer: packets that these sockets do not receive shall be the tunnels' loss.
const BUFFER: usize = 8 << 20;
/// How long a thread waits for a packet before it looks whether it is still needed.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The time between two sends of the packets that are due.
const TICK: Duration = Duration::from_millis(1);

/// The parameters of the streams.
#[derive(Clone, Copy, Debug)]
pub struct StreamLoad {
    /// Packets a second in each stream.
    pub rate: u32,
    /// Bytes of payload in each packet, at least 12.
    pub size: usize,
}

/// Streams from one namespace to addresses in another. Dropping it ends them.
#[derive(Debug)]
pub struct Streams {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    load: StreamLoad,
    socket: UdpSocket,
    stop: AtomicBool,
    streams: Vec<Stream>,
}

#[derive(Debug)]
struct Stream {
    target: SocketAddr,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    counter: LossCounter,
}

impl Stream {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn losses(&self) -> Losses {
        self.with(|state| state.counter.losses())
    }
}

fn socket(namespace: &Namespace, port: u16) -> Result<UdpSocket, TestbedError> {
    let open = || -> std::io::Result<UdpSocket> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER)?;
        socket.set_read_timeout(Some(LOOK_EVERY))?;
        Ok(socket)
    };
    let what = || format!("cannot open UDP port {port} for numbered packets in {}", namespace.name());
    namespace.enter(open)?.map_err(|source| TestbedError::Network { what: what(), source })
}

impl Streams {
    /// Starts a stream to each target. Each target must be an IPv4 address of `server`.
    ///
    /// # Errors
    /// When a socket cannot be opened.
    pub fn start(
        client: &Namespace,
        server: &Namespace,
        targets: &[IpAddr],
        load: StreamLoad,
    ) -> Result<Streams, TestbedError> {
        let far = socket(server, PORT)?;
        let stream =
            |target: &IpAddr| Stream { target: SocketAddr::new(*target, PORT), state: Mutex::default() };
        let shared = Arc::new(Shared {
            load: StreamLoad { size: load.size.max(HEADER), ..load },
            socket: socket(client, 0)?,
            stop: AtomicBool::new(false),
            streams: targets.iter().map(stream).collect(),
        });
        let [one, two, three] = std::array::from_fn(|_| Arc::clone(&shared));
        let threads = vec![
            std::thread::spawn(move || one.answer(&far)),
            std::thread::spawn(move || two.receive()),
            std::thread::spawn(move || three.send()),
        ];
        Ok(Streams { shared, threads })
    }

    /// Ends one stream, and waits for the answers that are under way. A packet that has no answer after `timeout` stays
    /// lost.
    pub fn close(&self, number: usize, timeout: Duration) -> Losses {
        let Some(stream) = self.shared.streams.get(number) else { return Losses::default() };
        stream.with(|state| state.is_closed = true);
        let _ = wait_until("answers", timeout, || stream.losses().lost() == 0);
        stream.losses()
    }

    /// The counts of one stream's packets up to now; packets under way count as lost.
    pub fn losses(&self, number: usize) -> Losses {
        self.shared.streams.get(number).map(Stream::losses).unwrap_or_default()
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The far end: sends back the packets that come.
    fn answer(&self, far: &UdpSocket) {
        let mut buffer = vec![0; usize::from(u16::MAX)];
        while !self.is_stopped() {
            let Ok((length, from)) = far.recv_from(&mut buffer) else { continue };
            // Where the way back is gone, the packet is lost, as it would be on its way.
            let _ = far.send_to(buffer.get(..length).unwrap_or_default(), from);
        }
    }

    fn receive(&self) {
        let mut buffer = vec![0; usize::from(u16::MAX)];
        while !self.is_stopped() {
            let Ok(length) = self.socket.recv(&mut buffer) else { continue };
            let numbers = buffer.get(..length).and_then(numbers);
            let Some((stream, packet)) = numbers else { continue };
            if let Some(stream) = self.streams.get(stream as usize) {
                stream.with(|state| state.counter.answer(packet));
            }
        }
    }

    /// Open loop: in each tick, sends the packets that are due of every stream, in turns.
    fn send(&self) {
        let (start, mut sent) = (Instant::now(), 0_u64);
        let mut packet = vec![0x2a; self.load.size];
        while !self.is_stopped() {
            let each = start.elapsed().as_secs_f64() * f64::from(self.load.rate);
            let due = (each * self.streams.len() as f64) as u64;
            for turn in sent..due {
                let number = (turn % self.streams.len() as u64) as usize;
                self.send_one(number, &mut packet);
            }
            sent = due;
            std::thread::sleep(TICK);
        }
    }

    fn send_one(&self, number: usize, packet: &mut [u8]) {
        let Some(stream) = self.streams.get(number) else { return };
        // Under one lock: once a stream is closed, no further number is given out.
        let sequence = stream.with(|state| (!state.is_closed).then(|| state.counter.send()));
        let Some(sequence) = sequence else { return };
        write_numbers(packet, number as u32, sequence);
        // A packet that the system refuses has no answer, and so is lost.
        let _ = self.socket.send_to(packet, stream.target);
    }
}

fn write_numbers(packet: &mut [u8], stream: u32, sequence: u64) {
    let header = stream.to_be_bytes().into_iter().chain(sequence.to_be_bytes());
    packet.iter_mut().zip(header).for_each(|(byte, value)| *byte = value);
}

fn numbers(packet: &[u8]) -> Option<(u32, u64)> {
    let (stream, rest) = packet.split_first_chunk()?;
    let (sequence, _) = rest.split_first_chunk()?;
    Some((u32::from_be_bytes(*stream), u64::from_be_bytes(*sequence)))
}

/// When the first answer came from each target, after `start`: each that has not answered is asked again after every
/// `interval`. Targets without an answer within `timeout` have none.
///
/// # Errors
/// When a socket cannot be opened.
pub fn first_answers(
    client: &Namespace,
    server: &Namespace,
    targets: &[IpAddr],
    start: Instant,
    [interval, timeout]: [Duration; 2],
) -> Result<Vec<Option<Duration>>, TestbedError> {
    // A late answer of one series shall not count for the next.
    const NOTHING_SENT: StreamLoad = StreamLoad { rate: 0, size: HEADER };
    let streams = Streams::start(client, server, targets, NOTHING_SENT)?;
    let shared = &streams.shared;
    let mut first = vec![None; targets.len()];
    let mut packet = [0; HEADER];
    let mut next = Instant::now();
    while first.iter().any(Option::is_none) && start.elapsed() < timeout {
        for (number, stream) in shared.streams.iter().enumerate() {
            let Some(slot) = first.get_mut(number).filter(|slot| slot.is_none()) else { continue };
            if stream.losses().answered > 0 {
                *slot = Some(start.elapsed());
            } else if Instant::now() >= next {
                shared.send_one(number, &mut packet);
            }
        }
        if Instant::now() >= next {
            next = Instant::now() + interval;
        }
        std::thread::sleep(TICK / 4);
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_written() {
        let mut packet = [0x2a; 20];
        write_numbers(&mut packet, 7, 1 << 40);
        assert_eq!(numbers(&packet), Some((7, 1 << 40)));
        assert_eq!(packet[HEADER..], [0x2a; 8]);
        assert_eq!(numbers(&packet[..HEADER - 1]), None);
    }
}
