//! Faults that OpenVPN had, each with a test that fails if adit had it too. Names carry the CVE's number.

mod client_keys;
mod control_channels;

use std::time::Duration;

use adit_core::{
    Command, Instant, Path, PeerId, Protocol, Rejected, Transport, TunnelSettings, UnixTime, drive_with,
};
use adit_openvpn::control_message::{MessageError, split};
use adit_openvpn::params::{ClientParams, ServerParams, TlsCryptV2};
use adit_openvpn::reliable::SendWindow;
use adit_openvpn::request::Event;
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::testing::{Authority, WALL, client_params, server_params};
use adit_openvpn::wire::{ControlBody, Header, Opcode, Sid};
use adit_openvpn::wrap::v2::{ClientKey, Metadata, ServerKey};
use adit_openvpn::wrap::{HmacDigest, KeyDirection, WrapConfig};
use adit_openvpn::{Client, Server, TlsRole};
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};

/// A client, a server, and the test between them, which decides which datagrams each gets.
struct Ends {
    client: Client,
    server: Server,
    now: Instant,
    params: ClientParams,
    /// The client's settings of its tunnel.
    settings: Option<TunnelSettings>,
    /// Clients that went down at the server.
    downs: usize,
}

fn here() -> Path {
    Path::Udp { socket: 0, remote: "192.0.2.2:40000".parse().unwrap() }
}

fn elsewhere() -> Path {
    Path::Udp { socket: 0, remote: "192.0.2.3:40000".parse().unwrap() }
}

fn there() -> Path {
    Path::Udp { socket: 0, remote: "192.0.2.1:1194".parse().unwrap() }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Ends {
    fn new(client: ClientParams, server: ServerParams) -> Self {
        let now = Instant::ORIGIN + seconds(1000);
        let (params, server) = (client.clone(), Server::new(server, now, [2; 32]));
        Ends { client: Client::new(client, now, [1; 32]), server, now, params, settings: None, downs: 0 }
    }

    fn wrapped(client: WrapConfig, server: WrapConfig) -> Self {
        let [client, server] = [client, server];
        let authority = Authority::new();
        let client = client_params(&authority.issue("alice", ClientAuth), client, Transport::Udp);
        Ends::new(client, server_params(&authority.issue("server", ServerAuth), server))
    }

    fn plain() -> Self {
        Ends::wrapped(WrapConfig::Plain, WrapConfig::Plain)
    }

    /// The ends with tls-crypt-v2.
    fn v2() -> Self {
        let authority = Authority::new();
        let wrap = WrapConfig::tls_crypt_v2(&client_key(7));
        let client = client_params(&authority.issue("alice", ClientAuth), wrap, Transport::Udp);
        let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
        server.admission.v2 =
            Some(TlsCryptV2 { key: server_key().into(), force_cookie: false, max_age: None });
        Ends::new(client, server)
    }

    /// The client's datagrams.
    fn client_says(&mut self) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        drive_with(
            &mut self.client,
            |client, event| match event {
                Event::Open { .. } => client.handle_command(self.now, Command::Opened { path: there() }),
                Event::Up(settings) => self.settings = Some(settings),
                _ => {}
            },
            |_, datagram| datagrams.push(datagram.to_vec()),
        );
        datagrams
    }

    /// The server's datagrams.
    fn server_says(&mut self) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        drive_with(
            &mut self.server,
            |_, event| self.downs += usize::from(matches!(event, Event::PeerDown { .. })),
            |_, datagram| datagrams.push(datagram.to_vec()),
        );
        datagrams
    }

    fn tell_server(&mut self, datagram: &[u8]) -> Result<(), Rejected> {
        self.server.handle_datagram(self.now, here(), datagram)
    }

    fn tell_client(&mut self, datagram: &[u8]) -> Result<(), Rejected> {
        self.client.handle_datagram(self.now, there(), datagram)
    }

    /// Delivers everything until both are silent.
    fn run(&mut self) {
        loop {
            let up = self.client_says();
            for datagram in &up {
                let _ = self.tell_server(datagram);
            }
            let down = self.server_says();
            for datagram in &down {
                let _ = self.tell_client(datagram);
            }
            if up.is_empty() && down.is_empty() {
                return;
            }
        }
    }

    /// Delivers all datagrams until the server has let the client in, which has no message of that yet.
    fn until_server_is_up(&mut self) {
        for _ in 0..100 {
            for datagram in self.client_says() {
                let _ = self.tell_server(&datagram);
            }
            if self.server.peers().len() == 1 {
                return;
            }
            for datagram in self.server_says() {
                let _ = self.tell_client(&datagram);
            }
        }
        panic!("the server does not let the client in");
    }

    /// Goes on to the third packet, which is not delivered.
    fn until_third(&mut self) -> Vec<u8> {
        let reset = self.client_says().remove(0);
        self.tell_server(&reset).unwrap();
        self.third()
    }

    /// The third packet, when the reset was delivered.
    fn third(&mut self) -> Vec<u8> {
        assert_eq!(self.server.half_open(), 0, "nothing is kept for a first packet");
        let answer = self.server_says().remove(0);
        self.tell_client(&answer).unwrap();
        self.client_says().remove(0)
    }

    fn is_up(&self) -> bool {
        self.client.peers().len() == 1 && self.server.peers().len() == 1
    }

    /// Time passes, and the server notices.
    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.server.handle_timeout(self.now);
    }
}

