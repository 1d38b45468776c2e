//! A server with one client that is up, and unauthenticated peers that send what the input says: raw bytes, and packets
//! in the right wrapping (an attacker may have the key of tls-auth or tls-crypt, or a client's own). They get no keys and
//! no tunnel, are answered no more often than they send, and do not disturb the client.
#![no_main]

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use adit_core::{Command, Instant, Path, PeerId, Protocol, Transport, UnixTime, drive_with};
use adit_openvpn::params::{ClientParams, ServerParams, TlsCryptV2};
use adit_openvpn::request::Event;
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wire::{ControlBody, Header, Opcode, Sid};
use adit_openvpn::wrap::v2::{Metadata, ServerKey};
use adit_openvpn::wrap::{HmacDigest, KeyDirection, Wrap, WrapConfig};
use adit_openvpn::{Client, Server, TlsRole, testing};
use libfuzzer_sys::fuzz_target;
use rcgen::ExtendedKeyUsagePurpose;

/// Both ends' parameters in each wrapping.
static PARAMS: LazyLock<Vec<(ClientParams, ServerParams)>> = LazyLock::new(|| {
    let key = StaticKey::from_bytes(&[7; 256]);
    let auth = |direction| WrapConfig::tls_auth(&key, HmacDigest::Sha256, direction);
    let server_key = Arc::new(ServerKey::from_bytes(&[9; 128]));
    let client_key = server_key.wrap(&key, &Metadata::User(b"alice".to_vec())).unwrap();
    let v2 = |force_cookie| Some(TlsCryptV2 { key: server_key.clone(), force_cookie, max_age: None });
    let own = WrapConfig::tls_crypt_v2(&client_key);
    let wraps = [
        (WrapConfig::Plain, WrapConfig::Plain, None),
        (auth(KeyDirection::Inverse), auth(KeyDirection::Normal), None),
        (own.clone(), WrapConfig::Plain, v2(false)),
        (own, WrapConfig::tls_crypt(&key, TlsRole::Server), v2(true)),
    ];
    let authority = testing::Authority::new();
    let alice = authority.issue("alice", ExtendedKeyUsagePurpose::ClientAuth);
    let server = authority.issue("server", ExtendedKeyUsagePurpose::ServerAuth);
    let params = wraps.into_iter().map(|(ours, theirs, v2)| {
        let mut params = testing::server_params(&server, theirs);
        params.admission.v2 = v2;
        (testing::client_params(&alice, ours, Transport::Udp), params)
    });
    params.collect()
});

const CLIENT: u8 = 1;

fn path(host: u8) -> Path {
    Path::Udp { socket: 0, remote: SocketAddr::from(([192, 0, 2, host], 1194)) }
}

struct World {
    now: Instant,
    server: Server,
    /// The last datagram that the server sent to each address, and their number.
    answers: BTreeMap<Path, (Vec<u8>, usize)>,
    /// The number of datagrams from each address.
    received: BTreeMap<Path, usize>,
    /// All that the client sent.
    recorded: Vec<Vec<u8>>,
    wrap: Wrap,
    warm: bool,
}

impl World {
    /// Takes all from the server; what is for the client is given back.
    fn drain(&mut self) -> VecDeque<Vec<u8>> {
        let mut for_client = VecDeque::new();
        let (warm, received, answers) = (self.warm, &self.received, &mut self.answers);
        drive_with(
            &mut self.server,
            |_, event| {
                assert!(!warm || !matches!(event, Event::Data(_) | Event::PeerUp { .. }), "{event:?}");
                assert!(!warm || !matches!(event, Event::PeerDown { .. }), "{event:?}");
            },
            |to, datagram| {
                if to == path(CLIENT) {
                    for_client.push_back(datagram.to_vec());
                } else {
                    assert!(received.contains_key(&to), "an answer to a peer that sent nothing");
                    let answer = answers.entry(to).or_default();
                    *answer = (datagram.to_vec(), answer.1 + 1);
                }
            },
        );
        for_client
    }

    fn receive(&mut self, from: Path, datagram: &[u8]) {
        *self.received.entry(from).or_default() += 1;
        let _ = self.server.handle_datagram(self.now, from, datagram);
        self.drain();
    }

