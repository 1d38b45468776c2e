//! Two ends with a static key over a faulty net, with an attacker that captures all datagrams and sends any of them
//! again to either end.
//!
//! The conditions: an end takes each packet once at most in one run, and none that it sent in that run; with keys for
//! each direction, nothing of its own at all. With one key, a peer that was silent for too long may begin again, and
//! its earlier packets are then taken again. No IV comes twice. Once the net is clean, packets pass in both directions.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use adit_core::{
    Cipher, Command, Digest, Drive, Ended, Instant, Notice, Path, PeerId, Protocol, Transport, UnixTime,
    drive,
};
use adit_dataplane::{
    Config, Counters, Egress, Ingress, MergePolicy, Offload, ReceiveBatch, TransmitBatch, split,
};
use adit_openvpn::StaticTunnel;
use adit_openvpn::codec::Framing;
use adit_openvpn::params::{Keepalive, RemoteParams, StaticParams};
use adit_openvpn::request::{DataEvent, Event};
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wrap::KeyDirection;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

const WALL: u64 = 1_790_000_000;
/// West waits, east connects.
const WEST: usize = 0;
const WEST_ADDRESS: ([u8; 4], u16) = ([192, 0, 2, 1], 1194);
/// HMAC-SHA256.
const MAC: usize = 32;
const STEP: Duration = Duration::from_millis(20);
/// Steps with faults, then steps without; in the last `MEASURED` of them packets must pass.
const FAULTY: u64 = 3000;
const CLEAN: u64 = 1500;
const MEASURED: u64 = 250;

/// A machine and its data plane, from one start to the next.
struct End {
    machine: StaticTunnel,
    egress: Egress,
    ingress: Ingress,
    counters: Counters,
    transmit_batch: TransmitBatch,
    receive_batch: ReceiveBatch,
    reported: (u64, u64),
    /// When its last session began, in seconds since 1970.
    began: u64,
    /// Numbers of the packets that were sent and taken in this run.
    sent: BTreeSet<u32>,
    taken: BTreeSet<u32>,
    /// A remote is to be opened.
    opens: bool,
}

impl End {
    fn new(params: StaticParams, now: Instant, seed: [u8; 32]) -> Self {
        let (egress, ingress, counters) = adit_dataplane::new(Config::new(adit_openvpn_codec::StaticKey));
        let mut end = End {
            machine: StaticTunnel::new(params, now, seed),
            egress,
            ingress,
            counters,
            transmit_batch: TransmitBatch::new(),
            receive_batch: ReceiveBatch::new(MergePolicy::Off),
            reported: (0, 0),
            began: 0,
            sent: BTreeSet::new(),
            taken: BTreeSet::new(),
            opens: false,
        };
        end.drain();
        end
    }

    fn drain(&mut self) {
        let Ok(()) = drive(self, &mut Vec::new());
    }

    fn apply(&mut self, order: DataEvent) {
        match &order {
            DataEvent::Retire { .. } => self.taken.clear(),
            DataEvent::Install(install) => match install.codec.framing {
                Framing::StaticKey(framing) => self.began = framing.began.into(),
                other => panic!("{other:?}"),
            },
            _ => {}
        }
        let (egress, ingress) = split(order, adit_openvpn_codec::session);
        if let Some(order) = egress {
            self.egress.apply(order, &mut self.transmit_batch);
        }
        if let Some(order) = ingress {
            self.ingress.apply(order);
        }
    }

    /// Its sealed datagrams, each with its path, which names the socket.
    fn sealed(&mut self) -> Vec<(Path, Vec<u8>)> {
        let mut datagrams = Vec::new();
        for batch in self.transmit_batch.iter() {
            datagrams
                .extend(batch.bytes.chunks(batch.segment.max(1)).map(|bytes| (batch.path, bytes.to_vec())));
        }
        self.transmit_batch.clear();
        datagrams
    }

    /// The packets in a datagram.
    fn receive(&mut self, now: Instant, path: Path, datagram: &[u8]) -> Vec<Vec<u8>> {
        let mut bytes = datagram.to_vec();
        self.ingress.tick(now);
        self.ingress.open_datagrams(path, &mut bytes, 0, &mut self.receive_batch);
        let copy = |range: std::ops::Range<usize>| bytes[range].to_vec();
        let packets =
            self.receive_batch.packets().map(|packet| packet.pieces().flat_map(copy).collect()).collect();
        assert!(self.receive_batch.control().is_empty());
        let notices: Vec<Notice> = self.receive_batch.notices().drain(..).collect();
        self.receive_batch.clear();
        for notice in notices {
            self.machine.handle_notice(now, notice);
            self.drain();
        }
        packets
    }

