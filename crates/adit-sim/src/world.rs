//! Virtual time: who is there, what is under way, and what comes next.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use adit_core::{Command, Instant, OpenFailure, Path, PoolEntry, Transport};
use adit_dataplane::{EgressEvent, IngressEvent};
use adit_openvpn::request::{Install, Reply};
use adit_openvpn::{Client, Server};

use crate::crypto;
use crate::dice::Dice;
use crate::end::{End, Machine, Mail, Question};
use crate::foreign::{Foreign, ForeignServer};
use crate::learned::Learned;
use crate::limits::Limits;
use crate::model::{Model, SERVER, Violation};
use crate::net::{Net, Transit};
use crate::program::Program;
use crate::questions::Questions;
use crate::scenario::Scenario;
use crate::settings;
use crate::trace::Trace;

/// When the simulation starts, on its own clock.
pub(crate) const START: Instant = Instant::from_nanos(1_000_000_000);
/// Wake-ups of one end at one moment; more means that it never comes to rest.
const MAX_WAKES: u32 = 1000;
/// Opcodes of a client's first packet.
const HARD_RESETS_CLIENT: [u8; 2] = [7, 10];

/// What happens at a moment that was known before.
#[derive(Debug)]
pub(crate) enum Happening {
    /// Something arrives.
    Arrival(Transit),
    /// A client's attempt to open a path to a remote ends. `life` tells its process from earlier ones.
    Opening { client: usize, life: u32, transport: Transport, remote: usize },
    /// An end's process starts.
    Start(usize),
    /// A second passed.
    Second,
    /// An end sends inner packets.
    Traffic(usize),
    /// A protocol reads what its data plane had for it.
    Mail { end: usize, life: u32, mail: Mail },
    /// Half of a data plane follows an order.
    Order { end: usize, life: u32, order: Order },
    /// Somebody answers an end's question.
    Answer { end: usize, life: u32, question: Question },
    /// An attacker repeats something.
    Attack,
    /// An attacker makes something up.
    Forgery,
    /// A client gets another address where nothing may be lost.
    Roam,
    /// Somebody orders a renegotiation.
    Rekey,
    /// Something goes wrong with a process or a way.
    Trouble,
    /// Something goes wrong with a clock, a machine or a way's width.
    Mishap,
    /// The net becomes faulty, or clean again.
    Faulty(bool),
    /// All tunnels must be up now: the first time, or after the faults.
    AllUp,
}

/// An order to one half of a data plane.
#[derive(Debug)]
pub(crate) enum Order {
    /// To the half that seals, with the keys in it.
    Egress(EgressEvent, Option<Box<Install>>),
    /// To the half that opens.
    Ingress(IngressEvent),
}

/// The whole simulation.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) scenario: Scenario,
    pub(crate) dice: Dice,
    /// For forgeries and mishaps.
    pub(crate) more: Dice,
    /// For clients that get another address where nothing may be lost.
    pub(crate) roaming: Dice,
    pub(crate) net: Net,
    pub(crate) model: Model,
    pub(crate) trace: Trace,
    /// The server, then the clients; `None` while a process is not running.
    pub(crate) ends: Vec<Option<End>>,
    /// How many processes each end has had.
    pub(crate) lives: Vec<u32>,
    /// How many seconds each end's wall clock is wrong.
    pub(crate) skews: Vec<i64>,
    /// Until when each end's machine sleeps.
    pub(crate) asleep: Vec<Instant>,
    /// What a file of the server's says about who had which address.
    pub(crate) remembered: BTreeMap<String, PoolEntry>,
    /// When each end's protocol reads the last of its mail.
    read_by: Vec<Instant>,
    /// When the halves of each end's data plane follow their last order: sealing, opening.
    followed_by: Vec<[Instant; 2]>,
    /// In order of time, and of being scheduled.
    queue: BTreeMap<(Instant, u64), Happening>,
    scheduled: u64,
    wakes: u32,
    /// TCP connections of nobody's, and when they were made.
    pub(crate) strangers: VecDeque<(Instant, Path)>,
    /// When hard resets came to the server.
    pub(crate) resets: VecDeque<Instant>,
    /// Which ends were told to shut down.
    pub(crate) told_to_stop: Vec<bool>,
    /// How long sessions last.
    pub(crate) limits: Limits,
    /// What the server's `learn-address` knows.
    pub(crate) learned: Learned,
    /// What clients are asked.
    pub(crate) questions: Questions,
    /// Who judges clients at the management socket.
    pub(crate) program: Program,
    pub(crate) handshakes: u64,
    pub(crate) failures: u64,
    pub(crate) rejected: u64,
    /// Seconds that clients were up at both ends while the net was faulty, and seconds they could have been.
    pub(crate) up: (u64, u64),
    /// Each end's drops at the beginning of the last calm.
    pub(crate) drops: Vec<u64>,
    /// How long after the faults the last client was up again.
    pub(crate) recovery: Duration,
}

