//! Virtual time, the network, and the events in the order of time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use adit_core::{Instant, Path, UnixTime};
use adit_dataplane::DropReason;
use adit_sim::network::{Delay, Faults, transmit};
use adit_sim::{EventQueue, Rng, Trace, packet};
use adit_toy::wire::MARKER;
use adit_toy::{Endpoint, PeerSettings, Remotes, Settings};

use crate::end::{Effect, End};
use crate::model::{Model, Packet};
use crate::policy::{self, FAR_PORT, OTHER_PORT, PORT, RESPONDER, SERIES, inner};

const WALL: u64 = 1_790_000_000;
const START: Instant = Instant::from_nanos(1_000_000_000);
/// The responder's sockets: for control messages alone, and for data. Initiators name these as their remotes.
const CONTROL: usize = 0;
const DATA: usize = 1;
const RESPONDER_ADDRESSES: [([u8; 4], u16); 2] = [([192, 0, 2, 1], 500), ([192, 0, 2, 1], 4500)];
const KEEPALIVE: Duration = Duration::from_secs(3);
/// The parts of a run: when each ends.
const CLEAN: Duration = Duration::from_secs(10);
const FAULTY: Duration = Duration::from_secs(70);
/// Three keepalive intervals until a peer is found silent, and a few attempts.
const RECOVERED: Duration = Duration::from_secs(90);
const CALM: Duration = Duration::from_secs(120);
/// Longer than any datagram is in transit on a clean network.
const MAX_TRANSIT: Duration = Duration::from_secs(1);
/// A new address is known after this time.
const SETTLE: Duration = Duration::from_secs(4);

enum Scheduled {
    Arrival { from: SocketAddr, to: SocketAddr, datagram: Vec<u8> },
    Opened { end: usize, start: u32, remote: usize },
    Second,
    Send(usize),
    Fault,
    Attack,
}

/// The counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) delivered: u64,
    pub(crate) expected: u64,
    /// At the end that sends, and at the one that receives.
    pub(crate) refused: [u64; 2],
    pub(crate) sessions: u64,
    pub(crate) beyond_32_bits: u64,
    pub(crate) replays: u64,
    pub(crate) moves: u64,
    /// Packets that each series carried.
    pub(crate) carried: [u64; SERIES],
    /// Packets that both series may carry.
    pub(crate) crossing: u64,
    pub(crate) rekeys: [u64; SERIES],
    /// Control messages at the socket for them, and at the one for data.
    pub(crate) control: [u64; 2],
    pub(crate) trace: u64,
}