fn server_key() -> ServerKey {
    ServerKey::from_bytes(&[9; 128])
}

fn client_key(byte: u8) -> ClientKey {
    server_key().wrap(&StaticKey::from_bytes(&[byte; 256]), &Metadata::User(vec![1; 20])).unwrap()
}

/// A control packet without wrapping.
fn packet(opcode: Opcode, key_id: u8, sid: Sid, body: &ControlBody) -> Vec<u8> {
    let (mut bytes, mut datagram) = (Vec::new(), Vec::new());
    body.encode(&mut bytes);
    let mut wrap = WrapConfig::Plain.instantiate(UnixTime(WALL));
    wrap.seal(Header { opcode, key_id }, sid, &bytes, &mut datagram).unwrap();
    datagram
}

fn sid_of(datagram: &[u8]) -> Sid {
    Sid(datagram[1..9].try_into().unwrap())
}

/// The body of a packet without wrapping.
fn body_of(datagram: &[u8]) -> ControlBody {
    let opened = WrapConfig::Plain.open(datagram).unwrap();
    ControlBody::decode(opened.header.opcode, &opened.body).unwrap()
}

// Before authentication.

#[test]
fn cve_2025_13086_a_cookie_opens_for_its_client_alone() {
    let mut ends = Ends::plain();
    let third = ends.until_third();
    // op, sid, one ack, its id: the cookie is at 14.
    for bit in 0..64 {
        let mut guess = third.clone();
        guess[14 + bit / 8] ^= 1 << (bit % 8);
        assert!(ends.tell_server(&guess).is_err(), "a changed cookie");
    }
    let other = Path::Udp { socket: 0, remote: "192.0.2.2:40001".parse().unwrap() };
    for path in [elsewhere(), other] {
        assert!(ends.server.handle_datagram(ends.now, path, &third).is_err(), "from {path}");
    }
    let mut another_sid = third.clone();
    another_sid[1] ^= 1;
    assert!(ends.tell_server(&another_sid).is_err());
    assert_eq!((ends.server.half_open(), ends.server_says().len()), (0, 0));
    ends.tell_server(&third).unwrap();
    assert_eq!(ends.server.half_open(), 1);
}

#[test]
fn cve_2025_13086_a_cookie_of_another_time_opens_nothing() {
    // A cookie is good for three slots of half a hand-window (60 s): its own and the two after it.
    for (later, opens) in [(0, true), (59, true), (200, false)] {
        let mut ends = Ends::plain();
        let third = ends.until_third();
        ends.now += seconds(later);
        assert_eq!(ends.tell_server(&third).is_ok(), opens, "after {later} s");
    }
    // One that the same server makes in a while.
    let mut ends = Ends::plain();
    ends.now += seconds(60);
    let early = ends.until_third();
    ends.now = Instant::ORIGIN + seconds(1000);
    assert!(ends.tell_server(&early).is_err(), "a slot that has not come");
    assert_eq!(ends.server.half_open(), 0);
}

#[test]
fn a_third_packet_is_one_of_the_first() {
    let mut ends = Ends::plain();
    let third = ends.until_third();
    let (sid, body) = (sid_of(&third), body_of(&third));
    let early = ControlBody { acks: vec![0], ..body.clone() };
    for late in [
        ControlBody { packet_id: Some(2), ..early.clone() },
        ControlBody { packet_id: Some(u32::MAX), ..early.clone() },
        ControlBody { acks: vec![2], ..early.clone() },
        ControlBody { acks: vec![0, 1, 2], ..early.clone() },
    ] {
        assert!(ends.tell_server(&packet(Opcode::Control, 0, sid, &late)).is_err(), "{late:?}");
    }
    assert!(ends.tell_server(&packet(Opcode::Control, 1, sid, &early)).is_err(), "another key id");
    assert_eq!(ends.server.half_open(), 0);
    ends.tell_server(&packet(Opcode::Control, 0, sid, &early)).unwrap();
}