impl World {
    pub(crate) fn new(seed: u64, scenario: Scenario, keep_lines: bool) -> Self {
        crypto::seed_tls(Dice::new(seed, 1).seed());
        let ends = scenario.clients + 1;
        let mut world = World {
            now: START,
            dice: Dice::new(seed, 2),
            more: Dice::new(seed, 5),
            roaming: Dice::new(seed, 10),
            net: Net::new(&scenario, Dice::new(seed, 3)),
            model: Model::new(&scenario),
            trace: Trace::new(keep_lines),
            ends: (0..ends).map(|_| None).collect(),
            lives: vec![0; ends],
            skews: vec![0; ends],
            asleep: vec![START; ends],
            remembered: BTreeMap::new(),
            read_by: vec![START; ends],
            followed_by: vec![[START; 2]; ends],
            queue: BTreeMap::new(),
            scheduled: 0,
            wakes: 0,
            strangers: VecDeque::new(),
            resets: VecDeque::new(),
            told_to_stop: vec![false; ends],
            limits: Limits::new(&scenario),
            learned: Learned::default(),
            questions: Questions::default(),
            program: Program::new(Dice::new(seed, 9)),
            handshakes: 0,
            failures: 0,
            rejected: 0,
            up: (0, 0),
            drops: Vec::new(),
            recovery: Duration::ZERO,
            scenario,
        };
        world.plan();
        world
    }

    /// Schedules what is known from the start.
    fn plan(&mut self) {
        self.schedule(START, Happening::Start(SERVER));
        for end in 0..self.ends.len() {
            if end != SERVER {
                self.schedule(START, Happening::Start(end));
            }
            let first = START + self.dice.millis(0, 1000);
            self.schedule(first, Happening::Traffic(end));
        }
        self.schedule(START + Duration::from_secs(1), Happening::Second);
        self.schedule(START + self.scenario.rekey_every, Happening::Rekey);
        self.schedule(START, Happening::Attack);
        self.schedule(START, Happening::Forgery);
        self.schedule(START, Happening::Roam);
        if self.calm_at_start().0 < self.calm_at_start().1 {
            self.schedule(self.calm_at_start().0, Happening::AllUp);
        }
        let faults = START + self.scenario.phases.start;
        self.schedule(faults, Happening::Faulty(true));
        self.schedule(faults + self.scenario.phases.faults, Happening::Faulty(false));
        self.schedule(self.calm_at_end().0, Happening::AllUp);
    }

    pub(crate) fn schedule(&mut self, at: Instant, happening: Happening) {
        self.scheduled += 1;
        self.queue.insert((at, self.scheduled), happening);
    }

