//! How a server answers unauthenticated peers, packet by packet.
use std::net::SocketAddr;
use std::sync::Arc;

use adit_core::{Command, Instant, Path, Protocol, Rejected, UnixTime};
use adit_openvpn::Server;
use adit_openvpn::params::TlsCryptV2;
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::testing::{Authority, WALL, server_params};
use adit_openvpn::wire::{ControlBody, Header, Opcode, Sid};
use adit_openvpn::wrap::v2::{Metadata, ServerKey};
use adit_openvpn::wrap::{Wrap, WrapConfig};
use rcgen::ExtendedKeyUsagePurpose;

const NOW: Instant = Instant::from_nanos(1_000_000_000);

struct UnauthenticatedPeer {
    server: Server,
    path: Path,
}

impl UnauthenticatedPeer {
    fn new() -> Self {
        let server = Authority::new().issue("server", ExtendedKeyUsagePurpose::ServerAuth);
        let server = Server::new(server_params(&server, WrapConfig::Plain), NOW, [2; 32]);
        UnauthenticatedPeer {
            server,
            path: Path::Udp { socket: 0, remote: SocketAddr::from(([192, 0, 2, 9], 1194)) },
        }
    }

    fn send(&mut self, opcode: Opcode, body: ControlBody) -> Result<(), Rejected> {
        let (mut bytes, mut datagram) = (Vec::new(), Vec::new());
        body.encode(&mut bytes);
        Wrap::plain().seal(Header { opcode, key_id: 0 }, Sid([7; 8]), &bytes, &mut datagram).unwrap();
        self.server.handle_datagram(NOW, self.path, &datagram)
    }

    /// Sends a first packet; gives the cookie in the answer.
    fn reset(&mut self) -> Sid {
        let body = ControlBody { packet_id: Some(0), ..ControlBody::default() };
        self.send(Opcode::HardResetClientV2, body).unwrap();
        let mut cookie = None;
        let mut datagram = Vec::new();
        while self.server.poll_transmit(&mut datagram).is_some() {
            // There may be an acknowledgement of a control channel before.
            if datagram[0] >> 3 == Opcode::HardResetServerV2 as u8 {
                cookie = Some(Sid(datagram[1..9].try_into().unwrap()));
            }
            datagram.clear();
        }
        cookie.unwrap()
    }

    /// Sends the third packet of a handshake.
    fn begin(&mut self, cookie: Sid) -> Result<(), Rejected> {
        let body =
            ControlBody { acks: vec![0], peer_sid: Some(cookie), packet_id: Some(1), payload: vec![22] };
        self.send(Opcode::Control, body)
    }
}

#[test]
fn after_a_restart_no_control_channel_begins_by_an_earlier_answer() {
    let mut peer = UnauthenticatedPeer::new();
    let cookie = peer.reset();
    peer.begin(cookie).unwrap();
    assert_eq!(peer.server.half_open(), 1);
    peer.server.handle_command(NOW, Command::Restart);
    assert_eq!(peer.server.half_open(), 0);
    // The packet from before the restart, late or repeated by an attacker, under the ids that the last
    // control channel used.
    assert!(matches!(peer.begin(cookie), Err(Rejected::Unexpected(_))));
    assert_eq!(peer.server.half_open(), 0);
    let renewed = peer.reset();
    assert_ne!(renewed, cookie);
    peer.begin(renewed).unwrap();
    assert_eq!(peer.server.half_open(), 1);
}

/// An address that is forged in resets gets no more answers that are larger than these than `connect-freq-initial`
/// allows; of others there may be more, as they hit no address harder than the sender of the resets could.
#[test]
fn answers_to_one_address_have_limits() {
    let reset = |payload: usize| {
        let body = ControlBody { packet_id: Some(0), payload: vec![0; payload], ..ControlBody::default() };
        let (mut bytes, mut datagram) = (Vec::new(), Vec::new());
        body.encode(&mut bytes);
        let header = Header { opcode: Opcode::HardResetClientV2, key_id: 0 };
        Wrap::plain().seal(header, Sid([7; 8]), &bytes, &mut datagram).unwrap();
        datagram
    };
    // In 10 s, 200 a second.
    let answers = |datagram: &[u8]| {
        let (mut peer, mut answers, mut answer) = (UnauthenticatedPeer::new(), 0, Vec::new());
        for number in 0..2000 {
            let now = NOW + std::time::Duration::from_millis(5 * number);
            let _ = peer.server.handle_datagram(now, peer.path, datagram);
            while peer.server.poll_transmit(&mut answer).is_some() {
                answers += 1;
            }
        }
        answers
    };
    assert_eq!((answers(&reset(0)), answers(&reset(100))), (100, 500));
}

/// Answers wait until they can be sent, but not without end.
#[test]
fn answers_that_nobody_takes_do_not_pile_up() {
    let mut peer = UnauthenticatedPeer::new();
    let mut answered = 0;
    for number in 0..10_000_u16 {
        let [high, low] = number.to_be_bytes();
        peer.path = Path::Udp { socket: 0, remote: SocketAddr::from(([10, high, low, 9], 1194)) };
        let reset = ControlBody { packet_id: Some(0), ..ControlBody::default() };
        answered += usize::from(peer.send(Opcode::HardResetClientV2, reset).is_ok());
    }
    assert_eq!(answered, 256);
    let mut datagram = Vec::new();
    let sent = std::iter::from_fn(|| peer.server.poll_transmit(&mut datagram)).count();
    assert_eq!(sent, 256);
    let _ = peer.reset();
}