    fn second(&mut self, now: Instant) {
        let peer = PeerId::SERVER;
        let Some((received, sent)) = self.counters.traffic(peer).filter(|totals| *totals != self.reported)
        else {
            return;
        };
        self.reported = (received, sent);
        let (received_bytes, sent_bytes) = self.counters.traffic_bytes(peer).unwrap_or_default();
        let message_bytes = self.counters.message_bytes(peer).unwrap_or_default();
        let activity = self.counters.activity(peer).unwrap_or_default();
        let notice =
            Notice::Traffic { peer, received, sent, received_bytes, sent_bytes, message_bytes, activity };
        self.machine.handle_notice(now, notice);
        self.drain();
    }
}

impl Drive for End {
    type Protocol = StaticTunnel;
    type Error = Infallible;

    fn protocol(&mut self) -> &mut StaticTunnel {
        &mut self.machine
    }

    fn event(&mut self, event: Event) -> Result<(), Infallible> {
        match event {
            Event::Data(order) => self.apply(order),
            Event::Open { .. } => self.opens = true,
            Event::Ended(Ended::Failed(why)) => panic!("{why}"),
            _ => {}
        }
        Ok(())
    }

    fn transmit(&mut self, _: Path, datagram: &[u8]) -> Result<(), Infallible> {
        panic!("a static key has no control datagrams: {datagram:02x?}")
    }
}

/// An inner packet that is nothing but its number.
fn packet(number: u32) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 24, 0, 0, 0, 0, 64, 59, 0, 0, 10, 4, 0, 1, 10, 4, 0, 2];
    packet.extend_from_slice(&number.to_be_bytes());
    packet
}

