//! One end of tunnels: a protocol machine and a data plane, driven as the driver drives them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use adit_core::{
    Command, Drive, Ended, Instant, Notice, Path, PeerId, PeerOrder, PoolEntry, Protocol, Report, Transport,
    TunnelSettings, drive_once,
};
use adit_dataplane::codec::Demultiplexer;
use adit_dataplane::{
    Config, Counters, Egress, EgressEvent, Ingress, IngressEvent, MergePolicy, Offload, ReceiveBatch,
    TransmitBatch, split,
};
use adit_openvpn::codec::Codec;
use adit_openvpn::request::{
    Challenge, ClientEvent, DataEvent, Event, Install, PeerDetail, PeerInfo, Reply, Request, Script, ScriptId,
};
use adit_openvpn::{Client, Server};

use crate::openvpn::crypto;
use crate::openvpn::scenario::Scenario;
use crate::openvpn::third_party::{ThirdPartyClient, ThirdPartyServer};
use crate::violation::Violation;

/// Rounds of draining after one input; more means that a machine produces output without end.
const MAX_ROUNDS: usize = 64;
/// Events and datagrams after one input; more means that a queue has no bound.
const MAX_OUTPUTS: usize = 4096;

/// Any of the machines.
pub(crate) type AnyProtocol =
    dyn Protocol<Request = Request, Reply = Reply, Detail = PeerDetail, Codec = Codec>;

/// A protocol machine.
pub(crate) enum Machine {
    Client(Box<Client>),
    Server(Box<Server>),
    /// A third-party client.
    ThirdPartyClient(Box<ThirdPartyClient>),
    /// A third-party server.
    ThirdPartyServer(Box<ThirdPartyServer>),
}

impl Machine {
    fn protocol(&mut self) -> &mut AnyProtocol {
        match self {
            Machine::Client(client) => client.as_mut(),
            Machine::Server(server) => server.as_mut(),
            Machine::ThirdPartyClient(client) => client.as_mut(),
            Machine::ThirdPartyServer(server) => server.as_mut(),
        }
    }

    /// The peers that are up.
    pub(crate) fn peers(&self) -> Vec<(PeerId, PeerInfo)> {
        match self {
            Machine::Client(client) => client.peers(),
            Machine::Server(server) => server.peers(),
            Machine::ThirdPartyClient(client) => client.peers(),
            Machine::ThirdPartyServer(server) => server.peers(),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Machine::Client(client) => client.poll_timeout(),
            Machine::Server(server) => server.poll_timeout(),
            Machine::ThirdPartyClient(client) => client.poll_timeout(),
            Machine::ThirdPartyServer(server) => server.poll_timeout(),
        }
    }
}

/// An effect of an input to an end.
#[derive(Debug)]
pub(crate) enum Effect {
    /// A control datagram (without TCP's length).
    Control { path: Path, datagram: Vec<u8> },
    /// A sealed datagram (without TCP's length).
    Sealed { path: Path, datagram: Vec<u8> },
    /// An inner packet for the device.
    Packet(Vec<u8>),
    /// New keys, which the data plane has by now.
    Installed(Box<Install>),
    /// An order for the half that seals, to be given to [`End::apply_egress`]; with the keys in it.
    Egress(EgressEvent, Option<Box<Install>>),
    /// An order for the half that opens, to be given to [`End::apply_ingress`].
    Ingress(IngressEvent),
    /// A client wants a path.
    Open { remote: usize },
    /// A path is not used any more.
    Close { path: Path },
    /// The tunnel is up.
    Up(TunnelSettings),
    /// The tunnel is down.
    Down,
    /// A peer is up.
    PeerUp(PeerId, Box<PeerInfo>),
    /// A peer is gone, for this reason.
    PeerDown(PeerId, String),
    /// A request, which [`End::reply`] answers.
    Request(PendingRequest),
    /// The result of that script is not used any more.
    DropScript(ScriptId),
    /// An event for the management client that authenticates clients.
    Management(Box<ClientEvent>),
    /// A name got that address of the pool.
    Leased(PoolEntry),
    /// For the log.
    Report(Report),
    /// The machine has ended.
    Ended(Ended),
}

/// A request of an end to its host.
#[derive(Clone, Debug)]
pub(crate) enum PendingRequest {
    /// The settings of the peer with that name.
    Settings(PeerId, String),
    /// A username and a password.
    Credentials,
    /// The client's own `static-challenge`, or a challenge of the server's.
    Challenge(Challenge),
    /// The result of a script, and whether it deferred it before.
    Script(Box<Script>, bool),
    /// The decision of the management client about a client with these keys, and whether it decided about them before.
    ManagementAuth { client: u64, key: u32, again: bool },
}

