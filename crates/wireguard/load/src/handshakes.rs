//! Handshakes at a steady rate, each with another of many keys.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use adit_core::Instant;
use adit_load::{Counters, Load, LoadError};
use adit_wireguard::PublicKey;
use adit_wireguard::wire::Message;

use crate::initiators::Initiator;

/// How often handshakes that are due begin.
const BEAT: Duration = Duration::from_micros(500);
/// Most that begin at a time: a server's receive buffer holds them.
const BURST: u64 = 32;
/// Handshakes that wait for a response; of the oldest it is not expected any more.
const WAITING: usize = 4096;

/// Begins `rate` handshakes a second with `server`, which has this key, by the first `keys` initiators in turns. Those with the
/// right response are counted as done; nothing is sent in the sessions that they make.
///
/// # Errors
/// When the system refuses a socket.
pub fn start(server: SocketAddr, key: PublicKey, keys: u32, rate: u32) -> Result<Load, LoadError> {
    let open = || -> std::io::Result<UdpSocket> {
        let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any)?;
        socket.connect(server)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    let socket = open().map_err(LoadError::system("cannot open the initiators' socket"))?;
    let runner = Runner {
        start: std::time::Instant::now(),
        socket,
        server: (key, server),
        keys: keys.max(1),
        rate,
        begun: 0,
        waiting: BTreeMap::new(),
        order: BTreeMap::new(),
    };
    Ok(Load::start(move |counters| runner.run(counters)))
}

struct Runner {
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
    fn run(mut self, counters: &Counters) -> Result<(), LoadError> {
        while !counters.is_stopped() {
            let due = (self.start.elapsed().as_secs_f64() * f64::from(self.rate)) as u64;
            for _ in 0..due.saturating_sub(self.begun).min(BURST) {
                self.begin(counters)?;
                self.receive(counters);
            }
            self.receive(counters);
            std::thread::sleep(BEAT);
        }
        Ok(())
    }

    fn now(&self) -> Instant {
        Instant::ORIGIN + self.start.elapsed()
    }

    fn begin(&mut self, counters: &Counters) -> Result<(), LoadError> {
        let now = self.now();
        let number = (self.begun % u64::from(self.keys)) as u32;
        let mut initiator = Initiator::new(number, Some(self.server), now)?;
        let initiation = initiator.initiate(now)?;
        let Ok(Message::Initiation(message)) = Message::parse(&initiation) else { return Ok(()) };
        if let Some((before, _)) = self.waiting.insert(message.sender(), (self.begun, initiator)) {
            self.order.remove(&before);
        }
        self.order.insert(self.begun, message.sender());
        // An initiation that the system does not take counts as lost.
        let _ = self.socket.send(&initiation);
        self.begun += 1;
        counters.add_begun(1);
        if self.order.len() > WAITING
            && let Some((_, index)) = self.order.pop_first()
        {
            self.waiting.remove(&index);
        }
        Ok(())
    }

    fn receive(&mut self, counters: &Counters) {
        let mut buffer = [0; 2048];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            let datagram = buffer.get(..length).unwrap_or_default();
            let Ok(Message::Response(response)) = Message::parse(datagram) else { continue };
            let Some((number, mut initiator)) = self.waiting.remove(&response.receiver()) else { continue };
            self.order.remove(&number);
            if initiator.takes(self.now(), self.server.1, datagram) {
                counters.add_done(1);
            }
        }
    }
}
