//! How much of the throughput of sessions without selectors those with selectors reach. A plane seals super-packets or
//! single packets, of eight flows in turn, and opens its own datagrams. Prints nanoseconds for a packet without selectors, and for each way of
//! selecting the median of the ratios of rounds in which all take turns; 1 is as fast, less is slower. Fails below
//! 0.97: `cargo run --release -p adit-io --example selectors`.
#![allow(clippy::print_stdout)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use adit_core::{
    DataEvent, Install, IpNet, Ipv4Net, Path, PeerConfig, PeerId, PeerOrder, Selector, SessionId,
};
use adit_dataplane::{
    Config, Egress, Ingress, MergePolicy, Offload, ReceiveBatch, Segmentation, TransmitBatch, split,
};
use adit_toy::Codec;
use adit_toy_codec::{DataSocket, session_with};

const PEER: PeerId = PeerId(1);
const PATH: Path = Path::Udp { socket: 0, remote: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9) };
const ROUNDS: usize = 201;
/// Payload bytes of a packet.
const SIZE: usize = 1360;
const HEADERS: usize = 40;
/// Packets in a super-packet, or one after the other.
const COUNT: usize = 40;
/// Super-packets, or rows of packets, in a turn.
const TURN: usize = 20;
/// Flows that take turns, packet by packet.
const FLOWS: u8 = 8;
const LEAST: f64 = 0.97;

fn main() -> ExitCode {
    let mut planes: Vec<(&str, Plane)> = ways().into_iter().map(|way| (way.name, Plane::new(&way))).collect();
    let mut good = true;
    for (form, offload, packet) in
        [("super-packets", offload(), packet(COUNT * SIZE)), ("packets", Offload::NONE, packet(SIZE))]
    {
        let mut rows = vec![Vec::new(); planes.len()];
        for _ in 0..ROUNDS {
            let took: Vec<[f64; 2]> =
                planes.iter_mut().map(|(_, plane)| plane.turn(offload, &packet)).collect();
            for (row, each) in rows.iter_mut().zip(&took) {
                row.push([0, 1].map(|at| (each[at], took[0][at] / each[at])));
            }
        }
        for ((name, _), row) in planes.iter().zip(rows) {
            let median = |at: usize, value: fn(&(f64, f64)) -> f64| {
                let mut all: Vec<f64> = row.iter().map(|turn| value(&turn[at])).collect();
                all.sort_by(f64::total_cmp);
                all[all.len() / 2]
            };
            let [seal, open] = [0, 1].map(|at| (median(at, |turn| turn.0), median(at, |turn| turn.1)));
            println!(
                "{form:13} {name:45} seal {:6.1} ns {:5.3}  open {:6.1} ns {:5.3}",
                seal.0, seal.1, open.0, open.1
            );
            good &= seal.1 >= LEAST && open.1 >= LEAST;
        }
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A way to choose the session of a packet.
struct Way {
    name: &'static str,
    /// The selectors of each series; none: the session carries all.
    series: Vec<Vec<Selector>>,
    /// The peer has them, too.
    of_peer: bool,
}

fn ways() -> [Way; 4] {
    let to = |remote_port: u16| Selector {
        protocol: Some(6),
        remote_ports: remote_port..=remote_port,
        ..Selector::between(network(), network())
    };
    let way = |name, series, of_peer| Way { name, series, of_peer };
    [
        way("without selectors", vec![Vec::new()], false),
        way("one session, one selector", vec![vec![to(80)]], false),
        way(
            "two sessions, the last of eight selectors",
            vec![(1..5).map(to).collect(), [5, 6, 7, 80].map(to).to_vec()],
            false,
        ),
        way(
            "the same, and the peer has them",
            vec![(1..5).map(to).collect(), [5, 6, 7, 80].map(to).to_vec()],
            true,
        ),
    ]
}

fn network() -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8))
}

struct Plane {
    egress: Egress,
    ingress: Ingress,
    transmit_batch: TransmitBatch,
    receive_batch: ReceiveBatch,
    packet: Vec<u8>,
    received: Vec<u8>,
    flow: u8,
}

