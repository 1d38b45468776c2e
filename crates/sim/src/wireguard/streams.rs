//! WireGuard over TCP: a client that opens connections, and its server. Connections break, also unseen by one end or
//! both, are refused, and are slow; ends restart. When connections hold, packets pass again in both directions, and
//! none is lost. The model checks the conditions that must hold of packets, keys and counters.

use std::collections::BTreeMap;
use std::time::Duration;

use adit_core::{Command, ConnectionId, Instant, OpenFailure, Path, Protocol as _};
use adit_wireguard::{AllowedIp, Changes, Interface, Params, PeerChange};

use super::end::{Effect, End};
use super::model::Model;
use super::settings;
use super::world::START;
use crate::packets::Fate;
use crate::queue::EventQueue;
use crate::rng::Rng;
use crate::violation::{MAX_TRANSIT, Violation, ensure};

const CLIENT: usize = 0;
const SERVER: usize = 1;
/// The client's only remote.
const REMOTE: usize = 7;
/// The longest wait between two connections (60 s), until a dead one is given up (34 s), and until a session is given up that
/// the other end has lost (20 s), with some room.
const RECOVERY: Duration = Duration::from_secs(150);
/// Wake-ups at one moment; more means that an end never comes to rest.
const MAX_WAKES: u32 = 1000;

type Done = Result<(), Violation>;

struct Connection {
    /// Which ends have it, and have neither closed it nor heard that it broke.
    known: [bool; 2],
    /// Nothing passes any more.
    is_cut: bool,
    /// When the bytes that were sent last to each end arrive.
    due: [Instant; 2],
}

/// `process` is the client's that asked for the connection.
enum Scheduled {
    Accepted { number: u32 },
    Connected { number: u32, process: u32 },
    Refused { process: u32 },
    Arrival { end: usize, number: u32, records: Vec<u8> },
    Broken { end: usize, number: u32 },
    Second,
    Fault,
}

struct World {
    now: Instant,
    rng: Rng,
    ends: [End; 2],
    model: Model,
    /// How many processes the client has had.
    process: u32,
    connections: BTreeMap<u32, Connection>,
    queue: EventQueue<Scheduled>,
    is_faulty: bool,
    /// Nothing may be lost that is sent now.
    is_calm: bool,
}

fn machine(end: usize, now: Instant, seed: [u8; 32]) -> Interface {
    let other = 1 - end;
    let addresses = settings::inner(other).into_iter();
    let peer = PeerChange {
        remote: (end == CLIENT).then_some(REMOTE),
        allowed_ips: addresses.map(|address| AllowedIp::Add(address.into())).collect(),
        ..PeerChange::new(settings::public_key(other).expect("a key"))
    };
    let private_key = Some(settings::private_key(end));
    let configuration = Changes { private_key, peers: vec![peer], ..Changes::default() };
    let params = Params { configuration, ..Params::new(settings::clock(now, 0)) };
    Interface::new(params, now, seed).expect("a configuration")
}

/// A connection as an end sees it.
fn path(end: usize, number: u32) -> Path {
    let other = 2 - end as u8;
    Path::Tcp { connection: ConnectionId(number), remote: ([192, 0, 2, other], 443).into() }
}

