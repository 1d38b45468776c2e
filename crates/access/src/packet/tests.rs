//! Headers that hide or change what a packet is.

use proptest::prelude::*;

use super::*;

/// An IPv4 packet with these options, protocol and bytes behind the header.
fn v4(options: &[u8], protocol: u8, word: u16, upper: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45 + (options.len() / 4) as u8, 0];
    packet.extend(((20 + options.len() + upper.len()) as u16).to_be_bytes());
    packet.extend([0, 7]);
    packet.extend(word.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 10, 8, 0, 2, 192, 168, 1, 1]);
    packet.extend(options);
    packet.extend(upper);
    packet
}

/// An IPv6 packet with that first header and the bytes behind the fixed header.
fn v6(next: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((rest.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend(0xfd08_0000_0000_0000_0000_0000_0000_0002_u128.to_be_bytes());
    packet.extend(0xfd01_0000_0000_0000_0000_0000_0000_0001_u128.to_be_bytes());
    packet.extend(rest);
    packet
}

fn tcp(flags: u8) -> Vec<u8> {
    let mut header = vec![0; 20];
    header[..4].copy_from_slice(&[0x13, 0x88, 0, 22]);
    header[13] = flags;
    header
}

fn headed(packet: &[u8]) -> (Facts, Nature) {
    match Packet::read(packet) {
        Some(Packet::Headed { facts, nature, .. }) => (facts, nature),
        other => panic!("{other:?}"),
    }
}

#[test]
fn ports_are_found_behind_options_and_extension_headers() {
    for packet in [
        v4(&[], TCP, 0, &tcp(2)),
        v4(&[1, 1, 68, 5, 0, 0, 0, 0], TCP, 0, &tcp(2)),
        v6(TCP, &tcp(2)),
        v6(
            HOP_BY_HOP,
            &[&[60, 0, 1, 4, 0, 0, 0, 0, 43, 1, 1, 12][..], &[0; 12], &[TCP, 0, 4, 0, 0, 0, 0, 0], &tcp(2)]
                .concat(),
        ),
        v6(FRAGMENT, &[&[TCP, 0, 0, 0, 0, 0, 0, 1][..], &tcp(2)].concat()),
    ] {
        let (facts, nature) = headed(&packet);
        assert_eq!((facts.protocol, facts.source_port, facts.destination_port), (TCP, 5000, 22));
        assert_eq!(nature, Nature::START);
    }
    assert_eq!(headed(&v4(&[], TCP, 0, &tcp(0x12))).1, Nature::ANY, "SYN with ACK");
}

#[test]
fn source_routes_and_headers_that_cannot_be_read_are_refused() {
    for packet in [
        v4(&[131, 7, 4, 10, 0, 0, 9, 0], TCP, 0, &tcp(2)),
        v4(&[1, 137, 7, 4, 10, 0, 0, 9], TCP, 0, &tcp(2)),
        v4(&[68, 0, 0, 0], TCP, 0, &tcp(2)),
        v4(&[68, 9, 0, 0], TCP, 0, &tcp(2)),
        v6(ROUTING, &[&[TCP, 0, 0, 1, 0, 0, 0, 0][..], &tcp(2)].concat()),
        v6(HOP_BY_HOP, &[TCP, 200, 0, 0, 0, 0, 0, 0]),
        // A fragment of a fragment.
        v6(FRAGMENT, &[&[FRAGMENT, 0, 0, 1, 0, 0, 0, 1, TCP, 0, 0, 0, 0, 0, 0, 1][..], &tcp(2)].concat()),
        v6(60, &[60, 0, 1, 4, 0, 0, 0, 0].repeat(12)),
        v4(&[], TCP, 0, &tcp(2)[..19]),
        v4(&[], UDP, 0, &[0; 7]),
        v4(&[], ICMP, 0, &[]),
        vec![0x44; 40],
        vec![0x55; 40],
        vec![],
    ] {
        assert_eq!(Packet::read(&packet), None, "{packet:02x?}");
    }
}

#[test]
fn a_first_fragment_has_the_whole_transport_header() {
    const MORE: u16 = 0x2000;
    assert!(
        matches!(Packet::read(&v4(&[], TCP, MORE, &[tcp(2), vec![0; 4]].concat())), Some(Packet::Headed { first_of: Some(first), .. }) if (first.start, first.end) == (0, 24))
    );
    assert_eq!(Packet::read(&v4(&[], TCP, MORE, &tcp(2)[..16])), None, "ports without flags");
    assert_eq!(Packet::read(&v4(&[], TCP, MORE, &tcp(2)[..8])), None);
    assert_eq!(Packet::read(&v4(&[], TCP, MORE, &[tcp(2), vec![0; 3]].concat())), None, "no multiple of 8");
    assert!(
        matches!(Packet::read(&v4(&[], TCP, 1, &[0; 8])), Some(Packet::Later(later)) if (later.start, later.end) == (8, 16))
    );
    assert_eq!(Packet::read(&v4(&[], UDP, 0x1fff, &[0; 9])), None, "it ends behind the longest packet");
    // The transport header is in the second fragment, behind an extension header.
    let split = v6(FRAGMENT, &[60, 0, 0, 1, 0, 0, 0, 1, TCP, 0, 1, 4, 0, 0, 0, 0]);
    assert_eq!(Packet::read(&split), None);
}

#[test]
fn an_error_is_for_the_sender_of_the_packet_that_it_quotes() {
    let quoted = v4(&[], TCP, 0, &tcp(2));
    let mut error = v4(&[], ICMP, 0, &[&[3, 1, 0, 0, 0, 0, 0, 0][..], &quoted[..28]].concat());
    assert_eq!(Packet::read(&error), None, "it goes to the receiver of the packet");
    error[12..16].copy_from_slice(&[192, 168, 1, 254]);
    error[16..20].copy_from_slice(&[10, 8, 0, 2]);
    let Some(Packet::Error { quoted: facts, .. }) = Packet::read(&error) else { panic!("an error") };
    assert_eq!((facts.protocol, facts.destination_port), (TCP, 22));
    let mut later = error.clone();
    later[28 + 7] = 1;
    assert_eq!(Packet::read(&later), None, "a later fragment has no ports");
    let mut nested = error.clone();
    (nested[28 + 9], nested[28 + 20]) = (ICMP, 3);
    assert_eq!(Packet::read(&nested), None, "no error is about an error");
    error[20] = 8;
    assert!(
        matches!(Packet::read(&error), Some(Packet::Headed { nature: Nature::START, .. })),
        "an echo request"
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(mut packet in proptest::collection::vec(any::<u8>(), 0..120), kind in 0..4_u8) {
        let len = packet.len();
        if let Some(first) = packet.first_mut() {
            *first = [0x45, 0x46, 0x60, *first][usize::from(kind)];
        }
        if len > 6 {
            packet[2] = 0;
            packet[4] = 0;
        }
        if let Some(Packet::Later(fragment)) = Packet::read(&packet) {
            prop_assert!(fragment.start > 0 && fragment.start < fragment.end);
        }
    }
}
