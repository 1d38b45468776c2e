//! Virtual time: both ends, the datagrams on their way, and the events in the order of time.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use adit_core::{Command, Instant, Path, PeerId};
use adit_ike::machine::{Endpoint, Reply};

use super::end::{End, Input};
use super::model::Model;
use super::net::{Datagram, Net};
use super::scenario::{A, B, GIVE_UP, Kind, PACKETS, REPLACED, Scenario};
use super::settings::{self, CONNECTION, ESP, MARKED, PLAIN};
use crate::packets::Fate;
use crate::queue::EventQueue;
use crate::rng::Rng;
use crate::trace::Trace;
use crate::violation::{MAX_TRANSIT, Violation, ensure};

/// The time when a run starts, on its own clock.
pub(crate) const START: Instant = Instant::from_nanos(1_000_000_000_000);
/// Wake-ups at one moment; more means that an end never comes to rest.
const MAX_WAKES: u32 = 1000;
/// Datagrams that the attacker keeps.
const MAX_CAPTURED: usize = 300;
/// The attacker's address.
const ATTACKER: [u8; 4] = [203, 0, 113, 66];
/// The interval of the check that both ends seal with one child SA.
const AGREEMENT: Duration = Duration::from_millis(100);
/// The time between collisions by order.
const BETWEEN: Duration = Duration::from_secs(8);

/// An event at a scheduled time. Events for an earlier process of an end have no effect.
#[derive(Debug)]
pub(crate) enum Scheduled {
    Arrival(Datagram),
    Input {
        end: usize,
        generation: u32,
        input: Input,
    },
    Start(usize),
    Second,
    Send,
    Fault,
    Attack,
    /// Both ends rekey.
    Collide,
    /// An end rekeys.
    Rekey(usize, Kind),
    Agreement,
    Part(Part),
}

/// The parts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Faults of the network and the ends.
    Faulty,
    /// A clean net, on which the connection comes up again.
    Recovering,
    /// A clean net, on which nothing may be lost.
    Calm,
    /// A net that loses one message of each collision.
    Lossy,
    /// Both ends are shut down.
    Ending,
}

/// An end's process, and the number of processes that it has had.
#[derive(Default)]
pub(crate) struct Host {
    pub(crate) end: Option<End>,
    pub(crate) generation: u32,
    /// The time when the protocol handles the last input of its data plane.
    pub(crate) inputs_due: Instant,
}

/// Counts for the summary of a run.
#[derive(Default)]
pub(crate) struct Statistics {
    pub(crate) ups: u64,
    pub(crate) rejected: u64,
    pub(crate) recovery: Duration,
    pub(crate) faulty_seconds: u64,
    pub(crate) up_seconds: u64,
}

/// The whole simulation.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) scenario: Scenario,
    /// Packets, orders and faults.
    pub(crate) rng: Rng,
    attacker: Rng,
    pub(crate) net: Net,
    pub(crate) model: Model,
    pub(crate) trace: Trace,
    pub(crate) stats: Statistics,
    pub(crate) hosts: [Host; 2],
    pub(crate) part: Part,
    part_since: Instant,
    captured: Vec<Datagram>,
    /// The last time when both ends sealed with one child SA of each child.
    agreed_at: Instant,
    /// Whether the faults are over, and the ends have not come up since.
    is_recovering: bool,
    moves: u8,
    queue: EventQueue<Scheduled>,
    wakes: u32,
}

impl World {
    pub(crate) fn new(seed: u64, scenario: Scenario, keep_lines: bool) -> Self {
        let mut world = World {
            now: START,
            rng: Rng::new(seed, 1),
            attacker: Rng::new(seed, 2),
            net: Net::new(&scenario, Rng::new(seed, 3)),
            model: Model::new(scenario.has_further_ike_sas()),
            trace: Trace::new(keep_lines),
            stats: Statistics::default(),
            hosts: Default::default(),
            part: Part::Recovering,
            part_since: START,
            captured: Vec::new(),
            agreed_at: START,
            is_recovering: false,
            moves: 0,
            queue: EventQueue::default(),
            wakes: 0,
            scenario,
        };
        world.schedule_all();
        world
    }

    fn schedule_all(&mut self) {
        let phases = self.scenario.phases;
        let mut at = START + self.scenario.recovery();
        let parts = [
            (Part::Faulty, phases.faults),
            (Part::Recovering, self.scenario.recovery()),
            (Part::Calm, phases.calm),
            (Part::Lossy, phases.lossy),
        ];
        for (part, length) in parts {
            self.schedule(at, Scheduled::Part(part));
            at += length;
        }
        self.schedule(at, Scheduled::Part(Part::Ending));
        self.schedule(START, Scheduled::Start(A));
        self.schedule(START, Scheduled::Start(B));
        let regular = [Scheduled::Second, Scheduled::Send, Scheduled::Attack, Scheduled::Agreement];
        regular.into_iter().for_each(|scheduled| self.schedule(START, scheduled));
        self.schedule(START, Scheduled::Fault);
        self.schedule(START, Scheduled::Collide);
    }

