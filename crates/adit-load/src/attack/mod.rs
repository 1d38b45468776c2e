//! Attackers that hold TCP connections, control channels before or after authentication, or a client that roams.

mod connections;
mod control_channel;
mod control_channels;
mod roaming;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use adit_openvpn::credentials::{Credentials, TlsEnvironment, client_tls};
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::{PeerRequirements, TlsConfig};

pub use connections::Talk;
pub use control_channel::{Behaviour, Plan};
pub use control_channels::{Pace, Sources};

use crate::LoadError;

/// The attackers have computers of their own, but here they share the processors with the server.
const NICENESS: i32 = 19;

/// What attackers do.
pub enum Attack {
    /// Control channels that follow the protocol up to some step.
    ControlChannels {
        /// Up to which.
        plan: Plan,
        /// From which addresses.
        sources: Sources,
        /// How many.
        pace: Pace,
    },
    /// A client whose data comes from two ports in turns.
    Roaming {
        /// How its control channel is wrapped.
        wrap: WrapConfig,
        /// Its certificate.
        tls: TlsConfig,
        /// Packets a second.
        rate: u32,
    },
    /// TCP connections.
    Connections {
        /// What they send.
        talk: Talk,
        /// How many at once.
        count: usize,
    },
}

/// What the attackers' thread and its owner share.
#[derive(Default)]
struct Counters {
    stop: AtomicBool,
    begun: AtomicU64,
    done: AtomicU64,
}

/// Attackers at work, until this is dropped.
pub struct Attackers {
    counters: Arc<Counters>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Attackers {
    /// Lets them attack `target` from a thread of their own.
    pub fn start(target: SocketAddr, attack: Attack) -> Attackers {
        let counters = Arc::new(Counters::default());
        let theirs = Arc::clone(&counters);
        Attackers { counters, thread: Some(std::thread::spawn(move || attack.run(&theirs, target))) }
    }

    /// Control channels, connections or data packets that began.
    pub fn begun(&self) -> u64 {
        self.counters.begun.load(Ordering::Relaxed)
    }

    /// Those that came as far as they should; of soft resets each that the server answered.
    pub fn done(&self) -> u64 {
        self.counters.done.load(Ordering::Relaxed)
    }

    /// Whether the attack goes on. It ends by itself only if it cannot be carried out.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends the attack.
    ///
    /// # Errors
    /// When it could not be carried out.
    pub fn stop(mut self) -> Result<(), LoadError> {
        self.counters.stop.store(true, Ordering::Relaxed);
        let outcome = self.thread.take().map_or(Ok(Ok(())), JoinHandle::join);
        outcome.map_err(|_| LoadError::Panicked)?.map_err(LoadError::system("the attack ended"))
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        self.counters.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Attack {
    fn run(self, counters: &Counters, target: SocketAddr) -> std::io::Result<()> {
        let _ = rustix::process::nice(NICENESS);
        match self {
            Attack::ControlChannels { plan, sources, pace } => {
                control_channels::run(counters, plan, target, sources, pace)
            }
            Attack::Roaming { wrap, tls, rate } => roaming::run(counters, target, wrap, tls, rate),
            Attack::Connections { talk, count } => {
                connections::run(counters, target, talk, count);
                Ok(())
            }
        }
    }
}

/// A TLS client with these credentials; it shows no certificate if they hold none.
///
/// # Errors
/// When they cannot be used.
pub fn tls(credentials: &Credentials) -> Result<TlsConfig, LoadError> {
    let environment = TlsEnvironment::new(Arc::new(rustls::time_provider::DefaultTimeProvider));
    let tls = client_tls(credentials, PeerRequirements::default(), &environment);
    tls.map(TlsConfig::Client).map_err(LoadError::key("the attackers' credentials"))
}
