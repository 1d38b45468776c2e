//! Initiators that connect, one soon after the other, and stay: one machine with a connection and an identity for each.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, SystemTime};

use adit_core::{DeviceId, Event, Instant, IpNet, Path, Protocol as _, UnixTime};
use adit_ike::machine::{
    Addresses, Child, Childless, Connection, EndAction, Endpoint, EspLimits, FamilySockets, FullTranscript,
    Inner, Limits, LocalAuth, Params, PeerIdentity, RemoteAuth, Sockets, StartAction, Times, Traffic, Unique,
};
use adit_ike::suite::{esp_proposals, ike_proposals};
use adit_ike::wire::{IdType, Identification};
use adit_load::{Counters, Load, LoadError, seed};

use crate::credentials::Credentials;
use crate::names::{ESP, IKE, INNER, RESPONDER, identity, inner};

/// The port of messages behind a marker, which also carries ESP (RFC 3948).
const PORT: u16 = 4500;
/// The socket of all initiators, by the number that the machine knows it by.
const SOCKET: u32 = 0;
/// How long the socket is waited for before timers are looked at.
const BEAT: Duration = Duration::from_millis(1);
/// Datagrams taken from the socket in a row.
const BATCH: usize = 64;

/// Initiators with the numbers from 0 on. They come from one address, and each brings up one IKE SA with one child SA. Nothing is
/// sent in the child SAs, and no SA is rekeyed.
#[derive(Clone, Copy, Debug)]
pub struct Initiators {
    /// The responder's address. Its port is 4500.
    pub responder: IpAddr,
    /// How many.
    pub count: u32,
    /// How many at once have begun and are not connected. adit asks for cookies from 3 of one address on.
    pub at_once: u32,
    /// Their addresses in the tunnels.
    pub inner: InnerAddresses,
}

/// The addresses of initiators in the tunnels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InnerAddresses {
    /// Each has one of its own.
    Own,
    /// The responder gives each one of its pool.
    Pool,
}

impl Initiators {
    /// Lets them connect, from a thread of its own. Those that are connected are counted as done.
    ///
    /// # Errors
    /// When the system refuses a socket.
    pub fn start(self, credentials: Credentials) -> Result<Load, LoadError> {
        let open = || -> std::io::Result<UdpSocket> {
            let any = if self.responder.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(any)?;
            socket.connect(SocketAddr::new(self.responder, PORT))?;
            socket.set_read_timeout(Some(BEAT))?;
            Ok(socket)
        };
        let socket = open().map_err(LoadError::system("cannot open the initiators' socket"))?;
        let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let sockets = Sockets { marked: both(SOCKET), ..Sockets::default() };
        let runner = Runner {
            start: std::time::Instant::now(),
            machine: endpoint(sockets, UnixTime(since_1970.as_secs()))?,
            remote: SocketAddr::new(self.responder, PORT),
            socket,
            initiators: self,
            credentials,
            begun: 0,
            done: 0,
            datagram: Vec::new(),
        };
        Ok(Load::start(move |counters| runner.run(counters)))
    }
}

/// A machine without connections.
pub(crate) fn endpoint(sockets: Sockets, wall_at_origin: UnixTime) -> Result<Endpoint, LoadError> {
    let (connections, limits) = (Vec::new(), Limits::default());
    let params = Params { connections, sockets, limits, tunnel: None, wall_at_origin };
    Endpoint::new(params, Instant::ORIGIN, seed()).map_err(fault)
}

/// A socket for both families.
pub(crate) const fn both(socket: u32) -> FamilySockets {
    FamilySockets { ipv4: Some(socket), ipv6: Some(socket) }
}

