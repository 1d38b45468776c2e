use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::{Namespace, TestbedError};

/// Addresses that strangers send from, in 198.18.0.0/16 (RFC 2544).
const ADDRESSES: u8 = 250;
const NETWORK: &str = "198.18.0.0/16";
const PORT: u16 = 1194;
/// How often a handful is sent.
const BEAT: Duration = Duration::from_micros(100);

/// Datagrams that nobody asked for, at a steady rate from 250 addresses, until this is dropped.
pub struct Strangers {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    sent: AtomicU64,
    stop: AtomicBool,
}

impl Strangers {
    /// Gives `namespace` the strangers' addresses, and tells `target` that they are behind `gateway`, an address of
    /// `namespace`.
    pub fn settle(namespace: &Namespace, target: &Namespace, gateway: &str) -> Result<(), TestbedError> {
        namespace.ip(&["route", "add", "local", NETWORK, "dev", "lo"])?;
        target.ip(&["route", "add", NETWORK, "via", gateway]).map(drop)
    }

    /// Sends these datagrams from `namespace` to `target`, again and again, `rate` a second. What comes back is not
    /// looked at.
    pub fn start(
        namespace: &Namespace,
        target: SocketAddr,
        rate: u32,
        datagrams: Vec<Vec<u8>>,
    ) -> Result<Self, TestbedError> {
        let open = || -> std::io::Result<Vec<UdpSocket>> {
            (1..=ADDRESSES)
                .map(|number| UdpSocket::bind(SocketAddr::from(([198, 18, number, 1], PORT))))
                .collect()
        };
        let network =
            |source| TestbedError::Network { what: "cannot open the strangers' sockets".into(), source };
        let sockets = namespace.enter(open)?.map_err(network)?;
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || send(&theirs, &sockets, target, rate, &datagrams));
        Ok(Strangers { shared, thread: Some(thread) })
    }

    /// How many were sent.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn send(shared: &Shared, sockets: &[UdpSocket], target: SocketAddr, rate: u32, datagrams: &[Vec<u8>]) {
    let (start, mut number) = (Instant::now(), 0);
    let mut all = sockets.iter().cycle().zip(datagrams.iter().cycle());
    while !shared.stop.load(Ordering::Relaxed) {
        let due = (start.elapsed().as_secs_f64() * f64::from(rate)) as u64;
        while number < due
            && let Some((socket, datagram)) = all.next()
        {
            // A full queue on the way loses it, as the net would.
            let _ = socket.send_to(datagram, target);
            number += 1;
            if number % 1024 == 0 && shared.stop.load(Ordering::Relaxed) {
                return;
            }
        }
        shared.sent.store(number, Ordering::Relaxed);
        std::thread::sleep(BEAT);
    }
}
