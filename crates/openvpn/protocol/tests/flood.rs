//! Unauthenticated peers that flood a server with 100,000 datagrams a second of every kind: they cost it no memory, hardly a
//! line in the log, and no answer that hits a third party harder than they could themselves; and a client connects
//! meanwhile as if nothing were.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use adit_core::{Command, Instant, Path, Protocol, Transport, UnixTime, drive_with};
use adit_openvpn::params::{ClientParams, ServerParams, TlsCryptV2};
use adit_openvpn::request::Event;
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::testing::{Authority, WALL, client_params, server_params};
use adit_openvpn::wire::{ControlBody, Header, Opcode, Sid};
use adit_openvpn::wrap::v2::{ClientKey, Metadata, ServerKey};
use adit_openvpn::wrap::{HmacDigest, KeyDirection, Wrap, WrapConfig};
use adit_openvpn::{Client, Server, TlsRole};
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};

/// Datagrams of unauthenticated peers in a millisecond.
const RATE: usize = 100;
/// How long a flood lasts, in milliseconds.
const FLOOD: usize = 1000;
/// One way through the net, in milliseconds.
const DELAY: u32 = 5;
const MILLISECOND: Duration = Duration::from_millis(1);
/// The limit of `connect-freq-initial`: answers larger than the packets that they answer, to one address. Peers that
/// are not there get fewer in a second.
const ANSWERS_OF_ONE: usize = 100;
/// Memory that may be found in buffers which grew: none for each datagram.
const LITTLE: i64 = 64 << 10;
/// A control channel in the making, TLS included.
const CHANNEL: i64 = 256 << 10;
/// tls-crypt-v2 clients before OpenVPN 2.6 that may be in the middle of their handshake.
const UNPROVEN: i64 = 64;

/// Where a flood's datagrams come from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    /// Each from another address.
    Everywhere,
    /// All from that of one victim.
    One,
}

/// A kind of datagram that unauthenticated peers send.
struct Flood {
    name: &'static str,
    from: Source,
    /// As they come, again and again.
    datagrams: Vec<Vec<u8>>,
    sent: u32,
    /// Control channels that it may start.
    channels: i64,
}

impl Flood {
    fn new(name: &'static str, from: Source, datagram: impl FnMut(u8) -> Vec<u8>) -> Self {
        Flood { name, from, datagrams: (0..=255).map(datagram).collect(), sent: 0, channels: 0 }
    }

    fn next(&mut self) -> (Path, &[u8]) {
        self.sent += 1;
        let place = match self.from {
            Source::Everywhere => self.sent,
            Source::One => 0,
        };
        let [_, a, b, c] = place.to_be_bytes();
        let remote = SocketAddr::from(([100, a, b, c], 1194));
        (Path::Udp { socket: 0, remote }, &self.datagrams[self.sent as usize % self.datagrams.len()])
    }
}

/// The cost of unauthenticated peers.
#[derive(Debug, Default)]
struct Cost {
    /// Lines in the log.
    lines: usize,
    /// The longest answer, in percent of what it answers.
    largest: usize,
    /// Answers of the address that had most of them.
    answers: usize,
    /// The most control channels in the making.
    half_open: usize,
}

struct World {
    server: Server,
    now: Instant,
    cost: Cost,
    answers: BTreeMap<Path, usize>,
}

impl World {
    fn new(params: ServerParams) -> Self {
        let now = Instant::ORIGIN + Duration::from_secs(1);
        let server = Server::new(params, now, [2; 32]);
        World { server, now, cost: Cost::default(), answers: BTreeMap::new() }
    }

    /// A millisecond of unauthenticated peers.
    fn flood(&mut self, flood: &mut Flood) {
        for _ in 0..RATE {
            let from = flood.from;
            let (path, datagram) = flood.next();
            let _ = self.server.handle_datagram(self.now, path, datagram);
            let Cost { lines, largest, answers, .. } = &mut self.cost;
            drive_with(
                &mut self.server,
                |_, event| *lines += usize::from(matches!(event, Event::Report(_))),
                |to, answer| {
                    *largest = (*largest).max(answer.len() * 100 / datagram.len());
                    if from == Source::One {
                        let count = self.answers.entry(to).or_default();
                        *count += 1;
                        *answers = (*answers).max(*count);
                    }
                },
            );
        }
        self.cost.half_open = self.cost.half_open.max(self.server.half_open());
    }