    /// Runs to the end.
    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        let end = self.calm_at_end().1 + Duration::from_secs(5);
        loop {
            let oversleep = self.scenario.oversleep;
            let ends = self.ends.iter().zip(&self.asleep);
            let wake =
                ends.filter_map(|(end, asleep)| Some((end.as_ref()?.wake? + oversleep).max(*asleep))).min();
            let next = self.queue.first_key_value().map(|((at, _), _)| *at);
            let Some(at) = wake.into_iter().chain(next).min().filter(|at| *at <= end) else { break };
            self.advance(at);
            if next.is_some_and(|next| next <= at) {
                if let Some((_, happening)) = self.queue.pop_first() {
                    self.happen(happening)?;
                }
            } else {
                self.wake()?;
            }
        }
        self.model.check_nothing_lost(end)
    }

    fn advance(&mut self, at: Instant) {
        if at > self.now {
            self.now = at;
            self.wakes = 0;
        }
    }

    /// Wakes all ends that want to be.
    fn wake(&mut self) -> Result<(), Violation> {
        self.wakes += 1;
        if self.wakes > MAX_WAKES {
            return Err(Violation::new("an end wants to be woken again and again at the same moment"));
        }
        for number in 0..self.ends.len() {
            let now = self.now;
            let oversleep = self.scenario.oversleep;
            let due = |end: &&mut End| end.wake.is_some_and(|at| at + oversleep <= now);
            if self.is_asleep(number) {
                continue;
            }
            if let Some(end) = self.ends[number].as_mut().filter(due) {
                end.timeout(now)?;
                self.settle(number)?;
            }
        }
        Ok(())
    }

    fn happen(&mut self, happening: Happening) -> Result<(), Violation> {
        let Some(happening) = self.put_off(happening) else { return Ok(()) };
        match happening {
            Happening::Arrival(transit) => self.arrive(transit),
            Happening::Opening { client, life, transport, remote } => {
                self.end_opening(client, life, transport, remote)
            }
            Happening::Start(end) => self.start(end),
            Happening::Second => self.second(),
            Happening::Traffic(end) => self.traffic(end),
            Happening::Mail { end, life, mail } => self.read(end, life, mail),
            Happening::Order { end, life, order } => self.follow_order(end, life, order),
            Happening::Answer { end, life, question } => self.answer(end, life, question),
            Happening::Attack => self.attack(),
            Happening::Forgery => self.forge(),
            Happening::Roam => self.roam(),
            Happening::Mishap => self.mishap(),
            Happening::Rekey => self.rekey(),
            Happening::Trouble => self.trouble(),
            Happening::Faulty(faulty) => {
                self.net.faulty = faulty;
                self.model.clean_since = (!faulty).then_some(self.now);
                self.log(format_args!("the net is {}", if faulty { "faulty" } else { "clean" }));
                if faulty {
                    self.schedule_trouble();
                    self.schedule_mishap();
                }
                Ok(())
            }
            Happening::AllUp => self.check_all_up(),
        }
    }

    pub(crate) fn log(&mut self, text: std::fmt::Arguments<'_>) {
        self.trace.note(self.now, &[], text);
    }

    /// Starts an end's process.
    fn start(&mut self, number: usize) -> Result<(), Violation> {
        if self.ends[number].is_some() {
            return Ok(());
        }
        self.lives[number] += 1;
        let seed = self.dice.seed();
        // The protocol takes the wall clock as it was at the origin.
        let skew = self.skews[number];
        let machine = if number == SERVER && self.scenario.mirage_server {
            let (params, network) = settings::foreign_server(&self.scenario, skew).map_err(Violation::new)?;
            Machine::ForeignServer(Box::new(ForeignServer::new(params, network, self.now, seed)))
        } else if number == SERVER {
            let remembered = self.remembered.values().cloned().collect();
            let params = settings::server(&self.scenario, skew, remembered).map_err(Violation::new)?;
            Machine::Server(Box::new(Server::new(params, self.now, seed)))
        } else if let Some(kind) = self.scenario.kind(number) {
            let params = settings::foreign(&self.scenario, (number, kind), skew).map_err(Violation::new)?;
            Machine::Foreign(Box::new(Foreign::new(params, self.now, seed)))
        } else {
            let params = settings::client(&self.scenario, number, skew).map_err(Violation::new)?;
            Machine::Client(Box::new(Client::new(params, self.now, seed)))
        };
        let mut end = End::new(machine, &self.scenario, skew);
        end.drain()?;
        self.ends[number] = Some(end);
        self.told_to_stop[number] = false;
        self.log(format_args!("end {number} starts"));
        self.settle(number)
    }

    /// An end's process dies on the spot.
    pub(crate) fn crash(&mut self, number: usize) {
        self.log(format_args!("end {number} dies"));
        self.ends[number] = None;
        self.model.forget(number);
        if number == SERVER {
            self.learned.forget();
            self.questions.forget_connections();
            self.program.forget();
        }
        let news = self.net.crash(self.now, number);
        self.send_off(news);
    }

    /// Something arrives, if there is someone to take it.
    fn arrive(&mut self, transit: Transit) -> Result<(), Violation> {
        let now = self.now;
        if matches!(transit, Transit::ToServer { .. } | Transit::ToClient { .. }) {
            self.net.remember(&transit);
        }
        match transit {
            Transit::ToServer { from, datagram } => {
                if datagram.first().is_some_and(|first| HARD_RESETS_CLIENT.contains(&(first >> 3))) {
                    self.resets.push_back(now);
                }
                self.receive_from(from, datagram)
            }
            Transit::ToClient { to, datagram } => match self.net.owner(to) {
                Some((client, path)) => self.receive(client, path, datagram),
                None => Ok(()),
            },
            Transit::Stream { connection, way, bytes } => {
                let Some((number, path)) = self.net.connection_end(connection, way) else { return Ok(()) };
                if self.net.is_broken(connection) {
                    return Ok(());
                }
                let Some(end) = self.ends.get_mut(number).and_then(Option::as_mut) else { return Ok(()) };
                // Any piece may hold a client's first packet.
                if number == SERVER {
                    self.resets.push_back(now);
                }
                let sound = end.receive_stream(now, path, &bytes)?;
                if !sound {
                    return Err(Violation::new(format!("end {number} lost its step in a stream")));
                }
                self.settle(number)
            }
            Transit::Closed { connection, way, reason } => {
                let Some((number, path)) = self.net.connection_end(connection, way) else { return Ok(()) };
                self.net.forget_side(connection, way);
                let Some(end) = self.ends.get_mut(number).and_then(Option::as_mut) else { return Ok(()) };
                end.closed(now, path, reason.to_owned())?;
                self.settle(number)
            }
        }
    }

    pub(crate) fn receive(&mut self, number: usize, path: Path, datagram: Vec<u8>) -> Result<(), Violation> {
        let Some(end) = self.ends[number].as_mut() else { return Ok(()) };
        end.receive(path, datagram);
        self.settle(number)
    }

    /// Passes on what a data plane has for its protocol, in order, at once or a little later.
    pub(crate) fn carry_mail(&mut self, number: usize) {
        let Some(end) = self.ends[number].as_mut() else { return };
        for mail in end.take_mail() {
            let lag = self.dice.below(self.scenario.lag.as_micros() as u64 + 1);
            let at = self.read_by[number].max(self.now + Duration::from_micros(lag));
            self.read_by[number] = at;
            self.schedule(at, Happening::Mail { end: number, life: self.lives[number], mail });
        }
    }

    /// Half a data plane follows an order a little later; its orders stay in order.
    pub(crate) fn give_order(&mut self, number: usize, half: usize, order: Order) {
        let lag = self.dice.below(self.scenario.order_lag.as_micros() as u64 + 1);
        let at = self.followed_by[number][half].max(self.now + Duration::from_micros(lag));
        self.followed_by[number][half] = at;
        self.schedule(at, Happening::Order { end: number, life: self.lives[number], order });
    }

    fn follow_order(&mut self, number: usize, life: u32, order: Order) -> Result<(), Violation> {
        if self.lives[number] != life {
            return Ok(());
        }
        let Some(end) = self.ends[number].as_mut() else { return Ok(()) };
        match order {
            Order::Egress(order, install) => end.follow_egress(order, install),
            Order::Ingress(order) => end.follow_ingress(order),
        }
        self.settle(number)
    }

    fn read(&mut self, number: usize, life: u32, mail: Mail) -> Result<(), Violation> {
        if self.lives[number] != life {
            return Ok(());
        }
        let Some(end) = self.ends[number].as_mut() else { return Ok(()) };
        end.read(self.now, mail)?;
        self.settle(number)
    }

    fn end_opening(
        &mut self,
        client: usize,
        life: u32,
        transport: Transport,
        remote: usize,
    ) -> Result<(), Violation> {
        let listening = self.ends[SERVER].is_some() && !self.is_asleep(SERVER);
        let unlucky = self.net.faulty && self.dice.chance(200);
        let now = self.now;
        if self.lives[client] != life || self.ends[client].is_none() {
            return Ok(());
        }
        let command = match transport {
            Transport::Udp if !unlucky => Command::Opened { path: self.net.open_socket(client) },
            Transport::Tcp if listening && !unlucky => {
                let (path, server_path) = self.net.open_connection(now, client);
                if let Some(server) = self.ends[SERVER].as_mut() {
                    server.command(now, Command::Opened { path: server_path })?;
                }
                self.settle(SERVER)?;
                Command::Opened { path }
            }
            _ => Command::OpenFailed { remote, failure: OpenFailure::Unreachable("no route".to_owned()) },
        };
        if let Some(end) = self.ends[client].as_mut() {
            end.command(now, command)?;
        }
        self.settle(client)
    }

    pub(crate) fn command(&mut self, number: usize, command: Command) -> Result<(), Violation> {
        if self.is_asleep(number) {
            return Ok(());
        }
        self.log(format_args!("end {number} is told: {command:?}"));
        self.told_to_stop[number] |= command == Command::Shutdown;
        let Some(end) = self.ends[number].as_mut() else { return Ok(()) };
        end.command(self.now, command)?;
        self.settle(number)
    }

    pub(crate) fn reply(&mut self, number: usize, reply: Reply) -> Result<(), Violation> {
        if self.is_asleep(number) {
            return Ok(());
        }
        self.log(format_args!("end {number} is told: {reply:?}"));
        let Some(end) = self.ends[number].as_mut() else { return Ok(()) };
        end.reply(self.now, reply)?;
        self.settle(number)
    }

    pub(crate) fn send(&mut self, number: usize, path: Path, datagram: &[u8]) {
        let news = self.net.send(self.now, number, path, datagram);
        self.send_off(news);
    }

    pub(crate) fn send_off(&mut self, news: Vec<(Instant, Transit)>) {
        for (at, transit) in news {
            self.schedule(at, Happening::Arrival(transit));
        }
    }

    fn calm_at_start(&self) -> (Instant, Instant) {
        let clean = self.scenario.phases.start.saturating_sub(Duration::from_secs(2));
        (START + crate::scenario::CLEAN_CONNECT, START + clean)
    }

    pub(crate) fn calm_at_end(&self) -> (Instant, Instant) {
        let phases = &self.scenario.phases;
        let start = START + phases.start + phases.faults + phases.recovery;
        (start, start + phases.calm)
    }

    /// Whether nothing may be lost now.
    pub(crate) fn is_calm(&self) -> bool {
        [self.calm_at_start(), self.calm_at_end()].iter().any(|(from, to)| (*from..*to).contains(&self.now))
    }
}
