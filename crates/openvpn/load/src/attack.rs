//! Attackers that hold TCP connections, control channels before or after authentication, or a client that roams.

mod connections;
mod control_channel;
mod control_channels;
mod roaming;
mod sources;

use std::net::SocketAddr;
use std::sync::Arc;

use adit_load::{Counters, Load, LoadError};
use adit_openvpn::credentials::{Credentials, TlsEnvironment, client_tls};
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::{PeerRequirements, TlsConfig};

pub use connections::Talk;
pub use control_channel::{Behaviour, Plan};
pub use control_channels::Pace;
pub use sources::Sources;

/// The attackers have computers of their own, but here they share the processors with the server.
const NICENESS: i32 = 19;

/// The kinds of attack.
pub enum Attack {
    /// Control channels that follow the protocol up to some step.
    ControlChannels {
        /// Up to which.
        plan: Plan,
        /// The attackers' addresses.
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
        /// The bytes that they send.
        talk: Talk,
        /// The attackers' addresses.
        sources: Sources,
        /// How many at once.
        count: usize,
    },
}

impl Attack {
    /// Lets attackers attack `target` from a thread of their own. Counted are the control channels, connections or data packets
    /// that begin, and those that come as far as they should; of soft resets each that the server answers, of control
    /// messages each packet that it acknowledges.
    pub fn start(self, target: SocketAddr) -> Load {
        Load::start(move |counters| self.run(counters, target).map_err(LoadError::system("the attack ended")))
    }

    fn run(self, counters: &Counters, target: SocketAddr) -> std::io::Result<()> {
        let _ = rustix::process::nice(NICENESS);
        match self {
            Attack::ControlChannels { plan, sources, pace } => {
                control_channels::run(counters, plan, target, sources, pace)
            }
            Attack::Roaming { wrap, tls, rate } => roaming::run(counters, target, wrap, tls, rate),
            Attack::Connections { talk, sources, count } => {
                connections::run(counters, target, talk, sources, count);
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
