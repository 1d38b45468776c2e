//! Ends of tunnels in memory.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use adit_core::{
    Cipher, ConnectionId, DataEvent, Install, IpNet, Notice, Path, PeerConfig, PeerId, PeerOrder,
    ReplayWindow, SessionId,
};

use crate::codec::testing::{self, Framing, session_id, v2};
use crate::codec::{Demultiplexer, SessionCodec};
use crate::{
    Config, Counters, DropReason, Egress, Ingress, MergePolicy, Offload, Passed, ReceiveBatch, TransmitBatch,
    VNET_HEADER_LEN, install, split,
};

/// A UDP path from that address.
pub(crate) fn udp(last: u8) -> Path {
    Path::Udp { socket: 0, remote: SocketAddr::from(([192, 0, 2, last], 1194)) }
}

/// A TCP path from that address.
pub(crate) fn tcp(last: u8) -> Path {
    Path::Tcp {
        connection: ConnectionId(u32::from(last)),
        remote: SocketAddr::from(([192, 0, 2, last], 1194)),
    }
}

/// What an receive batch held, copied out.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    pub(crate) packets: Vec<Vec<u8>>,
    /// The header in front of each packet.
    pub(crate) headers: Vec<[u8; VNET_HEADER_LEN]>,
    pub(crate) control: Vec<(Path, Vec<u8>)>,
    pub(crate) relay: Vec<Vec<u8>>,
    pub(crate) passed: Vec<Passed>,
    pub(crate) notices: Vec<Notice>,
}

/// One end.
pub(crate) struct End {
    pub(crate) egress: Egress,
    pub(crate) ingress: Ingress,
    pub(crate) counters: Counters,
    pub(crate) transmit_batch: TransmitBatch,
    pub(crate) receive_batch: ReceiveBatch,
}

impl End {
    /// An end with one peer.
    pub(crate) fn client() -> Self {
        End::new(testing::client(), false)
    }

    /// An end with many peers.
    pub(crate) fn server(client_to_client: bool) -> Self {
        End::new(testing::server(), client_to_client)
    }