    /// The end of the run: IKE SAs that the peer replaced, and half-open ones, have ended by then.
    fn ends_at(&self) -> Instant {
        let phases = self.scenario.phases;
        START + self.scenario.recovery() * 2 + phases.faults + phases.calm + phases.lossy + self.ending()
    }

    fn ending(&self) -> Duration {
        GIVE_UP * 2 + REPLACED + Duration::from_secs(40)
    }

    pub(crate) fn log(&mut self, text: std::fmt::Arguments<'_>) {
        self.trace.note(self.now, &[], text);
    }

    pub(crate) fn schedule(&mut self, at: Instant, scheduled: Scheduled) {
        self.queue.push(at, scheduled);
    }

    /// Half to one and a half of that time from now.
    fn schedule_around(&mut self, mean: Duration, scheduled: Scheduled) {
        let mean = mean.as_millis() as u64;
        let at = self.now + self.rng.millis(mean / 2, mean + mean / 2);
        self.schedule(at, scheduled);
    }

    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        let end = self.ends_at();
        loop {
            let wake = [A, B].into_iter().filter_map(|end| Some((self.wake_at(end)?, end))).min();
            let next = self.queue.next_at();
            match (wake, next) {
                (Some((at, who)), next) if at <= end && next.is_none_or(|next| at <= next) => {
                    self.advance(at);
                    self.wake(who)?;
                }
                (_, Some(at)) if at <= end => {
                    self.advance(at);
                    if let Some(scheduled) = self.queue.pop() {
                        self.happen(scheduled)?;
                    }
                }
                _ => return self.check_ended(),
            }
        }
    }

    /// Nothing is left of ends that were shut down: no child SA, and no timer, so that no IKE SA.
    fn check_ended(&mut self) -> Result<(), Violation> {
        for end in [A, B] {
            let count = self.model.child_sas(end);
            ensure(count == 0, || format!("end {end} has {count} child SAs after its end"))?;
            let timer = self.hosts[end].end.as_ref().and_then(|end| end.machine.poll_timeout());
            ensure(timer.is_none(), || format!("end {end} has something to do after its end"))?;
        }
        Ok(())
    }

    fn wake_at(&self, end: usize) -> Option<Instant> {
        self.hosts[end].end.as_ref()?.machine.poll_timeout()
    }

    fn advance(&mut self, at: Instant) {
        if at > self.now {
            (self.now, self.wakes) = (at, 0);
        }
    }

    fn wake(&mut self, end: usize) -> Result<(), Violation> {
        self.wakes += 1;
        ensure(self.wakes <= MAX_WAKES, || format!("end {end} is due again and again"))?;
        self.with(end, |end, now| end.timeout(now))
    }

    /// Does something with an end that runs, and carries out its effects.
    pub(crate) fn with(&mut self, end: usize, run: impl FnOnce(&mut End, Instant)) -> Result<(), Violation> {
        let Some(running) = self.hosts[end].end.as_mut() else { return Ok(()) };
        running.tick(self.now);
        run(running, self.now);
        self.settle(end)
    }

    fn happen(&mut self, scheduled: Scheduled) -> Result<(), Violation> {
        match scheduled {
            Scheduled::Arrival(datagram) => self.arrive(datagram),
            Scheduled::Input { end, generation, input } => {
                if self.hosts[end].generation != generation {
                    return Ok(());
                }
                self.with(end, |end, now| end.input(now, input))
            }
            Scheduled::Start(end) => self.start(end),
            Scheduled::Second => self.second(),
            Scheduled::Send => self.send(),
            Scheduled::Fault => self.fault(),
            Scheduled::Attack => {
                self.attack();
                Ok(())
            }
            Scheduled::Collide => {
                self.collide();
                Ok(())
            }
            Scheduled::Rekey(end, kind) => self.rekey(end, kind),
            Scheduled::Agreement => self.check_agreement(),
            Scheduled::Part(part) => self.begin(part),
        }
    }

    fn begin(&mut self, part: Part) -> Result<(), Violation> {
        self.log(format_args!("{part:?}"));
        (self.part, self.part_since) = (part, self.now);
        self.net.is_faulty = part == Part::Faulty;
        self.captured.clear();
        match part {
            Part::Faulty | Part::Calm => self.check_up(),
            Part::Ending => [A, B]
                .into_iter()
                .try_for_each(|end| self.with(end, |end, now| end.command(now, Command::Shutdown))),
            Part::Recovering => {
                self.is_recovering = true;
                Ok(())
            }
            Part::Lossy => Ok(()),
        }
    }

    /// Both ends have come up.
    fn check_up(&self) -> Result<(), Violation> {
        ensure(self.now - self.agreed_at <= self.scenario.disagreement(), || {
            format!("the ends do not share a child SA of each child after {:?}", self.scenario.recovery())
        })
    }

    /// After any collision both ends share one outbound child SA within one retransmission.
    fn check_agreement(&mut self) -> Result<(), Violation> {
        self.schedule(self.now + AGREEMENT, Scheduled::Agreement);
        let is_agreed = self.model.is_agreed(self.scenario.children);
        if is_agreed {
            self.agreed_at = self.now;
        }
        if is_agreed && self.is_recovering {
            self.is_recovering = false;
            self.stats.recovery = self.now - self.part_since;
        }
        let most = self.scenario.disagreement();
        let must_agree = matches!(self.part, Part::Calm | Part::Lossy);
        ensure(!must_agree || self.now - self.agreed_at <= most, || {
            format!("the ends have sealed with different child SAs for more than {most:?}")
        })
    }

    /// Starts an end's process, with nothing left of the time before.
    fn start(&mut self, end: usize) -> Result<(), Violation> {
        if self.hosts[end].end.is_some() {
            return Ok(());
        }
        let params = settings::params(&self.scenario, end, self.net.address(1 - end))?;
        let machine = Endpoint::new(params, self.now, self.rng.seed());
        let machine = machine.map_err(|error| Violation::new(error.to_string()))?;
        let host = &mut self.hosts[end];
        host.generation += 1;
        host.end = Some(End::new(Box::new(machine)));
        self.log(format_args!("end {end} starts"));
        self.bind(end)
    }

    /// The sockets of an end have the address that the net gives it.
    fn bind(&mut self, end: usize) -> Result<(), Violation> {
        let address = self.net.address(end);
        for socket in [PLAIN, MARKED, ESP] {
            let local = SocketAddr::new(address, settings::port(socket));
            self.with(end, |end, now| end.command(now, Command::SocketBound { socket, local }))?;
        }
        Ok(())
    }

    fn stop(&mut self, end: usize) {
        if let Some(stopped) = self.hosts[end].end.take() {
            self.stats.rejected += stopped.rejected;
        }
        self.model.remove_all(end);
        self.log(format_args!("end {end} is gone"));
    }

    fn fault(&mut self) -> Result<(), Violation> {
        self.schedule_around(self.scenario.fault_interval, Scheduled::Fault);
        if self.part != Part::Faulty {
            return Ok(());
        }
        let end = self.rng.below(2) as usize;
        match self.rng.below(5) {
            0 if self.hosts[end].end.is_some() => {
                self.stop(end);
                let at = self.now + self.rng.millis(0, 15_000);
                self.schedule(at, Scheduled::Start(end));
            }
            1 => {
                let until = self.now + self.rng.millis(100, 30_000);
                self.log(format_args!("nothing passes until {until:?}"));
                self.net.cut_off(until);
            }
            2 if self.scenario.has_nat => {
                self.log(format_args!("the NAT has other ports"));
                self.net.map_anew();
            }
            3 if self.scenario.is_mobile => {
                self.moves += 1;
                self.net.move_a(self.moves);
                self.log(format_args!("end A moves"));
                return self.bind(A);
            }
            _ => self.collide_once(),
        }
        Ok(())
    }

    fn collide(&mut self) {
        self.schedule_around(BETWEEN, Scheduled::Collide);
        if !matches!(self.part, Part::Calm | Part::Lossy) || self.part_since == self.now {
            return;
        }
        if self.part == Part::Lossy {
            self.net.loses_after = Some(self.rng.below(8));
        }
        self.collide_once();
    }

    /// Both ends rekey within the time of a few messages.
    fn collide_once(&mut self) {
        let first = self.rng.below(2) as usize;
        let [one, other] = [(); 2].map(|()| self.rng.pick(&Kind::ALL));
        let longest = (self.scenario.delay * 5).as_millis() as u64;
        let after = self.rng.millis(0, longest);
        self.schedule(self.now, Scheduled::Rekey(first, one));
        self.schedule(self.now + after, Scheduled::Rekey(1 - first, other));
    }

    fn rekey(&mut self, end: usize, kind: Kind) -> Result<(), Violation> {
        self.log(format_args!("end {end} is to rekey: {kind:?}"));
        match kind {
            Kind::Child => self.with(end, |end, now| end.command(now, Command::Rekey { peer: PeerId(0) })),
            Kind::Ike => self.with(end, |end, now| end.reply(now, Reply::Rekey(CONNECTION.to_owned()))),
        }
    }

    fn attack(&mut self) {
        let Some(interval) = self.scenario.attack_interval else { return };
        self.schedule_around(interval, Scheduled::Attack);
        if self.captured.is_empty() {
            return;
        }
        let at = self.attacker.below(self.captured.len() as u64) as usize;
        let mut datagram = self.captured[at].clone();
        if self.attacker.chance(500) {
            let at = self.attacker.below(datagram.bytes.len() as u64) as usize;
            if let Some(byte) = datagram.bytes.get_mut(at) {
                *byte ^= 1 << self.attacker.below(8);
            }
        }
        if self.attacker.chance(300)
            && let Path::Udp { socket, .. } = datagram.path
        {
            datagram.path = Path::Udp { socket, remote: SocketAddr::from((ATTACKER, 4500)) };
        }
        self.schedule(self.now + self.scenario.delay, Scheduled::Arrival(datagram));
    }

    fn arrive(&mut self, datagram: Datagram) -> Result<(), Violation> {
        let Some((end, socket)) = self.net.owner(datagram.to) else { return Ok(()) };
        if self.hosts[end].end.is_none() || Some(socket) != datagram_socket(&datagram, socket) {
            return Ok(());
        }
        let Datagram { to, path, bytes } = datagram;
        let from = path.remote();
        let [s0, s1, s2, s3] = bytes.first_chunk().copied().unwrap_or_default();
        let spi = u32::from_be_bytes([s0, s1, s2, s3]);
        let text = format_args!("{} bytes from {from} to end {end}, {spi:08x}", bytes.len());
        self.trace.note(self.now, &bytes, text);
        if self.scenario.attack_interval.is_some() {
            if self.captured.len() == MAX_CAPTURED {
                let at = self.attacker.below(MAX_CAPTURED as u64) as usize;
                self.captured.swap_remove(at);
            }
            self.captured.push(Datagram { to, path, bytes: bytes.clone() });
        }
        let path = match path {
            Path::Udp { remote, .. } => Path::Udp { socket, remote },
            other => other,
        };
        self.with(end, |end, _| end.receive(path, bytes))
    }

    fn second(&mut self) -> Result<(), Violation> {
        self.schedule(self.now + Duration::from_secs(1), Scheduled::Second);
        for end in [A, B] {
            self.with(end, |end, now| end.second(now))?;
        }
        let is_calm = self.part == Part::Calm && self.scenario.attack_interval.is_none();
        self.model.check(self.scenario.children, is_calm)?;
        if self.part == Part::Faulty {
            self.stats.faulty_seconds += 1;
            self.stats.up_seconds += u64::from(self.model.is_agreed(self.scenario.children));
        }
        self.model.packets.check_nothing_lost(self.now)
    }

    /// Each end sends a packet of each child, and sometimes one that is of no child.
    fn send(&mut self) -> Result<(), Violation> {
        self.schedule(self.now + PACKETS, Scheduled::Send);
        if self.part == Part::Ending {
            return Ok(());
        }
        for end in [A, B] {
            for child in 0..self.scenario.children {
                let host = self.rng.between(1, 250) as u8;
                let addresses = [settings::inner(end, child, host), settings::inner(1 - end, child, host)];
                let fate = match self.part {
                    // A packet of a further IKE SA can arrive before its peer has handled the last message.
                    Part::Calm if !self.scenario.has_further_ike_sas() => {
                        Fate::ArrivesBy(self.now + MAX_TRANSIT)
                    }
                    _ => Fate::MayBeLost,
                };
                self.send_one(end, addresses, fate)?;
            }
            if self.rng.chance(200) {
                // Another child's network, or none.
                let other = self.rng.between(1, 4) as usize;
                let addresses = [settings::inner(end, other, 9), settings::inner(1 - end, 0, 9)];
                self.send_one(end, addresses, Fate::Refused)?;
            }
        }
        Ok(())
    }

    fn send_one(&mut self, end: usize, [from, to]: [IpAddr; 2], fate: Fate) -> Result<(), Violation> {
        if self.hosts[end].end.is_none() {
            return Ok(());
        }
        let len = self.rng.between(8, 200) as usize;
        let packet = self.model.packets.send(self.now, (end, from), (1 - end, to), len, fate);
        self.with(end, |end, _| end.send(packet))
    }

    /// IKE messages that ends refused.
    pub(crate) fn rejected(&self) -> u64 {
        let running = self.hosts.iter().filter_map(|host| host.end.as_ref());
        self.stats.rejected + running.map(|end| end.rejected).sum::<u64>()
    }
}

/// The socket that a datagram's path names, if the datagram is for that socket: an attacker changes the source alone.
fn datagram_socket(datagram: &Datagram, owner: u32) -> Option<u32> {
    match datagram.path {
        Path::Ip { .. } => (owner == ESP).then_some(owner),
        _ => (owner != ESP).then_some(owner),
    }
}
