//! Two endpoints over a network in memory, with virtual time, and their data planes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use adit_core::{
    Command, DataEvent, Event, Flow, Instant, Notice, OnFirstOpened, Path, PeerConfig, PeerId, PeerOrder,
    Protocol, Rejected, SessionId, TunnelSettings,
};

use crate::crypto::{DirectionKeys, Secret};
use crate::machine::{
    Child, Childless, Codec, Connection, EndAction, Endpoint, FamilySockets, Inner, LocalAuth, LocalProof,
    Params, PeerIdentity, RemoteAuth, RemoteProof, Reply, Request, SharedKey, Sockets, StartAction, Times,
    Traffic, Unique,
};
use crate::suite::{esp_proposals, ike_proposals};
use crate::wire::{IdType, Identification};

pub(super) const PEER: PeerId = PeerId(0);
pub(super) const A: usize = 0;
pub(super) const B: usize = 1;
/// The time of the system's clock at the origin.
pub(super) const WALL: u64 = 1_700_000_000;
/// The outside address of a NAT in front of end A.
const OUTSIDE: [u8; 4] = [198, 51, 100, 1];
/// A packet that waits.
pub(super) const ANY_FLOW: Flow =
    Flow::between(IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 2, 0, 1)));
/// The number of a socket's learned address, less that of the socket.
const LEARNED: u32 = 10;
const LATENCY: Duration = Duration::from_millis(10);

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn address(end: usize) -> IpAddr {
    IpAddr::from([192, 0, 2, end as u8 + 1])
}

pub(super) fn identity(name: &str) -> Identification {
    Identification { kind: IdType::FQDN, data: name.as_bytes().to_vec() }
}

/// The connection of an end to the other one. End A initiates.
pub(super) fn connection(end: usize) -> Connection {
    let names = ["a.example", "b.example"];
    let key: Secret = b"secret".to_vec().into();
    let mut connection = Connection {
        name: names[1 - end].to_owned(),
        remotes: Vec::new(),
        has_names: false,
        device: Default::default(),
        sources: Vec::new(),
        local_auth: LocalAuth {
            identity: identity(names[end]),
            proof: LocalProof::SharedKey(SharedKey(key.clone())),
        },
        remote_auth: RemoteAuth {
            identity: PeerIdentity::Exactly(identity(names[1 - end])),
            proof: RemoteProof::SharedKey(SharedKey(key)),
        },
        ike: ike_proposals("aes256gcm16-prfsha256-x25519").unwrap(),
        children: vec![child(end, "net", ["10.1.0.0/16", "10.2.0.0/16"])],
        inner: Inner::None,
        unique: Unique::No,
        childless: Childless::Allow,
        forces_encapsulation: false,
        mobike: false,
        longest_datagram: Some(1280),
        ppk: None,
        full_transcript: Default::default(),
        times: Times::default(),
    };
    if end == A {
        initiates(&mut connection, end);
    }
    connection
}

/// Makes an end bring up all children of its connection, and again whenever they are gone.
pub(super) fn initiates(connection: &mut Connection, end: usize) {
    connection.remotes = vec![SocketAddr::new(address(1 - end), 500)];
    for child in &mut connection.children {
        (child.start, child.on_close, child.on_dead_peer) =
            (StartAction::Start, EndAction::Start, EndAction::Start);
    }
}

/// A child with the networks of end A and of end B.
pub(super) fn child(end: usize, name: &str, networks: [&str; 2]) -> Child {
    let traffic = |end: usize| vec![Traffic::all_of(networks[end].parse().unwrap())];
    Child {
        name: name.to_owned(),
        esp: esp_proposals("aes256gcm16-x25519").unwrap(),
        local: traffic(end),
        remote: traffic(1 - end),
        start: StartAction::None,
        on_close: EndAction::None,
        on_dead_peer: EndAction::None,
        rekey: Some(seconds(3600)),
        lifetime: None,
        inactivity: None,
        limits: Default::default(),
        updown: None,
    }
}

/// Sets the pre-shared key of both ends.
pub(super) fn set_key(connection: &mut Connection, key: &[u8]) {
    let key = || SharedKey(key.to_vec().into());
    connection.local_auth.proof = LocalProof::SharedKey(key());
    connection.remote_auth.proof = RemoteProof::SharedKey(key());
}

