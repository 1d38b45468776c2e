//! How long the data plane takes for many peers with sessions of WireGuard's, while a flow passes through it:
//! `cargo run --release -p adit-wireguard-codec --example many_peers [PEERS] [SESSIONS]`.
//!
//! After every 100 orders a packet of the flow is sealed and opened, which is not timed. Two steps have limits, meant for
//! 100,000 peers and 10,000 sessions, which are the defaults. The exit status is 1 if one is exceeded, or if a packet was
//! lost.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark reads the clock and prints"
)]

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use adit_core::{DataEvent, Install, IpNet, Path, PeerConfig, PeerId, PeerOrder, SessionId};
use adit_dataplane::aead::aws_lc;
use adit_dataplane::codec::SessionCodec;
use adit_dataplane::{
    Config, Egress, Ingress, MergePolicy, Offload, ReceiveBatch, TransmitBatch, install, split,
};
use adit_wireguard::Codec;
use adit_wireguard_codec::{Sockets, session_with};

/// The peer whose flow passes meanwhile.
const FLOW: u32 = u32::MAX;
/// Orders between two packets of the flow.
const BETWEEN: usize = 100;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u32>());
    let peers = arguments.next().and_then(Result::ok).unwrap_or(100_000);
    let sessions = arguments.next().and_then(Result::ok).unwrap_or(10_000).min(peers);
    let mut plane = Plane::new();
    plane.add(FLOW);
    plane.install(FLOW);
    let steps = [
        Step { limit: Some(Duration::from_secs(1)), ..step("peers with a route added", peers, Plane::add) },
        step("sessions installed", sessions, Plane::install),
        Step {
            limit: Some(Duration::from_millis(100)),
            ..step("sessions replaced", sessions, Plane::install)
        },
        step("routes moved to the next peer", sessions, Plane::steal),
        step("peers removed", peers, Plane::remove),
    ];
    let good = steps.iter().map(|step| step.run(&mut plane)).fold(true, |all, good| all & good);
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One order for each of many peers.
struct Step {
    what: &'static str,
    count: u32,
    order: Order,
    /// The time limit for all of them.
    limit: Option<Duration>,
}

fn step(what: &'static str, count: u32, order: Order) -> Step {
    Step { what, count, order, limit: None }
}

impl Step {
    /// Gives the orders, and prints the time that they took. False if that was too much, or the flow lost a
    /// packet.
    fn run(&self, plane: &mut Plane) -> bool {
        let (mut elapsed, mut sent, mut lost) = (Duration::ZERO, 0, 0);
        for numbers in (0..self.count).collect::<Vec<_>>().chunks(BETWEEN) {
            let start = Instant::now();
            numbers.iter().for_each(|number| (self.order)(plane, *number));
            elapsed += start.elapsed();
            sent += 1;
            lost += u32::from(!plane.passes());
        }
        let each = elapsed.as_nanos() as f64 / 1000.0 / f64::from(self.count.max(1));
        let in_time = self.limit.is_none_or(|limit| elapsed < limit);
        let verdict = match self.limit {
            Some(limit) => format!("; limit {limit:?}: {}", if in_time { "pass" } else { "FAIL" }),
            None => String::new(),
        };
        println!(
            "{:>7} {:<30} {:>8.1} ms, {each:>6.2} us each; the flow lost {lost} of {sent} packets{verdict}",
            self.count,
            self.what,
            elapsed.as_secs_f64() * 1000.0,
        );
        in_time && lost == 0
    }
}

/// The order for the peer of a number.
type Order = fn(&mut Plane, u32);

struct Plane {
    egress: Egress,
    ingress: Ingress,
    transmit_batch: TransmitBatch,
    receive_batch: ReceiveBatch,
}

fn path(number: u32) -> Path {
    let remote = SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(number)), 1194);
    Path::Udp { socket: 0, remote }
}

fn route(number: u32) -> IpNet {
    IpNet::from(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000_u32.wrapping_add(number))))
}

fn codec(number: u32) -> SessionCodec {
    let key = [7; 32];
    let expires = adit_core::Instant::from_nanos(u64::MAX);
    let codec = Codec { remote_index: number, mtu: 1420, seal: key.into(), open: key.into(), expires };
    session_with(aws_lc, &codec).expect("the keys fit")
}

impl Plane {
    fn new() -> Self {
        let (egress, ingress, _) = adit_dataplane::new(Config::new(Sockets));
        Plane {
            egress,
            ingress,
            transmit_batch: TransmitBatch::new(),
            receive_batch: ReceiveBatch::new(MergePolicy::Off),
        }
    }

    fn apply(&mut self, event: DataEvent<Infallible>) {
        let (egress, ingress) = split(event, |install| match install.codec {});
        egress.into_iter().for_each(|event| self.egress.apply(event, &mut self.transmit_batch));
        ingress.into_iter().for_each(|event| self.ingress.apply(event));
    }

    fn add(&mut self, number: u32) {
        self.apply(DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer: PeerId(number),
            path: Some(path(number)),
            routes: vec![route(number)],
            selectors: Default::default(),
            max_mss: None,
            roams: true,
            staging: true,
            device: Default::default(),
            by_path: true,
            identity: Default::default(),
        })));
    }

    fn install(&mut self, number: u32) {
        let (peer, session) = (PeerId(number), SessionId(number.into()));
        let (egress, ingress) = install(Install::new(peer, session, codec(number)));
        self.egress.apply(egress, &mut self.transmit_batch);
        self.ingress.apply(ingress);
        self.apply(DataEvent::Activate { peer, session });
    }

    fn steal(&mut self, number: u32) {
        self.apply(DataEvent::Peer(PeerOrder::AddRoute { peer: PeerId(number + 1), route: route(number) }));
    }

    fn remove(&mut self, number: u32) {
        self.apply(DataEvent::Peer(PeerOrder::Remove(PeerId(number))));
    }

    /// Whether a packet of the flow goes out and in again.
    fn passes(&mut self) -> bool {
        let mut packet = vec![0; 1400];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&1400_u16.to_be_bytes());
        let IpAddr::V4(address) = route(FLOW).addr() else { return false };
        packet[12..16].copy_from_slice(&address.octets());
        packet[16..20].copy_from_slice(&address.octets());
        self.transmit_batch.clear();
        self.egress.seal_packet(Offload::NONE, &mut packet, &mut self.transmit_batch);
        let Some(mut sealed) = self.transmit_batch.iter().next().map(|batch| batch.bytes.to_vec()) else {
            return false;
        };
        self.ingress.open_datagrams(path(FLOW), &mut sealed, 0, &mut self.receive_batch);
        let passed = self.receive_batch.packets().count() == 1;
        self.receive_batch.clear();
        passed
    }
}
