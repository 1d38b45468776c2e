//! Peers that return the cookie, connect over TCP or hold a key, and never authenticate: what they can fill is limited by
//! source, and they do not keep other clients out.
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use adit_core::{
    Command, ConnectionId, Instant, Path, Protocol, Rejected, TableUsage, Transport, UnixTime, drive_with,
};
use adit_openvpn::params::{ClientParams, PointToPointParams, ServerParams, TlsCryptV2};
use adit_openvpn::request::{Event, Reply, Request, ScriptId, ScriptOutcome};
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::testing::{Authority, WALL, client_params, server_params};
use adit_openvpn::wire::{ControlBody, Header, Opcode, Sid};
use adit_openvpn::wrap::v2::{Metadata, ServerKey};
use adit_openvpn::wrap::{Wrap, WrapConfig};
use adit_openvpn::{Client, Server};
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};

const HANDSHAKES: &str = "handshakes";
const SILENT: &str = "TCP connections without a control channel";

/// A server and what it asked for.
struct World {
    server: Server,
    client: ClientParams,
    now: Instant,
    events: Vec<Event>,
    connections: u32,
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn udp(remote: impl Into<SocketAddr>) -> Path {
    Path::Udp { socket: 0, remote: remote.into() }
}

impl World {
    fn new(transport: Transport, change: impl FnOnce(&mut ServerParams)) -> Self {
        let authority = Authority::new();
        let client = client_params(&authority.issue("alice", ClientAuth), WrapConfig::Plain, transport);
        let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
        change(&mut server);
        let now = Instant::ORIGIN + seconds(1);
        World { server: Server::new(server, now, [2; 32]), client, now, events: Vec::new(), connections: 0 }
    }

    /// The server's datagrams, after its events were noted.
    fn answers(&mut self) -> Vec<(Path, Vec<u8>)> {
        let (events, mut answers) = (&mut self.events, Vec::new());
        drive_with(
            &mut self.server,
            |_, event| events.push(event),
            |path, datagram| answers.push((path, datagram.to_vec())),
        );
        answers
    }

    fn send(&mut self, path: Path, datagram: &[u8]) -> Result<(), Rejected> {
        self.server.handle_datagram(self.now, path, datagram)
    }

    /// A first packet, and the cookie in the answer to it.
    fn cookie(&mut self, path: Path, wrap: &mut Wrap, opcode: Opcode, sid: Sid) -> Sid {
        let body = ControlBody { packet_id: Some(0), ..ControlBody::default() };
        self.send(path, &sealed(wrap, opcode, sid, &body)).unwrap();
        let is_reset = |bytes: &[u8]| bytes[0] >> 3 == Opcode::HardResetServerV2 as u8;
        let answers = self.answers();
        let (_, answer) = answers.iter().rev().find(|(to, bytes)| *to == path && is_reset(bytes)).unwrap();
        Sid(answer[1..9].try_into().unwrap())
    }

    /// Begins a handshake from there; `tls` is what comes for TLS.
    fn begin(&mut self, path: Path, sid: Sid, tls: &[u8]) {
        let mut wrap = Wrap::plain();
        let cookie = self.cookie(path, &mut wrap, Opcode::HardResetClientV2, sid);
        let body =
            ControlBody { acks: vec![0], peer_sid: Some(cookie), packet_id: Some(1), payload: tls.to_vec() };
        let _ = self.send(path, &sealed(&mut wrap, Opcode::Control, sid, &body));
        self.answers();
    }

    fn opened(&mut self, address: impl Into<IpAddr>) -> Path {
        self.connections += 1;
        let remote = (address.into(), 40_000).into();
        let path = Path::Tcp { connection: ConnectionId(self.connections), remote };
        self.server.handle_command(self.now, Command::Opened { path });
        self.answers();
        path
    }

    fn advance(&mut self, time: Duration) {
        self.now += time;
        self.server.handle_timeout(self.now);
        self.answers();
    }

