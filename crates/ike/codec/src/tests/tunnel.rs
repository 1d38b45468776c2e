//! Two ends, and what passes between them.

use adit_core::{DataEvent, Notice, Selector, SessionId};
use adit_dataplane::aead::aws_lc;
use adit_dataplane::codec::{CountingSealer, UsageLimits};
use adit_dataplane::testing::batches::{Format, open_as_single_packets, seal_as_single_packets};
use adit_dataplane::testing::packets::Flow;
use adit_dataplane::{DropReason, Offload, TrafficClass};
use adit_ike::machine::{DirectionCount, EspLimits};

use super::*;
use crate::aead;

fn packet(len: usize) -> Vec<u8> {
    Flow::default().udp(&vec![9; len])
}

#[test]
fn packets_of_both_families_and_any_length_pass() {
    for suite in SUITES {
        for is_extended in [false, true] {
            let [mut near, mut far] = pair(suite, is_extended);
            for (number, len) in (1u32..).zip([0usize, 1, 2, 3, 4, 13, 14, 15, 16, 1400]) {
                for v6 in [false, true] {
                    let packet = Flow { v6, ..Flow::default() }.udp(&vec![9; len]);
                    let sealed = near.send_one(&packet);
                    assert_eq!(sealed[..4], SPI.to_be_bytes());
                    assert_eq!(sealed[4..8], (number * 2 - u32::from(!v6)).to_be_bytes());
                    assert_eq!(sealed.len() % 4, 0);
                    let arrived = far.receive(udp(1), &sealed, sealed.len());
                    assert_eq!(arrived.packets, [packet], "{suite:?}");
                    assert!(far.receive(udp(1), &sealed, sealed.len()).packets.is_empty());
                }
            }
            assert_eq!(far.dropped_in(DropReason::Replay), 20);
        }
    }
}

#[test]
fn a_changed_datagram_does_not_open() {
    for suite in SUITES {
        for is_extended in [false, true] {
            let [mut near, mut far] = pair(suite, is_extended);
            let sealed = near.send_one(&packet(5));
            for at in 0..sealed.len() {
                let mut forged = sealed.clone();
                forged[at] ^= 1;
                assert!(
                    far.receive(udp(1), &forged, forged.len()).packets.is_empty(),
                    "{suite:?}, byte {at}"
                );
                let cut = &sealed[..at];
                assert!(far.receive(udp(1), cut, cut.len()).packets.is_empty(), "{suite:?}, {at} bytes");
            }
            assert_eq!(far.receive(udp(1), &sealed, sealed.len()).packets.len(), 1, "{suite:?}");
        }
    }
}

/// An end whose session has sealed so many packets.
fn worn(is_extended: bool, counter: u64) -> End {
    let suite = SUITES[1];
    let codec = parameters(suite, is_extended, Keys { seal: 1, open: 2 });
    let sealer = aead::Sealer::new(aws_lc, &codec).expect("the keys fit");
    let limits: UsageLimits = crate::limits(&codec);
    let mut sealer = CountingSealer::new(sealer, limits);
    sealer.wear(counter, 0);
    end(SessionCodec { seal: Box::new(sealer), ..made(&codec) })
}

#[test]
fn sequence_numbers_of_32_bits_end_and_ask_for_new_keys_before() {
    let mut near = worn(false, u32::MAX.into());
    assert_eq!(near.send_one(&packet(1))[4..8], [0xff; 4]);
    let session = SessionId(SPI.into());
    assert_eq!(near.egress.take_notices(), [Notice::LimitNear { peer: PEER, session }]);
    assert!(near.send(Offload::NONE, &packet(1)).is_empty(), "never round");
    assert_eq!(near.dropped_out(DropReason::Exhausted), 1);
}

#[test]
fn sequence_numbers_of_64_bits_go_on() {
    let (mut near, mut far) =
        (worn(true, 0xffff_fffe), pair(SUITES[1], true).into_iter().nth(1).expect("two"));
    let sealed: Vec<Vec<u8>> = (0..6).map(|_| near.send_one(&packet(1))).collect();
    let low: Vec<u8> = sealed.iter().map(|datagram| datagram[7]).collect();
    assert_eq!(low, [0xfe, 0xff, 0, 1, 2, 3]);
    for index in [0, 2, 1, 5, 3, 4] {
        let arrived = far.receive(udp(1), &sealed[index], sealed[index].len());
        assert_eq!(arrived.packets.len(), 1, "number {index}");
    }
    for datagram in &sealed {
        assert!(far.receive(udp(1), datagram, datagram.len()).packets.is_empty(), "replayed");
    }
}

