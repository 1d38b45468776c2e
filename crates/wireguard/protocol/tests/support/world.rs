//! Any number of ends over a network that loses, doubles, delays and reorders datagrams, moves ends to other addresses
//! and restarts them, all from one seed. The ends' data planes assert the conditions that must hold at all times.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use adit_core::{Instant, Path, Protocol};
use adit_wireguard::{PeerChange, PostQuantum, Reply, Request, Tai64n, WallClock};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};

use super::plane::Ledger;
use super::{Datagram, EPOCH, End, at, inner, millis, params, path, peer, public};

/// How bad the network is, in thousandths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub(crate) loss: u32,
    pub(crate) doubled: u32,
    /// Longest delay in milliseconds.
    pub(crate) delay: u32,
}

pub(crate) const CLEAR: Weather = Weather { loss: 0, doubled: 0, delay: 20 };

enum What {
    Arrive { from: SocketAddr, to: SocketAddr, datagram: Datagram },
    Tick(usize),
    Packet { from: usize, to: usize, number: u64 },
}

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) ends: Vec<End>,
    pub(crate) weather: Weather,
    pub(crate) rng: ChaCha20Rng,
    addresses: Vec<SocketAddr>,
    /// The time until which each end's machine sleeps: time passes without it, by a clock that counts it.
    asleep: Vec<Instant>,
    /// The timestamp that each end last requested to save.
    saved: Vec<Option<Tai64n>>,
    events: BTreeMap<(Instant, u64), What>,
    number: u64,
    ledger: Rc<RefCell<Ledger>>,
    keepalives: Vec<u16>,
    /// The setting of each end for post-quantum keys with all others.
    post_quantum: Vec<PostQuantum>,
    /// The time at which each packet that has not arrived was sent, its sender and its receiver.
    pub(crate) missing: BTreeMap<u64, (Instant, usize, usize)>,
    seen: BTreeSet<u64>,
    restarts: u32,
}

impl World {
    pub(crate) fn new(seed: u64, count: usize) -> Self {
        World::with(seed, vec![PostQuantum::Off; count])
    }