    /// A client connects from there, while something else happens before each of its datagrams.
    fn connects(&mut self, path: Path, mut meanwhile: impl FnMut(&mut World)) -> bool {
        let there = match path {
            Path::Udp { .. } | Path::Ip { .. } => udp(([192, 0, 2, 1], 1194)),
            Path::Tcp { connection, .. } => Path::Tcp { connection, remote: ([192, 0, 2, 1], 1194).into() },
        };
        let mut client = Client::new(self.client.clone(), self.now, [1; 32]);
        let now = self.now;
        loop {
            let mut sent = Vec::new();
            drive_with(
                &mut client,
                |client, event| {
                    if let Event::Open { .. } = event {
                        client.handle_command(now, Command::Opened { path: there });
                    }
                },
                |_, datagram| sent.push(datagram.to_vec()),
            );
            if sent.is_empty() {
                return self.server.peers().iter().any(|(_, info)| info.path == path);
            }
            for datagram in sent {
                meanwhile(self);
                let _ = self.server.handle_datagram(now, path, &datagram);
                for (to, datagram) in self.answers() {
                    if to == path {
                        let _ = client.handle_datagram(now, there, &datagram);
                    }
                }
            }
        }
    }

    fn usage(&self, name: &str) -> TableUsage {
        self.server.tables().into_iter().find(|table| table.name == name).unwrap()
    }

    fn closed(&self) -> BTreeSet<Path> {
        let path = |event: &Event| if let Event::Close { path } = event { Some(*path) } else { None };
        self.events.iter().filter_map(path).collect()
    }

    fn lines(&self) -> Vec<&str> {
        let mut lines = Vec::new();
        for event in &self.events {
            if let Event::Report(report) = event {
                lines.push(report.text.as_str());
            }
        }
        lines
    }

    fn scripts(&self) -> Vec<ScriptId> {
        let id = |event: &Event| {
            if let Event::Request(Request::RunScript(script)) = event { Some(script.id) } else { None }
        };
        self.events.iter().filter_map(id).collect()
    }

    fn script_ends(&mut self, id: ScriptId, exit: Result<i32, String>) {
        let outcome = ScriptOutcome { exit, files: Vec::new(), settings: None };
        self.server.handle_reply(self.now, Reply::ScriptDone { id, outcome });
        self.answers();
    }
}

fn sealed(wrap: &mut Wrap, opcode: Opcode, sid: Sid, body: &ControlBody) -> Vec<u8> {
    let (mut bytes, mut datagram) = (Vec::new(), Vec::new());
    body.encode(&mut bytes);
    wrap.seal(Header { opcode, key_id: 0 }, sid, &bytes, &mut datagram).unwrap();
    datagram
}

fn sid(number: u32) -> Sid {
    let [a, b, c, d] = number.to_be_bytes();
    Sid([7, 7, 7, 7, a, b, c, d])
}

/// The start of a TLS record: the server waits for the rest.
const STUMP: &[u8] = &[22];
/// A TLS record that is none.
const GARBAGE: &[u8] = &[22, 3, 1, 0, 4, 0xff, 0, 0, 0];

/// The first message of a TLS client.
fn client_hello() -> Vec<u8> {
    let authority = Authority::new();
    let client = client_params(&authority.issue("mallory", ClientAuth), WrapConfig::Plain, Transport::Udp);
    let mut tls = adit_openvpn::tls::TlsChannel::new(&client.control.tls).unwrap();
    tls.take_output(4000)
}

fn v4(network: u8, port: u16) -> Path {
    udp(([198, 51, network, 9], 2000 + port))
}

#[test]
fn a_full_table_of_handshakes_lets_others_in() {
    let mut world = World::new(Transport::Udp, |_| {});
    let mut number = 0;
    let mut attack = |world: &mut World, count: u16| {
        for port in 0..count {
            number += 1;
            world.begin(v4(u8::try_from(number % 8).unwrap(), 100 + port), sid(number), STUMP);
        }
    };
    attack(&mut world, 2000);
    assert_eq!(world.usage(HANDSHAKES).entries, 1024);
    let up = world.connects(udp(([192, 0, 2, 2], 40_000)), |world| attack(world, 200));
    assert!(up && world.usage(HANDSHAKES).entries == 1024);
    assert!(world.usage(HANDSHAKES).evicted > 900);
    let told = world.lines().iter().filter(|line| line.starts_with("too many handshakes")).count();
    assert_eq!(told, 1);
}

#[test]
fn one_address_has_its_share_of_handshakes_and_the_least_advanced_goes_first() {
    let mut world = World::new(Transport::Udp, |_| {});
    let hello = client_hello();
    world.begin(v4(1, 0), sid(1), &hello);
    for number in 1..500 {
        world.begin(v4(1, number), sid(number.into()), STUMP);
    }
    assert_eq!((world.usage(HANDSHAKES).entries, world.usage(HANDSHAKES).evicted), (128, 500 - 128));
    // The oldest had an answer by TLS, and is there still: what belongs to it is not an unknown control channel's.
    let body = ControlBody { packet_id: Some(2), payload: vec![22], ..ControlBody::default() };
    let more = |number| sealed(&mut Wrap::plain(), Opcode::Control, sid(number), &body);
    assert_eq!(world.send(v4(1, 0), &more(1)), Ok(()));
    assert!(world.send(v4(1, 1), &more(1)).is_err());
}

/// A /61 holds eight /64s.
#[test]
fn handshakes_from_an_ipv6_network_are_limited_by_56_and_48_too() {
    let mut world = World::new(Transport::Udp, |_| {});
    let at = |part: u16, net: u16, port: u16| {
        udp((Ipv6Addr::new(0x2001, 0xdb8, 1, part << 8 | net, 0, 0, 0, 9), 2000 + port))
    };
    for net in 0..8 {
        (0..130).for_each(|port| world.begin(at(0, net, port), sid((net * 1000 + port).into()), STUMP));
    }
    assert_eq!(world.usage(HANDSHAKES).entries, 256, "a /56");
    for part in 1..8 {
        (0..130).for_each(|port| world.begin(at(part, 0, port), sid((port + 9000).into()), STUMP));
    }
    assert_eq!(world.usage(HANDSHAKES).entries, 512, "a /48");
    let elsewhere = udp((Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 9), 2000));
    assert!(world.connects(elsewhere, |_| {}));
}

