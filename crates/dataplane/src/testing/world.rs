//! Ends of tunnels in memory.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use adit_core::{
    ConnectionId, DataEvent, Install, IpNet, Notice, Path, PeerConfig, PeerId, PeerOrder, SessionId,
};

use crate::codec::{Demultiplexer, SessionCodec};
use crate::{
    Config, Counters, DropReason, Egress, Ingress, MergePolicy, Offload, Passed, ReceiveBatch, TransmitBatch,
    VNET_HEADER_LEN, install, split,
};

/// A UDP path from that address.
pub fn udp(last: u8) -> Path {
    Path::Udp { socket: 0, remote: SocketAddr::from(([192, 0, 2, last], 1194)) }
}

/// A TCP path from that address.
pub fn tcp(last: u8) -> Path {
    Path::Tcp {
        connection: ConnectionId(u32::from(last)),
        remote: SocketAddr::from(([192, 0, 2, last], 1194)),
    }
}

/// The content of a receive batch, copied out.
#[derive(Debug, Default)]
pub struct Arrived {
    /// Packets for the device.
    pub packets: Vec<Vec<u8>>,
    /// The header in front of each packet.
    pub headers: Vec<[u8; VNET_HEADER_LEN]>,
    /// Datagrams for the protocol.
    pub control: Vec<(Path, Vec<u8>)>,
    /// Packets for other peers.
    pub relay: Vec<Vec<u8>>,
    /// Packets and datagrams of other workers' peers.
    pub passed: Vec<Passed>,
    /// Notices to the protocol.
    pub notices: Vec<Notice>,
}

/// One end of a tunnel: a data plane and its batches.
pub struct End {
    /// The half that seals.
    pub egress: Egress,
    /// The half that opens.
    pub ingress: Ingress,
    /// The counters of both halves.
    pub counters: Counters,
    /// Sealed datagrams that were not taken yet.
    pub transmit_batch: TransmitBatch,
    /// Reused by each [`End::receive`].
    pub receive_batch: ReceiveBatch,
}

impl End {
    /// An end without peers, all of whose sockets have that demultiplexer.
    pub fn new(demultiplexer: Arc<dyn Demultiplexer>, client_to_client: bool) -> Self {
        let (egress, ingress, counters) =
            crate::new(Config { client_to_client, ..Config::of(demultiplexer) });
        End {
            egress,
            ingress,
            counters,
            transmit_batch: TransmitBatch::new(),
            receive_batch: ReceiveBatch::new(MergePolicy::Off),
        }
    }

    /// Applies a protocol's order that is no session.
    pub fn apply(&mut self, event: DataEvent<Infallible>) {
        let (egress, ingress) = split(event, |install| match install.codec {});
        if let Some(event) = egress {
            self.egress.apply(event, &mut self.transmit_batch);
        }
        if let Some(event) = ingress {
            self.ingress.apply(event);
        }
    }

    /// Adds a peer that may roam.
    ///
    /// # Panics
    /// A route is no network.
    pub fn add_peer(&mut self, peer: PeerId, path: Path, routes: &[&str], max_mss: Option<u16>) {
        let routes = routes.iter().map(|net| net.parse::<IpNet>().expect("a network")).collect();
        self.apply(DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer,
            path: Some(path),
            routes,
            selectors: Default::default(),
            max_mss,
            roams: true,
            staging: false,
            device: Default::default(),
            by_path: true,
            identity: Default::default(),
        })));
    }

    /// Installs a session that does not seal yet.
    pub fn install_codec(&mut self, peer: PeerId, session: SessionId, codec: SessionCodec) {
        self.install_as(Install::new(peer, session, codec));
    }

    /// Installs a session.
    pub fn install_as(&mut self, session: Install<SessionCodec>) {
        let (egress, ingress) = install(session);
        self.egress.apply(egress, &mut self.transmit_batch);
        self.ingress.apply(ingress);
    }

    /// Seals a packet or super-packet and takes the GSO batches: path, segment and bytes of each.
    pub fn send(&mut self, offload: Offload, packet: &[u8]) -> Vec<(Path, usize, Vec<u8>)> {
        self.egress.seal_packet(offload, &mut packet.to_vec(), &mut self.transmit_batch);
        self.flush()
    }

    /// Takes the GSO batches that were sealed so far: path, segment and bytes of each.
    pub fn flush(&mut self) -> Vec<(Path, usize, Vec<u8>)> {
        let gso_batches = self
            .transmit_batch
            .iter()
            .map(|gso_batch| (gso_batch.path, gso_batch.segment, gso_batch.bytes.to_vec()))
            .collect();
        self.transmit_batch.clear();
        gso_batches
    }

    /// Seals one packet that leaves as one datagram.
    ///
    /// # Panics
    /// It does not.
    pub fn send_one(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut gso_batches = self.send(Offload::NONE, packet);
        assert_eq!(gso_batches.len(), 1);
        gso_batches.pop().expect("one").2
    }

    /// Takes in datagrams that arrived from `path`, and follows their orders.
    ///
    /// # Panics
    /// The bytes are of a stream, and do not end with a whole record.
    pub fn receive(&mut self, path: Path, bytes: &[u8], segment: usize) -> Arrived {
        let mut buffer = bytes.to_vec();
        match path {
            Path::Udp { .. } | Path::Ip { .. } => {
                self.ingress.open_datagrams(path, &mut buffer, segment, &mut self.receive_batch)
            }
            Path::Tcp { .. } => {
                let used = self.ingress.open_stream(path, &mut buffer, &mut self.receive_batch);
                assert_eq!(used, Ok(bytes.len()));
            }
        }
        self.take_arrived(&buffer)
    }

    /// Takes in the datagrams that came before their sessions, which have come since. Gives the content of each.
    pub fn receive_released(&mut self) -> Vec<Arrived> {
        let (mut all, mut buffer) = (Vec::new(), Vec::new());
        while self.ingress.open_released(&mut buffer, &mut self.receive_batch) {
            all.push(self.take_arrived(&buffer));
        }
        all
    }

    fn take_arrived(&mut self, buffer: &[u8]) -> Arrived {
        let receive_batch = &mut self.receive_batch;
        for order in receive_batch.orders().drain(..) {
            self.egress.apply(order, &mut self.transmit_batch);
        }
        let copy = |range: &std::ops::Range<usize>| buffer[range.clone()].to_vec();
        let arrived = Arrived {
            headers: receive_batch.packets().map(|packet| *packet.header()).collect(),
            packets: receive_batch
                .packets()
                .map(|packet| packet.slices(buffer).flatten().copied().collect())
                .collect(),
            control: receive_batch.control().iter().map(|(path, range)| (*path, copy(range))).collect(),
            relay: receive_batch
                .relay()
                .iter()
                .map(|range| receive_batch.slice(buffer, range).expect("a range of it").to_vec())
                .collect(),
            passed: receive_batch.passed().to_vec(),
            notices: receive_batch.notices().clone(),
        };
        receive_batch.clear();
        arrived
    }

    /// Received datagrams and packets that were dropped for that reason.
    pub fn dropped_in(&self, reason: DropReason) -> u64 {
        self.counters.snapshot().ingress.dropped(reason)
    }

    /// Packets to be sent that were dropped for that reason.
    pub fn dropped_out(&self, reason: DropReason) -> u64 {
        self.counters.snapshot().egress.dropped(reason)
    }
}

/// The addresses behind which client number `n` is, in both families.
pub fn inner(n: u8) -> [String; 2] {
    [format!("10.0.0.{n}/32"), format!("fd00::{n:x}/128")]
}
