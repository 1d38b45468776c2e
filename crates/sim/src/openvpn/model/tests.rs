use adit_core::{Cipher, ReplayWindow};
use adit_openvpn::codec::{
    Codec, Compression, DataFraming, DataHeader, DirectionKey, Framing, MacKey, Payloads, session_id,
};

use super::*;
use crate::packet;

const NOW: Instant = Instant::from_nanos(1_000_000_000);

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn scenario() -> Scenario {
    let mut scenario = Scenario::from_seed(0);
    scenario.clients = 2;
    scenario.control.wrapping = Wrapping::TlsCrypt;
    for timing in &mut scenario.control.timing {
        timing.hand_window = Duration::from_secs(60);
    }
    (scenario.latency.orders, scenario.latency.wake) = (Duration::ZERO, Duration::ZERO);
    (scenario.server.client_configs, scenario.server.persist_pool, scenario.server.tight_pool) =
        (true, true, false);
    scenario.control.max_packet_size = 1250;
    scenario
}

/// A model in which client 1 is up as peer 7 with 10.8.0.2 and 10.66.1.0/24 behind it, and client 2 is not.
fn model(client_to_client: bool) -> Model {
    let mut scenario = scenario();
    scenario.server.client_to_client = client_to_client;
    let mut model = Model::new(&scenario);
    let up = Some((NOW, vec![address("10.8.0.2")]));
    model.tunnels[0] = Tunnel { client: up.clone(), server: up, peer: Some(PeerId(7)), left: None };
    model
}

fn send(model: &mut Model, from: (usize, &str), to: (usize, &str), forged: bool) -> Vec<u8> {
    let (source, destination) = (address(from.1), address(to.1));
    model.send(NOW, (from.0, source), (to.0, destination), 50, (forged, true))
}

fn text<T>(result: Result<T, Violation>) -> String {
    result.map_or_else(|violation| violation.to_string(), |_| "fine".to_owned())
}

#[test]
fn a_packet_arrives_once_and_unchanged() {
    let mut model = model(false);
    let packet = send(&mut model, (1, "10.8.0.2"), (SERVER, "10.8.0.1"), false);
    let mut changed = packet.clone();
    *changed.last_mut().unwrap() ^= 1;
    assert!(text(model.deliver(NOW, SERVER, &changed)).contains("arrived changed"));
    assert_eq!(model.deliver(NOW, SERVER, &packet), Ok(1));
    assert!(text(model.deliver(NOW, SERVER, &packet)).contains("arrived twice"));
    assert!(
        text(model.deliver(NOW, SERVER, &packet::build(9, address("::1"), address("::2"), 8)))
            .contains("no end sent")
    );
    assert!(text(model.deliver(NOW, SERVER, &[])).contains("no end sent"));
}

#[test]
fn a_packet_arrives_where_it_should() {
    let mut model = model(false);
    let down = send(&mut model, (SERVER, "10.8.0.1"), (1, "10.8.0.2"), false);
    assert!(text(model.deliver(NOW, 2, &down)).contains("arrived at end 2"));
    assert_eq!(model.deliver(NOW, 1, &down), Ok(SERVER));
    let forged = send(&mut model, (1, "10.8.0.3"), (SERVER, "10.8.0.1"), true);
    assert!(text(model.deliver(NOW, SERVER, &forged)).contains("forged source"));
    let other = send(&mut model, (2, "10.8.0.2"), (SERVER, "10.8.0.1"), false);
    assert!(text(model.deliver(NOW, SERVER, &other)).contains("not its sender's"));
    let last = send(&mut model, (1, "10.8.0.2"), (SERVER, "10.8.0.1"), false);
    let late = send(&mut model, (1, "10.8.0.2"), (SERVER, "10.8.0.1"), false);
    model.lag = Duration::from_millis(1);
    model.tunnels[0].leave(NOW);
    assert_eq!(model.deliver(NOW + model.lag, SERVER, &last), Ok(1));
    assert!(text(model.deliver(NOW + model.lag * 2, SERVER, &late)).contains("not its sender's"));
    let across = send(&mut model, (1, "10.8.0.2"), (2, "10.8.0.3"), false);
    assert!(text(model.deliver(NOW, 2, &across)).contains("without client-to-client"));
}