/// The connection of the initiator with this number. It begins at the start.
pub(crate) fn connection(
    credentials: &Credentials,
    number: u32,
    remote: SocketAddr,
    addresses: InnerAddresses,
) -> Result<Connection, LoadError> {
    let name = identity(number);
    let own = Traffic::all_of(IpNet::from(IpAddr::from(inner(number))));
    let (local, inner) = match addresses {
        InnerAddresses::Own => (own, Inner::None),
        InnerAddresses::Pool => {
            let given = Traffic { addresses: Addresses::Dynamic, ..own };
            (given, Inner::Ask(vec![Ipv4Addr::UNSPECIFIED.into()]))
        }
    };
    let host = |name: &str| Identification { kind: IdType::FQDN, data: name.as_bytes().to_vec() };
    let child = Child {
        name: "net".to_owned(),
        esp: esp_proposals(ESP).map_err(fault)?,
        local: vec![local],
        remote: vec![Traffic::all_of(IpNet::from(IpAddr::from(INNER)))],
        start: StartAction::Start,
        on_close: EndAction::None,
        on_dead_peer: EndAction::None,
        rekey: None,
        lifetime: None,
        inactivity: None,
        limits: EspLimits::default(),
        updown: None,
    };
    Ok(Connection {
        remotes: vec![remote],
        has_names: false,
        device: DeviceId::MAIN,
        sources: Vec::new(),
        local_auth: LocalAuth { identity: host(&name), proof: credentials.local(&name)? },
        remote_auth: RemoteAuth {
            identity: PeerIdentity::Exactly(host(RESPONDER)),
            proof: credentials.remote(),
        },
        name,
        ike: ike_proposals(IKE).map_err(fault)?,
        children: vec![child],
        inner,
        unique: Unique::Never,
        childless: Childless::Allow,
        forces_encapsulation: false,
        mobike: false,
        longest_datagram: Some(1280),
        ppk: None,
        full_transcript: FullTranscript::Offer,
        times: Times { ike_rekey: None, dead_peer_detection: None, ..Times::default() },
    })
}

pub(crate) fn fault<E: std::fmt::Display>(error: E) -> LoadError {
    LoadError::key("an initiator")(error)
}

struct Runner {
    start: std::time::Instant,
    machine: Endpoint,
    remote: SocketAddr,
    socket: UdpSocket,
    initiators: Initiators,
    credentials: Credentials,
    begun: u32,
    done: u32,
    datagram: Vec<u8>,
}

impl Runner {
    fn run(mut self, counters: &Counters) -> Result<(), LoadError> {
        while !counters.is_stopped() {
            self.begin(counters)?;
            let now = self.now();
            if self.machine.poll_timeout().is_some_and(|at| at <= now) {
                self.machine.handle_timeout(now);
            }
            self.drain(counters);
            self.receive(counters)?;
        }
        Ok(())
    }

    fn now(&self) -> Instant {
        Instant::ORIGIN + self.start.elapsed()
    }

    fn begin(&mut self, counters: &Counters) -> Result<(), LoadError> {
        while self.begun < self.initiators.count && self.begun - self.done < self.initiators.at_once {
            // The machine learns the time by the datagrams and timeouts that it handles.
            let now = self.now();
            self.machine.handle_timeout(now);
            let addresses = self.initiators.inner;
            let connection = connection(&self.credentials, self.begun, self.remote, addresses)?;
            self.machine.add_connection(connection).map_err(fault)?;
            self.begun += 1;
            counters.add_begun(1);
        }
        Ok(())
    }

    fn receive(&mut self, counters: &Counters) -> Result<(), LoadError> {
        let path = Path::Udp { socket: SOCKET, remote: self.remote };
        let mut buffer = [0; 4096];
        for _ in 0..BATCH {
            let length = match self.socket.recv(&mut buffer) {
                Ok(length) => length,
                // The responder is not there yet: its system says that the port is closed.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(());
                }
                Err(error) => return Err(LoadError::system("the initiators' socket")(error)),
            };
            // ESP and damaged datagrams are rejected, as anywhere.
            let _ = self.machine.handle_datagram(self.now(), path, buffer.get(..length).unwrap_or_default());
            self.drain(counters);
            self.begin(counters)?;
        }
        Ok(())
    }

    fn drain(&mut self, counters: &Counters) {
        loop {
            while let Some(event) = self.machine.poll_event() {
                if matches!(event, Event::PeerUp { .. }) && self.done < self.begun {
                    self.done += 1;
                    counters.add_done(1);
                }
            }
            self.datagram.clear();
            if self.machine.poll_transmit(&mut self.datagram).is_none() {
                return;
            }
            // A datagram that the system does not take counts as lost.
            let _ = self.socket.send(&self.datagram);
        }
    }
}