#[test]
fn the_window_has_2048_packets() {
    let [mut near, mut far] = pair(SUITES[0], true);
    let sealed: Vec<Vec<u8>> = (0..2049).map(|_| near.send_one(&packet(1))).collect();
    let mut arrives = |index: usize| far.receive(udp(1), &sealed[index], sealed[index].len()).packets.len();
    assert_eq!((arrives(2048), arrives(1), arrives(0)), (1, 1, 0));
}

/// Replayed and forged packets are not counted, nor is one that is not sent.
#[test]
fn each_child_sa_counts_its_packets_and_their_bytes() {
    for (cipher, integrity) in SUITES {
        let of = |keys| parameters((cipher, integrity), false, keys);
        let codecs = [of(Keys { seal: 1, open: 2 }), of(Keys { seal: 2, open: 1 })];
        let [mut near, mut far] = codecs.each_ref().map(|codec| end(made(codec)));
        let packets = [packet(1), packet(400)];
        for packet in &packets {
            let mut sealed = near.send_one(packet);
            for _ in 0..2 {
                far.receive(udp(1), &sealed, sealed.len());
            }
            *sealed.last_mut().expect("a datagram") ^= 1;
            far.receive(udp(1), &sealed, sealed.len());
        }
        let bytes = packets.iter().map(|packet| packet.len() as u64).sum();
        let all = DirectionCount { packets: 2, bytes };
        let none = DirectionCount::default();
        let counts = codecs.map(|codec| (codec.counters.sent.get(), codec.counters.received.get()));
        assert_eq!(counts, [(all, none), (none, all)], "{cipher}");
    }
}

#[test]
fn dummy_packets_say_only_that_the_peer_is_there() {
    for suite in SUITES {
        let [mut near, mut far] = pair(suite, false);
        for payload in [&[][..], &[0x20, 1, 2]] {
            near.apply(DataEvent::Inject { peer: PEER, payload: payload.to_vec() });
            let sealed = near.flush().remove(0).2;
            let arrived = far.receive(udp(1), &sealed, sealed.len());
            let is_message = |notice: &Notice| matches!(notice, Notice::Message { .. });
            assert!(arrived.packets.is_empty() && !arrived.notices.iter().any(is_message));
        }
        let activity = far.counters.activity(PEER).expect("a peer");
        assert_eq!((activity.received.keepalives, activity.received.last_data), (2, None));
        assert_eq!(far.counters.snapshot().ingress.drops.iter().sum::<u64>(), 0);
    }
}

/// RFC 3948 section 2.3: the receiver ignores it.
#[test]
fn what_keeps_a_nats_mapping_is_not_counted() {
    let [mut end, _] = pair(SUITES[0], false);
    let arrived = end.receive(udp(1), &[0xff], 1);
    assert!(arrived.control.is_empty() && arrived.notices.is_empty());
    assert_eq!(end.counters.snapshot().ingress.drops.iter().sum::<u64>(), 0);
}

/// Traffic flow confidentiality: what follows a packet is none of it.
#[test]
fn a_packet_ends_where_its_header_says() {
    let [mut near, mut far] = pair(SUITES[1], false);
    let packet = packet(100);
    near.apply(DataEvent::Inject { peer: PEER, payload: [&packet[..], &[0; 77]].concat() });
    let sealed = near.flush().remove(0).2;
    assert_eq!(far.receive(udp(1), &sealed, sealed.len()).packets, [packet]);
}

#[test]
fn selectors_are_judged() {
    let to = |net: &str| Selector::between("10.0.0.1/32".parse().unwrap(), net.parse().unwrap());
    let mut codec = parameters(SUITES[0], false, Keys { seal: 1, open: 2 });
    codec.selectors = Arc::new([to("10.0.0.2/32")]);
    let mut near = end(made(&codec));
    assert_eq!(near.send(Offload::NONE, &packet(1)).len(), 1);
    let other = Flow { destination: 3, ..Flow::default() }.udp(&[1]);
    assert!(near.send(Offload::NONE, &other).is_empty());
    assert_eq!(near.dropped_out(DropReason::NotSelected), 1);
}