/// Sets the identity that the peer must prove.
pub(super) fn expect_peer(connection: &mut Connection, name: &str) {
    connection.remote_auth.identity = PeerIdentity::Exactly(identity(name));
}

fn family(socket: u32) -> FamilySockets {
    FamilySockets { ipv4: Some(socket), ipv6: None }
}

pub(super) fn params(connection: Connection) -> Params {
    Params {
        connections: vec![connection],
        sockets: Sockets { plain: family(0), marked: family(1), esp: family(2) },
        limits: crate::machine::Limits::default(),
        tunnel: None,
        wall_at_origin: adit_core::UnixTime(WALL),
    }
}

/// The data plane of an end, with the events that the end emitted.
#[derive(Default)]
pub(super) struct Plane {
    /// The newest peer.
    pub(super) peer: Option<PeerConfig>,
    /// All peers, with the largest MSS that may pass.
    pub(super) known: BTreeMap<PeerId, Option<u16>>,
    pub(super) sessions: BTreeMap<SessionId, Codec>,
    /// The sessions that seal, by series.
    pub(super) active: BTreeMap<u32, SessionId>,
    series: BTreeMap<SessionId, u32>,
    /// The sessions in the order in which they were installed.
    order: Vec<SessionId>,
    /// The sessions that began to seal by their first opened packet.
    began: BTreeSet<SessionId>,
    opened: BTreeSet<SessionId>,
    /// Sessions whose datagrams the data plane holds until they come.
    pub(super) expected: BTreeSet<SessionId>,
    /// Sessions that seal once they have opened a packet.
    waiting: BTreeSet<SessionId>,
    /// How often the session in use was retired before another one was activated.
    pub(super) gaps: usize,
    pub(super) ups: usize,
    pub(super) downs: Vec<String>,
    pub(super) reports: Vec<String>,
    pub(super) ended: bool,
    /// The settings of the tunnel, as they were said one after the other.
    pub(super) settings: Vec<TunnelSettings>,
    pub(super) notifications: Vec<Request>,
}

impl Plane {
    fn take(&mut self, event: super::Event) {
        match event {
            Event::Data(DataEvent::Peer(PeerOrder::Add(config))) => {
                self.known.insert(config.peer, config.max_mss);
                self.peer = Some(config);
            }
            Event::Data(DataEvent::Peer(PeerOrder::Remove(gone))) => {
                self.known.remove(&gone);
                if self.peer.as_ref().is_none_or(|own| own.peer != gone) {
                    return;
                }
                self.peer = None;
                self.sessions.clear();
                self.active.clear();
            }
            Event::Data(DataEvent::Peer(PeerOrder::Move { path, .. })) => {
                self.peer.as_mut().expect("a peer moves that is there").path = Some(path);
            }
            Event::Data(DataEvent::Peer(PeerOrder::SetMaxMss { peer, max_mss })) => {
                *self.known.get_mut(&peer).expect("the peer of an order") = max_mss;
            }
            Event::Data(DataEvent::Install(install)) => {
                assert!(self.known.contains_key(&install.peer), "a session of no peer");
                if install.on_first_opened == OnFirstOpened::Activate {
                    self.waiting.insert(install.session);
                }
                self.series.insert(install.session, install.series);
                self.order.push(install.session);
                let before = self.sessions.insert(install.session, install.codec);
                assert!(before.is_none(), "an SPI is used twice");
            }
            Event::Data(DataEvent::Expect(session)) => drop(self.expected.insert(session)),
            Event::Data(DataEvent::Activate { session, .. }) => {
                assert!(self.sessions.contains_key(&session), "a session is activated that is not there");
                let active = self.active.get(&self.series[&session]);
                let place = |session: &SessionId| self.order.iter().position(|other| other == session);
                // The data plane keeps to a later session that began by its first packet.
                let is_late = active
                    .is_some_and(|active| self.began.contains(active) && place(active) > place(&session));
                if !is_late {
                    self.active.insert(self.series[&session], session);
                }
            }
            Event::Data(DataEvent::Retire { session, .. }) => {
                self.sessions.remove(&session);
                let series = self.series[&session];
                if self.active.get(&series) == Some(&session) {
                    self.active.remove(&series);
                    let is_left = self.sessions.keys().any(|other| self.series[other] == series);
                    self.gaps += usize::from(is_left);
                }
            }
            Event::PeerUp { .. } => self.ups += 1,
            Event::PeerDown { reason, .. } => self.downs.push(reason),
            Event::Report(report) => self.reports.push(report.to_string()),
            Event::Ended(_) => self.ended = true,
            Event::Up(settings) => self.settings.push(settings),
            Event::Request(notification) => self.notifications.push(notification),
            _ => {}
        }
    }
}

