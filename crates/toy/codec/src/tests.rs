//! Vectors of the wire, and any bytes.

use std::sync::Arc;

use adit_core::{DataEvent, Instant, Path, PeerConfig, PeerId, PeerOrder, Selector};
use adit_dataplane::testing::batches::{Format, Keys, open_as_single_packets, seal_as_single_packets};
use adit_dataplane::{
    Config, Counters, Egress, Ingress, MergePolicy, Offload, ReceiveBatch, TransmitBatch, split,
};
use adit_toy::wire::{INITIATION_LEN, RESPONSE_LEN};
use proptest::prelude::*;

use super::*;

const PEER: PeerId = PeerId(1);
const PATH: Path = Path::Udp {
    socket: 0,
    remote: std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9),
};

/// A data plane with one session, which it sends itself.
struct End {
    egress: Egress,
    ingress: Ingress,
    counters: Counters,
    transmit_batch: TransmitBatch,
    receive_batch: ReceiveBatch,
}

impl End {
    fn new(first_counter: u64, selectors: &[Selector]) -> Self {
        let (egress, ingress, counters) = adit_dataplane::new(Config::new(DataSocket));
        let (transmit_batch, receive_batch) = (TransmitBatch::new(), ReceiveBatch::new(MergePolicy::Off));
        let mut end = End { egress, ingress, counters, transmit_batch, receive_batch };
        let session = SessionId(0xd4e5_f601);
        let codec = codec(first_counter, selectors);
        let routes = vec!["0.0.0.0/0".parse().unwrap()];
        let (path, max_mss, roams, staging) = (Some(PATH), None, true, true);
        for event in [
            DataEvent::Peer(PeerOrder::Add(PeerConfig {
                peer: PEER,
                path,
                routes,
                selectors: Default::default(),
                max_mss,
                roams,
                staging,
                device: Default::default(),
                by_path: true,
                identity: Default::default(),
            })),
            DataEvent::Install(Box::new(Install::new(PEER, session, codec))),
            DataEvent::Activate { peer: PEER, session },
        ] {
            let (egress, ingress) = split(event, super::session);
            egress.into_iter().for_each(|event| end.egress.apply(event, &mut end.transmit_batch));
            ingress.into_iter().for_each(|event| end.ingress.apply(event));
        }
        end
    }

    fn seal(&mut self) -> Option<Vec<u8>> {
        self.egress.seal_packet(Offload::NONE, &mut packet(), &mut self.transmit_batch);
        let sealed = self.transmit_batch.iter().next().map(|batch| batch.bytes.to_vec());
        self.transmit_batch.clear();
        sealed
    }

    /// How many packets, and how many control messages, came out.
    fn open(&mut self, datagram: &[u8]) -> (usize, usize) {
        self.ingress.open_datagrams(PATH, &mut datagram.to_vec(), 0, &mut self.receive_batch);
        let counts = (self.receive_batch.packets().count(), self.receive_batch.control().len());
        self.receive_batch.clear();
        counts
    }
}

fn codec(first_counter: u64, selectors: &[Selector]) -> Codec {
    Codec {
        remote_index: 0xd4e5_f601,
        seal_key: [7; 32].into(),
        open_key: [7; 32].into(),
        first_counter,
        rekey_after_datagrams: 100,
        selectors: Arc::from(selectors),
        expires: Instant::from_nanos(10_000_000_000),
    }
}