    /// The server's datagrams, with its reports counted.
    fn answers(&mut self) -> Vec<(Path, Vec<u8>)> {
        let (lines, mut answers) = (&mut self.cost.lines, Vec::new());
        drive_with(
            &mut self.server,
            |_, event| *lines += usize::from(matches!(event, Event::Report(_))),
            |to, answer| answers.push((to, answer.to_vec())),
        );
        answers
    }
}

/// The next datagram that is due.
fn arrived(wire: &mut VecDeque<(u32, Vec<u8>)>, time: u32) -> Option<Vec<u8>> {
    wire.front()
        .is_some_and(|(due, _)| *due <= time)
        .then(|| wire.pop_front())
        .flatten()
        .map(|(_, bytes)| bytes)
}

/// How long a client needs until it is up, in milliseconds.
fn connect(server: ServerParams, client: ClientParams, mut flood: Option<&mut Flood>) -> u32 {
    let mut world = World::new(server);
    let mut client = Client::new(client, world.now, [1; 32]);
    let here = Path::Udp { socket: 0, remote: "192.0.2.2:40000".parse().unwrap() };
    let there = Path::Udp { socket: 0, remote: "192.0.2.1:1194".parse().unwrap() };
    let (mut to_server, mut to_client) = (VecDeque::new(), VecDeque::new());
    for time in 0..5000 {
        world.now += MILLISECOND;
        if let Some(flood) = &mut flood {
            world.flood(flood);
        }
        client.handle_timeout(world.now);
        while let Some(datagram) = arrived(&mut to_client, time) {
            let _ = client.handle_datagram(world.now, there, &datagram);
        }
        drive_with(
            &mut client,
            |client, event| {
                if let Event::Open { .. } = event {
                    client.handle_command(world.now, Command::Opened { path: there });
                }
            },
            |_, datagram| to_server.push_back((time + DELAY, datagram.to_vec())),
        );
        while let Some(datagram) = arrived(&mut to_server, time) {
            let _ = world.server.handle_datagram(world.now, here, &datagram);
        }
        world.server.handle_timeout(world.now);
        let answers = world.answers().into_iter().filter(|(to, _)| *to == here);
        to_client.extend(answers.map(|(_, datagram)| (time + DELAY, datagram)));
        if client.peers().len() == 1 && world.server.peers().len() == 1 {
            return time;
        }
    }
    panic!("the client is not up after 5 s");
}

/// The cost of a flood to a server, and the memory that is left behind.
fn endure(server: ServerParams, flood: &mut Flood) -> (Cost, i64) {
    let mut world = World::new(server);
    world.answers();
    let counted = allocation_counter::measure(|| {
        for _ in 0..FLOOD {
            world.now += MILLISECOND;
            world.flood(flood);
        }
        world.answers.clear();
    });
    (world.cost, counted.bytes_current)
}

/// A kind of server, a client for it, and those who are neither.
struct Siege {
    authority: Authority,
    client: WrapConfig,
    server: WrapConfig,
    v2: Option<Arc<ServerKey>>,
    idle: u32,
}

impl Siege {
    fn new(client: WrapConfig, server: WrapConfig, v2: Option<ServerKey>) -> Self {
        let authority = Authority::new();
        let mut siege = Siege { authority, client, server, v2: v2.map(Arc::new), idle: 0 };
        siege.idle = connect(siege.server(), siege.client(), None);
        siege
    }

    fn server(&self) -> ServerParams {
        let mut params = server_params(&self.authority.issue("server", ServerAuth), self.server.clone());
        let v2 = |key: &Arc<ServerKey>| TlsCryptV2 { key: key.clone(), force_cookie: false, max_age: None };
        params.admission.v2 = self.v2.as_ref().map(v2);
        params
    }

    fn client(&self) -> ClientParams {
        client_params(&self.authority.issue("alice", ClientAuth), self.client.clone(), Transport::Udp)
    }

