//! Handshakes at a steady rate, each with another of many keys.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use adit_core::Instant;
use adit_wireguard::PublicKey;
use adit_wireguard::wire::Message;

use super::Initiator;
use crate::LoadError;

/// How often handshakes that are due begin.
const BEAT: Duration = Duration::from_micros(500);
/// Most that begin at a time: a server's receive buffer holds them.
const BURST: u64 = 32;
/// Handshakes that wait for a response; of the oldest it is not expected any more.
const WAITING: usize = 4096;

#[derive(Default)]
struct Shared {
    begun: AtomicU64,
    done: AtomicU64,
    stop: AtomicBool,
}

/// Handshakes with a server, until this is dropped. Nothing is sent in the sessions that they make.
pub struct Handshakes {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), LoadError>>>,
}

impl Handshakes {
    /// Begins `rate` handshakes a second with `server`, which has this key, by the first `keys` initiators in turns.
    ///
    /// # Errors
    /// When the system refuses a socket.
    pub fn start(server: SocketAddr, key: PublicKey, keys: u32, rate: u32) -> Result<Handshakes, LoadError> {
        let open = || -> std::io::Result<UdpSocket> {
            let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(any)?;
            socket.connect(server)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = open().map_err(LoadError::system("cannot open the initiators' socket"))?;
        let shared = Arc::new(Shared::default());
        let runner = Runner {
            shared: Arc::clone(&shared),
            start: std::time::Instant::now(),
            socket,
            server: (key, server),
            keys: keys.max(1),
            rate,
            begun: 0,
            waiting: BTreeMap::new(),
            order: BTreeMap::new(),
        };
        Ok(Handshakes { shared, thread: Some(std::thread::spawn(move || runner.run())) })
    }

    /// How many began.
    pub fn begun(&self) -> u64 {
        self.shared.begun.load(Ordering::Relaxed)
    }

    /// How many got the right response.
    pub fn done(&self) -> u64 {
        self.shared.done.load(Ordering::Relaxed)
    }

    /// Whether they go on. They end by themselves only if no initiation can be made.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends them.
    ///
    /// # Errors
    /// Why no initiation could be made.
    pub fn stop(mut self) -> Result<(), LoadError> {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or(Ok(Ok(())), JoinHandle::join).map_err(|_| LoadError::Panicked)?
    }
}

impl Drop for Handshakes {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Runner {
    shared: Arc<Shared>,
    start: std::time::Instant,
    socket: UdpSocket,
    server: (PublicKey, SocketAddr),
    keys: u32,
    rate: u32,
    begun: u64,
    /// Initiators that wait for a response, by the index in it, with the number of the handshake.
    waiting: BTreeMap<u32, (u64, Initiator)>,
    /// Their indices in the order in which they began.
    order: BTreeMap<u64, u32>,
}

impl Runner {
    fn run(mut self) -> Result<(), LoadError> {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let due = (self.start.elapsed().as_secs_f64() * f64::from(self.rate)) as u64;
            for _ in 0..due.saturating_sub(self.begun).min(BURST) {
                self.begin()?;
                self.receive();
            }
            self.receive();
            std::thread::sleep(BEAT);
        }
        Ok(())
    }

    fn now(&self) -> Instant {
        Instant::ORIGIN + self.start.elapsed()
    }

    fn begin(&mut self) -> Result<(), LoadError> {
        let now = self.now();
        let number = (self.begun % u64::from(self.keys)) as u32;
        let mut initiator = Initiator::new(number, Some(self.server), now)?;
        let initiation = initiator.initiate(now)?;
        let Ok(Message::Initiation(message)) = Message::parse(&initiation) else { return Ok(()) };
        if let Some((before, _)) = self.waiting.insert(message.sender(), (self.begun, initiator)) {
            self.order.remove(&before);
        }
        self.order.insert(self.begun, message.sender());
        // What the system does not take counts as lost.
        let _ = self.socket.send(&initiation);
        self.begun += 1;
        self.shared.begun.store(self.begun, Ordering::Relaxed);
        if self.order.len() > WAITING
            && let Some((_, index)) = self.order.pop_first()
        {
            self.waiting.remove(&index);
        }
        Ok(())
    }

    fn receive(&mut self) {
        let mut buffer = [0; 2048];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            let datagram = buffer.get(..length).unwrap_or_default();
            let Ok(Message::Response(response)) = Message::parse(datagram) else { continue };
            let Some((number, mut initiator)) = self.waiting.remove(&response.receiver()) else { continue };
            self.order.remove(&number);
            if initiator.takes(self.now(), self.server.1, datagram) {
                self.shared.done.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
