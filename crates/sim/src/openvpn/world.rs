//! Virtual time: the hosts, the datagrams in transit and the queue of scheduled events.

use std::collections::BTreeMap;
use std::time::Duration;

use adit_core::{Command, Instant, OpenFailure, Path, PoolEntry, Transport};
use adit_openvpn::request::Reply;
use adit_openvpn::{Client, Server};

use crate::openvpn::checks::Checks;
use crate::openvpn::crypto;
use crate::openvpn::end::{End, Input, Machine};
use crate::openvpn::event::{Event, Order};
use crate::openvpn::model::{Model, SERVER};
use crate::openvpn::net::{Net, Transit};
use crate::openvpn::scenario::Scenario;
use crate::openvpn::settings;
use crate::openvpn::third_party::{ThirdPartyClient, ThirdPartyServer};
use crate::queue::EventQueue;
use crate::rng::Rng;
use crate::trace::Trace;
use crate::violation::Violation;

/// When the simulation starts, on its own clock.
pub(crate) const START: Instant = Instant::from_nanos(1_000_000_000);
/// Wake-ups of one end at one moment; more means that it never comes to rest.
const MAX_WAKES: u32 = 1000;
/// Opcodes of a client's first packet.
const HARD_RESETS_CLIENT: [u8; 2] = [7, 10];

/// A machine on which one end runs. It keeps its state when the process of its end stops.
pub(crate) struct Host {
    /// The end; `None` while its process is not running.
    pub(crate) end: Option<End>,
    /// How many processes the end has had.
    pub(crate) generation: u32,
    /// The error of the wall clock, in seconds.
    pub(crate) skew: i64,
    /// The time until which the machine sleeps.
    pub(crate) asleep_until: Instant,
    /// When the protocol handles the last input of its data plane.
    inputs_due: Instant,
    /// When the halves of the data plane apply their last order: sealing, opening.
    orders_due: [Instant; 2],
    /// Its process was ordered to shut down.
    pub(crate) shutdown_ordered: bool,
}

impl Host {
    fn new() -> Self {
        Host {
            end: None,
            generation: 0,
            skew: 0,
            asleep_until: START,
            inputs_due: START,
            orders_due: [START; 2],
            shutdown_ordered: false,
        }
    }

    /// When the end's timer is handled, `latency` after it is due at the earliest.
    fn wake_at(&self, latency: Duration) -> Option<Instant> {
        Some((self.end.as_ref()?.wake? + latency).max(self.asleep_until))
    }
}

/// Independent streams of random numbers, so that a draw for one purpose changes no other.
pub(crate) struct Streams {
    /// Packets, renegotiations, process faults and latencies.
    pub(crate) workload: Rng,
    /// Forgeries and machine faults.
    pub(crate) faults: Rng,
    /// Clients that get another address where nothing may be lost.
    pub(crate) roaming: Rng,
}

/// Counts for the summary of a run.
#[derive(Default)]
pub(crate) struct Statistics {
    /// Times a client came up.
    pub(crate) handshakes: u64,
    /// Times a client gave up for good.
    pub(crate) failures: u64,
    /// Control datagrams that were refused.
    pub(crate) rejected: u64,
    /// Client-seconds with faults in which the client was up at both ends.
    pub(crate) up_seconds: u64,
    /// Client-seconds with faults.
    pub(crate) faulty_seconds: u64,
    /// How long after the faults the last client was up again.
    pub(crate) recovery: Duration,
}

/// The whole simulation.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) scenario: Scenario,
    pub(crate) rng: Streams,
    pub(crate) net: Net,
    pub(crate) model: Model,
    pub(crate) checks: Checks,
    pub(crate) trace: Trace,
    pub(crate) stats: Statistics,
    /// The server's host, then the clients'.
    pub(crate) hosts: Vec<Host>,
    /// The addresses that a file of the server's keeps for each name (`ifconfig-pool-persist`).
    pub(crate) leases: BTreeMap<String, PoolEntry>,
    queue: EventQueue<Event>,
    /// Wake-ups at this moment.
    wakes: u32,
}

