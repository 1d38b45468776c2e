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
    Config, Counters, Egress, EgressEvent, Ingress, MergePolicy, Offload, ReceiveBatch, TransmitBatch, split,
};
use adit_toy::{Codec, Endpoint};
use adit_toy_codec::{ControlSocket, DataSocket, session};

/// An effect of an end.
#[derive(Debug)]
pub(crate) enum Effect {
    /// A control message.
    Control(Path, Vec<u8>),
    /// Sealed data.
    Sealed(Path, Vec<u8>),
    /// A packet for the device, and the session that opened it.
    Packet(SessionId, Vec<u8>),
    /// A session that the data plane got.
    Installed(Box<Install<Codec>>),
    /// The data plane is ordered to seal with a session.
    Activated(SessionId),
    /// A session opened its first packet.
    FirstOpened(SessionId),
    /// The data plane is ordered to forget a session.
    Retired(SessionId),
    Open(usize),
}

pub(crate) struct End {
    machine: Endpoint,
    egress: Egress,
    ingress: Ingress,
    pub(crate) counters: Counters,
    transmit_batch: TransmitBatch,
    receive_batch: ReceiveBatch,
    /// The traffic of which the machine last got notice.
    traffic: BTreeMap<PeerId, (u64, u64)>,
    effects: Vec<Effect>,
}

impl End {
    /// `control`: the socket that takes control messages alone, if there is one already.
    pub(crate) fn new(machine: Endpoint, control: Option<Path>) -> Self {
        let (egress, ingress, counters) = adit_dataplane::new(Config::new(DataSocket));
        let (transmit_batch, receive_batch) = (TransmitBatch::new(), ReceiveBatch::new(MergePolicy::Off));
        let (traffic, effects) = (BTreeMap::new(), Vec::new());
        let mut end =
            End { machine, egress, ingress, counters, transmit_batch, receive_batch, traffic, effects };
        if let Some(path) = control {
            end.is_control(&path);
        }
        end.drain();
        end
    }

    /// From now on that path's socket takes control messages alone.
    fn is_control(&mut self, path: &Path) {
        self.ingress.set_demultiplexer(path, Arc::new(ControlSocket));
    }

    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.machine.poll_timeout()
    }

    fn tick(&mut self, now: Instant) {
        self.ingress.tick(now);
        self.egress.tick(now);
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.tick(now);
        self.machine.handle_timeout(now);
        self.drain();
    }

    /// A remote is open.
    pub(crate) fn opened(&mut self, now: Instant, path: Path, control: bool) {
        if control {
            self.is_control(&path);
        }
        self.machine.handle_command(now, Command::Opened { path });
        self.drain();
    }

    /// A datagram arrived.
    pub(crate) fn receive(&mut self, now: Instant, path: Path, mut datagram: Vec<u8>) {
        self.tick(now);
        self.ingress.open_datagrams(path, &mut datagram, 0, &mut self.receive_batch);
        for order in self.receive_batch.orders().drain(..) {
            if let EgressEvent::FirstOpened { session, .. } = order {
                self.effects.push(Effect::FirstOpened(session));
            }
            self.egress.apply(order, &mut self.transmit_batch);
        }
        let session = datagram.first_chunk().map_or(0, |index| u32::from_be_bytes(*index));
        let session = SessionId(session.into());
        let copy = |range: Range<usize>| datagram[range].to_vec();
        for packet in self.receive_batch.packets() {
            self.effects.push(Effect::Packet(session, packet.pieces().flat_map(copy).collect()));
        }
        let control: Vec<(Path, Vec<u8>)> =
            self.receive_batch.control().iter().map(|(path, range)| (*path, copy(range.clone()))).collect();
        let notices: Vec<Notice> = self.receive_batch.notices().drain(..).collect();
        self.receive_batch.clear();
        self.flush();
        self.notice(now, notices);
        for (path, message) in control {
            // The error of a message is for the log.
            let _ = self.machine.handle_datagram(now, path, &message);
            self.drain();
        }
    }

    /// A packet came from the device.
    pub(crate) fn send(&mut self, now: Instant, packet: &[u8]) {
        self.tick(now);
        self.egress.seal_packet(Offload::NONE, &mut packet.to_vec(), &mut self.transmit_batch);
        self.flush();
        let notices = self.egress.take_notices();
        self.notice(now, notices);
    }

    /// A second passed.
    pub(crate) fn second(&mut self, now: Instant) {
        self.tick(now);
        for peer in self.traffic.keys().copied().collect::<Vec<_>>() {
            let Some((received, sent)) = self.counters.traffic(peer) else { continue };
            if self.traffic.insert(peer, (received, sent)) == Some((received, sent)) {
                continue;
            }
            let (received_bytes, sent_bytes) = self.counters.traffic_bytes(peer).unwrap();
            let message_bytes = self.counters.message_bytes(peer).unwrap();
            let activity = self.counters.activity(peer).unwrap();
            self.notice(
                now,
                vec![Notice::Traffic {
                    peer,
                    received,
                    sent,
                    received_bytes,
                    sent_bytes,
                    message_bytes,
                    activity,
                }],
            );
        }
    }

    fn notice(&mut self, now: Instant, notices: Vec<Notice>) {
        for notice in notices {
            self.machine.handle_notice(now, notice);
            self.drain();
        }
    }

    fn drain(&mut self) {
        let Ok(()) = drive(self, &mut Vec::new());
    }

    fn apply(&mut self, order: DataEvent<Codec>) {
        match &order {
            DataEvent::Peer(PeerOrder::Add(config)) => drop(self.traffic.entry(config.peer).or_default()),
            DataEvent::Install(install) => self.effects.push(Effect::Installed(install.clone())),
            DataEvent::Activate { session, .. } => self.effects.push(Effect::Activated(*session)),
            DataEvent::Retire { session, .. } => self.effects.push(Effect::Retired(*session)),
            _ => {}
        }
        let (egress, ingress) = split(order, session);
        ingress.into_iter().for_each(|order| self.ingress.apply(order));
        egress.into_iter().for_each(|order| self.egress.apply(order, &mut self.transmit_batch));
        self.flush();
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
    type Protocol = Endpoint;
    type Error = Infallible;

    fn protocol(&mut self) -> &mut Endpoint {
        &mut self.machine
    }

    fn event(&mut self, event: EventOf<Endpoint>) -> Result<(), Infallible> {
        match event {
            Event::Data(order) => self.apply(order),
            Event::Open { remote } => self.effects.push(Effect::Open(remote)),
            Event::Ended(ended) => panic!("{ended:?}"),
            _ => {}
        }
        Ok(())
    }

    fn transmit(&mut self, path: Path, datagram: &[u8]) -> Result<(), Infallible> {
        self.effects.push(Effect::Control(path, datagram.to_vec()));
        Ok(())
    }
}