    pub(crate) fn new(demultiplexer: Arc<dyn Demultiplexer>, client_to_client: bool) -> Self {
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

    pub(crate) fn apply(&mut self, event: DataEvent<Infallible>) {
        let (egress, ingress) = split(event, |install| match install.codec {});
        if let Some(event) = egress {
            self.egress.apply(event, &mut self.transmit_batch);
        }
        if let Some(event) = ingress {
            self.ingress.apply(event);
        }
    }

    pub(crate) fn add_peer(&mut self, peer: PeerId, path: Path, routes: &[&str], max_mss: Option<u16>) {
        let routes = routes.iter().map(|net| net.parse::<IpNet>().expect("a network")).collect();
        self.apply(DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer,
            path: Some(path),
            routes,
            max_mss,
            roams: true,
            staging: false,
            by_path: true,
        })));
    }

    /// Installs and activates. Seals with key `seal`, opens with key `open`.
    pub(crate) fn install(
        &mut self,
        peer: PeerId,
        session: SessionId,
        framing: Framing,
        cipher: Cipher,
        (seal, open): (u8, u8),
    ) {
        if let Some(codec) = testing::session(framing, cipher, (seal, open), ReplayWindow::default()) {
            self.install_codec(peer, session, codec);
        }
        self.apply(DataEvent::Activate { peer, session });
    }

    pub(crate) fn install_codec(&mut self, peer: PeerId, session: SessionId, codec: SessionCodec) {
        self.install_as(Install::new(peer, session, codec));
    }

    pub(crate) fn install_as(&mut self, session: Install<SessionCodec>) {
        let (egress, ingress) = install(session);
        self.egress.apply(egress, &mut self.transmit_batch);
        self.ingress.apply(ingress);
    }

    /// Seals packets and gives the GSO batches' path, segment and bytes.
    pub(crate) fn send(&mut self, offload: Offload, packet: &[u8]) -> Vec<(Path, usize, Vec<u8>)> {
        self.egress.seal_packet(offload, &mut packet.to_vec(), &mut self.transmit_batch);
        self.flush()
    }

    pub(crate) fn flush(&mut self) -> Vec<(Path, usize, Vec<u8>)> {
        let gso_batches = self
            .transmit_batch
            .iter()
            .map(|gso_batch| (gso_batch.path, gso_batch.segment, gso_batch.bytes.to_vec()))
            .collect();
        self.transmit_batch.clear();
        gso_batches
    }

    /// Seals one packet that leaves as one datagram.
    pub(crate) fn send_one(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut gso_batches = self.send(Offload::NONE, packet);
        assert_eq!(gso_batches.len(), 1);
        gso_batches.pop().expect("one").2
    }

    /// Takes in what arrived from `path`.
    pub(crate) fn receive(&mut self, path: Path, bytes: &[u8], segment: usize) -> Arrived {
        let mut buffer = bytes.to_vec();
        match path {
            Path::Udp { .. } => {
                self.ingress.open_datagrams(path, &mut buffer, segment, &mut self.receive_batch)
            }
            Path::Tcp { .. } => {
                let used = self.ingress.open_stream(path, &mut buffer, &mut self.receive_batch);
                assert_eq!(used, Ok(bytes.len()));
            }
        }
        let receive_batch = &mut self.receive_batch;
        for order in receive_batch.orders().drain(..) {
            self.egress.apply(order, &mut self.transmit_batch);
        }
        let copy = |range: &std::ops::Range<usize>| buffer[range.clone()].to_vec();
        let arrived = Arrived {
            headers: receive_batch.packets().map(|packet| *packet.header()).collect(),
            packets: receive_batch
                .packets()
                .map(|packet| packet.slices(&buffer).flatten().copied().collect())
                .collect(),
            control: receive_batch.control().iter().map(|(path, range)| (*path, copy(range))).collect(),
            relay: receive_batch
                .relay()
                .iter()
                .map(|range| receive_batch.slice(&buffer, range).expect("a range of it").to_vec())
                .collect(),
            passed: receive_batch.passed().to_vec(),
            notices: receive_batch.notices().clone(),
        };
        receive_batch.clear();
        arrived
    }

    pub(crate) fn dropped_in(&self, reason: DropReason) -> u64 {
        self.counters.snapshot().ingress.dropped(reason)
    }

    pub(crate) fn dropped_out(&self, reason: DropReason) -> u64 {
        self.counters.snapshot().egress.dropped(reason)
    }
}

/// The address behind which client number `n` is, in both families.
pub(crate) fn inner(n: u8) -> [String; 2] {
    [format!("10.0.0.{n}/32"), format!("fd00::{n:x}/128")]
}

/// A client that reaches its server by `path`, and which names itself `n` there.
pub(crate) fn client(n: u8, path: Path, cipher: Cipher) -> End {
    let mut end = End::client();
    end.add_peer(PeerId::SERVER, path, &["0.0.0.0/0", "::/0"], None);
    end.install(PeerId::SERVER, session_id(PeerId::SERVER, 0), v2(n.into(), 0), cipher, (n, n | 0x80));
    end
}

/// Adds that client to a server. Its inner address is 10.0.0.n.
pub(crate) fn admit(server: &mut End, n: u8, path: Path, cipher: Cipher) {
    let routes = inner(n);
    let peer = PeerId(n.into());
    server.add_peer(peer, path, &[&routes[0], &routes[1]], None);
    server.install(peer, session_id(peer, 0), v2(n.into(), 0), cipher, (n | 0x80, n));
}

/// A server with clients 1 and 2, which come by `udp(1)` and `udp(2)`.
pub(crate) fn three(client_to_client: bool) -> (End, End, End) {
    let cipher = Cipher::Aes256Gcm;
    let mut server = End::server(client_to_client);
    admit(&mut server, 1, udp(1), cipher);
    admit(&mut server, 2, udp(2), cipher);
    (server, client(1, udp(9), cipher), client(2, udp(9), cipher))
}
