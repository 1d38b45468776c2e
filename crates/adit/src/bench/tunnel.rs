//! A client that seals and a server that opens.

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use adit_core::{
    ConnectionId, DataEvent, Install, IpNet, Ipv4Net, Notice, Path, PeerConfig, PeerId, PeerOrder, SessionId,
    Transport,
};
use adit_dataplane::aead::AeadError;
use adit_dataplane::codec::SessionCodec;
use adit_dataplane::{
    Config, Counters, Egress, EgressEvent, Ingress, MergePolicy, Offload, ReceiveBatch, TransmitBatch, split,
};

use super::packets;
use adit_host::bench::{self, CLIENT, End, Row};

/// The input of the client.
enum Input {
    /// Packets and how many a batch.
    Packets { packet: Vec<u8>, count: usize },
    /// A super-packet a batch, and what it was before it was used up.
    Flow { offload: Offload, packet: Vec<u8>, original: Vec<u8> },
    /// Messages of a protocol, and how many a batch.
    Messages { payload: Vec<u8>, count: usize },
}

/// Both ends, and what is under way between them.
pub(crate) struct Tunnel {
    path: Path,
    input: Input,
    egress: Egress,
    transmit_batch: TransmitBatch,
    /// The datagrams that the server received, and the length of each datagram in them.
    received: Vec<u8>,
    segment: usize,
    ingress: Ingress,
    receive_batch: ReceiveBatch,
    /// The server's.
    counters: Counters,
    batches: u64,
    datagrams: u64,
}

impl Tunnel {
    /// Two ends with a session.
    pub(crate) fn new(row: Row) -> Tunnel {
        let count = row.batch();
        let input = match row.input {
            bench::Input::Packets => Input::Packets { packet: packets::udp(row.bytes), count },
            bench::Input::Flow => {
                let (offload, packet) = packets::tcp(count, row.bytes);
                Input::Flow { offload, original: packet.clone(), packet }
            }
            bench::Input::Messages => Input::Messages { payload: vec![0; row.bytes], count },
        };
        let merge = if row.input == bench::Input::Flow { MergePolicy::TcpAndUdp } else { MergePolicy::Off };
        let path = path(row.transport);
        let [client, server] = [row.client, row.server].map(config);
        let (mut egress, _, _) = adit_dataplane::new(client);
        let (_, mut ingress, counters) = adit_dataplane::new(server);
        let mut transmit_batch = TransmitBatch::new();
        let all = IpNet::V4(Ipv4Net::default());
        for event in session(PeerId::SERVER, row.client.session, path, all, row) {
            if let (Some(event), _) = split(event, make_codec) {
                egress.apply(event, &mut transmit_batch);
            }
        }
        let client = IpNet::V4(packets::CLIENT.into());
        for event in session(CLIENT, row.server.session, path, client, row) {
            if let (_, Some(event)) = split(event, make_codec) {
                ingress.apply(event);
            }
        }
        Tunnel {
            path,
            input,
            egress,
            transmit_batch,
            received: Vec::new(),
            segment: 0,
            ingress,
            receive_batch: ReceiveBatch::new(merge),
            counters,
            batches: 0,
            datagrams: count as u64,
        }
    }

    /// Seals one batch as the driver does, and says how long that took.
    #[inline(never)] // so that a profile shows it
    pub(crate) fn seal(&mut self) -> Duration {
        match &mut self.input {
            Input::Packets { packet, count } => {
                let start = Instant::now();
                self.transmit_batch.clear();
                for _ in 0..*count {
                    self.egress.seal_packet(Offload::NONE, black_box(packet), &mut self.transmit_batch);
                }
                start.elapsed()
            }
            Input::Flow { offload, packet, original } => {
                packet.copy_from_slice(original);
                let start = Instant::now();
                self.transmit_batch.clear();
                self.egress.seal_packet(black_box(*offload), black_box(packet), &mut self.transmit_batch);
                start.elapsed()
            }
            Input::Messages { payload, count } => {
                let orders: Vec<EgressEvent> = (0..*count)
                    .map(|_| EgressEvent::Inject {
                        peer: PeerId::SERVER,
                        session: None,
                        payload: payload.clone(),
                    })
                    .collect();
                let start = Instant::now();
                self.transmit_batch.clear();
                for order in orders {
                    self.egress.apply(order, &mut self.transmit_batch);
                }
                start.elapsed()
            }
        }
    }

