//! Ends for tests: a machine with a data plane that seals with names of keys instead of ciphers, so that a test sees
//! what was sealed with which key, and that no counter of a key occurs twice.
#![allow(dead_code, clippy::panic, reason = "test support; each test file uses its part")]

pub(crate) mod plane;
pub(crate) mod world;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use adit_core::{Command, Drive, Ended, Event, Instant, Notice, Path, PeerId, Protocol, Rejected, drive};
use adit_wireguard::wire::KEEPALIVE_LEN;
use adit_wireguard::{
    AllowedIp, Changes, Interface, Params, PeerChange, PrivateKey, PublicKey, Reply, Request, Sockets,
    WallClock,
};

use plane::{Ledger, Plane, Sealed};

/// The socket of every end.
pub(crate) const SOCKET: u32 = 3;
/// The system's clock at the start of tests, in seconds since 1970.
pub(crate) const EPOCH: u64 = 1_800_000_000;

/// A datagram on its way.
#[derive(Clone, Debug)]
pub(crate) enum Datagram {
    Control(Vec<u8>),
    Data(Sealed),
}

impl Datagram {
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Datagram::Control(bytes) => bytes[0],
            Datagram::Data(_) => 4,
        }
    }
}

pub(crate) fn at(seconds: u64) -> Instant {
    Instant::ORIGIN + Duration::from_secs(seconds)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The private key of end `n`.
pub(crate) fn private(n: u8) -> PrivateKey {
    PrivateKey::new([n; 32]).expect("not zero")
}

/// The public key of end `n`.
pub(crate) fn public(n: u8) -> PublicKey {
    let mut params = Params::new(WallClock { at: Instant::ORIGIN, since_1970: Duration::ZERO });
    params.configuration.private_key = Some(Some(private(n)));
    let interface = Interface::new(params, Instant::ORIGIN, [0; 32]).expect("a configuration");
    interface.public_key().expect("a key")
}

/// The inner address of end `n`.
pub(crate) fn inner(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

/// The outer address of end `n`.
pub(crate) fn outer(n: u8) -> SocketAddr {
    ([192, 0, 2, n], 51820).into()
}

pub(crate) fn path(remote: SocketAddr) -> Path {
    Path::Udp { socket: SOCKET, remote }
}

/// End `n` as a peer: its key, its inner address, and where it is.
pub(crate) fn peer(n: u8, endpoint: Option<SocketAddr>) -> PeerChange {
    PeerChange { endpoint, allowed_ips: vec![AllowedIp::Add(inner(n).into())], ..PeerChange::new(public(n)) }
}

/// The parameters of end `n` with these peers.
pub(crate) fn params(n: u8, now: Instant, peers: Vec<PeerChange>) -> Params {
    let clock = WallClock { at: Instant::ORIGIN, since_1970: Duration::from_secs(EPOCH) };
    Params {
        sockets: Sockets { port: 51820, ipv4: Some(SOCKET), ipv6: Some(SOCKET) },
        configuration: Changes { private_key: Some(Some(private(n))), peers, ..Changes::default() },
        ..Params::new(WallClock { at: now, since_1970: clock.read(now) })
    }
}

pub(crate) struct End {
    pub(crate) machine: Interface,
    pub(crate) plane: Plane,
    pub(crate) now: Instant,
    pub(crate) sent: Vec<(Path, Datagram)>,
    /// Numbers of packets that came out, with the peers that sent them.
    pub(crate) delivered: Vec<(PeerId, u64)>,
    pub(crate) requests: Vec<Request>,
    pub(crate) reports: Vec<String>,
    pub(crate) up: BTreeSet<PeerId>,
    pub(crate) ended: Option<Ended>,
    /// Remotes to which connections were asked for.
    pub(crate) opens: Vec<usize>,
    /// Connections that were closed.
    pub(crate) closes: Vec<Path>,
    scratch: Vec<u8>,
}

impl Drive for End {
    type Protocol = Interface;
    type Error = std::convert::Infallible;

    fn protocol(&mut self) -> &mut Interface {
        &mut self.machine
    }

    fn event(&mut self, event: adit_wireguard::Event) -> Result<(), Self::Error> {
        match event {
            Event::Data(order) => {
                let sealed = self.plane.order(self.now, order);
                self.sent.extend(sealed.into_iter().map(|(path, sealed)| (path, Datagram::Data(sealed))));
            }
            Event::Request(request) => self.requests.push(request),
            Event::Report(report) => self.reports.push(report.text),
            Event::PeerUp { peer, info } => {
                assert_eq!(info.name, info.detail.public_key.to_base64());
                assert!(self.up.insert(peer), "up twice");
            }
            Event::PeerDown { peer, .. } => assert!(self.up.remove(&peer), "down without having been up"),
            Event::Ended(ended) => self.ended = Some(ended),
            Event::Open { remote } => self.opens.push(remote),
            Event::Close { path } => self.closes.push(path),
            Event::Up(_) => {}
            other => panic!("unexpected: {other:?}"),
        }
        Ok(())
    }

    fn transmit(&mut self, path: Path, datagram: &[u8]) -> Result<(), Self::Error> {
        assert!(matches!(datagram.len(), 148 | 92 | 64));
        self.sent.push((path, Datagram::Control(datagram.to_vec())));
        Ok(())
    }
}

impl End {
    pub(crate) fn new(params: Params, now: Instant, seed: [u8; 32], ledger: &Rc<RefCell<Ledger>>) -> Self {
        let mut end = End {
            machine: Interface::new(params, now, seed).expect("a configuration"),
            plane: Plane::new(ledger.clone()),
            now,
            sent: Vec::new(),
            delivered: Vec::new(),
            requests: Vec::new(),
            reports: Vec::new(),
            up: BTreeSet::new(),
            ended: None,
            opens: Vec::new(),
            closes: Vec::new(),
            scratch: Vec::new(),
        };
        end.drain();
        end
    }

    pub(crate) fn drain(&mut self) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let Ok(()) = drive(self, &mut scratch);
        self.scratch = scratch;
    }

    /// Runs timers that are due.
    pub(crate) fn wake(&mut self, now: Instant) {
        self.now = now;
        for round in 0.. {
            assert!(round < 100, "due again and again");
            if self.machine.poll_timeout().is_none_or(|due| due > now) {
                return;
            }
            self.machine.handle_timeout(now);
            self.drain();
        }
    }

    fn notify(&mut self, notices: Vec<Notice>) {
        for notice in notices {
            self.machine.handle_notice(self.now, notice);
            self.drain();
        }
    }

    /// Tells the machine what passed, as the driver does each second.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.now = now;
        let notices = self.plane.totals();
        self.notify(notices);
        self.plane.check(now);
    }

    /// A packet from the device.
    pub(crate) fn send(&mut self, now: Instant, to: IpAddr, number: u64) {
        self.now = now;
        let (sealed, notices) = self.plane.send(now, to, number);
        self.sent.extend(sealed.map(|(path, sealed)| (path, Datagram::Data(sealed))));
        self.notify(notices);
    }

    pub(crate) fn receive(&mut self, now: Instant, path: Path, datagram: &Datagram) -> Result<(), Rejected> {
        self.now = now;
        match datagram {
            Datagram::Control(bytes) => {
                let taken = self.machine.handle_datagram(now, path, bytes);
                self.drain();
                taken
            }
            Datagram::Data(sealed) => {
                let (packet, notices) = self.plane.receive(now, path, sealed);
                self.delivered.extend(packet);
                self.notify(notices);
                Ok(())
            }
        }
    }

    pub(crate) fn reply(&mut self, now: Instant, reply: Reply) {
        self.now = now;
        self.machine.handle_reply(now, reply);
        self.drain();
    }

    pub(crate) fn command(&mut self, now: Instant, command: Command) {
        self.now = now;
        self.machine.handle_command(now, command);
        self.drain();
    }

    pub(crate) fn configure(&mut self, now: Instant, changes: Changes) {
        self.reply(now, Reply::Configure { id: 1, changes: Box::new(changes) });
    }

    pub(crate) fn id(&self, n: u8) -> PeerId {
        self.machine.peer_id(&public(n)).expect("a peer")
    }

    pub(crate) fn take_sent(&mut self) -> Vec<(Path, Datagram)> {
        std::mem::take(&mut self.sent)
    }

    /// Types of what was sent since it was asked last.
    pub(crate) fn take_kinds(&mut self) -> Vec<u8> {
        self.take_sent().iter().map(|(_, datagram)| datagram.kind()).collect()
    }
}