/// A message of a data plane to its protocol.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// A notice.
    Notice(Notice),
    /// A control datagram.
    Control(Path, Vec<u8>),
}

/// One end of tunnels.
pub(crate) struct End {
    pub(crate) machine: Machine,
    egress: Egress,
    ingress: Ingress,
    pub(crate) counters: Counters,
    transmit_batch: TransmitBatch,
    receive_batch: ReceiveBatch,
    /// Beginnings of records of TCP streams.
    streams: BTreeMap<Path, Vec<u8>>,
    /// Peers in the data plane, and the traffic of which the machine last got notice.
    traffic: BTreeMap<PeerId, (u64, u64)>,
    effects: Vec<Effect>,
    /// Effects that there were before the machine was drained.
    drained: usize,
    inputs: Vec<Input>,
    /// Whether the data plane applies orders after a delay, as scheduled events.
    delays_orders: bool,
    /// When the machine's timer is due.
    pub(crate) wake: Option<Instant>,
    pub(crate) rejected: u64,
    /// How many seconds its wall clock is wrong.
    pub(crate) skew: i64,
}

impl End {
    /// An end whose machine was just made; call [`End::drain`] next.
    pub(crate) fn new(machine: Machine, scenario: &Scenario, skew: i64) -> Self {
        let client_to_client = scenario.server.client_to_client;
        let demultiplexer: Arc<dyn Demultiplexer> = match machine {
            Machine::Server(_) if scenario.point_to_point.is_none() => Arc::new(adit_openvpn_codec::Server),
            Machine::ThirdPartyServer(_) => Arc::new(adit_openvpn_codec::Server),
            _ => Arc::new(adit_openvpn_codec::Client),
        };
        let (egress, ingress, counters) =
            adit_dataplane::new(Config { client_to_client, ..Config::of(demultiplexer) });
        End {
            machine,
            egress,
            ingress,
            counters,
            transmit_batch: TransmitBatch::new(),
            receive_batch: ReceiveBatch::new(MergePolicy::Off),
            streams: BTreeMap::new(),
            traffic: BTreeMap::new(),
            effects: Vec::new(),
            drained: 0,
            inputs: Vec::new(),
            delays_orders: scenario.latency.orders > Duration::ZERO,
            wake: None,
            rejected: 0,
            skew,
        }
    }

    /// Sets the clock of TLS in this thread to this end's.
    fn set_clock(&mut self, now: Instant) {
        crypto::set_clock((now - Instant::ORIGIN).as_secs() as i64 + self.skew);
        self.egress.tick(now);
        self.ingress.tick(now);
    }

    /// The effects since the last call.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// The data plane's messages to the protocol since the last call; they go to [`End::handle_input`].
    pub(crate) fn take_inputs(&mut self) -> Vec<Input> {
        std::mem::take(&mut self.inputs)
    }

    /// A datagram arrived.
    pub(crate) fn receive(&mut self, path: Path, mut datagram: Vec<u8>) {
        self.ingress.open_datagrams(path, &mut datagram, 0, &mut self.receive_batch);
        self.take_receive_batch(&datagram);
    }

    /// Bytes of a stream arrived. False if it holds no valid record and must be closed.
    pub(crate) fn receive_stream(
        &mut self,
        now: Instant,
        path: Path,
        bytes: &[u8],
    ) -> Result<bool, Violation> {
        let mut buffer = self.streams.remove(&path).unwrap_or_default();
        buffer.extend_from_slice(bytes);
        let opened = self.ingress.open_stream(path, &mut buffer, &mut self.receive_batch);
        self.take_receive_batch(&buffer);
        match opened {
            Ok(used) => {
                self.streams.insert(path, buffer.split_off(used));
                Ok(true)
            }
            Err(error) => {
                self.closed(now, path, error.to_string())?;
                Ok(false)
            }
        }
    }

    fn take_receive_batch(&mut self, buffer: &[u8]) {
        for order in self.receive_batch.orders().drain(..) {
            self.egress.apply(order, &mut self.transmit_batch);
        }
        let slice = |range: &std::ops::Range<usize>| buffer.get(range.clone()).unwrap_or_default().to_vec();
        for packet in self.receive_batch.packets() {
            self.effects.push(Effect::Packet(packet.slices(buffer).flatten().copied().collect()));
        }
        let relay: Vec<Vec<u8>> = self
            .receive_batch
            .relay()
            .iter()
            .map(|range| self.receive_batch.slice(buffer, range).unwrap_or_default().to_vec())
            .collect();
        self.inputs.extend(self.receive_batch.notices().drain(..).map(Input::Notice));
        let control = self.receive_batch.control().iter();
        self.inputs.extend(control.map(|(path, range)| Input::Control(*path, slice(range))));
        self.receive_batch.clear();
        for mut packet in relay {
            self.egress.relay_packet(&mut packet, &mut self.transmit_batch);
        }
        self.flush();
    }

