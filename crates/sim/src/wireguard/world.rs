//! Virtual time: the ends, the datagrams in transit, and the events in the order of time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use adit_core::{Instant, Path, PeerId, Protocol};
use adit_wireguard::{PostQuantum, PublicKey, Reply, Tai64n};

use super::end::{End, Input, Order};
use super::faults::ATTACKER;
use super::model::Model;
use super::net::Net;
use super::scenario::{RECOVERY, Scenario};
use super::settings;
use crate::queue::EventQueue;
use crate::rng::Rng;
use crate::trace::Trace;
use crate::violation::Violation;

/// When a run starts, on its own clock.
pub(crate) const START: Instant = Instant::from_nanos(1_000_000_000);
/// Wake-ups at one moment; more means that an end never comes to rest.
const MAX_WAKES: u32 = 1000;
/// Datagrams that the attacker keeps.
const MAX_CAPTURED: usize = 500;

/// An event at a scheduled time. Events for an earlier process of an end have no effect.
#[derive(Debug)]
pub(crate) enum Scheduled {
    Arrival {
        from: SocketAddr,
        to: SocketAddr,
        datagram: Vec<u8>,
    },
    Input {
        end: usize,
        generation: u32,
        input: Input,
    },
    Order {
        end: usize,
        generation: u32,
        order: Order,
    },
    /// An end's process starts.
    Start(usize),
    Second,
    /// An end sends packets.
    Send(usize),
    /// A handshake is ordered.
    Rekey,
    Fault,
    Attack,
    /// An end gets another address where nothing may be lost.
    Roam,
    /// An end's clock shows the right time again.
    ClockSet(usize),
    Faulty(bool),
    /// All must have reached each other by now.
    AllUp,
}

/// A machine on which one end runs. The values here stay when the end's process stops.
pub(crate) struct Host {
    pub(crate) end: Option<End>,
    /// How many processes the end has had.
    pub(crate) generation: u32,
    /// How far its clock is from the right time, in seconds.
    pub(crate) skew: i64,
    pub(crate) asleep_until: Instant,
    /// The timestamp that it was asked to save.
    pub(crate) saved: Option<Tai64n>,
    /// When the protocol handles the last input of its data plane, and the data plane applies its last order.
    pub(crate) inputs_due: Instant,
    pub(crate) orders_due: Instant,
}

/// Counts for the summary of a run.
#[derive(Default)]
pub(crate) struct Statistics {
    pub(crate) handshakes: u64,
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
    /// The attacker's.
    pub(crate) attacker: Rng,
    pub(crate) net: Net,
    pub(crate) model: Model,
    pub(crate) trace: Trace,
    pub(crate) stats: Statistics,
    pub(crate) hosts: Vec<Host>,
    pub(crate) publics: Vec<PublicKey>,
    pub(crate) captured: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
    /// Pairs, as (from, to), between which no packet arrived yet that was sent since then.
    unreached: BTreeSet<(usize, usize)>,
    clean_since: Instant,
    queue: EventQueue<Scheduled>,
    wakes: u32,
}

impl World {
    pub(crate) fn new(seed: u64, scenario: Scenario, keep_lines: bool) -> Self {
        let host = |_: &_| Host {
            end: None,
            generation: 0,
            skew: 0,
            asleep_until: START,
            saved: None,
            inputs_due: START,
            orders_due: START,
        };
        let mut world = World {
            now: START,
            rng: Rng::new(seed, 1),
            attacker: Rng::new(seed, 2),
            net: Net::new(&scenario, Rng::new(seed, 3)),
            model: Model::default(),
            trace: Trace::new(keep_lines),
            stats: Statistics::default(),
            hosts: scenario.ends.iter().map(host).collect(),
            publics: (0..scenario.ends.len()).filter_map(settings::public_key).collect(),
            captured: Vec::new(),
            unreached: BTreeSet::new(),
            clean_since: START,
            queue: EventQueue::default(),
            wakes: 0,
            scenario,
        };
        if world.scenario.intervals.attack.is_some() {
            // It may have several peers of an end believed to be at its own address.
            world.model.ignore_initiations();
        }
        if world.scenario.pairs.iter().any(|pair| pair.post_quantum != [PostQuantum::Off; 2]) {
            world.model.expect_post_quantum();
        }
        world.expect_all();
        world.schedule_all();
        world
    }