    fn warm_up(&mut self, params: ClientParams) {
        let mut client = Client::new(params, self.now, [1; 32]);
        for _ in 0..40 {
            let mut waiting = self.drain();
            let (now, mut sent) = (self.now, Vec::new());
            drive_with(
                &mut client,
                |client, event| {
                    if let Event::Open { .. } = event {
                        client.handle_command(now, Command::Opened { path: path(200) });
                    }
                },
                |_, datagram| sent.push(datagram.to_vec()),
            );
            for datagram in sent {
                let _ = self.server.handle_datagram(now, path(CLIENT), &datagram);
                self.recorded.push(datagram);
                waiting.append(&mut self.drain());
            }
            for datagram in waiting {
                let _ = client.handle_datagram(self.now, path(200), &datagram);
            }
        }
        assert_eq!(self.server.peers().len(), 1, "the client is up");
        self.warm = true;
    }

    /// A packet in the wrapping. The session ids: the peer's own, the client's, the server's last answer.
    fn packet(&mut self, from: Path, [first, choice]: [u8; 2], rest: &[u8]) -> Option<Vec<u8>> {
        let header = Header::from_byte(first)?;
        if header.opcode.is_data() {
            return None;
        }
        let of_client = || Some(Sid(self.recorded.first()?.get(1..9)?.try_into().ok()?));
        let cookie = self.answers.get(&from).and_then(|(answer, _)| answer.get(1..9)?.try_into().ok());
        let own = Sid([1 + (choice & 3); 8]);
        let sid = if choice & 4 == 0 { own } else { of_client()? };
        let body = if choice & 8 == 0 {
            rest.to_vec()
        } else {
            let peer_sid = cookie.map(Sid);
            let acks = if choice & 16 == 0 { vec![0] } else { rest.iter().map(|id| (*id).into()).collect() };
            let packet_id = (header.opcode != Opcode::Ack).then_some(u32::from(choice >> 6));
            let payload = if choice & 32 == 0 { rest.to_vec() } else { Vec::new() };
            let mut body = Vec::new();
            ControlBody { acks, peer_sid, packet_id, payload }.encode(&mut body);
            body
        };
        let mut datagram = Vec::new();
        self.wrap.seal(header, sid, &body, &mut datagram).ok()?;
        Some(datagram)
    }

    fn step(&mut self, [action, value]: [u8; 2], rest: &[u8]) {
        let from = path(CLIENT + 1 + (value & 3));
        match action & 7 {
            0 => self.receive(from, rest),
            1 if !self.recorded.is_empty() => {
                // A datagram of the client, from elsewhere; perhaps with other bytes in front.
                let mut datagram = self.recorded[usize::from(value) % self.recorded.len()].clone();
                datagram.iter_mut().zip(rest).for_each(|(byte, other)| *byte ^= other);
                self.receive(from, &datagram);
            }
            2 => {
                self.now += Duration::from_millis(u64::from(value));
                self.server.handle_timeout(self.now);
                self.drain();
            }
            _ => {
                let Some((head, rest)) = rest.split_first_chunk() else { return };
                if let Some(datagram) = self.packet(from, *head, rest) {
                    self.receive(from, &datagram);
                }
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, mut script)) = data.split_first() else { return };
    let (client, server) = PARAMS[usize::from(choice & 3)].clone();
    let now = Instant::ORIGIN + Duration::from_secs(1);
    let wrap = client.control.wrap.instantiate(UnixTime(testing::WALL));
    let mut world = World {
        now,
        server: Server::new(server, now, [2; 32]),
        answers: BTreeMap::new(),
        received: BTreeMap::new(),
        recorded: Vec::new(),
        wrap,
        warm: false,
    };
    if choice & 4 != 0 {
        world.warm_up(client);
    } else {
        world.drain();
        world.warm = true;
    }
    let before: Vec<PeerId> = world.server.peers().iter().map(|(peer, _)| *peer).collect();
    // Each step: what to do, how, how many bytes follow.
    for _ in 0..24 {
        let Some((&[action, value, len], rest)) = script.split_first_chunk() else { break };
        let (bytes, rest) = rest.split_at(rest.len().min(4 * usize::from(len)));
        world.step([action, value], bytes);
        script = rest;
    }
    let after: Vec<PeerId> = world.server.peers().iter().map(|(peer, _)| *peer).collect();
    assert_eq!(after, before, "unauthenticated peers changed the peers that are up");
    assert!(world.server.half_open() <= world.received.values().sum());
    if world.server.half_open() == 0 {
        for (to, (_, count)) in &world.answers {
            assert!(count <= &world.received[to], "more answers than packets");
        }
    }
});