    /// The protocol handles an input.
    pub(crate) fn handle_input(&mut self, now: Instant, input: Input) -> Result<(), Violation> {
        self.set_clock(now);
        match input {
            Input::Notice(notice) => self.machine.protocol().handle_notice(now, notice),
            Input::Control(path, datagram) => {
                let handled = self.machine.protocol().handle_datagram(now, path, &datagram);
                self.rejected += u64::from(handled.is_err());
            }
        }
        self.drain()
    }

    /// Packets came from the device, in one batch.
    pub(crate) fn send_packets(&mut self, packets: &[Vec<u8>]) {
        for packet in packets {
            self.egress.seal_packet(Offload::NONE, &mut packet.clone(), &mut self.transmit_batch);
        }
        self.flush();
        self.inputs.extend(self.egress.take_notices().into_iter().map(Input::Notice));
    }

    /// An order from outside.
    pub(crate) fn command(&mut self, now: Instant, command: Command) -> Result<(), Violation> {
        self.set_clock(now);
        self.machine.protocol().handle_command(now, command);
        self.drain()
    }

    /// The adapter's answer to a question.
    pub(crate) fn reply(&mut self, now: Instant, reply: Reply) -> Result<(), Violation> {
        self.set_clock(now);
        self.machine.protocol().handle_reply(now, reply);
        self.drain()
    }

    /// A TCP connection is gone.
    pub(crate) fn closed(&mut self, now: Instant, path: Path, reason: String) -> Result<(), Violation> {
        self.streams.remove(&path);
        self.command(now, Command::Closed { path, reason })
    }

    /// The machine's timer is due.
    pub(crate) fn timeout(&mut self, now: Instant) -> Result<(), Violation> {
        self.set_clock(now);
        self.machine.protocol().handle_timeout(now);
        self.drain()
    }

    /// A second passed: passes counters of traffic that changed to the machine.
    pub(crate) fn second(&mut self, now: Instant) -> Result<(), Violation> {
        self.set_clock(now);
        let peers: Vec<PeerId> = self.traffic.keys().copied().collect();
        for peer in peers {
            let Some(totals) = self.counters.traffic(peer) else { continue };
            if self.traffic.insert(peer, totals) == Some(totals) {
                continue;
            }
            let (received, sent) = totals;
            let (received_bytes, sent_bytes) = self.counters.traffic_bytes(peer).unwrap_or_default();
            let message_bytes = self.counters.message_bytes(peer).unwrap_or_default();
            let activity = self.counters.activity(peer).unwrap_or_default();
            let notice =
                Notice::Traffic { peer, received, sent, received_bytes, sent_bytes, message_bytes, activity };
            self.machine.protocol().handle_notice(now, notice);
            self.drain()?;
        }
        Ok(())
    }

    /// Takes all output of the machine, events before datagrams, until there is none.
    pub(crate) fn drain(&mut self) -> Result<(), Violation> {
        self.drained = self.effects.len();
        let mut datagram = Vec::new();
        for _ in 0..MAX_ROUNDS {
            if !drive_once(self, &mut datagram)? {
                self.wake = self.machine.poll_timeout();
                return Ok(());
            }
        }
        Err(Violation::new(format!("a machine still had output after {MAX_ROUNDS} rounds of draining")))
    }

    fn check_outputs(&self) -> Result<(), Violation> {
        if self.effects.len() - self.drained > MAX_OUTPUTS {
            return Err(Violation::new(format!(
                "one input made more than {MAX_OUTPUTS} events and datagrams"
            )));
        }
        Ok(())
    }

    fn apply_event(&mut self, event: Event) {
        match event {
            Event::Data(order) => self.apply_data(order),
            Event::Open { remote } => self.effects.push(Effect::Open { remote }),
            Event::Close { path } => {
                self.streams.remove(&path);
                self.effects.push(Effect::Close { path });
            }
            Event::Up(settings) => self.effects.push(Effect::Up(settings)),
            Event::Down => self.effects.push(Effect::Down),
            Event::PeerUp { peer, info } => self.effects.push(Effect::PeerUp(peer, info)),
            Event::Request(request) => self.requested(request),
            Event::PeerDown { peer, reason } => self.effects.push(Effect::PeerDown(peer, reason)),
            Event::Report(report) => self.effects.push(Effect::Report(report)),
            Event::Ended(ended) => self.effects.push(Effect::Ended(ended)),
            // A server here is the only endpoint of its tunnel.
            Event::LeasesMoved => {}
        }
    }

