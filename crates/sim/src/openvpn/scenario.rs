//! The decisions of a seed before the run: the ends, their settings, and the network.

mod draw;
mod wrapping;

use std::time::Duration;

use adit_core::{Cipher, Digest, PeerLimits, Transport};
use adit_openvpn::codec::Compression;
use rustls::SupportedProtocolVersion;

pub(crate) use self::wrapping::Wrapping;
use crate::network::{Delay, Faults};
use crate::openvpn::third_party::Implementation;

/// How long each part of a simulation lasts, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phases {
    /// Clean from the start.
    pub(crate) start: Duration,
    /// The part with faults.
    pub(crate) faults: Duration,
    /// Clean again; all must be up within it ([`Scenario::recovery_bound`]).
    pub(crate) recovery: Duration,
    /// Clean, and nothing may be lost.
    pub(crate) calm: Duration,
}

/// One end's timing of key exchanges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// `hand-window`.
    pub(crate) hand_window: Duration,
    /// `reneg-sec`.
    pub(crate) reneg: Option<Duration>,
    /// `tls-timeout`.
    pub(crate) retransmit: Duration,
}

/// A point-to-point tunnel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PointToPoint {
    /// `single-session`: no other peer replaces one that is up.
    pub(crate) single_session: bool,
    /// `ping-exit` in place of `ping-restart`.
    pub(crate) ping_exit: bool,
}

/// The control channel.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    pub(crate) wrapping: Wrapping,
    pub(crate) versions: Vec<&'static SupportedProtocolVersion>,
    /// The server's timing, and the clients'.
    pub(crate) timing: [Timing; 2],
    /// `tran-window`, longer than any end stays on old keys.
    pub(crate) tran_window: Duration,
    /// `max-packet-size`.
    pub(crate) max_packet_size: usize,
}

/// The data channel.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    /// `data-ciphers` of the server.
    pub(crate) ciphers: Vec<Cipher>,
    pub(crate) compression: Compression,
    /// `auth`.
    pub(crate) digest: Digest,
    /// Which ends do without the epoch data format: the server, the clients.
    pub(crate) before_2_7: [bool; 2],
}

/// Times after which an end sends a ping, or gives an attempt or a tunnel up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Liveness {
    /// `ping`.
    pub(crate) ping: Duration,
    /// `ping-restart` of the client; the server's is twice as long.
    pub(crate) ping_restart: Duration,
    /// `server-poll-timeout`.
    pub(crate) server_poll_timeout: Duration,
    /// `connect-retry`: the first wait between attempts, and the longest.
    pub(crate) retry: (Duration, Duration),
}

/// The server's settings for its clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerOptions {
    pub(crate) client_to_client: bool,
    /// Additional options that are pushed: enough of them, and the push needs several messages.
    pub(crate) pushed_routes: u64,
    /// The server has no more addresses than clients.
    pub(crate) tight_pool: bool,
    /// Every third client has settings of its own ([`Scenario::has_client_config`]), which the server asks for.
    pub(crate) client_configs: bool,
    /// The server keeps its clients' addresses beyond its restart.
    pub(crate) persist_pool: bool,
    /// The server does not enforce [`Scenario::limits`], but pushes them.
    pub(crate) pushes_limits: bool,
}

/// How clients are authenticated beside their certificates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Auth {
    /// Clients have a username and a password too.
    pub(crate) passwords: bool,
    /// Scripts of the server authenticate clients: slowly, by files later, and sometimes with a refusal.
    pub(crate) scripts: bool,
    /// `learn-address` runs too.
    pub(crate) learn_address: bool,
    /// The script that verifies a password sends the client challenges while keys are renegotiated.
    pub(crate) challenges: bool,
    /// A management client authenticates clients, with the scripts or without.
    pub(crate) management: bool,
}

/// The network between the clients and the server.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    /// The delay of every datagram, in each direction.
    pub(crate) delay: Delay,
    /// The largest IP packet that the path to the server carries.
    pub(crate) mtu: usize,
    /// All of a client's sockets are seen under one address, as with `lport`, until it changes.
    pub(crate) fixed_port: bool,
    /// The faults for each client, to and from the server.
    pub(crate) faults: Vec<[Faults; 2]>,
}

/// The longest delays inside an end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Latency {
    /// The time until the protocol handles the data plane's messages.
    pub(crate) notices: Duration,
    /// The time until each half of the data plane applies the protocol's orders.
    pub(crate) orders: Duration,
    /// The time until a timer that is due is handled.
    pub(crate) wake: Duration,
}