#[test]
fn keys_that_do_not_fit_are_refused() {
    for suite in SUITES {
        let fits = parameters(suite, false, Keys { seal: 1, open: 2 });
        let is_refused = |change: fn(&mut Codec)| {
            let mut codec = fits.clone();
            change(&mut codec);
            session_with(aws_lc, &codec).is_err()
        };
        assert!(is_refused(|codec| codec.seal.encryption.truncate(3)), "{suite:?}");
        assert!(is_refused(|codec| codec.open.encryption.truncate(3)), "{suite:?}");
        if suite.0.is_aead() {
            assert!(is_refused(|codec| codec.seal.salt.truncate(3)), "{suite:?}");
        } else {
            assert!(is_refused(|codec| codec.integrity = None), "{suite:?}");
            assert!(is_refused(|codec| codec.open.integrity.truncate(3)), "{suite:?}");
        }
    }
}

fn format() -> Format {
    Format {
        demultiplexer: || Arc::new(NatTraversalSocket),
        session: SessionId(SPI.into()),
        make: |provider, keys| {
            made_with(provider, &parameters((Cipher::ChaCha20Poly1305, None), false, keys))
        },
        number: 4..8,
    }
}

#[test]
fn batches_seal_what_single_packets_are_sealed_to() {
    seal_as_single_packets(&format());
}

#[test]
fn batches_open_what_single_packets_are_opened_to() {
    open_as_single_packets(&format());
}

fn limited(limits: EspLimits, keys: Keys) -> Codec {
    Codec { limits, ..parameters(SUITES[0], false, keys) }
}

#[test]
fn limits_of_the_parameters_hold_beside_those_of_the_cipher() {
    let near = [Notice::LimitNear { peer: PEER, session: SessionId(SPI.into()) }];
    let of = |limits| end(made(&limited(limits, Keys { seal: 1, open: 2 })));
    let mut by_packets =
        of(EspLimits { rekey_packets: Some(2), most_packets: Some(3), ..EspLimits::default() });
    by_packets.send_one(&packet(1));
    assert_eq!(by_packets.egress.take_notices(), []);
    by_packets.send_one(&packet(1));
    assert_eq!(by_packets.egress.take_notices(), near);
    by_packets.send_one(&packet(1));
    assert!(by_packets.send(Offload::NONE, &packet(1)).is_empty(), "the fourth");
    // A packet of 1,428 bytes takes about 1,500, of which the data plane counts blocks of 16.
    let mut by_bytes =
        of(EspLimits { rekey_bytes: Some(1600), most_bytes: Some(3200), ..EspLimits::default() });
    by_bytes.send_one(&packet(1400));
    assert_eq!(by_bytes.egress.take_notices(), []);
    by_bytes.send_one(&packet(1400));
    assert_eq!(by_bytes.egress.take_notices(), near);
    assert!(by_bytes.send(Offload::NONE, &packet(1400)).is_empty(), "the third");
    assert_eq!(by_bytes.dropped_out(DropReason::Exhausted), 1);
}

#[test]
fn the_window_and_the_copies_of_ecn_and_dscp_are_those_of_the_parameters() {
    let limits = EspLimits { replay_window: Some(64), ignores_ecn: true, ..EspLimits::default() };
    let mut near = end(made(&limited(EspLimits::default(), Keys { seal: 1, open: 2 })));
    let mut far = end(made(&limited(limits, Keys { seal: 2, open: 1 })));
    let sealed: Vec<Vec<u8>> = (0..65).map(|_| near.send_one(&packet(1))).collect();
    let mut arrives = |index: usize| far.receive(udp(1), &sealed[index], sealed[index].len()).packets.len();
    assert_eq!((arrives(64), arrives(1), arrives(0)), (1, 1, 0));
    let class = |limits| made(&limited(limits, Keys { seal: 1, open: 2 })).outer.traffic_class;
    assert_eq!((class(limits), class(EspLimits::default())), (TrafficClass::Plain, TrafficClass::Ecn));
    let with_dscp = |limits| class(EspLimits { copies_dscp: true, ..limits });
    assert_eq!(
        (with_dscp(limits), with_dscp(EspLimits::default())),
        (TrafficClass::Dscp, TrafficClass::Whole)
    );
}