impl World {
    pub(crate) fn new(seed: u64, scenario: Scenario, keep_lines: bool) -> Self {
        crypto::seed_tls(Rng::new(seed, 1).seed());
        let mut world = World {
            now: START,
            rng: Streams {
                workload: Rng::new(seed, 2),
                faults: Rng::new(seed, 5),
                roaming: Rng::new(seed, 10),
            },
            net: Net::new(&scenario, Rng::new(seed, 3)),
            model: Model::new(&scenario),
            checks: Checks::new(&scenario, Rng::new(seed, 9)),
            trace: Trace::new(keep_lines),
            stats: Statistics::default(),
            hosts: (0..=scenario.clients).map(|_| Host::new()).collect(),
            leases: BTreeMap::new(),
            queue: EventQueue::default(),
            wakes: 0,
            scenario,
        };
        world.plan();
        world
    }

    /// Schedules the events that are known from the start.
    fn plan(&mut self) {
        self.schedule(START, Event::Start(SERVER));
        for end in 0..self.hosts.len() {
            if end != SERVER {
                self.schedule(START, Event::Start(end));
            }
            let first = START + self.rng.workload.millis(0, 1000);
            self.schedule(first, Event::Traffic(end));
        }
        self.schedule(START + Duration::from_secs(1), Event::Second);
        self.schedule(START + self.scenario.intervals.rekey, Event::Rekey);
        self.schedule(START, Event::Attack);
        self.schedule(START, Event::Forgery);
        self.schedule(START, Event::Roam);
        if self.calm_at_start().0 < self.calm_at_start().1 {
            self.schedule(self.calm_at_start().0, Event::AllUp);
        }
        let faults = START + self.scenario.phases.start;
        self.schedule(faults, Event::Faulty(true));
        self.schedule(faults + self.scenario.phases.faults, Event::Faulty(false));
        self.schedule(self.calm_at_end().0, Event::AllUp);
    }

    pub(crate) fn schedule(&mut self, at: Instant, event: Event) {
        self.queue.push(at, event);
    }