#[test]
fn a_packet_may_come_from_behind_a_client() {
    let mut model = model(false);
    let routed = send(&mut model, (1, "10.66.1.5"), (SERVER, "10.8.0.1"), false);
    assert_eq!(model.deliver(NOW, SERVER, &routed), Ok(1));
    let other = send(&mut model, (1, "10.66.2.5"), (SERVER, "10.8.0.1"), false);
    assert!(text(model.deliver(NOW, SERVER, &other)).contains("not its sender's"));
    model.tunnels[0] = Tunnel::default();
    let gone = send(&mut model, (1, "10.66.1.5"), (SERVER, "10.8.0.1"), false);
    assert!(text(model.deliver(NOW, SERVER, &gone)).contains("not its sender's"));
}

#[test]
fn a_kept_address_stays() {
    let mut model = model(false);
    let [first, other] = ["10.8.0.2", "10.8.0.3"].map(|text| vec![address(text)]);
    assert_eq!(model.check_address(1, &first), Ok(()));
    assert_eq!(model.check_address(1, &first), Ok(()));
    assert_eq!(model.check_address(2, &other), Ok(()));
    assert!(text(model.check_address(1, &other)).contains("client 1 had the addresses [10.8.0.2]"));
    let mut scenario = scenario();
    scenario.server.persist_pool = false;
    model = Model::new(&scenario);
    assert_eq!(model.check_address(1, &first), Ok(()));
    assert_eq!(model.check_address(1, &other), Ok(()));
}

#[test]
fn control_packets_keep_to_their_size() {
    let model = model(false);
    let control = 4 << 3;
    assert_eq!(model.check_size(1, &vec![control; 1222]), Ok(()));
    assert!(text(model.check_size(1, &vec![control; 1223])).contains("1251 bytes; 1250 are allowed"));
    assert_eq!(model.check_size(1, &vec![11 << 3; 1223]), Ok(()), "with a wrapped key");
}

#[test]
fn a_lost_packet_is_missed_once_it_is_late() {
    let mut model = model(false);
    let packet = send(&mut model, (1, "10.8.0.2"), (SERVER, "10.8.0.1"), false);
    assert_eq!(model.packets.check_nothing_lost(NOW), Ok(()));
    model.deliver(NOW, SERVER, &packet).unwrap();
    assert_eq!(model.packets.check_nothing_lost(NOW + MAX_TRANSIT), Ok(()));
    send(&mut model, (1, "10.8.0.2"), (SERVER, "10.8.0.1"), false);
    assert!(
        text(model.packets.check_nothing_lost(NOW + MAX_TRANSIT)).contains("packet 1 from end 1 to end 0")
    );
}

fn install(seed: u8) -> Install {
    let header = DataHeader::V2 { peer_id: 7 };
    let framing = DataFraming { header, key_id: 1, compression: Compression::None };
    let key = |seed| DirectionKey::aead(vec![seed; 16].into(), [seed; 8]);
    let codec = Codec {
        framing: Framing::Data(framing),
        cipher: Cipher::Aes128Gcm,
        seal: key(seed),
        open: key(seed ^ 0x80),
        replay_window: ReplayWindow::default(),
        payloads: Payloads::default(),
    };
    Install::new(PeerId(7), session_id(PeerId(7), 1), codec)
}

fn sealed(peer: u8, id: u8) -> [u8; 24] {
    let mut datagram = [0; 24];
    datagram[..8].copy_from_slice(&[DATA_V2 << 3 | 1, 0, 0, peer, 0, 0, 0, id]);
    datagram
}