impl Plane {
    /// The session of the first child that seals.
    pub(super) fn first_active(&self) -> Option<SessionId> {
        self.active.get(&0).copied()
    }
}

/// A datagram on its way.
#[derive(Clone)]
pub(super) struct Datagram {
    pub(super) to: usize,
    /// The path at the receiving end.
    pub(super) path: Path,
    pub(super) bytes: Vec<u8>,
}

/// The function that gives the delay of each copy of a datagram, by the datagram's number. No copies: it is lost.
pub(super) type Network = Box<dyn FnMut(usize, &Datagram) -> Vec<Duration>>;

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) ends: [Endpoint; 2],
    pub(super) planes: [Plane; 2],
    /// Datagrams by time and number.
    queue: BTreeMap<(Instant, usize), Datagram>,
    pub(super) sent: usize,
    /// All messages that were sent.
    pub(super) log: Vec<Datagram>,
    /// The times of the datagrams of each end that keep a NAT's mapping.
    pub(super) keepalives: [Vec<Instant>; 2],
    /// The delays of datagrams.
    pub(super) network: Network,
    /// Whether no packets pass, so that no end learns from a packet that the other end seals with new keys.
    pub(super) is_quiet: bool,
    /// The source port of end A behind a NAT.
    pub(super) nat: Option<u16>,
    /// The address that end A has moved to.
    pub(super) moved: Option<IpAddr>,
    /// The address that end B has in place of its first one.
    pub(super) moved_b: Option<IpAddr>,
    /// An address to which no datagram comes.
    pub(super) lost_address: Option<IpAddr>,
    /// The sockets of end A are bound to all addresses.
    learns: bool,
    pub(super) rejected: Vec<Rejected>,
    /// The number of children that are to be up.
    pub(super) children: usize,
}

impl World {
    pub(super) fn new(a: Connection, b: Connection) -> Self {
        World::with_params(params(a), params(b))
    }

    pub(super) fn with_params(a: Params, b: Params) -> Self {
        let now = Instant::ORIGIN + seconds(1000);
        let end = |params, seed| Endpoint::new(params, now, [seed; 32]).expect("parameters");
        let mut world = World {
            now,
            ends: [end(a, 1), end(b, 2)],
            planes: Default::default(),
            queue: BTreeMap::new(),
            sent: 0,
            log: Vec::new(),
            keepalives: Default::default(),
            network: Box::new(|_, _| vec![LATENCY]),
            is_quiet: false,
            nat: None,
            moved: None,
            moved_b: None,
            lost_address: None,
            learns: false,
            rejected: Vec::new(),
            children: 1,
        };
        [A, B].into_iter().for_each(|end| world.bind(end));
        world
    }

    fn bind(&mut self, end: usize) {
        let learns = self.learns && end == A;
        for (socket, port) in [(0, 500), (1, 4500)] {
            let local = SocketAddr::new(address(end), port);
            let bound = if learns { SocketAddr::from(([0; 4], port)) } else { local };
            self.ends[end].handle_command(self.now, Command::SocketBound { socket, local: bound });
            if learns {
                let learned = Command::SocketBound { socket: socket + LEARNED, local };
                self.ends[end].handle_command(self.now, learned);
            }
        }
        self.drain(end);
    }

    /// Has end A start anew with sockets that are bound to all addresses. The path of each datagram that comes in has its address.
    pub(super) fn learn_addresses(&mut self, params: Params) {
        self.learns = true;
        self.restart(A, params, 1);
    }

    /// Replaces an end by one that has just started.
    pub(super) fn restart(&mut self, end: usize, params: Params, seed: u8) {
        self.ends[end] = Endpoint::new(params, self.now, [seed; 32]).unwrap();
        self.planes[end] = Plane::default();
        self.bind(end);
    }

    fn drain(&mut self, end: usize) {
        loop {
            while let Some(event) = self.ends[end].poll_event() {
                self.planes[end].take(event);
            }
            let mut bytes = Vec::new();
            let Some(path) = self.ends[end].poll_transmit(&mut bytes) else { break };
            self.transmit(end, path, bytes);
        }
        self.check_active(end);
        self.check_indexes(end);
    }

