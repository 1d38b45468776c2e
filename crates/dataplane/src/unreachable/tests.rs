use proptest::prelude::*;

use super::*;
use crate::tests::packets::{Flow, checksum};

fn at(milliseconds: u64) -> Instant {
    Instant::ORIGIN + Duration::from_millis(milliseconds)
}

fn flow(v6: bool) -> Flow {
    Flow { v6, ..Flow::default() }
}

/// The one answer to a packet, if there is one.
fn answer(packet: &[u8]) -> Option<Vec<u8>> {
    let mut unreachable = Unreachable::default();
    unreachable.answer(packet, at(0));
    let mut answers = unreachable.take_answers();
    assert!(answers.len() < 2);
    answers.pop()
}

/// A datagram of four bytes from 10.0.0.1 to 10.0.0.2.
#[test]
fn an_ipv4_packet_is_answered_with_host_unreachable() {
    let packet = flow(false).udp(b"abcd");
    let answer = answer(&packet).expect("an answer");
    let header =
        [0x45, 0xc0, 0x00, 0x3c, 0x00, 0x00, 0x00, 0x00, 0x40, 0x01, 0x65, 0xff, 10, 0, 0, 2, 10, 0, 0, 1];
    assert_eq!(answer[..20], header);
    assert_eq!(answer[20..22], [3, 1]);
    assert_eq!(answer[24..28], [0; 4]);
    assert_eq!(&answer[28..], packet);
    assert_eq!((checksum(&[&answer[..20]]), checksum(&[&answer[20..]])), (0, 0));
}

#[test]
fn an_ipv6_packet_is_answered_with_address_unreachable() {
    let packet = flow(true).udp(b"abcd");
    let answer = answer(&packet).expect("an answer");
    assert_eq!(answer[..8], [0x60, 0, 0, 0, 0, 60, 58, 64]);
    assert_eq!((&answer[8..24], &answer[24..40]), (&packet[24..40], &packet[8..24]), "turned around");
    assert_eq!(answer[40..42], [1, 3]);
    assert_eq!(&answer[48..], packet);
    let pseudo = [&answer[8..40], &60_u32.to_be_bytes()[..], &[0, 0, 0, 58]].concat();
    assert_eq!(checksum(&[&pseudo, &answer[40..]]), 0);
}

#[test]
fn a_long_packet_is_quoted_in_part() {
    for (v6, longest) in [(false, 576), (true, 1280)] {
        let answer = answer(&flow(v6).udp(&[7; 3000])).expect("an answer");
        assert_eq!(answer.len(), longest);
        let length = u16::from_be_bytes([answer[if v6 { 4 } else { 2 }], answer[if v6 { 5 } else { 3 }]]);
        assert_eq!(usize::from(length) + if v6 { 40 } else { 0 }, longest);
    }
}

#[test]
fn errors_are_not_answered_and_questions_are() {
    for (kind, answered) in
        [(3, false), (4, false), (5, false), (11, false), (12, false), (0, true), (8, true)]
    {
        let packet = flow(false).ip(1, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(answer(&packet).is_some(), answered, "ICMP type {kind}");
    }
    for (kind, answered) in [(1, false), (2, false), (127, false), (128, true), (129, true), (135, true)] {
        for extension in [false, true] {
            let flow = Flow { extension, ..flow(true) };
            let packet = flow.ip(58, &[kind, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(answer(&packet).is_some(), answered, "ICMPv6 type {kind}");
        }
    }
    assert_eq!(answer(&flow(false).ip(1, &[])), None, "too short to tell");
    assert_eq!(answer(&flow(true).ip(58, &[])), None, "too short to tell");
}

#[test]
fn of_fragments_only_the_first_is_answered() {
    let mut packet = flow(false).udp(b"abcd");
    packet[6] = 0x20;
    assert!(answer(&packet).is_some());
    packet[7] = 1;
    assert_eq!(answer(&packet), None);
    for (offset, answered) in [(0, true), (1, false)] {
        let fragment = [&[17, 0][..], &(offset << 3 | 1_u16).to_be_bytes(), &[0; 4], &[0; 12]].concat();
        assert_eq!(answer(&flow(true).ip(44, &fragment)).is_some(), answered, "IPv6, offset {offset}");
    }
}

#[test]
fn only_single_hosts_are_answered_about_single_hosts() {
    let v4 = flow(false).udp(b"abcd");
    for (at, address) in [
        (12, [0, 0, 0, 0]),
        (12, [224, 0, 0, 1]),
        (12, [255, 255, 255, 255]),
        (12, [240, 0, 0, 1]),
        (16, [224, 0, 0, 251]),
        (16, [255, 255, 255, 255]),
    ] {
        let mut packet = v4.clone();
        packet[at..at + 4].copy_from_slice(&address);
        assert_eq!(answer(&packet), None, "{address:?}");
    }
    let v6 = flow(true).udp(b"abcd");
    for (at, first) in [(8, 0xff), (24, 0xff)] {
        let mut packet = v6.clone();
        packet[at] = first;
        assert_eq!(answer(&packet), None);
    }
    let mut packet = v6;
    packet[8..24].fill(0);
    assert_eq!(answer(&packet), None);
}

#[test]
fn answers_are_limited() {
    let mut unreachable = Unreachable::default();
    let packet = flow(false).udp(b"abcd");
    let mut count = |milliseconds: u64, tries: usize| {
        (0..tries).for_each(|_| unreachable.answer(&packet, at(milliseconds)));
        unreachable.take_answers().len()
    };
    assert_eq!(count(1000, 1000), 50);
    assert_eq!(count(1009, 10), 0);
    assert_eq!(count(1010, 10), 1);
    assert_eq!((count(1015, 10), count(1020, 10), count(1055, 10)), (0, 1, 3));
    assert_eq!(count(100_000, 1000), 50);
}

proptest! {
    #[test]
    fn any_bytes_are_answered_or_not(mut packet in proptest::collection::vec(any::<u8>(), 0..200), v6: bool) {
        if let Some(first) = packet.first_mut() {
            *first = if v6 { 0x60 } else { 0x45 };
        }
        if packet.len() > 6 {
            (packet[2], packet[4]) = (0, 0);
        }
        if let Some(answer) = answer(&packet) {
            prop_assert!(Ip::parse(&answer).is_some_and(|ip| ip.len == answer.len()));
        }
    }
}