/// Two ends without anything between them: 1 and 2, each the only peer of the other end.
pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) ends: [End; 2],
    pub(crate) ledger: Rc<RefCell<Ledger>>,
    next: u64,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Pair::with(|_| {})
    }

    /// A pair with other parameters of both ends.
    pub(crate) fn with(change: impl Fn(&mut Params)) -> Self {
        Pair::seeded(0, change)
    }

    /// A pair with the randomness of that seed.
    pub(crate) fn seeded(seed: u8, change: impl Fn(&mut Params)) -> Self {
        let now = at(1000);
        let ledger = Rc::new(RefCell::new(Ledger::default()));
        let ends = [(1, 2), (2, 1)].map(|(n, other)| {
            let mut params = params(n, now, vec![peer(other, Some(outer(other)))]);
            change(&mut params);
            End::new(params, now, [seed.wrapping_mul(2).wrapping_add(n); 32], &ledger)
        });
        Pair { now, ends, ledger, next: 0 }
    }

    /// Delivers all that is on its way, and what is sent in answer.
    pub(crate) fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 100, "they go on and on");
            let sent = [0, 1].map(|end: usize| self.ends[end].take_sent());
            if sent.iter().all(Vec::is_empty) {
                return;
            }
            for (from, datagrams) in sent.into_iter().enumerate() {
                for (_, datagram) in datagrams {
                    let _ = self.ends[1 - from].receive(self.now, path(outer(from as u8 + 1)), &datagram);
                }
            }
        }
    }

    /// Sends a packet from end `from` (0 or 1), without delivering anything.
    pub(crate) fn packet(&mut self, from: usize) -> u64 {
        self.next += 1;
        self.ends[from].send(self.now, inner(2 - from as u8), self.next);
        self.next
    }

    /// Sends a packet, delivers all, and says whether it arrived.
    pub(crate) fn passes(&mut self, from: usize) -> bool {
        let number = self.packet(from);
        self.settle();
        self.ends[1 - from].delivered.iter().any(|(_, arrived)| *arrived == number)
    }

    /// A handshake that end 0 begins. The time of [`Pair::now`] is its age 0.
    pub(crate) fn connect(&mut self) {
        assert!(self.passes(0));
        self.tick();
    }

    pub(crate) fn tick(&mut self) {
        self.ends.iter_mut().for_each(|end| end.tick(self.now));
    }

    /// Lets time pass in steps of 100 ms, with a tick each second; delivers nothing.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut step = 0_u32;
        while self.now < end {
            self.now = (self.now + millis(100)).min(end);
            step += 1;
            for end in &mut self.ends {
                end.wake(self.now);
                if step.is_multiple_of(10) {
                    end.tick(self.now);
                }
            }
        }
    }

    /// Lets the time pass in steps of a second at most, and delivers all datagrams after each step.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.pass(millis(1000).min(end - self.now));
            self.settle();
        }
    }
}

/// Data datagrams among these, as (packet, length).
pub(crate) fn data(sent: &[(Path, Datagram)]) -> Vec<Option<u64>> {
    sent.iter()
        .filter_map(|(_, datagram)| match datagram {
            Datagram::Data(sealed) => Some(sealed.packet),
            Datagram::Control(_) => None,
        })
        .collect()
}

/// How many initiations are among these.
pub(crate) fn initiations(sent: &[(Path, Datagram)]) -> usize {
    sent.iter().filter(|(_, datagram)| datagram.kind() == 1).count()
}

/// Length of a data datagram.
pub(crate) fn length(packet: Option<u64>, message: &[u8]) -> u64 {
    match packet {
        Some(_) => 128,
        None => (KEEPALIVE_LEN + message.len().next_multiple_of(16)) as u64,
    }
}

/// Sessions of all peers by number of installs, for messages of failed tests.
pub(crate) fn shape(end: &End) -> BTreeMap<PeerId, usize> {
    end.plane.peers.iter().map(|(id, peer)| (*id, peer.sessions.len())).collect()
}