    /// A world where ends have these settings for post-quantum keys.
    pub(crate) fn with(seed: u64, post_quantum: Vec<PostQuantum>) -> Self {
        let count = post_quantum.len();
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let keepalives = (0..count).map(|_| [0, 0, 1, 25][rng.next_u32() as usize % 4]).collect();
        let now = at(1000);
        let mut world = World {
            now,
            ends: Vec::new(),
            weather: CLEAR,
            rng,
            addresses: (0..count).map(|index| super::outer(index as u8 + 1)).collect(),
            asleep: vec![now; count],
            saved: vec![None; count],
            events: BTreeMap::new(),
            number: 0,
            ledger: Rc::new(RefCell::new(Ledger::default())),
            keepalives,
            post_quantum,
            missing: BTreeMap::new(),
            seen: BTreeSet::new(),
            restarts: 0,
        };
        for index in 0..count {
            let end = world.make(index, at(1000), EPOCH);
            world.ends.push(end);
            let first = now + millis(u64::from(world.below(1000)));
            world.schedule(first, What::Tick(index));
            world.collect(index);
        }
        world
    }

    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.rng.next_u32() % limit
    }

    fn schedule(&mut self, time: Instant, what: What) {
        self.number += 1;
        self.events.insert((time, self.number), what);
    }

    /// An end that knows where the others were at first, and keeps what it was asked to save.
    fn make(&mut self, index: usize, now: Instant, since_1970: u64) -> End {
        let peers = (0..self.addresses.len()).filter(|other| *other != index).map(|other| PeerChange {
            persistent_keepalive: Some(self.keepalives[index]),
            post_quantum: Some(self.post_quantum[index]),
            ..peer(other as u8 + 1, Some(self.addresses[other]))
        });
        let mut params = params(index as u8 + 1, now, peers.collect());
        params.clock = WallClock { at: now, since_1970: Duration::from_secs(since_1970) };
        params.timestamp_floor = self.saved[index];
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        End::new(params, now, seed, &self.ledger)
    }

    /// The end loses all but what it was asked to save. Its clock starts in 1970 half of the time.
    pub(crate) fn restart(&mut self, index: usize) {
        self.restarts += 1;
        let clock = if self.below(2) == 0 { 0 } else { EPOCH + (self.now - at(1000)).as_secs() };
        let end = self.make(index, self.now, clock);
        self.ends[index] = end;
        self.collect(index);
    }

    /// The end is behind another address from now on.
    pub(crate) fn move_end(&mut self, index: usize) {
        let (a, b) = (self.below(200) as u8, self.below(60_000) as u16 + 1);
        self.addresses[index] = ([198, 51 + index as u8, 100, a], b).into();
    }

    /// Its machine sleeps for so long.
    pub(crate) fn sleep(&mut self, index: usize, time: Duration) {
        self.asleep[index] = self.now + time;
    }

    /// Its system's clock shows another time: a year back, or something near.
    pub(crate) fn set_clock(&mut self, index: usize) {
        let year = 365 * 86_400;
        let past = if self.below(3) == 0 { year } else { u64::from(self.below(200_000)) };
        let since_1970 = Duration::from_secs(EPOCH + 100_000 - past);
        let clock = WallClock { at: self.now, since_1970 };
        self.ends[index].reply(self.now, Reply::Clock(clock));
        self.collect(index);
    }

    pub(crate) fn packet(&mut self, from: usize, to: usize, after: Duration) -> u64 {
        self.number += 1;
        let number = self.number;
        self.schedule(self.now + after, What::Packet { from, to, number });
        number
    }

    /// Takes what an end sent.
    fn collect(&mut self, index: usize) {
        let end = &mut self.ends[index];
        for request in std::mem::take(&mut end.requests) {
            if let Request::SaveTimestamp(timestamp) = request {
                assert!(self.saved[index].is_none_or(|saved| saved < timestamp));
                self.saved[index] = Some(timestamp);
            }
        }
        for (_, number) in std::mem::take(&mut end.delivered) {
            assert!(self.seen.insert(number), "packet {number} came twice");
            self.missing.remove(&number);
        }
        let from = self.addresses[index];
        for (path, datagram) in end.take_sent() {
            let copies = 1 + u32::from(self.below(1000) < self.weather.doubled);
            for _ in 0..copies {
                if self.below(1000) < self.weather.loss {
                    continue;
                }
                let delay = millis(u64::from(1 + self.below(self.weather.delay)));
                let arrive = What::Arrive { from, to: path.remote(), datagram: datagram.clone() };
                self.schedule(self.now + delay, arrive);
            }
        }
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let timer = (0..self.ends.len())
                .filter_map(|index| {
                    let due = self.ends[index].machine.poll_timeout()?;
                    Some((due.max(self.asleep[index]), index))
                })
                .min();
            let event = self.events.keys().next().copied();
            match (timer, event) {
                (Some((due, index)), event) if due <= end && event.is_none_or(|(at, _)| due <= at) => {
                    self.now = self.now.max(due);
                    self.ends[index].wake(self.now);
                    self.collect(index);
                }
                (_, Some(key)) if key.0 <= end => {
                    self.now = self.now.max(key.0);
                    let what = self.events.remove(&key);
                    what.into_iter().for_each(|what| self.happen(what));
                }
                _ => break,
            }
        }
        self.now = end;
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Arrive { from, to, datagram } => {
                let Some(index) = self.addresses.iter().position(|address| *address == to) else { return };
                if self.asleep[index] > self.now {
                    return;
                }
                let _ = self.ends[index].receive(self.now, path(from), &datagram);
                self.collect(index);
            }
            What::Tick(index) => {
                if self.asleep[index] <= self.now {
                    self.ends[index].tick(self.now);
                    self.collect(index);
                }
                self.schedule(self.now + Duration::from_secs(1), What::Tick(index));
            }
            What::Packet { from, .. } if self.asleep[from] > self.now => {}
            What::Packet { from, to, number } => {
                self.missing.insert(number, (self.now, from, to));
                self.ends[from].send(self.now, inner(to as u8 + 1), number);
                self.collect(from);
            }
        }
    }

    /// All ends can be found again where the others look for them: as a name server would say it.
    pub(crate) fn tell_addresses(&mut self) {
        for index in 0..self.ends.len() {
            let peers = (0..self.addresses.len()).filter(|other| *other != index).map(|other| PeerChange {
                endpoint: Some(self.addresses[other]),
                ..PeerChange::new(public(other as u8 + 1))
            });
            let changes = adit_wireguard::Changes { peers: peers.collect(), ..Default::default() };
            self.ends[index].configure(self.now, changes);
            self.collect(index);
        }
    }

    /// Sessions between ends that both want it were made with post-quantum keys, and no others.
    pub(crate) fn check_post_quantum(&self) {
        for (index, end) in self.ends.iter().enumerate() {
            for other in (0..self.ends.len()).filter(|other| *other != index) {
                let wanted = [index, other].iter().all(|each| self.post_quantum[*each] != PostQuantum::Off);
                let peer = end.machine.peer(&public(other as u8 + 1)).expect("a peer");
                assert_eq!(peer.post_quantum.unwrap_or_default(), wanted, "end {index} with {other}");
            }
        }
    }

    /// Where an end believes another to be.
    pub(crate) fn knows(&self, index: usize, other: usize) -> Option<Path> {
        let end = &self.ends[index];
        end.plane.peers[&end.id(other as u8 + 1)].path
    }
}