    /// Copies what was sealed to where the server receives: the kernel's part.
    pub(crate) fn carry(&mut self) -> Result<(), String> {
        let mut gso_batches = self.transmit_batch.iter();
        let (Some(gso_batch), None) = (gso_batches.next(), gso_batches.next()) else {
            return Err(format!("a batch became {} GSO batches", self.transmit_batch.len()));
        };
        self.received.clear();
        self.received.extend_from_slice(gso_batch.bytes);
        self.segment = gso_batch.segment;
        self.batches += 1;
        Ok(())
    }

    /// Opens the batch as the driver does, and says how long that took.
    #[inline(never)] // so that a profile shows it
    pub(crate) fn open(&mut self) -> Result<Duration, String> {
        let start = Instant::now();
        match self.path.transport() {
            Transport::Udp | Transport::Ip(_) => {
                self.ingress.open_datagrams(
                    self.path,
                    &mut self.received,
                    self.segment,
                    &mut self.receive_batch,
                );
            }
            Transport::Tcp => {
                self.ingress
                    .open_stream(self.path, &mut self.received, &mut self.receive_batch)
                    .map_err(|error| error.to_string())?;
            }
        }
        let bytes: usize =
            self.receive_batch.packets().flat_map(|packet| packet.pieces()).map(|piece| piece.len()).sum();
        let elapsed = start.elapsed();
        let messages: usize = self.receive_batch.notices().drain(..).map(|notice| message_len(&notice)).sum();
        self.check(bytes + messages)?;
        let start = Instant::now();
        self.receive_batch.clear();
        Ok(elapsed + start.elapsed())
    }

    /// A benchmark that drops packets measures nothing.
    fn check(&self, bytes: usize) -> Result<(), String> {
        let expected = match &self.input {
            Input::Packets { packet, count } => packet.len() * count,
            Input::Flow { packet, .. } => packet.len(),
            Input::Messages { payload, count } => payload.len() * count,
        };
        if bytes != expected {
            return Err(format!("{bytes} bytes arrived instead of {expected}"));
        }
        // The registry of peers is locked for a look: not each time.
        if self.batches == 1 {
            let found = self.counters.snapshot().ingress;
            if found.packets != self.datagrams || found.drops.iter().any(|drops| *drops > 0) {
                return Err(format!("{found:?} instead of {} datagrams", self.datagrams));
            }
        }
        Ok(())
    }
}

fn message_len(notice: &Notice) -> usize {
    match notice {
        Notice::Message { payload, .. } => payload.len(),
        _ => 0,
    }
}

/// Documentation addresses (RFC 5737); nothing is ever sent there.
fn path(transport: Transport) -> Path {
    let remote = SocketAddr::from(([192, 0, 2, 1], 1194));
    match transport {
        Transport::Udp => Path::Udp { socket: 0, remote },
        Transport::Tcp => Path::Tcp { connection: ConnectionId(0), remote },
        Transport::Ip(protocol) => Path::Ip { socket: 0, protocol, remote },
    }
}

/// A data plane as the driver makes it.
fn config(end: End) -> Config {
    Config { words: adit_io::checksum::words(), ..Config::of((end.demultiplexer)()) }
}

fn make_codec(install: &Install<Row>) -> Result<SessionCodec, AeadError> {
    (install.codec.codec)(install.codec.cipher)
}

/// Orders that bring up one end.
fn session(peer: PeerId, session: SessionId, path: Path, behind: IpNet, row: Row) -> [DataEvent<Row>; 3] {
    let install = Install::new(peer, session, row);
    [
        DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer,
            path: Some(path),
            routes: vec![behind],
            selectors: Default::default(),
            max_mss: None,
            roams: false,
            staging: false,
            device: Default::default(),
            by_path: true,
            identity: Default::default(),
        })),
        DataEvent::Install(Box::new(install)),
        DataEvent::Activate { peer, session },
    ]
}