    /// Runs to the end.
    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        let end = self.calm_at_end().1 + Duration::from_secs(5);
        loop {
            let latency = self.scenario.latency.wake;
            let wake = self.hosts.iter().filter_map(|host| host.wake_at(latency)).min();
            let next = self.queue.next_at();
            let Some(at) = wake.into_iter().chain(next).min().filter(|at| *at <= end) else { break };
            self.advance(at);
            if next.is_some_and(|next| next <= at) {
                if let Some(event) = self.queue.pop() {
                    self.handle_event(event)?;
                }
            } else {
                self.wake()?;
            }
        }
        self.model.packets.check_nothing_lost(end)
    }

    fn advance(&mut self, at: Instant) {
        if at > self.now {
            self.now = at;
            self.wakes = 0;
        }
    }

    /// Handles the timers that are due.
    fn wake(&mut self) -> Result<(), Violation> {
        self.wakes += 1;
        if self.wakes > MAX_WAKES {
            return Err(Violation::new("an end's timer is due again and again at the same moment"));
        }
        for number in 0..self.hosts.len() {
            let now = self.now;
            let latency = self.scenario.latency.wake;
            let due = |end: &&mut End| end.wake.is_some_and(|at| at + latency <= now);
            if self.is_asleep(number) {
                continue;
            }
            if let Some(end) = self.hosts[number].end.as_mut().filter(due) {
                end.timeout(now)?;
                self.settle(number)?;
            }
        }
        Ok(())
    }

    fn handle_event(&mut self, event: Event) -> Result<(), Violation> {
        let Some(event) = self.postpone(event) else { return Ok(()) };
        match event {
            Event::Arrival(transit) => self.arrive(transit),
            Event::OpenCompleted { client, generation, transport, remote } => {
                self.complete_open(client, generation, transport, remote)
            }
            Event::Start(end) => self.start(end),
            Event::Second => self.second(),
            Event::Traffic(end) => self.traffic(end),
            Event::Input { end, generation, input } => self.handle_input(end, generation, input),
            Event::Order { end, generation, order } => self.apply_order(end, generation, order),
            Event::Reply { end, generation, request } => self.answer_request(end, generation, request),
            Event::Attack => self.attack(),
            Event::Forgery => self.forge(),
            Event::Roam => self.roam(),
            Event::MachineFault => self.machine_fault(),
            Event::Rekey => self.rekey(),
            Event::ProcessFault => self.process_fault(),
            Event::Faulty(faulty) => {
                self.net.faulty = faulty;
                self.model.clean_since = (!faulty).then_some(self.now);
                self.log(format_args!("the net is {}", if faulty { "faulty" } else { "clean" }));
                if faulty {
                    self.schedule_process_fault();
                    self.schedule_machine_fault();
                }
                Ok(())
            }
            Event::AllUp => self.check_all_up(),
        }
    }

    pub(crate) fn log(&mut self, text: std::fmt::Arguments<'_>) {
        self.trace.note(self.now, &[], text);
    }

    /// Starts an end's process.
    fn start(&mut self, number: usize) -> Result<(), Violation> {
        if self.hosts[number].end.is_some() {
            return Ok(());
        }
        self.hosts[number].generation += 1;
        let seed = self.rng.workload.seed();
        // The protocol takes the wall clock as it was at the origin.
        let skew = self.hosts[number].skew;
        let machine = if number == SERVER && self.scenario.third_party.server {
            let (params, network) =
                settings::third_party_server(&self.scenario, skew).map_err(Violation::new)?;
            Machine::ThirdPartyServer(Box::new(ThirdPartyServer::new(params, network, self.now, seed)))
        } else if number == SERVER {
            let leases = self.leases.values().cloned().collect();
            let params = settings::server(&self.scenario, skew, leases).map_err(Violation::new)?;
            Machine::Server(Box::new(Server::new(params, self.now, seed)))
        } else if let Some(implementation) = self.scenario.implementation(number) {
            let params = settings::third_party(&self.scenario, (number, implementation), skew)
                .map_err(Violation::new)?;
            Machine::ThirdPartyClient(Box::new(ThirdPartyClient::new(params, self.now, seed)))
        } else {
            let params = settings::client(&self.scenario, number, skew).map_err(Violation::new)?;
            Machine::Client(Box::new(Client::new(params, self.now, seed)))
        };
        let mut end = End::new(machine, &self.scenario, skew);
        end.drain()?;
        self.hosts[number].end = Some(end);
        self.hosts[number].shutdown_ordered = false;
        self.log(format_args!("end {number} starts"));
        self.settle(number)
    }

    /// An end's process dies on the spot.
    pub(crate) fn crash(&mut self, number: usize) {
        self.log(format_args!("end {number} dies"));
        self.hosts[number].end = None;
        self.model.forget(number);
        if number == SERVER {
            self.checks.forget_server();
        }
        let transits = self.net.crash(self.now, number);
        self.schedule_transits(transits);
    }

    /// Delivers a datagram or bytes of a connection to the end at that address or connection, if there is
    /// one.
    fn arrive(&mut self, transit: Transit) -> Result<(), Violation> {
        let now = self.now;
        if matches!(transit, Transit::ToServer { .. } | Transit::ToClient { .. }) {
            self.net.capture(&transit);
        }
        match transit {
            Transit::ToServer { from, datagram } => {
                if datagram.first().is_some_and(|first| HARD_RESETS_CLIENT.contains(&(first >> 3))) {
                    self.checks.resets.push_back(now);
                }
                self.receive_from(from, datagram)
            }
            Transit::ToClient { to, datagram } => match self.net.owner(to) {
                Some((client, path)) => self.receive(client, path, datagram),
                None => Ok(()),
            },
            Transit::Stream { connection, direction, bytes } => {
                let Some((number, path)) = self.net.connection_end(connection, direction) else {
                    return Ok(());
                };
                if self.net.is_broken(connection) {
                    return Ok(());
                }
                let Some(end) = self.hosts.get_mut(number).and_then(|host| host.end.as_mut()) else {
                    return Ok(());
                };
                // Any piece may hold a client's first packet.
                if number == SERVER {
                    self.checks.resets.push_back(now);
                }
                let sound = end.receive_stream(now, path, &bytes)?;
                if !sound {
                    return Err(Violation::new(format!("end {number} cannot find the records of a stream")));
                }
                self.settle(number)
            }
            Transit::Closed { connection, direction, reason } => {
                let Some((number, path)) = self.net.connection_end(connection, direction) else {
                    return Ok(());
                };
                self.net.forget_side(connection, direction);
                let Some(end) = self.hosts.get_mut(number).and_then(|host| host.end.as_mut()) else {
                    return Ok(());
                };
                end.closed(now, path, reason.to_owned())?;
                self.settle(number)
            }
        }
    }

    pub(crate) fn receive(&mut self, number: usize, path: Path, datagram: Vec<u8>) -> Result<(), Violation> {
        let Some(end) = self.hosts[number].end.as_mut() else { return Ok(()) };
        end.receive(path, datagram);
        self.settle(number)
    }

    /// Schedules the inputs of an end's data plane for its protocol, each after a delay, in order.
    pub(crate) fn schedule_inputs(&mut self, number: usize) {
        let Some(end) = self.hosts[number].end.as_mut() else { return };
        for input in end.take_inputs() {
            let lag = self.rng.workload.below(self.scenario.latency.notices.as_micros() as u64 + 1);
            let at = self.hosts[number].inputs_due.max(self.now + Duration::from_micros(lag));
            self.hosts[number].inputs_due = at;
            self.schedule(at, Event::Input { end: number, generation: self.hosts[number].generation, input });
        }
    }

    /// Half a data plane applies an order after a delay; its orders stay in order.
    pub(crate) fn schedule_order(&mut self, number: usize, half: usize, order: Order) {
        let lag = self.rng.workload.below(self.scenario.latency.orders.as_micros() as u64 + 1);
        let at = self.hosts[number].orders_due[half].max(self.now + Duration::from_micros(lag));
        self.hosts[number].orders_due[half] = at;
        self.schedule(at, Event::Order { end: number, generation: self.hosts[number].generation, order });
    }

    fn apply_order(&mut self, number: usize, generation: u32, order: Order) -> Result<(), Violation> {
        if self.hosts[number].generation != generation {
            return Ok(());
        }
        let Some(end) = self.hosts[number].end.as_mut() else { return Ok(()) };
        match order {
            Order::Egress(order, install) => end.apply_egress(order, install),
            Order::Ingress(order) => end.apply_ingress(order),
        }
        self.settle(number)
    }

    fn handle_input(&mut self, number: usize, generation: u32, input: Input) -> Result<(), Violation> {
        if self.hosts[number].generation != generation {
            return Ok(());
        }
        let Some(end) = self.hosts[number].end.as_mut() else { return Ok(()) };
        end.handle_input(self.now, input)?;
        self.settle(number)
    }

    fn complete_open(
        &mut self,
        client: usize,
        generation: u32,
        transport: Transport,
        remote: usize,
    ) -> Result<(), Violation> {
        let listening = self.hosts[SERVER].end.is_some() && !self.is_asleep(SERVER);
        let unlucky = self.net.faulty && self.rng.workload.chance(200);
        let now = self.now;
        if self.hosts[client].generation != generation || self.hosts[client].end.is_none() {
            return Ok(());
        }
        let command = match transport {
            Transport::Udp if !unlucky => Command::Opened { path: self.net.open_socket(client) },
            Transport::Tcp if listening && !unlucky => {
                let (path, server_path) = self.net.open_connection(now, client);
                if let Some(server) = self.hosts[SERVER].end.as_mut() {
                    server.command(now, Command::Opened { path: server_path })?;
                }
                self.settle(SERVER)?;
                Command::Opened { path }
            }
            _ => Command::OpenFailed { remote, failure: OpenFailure::Unreachable("no route".to_owned()) },
        };
        if let Some(end) = self.hosts[client].end.as_mut() {
            end.command(now, command)?;
        }
        self.settle(client)
    }

    pub(crate) fn command(&mut self, number: usize, command: Command) -> Result<(), Violation> {
        if self.is_asleep(number) {
            return Ok(());
        }
        self.log(format_args!("end {number} gets the command {command:?}"));
        self.hosts[number].shutdown_ordered |= command == Command::Shutdown;
        let Some(end) = self.hosts[number].end.as_mut() else { return Ok(()) };
        end.command(self.now, command)?;
        self.settle(number)
    }

    pub(crate) fn reply(&mut self, number: usize, reply: Reply) -> Result<(), Violation> {
        if self.is_asleep(number) {
            return Ok(());
        }
        self.log(format_args!("end {number} gets the reply {reply:?}"));
        let Some(end) = self.hosts[number].end.as_mut() else { return Ok(()) };
        end.reply(self.now, reply)?;
        self.settle(number)
    }

    pub(crate) fn send(&mut self, number: usize, path: Path, datagram: &[u8]) {
        let transits = self.net.send(self.now, number, path, datagram);
        self.schedule_transits(transits);
    }

    pub(crate) fn schedule_transits(&mut self, transits: Vec<(Instant, Transit)>) {
        for (at, transit) in transits {
            self.schedule(at, Event::Arrival(transit));
        }
    }

    fn calm_at_start(&self) -> (Instant, Instant) {
        let clean = self.scenario.phases.start.saturating_sub(Duration::from_secs(2));
        (START + crate::openvpn::scenario::CLEAN_CONNECT, START + clean)
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
