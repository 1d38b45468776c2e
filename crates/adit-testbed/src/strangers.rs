use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::UdpGsoSegment;

use crate::{Namespace, TestbedError};

/// Addresses that strangers send from, in 198.18.0.0/16 (RFC 2544).
const ADDRESSES: u8 = 250;
const NETWORK: &str = "198.18.0.0/16";
const PORT: u16 = 1194;
/// How often a handful is sent.
const BEAT: Duration = Duration::from_micros(100);
/// Datagrams of a handful, which come from one address.
const HANDFUL: usize = 10;

/// Datagrams that nobody asked for, at a steady rate from 250 addresses, until this is dropped.
///
/// The strangers have computers of their own, but here they share ours. So that they take little of it, a handful goes
/// to the kernel with one call, which cuts it into datagrams (`UDP_SEGMENT`) before they leave: the server receives each
/// by itself, as from the net.
pub struct Strangers {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    sent: AtomicU64,
    stop: AtomicBool,
}

/// Datagrams of one length that are sent with one call.
struct Handful {
    count: u64,
    bytes: Vec<u8>,
}

impl Strangers {
    /// Gives `namespace` the strangers' addresses, and tells `target` that they are behind `gateway`, an address of
    /// `namespace`.
    pub fn settle(namespace: &Namespace, target: &Namespace, gateway: &str) -> Result<(), TestbedError> {
        namespace.ip(&["route", "add", "local", NETWORK, "dev", "lo"])?;
        target.ip(&["route", "add", NETWORK, "via", gateway]).map(drop)
    }

    /// Sends these datagrams, all of one length, from `namespace` to `target`, again and again, `rate` a second. What
    /// comes back is not looked at.
    pub fn start(
        namespace: &Namespace,
        target: SocketAddr,
        rate: u32,
        datagrams: &[Vec<u8>],
    ) -> Result<Self, TestbedError> {
        cut_before(namespace, target)?;
        let length = datagrams.first().map_or(0, Vec::len);
        let open = || -> std::io::Result<Vec<UdpSocket>> {
            (1..=ADDRESSES)
                .map(|number| {
                    let socket = UdpSocket::bind(SocketAddr::from(([198, 18, number, 1], PORT)))?;
                    socket.connect(target)?;
                    setsockopt(&socket, UdpGsoSegment, &i32::try_from(length).unwrap_or(i32::MAX))?;
                    Ok(socket)
                })
                .collect()
        };
        let network =
            |source| TestbedError::Network { what: "cannot open the strangers' sockets".into(), source };
        let sockets = namespace.enter(open)?.map_err(network)?;
        let handfuls: Vec<Handful> = datagrams
            .chunks(HANDFUL)
            .map(|chunk| Handful { count: chunk.len() as u64, bytes: chunk.concat() })
            .collect();
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || send(&theirs, &sockets, rate, &handfuls));
        Ok(Strangers { shared, thread: Some(thread) })
    }

    /// How many were sent.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }
}

/// Has `namespace` cut what goes to `target` by itself, where a device would pass it on whole.
fn cut_before(namespace: &Namespace, target: SocketAddr) -> Result<(), TestbedError> {
    let words = ["-json", "route", "get", &target.ip().to_string()];
    let text = namespace.ip(&words)?;
    let routes: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let device = routes.pointer("/0/dev").and_then(serde_json::Value::as_str);
    let device = device
        .ok_or(TestbedError::Output { command: format!("ip {}", words.join(" ")), output: text.clone() })?;
    namespace.ip(&["link", "set", "dev", device, "gso_max_segs", "1"]).map(drop)
}

impl Drop for Strangers {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn send(shared: &Shared, sockets: &[UdpSocket], rate: u32, handfuls: &[Handful]) {
    let (start, mut number) = (Instant::now(), 0);
    let mut all = sockets.iter().cycle().zip(handfuls.iter().cycle());
    while !shared.stop.load(Ordering::Relaxed) {
        let due = (start.elapsed().as_secs_f64() * f64::from(rate)) as u64;
        while number < due
            && !shared.stop.load(Ordering::Relaxed)
            && let Some((socket, handful)) = all.next()
        {
            // A full queue on the way loses it, as the net would.
            let _ = socket.send(&handful.bytes);
            number += handful.count;
        }
        shared.sent.store(number, Ordering::Relaxed);
        std::thread::sleep(BEAT);
    }
}