#[test]
fn silent_connections_of_one_address_keep_no_other_out() {
    let mut world = World::new(Transport::Tcp, |_| {});
    let first = world.opened([198, 51, 100, 1]);
    for _ in 0..1100 {
        world.opened([198, 51, 100, 1]);
    }
    assert_eq!((world.usage(SILENT).entries, world.closed().contains(&first)), (64, true));
    let here = world.opened([192, 0, 2, 2]);
    let up = world.connects(here, |world| {
        for _ in 0..100 {
            world.opened([198, 51, 100, 1]);
        }
    });
    assert!(up && !world.closed().contains(&here), "{:?}", world.lines());
    // All addresses of an IPv6 network and many of IPv4: a host that has one connection keeps it.
    let here = world.opened([192, 0, 2, 3]);
    for number in 0..5000_u16 {
        world.opened(Ipv6Addr::new(0x2001, 0xdb8, number % 64, number, 0, 0, 0, number));
        world.opened([198, 51, 100, (number % 32) as u8]);
    }
    assert_eq!(world.usage(SILENT).entries, 1024);
    assert!(world.connects(here, |_| {}));
}

#[test]
fn a_connection_has_little_time_for_its_first_packet_and_garbage_ends_it() {
    let mut world = World::new(Transport::Tcp, |_| {});
    let silent = world.opened([198, 51, 100, 1]);
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x38; 5], &[0x20; 40]] {
        let path = world.opened([198, 51, 100, 1]);
        assert!(world.send(path, garbage).is_err());
        world.answers();
        assert!(world.closed().contains(&path), "{garbage:?}");
    }
    world.advance(seconds(9));
    assert!(!world.closed().contains(&silent));
    world.advance(seconds(1));
    assert!(world.closed().contains(&silent));
    assert_eq!(world.usage(SILENT).entries, 0);
}