#[test]
fn cve_2017_7478_an_oversize_first_control_packet_is_refused_at_once() {
    let mut ends = Ends::plain();
    let third = ends.until_third();
    let (sid, mut body) = (sid_of(&third), body_of(&third));
    // A record as long as its header can say, of which the first 60,000 bytes come at once.
    body.payload = [vec![22, 3, 1, 0xff, 0xff], vec![1; 60_000]].concat();
    let _ = ends.tell_server(&packet(Opcode::Control, 0, sid, &body));
    assert_eq!(ends.server.half_open(), 0, "it is not waited for the rest");
    let _ = ends.server_says();
    ends.client = Client::new(ends.params.clone(), ends.now, [3; 32]);
    ends.run();
    assert!(ends.is_up(), "the server goes on");
}

#[test]
fn cve_2020_20813_a_crafted_reset_disturbs_no_control_channel() {
    let mut ends = Ends::plain();
    let sids = [ends.client_says(), ends.server_says()];
    assert_eq!((sids[0].len(), sids[1].len()), (1, 0));
    let client = sid_of(&sids[0][0]);
    ends.tell_server(&sids[0][0]).unwrap();
    let answer = ends.server_says().remove(0);
    let server = sid_of(&answer);
    ends.tell_client(&answer).unwrap();
    ends.run();
    assert!(ends.is_up());
    for id in 0..20 {
        let body = ControlBody { packet_id: Some(id), ..ControlBody::default() };
        for opcode in [Opcode::HardResetClientV2, Opcode::HardResetServerV2] {
            let _ = ends.tell_server(&packet(opcode, 0, client, &body));
            let _ = ends.tell_client(&packet(opcode, 0, server, &body));
        }
    }
    ends.run();
    assert!(ends.is_up(), "nobody was thrown out");
    ends.client.handle_command(ends.now, Command::Rekey { peer: PeerId::SERVER });
    ends.run();
    assert_eq!(ends.server.peers()[0].1.rekeys, 1, "and the control channel works");
}

#[test]
fn datagrams_of_every_length_are_refused_in_every_wrapping() {
    let key = StaticKey::from_bytes(&[7; 256]);
    let auth = |direction| WrapConfig::tls_auth(&key, HmacDigest::Sha512, direction);
    let crypt = |role| WrapConfig::tls_crypt(&key, role);
    let ends = [
        Ends::plain(),
        Ends::wrapped(auth(KeyDirection::Inverse), auth(KeyDirection::Normal)),
        Ends::wrapped(crypt(TlsRole::Client), crypt(TlsRole::Server)),
        Ends::v2(),
    ];
    for mut ends in ends {
        let reset = ends.client_says().remove(0);
        for opcode in 0..32u8 {
            for length in 0..reset.len() {
                let mut stump = reset[..length].to_vec();
                stump.first_mut().into_iter().for_each(|first| *first = opcode << 3);
                let _ = ends.tell_client(&stump);
                assert!(ends.tell_server(&stump).is_err(), "opcode {opcode}, {length} bytes");
            }
        }
        assert_eq!(ends.server.half_open(), 0);
    }
}

#[test]
fn cve_2026_84732_an_ack_of_what_was_not_sent_is_none() {
    let mut window = SendWindow::new();
    let now = Instant::ORIGIN;
    for byte in 0..3 {
        window.push(now, Opcode::Control, vec![byte]);
    }
    assert_eq!(window.poll(now).unwrap().id, 0);
    window.acknowledge(now, &[1, 2, 3, 7, u32::MAX]);
    let rest: Vec<u32> = std::iter::from_fn(|| window.poll(now).map(|packet| packet.id)).collect();
    assert_eq!(rest, [1, 2], "they are sent all the same");
    window.acknowledge(now, &[0, 1, 2]);
    assert!(window.is_empty());
}