    fn requested(&mut self, request: Request) {
        self.effects.push(match request {
            Request::PeerSettings { peer, name } => Effect::Request(PendingRequest::Settings(peer, name)),
            Request::Credentials { .. } => Effect::Request(PendingRequest::Credentials),
            Request::Challenge(challenge) => Effect::Request(PendingRequest::Challenge(challenge)),
            Request::Leased(entry) => Effect::Leased(entry),
            Request::RunScript(script) => Effect::Request(PendingRequest::Script(script, false)),
            Request::CancelScript(id) => Effect::DropScript(id),
            Request::Client(event) => Effect::Management(event),
            // No end here has scripts of its tunnel, a key that is held elsewhere, or a proxy.
            Request::PeerFacts(_)
            | Request::TunnelFacts(_)
            | Request::Signal(_)
            | Request::ProxyCredentials { .. }
            | Request::ProxyCredentialsNotNeeded
            | Request::TlsStep(_) => {
                return;
            }
            // For those who watch; no scenario has a program that is asked where to connect.
            Request::Progress(_)
            | Request::MayGoOn { .. }
            | Request::Remote(_)
            | Request::ServerInfo(_)
            | Request::AuthFailed(_)
            | Request::ConnectionFailed(_)
            | Request::ClientFailed(_)
            | Request::ExitNotice { .. }
            | Request::ServerNotice(_)
            | Request::Echo(_) => return,
        });
    }

    fn apply_data(&mut self, order: DataEvent) {
        match &order {
            DataEvent::Peer(PeerOrder::Add(config)) => {
                self.traffic.entry(config.peer).or_default();
            }
            DataEvent::Peer(PeerOrder::Remove(peer)) => {
                self.traffic.remove(peer);
            }
            _ => {}
        }
        let install = if let DataEvent::Install(install) = &order { Some(install.clone()) } else { None };
        match split(order, adit_openvpn_codec::session) {
            (egress, ingress) if self.delays_orders => {
                self.effects.extend(ingress.map(Effect::Ingress));
                self.effects.extend(egress.map(|order| Effect::Egress(order, install)));
            }
            (egress, ingress) => {
                if let Some(order) = ingress {
                    self.apply_ingress(order);
                }
                if let Some(order) = egress {
                    self.apply_egress(order, install);
                }
            }
        }
    }

    /// The half that opens applies an order.
    pub(crate) fn apply_ingress(&mut self, order: IngressEvent) {
        self.ingress.apply(order);
    }

    /// The half that seals applies an order.
    pub(crate) fn apply_egress(&mut self, order: EgressEvent, install: Option<Box<Install>>) {
        self.egress.apply(order, &mut self.transmit_batch);
        self.effects.extend(install.map(Effect::Installed));
        self.flush();
    }

    /// Splits GSO batches into datagrams.
    fn flush(&mut self) {
        for batch in self.transmit_batch.iter() {
            let path = batch.path;
            if path.transport() == Transport::Udp {
                let datagrams = batch.bytes.chunks(batch.segment.max(1));
                self.effects.extend(datagrams.map(|bytes| Effect::Sealed { path, datagram: bytes.to_vec() }));
                continue;
            }
            let mut rest = batch.bytes;
            while let Some((prefix, tail)) = rest.split_first_chunk() {
                let len = usize::from(u16::from_be_bytes(*prefix)).min(tail.len());
                let (record, tail) = tail.split_at(len);
                self.effects.push(Effect::Sealed { path, datagram: record.to_vec() });
                rest = tail;
            }
        }
        self.transmit_batch.clear();
    }
}

impl Drive for End {
    type Protocol = AnyProtocol;
    type Error = Violation;

    fn protocol(&mut self) -> &mut AnyProtocol {
        self.machine.protocol()
    }

    fn event(&mut self, event: Event) -> Result<(), Violation> {
        self.apply_event(event);
        self.check_outputs()
    }

    fn transmit(&mut self, path: Path, datagram: &[u8]) -> Result<(), Violation> {
        self.effects.push(Effect::Control { path, datagram: datagram.to_vec() });
        self.check_outputs()
    }
}