/// An IPv4 packet of 20 bytes, with protocol 59 (none).
fn packet() -> Vec<u8> {
    let mut packet = vec![0; 20];
    (packet[0], packet[3], packet[9]) = (0x45, 20, 59);
    packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    packet
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

// By the ChaCha20-Poly1305 of Python's `cryptography`, from the description of the wire.
const SEALED_1: &str = "d4e5f60100000001\
    ac175302c66d6644c2bf7942022545aed97fd1c60ef09bfa8e6f6aa84b8cf17860ef3bf3";
const SEALED_BEYOND: &str = "d4e5f60100000005\
    48e063693d76a18b8cbee68e6e06f436c31b583d804e40cb806ddbc71532edc107946a23";

#[test]
fn vectors() {
    for (counter, expected) in [(1, SEALED_1), (0x1_0000_0005, SEALED_BEYOND)] {
        assert_eq!(hex(&End::new(counter, &[]).seal().unwrap()), expected);
    }
}

#[test]
fn counters_go_on_beyond_the_32_bits_of_the_wire() {
    let (mut one, mut two) = (End::new(0xffff_fffe, &[]), End::new(1, &[]));
    let sealed: Vec<Vec<u8>> = (0..6).map(|_| one.seal().unwrap()).collect();
    let low: Vec<u8> = sealed.iter().map(|datagram| datagram[7]).collect();
    assert_eq!(low, [0xfe, 0xff, 0, 1, 2, 3]);
    for index in [0, 2, 1, 5, 3, 4] {
        assert_eq!(two.open(&sealed[index]), (1, 0), "number {index}");
    }
    for datagram in &sealed {
        assert_eq!(two.open(datagram), (0, 0), "replayed");
    }
    assert_eq!(two.counters.snapshot().ingress.dropped(DropReason::Replay), 6);
}

/// The 32 bits of the wire begin anew within a batch.
#[test]
fn batches_carry_what_single_packets_carry_beyond_32_bits() {
    let format = Format {
        demultiplexer: || Arc::new(DataSocket),
        session: SessionId(0xd4e5_f601),
        make: |provider, Keys { seal, open }| {
            let codec = Codec {
                seal_key: [seal; 32].into(),
                open_key: [open; 32].into(),
                ..codec(0xffff_ffff - 18, &[])
            };
            let install = Install::new(PEER, SessionId(0xd4e5_f601), codec);
            session_with(provider, &install).unwrap()
        },
        number: 0..DATA_HEADER,
    };
    seal_as_single_packets(&format);
    open_as_single_packets(&format);
}

#[test]
fn a_session_ends_at_its_time() {
    let mut end = End::new(1, &[]);
    let sealed = end.seal().unwrap();
    end.ingress.tick(Instant::from_nanos(10_000_000_000));
    end.egress.tick(Instant::from_nanos(10_000_000_000));
    assert_eq!((end.open(&sealed), end.seal()), ((0, 0), None));
    assert_eq!(end.counters.snapshot().ingress.dropped(DropReason::NoSession), 1);
}

#[test]
fn a_session_has_the_selectors_of_its_peer() {
    let any = Selector::between("10.0.0.0/8".parse().unwrap(), "10.0.0.0/8".parse().unwrap());
    let udp = Selector { protocol: Some(17), ..any.clone() };
    assert!(End::new(1, &[udp.clone(), any]).seal().is_some());
    let mut end = End::new(1, &[udp]);
    assert_eq!(end.seal(), None);
    assert_eq!(end.counters.snapshot().egress.dropped(DropReason::NotSelected), 1);
}

#[test]
fn each_socket_has_its_own_rules() {
    let message = |kind: u8, length| {
        let mut message = vec![0; length];
        message[0] = kind;
        message
    };
    for (message, control) in [
        (message(1, INITIATION_LEN), true),
        (message(2, RESPONSE_LEN), true),
        (message(1, RESPONSE_LEN), false),
        (message(3, INITIATION_LEN), false),
        (Vec::new(), false),
    ] {
        let class = if control { Class::Control } else { Class::Malformed };
        assert_eq!(ControlSocket.classify(&message), class);
        assert_eq!(DataSocket.classify(&[&MARKER[..], &message].concat()), class);
    }
    let data = [0x81, 2, 3, 4, 0, 0, 0, 1];
    assert_eq!(DataSocket.classify(&data), Class::Session(SessionId(0x8102_0304)));
    assert_eq!(ControlSocket.classify(&data), Class::Malformed);
    assert_eq!(DataSocket.classify(&data[..3]), Class::Malformed);
}

proptest! {
    /// No bytes are opened, and none panic. Half of them name the session.
    #[test]
    fn any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..100), named: bool) {
        if named && bytes.len() >= 4 {
            bytes[..4].copy_from_slice(&0xd4e5_f601_u32.to_be_bytes());
        }
        prop_assert_eq!(End::new(1, &[]).open(&bytes).0, 0);
        let _ = ControlSocket.classify(&bytes);
    }
}