#[test]
fn no_packet_id_comes_twice_under_a_key() {
    let mut model = model(false);
    assert!(text(model.sealed(NOW, SERVER, &sealed(7, 1))).contains("without a key"));
    model.install(NOW, SERVER, &install(1)).unwrap();
    assert_eq!(model.sealed(NOW, SERVER, &sealed(7, 1)), Ok(()));
    assert_eq!(model.sealed(NOW, SERVER, &sealed(7, 2)), Ok(()));
    assert!(text(model.sealed(NOW, SERVER, &sealed(7, 2))).contains("packet id 2 after 2"));
    assert!(text(model.sealed(NOW, SERVER, &sealed(6, 3))).contains("without a key"));
    assert!(text(model.sealed(NOW, 1, &sealed(7, 3))).contains("without a key"));
    model.install(NOW, SERVER, &install(2)).unwrap();
    assert_eq!(model.sealed(NOW, SERVER, &sealed(7, 1)), Ok(()), "another key");
    assert!(text(model.install(NOW, SERVER, &install(1))).contains("installed again"));
    model.forget(SERVER);
    assert!(text(model.sealed(NOW, SERVER, &sealed(7, 2))).contains("without a key"));
    assert!(
        text(model.install(NOW, SERVER, &install(2))).contains("installed again"),
        "keys outlive processes"
    );
    assert!(text(model.sealed(NOW, SERVER, &[DATA_V2 << 3])).contains("without a header"));
}

#[test]
fn a_point_has_one_peer() {
    let mut model = model(false);
    model.point_to_point = true;
    let mut install = install(1);
    (install.peer, install.session) = (PeerId::SERVER, session_id(PeerId::SERVER, 1));
    model.install(NOW, SERVER, &install).unwrap();
    assert_eq!(model.sealed(NOW, SERVER, &sealed(99, 1)), Ok(()));
    assert!(text(model.sealed(NOW, SERVER, &sealed(98, 1))).contains("packet id 1 after 1"));
}

#[test]
fn no_iv_comes_twice_under_a_key() {
    let mut model = model(false);
    let mut install = install(1);
    let digest = Digest::Sha1;
    install.codec.seal.mac = Some(MacKey { digest, key: vec![1; 20].into(), iv_key: [1; 16].into() });
    model.install(NOW, SERVER, &install).unwrap();
    let mut datagram = [0; 60];
    datagram[..4].copy_from_slice(&sealed(7, 0)[..4]);
    assert_eq!(model.sealed(NOW, SERVER, &datagram), Ok(()));
    // The IV lies behind the HMAC.
    datagram[4] ^= 1;
    assert!(text(model.sealed(NOW, SERVER, &datagram)).contains("used an IV twice"));
    datagram[24] ^= 1;
    assert_eq!(model.sealed(NOW, SERVER, &datagram), Ok(()));
    assert!(text(model.sealed(NOW, SERVER, &datagram[..39])).contains("too short"));
}

#[test]
fn new_keys_are_taken_into_use() {
    let mut model = model(false);
    model.install(NOW, SERVER, &install(1)).unwrap();
    let mut next = install(2);
    next.session = session_id(PeerId(7), 2);
    model.install(NOW, SERVER, &next).unwrap();
    let late = NOW + Duration::from_secs(60);
    assert_eq!(model.sealed(late, SERVER, &sealed(7, 1)), Ok(()));
    let later = late + Duration::from_millis(1);
    assert!(text(model.sealed(later, SERVER, &sealed(7, 2))).contains("still seals with old keys"));
    model.awake[SERVER] = later;
    assert_eq!(model.sealed(later, SERVER, &sealed(7, 2)), Ok(()), "its machine slept");
}

#[test]
fn no_control_packet_id_comes_twice_in_a_session() {
    let mut model = model(false);
    let mut datagram = [3; 60];
    assert_eq!(model.wrapped(SERVER, &datagram), Ok(()));
    assert_eq!(model.wrapped(SERVER, &datagram), Ok(()), "the same answer to the same packet");
    datagram[20] ^= 1;
    assert!(text(model.wrapped(SERVER, &datagram)).contains("twice"));
    assert_eq!(model.wrapped(1, &datagram), Ok(()), "the other direction");
    datagram[0] ^= 1;
    assert_eq!(model.wrapped(SERVER, &datagram), Ok(()), "under the key of another renegotiation");
    datagram[12] ^= 1;
    assert_eq!(model.wrapped(SERVER, &datagram), Ok(()), "the next id");
    assert!(text(model.wrapped(SERVER, &datagram[..16])).contains("too short"));
}