/// `remote` without `float`: OpenVPN takes no packet from elsewhere (socket.h `link_socket_verify_incoming_addr`).
#[test]
fn a_connection_from_where_the_peer_may_not_be_is_closed() {
    let mut world = World::new(Transport::Tcp, |server| {
        let only_from = Some(vec!["192.0.2.2".parse().unwrap()]);
        server.point_to_point = Some(PointToPointParams { only_from, ..PointToPointParams::default() });
    });
    let (elsewhere, here) = (world.opened([198, 51, 100, 1]), world.opened([192, 0, 2, 2]));
    assert_eq!(world.closed(), BTreeSet::from([elsewhere]));
    assert_eq!(world.usage(SILENT).entries, 1, "{here}");
}

#[test]
fn peers_that_never_authenticate_have_few_lines_in_the_log() {
    let mut world = World::new(Transport::Udp, |_| {});
    for number in 0..2000 {
        world.begin(v4((number % 250) as u8, number), sid(number.into()), GARBAGE);
    }
    assert_eq!(world.lines().len(), 64, "{:?}", world.lines());
    world.events.clear();
    world.advance(seconds(60));
    let [summary] = world.lines()[..] else { panic!("{:?}", world.lines()) };
    assert!(summary.starts_with("1936 lines about peers that did not authenticate"), "{summary}");
    // One address.
    world.advance(seconds(60));
    world.events.clear();
    (0..1000).for_each(|port| world.begin(v4(1, port), sid(port.into()), GARBAGE));
    assert_eq!(world.lines().len(), 8, "{:?}", world.lines());
    // A client's failure from elsewhere is logged, and lines about clients that are in are not limited.
    world.begin(v4(2, 0), sid(2), GARBAGE);
    assert_eq!(world.lines().len(), 9);
    assert!(world.connects(v4(1, 5000), |_| {}));
    let peer = world.server.peers()[0].0;
    world.server.handle_command(world.now, Command::Disconnect { peer });
    world.answers();
    assert!(world.lines().last().unwrap().contains("disconnected on request"), "{:?}", world.lines());
}

#[test]
fn source_port_0_is_not_answered() {
    let mut world = World::new(Transport::Udp, |_| {});
    let body = ControlBody { packet_id: Some(0), ..ControlBody::default() };
    let reset = sealed(&mut Wrap::plain(), Opcode::HardResetClientV2, sid(1), &body);
    assert_eq!(world.send(udp(([192, 0, 2, 2], 0)), &reset), Err(Rejected::Unexpected("source port 0")));
    assert!(world.answers().is_empty());
    assert_eq!((world.send(udp(([192, 0, 2, 2], 1)), &reset), world.answers().len()), (Ok(()), 1));
}

const KEY_SCRIPT: &str = "tls-crypt-v2-verify";

/// A server that judges keys, and the wrapping of clients with two of its keys.
fn judging(transport: Transport) -> (World, [WrapConfig; 2]) {
    let key = ServerKey::from_bytes(&[9; 128]);
    let client = |number: u8| {
        let metadata = Metadata::User(vec![number]);
        WrapConfig::tls_crypt_v2(&key.wrap(&StaticKey::from_bytes(&[number; 256]), &metadata).unwrap())
    };
    let wraps = [1, 2].map(client);
    let world = World::new(transport, |server| {
        server.admission.v2 = Some(TlsCryptV2 { key: key.into(), force_cookie: true, max_age: None });
        server.access.key_verify = Some(vec!["/judge".to_owned()]);
    });
    (world, wraps)
}

/// A client with that key returns the cookie.
fn brings_key(world: &mut World, path: Path, config: &WrapConfig, number: u32) -> Result<(), Rejected> {
    let mut wrap = config.instantiate(UnixTime(WALL));
    let reset = ControlBody { packet_id: Some(0), ..ControlBody::default() };
    world.send(path, &sealed(&mut wrap, Opcode::HardResetClientV3, sid(number), &reset))?;
    let answers = world.answers();
    let (_, answer) = answers.iter().rev().find(|(to, _)| *to == path).unwrap();
    let cookie = Sid(answer[1..9].try_into().unwrap());
    let body = ControlBody { acks: vec![0], peer_sid: Some(cookie), packet_id: Some(1), payload: vec![22] };
    let outcome = world.send(path, &sealed(&mut wrap, Opcode::ControlWkc, sid(number), &body));
    world.answers();
    outcome
}