impl Plane {
    fn new(way: &Way) -> Self {
        let config = Config { words: adit_io::checksum::words(), ..Config::new(DataSocket) };
        let (egress, ingress, _) = adit_dataplane::new(config);
        let mut plane = Plane {
            egress,
            ingress,
            transmit_batch: TransmitBatch::new(),
            receive_batch: ReceiveBatch::new(MergePolicy::TcpAndUdp),
            packet: Vec::new(),
            received: Vec::new(),
            flow: 0,
        };
        let selectors = if way.of_peer { way.series.concat() } else { Vec::new() };
        plane.apply(DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer: PEER,
            path: Some(PATH),
            routes: vec![network()],
            selectors: selectors.into(),
            max_mss: None,
            roams: false,
            staging: false,
            device: Default::default(),
            by_path: true,
            identity: Default::default(),
        })));
        for (series, selectors) in (0..).zip(&way.series) {
            let session = SessionId(0x8000_0001 + u64::from(series) * 0x100);
            let codec = Codec {
                remote_index: session.0 as u32,
                seal_key: [7; 32].into(),
                open_key: [7; 32].into(),
                first_counter: 1,
                rekey_after_datagrams: u64::MAX / 2,
                selectors: Arc::from(&selectors[..]),
                expires: adit_core::Instant::from_nanos(u64::MAX),
            };
            let install = Install { series, ..Install::new(PEER, session, codec) };
            plane.apply(DataEvent::Install(Box::new(install)));
            plane.apply(DataEvent::Activate { peer: PEER, session });
        }
        plane
    }

    fn apply(&mut self, event: DataEvent<Codec>) {
        let (egress, ingress) = split(event, |install| session_with(adit_io::aead::provider, install));
        egress.into_iter().for_each(|event| self.egress.apply(event, &mut self.transmit_batch));
        ingress.into_iter().for_each(|event| self.ingress.apply(event));
    }

    /// Nanoseconds to seal, and to open, a packet.
    fn turn(&mut self, offload: Offload, packet: &[u8]) -> [f64; 2] {
        let mut nanoseconds = [0.0; 2];
        let calls = if offload == Offload::NONE { COUNT } else { 1 };
        for _ in 0..TURN {
            self.packet.clear();
            self.packet.extend_from_slice(packet);
            let start = Instant::now();
            for _ in 0..calls {
                // The host of either end, of which there are as many as flows.
                self.flow = (self.flow + 1) % FLOWS;
                (self.packet[15], self.packet[19]) = (self.flow, self.flow);
                self.egress.seal_packet(offload, &mut self.packet, &mut self.transmit_batch);
            }
            nanoseconds[0] += start.elapsed().as_nanos() as f64;
            nanoseconds[1] += self.open();
        }
        nanoseconds.map(|all| all / (TURN * COUNT) as f64)
    }

    /// Opens the sealed datagrams, and gives the time that it took.
    fn open(&mut self) -> f64 {
        let (mut nanoseconds, mut bytes) = (0.0, 0);
        for batch in self.transmit_batch.iter() {
            self.received.clear();
            self.received.extend_from_slice(batch.bytes);
            let start = Instant::now();
            self.ingress.open_datagrams(PATH, &mut self.received, batch.segment, &mut self.receive_batch);
            let pieces = self.receive_batch.packets().flat_map(|packet| packet.pieces());
            bytes += pieces.map(|piece| piece.len()).sum::<usize>();
            nanoseconds += start.elapsed().as_nanos() as f64;
            self.receive_batch.notices().clear();
            self.receive_batch.orders().clear();
            self.receive_batch.clear();
        }
        assert!(bytes > COUNT * SIZE, "{bytes} bytes came out: packets were dropped");
        self.transmit_batch.clear();
        nanoseconds
    }
}

fn offload() -> Offload {
    Offload {
        needs_checksum: true,
        segmentation: Segmentation::TcpV4,
        header_len: HEADERS as u16,
        segment_size: SIZE as u16,
        checksum_start: 20,
        checksum_offset: 16,
        ..Offload::NONE
    }
}

/// TCP from port 80 of a host of 10.0.0.0/24 to port 80 of another one: both are the same peer's.
fn packet(payload: usize) -> Vec<u8> {
    let mut packet = vec![0; HEADERS + payload];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&((HEADERS + payload) as u16).to_be_bytes());
    (packet[6], packet[8], packet[9]) = (0x40, 64, 6);
    packet[12..20].copy_from_slice(&[10, 0, 0, 0, 10, 0, 1, 0]);
    // The session that seals a packet also opens it, and there the ports are the other way around.
    packet[20..24].copy_from_slice(&[0, 80, 0, 80]);
    (packet[32], packet[33]) = (5 << 4, 0x10);
    packet
}