/// Mean times between two events of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Intervals {
    /// The interval of an attacker's datagrams, which repeat and change captured ones.
    pub(crate) attack: Option<Duration>,
    /// Faults of processes and of the network (restarts, crashes, new addresses, blackholes) while there are faults.
    pub(crate) fault: Duration,
    /// Orders to renegotiate.
    pub(crate) rekey: Duration,
    /// Inner packets of one sender.
    pub(crate) packet: Duration,
}

/// Which ends change keys as other implementations do; the others are ours.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThirdParty {
    /// By client: index 0 is client 1.
    pub(crate) clients: Vec<Option<Implementation>>,
    /// The server changes keys as MirageVPN's does.
    pub(crate) server: bool,
}

/// All that a seed decides before the start.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) clients: usize,
    /// Each client's remotes, all at the same server.
    pub(crate) remotes: Vec<Transport>,
    pub(crate) third_party: ThirdParty,
    /// Two ends that push nothing, in place of a server and its clients.
    pub(crate) point_to_point: Option<PointToPoint>,
    pub(crate) control: Control,
    pub(crate) data: Data,
    pub(crate) liveness: Liveness,
    /// `inactive` and `session-timeout`.
    pub(crate) limits: PeerLimits,
    pub(crate) server: ServerOptions,
    pub(crate) auth: Auth,
    pub(crate) network: Network,
    pub(crate) latency: Latency,
    pub(crate) intervals: Intervals,
    /// Clocks jump and machines sleep while there are faults.
    pub(crate) clock_faults: bool,
    pub(crate) phases: Phases,
}

/// The number of clients in scenarios with many clients.
const MANY_CLIENTS: usize = 200;

/// A client that ended is started again after this time, as a service manager would.
pub(crate) const RESTART_AFTER: Duration = Duration::from_secs(1);
/// The headers around a datagram: IPv4 and UDP.
pub(crate) const UDP_HEADERS: usize = 28;
/// A handshake over a clean net takes no longer, name resolution and connecting included.
pub(crate) const CLEAN_CONNECT: Duration = Duration::from_secs(10);

impl Scenario {
    /// The implementation of a third-party client; `None` for ours.
    pub(crate) fn implementation(&self, client: usize) -> Option<Implementation> {
        self.third_party.clients.get(client.wrapping_sub(1)).copied().flatten()
    }

    /// Which ends enforce the limits: the server, the clients.
    pub(crate) fn enforces_limits(&self) -> [bool; 2] {
        [!self.server.pushes_limits, self.server.pushes_limits || self.point_to_point.is_some()]
    }

    /// Whether scripts or a management client may refuse a client.
    pub(crate) fn has_authenticator(&self) -> bool {
        self.auth.scripts || self.auth.management
    }

    /// Whether there are many clients.
    pub(crate) fn has_many_clients(&self) -> bool {
        self.clients >= MANY_CLIENTS
    }

    /// Whether that client has settings of its own: a fixed address, and a network behind it.
    pub(crate) fn has_client_config(&self, client: usize) -> bool {
        self.server.client_configs && client % 3 == 1
    }

    /// The largest inner packet that is sure to fit through the path to the server.
    pub(crate) fn largest_inner(&self) -> usize {
        let overhead = if self.data.ciphers.iter().all(|cipher| cipher.is_aead()) { 29 } else { 105 };
        self.network.mtu - overhead - UDP_HEADERS
    }

    /// Both ends of every tunnel are up again this long after the faults stopped.
    ///
    /// The longest chain of waits: a server that receives nothing drops its client after twice the client's
    /// `ping-restart`, and the client, which still received its pings, notices after its own; or an attempt that was
    /// begun cannot succeed and ends with its window (`server-poll-timeout`, or one `hand-window` for the key exchange
    /// and one for the push). Then comes the longest wait before the next attempt, and a handshake
    /// without loss.
    pub(crate) fn recovery_bound(&self) -> Duration {
        let attempt = self.liveness.server_poll_timeout.max(self.longest_window() * 2);
        self.liveness.ping_restart * 3 + attempt + self.liveness.retry.1 + RESTART_AFTER + CLEAN_CONNECT
    }

    /// The longer `hand-window` of both ends.
    pub(crate) fn longest_window(&self) -> Duration {
        longest_window(&self.control.timing)
    }

    /// Whether a corrupted control packet can be taken for the peer's, as it can without wrapping.
    pub(crate) fn forgeable(&self) -> bool {
        let corrupted = self.network.faults.iter().flatten().any(|direction| direction.corruption > 0);
        self.control.wrapping == Wrapping::Plain && (corrupted || self.intervals.attack.is_some())
    }
}

fn longest_window(timing: &[Timing; 2]) -> Duration {
    timing[0].hand_window.max(timing[1].hand_window)
}