/// Client packets without wrapping, with session ids that no peer here has, and their packet id or acknowledgements,
/// from OpenVPN's tests/unit_tests/openvpn/test_pkt.c.
const PACKETS_OF_NOBODY: [&[u8]; 4] = [
    // An acknowledgement of 0.
    b"\x28\xae\xb9\xaf\xe1\xf0\x1d\x79\xc8\x01\0\0\0\0\xdd\x85\xdb\x53\x56\x23\xb0\x2e",
    // Of 0, 1 and 2.
    b"\x28\xae\xb9\xaf\xe1\xf0\x1d\x79\xc8\x03\0\0\0\0\0\0\0\x01\0\0\0\x02\xdd\x85\xdb\x53\x56\x23\xb0\x2e",
    // A control packet, cut short.
    b"\x20\xae\xb9\xaf\xe1\xf0\x1d\x79\xc8\x01\0\0\0\0\x02",
    // One with an acknowledgement.
    b"\x20\x78\x19\xbf\x2e\xbc\xd1\x9a\x45\x01\0\0\0\0\xea\xfe\xbf\xa4\x41\x8a\xe3\x1b\0\0\0\x01\x16\x03\x01",
];

#[test]
fn packets_of_openvpns_own_tests_begin_no_control_channel() {
    for packet in PACKETS_OF_NOBODY {
        let mut ends = Ends::plain();
        assert!(ends.tell_server(packet).is_err());
        assert_eq!((ends.server.half_open(), ends.server_says().len()), (0, 0));
        // With our cookie in its place, the first and the last are a third packet as it should be.
        let mut reset = vec![0x38];
        reset.extend_from_slice(&packet[1..9]);
        reset.extend_from_slice(&[0; 5]);
        ends.tell_server(&reset).unwrap();
        let cookie = sid_of(&ends.server_says()[0]);
        let at = if packet[0] == 0x28 { packet.len() - 8 } else { 14 };
        let mut third = packet.to_vec();
        if let Some(place) = third.get_mut(at..at + 8) {
            place.copy_from_slice(&cookie.0);
        }
        let good = packet[9] == 1 && packet.len() > 20;
        assert_eq!(ends.tell_server(&third).is_ok(), good);
        assert_eq!(ends.server.half_open(), usize::from(good));
    }
}

// Messages over the control channel.

#[test]
fn cve_2024_5594_a_message_with_unprintable_bytes_is_dropped_as_a_whole() {
    for junk in [&b"\x01"[..], b"\x1b[2J", b"\n", b"\r\nroute", b"\x7f", b"\xff", b"\xc2\x9b"] {
        let mut bytes = [b"PUSH_REPLY,ifconfig", junk, b" 10.0.0.1\0PUSH_REQUEST\0"].concat();
        let messages = split(&mut bytes);
        assert_eq!(messages[0], Err(MessageError::Unprintable), "{junk:?}");
        assert_eq!(messages[1].as_ref().unwrap().as_str(), "PUSH_REQUEST");
        assert_eq!(messages.len(), 2);
    }
    // The bytes after a NUL are another message, and never part of the first.
    let messages = split(&mut b"AUTH_FAILED\0,TEMP\0".to_vec());
    assert_eq!(messages[0].as_ref().unwrap().as_str(), "AUTH_FAILED");
}

#[test]
fn cve_2025_12106_addresses_that_are_pushed_are_read_whole_or_not_at_all() {
    for wrong in [
        "ifconfig-ipv6 fd00::1::2/64 fd00::2",
        "ifconfig-ipv6 fd00:1:2:3:4:5:6:7:8/64 fd00::2",
        "ifconfig-ipv6 fd00::1%eth0/64 fd00::2",
        "ifconfig-ipv6 fd00::1/129 fd00::2",
        "ifconfig-ipv6 /64 fd00::2",
        "ifconfig-ipv6 : fd00::2",
        "route-ipv6 2001:db8:::/32",
        "route-ipv6 2001:db8::/",
        "route-ipv6 2001:db8::/129",
        "route-ipv6 2001:db8::/32x",
        "route-ipv6 2001:db8::1%eth0",
        "route 10.0.0 255.0.0.0",
        "route 10.0.0.0.0 255.0.0.0",
        "route 10.1.0.0 255.0.255.0",
        "route 0x0a.1.0.0 255.255.0.0",
    ] {
        let authority = Authority::new();
        let client = client_params(&authority.issue("alice", ClientAuth), WrapConfig::Plain, Transport::Udp);
        let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
        server.push.push(wrong.to_owned());
        let mut ends = Ends::new(client, server);
        ends.run();
        // Without its own addresses there is no tunnel; a route is left out.
        let Some(settings) = ends.settings.take() else {
            assert!(wrong.starts_with("ifconfig"), "{wrong}");
            continue;
        };
        let routes: Vec<String> = settings.routes.iter().map(|route| route.destination.to_string()).collect();
        assert!(wrong.starts_with("route") && routes == ["10.20.0.0/16"], "{wrong}: {routes:?}");
    }
}
