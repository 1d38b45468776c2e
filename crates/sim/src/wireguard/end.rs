//! A machine and its data plane, driven as the driver drives them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Range;

use adit_core::{
    Command, DataEvent, Drive, Event, EventOf, Install, Instant, Notice, Path, PeerId, PeerOrder, Protocol,
    SessionId, Transport, drive,
};
use adit_dataplane::{
    Config, Counters, Egress, EgressEvent, Ingress, IngressEvent, MergePolicy, Offload, ReceiveBatch,
    TransmitBatch, split,
};
use adit_wireguard::{Codec, Interface, Reply, Request};

/// An effect of an end.
#[derive(Debug)]
pub(crate) enum Effect {
    /// A handshake message.
    Control(Path, Vec<u8>),
    /// Sealed data: a datagram, or whole records for a connection.
    Sealed(Path, Vec<u8>),
    /// A packet for the device.
    Packet(Vec<u8>),
    /// The machine made a session.
    Installed(Box<Install<Codec>>),
    /// The machine seals with that session from now on.
    Activated(PeerId, SessionId),
    /// The machine seals packets with no session from now on.
    Deactivated(PeerId),
    /// The machine ended a session.
    Retired(PeerId, SessionId),
    /// The machine removed a peer.
    Removed(PeerId),
    /// An order for half of the data plane, to be given to [`End::apply`].
    Order(Order),
    /// The machine wants a connection to that remote.
    Open(usize),
    /// The machine has closed a connection.
    Close(Path),
    /// A request of the adapter.
    Request(Request),
    /// A peer has finished its first handshake.
    Up,
    /// A line of the log.
    Report(String),
}

/// An order to one half of a data plane.
#[derive(Debug)]
pub(crate) enum Order {
    Egress(EgressEvent),
    Ingress(IngressEvent),
}

/// A message of a data plane to its protocol.
#[derive(Debug)]
pub(crate) enum Input {
    Notice(Notice),
    Control(Path, Vec<u8>),
}

/// One end.
pub(crate) struct End {
    pub(crate) machine: Interface,
    egress: Egress,
    ingress: Ingress,
    counters: Counters,
    transmit_batch: TransmitBatch,
    receive_batch: ReceiveBatch,
    /// Peers in the data plane, and the bytes of which the machine last got notice.
    traffic: BTreeMap<PeerId, (u64, u64)>,
    effects: Vec<Effect>,
    inputs: Vec<Input>,
    /// Handshake messages that were refused.
    pub(crate) rejected: u64,
}

impl End {
    /// An end whose machine was just made.
    pub(crate) fn new(machine: Interface) -> Self {
        let (egress, ingress, counters) = adit_dataplane::new(Config::new(adit_wireguard_codec::Sockets));
        let mut end = End {
            machine,
            egress,
            ingress,
            counters,
            transmit_batch: TransmitBatch::new(),
            receive_batch: ReceiveBatch::new(MergePolicy::Off),
            traffic: BTreeMap::new(),
            effects: Vec::new(),
            inputs: Vec::new(),
            rejected: 0,
        };
        end.drain();
        end
    }

    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn take_inputs(&mut self) -> Vec<Input> {
        std::mem::take(&mut self.inputs)
    }