/// A first packet as a tls-crypt-v2 client of 2.6 or an older one sends it, with a session id of its own, and the same forged.
fn v2_resets(key: &ServerKey, old: bool, sid: u8) -> [Vec<u8>; 2] {
    let client = key.wrap(&StaticKey::from_bytes(&[9; 256]), &Metadata::User(Vec::new())).unwrap();
    let config = WrapConfig::tls_crypt_v2(&client);
    let mut wrap = match old {
        true => config.instantiate_after(UnixTime(WALL), 0),
        false => config.instantiate(UnixTime(WALL)),
    };
    let (mut bytes, mut genuine) = (Vec::new(), Vec::new());
    ControlBody { packet_id: Some(0), ..ControlBody::default() }.encode(&mut bytes);
    let header = Header { opcode: Opcode::HardResetClientV3, key_id: 0 };
    wrap.seal(header, Sid([sid, 7, 7, 7, 7, 7, 7, 7]), &bytes, &mut genuine).unwrap();
    let mut forged = genuine.clone();
    forged[100] ^= 1;
    [genuine, forged]
}

fn v2_server(force_cookie: bool) -> (UnauthenticatedPeer, Arc<ServerKey>) {
    let key = Arc::new(ServerKey::from_bytes(&[5; 128]));
    let credentials = Authority::new().issue("server", ExtendedKeyUsagePurpose::ServerAuth);
    let mut params = server_params(&credentials, WrapConfig::Plain);
    params.admission.v2 = Some(TlsCryptV2 { key: Arc::clone(&key), force_cookie, max_age: None });
    let peer =
        UnauthenticatedPeer { server: Server::new(params, NOW, [2; 32]), ..UnauthenticatedPeer::new() };
    (peer, key)
}

/// A packet that is refused whatever is inside is refused before its wrapping is opened, which is its highest cost: a
/// forged packet is then called one too many, not a forged one.
#[test]
fn what_would_be_refused_anyhow_is_not_opened() {
    let (mut peer, key) = v2_server(false);
    let [genuine, forged] = v2_resets(&key, false, 50);
    let path = peer.path;
    let mut send = |datagram: &[u8]| {
        let result = peer.server.handle_datagram(NOW, path, datagram);
        while peer.server.poll_transmit(&mut Vec::new()).is_some() {}
        result
    };
    for _ in 0..100 {
        assert!(matches!(send(&forged), Err(Rejected::Unauthentic(_))), "it does not count");
    }
    for sid in 0..50 {
        let [genuine, _] = v2_resets(&key, false, sid);
        assert_eq!(send(&genuine), Ok(()));
    }
    assert!(matches!(send(&genuine), Err(Rejected::Limited(_))));
    assert!(matches!(send(&forged), Err(Rejected::Limited(_))));
}

/// Nor are copies of a packet that was answered, wherever they come from; another packet is.
#[test]
fn copies_of_a_first_packet_are_not_opened() {
    let (mut peer, key) = v2_server(false);
    let [genuine, forged] = v2_resets(&key, false, 1);
    let [other, _] = v2_resets(&key, false, 2);
    let mut send = |number: u8, seconds: u64, datagram: &[u8]| {
        let path = Path::Udp { socket: 0, remote: SocketAddr::from(([192, 0, number, 9], 1194)) };
        let now = NOW + std::time::Duration::from_secs(seconds);
        let result = peer.server.handle_datagram(now, path, datagram);
        while peer.server.poll_transmit(&mut Vec::new()).is_some() {}
        result
    };
    for number in 0..100 {
        assert!(matches!(send(number, 0, &forged), Err(Rejected::Unauthentic(_))), "it does not count");
    }
    for number in 0..4 {
        assert_eq!(send(number, 0, &genuine), Ok(()));
    }
    for datagram in [&genuine, &forged] {
        assert!(matches!(send(4, 9, datagram), Err(Rejected::Limited(why)) if why.contains("copies")));
    }
    assert_eq!(send(4, 9, &other), Ok(()));
    assert_eq!(send(4, 10, &genuine), Ok(()), "ten seconds later");
}

/// Likewise of clients that cannot prove their address, for which there is little room, or none.
#[test]
fn old_clients_without_room_are_not_opened() {
    let (mut peer, key) = v2_server(false);
    let [genuine, forged] = v2_resets(&key, true, 7);
    let mut send = |number: u8, datagram: &[u8]| {
        let path = Path::Udp { socket: 0, remote: SocketAddr::from(([192, 0, number, 9], 1194)) };
        peer.server.handle_datagram(NOW, path, datagram)
    };
    assert!(matches!(send(200, &forged), Err(Rejected::Unauthentic(_))));
    for number in 0..64 {
        assert_eq!(send(number, &genuine), Ok(()));
    }
    assert!(matches!(send(200, &forged), Err(Rejected::Limited(_))));
    assert!(matches!(send(200, &genuine), Err(Rejected::Limited(_))));

    let (mut peer, key) = v2_server(true);
    for datagram in v2_resets(&key, true, 7) {
        let result = peer.server.handle_datagram(NOW, peer.path, &datagram);
        assert!(
            matches!(result, Err(Rejected::Unexpected(why)) if why.contains("force-cookie")),
            "{result:?}"
        );
    }
}