fn number_of(path: Path) -> u32 {
    match path {
        Path::Tcp { connection, .. } => connection.0,
        Path::Udp { .. } | Path::Ip { .. } => panic!("there is no other way than a connection"),
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 1);
        let ends = [CLIENT, SERVER].map(|end| End::new(machine(end, START, rng.seed())));
        let mut queue = EventQueue::default();
        queue.push(START, Scheduled::Second);
        World {
            now: START,
            rng,
            ends,
            model: Model::default(),
            process: 0,
            connections: BTreeMap::new(),
            queue,
            is_faulty: false,
            is_calm: false,
        }
    }

    fn run(&mut self, time: Duration) -> Done {
        let end = self.now + time;
        let mut wakes = 0;
        loop {
            let due = |who: usize| Some((self.ends[who].machine.poll_timeout()?, who));
            let wake = [CLIENT, SERVER].into_iter().filter_map(due).min();
            let before = self.now;
            match (wake, self.queue.next_at()) {
                (Some((at, who)), next) if at <= end && next.is_none_or(|next| at <= next) => {
                    self.now = self.now.max(at);
                    self.with(who, |end, now| end.timeout(now))?;
                    wakes = if self.now > before { 0 } else { wakes + 1 };
                    ensure(wakes < MAX_WAKES, || format!("end {who} is due again and again"))?;
                }
                (_, Some(at)) if at <= end => {
                    self.now = self.now.max(at);
                    if let Some(scheduled) = self.queue.pop() {
                        self.happen(scheduled)?;
                    }
                }
                _ => {
                    self.now = end;
                    return Ok(());
                }
            }
        }
    }

    /// Does something with an end, and carries out its effects.
    fn with(&mut self, end: usize, run: impl FnOnce(&mut End, Instant)) -> Done {
        self.ends[end].tick(self.now);
        run(&mut self.ends[end], self.now);
        loop {
            let (effects, inputs) = (self.ends[end].take_effects(), self.ends[end].take_inputs());
            if effects.is_empty() && inputs.is_empty() {
                return Ok(());
            }
            for effect in effects {
                self.carry_out(end, effect)?;
            }
            inputs.into_iter().for_each(|input| self.ends[end].input(self.now, input));
        }
    }

    fn carry_out(&mut self, end: usize, effect: Effect) -> Done {
        match effect {
            Effect::Control(path, message) => {
                let length = (message.len() as u16).to_be_bytes();
                self.transmit(end, number_of(path), [&length[..], message.as_slice()].concat());
            }
            Effect::Sealed(path, records) => {
                let mut rest = records.as_slice();
                while let Some((length, tail)) = rest.split_first_chunk() {
                    let (record, tail) = tail.split_at(usize::from(u16::from_be_bytes(*length)));
                    self.model.sealed(self.now, end, record)?;
                    rest = tail;
                }
                self.transmit(end, number_of(path), records);
            }
            Effect::Packet(bytes) => self.model.deliver(end, &bytes).map(drop)?,
            Effect::Installed(install) => self.model.install(self.now, end, &install)?,
            Effect::Activated(peer, session) => self.model.activate(end, peer, session)?,
            Effect::Deactivated(peer) => self.model.deactivate(end, peer),
            Effect::Retired(peer, session) => self.model.retire(end, peer, session),
            Effect::Removed(peer) => self.model.remove(end, peer),
            Effect::Order(order) => self.ends[end].apply(order),
            Effect::Open(remote) => {
                assert_eq!((end, remote), (CLIENT, REMOTE));
                self.open();
            }
            Effect::Close(path) => self.close(end, number_of(path)),
            Effect::Request(_) | Effect::Up | Effect::Report(_) => {}
        }
        Ok(())
    }

    /// How long something is on its way. Data that TCP sends again comes later.
    fn delay(&mut self) -> Duration {
        let is_late = self.is_faulty && self.rng.chance(100);
        self.rng.millis(5, if is_late { 8000 } else { 50 })
    }

    fn transmit(&mut self, end: usize, number: u32, records: Vec<u8>) {
        let (other, arrives) = (1 - end, self.now + self.delay());
        let Some(connection) = self.connections.get_mut(&number) else { return };
        // Data that was sent earlier comes first.
        let at = connection.due[other].max(arrives);
        connection.due[other] = at;
        self.queue.push(at, Scheduled::Arrival { end: other, number, records });
    }

    fn open(&mut self) {
        let (now, process) = (self.now, self.process);
        let (there, back) = (self.delay(), self.delay());
        if self.is_faulty && self.rng.chance(400) {
            return self.queue.push(now + there, Scheduled::Refused { process });
        }
        let number = self.connections.len() as u32 + 1;
        self.connections.insert(number, Connection { known: [false; 2], is_cut: false, due: [now; 2] });
        self.queue.push(now + there, Scheduled::Accepted { number });
        self.queue.push(now + there + back, Scheduled::Connected { number, process });
    }

    fn close(&mut self, end: usize, number: u32) {
        let at = self.now + self.delay();
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.known[end] = false;
            connection.is_cut = true;
            self.queue.push(at, Scheduled::Broken { end: 1 - end, number });
        }
    }

    /// An end has a connection from now on. False if it was cut meanwhile.
    fn begin(&mut self, end: usize, number: u32) -> bool {
        let connection = self.connections.get_mut(&number).filter(|connection| !connection.is_cut);
        let Some(connection) = connection else { return false };
        connection.known[end] = true;
        true
    }

    fn not_opened(&mut self) -> Done {
        let failure = OpenFailure::Unreachable("refused".to_owned());
        self.command(CLIENT, Command::OpenFailed { remote: REMOTE, failure })
    }

    fn happen(&mut self, scheduled: Scheduled) -> Done {
        let now = self.now;
        match scheduled {
            Scheduled::Accepted { number } => {
                if !self.begin(SERVER, number) {
                    return Ok(());
                }
                let path = path(SERVER, number);
                self.command(SERVER, Command::Opened { path })?;
                self.command(SERVER, Command::Prepared { path, remote: None })
            }
            Scheduled::Connected { number, process } => {
                if process != self.process {
                    return Ok(());
                }
                if !self.begin(CLIENT, number) {
                    return self.not_opened();
                }
                let path = path(CLIENT, number);
                self.command(CLIENT, Command::Prepared { path, remote: Some(REMOTE) })
            }
            Scheduled::Refused { process } if process == self.process => self.not_opened(),
            Scheduled::Refused { .. } => Ok(()),
            Scheduled::Arrival { end, number, records } => {
                let connection = self.connections.get(&number);
                match connection.is_some_and(|it| it.known[end] && !it.is_cut) {
                    true => self.with(end, |it, _| it.receive(path(end, number), records)),
                    false => Ok(()),
                }
            }
            Scheduled::Broken { end, number } => {
                let connection = self.connections.get_mut(&number);
                let was_known = connection.is_some_and(|it| std::mem::take(&mut it.known[end]));
                let (path, reason) = (path(end, number), "it broke".to_owned());
                if was_known { self.command(end, Command::Closed { path, reason }) } else { Ok(()) }
            }
            Scheduled::Second => {
                self.queue.push(now + Duration::from_secs(1), Scheduled::Second);
                [CLIENT, SERVER].into_iter().try_for_each(|end| self.second(end))?;
                self.model.packets.check_nothing_lost(now)
            }
            Scheduled::Fault => self.fault(),
        }
    }

    fn command(&mut self, end: usize, command: Command) -> Done {
        self.with(end, |end, now| end.command(now, command))
    }

    fn second(&mut self, end: usize) -> Done {
        self.with(end, |end, now| end.second(now))?;
        self.model.check(self.now, end)?;
        let fate = if self.is_calm { Fate::ArrivesBy(self.now + MAX_TRANSIT) } else { Fate::MayBeLost };
        let [from, to] = [end, 1 - end].map(|end| (end, settings::inner(end)[0]));
        let packet = self.model.packets.send(self.now, from, to, 100, fate);
        self.with(end, |end, _| end.send(packet))
    }

    fn fault(&mut self) -> Done {
        if !self.is_faulty {
            return Ok(());
        }
        let next = self.now + self.rng.secs(3, 40);
        self.queue.push(next, Scheduled::Fault);
        let kind = self.rng.below(6);
        let restarts = [CLIENT, SERVER].into_iter().find(|end| kind == *end as u64);
        for (number, connection) in &mut self.connections {
            let was_cut = std::mem::replace(&mut connection.is_cut, true);
            for end in [CLIENT, SERVER] {
                let is_told = if restarts.is_some() { self.rng.chance(500) } else { kind >> end & 1 == 0 };
                let at = self.now + self.rng.millis(0, 5000);
                if restarts == Some(end) {
                    connection.known[end] = false;
                } else if is_told && !was_cut {
                    self.queue.push(at, Scheduled::Broken { end, number: *number });
                }
            }
        }
        let Some(end) = restarts else { return Ok(()) };
        self.process += u32::from(end == CLIENT);
        self.model.forget(end);
        self.ends[end] = End::new(machine(end, self.now, self.rng.seed()));
        self.with(end, |_, _| {})
    }

    /// Packets pass, all of them, by one connection.
    fn check(&mut self) -> Done {
        self.is_calm = true;
        self.run(Duration::from_secs(20))?;
        self.is_calm = false;
        self.run(Duration::from_secs(5))?;
        let known = self.connections.values().map(|connection| connection.known);
        let known: Vec<[bool; 2]> = known.filter(|known| *known != [false; 2]).collect();
        ensure(known == [[true; 2]], || format!("connections at both ends: {known:?}"))
    }
}

fn simulate(seed: u64) -> Done {
    let mut world = World::new(seed);
    [CLIENT, SERVER].into_iter().try_for_each(|end| world.with(end, |_, _| {}))?;
    world.run(Duration::from_secs(10))?;
    world.check()?;
    for _ in 0..3 {
        world.is_faulty = true;
        world.queue.push(world.now, Scheduled::Fault);
        let time = world.rng.secs(20, 200);
        world.run(time)?;
        world.is_faulty = false;
        world.run(RECOVERY)?;
        world.check()?;
    }
    Ok(())
}

#[test]
fn packets_pass_again_when_connections_hold() {
    for seed in 0..8 {
        simulate(seed).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
}
