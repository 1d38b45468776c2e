//! A link that delays and loses UDP datagrams, and says how many of them carried data.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use adit_testbed::{Namespace, TestbedError};

/// Opcodes of data datagrams: `DATA_V1`, `DATA_V2`.
const DATA: [u8; 2] = [6, 9];
/// How often a thread looks whether it shall end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The impairment of datagrams by a link, in each direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Impairment {
    pub(crate) delay: Duration,
    /// Datagrams lost, of 1,000.
    pub(crate) loss: u32,
}

/// Carries datagrams between a client, which sends to [`Relay::PORT`] of its own loopback address, and a server.
pub(crate) struct Relay {
    stop: Arc<AtomicBool>,
    lost: Arc<AtomicU32>,
    threads: Vec<JoinHandle<()>>,
}

type Waiting = (Instant, Vec<u8>);

/// So that no two directions lose alike.
static SEED: AtomicU64 = AtomicU64::new(1);

impl Relay {
    /// Where the client's side listens.
    pub(crate) const PORT: u16 = 11_940;

    /// Starts it in the client's namespace.
    pub(crate) fn start(
        client: &Namespace,
        server: SocketAddr,
        impairment: Impairment,
    ) -> Result<Self, TestbedError> {
        let failed = |source| TestbedError::Network { what: "cannot relay datagrams".to_owned(), source };
        let open = || -> std::io::Result<[UdpSocket; 2]> {
            let near = UdpSocket::bind(("127.0.0.1", Relay::PORT))?;
            let far = UdpSocket::bind("0.0.0.0:0")?;
            far.connect(server)?;
            near.set_read_timeout(Some(LOOK_EVERY))?;
            far.set_read_timeout(Some(LOOK_EVERY))?;
            Ok([near, far])
        };
        let [near, far] = client.enter(open)?.map_err(failed)?.map(Arc::new);
        let (stop, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let client_at = Arc::new(Mutex::new(None));
        let mut threads = Vec::new();
        for (outward, from, to) in [(true, near.clone(), far.clone()), (false, far, near)] {
            let (sender, receiver) = channel();
            let (stop, lost, at) = (stop.clone(), lost.clone(), client_at.clone());
            let seed = SEED.fetch_add(1, Ordering::Relaxed);
            let state = seed.wrapping_mul(u64::from(std::process::id()) | 1);
            threads.push(std::thread::spawn(move || {
                take(&from, &sender, &stop, &mut Loss { impairment, state, lost }, |source| {
                    if outward {
                        *at.lock().unwrap_or_else(PoisonError::into_inner) = Some(source);
                    }
                });
            }));
            let at = client_at.clone();
            threads.push(std::thread::spawn(move || {
                give(&receiver, |datagram| {
                    let client = *at.lock().unwrap_or_else(PoisonError::into_inner);
                    let _ = match (outward, client) {
                        (true, _) => to.send(datagram),
                        (false, Some(client)) => to.send_to(datagram, client),
                        (false, None) => Ok(0),
                    };
                });
            }));
        }
        Ok(Relay { stop, lost, threads })
    }

    /// Data datagrams lost so far, both directions together.
    pub(crate) fn lost_data(&self) -> u32 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Decides which datagrams are lost.
struct Loss {
    impairment: Impairment,
    state: u64,
    lost: Arc<AtomicU32>,
}

impl Loss {
    fn takes(&mut self, datagram: &[u8]) -> bool {
        // Knuth's MMIX generator; its high bits are random enough.
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let lost = (self.state >> 33) % 1000 < u64::from(self.impairment.loss);
        if lost && datagram.first().is_some_and(|first| DATA.contains(&(first >> 3))) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        lost
    }
}

fn take(
    from: &UdpSocket,
    sender: &Sender<Waiting>,
    stop: &AtomicBool,
    loss: &mut Loss,
    note: impl Fn(SocketAddr),
) {
    let mut buffer = vec![0; 65_536];
    while !stop.load(Ordering::Relaxed) {
        let Ok((length, source)) = from.recv_from(&mut buffer) else { continue };
        note(source);
        let datagram = &buffer[..length];
        if !loss.takes(datagram) {
            let _ = sender.send((Instant::now() + loss.impairment.delay, datagram.to_vec()));
        }
    }
}

/// Hands on the datagrams that wait, each at its time. Ends when the thread that takes them did.
fn give(receiver: &Receiver<Waiting>, send: impl Fn(&[u8])) {
    while let Ok((at, datagram)) = receiver.recv() {
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        send(&datagram);
    }
}