    fn withstands(&self, mut flood: Flood) {
        let name = flood.name;
        let (cost, left) = endure(self.server(), &mut flood);
        assert!(left <= LITTLE + flood.channels * CHANNEL, "{name}: {left} bytes are left: {cost:?}");
        assert!(cost.half_open as i64 <= flood.channels, "{name}: {cost:?}");
        assert!(cost.lines <= 1, "{name}: {cost:?}");
        // A reset's answer acknowledges it: 12 bytes more, in 28 of UDP and IP and more.
        assert!(cost.largest < 200 && cost.answers <= ANSWERS_OF_ONE, "{name}: {cost:?}");
        let busy = connect(self.server(), self.client(), Some(&mut flood));
        assert!(busy <= 2 * self.idle, "{name}: {busy} ms, {} ms without the flood", self.idle);
    }
}

fn sid(number: u8) -> Sid {
    Sid([number, 1, 2, 3, 4, 5, 6, 7])
}

/// A datagram of a client with this wrapping.
fn sealed(wrap: &mut Wrap, opcode: Opcode, number: u8, body: &ControlBody) -> Vec<u8> {
    let (mut bytes, mut datagram) = (Vec::new(), Vec::new());
    body.encode(&mut bytes);
    wrap.seal(Header { opcode, key_id: 0 }, sid(number), &bytes, &mut datagram).unwrap();
    datagram
}

fn reset(config: &WrapConfig, opcode: Opcode) -> impl FnMut(u8) -> Vec<u8> {
    let mut wrap = config.instantiate(UnixTime(WALL));
    move |number| {
        sealed(&mut wrap, opcode, number, &ControlBody { packet_id: Some(0), ..ControlBody::default() })
    }
}

/// The third packet of a client that never saw the cookie.
fn third(config: &WrapConfig, opcode: Opcode) -> impl FnMut(u8) -> Vec<u8> {
    let mut wrap = config.instantiate(UnixTime(WALL));
    move |number| {
        let body = ControlBody {
            acks: vec![0],
            peer_sid: Some(Sid([number, 0x55, 2, 3, 4, 5, 6, 0x77])),
            packet_id: Some(1),
            payload: vec![0x16; 200],
        };
        sealed(&mut wrap, opcode, number, &body)
    }
}

/// Makes datagrams that look sealed with another key or with none: one byte is changed.
fn spoilt(mut make: impl FnMut(u8) -> Vec<u8>, at: usize) -> impl FnMut(u8) -> Vec<u8> {
    move |number| {
        let mut datagram = make(number);
        datagram[at] ^= 1;
        datagram
    }
}

fn client_key(metadata: Metadata) -> ClientKey {
    ServerKey::from_bytes(&[9; 128]).wrap(&StaticKey::from_bytes(&[7; 256]), &metadata).unwrap()
}

/// Answers to 10,000 first packets from as many addresses, of which there are 256 different ones, in a second.
fn answered(siege: &Siege, datagram: impl FnMut(u8) -> Vec<u8>) -> usize {
    let mut flood = Flood::new("first packets", Source::Everywhere, datagram);
    let mut world = World::new(siege.server());
    world.answers();
    let mut answered = 0;
    for _ in 0..10_000 {
        let (path, datagram) = flood.next();
        let _ = world.server.handle_datagram(world.now, path, datagram);
        answered += world.answers().len();
    }
    answered
}

/// A sender that has recorded one packet of a client can send it again and again, but cannot wrap another.
#[test]
fn copies_of_a_wrapped_first_packet_are_not_answered() {
    let key = StaticKey::from_bytes(&[7; 256]);
    let crypt = WrapConfig::tls_crypt(&key, TlsRole::Client);
    let siege = Siege::new(crypt.clone(), WrapConfig::tls_crypt(&key, TlsRole::Server), None);
    // Four of each; and two different ones may share their counters.
    let expected = 1000..=1024;
    let count = answered(&siege, reset(&crypt, Opcode::HardResetClientV2));
    assert!(expected.contains(&count), "tls-crypt: {count}");
    let v2 = WrapConfig::tls_crypt_v2(&client_key(Metadata::User(vec![1; 20])));
    let siege = Siege::new(v2.clone(), WrapConfig::Plain, Some(ServerKey::from_bytes(&[9; 128])));
    let count = answered(&siege, reset(&v2, Opcode::HardResetClientV3));
    assert!(expected.contains(&count), "tls-crypt-v2: {count}");
    let siege = Siege::new(WrapConfig::Plain, WrapConfig::Plain, None);
    let count = answered(&siege, reset(&WrapConfig::Plain, Opcode::HardResetClientV2));
    assert_eq!(count, 10_000, "any sender can make others of these");
}