    /// Time has come to this; before anything else of that time.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.ingress.tick(now);
        self.egress.tick(now);
    }

    /// The machine's timer is due.
    pub(crate) fn timeout(&mut self, now: Instant) {
        self.machine.handle_timeout(now);
        self.drain();
    }

    /// An order from outside.
    pub(crate) fn command(&mut self, now: Instant, command: Command) {
        self.machine.handle_command(now, command);
        self.drain();
    }

    /// Takes the adapter's reply.
    pub(crate) fn reply(&mut self, now: Instant, reply: Reply) {
        self.machine.handle_reply(now, reply);
        self.drain();
    }

    /// A datagram arrived, or whole records by a connection.
    pub(crate) fn receive(&mut self, path: Path, mut datagram: Vec<u8>) {
        match path.transport() {
            Transport::Udp | Transport::Ip(_) => {
                self.ingress.open_datagrams(path, &mut datagram, 0, &mut self.receive_batch)
            }
            Transport::Tcp => {
                // Bytes that make no sense are not delivered.
                let _ = self.ingress.open_stream(path, &mut datagram, &mut self.receive_batch);
            }
        }
        for order in self.receive_batch.orders().drain(..) {
            self.egress.apply(order, &mut self.transmit_batch);
        }
        let copy = |range: Range<usize>| datagram.get(range).unwrap_or_default().to_vec();
        for packet in self.receive_batch.packets() {
            self.effects.push(Effect::Packet(packet.pieces().flat_map(copy).collect()));
        }
        self.inputs.extend(self.receive_batch.notices().drain(..).map(Input::Notice));
        let control = self.receive_batch.control().iter();
        self.inputs.extend(control.map(|(path, range)| Input::Control(*path, copy(range.clone()))));
        self.receive_batch.clear();
        self.flush();
    }

    /// A packet came from the device.
    pub(crate) fn send(&mut self, mut packet: Vec<u8>) {
        self.egress.seal_packet(Offload::NONE, &mut packet, &mut self.transmit_batch);
        self.flush();
        self.inputs.extend(self.egress.take_notices().into_iter().map(Input::Notice));
    }

    /// The protocol handles an input.
    pub(crate) fn input(&mut self, now: Instant, input: Input) {
        match input {
            Input::Notice(notice) => self.machine.handle_notice(now, notice),
            Input::Control(path, message) => {
                let taken = self.machine.handle_datagram(now, path, &message);
                self.rejected += u64::from(taken.is_err());
            }
        }
        self.drain();
    }

    /// A second passed: the machine gets the totals of traffic.
    pub(crate) fn second(&mut self, now: Instant) {
        for peer in self.traffic.keys().copied().collect::<Vec<_>>() {
            let Some(bytes) = self.counters.traffic_bytes(peer) else { continue };
            if self.traffic.insert(peer, bytes) == Some(bytes) {
                continue;
            }
            let (received, sent) = self.counters.traffic(peer).unwrap_or_default();
            let (received_bytes, sent_bytes) = bytes;
            let message_bytes = self.counters.message_bytes(peer).unwrap_or_default();
            let activity = self.counters.activity(peer).unwrap_or_default();
            let notice =
                Notice::Traffic { peer, received, sent, received_bytes, sent_bytes, message_bytes, activity };
            self.machine.handle_notice(now, notice);
            self.drain();
        }
    }

    /// Half of the data plane applies an order.
    pub(crate) fn apply(&mut self, order: Order) {
        match order {
            Order::Egress(order) => self.egress.apply(order, &mut self.transmit_batch),
            Order::Ingress(order) => self.ingress.apply(order),
        }
        self.flush();
    }

    /// Where the machine believes a peer to be, once it has finished a handshake with it.
    pub(crate) fn path(&self, peer: PeerId) -> Option<Path> {
        let peers = self.machine.peers();
        peers.into_iter().find_map(|(id, info)| (id == peer).then_some(info.path))
    }

    fn drain(&mut self) {
        let Ok(()) = drive(self, &mut Vec::new());
    }

    fn order(&mut self, order: DataEvent<Codec>) {
        match &order {
            DataEvent::Peer(PeerOrder::Add(config)) => drop(self.traffic.entry(config.peer).or_default()),
            DataEvent::Peer(PeerOrder::Remove(peer)) => {
                self.traffic.remove(peer);
                self.effects.push(Effect::Removed(*peer));
            }
            DataEvent::Install(install) => self.effects.push(Effect::Installed(install.clone())),
            DataEvent::Activate { peer, session } => self.effects.push(Effect::Activated(*peer, *session)),
            DataEvent::Deactivate(peer) => self.effects.push(Effect::Deactivated(*peer)),
            DataEvent::Retire { peer, session } => self.effects.push(Effect::Retired(*peer, *session)),
            _ => {}
        }
        let (egress, ingress) = split(order, adit_wireguard_codec::session);
        // The order to seal with new keys comes after the order to open with them.
        self.effects.extend(ingress.map(|order| Effect::Order(Order::Ingress(order))));
        self.effects.extend(egress.map(|order| Effect::Order(Order::Egress(order))));
    }

    fn flush(&mut self) {
        for batch in self.transmit_batch.iter() {
            let size = match batch.path.transport() {
                Transport::Udp | Transport::Ip(_) => batch.segment,
                Transport::Tcp => batch.bytes.len(),
            };
            let datagrams = batch.bytes.chunks(size.max(1));
            self.effects.extend(datagrams.map(|bytes| Effect::Sealed(batch.path, bytes.to_vec())));
        }
        self.transmit_batch.clear();
    }
}

impl Drive for End {
    type Protocol = Interface;
    type Error = Infallible;

    fn protocol(&mut self) -> &mut Interface {
        &mut self.machine
    }

    fn event(&mut self, event: EventOf<Interface>) -> Result<(), Infallible> {
        match event {
            Event::Data(order) => self.order(order),
            Event::Request(request) => self.effects.push(Effect::Request(request)),
            Event::Open { remote } => self.effects.push(Effect::Open(remote)),
            Event::Close { path } => self.effects.push(Effect::Close(path)),
            Event::PeerUp { .. } => self.effects.push(Effect::Up),
            Event::Report(report) => self.effects.push(Effect::Report(report.text)),
            _ => {}
        }
        Ok(())
    }

    fn transmit(&mut self, path: Path, datagram: &[u8]) -> Result<(), Infallible> {
        self.effects.push(Effect::Control(path, datagram.to_vec()));
        Ok(())
    }
}