#[test]
fn a_refused_key_costs_one_script_and_one_line_and_keeps_no_other_out() {
    let (mut world, [bad, good]) = judging(Transport::Udp);
    let attack = |world: &mut World| {
        for number in 0..1000 {
            let _ = brings_key(world, v4((number % 5) as u8, number as u16), &bad, number);
        }
    };
    attack(&mut world);
    assert_eq!(world.scripts().len(), 1, "{:?}", world.usage("clients whose keys are being judged"));
    world.script_ends(world.scripts()[0], Ok(1));
    attack(&mut world);
    let lines = world.lines().into_iter().filter(|line| line.contains(KEY_SCRIPT)).count();
    assert_eq!((world.scripts().len(), lines), (1, 1));
    brings_key(&mut world, v4(200, 1), &good, 5000).unwrap();
    let [_, asked] = world.scripts()[..] else { panic!("{:?}", world.scripts()) };
    world.script_ends(asked, Ok(0));
    assert_eq!(world.server.half_open(), 1);
    // It is asked again when a while has passed.
    world.advance(seconds(60));
    brings_key(&mut world, v4(1, 1), &bad, 1).unwrap();
    assert_eq!(world.scripts().len(), 3);
}

#[test]
fn clients_with_one_key_wait_for_one_answer() {
    let (mut world, [key, other]) = judging(Transport::Udp);
    for number in 0..3 {
        brings_key(&mut world, v4(number as u8, 1), &key, number).unwrap();
    }
    brings_key(&mut world, v4(9, 1), &other, 9).unwrap();
    assert_eq!((world.scripts().len(), world.server.half_open()), (2, 0));
    world.script_ends(world.scripts()[0], Ok(0));
    assert_eq!(world.server.half_open(), 3);
}

/// A script that could not run says nothing of the key.
#[test]
fn a_key_whose_script_failed_is_judged_again_soon() {
    let (mut world, [key, _]) = judging(Transport::Udp);
    brings_key(&mut world, v4(1, 1), &key, 1).unwrap();
    world.script_ends(world.scripts()[0], Err("too many scripts wait".to_owned()));
    assert!(brings_key(&mut world, v4(1, 2), &key, 2).is_err());
    world.advance(seconds(5));
    brings_key(&mut world, v4(1, 3), &key, 3).unwrap();
    assert_eq!(world.scripts().len(), 2);
}

#[test]
fn keys_that_are_judged_have_limits_by_source() {
    let (mut world, _) = judging(Transport::Udp);
    let key = ServerKey::from_bytes(&[9; 128]);
    for number in 0..100 {
        let metadata = Metadata::User(vec![number, 1]);
        let bytes = StaticKey::from_bytes(&[7; 256]);
        let config = WrapConfig::tls_crypt_v2(&key.wrap(&bytes, &metadata).unwrap());
        brings_key(&mut world, v4(1, number.into()), &config, number.into()).unwrap();
    }
    let waiting = world.usage("clients whose keys are being judged");
    assert_eq!((waiting.entries, waiting.evicted), (64, 36));
    let dropped =
        world.events.iter().filter(|event| matches!(event, Event::Request(Request::CancelScript(_)))).count();
    assert_eq!(dropped, 36, "nobody waits for these scripts");
}

#[test]
fn a_connection_whose_key_is_being_judged_is_not_closed_for_its_silence() {
    let (mut world, [key, _]) = judging(Transport::Tcp);
    let path = world.opened([192, 0, 2, 2]);
    let mut wrap = key.instantiate(UnixTime(WALL));
    let reset = ControlBody { packet_id: Some(0), ..ControlBody::default() };
    world.send(path, &sealed(&mut wrap, Opcode::HardResetClientV3, sid(1), &reset)).unwrap();
    world.advance(seconds(30));
    assert!(world.closed().is_empty());
    world.script_ends(world.scripts()[0], Ok(1));
    assert_eq!(world.closed(), BTreeSet::from([path]));
}