    /// The indexes of an endpoint hold the times and SPIs that a walk through all peers finds.
    fn check_indexes(&self, end: usize) {
        let end = &self.ends[end];
        let initiating = end.peers.values().filter_map(|state| state.initiate_at).min();
        assert_eq!(end.initiations.next(), initiating);
        let children = end.sas.values().flat_map(|sa| sa.children.keys().copied());
        let spis: BTreeSet<u32> = children.chain(end.shared.lingering.spis()).collect();
        assert_eq!(end.shared.child_spis, spis);
        let lingering = end.shared.lingering.next();
        assert_eq!(
            end.poll_timeout(),
            initiating.into_iter().chain(end.schedule.next()).chain(lingering).min()
        );
    }

    /// If `end` seals with a new session, the other end opens a packet of it and gets [`Notice::FirstOpened`].
    fn check_active(&mut self, end: usize) {
        if self.is_quiet {
            return;
        }
        let plane = &self.planes[end];
        let active = plane.active.values().filter_map(|active| plane.sessions.get(active));
        let sealed: Vec<_> = active.map(|codec| (codec.outbound_spi, codec.seal.clone())).collect();
        sealed.into_iter().for_each(|(spi, seal)| self.open_first(1 - end, SessionId(u64::from(spi)), &seal));
    }

    fn open_first(&mut self, end: usize, session: SessionId, seal: &DirectionKeys) {
        let plane = &mut self.planes[end];
        if let Some(codec) = plane.sessions.get(&session)
            && !plane.opened.contains(&session)
        {
            assert!(codec.open == *seal, "both ends have other keys");
            plane.opened.insert(session);
            if plane.waiting.contains(&session) {
                plane.active.insert(plane.series[&session], session);
                plane.began.insert(session);
            }
            let peer = self.planes[end].peer.as_ref().map_or(PEER, |config| config.peer);
            self.notify(end, Notice::FirstOpened { peer, session });
        }
    }

    fn transmit(&mut self, from: usize, path: Path, bytes: Vec<u8>) {
        let Path::Udp { socket, remote } = path else { panic!("a path of UDP") };
        let socket = socket % LEARNED;
        if bytes == [0xff] {
            // The data plane of the other end ignores them.
            assert_eq!(socket, 1, "at the port of ESP in UDP");
            return self.keepalives[from].push(self.now);
        }
        let own = [address(A), IpAddr::from(OUTSIDE)];
        let (to, is_of_a) = (1 - from, own.contains(&remote.ip()) || Some(remote.ip()) == self.moved);
        let moved = if from == A { self.moved } else { self.moved_b };
        let here = moved.unwrap_or_else(|| address(from));
        let mut source = SocketAddr::new(here, if socket == 0 { 500 } else { 4500 });
        if let (Some(port), A) = (self.nat, from) {
            source = SocketAddr::from((OUTSIDE, port + socket as u16));
        }
        let socket = match (self.nat, to) {
            (Some(port), A) if is_of_a => u32::from(remote.port() - port),
            _ => u32::from(remote.port() == 4500),
        };
        let socket = if self.learns && to == A { socket + LEARNED } else { socket };
        let datagram = Datagram { to, path: Path::Udp { socket, remote: source }, bytes };
        let is_gone =
            self.moved.is_some() && remote.ip() == address(A) || Some(remote.ip()) == self.lost_address;
        let has_left = is_gone || to == A && !is_of_a;
        let times = if has_left { Vec::new() } else { (self.network)(self.sent, &datagram) };
        for after in times {
            self.sent += 1;
            self.queue.insert((self.now + after, self.sent), datagram.clone());
        }
        self.sent += 1;
        self.log.push(datagram);
    }

    pub(super) fn deliver(&mut self, datagram: &Datagram) {
        let Datagram { to, path, bytes } = datagram;
        if let Err(rejected) = self.ends[*to].handle_datagram(self.now, *path, bytes) {
            self.rejected.push(rejected);
        }
        self.drain(*to);
    }

    pub(super) fn notify(&mut self, end: usize, notice: Notice) {
        self.ends[end].handle_notice(self.now, notice);
        self.drain(end);
    }

    pub(super) fn command(&mut self, end: usize, command: Command) {
        self.ends[end].handle_command(self.now, command);
        self.drain(end);
    }