#[test]
fn flood_plain() {
    use Source::{Everywhere, One};
    let siege = Siege::new(WrapConfig::Plain, WrapConfig::Plain, None);
    let config = &WrapConfig::Plain;
    siege.withstands(Flood::new("resets", Everywhere, reset(config, Opcode::HardResetClientV2)));
    siege.withstands(Flood::new("resets of one", One, reset(config, Opcode::HardResetClientV2)));
    siege.withstands(Flood::new("server's resets", One, reset(config, Opcode::HardResetServerV2)));
    siege.withstands(Flood::new("guessed cookies", Everywhere, third(config, Opcode::Control)));
    siege.withstands(Flood::new("guessed cookies of one", One, third(config, Opcode::Control)));
    let first_byte = |number: u8| [vec![number], vec![number ^ 0x5a; 40]].concat();
    siege.withstands(Flood::new("garbage with every first byte", Everywhere, first_byte));
    siege.withstands(Flood::new("stumps", Everywhere, |number| vec![0x38; usize::from(number % 14)]));
}

#[test]
fn flood_tls_auth() {
    let key = StaticKey::from_bytes(&[7; 256]);
    let auth = |direction| WrapConfig::tls_auth(&key, HmacDigest::Sha256, direction);
    let (client, server) = (auth(KeyDirection::Inverse), auth(KeyDirection::Normal));
    let siege = Siege::new(client.clone(), server, None);
    let resets = || reset(&client, Opcode::HardResetClientV2);
    siege.withstands(Flood::new("replayed resets", Source::Everywhere, resets()));
    siege.withstands(Flood::new("replayed resets of one", Source::One, resets()));
    siege.withstands(Flood::new("forged resets", Source::Everywhere, spoilt(resets(), 20)));
    siege.withstands(Flood::new("replayed thirds", Source::Everywhere, third(&client, Opcode::Control)));
}

#[test]
fn flood_tls_crypt() {
    let key = StaticKey::from_bytes(&[7; 256]);
    let client = WrapConfig::tls_crypt(&key, TlsRole::Client);
    let siege = Siege::new(client.clone(), WrapConfig::tls_crypt(&key, TlsRole::Server), None);
    let resets = || reset(&client, Opcode::HardResetClientV2);
    siege.withstands(Flood::new("replayed resets", Source::Everywhere, resets()));
    siege.withstands(Flood::new("replayed resets of one", Source::One, resets()));
    siege.withstands(Flood::new("forged resets", Source::Everywhere, spoilt(resets(), 20)));
    siege.withstands(Flood::new("replayed thirds", Source::Everywhere, third(&client, Opcode::Control)));
}

#[test]
fn flood_tls_crypt_v2() {
    let key = client_key(Metadata::User(vec![1; 20]));
    let client = WrapConfig::tls_crypt_v2(&key);
    let siege = Siege::new(client.clone(), WrapConfig::Plain, Some(ServerKey::from_bytes(&[9; 128])));
    let resets = || reset(&client, Opcode::HardResetClientV3);
    siege.withstands(Flood::new("replayed resets", Source::Everywhere, resets()));
    siege.withstands(Flood::new("replayed resets of one", Source::One, resets()));
    siege.withstands(Flood::new("a forged wrapping", Source::Everywhere, spoilt(resets(), 20)));
    siege.withstands(Flood::new("a forged wrapped key", Source::Everywhere, spoilt(resets(), 100)));
    siege.withstands(Flood::new("guessed cookies", Source::Everywhere, third(&client, Opcode::ControlWkc)));
    let plain = reset(&WrapConfig::Plain, Opcode::HardResetClientV2);
    siege.withstands(Flood::new("no wrapping", Source::Everywhere, plain));
    // Clients before OpenVPN 2.6 bring their key once: a control channel must start at once, and there may be few of them.
    let mut old = client.instantiate_after(UnixTime(WALL), 0);
    let first = ControlBody { packet_id: Some(0), ..ControlBody::default() };
    let old = Flood::new("replayed resets of an old client", Source::Everywhere, move |number| {
        sealed(&mut old, Opcode::HardResetClientV3, number, &first)
    });
    siege.withstands(Flood { channels: UNPROVEN, ..old });
}