    fn schedule_all(&mut self) {
        for end in 0..self.hosts.len() {
            self.schedule(START, Scheduled::Start(end));
            self.schedule(START, Scheduled::Send(end));
        }
        let first = self.calm_from_start();
        self.schedule(first, Scheduled::AllUp);
        let [faulty, clean, calm, ..] = self.parts();
        self.schedule(faulty, Scheduled::Faulty(true));
        self.schedule(clean, Scheduled::Faulty(false));
        self.schedule(calm, Scheduled::AllUp);
        for scheduled in [Scheduled::Second, Scheduled::Rekey, Scheduled::Attack] {
            self.schedule(START, scheduled);
        }
        self.schedule(faulty, Scheduled::Fault);
        self.schedule(calm + Duration::from_secs(5), Scheduled::Roam);
    }

    /// When the first handshakes are over.
    fn calm_from_start(&self) -> Instant {
        START + RECOVERY
    }

    /// When the faults begin, when they end, when all are up again, when the packets cease, when they begin again, and
    /// the end of it all.
    pub(crate) fn parts(&self) -> [Instant; 6] {
        let phases = &self.scenario.phases;
        let faulty = self.calm_from_start() + phases.start;
        let clean = faulty + phases.faults;
        let calm = clean + RECOVERY;
        let silent = calm + phases.calm;
        let again = silent + phases.silence;
        [faulty, clean, calm, silent, again, again + phases.again]
    }

    pub(crate) fn log(&mut self, text: std::fmt::Arguments<'_>) {
        self.trace.note(self.now, &[], text);
    }

    pub(crate) fn schedule(&mut self, at: Instant, scheduled: Scheduled) {
        self.queue.push(at, scheduled);
    }

    /// Half to one and a half of that time from now.
    pub(crate) fn schedule_around(&mut self, mean: Duration, scheduled: Scheduled) {
        let mean = mean.as_millis() as u64;
        let at = self.now + self.rng.millis(mean / 2, mean + mean / 2);
        self.schedule(at, scheduled);
    }

