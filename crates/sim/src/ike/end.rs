//! A machine and its data plane, driven as the driver drives them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use adit_core::{
    Command, DataEvent, Drive, Event, EventOf, Install, Instant, Notice, Path, PeerId, PeerOrder, Protocol,
    SessionId, drive,
};
use adit_dataplane::{
    Config, Counters, Egress, Ingress, MergePolicy, Offload, ReceiveBatch, TransmitBatch, split,
};
use adit_ike::machine::{Codec, PeerDetail, Reply, Request};
use adit_ike_codec::{EspSocket, IkeSocket, NatTraversalSocket};

use super::settings::{ESP, PLAIN};

/// A machine of IKE: the product's, or one with the habits of another implementation.
pub(crate) type Machine = dyn Protocol<Request = Request, Reply = Reply, Detail = PeerDetail, Codec = Codec>;

/// An effect of an end.
#[derive(Debug)]
pub(crate) enum Effect {
    /// An IKE message, as it is sent.
    Control(Path, Vec<u8>),
    /// A packet of ESP.
    Sealed(Path, Vec<u8>),
    /// A packet for the device, with the SPI and the sequence number in front of the packet of ESP that it came in.
    Packet {
        esp: [u8; 8],
        bytes: Vec<u8>,
    },
    Installed(Box<Install<Codec>>),
    /// The data plane seals the packets of a series with that session.
    Activated(SessionId),
    Retired(SessionId),
    /// The machine removed the peer, with all sessions.
    Removed,
    Up,
    Down(String),
    Report(String),
}

/// A message of a data plane to its protocol.
#[derive(Debug)]
pub(crate) enum Input {
    Notice(Notice),
    Control(Path, Vec<u8>),
}

/// One end.
pub(crate) struct End {
    pub(crate) machine: Box<Machine>,
    egress: Egress,
    ingress: Ingress,
    counters: Counters,
    transmit_batch: TransmitBatch,
    receive_batch: ReceiveBatch,
    /// The bytes of the peer's traffic of which the machine last got notice.
    traffic: BTreeMap<PeerId, (u64, u64)>,
    effects: Vec<Effect>,
    inputs: Vec<Input>,
    /// IKE messages that were refused.
    pub(crate) rejected: u64,
}

impl End {
    pub(crate) fn new(machine: Box<Machine>) -> Self {
        let (egress, mut ingress, counters) = adit_dataplane::new(Config::new(NatTraversalSocket));
        let remote = ([0, 0, 0, 0], 0).into();
        ingress.set_demultiplexer(&Path::Udp { socket: PLAIN, remote }, Arc::new(IkeSocket));
        ingress.set_demultiplexer(&Path::Ip { socket: ESP, protocol: 50, remote }, Arc::new(EspSocket));
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

    pub(crate) fn timeout(&mut self, now: Instant) {
        self.machine.handle_timeout(now);
        self.drain();
    }

    pub(crate) fn command(&mut self, now: Instant, command: Command) {
        self.machine.handle_command(now, command);
        self.drain();
    }

    pub(crate) fn reply(&mut self, now: Instant, reply: Reply) {
        self.machine.handle_reply(now, reply);
        self.drain();
    }

    /// A datagram arrived.
    pub(crate) fn receive(&mut self, path: Path, mut datagram: Vec<u8>) {
        let esp = datagram.first_chunk().copied().unwrap_or_default();
        self.ingress.open_datagrams(path, &mut datagram, 0, &mut self.receive_batch);
        self.deliver(esp, &datagram);
    }

    /// Opens the packets of ESP that came before their child SAs, which have come since.
    fn open_released(&mut self) {
        let mut datagram = Vec::new();
        while self.ingress.open_released(&mut datagram, &mut self.receive_batch) {
            let esp = datagram.first_chunk().copied().unwrap_or_default();
            self.deliver(esp, &datagram);
        }
    }

    /// Hands out what the data plane found in a datagram.
    fn deliver(&mut self, esp: [u8; 8], datagram: &[u8]) {
        for order in self.receive_batch.orders().drain(..) {
            self.egress.apply(order, &mut self.transmit_batch);
        }
        let copy = |range: Range<usize>| datagram.get(range).unwrap_or_default().to_vec();
        for packet in self.receive_batch.packets() {
            let bytes = packet.pieces().flat_map(copy).collect();
            self.effects.push(Effect::Packet { esp, bytes });
        }
        let notices = self.receive_batch.notices().drain(..);
        for notice in notices {
            // The data plane itself seals with a session whose first packet it has opened.
            self.inputs.push(Input::Notice(notice));
        }
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

    fn drain(&mut self) {
        let Ok(()) = drive(self, &mut Vec::new());
        self.flush();
    }

    fn order(&mut self, order: DataEvent<Codec>) {
        match &order {
            DataEvent::Peer(PeerOrder::Add(config)) => drop(self.traffic.entry(config.peer).or_default()),
            DataEvent::Peer(PeerOrder::Remove(peer)) => {
                self.traffic.remove(peer);
                self.effects.push(Effect::Removed);
            }
            DataEvent::Install(install) => self.effects.push(Effect::Installed(install.clone())),
            DataEvent::Activate { session, .. } => self.effects.push(Effect::Activated(*session)),
            DataEvent::Retire { session, .. } => self.effects.push(Effect::Retired(*session)),
            _ => {}
        }
        let (egress, ingress) = split(order, adit_ike_codec::session);
        if let Some(order) = ingress {
            self.ingress.apply(order);
        }
        if let Some(order) = egress {
            self.egress.apply(order, &mut self.transmit_batch);
        }
        self.open_released();
    }

    fn flush(&mut self) {
        for batch in self.transmit_batch.iter() {
            let datagrams = batch.bytes.chunks(batch.segment.max(1));
            self.effects.extend(datagrams.map(|bytes| Effect::Sealed(batch.path, bytes.to_vec())));
        }
        self.transmit_batch.clear();
    }
}

impl Drive for End {
    type Protocol = Machine;
    type Error = Infallible;

    fn protocol(&mut self) -> &mut Machine {
        self.machine.as_mut()
    }

    fn event(&mut self, event: EventOf<Machine>) -> Result<(), Infallible> {
        match event {
            Event::Data(order) => self.order(order),
            Event::PeerUp { .. } => self.effects.push(Effect::Up),
            Event::PeerDown { reason, .. } => self.effects.push(Effect::Down(reason)),
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
