//! Attackers that hold a connection to the server, and those that forge datagrams.

mod connections;
mod floating;
mod session;
mod sessions;

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use adit_openvpn::PeerRequirements;
use adit_openvpn::TlsConfig;
use adit_openvpn::credentials::{CredentialError, Credentials, TlsEnvironment, client_tls};
use adit_openvpn::wrap::WrapConfig;
use adit_testbed::{Namespace, TestbedError};

pub(crate) use connections::Talk;
pub(crate) use session::{Behaviour, Plan};
pub(crate) use sessions::{Pace, Sources};

/// The attackers have computers of their own, but here they share the processors with the server.
const NICENESS: i32 = 19;

/// What attackers do.
pub(crate) enum Attack {
    /// Sessions that follow the protocol up to some step.
    Sessions {
        /// Up to which.
        plan: Plan,
        /// From which addresses.
        sources: Sources,
        /// How many.
        pace: Pace,
    },
    /// A client whose data comes from two ports in turns.
    Floating {
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
pub(crate) struct Counters {
    stop: AtomicBool,
    begun: AtomicU64,
    done: AtomicU64,
}

/// Attackers at work, until this is dropped.
pub(crate) struct Attackers {
    counters: Arc<Counters>,
    thread: Option<JoinHandle<Result<(), TestbedError>>>,
}

impl Attackers {
    /// Lets them attack `target` from `namespace`, in a thread of their own.
    pub(crate) fn start(namespace: &Arc<Namespace>, target: SocketAddr, attack: Attack) -> Attackers {
        let counters = Arc::new(Counters::default());
        let (theirs, namespace) = (Arc::clone(&counters), Arc::clone(namespace));
        let work = move || {
            let outcome = namespace.enter(|| attack.run(&theirs, target))?;
            outcome.map_err(|source| TestbedError::Network { what: "the attack ended".into(), source })
        };
        Attackers { counters, thread: Some(std::thread::spawn(work)) }
    }

    /// Sessions, connections or data packets that began.
    pub(crate) fn begun(&self) -> u64 {
        self.counters.begun.load(Ordering::Relaxed)
    }

    /// Those that came as far as they should; of soft resets each that the server answered.
    pub(crate) fn done(&self) -> u64 {
        self.counters.done.load(Ordering::Relaxed)
    }

    /// Ends the attack and says whether it could be carried out.
    pub(crate) fn stop(mut self) -> Result<(), TestbedError> {
        self.counters.stop.store(true, Ordering::Relaxed);
        let outcome = self.thread.take().map(JoinHandle::join);
        outcome.unwrap_or(Ok(Ok(()))).map_err(|_| TestbedError::Worker("the attack"))?
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
            Attack::Sessions { plan, sources, pace } => sessions::run(counters, plan, target, sources, pace),
            Attack::Floating { wrap, tls, rate } => floating::run(counters, target, wrap, tls, rate),
            Attack::Connections { talk, count } => {
                connections::run(counters, target, talk, count);
                Ok(())
            }
        }
    }
}

/// A TLS client with these credentials; those without a certificate show none.
pub(crate) fn tls(credentials: &Credentials) -> Result<TlsConfig, CredentialError> {
    let environment = TlsEnvironment::new(Arc::new(rustls::time_provider::DefaultTimeProvider));
    client_tls(credentials, PeerRequirements::default(), &environment).map(TlsConfig::Client)
}

/// Makes all addresses below that network the namespace's own.
pub(crate) fn own_network(namespace: &Namespace, network: Ipv6Addr, length: u8) -> Result<(), TestbedError> {
    let network = format!("{network}/{length}");
    namespace.ip(&["-6", "route", "add", "local", &network, "dev", "lo"])?;
    // A socket may bind such an address only with this (Linux ip-sysctl, ip_nonlocal_bind).
    let path = "/proc/sys/net/ipv6/ip_nonlocal_bind";
    let written = namespace.enter(|| std::fs::write(path, "1"))?;
    written.map_err(|source| TestbedError::File { path: path.into(), source })
}