pub(crate) struct World {
    now: Instant,
    rng: Rng,
    queue: EventQueue<Scheduled>,
    ends: Vec<End>,
    /// How often each end started.
    starts: Vec<u32>,
    model: Model,
    trace: Trace,
    delay: Delay,
    faults: Faults,
    peers: PeerSettings,
    /// The address of each socket of an initiator, as others see it; and back.
    addresses: BTreeMap<(usize, u32), SocketAddr>,
    owners: BTreeMap<SocketAddr, (usize, u32)>,
    next_socket: u32,
    next_port: u16,
    captured: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
    next_number: u64,
    totals: Totals,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 0);
        let mut some = |most| if rng.chance(600) { rng.below(most) } else { 0 };
        let (loss, duplication, corruption, reordering) = (some(300), some(200), some(100), some(300));
        let hold = rng.millis(10, 2000);
        let jitter = rng.pick(&[0, 20, 100].map(Duration::from_millis));
        let mut peers = PeerSettings::new(0, [0; 32], Vec::new());
        peers.rekey_after = rng.secs(5, 30);
        peers.expires_after = peers.rekey_after + rng.secs(10, 20);
        peers.rekey_after_datagrams = rng.pick(&[100, 1000, 1 << 32]);
        peers.keepalive = KEEPALIVE;
        peers.first_counter = rng.pick(&[1, u32::MAX - 20, u32::MAX - 200]);
        let initiators = rng.between(1, 3) as usize;
        let mut world = World {
            now: START,
            delay: Delay { least: rng.millis(1, 150), jitter },
            faults: Faults { loss, duplication, corruption, reordering, hold },
            rng: Rng::new(seed, 1),
            queue: EventQueue::default(),
            ends: Vec::new(),
            starts: vec![0; initiators + 1],
            model: Model::default(),
            trace: Trace::new(false),
            peers,
            addresses: BTreeMap::new(),
            owners: BTreeMap::new(),
            next_socket: 2,
            next_port: 1024,
            captured: Vec::new(),
            next_number: 0,
            totals: Totals::default(),
        };
        for end in RESPONDER..=initiators {
            let started = world.start(end);
            world.ends.push(started);
            world.queue.push(START, Scheduled::Send(end));
        }
        world.queue.push(START, Scheduled::Second);
        for happening in [Scheduled::Fault, Scheduled::Attack] {
            world.queue.push(START + CLEAN, happening);
        }
        world
    }

    /// An end starts, with nothing left of the time before.
    fn start(&mut self, end: usize) -> End {
        let pair = |initiator: usize, remote: usize| PeerSettings {
            identity: 0x100 + initiator as u32,
            key: [initiator as u8; 32].into(),
            routes: vec![inner(remote).into()],
            series: policy::series(end, remote).into(),
            ..self.peers.clone()
        };
        let peers = match end {
            RESPONDER => (1..self.starts.len()).map(|initiator| pair(initiator, initiator)).collect(),
            // One initiator has one socket only, and puts markers in front of control messages.
            _ => {
                let control = (end != 2).then_some(CONTROL);
                vec![PeerSettings { remotes: Some(Remotes { control, data: DATA }), ..pair(end, RESPONDER) }]
            }
        };
        let started = UnixTime(WALL + (self.now - Instant::ORIGIN).as_secs());
        let settings = Settings { addresses: vec![inner(end).into()], mtu: 1400, started, peers };
        let control = Path::Udp { socket: CONTROL as u32, remote: address(CONTROL) };
        let machine = Endpoint::new(settings, self.now, self.rng.seed());
        End::new(machine, (end == RESPONDER).then_some(control))
    }

    pub(crate) fn run(mut self) -> Totals {
        (0..self.ends.len()).for_each(|end| self.settle(end));
        while self.now < START + CALM {
            let wakes = self.ends.iter().enumerate().filter_map(|(end, each)| Some((each.timeout()?, end)));
            let wake = wakes.min();
            let next = self.queue.next_at().expect("seconds follow each other");
            match wake.filter(|(at, _)| *at <= next) {
                Some((at, end)) => {
                    self.now = self.now.max(at);
                    self.ends[end].handle_timeout(self.now);
                    self.settle(end);
                }
                None => {
                    self.now = next;
                    let happening = self.queue.pop().expect("it is there");
                    self.happen(happening);
                }
            }
        }
        (0..self.ends.len()).for_each(|end| self.count_drops(end));
        let (expected, trace) = (self.model.check_expected(), self.trace.hash());
        let Model { delivered, beyond_32_bits, carried, crossing, rekeys, .. } = self.model;
        Totals { delivered, expected, beyond_32_bits, carried, crossing, rekeys, trace, ..self.totals }
    }

    fn is_faulty(&self) -> bool {
        (START + CLEAN..START + FAULTY).contains(&self.now)
    }

    /// Whether a packet that is sent now must arrive.
    fn is_expected(&self) -> bool {
        let within =
            |from: Duration, to: Duration| (START + from..START + to).contains(&(self.now + MAX_TRANSIT));
        within(MAX_TRANSIT, CLEAN) || within(RECOVERED + SETTLE + MAX_TRANSIT, CALM)
    }

    fn after(&mut self, least: u64, most: u64, happening: Scheduled) {
        let at = self.now + self.rng.millis(least, most);
        self.queue.push(at, happening);
    }

    fn happen(&mut self, happening: Scheduled) {
        match happening {
            Scheduled::Arrival { from, to, datagram } => self.arrive(from, to, datagram),
            Scheduled::Opened { end, start, remote } => self.open(end, start, remote),
            Scheduled::Second => {
                self.after(1000, 1000, Scheduled::Second);
                for end in 0..self.ends.len() {
                    self.ends[end].second(self.now);
                    self.settle(end);
                }
            }
            Scheduled::Send(end) => {
                self.after(20, 250, Scheduled::Send(end));
                self.send(end);
            }
            Scheduled::Fault if self.is_faulty() => {
                self.after(500, 10_000, Scheduled::Fault);
                self.fault();
            }
            // All are seen at new addresses at the beginning of the calm part.
            Scheduled::Fault if self.now < START + RECOVERED => {
                self.queue.push(START + RECOVERED, Scheduled::Fault);
            }
            Scheduled::Fault => (1..self.ends.len()).for_each(|end| self.translate_anew(end)),
            Scheduled::Attack => {
                self.after(20, 500, Scheduled::Attack);
                self.attack();
            }
        }
    }

    fn arrive(&mut self, from: SocketAddr, to: SocketAddr, datagram: Vec<u8>) {
        let (end, socket) = match [CONTROL, DATA].into_iter().find(|socket| address(*socket) == to) {
            Some(socket) => (RESPONDER, socket as u32),
            None => match self.owners.get(&to) {
                Some(owner) => *owner,
                None => return,
            },
        };
        self.trace.note(self.now, &datagram, format_args!("{from} to end {end}"));
        self.captured.push((from, to, datagram.clone()));
        self.ends[end].receive(self.now, Path::Udp { socket, remote: from }, datagram);
        self.settle(end);
    }

    /// An initiator has a socket for one of its remotes.
    fn open(&mut self, end: usize, start: u32, remote: usize) {
        if self.starts[end] != start {
            return;
        }
        let socket = self.next_socket;
        self.next_socket += 1;
        self.show(end, socket);
        self.ends[end].opened(self.now, Path::Udp { socket, remote: address(remote) }, remote == CONTROL);
        self.settle(end);
    }

    /// A socket is seen at an address that none had before.
    fn show(&mut self, end: usize, socket: u32) {
        self.next_port += 1;
        let address = SocketAddr::from(([198, 51, 100, end as u8], self.next_port));
        if let Some(old) = self.addresses.insert((end, socket), address) {
            self.owners.remove(&old);
        }
        self.owners.insert(address, (end, socket));
    }

    /// Has all sockets of an initiator seen at other addresses; datagrams to those before are lost.
    fn translate_anew(&mut self, end: usize) {
        let sockets: Vec<u32> =
            self.addresses.keys().filter(|(owner, _)| *owner == end).map(|(_, socket)| *socket).collect();
        sockets.into_iter().for_each(|socket| self.show(end, socket));
        self.totals.moves += 1;
    }

    fn fault(&mut self) {
        let end = self.rng.between(1, self.ends.len() as u64 - 1) as usize;
        match self.rng.below(10) {
            0 => self.crash(RESPONDER),
            1..=2 => self.crash(end),
            _ => self.translate_anew(end),
        }
    }

    /// An end's process is killed, and started again.
    fn crash(&mut self, end: usize) {
        self.count_drops(end);
        self.starts[end] += 1;
        self.model.forget(end);
        self.addresses.retain(|(owner, _), _| *owner != end);
        self.owners.retain(|_, (owner, _)| *owner != end);
        self.ends[end] = self.start(end);
        self.settle(end);
    }

    fn count_drops(&mut self, end: usize) {
        let snapshot = self.ends[end].counters.snapshot();
        self.totals.replays += snapshot.ingress.dropped(DropReason::Replay);
        for (count, half) in self.totals.refused.iter_mut().zip([&snapshot.egress, &snapshot.ingress]) {
            *count += half.dropped(DropReason::NotSelected);
        }
    }

    /// A datagram that arrived comes again, perhaps changed, perhaps from elsewhere.
    fn attack(&mut self) {
        let Some(chosen) = self.captured.len().checked_sub(1) else { return };
        let (from, to, mut datagram) = self.captured[self.rng.between(0, chosen as u64) as usize].clone();
        if self.rng.chance(300) && !datagram.is_empty() {
            let at = self.rng.below(datagram.len() as u64) as usize;
            datagram[at] ^= 1 << self.rng.below(8);
        }
        let elsewhere = SocketAddr::from(([203, 0, 113, 9], 9));
        let from = if self.rng.chance(500) { from } else { elsewhere };
        self.queue.push(self.now, Scheduled::Arrival { from, to, datagram });
    }

    /// An end sends a packet to another one. Sometimes no port of it is selected, sometimes both are.
    fn send(&mut self, end: usize) {
        let to = match end {
            RESPONDER => self.rng.between(1, self.ends.len() as u64 - 1) as usize,
            _ => RESPONDER,
        };
        let mut port = || self.rng.pick(&[PORT, PORT, PORT, OTHER_PORT, FAR_PORT, FAR_PORT]);
        let ports = [port(), port()];
        self.next_number += 1;
        let len = self.rng.between(packet::NUMBER_LEN as u64, 1200) as usize;
        let mut bytes = packet::build(self.next_number, inner(end), inner(to), len);
        for (port, place) in ports.into_iter().zip(bytes[20..24].chunks_mut(2)) {
            place.copy_from_slice(&port.to_be_bytes());
        }
        let (number, expected) = (self.next_number, self.is_expected());
        self.model.send(Packet { number, from: end, to, bytes: bytes.clone(), expected });
        self.ends[end].send(self.now, &bytes);
        self.settle(end);
    }

    /// Carries out the effects of an end.
    fn settle(&mut self, end: usize) {
        for effect in self.ends[end].take_effects() {
            match effect {
                Effect::Control(path, message) => {
                    let is_marked = message.starts_with(&MARKER);
                    assert_eq!(self.is_for_control(end, path), !is_marked, "a message at the wrong port");
                    self.totals.control[usize::from(is_marked)] += 1;
                    self.transmit(end, path, &message);
                }
                Effect::Sealed(path, datagram) => {
                    assert!(!self.is_for_control(end, path), "data at the port for control messages");
                    self.model.seal(self.now, end, &datagram);
                    self.transmit(end, path, &datagram);
                }
                Effect::Packet(session, bytes) => self.model.deliver(end, session, &bytes),
                Effect::Installed(install) => {
                    self.totals.sessions += 1;
                    // The responder numbers initiators from 0 on.
                    let peer = if end == RESPONDER { install.peer.0 as usize + 1 } else { RESPONDER };
                    self.model.install(end, peer, &install);
                }
                Effect::Activated(session) => self.model.activate(end, session),
                Effect::FirstOpened(session) => self.model.first_opened(end, session),
                Effect::Retired(session) => self.model.retire(end, session),
                Effect::Open(remote) => {
                    let start = self.starts[end];
                    self.after(1, 100, Scheduled::Opened { end, start, remote });
                }
            }
        }
    }

    /// Whether a path is one of the responder's socket for control messages alone.
    fn is_for_control(&self, end: usize, path: Path) -> bool {
        let Path::Udp { socket, remote } = path else { panic!("all is UDP here") };
        if end == RESPONDER { socket == CONTROL as u32 } else { remote == address(CONTROL) }
    }

    fn transmit(&mut self, end: usize, path: Path, datagram: &[u8]) {
        let Path::Udp { socket, remote: to } = path else { panic!("all is UDP here") };
        let from = match end {
            RESPONDER => address(socket as usize),
            _ => self.addresses[&(end, socket)],
        };
        let faults = self.is_faulty().then_some(self.faults);
        for (at, datagram) in transmit(&mut self.rng, self.now, self.delay, faults, datagram) {
            self.queue.push(at, Scheduled::Arrival { from, to, datagram });
        }
    }
}

fn address(socket: usize) -> SocketAddr {
    SocketAddr::from(RESPONDER_ADDRESSES[socket])
}