    /// Runs to the end, and a while longer, so that datagrams in transit arrive.
    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        let end = self.parts()[5] + super::scenario::HANDSHAKE;
        loop {
            let wake = (0..self.hosts.len()).filter_map(|end| Some((self.wake_at(end)?, end))).min();
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
                _ => return self.model.packets.check_nothing_lost(end),
            }
        }
    }

    fn wake_at(&self, end: usize) -> Option<Instant> {
        let host = self.hosts.get(end)?;
        Some(host.end.as_ref()?.machine.poll_timeout()?.max(host.asleep_until))
    }

    fn advance(&mut self, at: Instant) {
        if at > self.now {
            (self.now, self.wakes) = (at, 0);
        }
    }

    fn wake(&mut self, end: usize) -> Result<(), Violation> {
        self.wakes += 1;
        if self.wakes > MAX_WAKES {
            return Err(Violation::new(format!("end {end} is due again and again")));
        }
        self.with(end, |end, now| end.timeout(now))
    }

    pub(crate) fn is_asleep(&self, end: usize) -> bool {
        self.hosts[end].asleep_until > self.now
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
            Scheduled::Arrival { from, to, datagram } => self.arrive(from, to, datagram),
            Scheduled::Input { end, generation, input } => {
                if self.is_asleep(end) {
                    let at = self.hosts[end].asleep_until;
                    self.schedule(at, Scheduled::Input { end, generation, input });
                    return Ok(());
                }
                match self.hosts[end].generation == generation {
                    true => self.with(end, |end, now| end.input(now, input)),
                    false => Ok(()),
                }
            }
            Scheduled::Order { end, generation, order } => {
                if self.is_asleep(end) {
                    let at = self.hosts[end].asleep_until;
                    self.schedule(at, Scheduled::Order { end, generation, order });
                    return Ok(());
                }
                match self.hosts[end].generation == generation {
                    true => self.with(end, |end, _| end.apply(order)),
                    false => Ok(()),
                }
            }
            Scheduled::Start(end) => self.start(end),
            Scheduled::Second => self.second(),
            Scheduled::Send(end) => self.send(end),
            Scheduled::Rekey => self.rekey(),
            Scheduled::Fault => self.fault(),
            Scheduled::Attack => {
                self.attack();
                Ok(())
            }
            Scheduled::Roam => self.roam(),
            Scheduled::ClockSet(end) => self.set_clock(end, 0),
            Scheduled::Faulty(faulty) => self.set_faulty(faulty),
            Scheduled::AllUp => self.check_all_up(),
        }
    }

    fn set_faulty(&mut self, faulty: bool) -> Result<(), Violation> {
        self.net.faulty = faulty;
        self.log(format_args!("the net is {}", if faulty { "faulty" } else { "clean" }));
        if faulty {
            return Ok(());
        }
        self.captured.clear();
        self.expect_all();
        (0..self.hosts.len())
            .try_for_each(|end| self.with(end, |end, now| end.reply(now, Reply::UnderLoad(false))))
    }

    /// From now on packets must arrive between all that know each other.
    fn expect_all(&mut self) {
        let pairs = self.scenario.pairs.iter();
        let pairs = pairs.filter(|pair| !self.are_astray(pair.ends));
        self.unreached =
            pairs.flat_map(|pair| [(pair.ends[0], pair.ends[1]), (pair.ends[1], pair.ends[0])]).collect();
        self.clean_since = self.now;
    }

    /// Whether neither end knows where the other is, as datagrams that were lost came from an attacker's address. Where that
    /// befell both ends at once, nothing brings them back (docs/use/WIREGUARD.md).
    fn are_astray(&self, [one, other]: [usize; 2]) -> bool {
        let is_believed_at = |(end, other): (usize, usize)| {
            let running = self.hosts[end].end.as_ref()?;
            Some(running.path(self.peer(end, other)?)?.remote())
        };
        let believed = [(one, other), (other, one)].map(is_believed_at);
        believed.contains(&Some(ATTACKER)) && !self.knows(one, other) && !self.knows(other, one)
    }

    fn check_all_up(&mut self) -> Result<(), Violation> {
        self.log(format_args!("all must have reached each other"));
        // A datagram that was recorded while a receiver was about to restart could be taken by it
        // (docs/use/WIREGUARD.md).
        self.captured.clear();
        match self.unreached.first() {
            None => self.check_post_quantum(),
            Some((from, to)) => Err(Violation::new(format!(
                "no packet of end {from} reached end {to} for {RECOVERY:?} on a clean net"
            ))),
        }
    }

    /// The sessions of ends that both want it were made with post-quantum keys; of others, none was.
    fn check_post_quantum(&mut self) -> Result<(), Violation> {
        for pair in self.scenario.pairs.clone() {
            if self.are_astray(pair.ends) {
                continue;
            }
            let expected = !pair.post_quantum.contains(&PostQuantum::Off);
            for (place, end) in pair.ends.into_iter().enumerate() {
                let key = self.publics[pair.ends[1 - place]];
                let running = self.hosts[end].end.as_ref();
                let Some(peer) = running.and_then(|running| running.machine.peer(&key)) else { continue };
                let found = peer.post_quantum.unwrap_or_default();
                if found != expected {
                    return Err(Violation::new(format!(
                        "end {end}: its session with end {} is post-quantum: {found}",
                        pair.ends[1 - place]
                    )));
                }
            }
        }
        Ok(())
    }

    /// A packet that was sent then came out at an end.
    pub(crate) fn note_reached(&mut self, from: usize, end: usize, at: Instant) {
        if at >= self.clean_since && self.unreached.remove(&(from, end)) && self.unreached.is_empty() {
            self.stats.recovery = self.stats.recovery.max(self.now - self.clean_since);
        }
    }

    fn arrive(&mut self, from: SocketAddr, to: SocketAddr, datagram: Vec<u8>) -> Result<(), Violation> {
        let Some(end) = self.net.owner(self.now, to) else { return Ok(()) };
        if self.is_asleep(end) || self.hosts[end].end.is_none() {
            return Ok(());
        }
        self.trace.note(
            self.now,
            &datagram,
            format_args!("{} bytes from {from} to end {end}", datagram.len()),
        );
        if self.scenario.intervals.attack.is_some() {
            if self.captured.len() == MAX_CAPTURED {
                let at = self.attacker.below(MAX_CAPTURED as u64) as usize;
                self.captured.swap_remove(at);
            }
            self.captured.push((from, to, datagram.clone()));
        }
        let path = Path::Udp { socket: settings::socket(from), remote: from };
        self.with(end, |end, _| end.receive(path, datagram))
    }

    fn second(&mut self) -> Result<(), Violation> {
        self.schedule(self.now + Duration::from_secs(1), Scheduled::Second);
        for end in 0..self.hosts.len() {
            let host = &self.hosts[end];
            if self.is_asleep(end) || host.end.is_none() {
                continue;
            }
            let awake = host.asleep_until + Duration::from_secs(2) < self.now;
            self.with(end, |end, now| end.second(now))?;
            if awake {
                self.model.check(self.now, end)?;
            }
        }
        if self.net.faulty {
            for pair in self.scenario.pairs.clone() {
                let [one, other] = pair.ends;
                let up = self.age(one, other).is_some() && self.age(other, one).is_some();
                self.stats.up_seconds += u64::from(up);
                self.stats.faulty_seconds += 1;
            }
        }
        self.model.packets.check_nothing_lost(self.now)
    }

    /// The number that an end's machine has for another end.
    pub(crate) fn peer(&self, end: usize, other: usize) -> Option<PeerId> {
        self.hosts[end].end.as_ref()?.machine.peer_id(&self.publics[other])
    }

    /// How old the session is with which an end would seal a packet for another one.
    pub(crate) fn age(&self, end: usize, other: usize) -> Option<Duration> {
        let age = self.model.age(self.now, end, self.peer(end, other)?)?;
        (age < Duration::from_secs(180)).then_some(age)
    }

    /// Starts an end's process, with nothing left of the time before but the saved values.
    fn start(&mut self, end: usize) -> Result<(), Violation> {
        if self.hosts[end].end.is_some() {
            return Ok(());
        }
        let seed = self.rng.seed();
        let host = &mut self.hosts[end];
        let addresses: BTreeMap<usize, SocketAddr> =
            (0..self.scenario.ends.len()).map(|end| (end, self.net.address(end))).collect();
        let clock = settings::clock(self.now, host.skew);
        let machine = settings::interface(&self.scenario, end, &addresses, (clock, host.saved), seed)
            .map_err(|error| Violation::new(error.to_string()))?;
        host.generation += 1;
        host.end = Some(End::new(machine));
        self.log(format_args!("end {end} starts"));
        self.with(end, |_, _| {})
    }

    /// An end's process is gone.
    pub(crate) fn stop(&mut self, end: usize) {
        if let Some(stopped) = self.hosts[end].end.take() {
            self.stats.rejected += stopped.rejected;
        }
        self.model.forget(end);
        self.log(format_args!("end {end} is gone"));
    }

    /// Handshake messages that ends refused.
    pub(crate) fn rejected(&self) -> u64 {
        let running = self.hosts.iter().filter_map(|host| host.end.as_ref());
        self.stats.rejected + running.map(|end| end.rejected).sum::<u64>()
    }
}