    /// End A has another address from now on.
    pub(super) fn move_a(&mut self, address: IpAddr) {
        self.moved = Some(address);
        self.bind_to(A, address);
    }

    /// End B is at another address alone from now on.
    pub(super) fn move_b(&mut self, new: IpAddr) {
        (self.moved_b, self.lost_address) = (Some(new), Some(address(B)));
        self.bind_to(B, new);
    }

    fn bind_to(&mut self, end: usize, address: IpAddr) {
        for (socket, port) in [(0, 500), (1, 4500), (2, 0)] {
            self.command(end, Command::SocketBound { socket, local: SocketAddr::new(address, port) });
        }
    }

    /// Loses all datagrams that are on their way.
    pub(super) fn forget_datagrams(&mut self) {
        self.queue.clear();
    }

    pub(super) fn reply(&mut self, end: usize, reply: Reply) {
        self.ends[end].handle_reply(self.now, reply);
        self.drain(end);
    }

    /// Runs both ends for that time.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        let mut at_once = 0;
        loop {
            let timers = self
                .ends
                .iter()
                .enumerate()
                .filter_map(|(end, machine)| Some((machine.poll_timeout()?, end)));
            let timer = timers.min();
            let datagram = self.queue.first_key_value().map(|((at, _), _)| *at);
            let Some(next) =
                timer.map(|(at, _)| at).into_iter().chain(datagram).min().filter(|at| *at <= end)
            else {
                self.now = end;
                return;
            };
            at_once = if next > self.now { 0 } else { at_once + 1 };
            assert!(at_once < 1000, "the machines spin");
            self.now = self.now.max(next);
            match timer {
                Some((at, end)) if datagram.is_none_or(|datagram| at <= datagram) => {
                    self.ends[end].handle_timeout(self.now);
                    self.drain(end);
                }
                _ => {
                    let Some((_, datagram)) = self.queue.pop_first() else { continue };
                    self.deliver(&datagram);
                }
            }
        }
    }

    /// The number of the connection of an end's first IKE SA, whose peer may be an instance of it.
    pub(super) fn connection_of(&self, end: usize) -> Option<usize> {
        let end = &self.ends[end];
        end.sas
            .values()
            .find_map(|sa| sa.connection)
            .and_then(|number| end.connections.number_of_peer(number))
    }

    /// Whether each end seals with sessions of all children that the other end opens with the same keys.
    pub(super) fn is_connected(&self) -> bool {
        [A, B].into_iter().all(|end| {
            let (own, other) = (&self.planes[end], &self.planes[1 - end]);
            let is_opened = |active: &SessionId| {
                own.sessions.get(active).is_some_and(|codec| {
                    let opened = other.sessions.get(&SessionId(u64::from(codec.outbound_spi)));
                    opened.is_some_and(|opened| opened.open == codec.seal)
                })
            };
            own.active.len() == self.children && own.active.values().all(is_opened)
        })
    }

    /// Whether the ends are connected, and each has a session for each child and one IKE SA, and no half-open ones.
    pub(super) fn is_settled(&self) -> bool {
        self.is_connected()
            && self.planes.iter().all(|plane| plane.sessions.len() == self.children)
            && self.ends.iter().all(|end| end.sas.len() == 1 && end.half_open.is_empty())
    }

    pub(super) fn state(&self) -> String {
        let sas = |end: &Endpoint| {
            let text = |sa: &crate::machine::sa::IkeSa| {
                let children =
                    sa.children.values().map(|child| (child.own_spi, child.phase, child.is_sealing));
                format!("{}: {:?}", sa.own_spi, children.collect::<Vec<_>>())
            };
            end.sas.values().map(|sa| text(sa)).collect::<Vec<_>>()
        };
        let planes = self.planes.iter().map(|plane| {
            let sessions = plane.sessions.iter().map(|(id, codec)| (id.0, codec.outbound_spi));
            format!(
                "active {:?} of {:?}, down {:?}, {:?}",
                plane.active,
                sessions.collect::<Vec<_>>(),
                plane.downs,
                plane.reports
            )
        });
        format!("{:#?}\n{:#?}", self.ends.iter().map(sas).collect::<Vec<_>>(), planes.collect::<Vec<_>>())
    }

    #[track_caller]
    pub(super) fn assert_settled(&self, what: &str) {
        assert!(self.is_settled(), "{what}: {}", self.state());
    }
}