struct World {
    rng: ChaCha8Rng,
    step: u64,
    directed: bool,
    ends: Vec<End>,
    /// East's address as the net shows it, and the socket that it has.
    east: (SocketAddr, u32),
    next_number: u32,
    /// The sender of each packet.
    sender: BTreeMap<u32, usize>,
    ivs: BTreeSet<Vec<u8>>,
    /// The datagrams in transit: the time of arrival, the receiver, the source address.
    net: Vec<(u64, usize, SocketAddr, Vec<u8>)>,
    /// All that the attacker captured.
    captured: Vec<Vec<u8>>,
    arrived: [u64; 2],
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let directed = rng.next_u32().is_multiple_of(2);
        let mut world = World {
            rng,
            step: 0,
            directed,
            ends: Vec::new(),
            east: (([198, 51, 100, 1], 2000).into(), 1),
            next_number: 0,
            sender: BTreeMap::new(),
            ivs: BTreeSet::new(),
            net: Vec::new(),
            captured: Vec::new(),
            arrived: [0; 2],
        };
        for number in [WEST, 1] {
            let end = world.start(number, 0);
            world.ends.push(end);
        }
        world
    }

    fn now(&self) -> Instant {
        Instant::ORIGIN + STEP * self.step as u32
    }

    fn chance(&mut self, per_mille: u32) -> bool {
        self.rng.next_u32() % 1000 < per_mille
    }

    /// Starts an end whose last session began at `before`.
    fn start(&mut self, number: usize, before: u64) -> End {
        let wall = WALL + (self.now() - Instant::ORIGIN).as_secs();
        // A program does not start twice within a second; and clocks may jump ahead in between.
        let jump = if self.chance(300) { 100 } else { 0 };
        let wall = wall.max(before + 1) + jump;
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        let directions = [KeyDirection::Normal, KeyDirection::Inverse];
        let remote = RemoteParams::new("west".to_owned(), Transport::Udp);
        let direction = if self.directed { directions[number] } else { KeyDirection::Bidirectional };
        let key = StaticKey::from_bytes(&std::array::from_fn(|index| index as u8));
        let at_origin = UnixTime(wall - (self.now() - Instant::ORIGIN).as_secs());
        let params = StaticParams {
            digest: Digest::Sha256,
            keepalive: Keepalive {
                ping: Some(Duration::from_secs(1)),
                timeout: Some(Duration::from_secs(5)),
                exit: false,
            },
            remotes: if number == WEST { Vec::new() } else { vec![remote] },
            retry: (Duration::from_secs(1), Duration::from_secs(3)),
            resolve_timeout: None,
            ..StaticParams::new(key, direction, Cipher::Aes128Cbc, at_origin)
        };
        End::new(params, self.now(), seed)
    }

    fn run(&mut self) {
        while self.step < FAULTY + CLEAN {
            let faulty = self.step < FAULTY;
            if self.step == FAULTY + CLEAN - MEASURED {
                self.arrived = [0; 2];
            }
            if faulty {
                self.inject_faults();
            }
            self.deliver();
            for number in 0..2 {
                self.work(number);
                self.send(number, faulty);
            }
            self.step += 1;
        }
    }

    /// An end is killed and started again; east gets another address; a captured datagram is sent again.
    fn inject_faults(&mut self) {
        for number in 0..2 {
            if self.chance(2) {
                self.ends[number] = self.start(number, self.ends[number].began);
            }
        }
        if self.chance(2) {
            let port = self.east.0.port() + 1;
            self.east.0.set_port(port);
        }
        self.attack();
    }

    fn attack(&mut self) {
        if self.captured.is_empty() || !self.chance(300) {
            return;
        }
        let mut datagram = self.captured[self.rng.next_u32() as usize % self.captured.len()].clone();
        if self.chance(300) {
            let at = self.rng.next_u32() as usize % datagram.len();
            datagram[at] ^= 1;
        }
        let from = if self.chance(500) { self.east.0 } else { ([203, 0, 113, 9], 9).into() };
        let to = self.rng.next_u32() as usize % 2;
        let from = if to == WEST { from } else { WEST_ADDRESS.into() };
        self.net.push((self.step, to, from, datagram));
    }

    fn deliver(&mut self) {
        let due: Vec<_> = self.net.extract_if(.., |(at, ..)| *at <= self.step).collect();
        for (_, to, from, datagram) in due {
            let socket = if to == WEST { 0 } else { self.east.1 };
            let now = self.now();
            let packets = self.ends[to].receive(now, Path::Udp { socket, remote: from }, &datagram);
            for packet in packets {
                self.check(to, &packet);
            }
        }
    }

    fn check(&mut self, at: usize, bytes: &[u8]) {
        let number = u32::from_be_bytes(*bytes.last_chunk().unwrap());
        assert_eq!(bytes, packet(number), "a packet was changed");
        let sender = *self.sender.get(&number).expect("an end sent it");
        let end = &mut self.ends[at];
        assert!(end.taken.insert(number), "{number} came twice to {at}");
        assert!(!end.sent.contains(&number), "{at} took what it sent itself");
        assert!(sender != at || !self.directed, "{at} took what it had sent in an earlier run");
        self.arrived[at] += u64::from(sender != at);
    }

    fn work(&mut self, number: usize) {
        let now = self.now();
        let end = &mut self.ends[number];
        if self.step.is_multiple_of(50) {
            end.second(now);
        }
        if end.machine.poll_timeout().is_some_and(|due| due <= now) {
            end.machine.handle_timeout(now);
            end.drain();
        }
        if std::mem::take(&mut end.opens) {
            self.east.1 += 1;
            let path = Path::Udp { socket: self.east.1, remote: WEST_ADDRESS.into() };
            end.machine.handle_command(now, Command::Opened { path });
            end.drain();
        }
    }

    fn send(&mut self, number: usize, faulty: bool) {
        self.next_number += 1;
        self.sender.insert(self.next_number, number);
        let end = &mut self.ends[number];
        end.sent.insert(self.next_number);
        end.egress.seal_packet(Offload::NONE, &mut packet(self.next_number), &mut end.transmit_batch);
        for (path, datagram) in end.sealed() {
            let iv = datagram[MAC..MAC + 16].to_vec();
            assert!(self.ivs.insert(iv), "an IV came twice");
            self.captured.push(datagram.clone());
            let copies = match faulty {
                true if self.chance(150) => 0,
                true if self.chance(50) => 2,
                _ => 1,
            };
            let (to, from, reaches) = match path {
                // East's net takes datagrams for its present address.
                Path::Udp { remote, .. } if number == WEST => (1, WEST_ADDRESS.into(), remote == self.east.0),
                Path::Udp { socket, .. } => (WEST, self.east.0, socket == self.east.1),
                Path::Tcp { .. } | Path::Ip { .. } => panic!("all is UDP here"),
            };
            for _ in 0..if reaches { copies } else { 0 } {
                let delay = if faulty { u64::from(self.rng.next_u32() % 5) } else { 0 };
                self.net.push((self.step + 1 + delay, to, from, datagram.clone()));
            }
        }
    }
}

#[test]
fn seeds_0_to_100() {
    let mut both = [0; 2];
    for seed in 0..100 {
        let mut world = World::new(seed);
        world.run();
        both[usize::from(world.directed)] += 1;
        // All of the last seconds, but for those in transit at their beginning and end.
        for (end, arrived) in world.arrived.iter().enumerate() {
            assert!(
                (MEASURED - 2..=MEASURED + 2).contains(arrived),
                "seed {seed}: {arrived} of {MEASURED} packets came to {end}"
            );
        }
    }
    assert!(both.iter().all(|count| *count > 20), "{both:?}");
}
