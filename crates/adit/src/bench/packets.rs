//! The packets that are sealed.

use std::net::Ipv4Addr;

use adit_dataplane::{Offload, Segmentation};

/// The client's inner address.
pub(crate) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 1);

const IP: usize = 20;
const TCP: usize = 20;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;

/// A UDP packet of `length` bytes with right checksums.
pub(crate) fn udp(length: usize) -> Vec<u8> {
    let mut segment = vec![0; length - IP];
    segment[..4].copy_from_slice(&[0x9c, 0x40, 0x14, 0x51]);
    segment[4..6].copy_from_slice(&((length - IP) as u16).to_be_bytes());
    fill(&mut segment[8..]);
    let sum = checksum(&[&pseudo(PROTOCOL_UDP, segment.len()), &segment]);
    segment[6..8].copy_from_slice(&sum.to_be_bytes());
    ip(PROTOCOL_UDP, &segment)
}

/// A super-packet that becomes `count` TCP packets of `length` bytes, as the kernel hands it over.
pub(crate) fn tcp(count: usize, length: usize) -> (Offload, Vec<u8>) {
    let size = length - IP - TCP;
    let mut segment = vec![0; TCP + count * size];
    segment[..4].copy_from_slice(&[0x9c, 0x40, 0x14, 0x51]);
    // Data offset 5, ACK, a window.
    segment[12..16].copy_from_slice(&[0x50, 0x10, 0xff, 0xff]);
    fill(&mut segment[TCP..]);
    // The kernel leaves the sum of the pseudo-header in the place of the checksum.
    let sum = !checksum(&[&pseudo(PROTOCOL_TCP, segment.len())]);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    let offload = Offload {
        needs_checksum: true,
        segmentation: Segmentation::TcpV4,
        ecn: false,
        header_len: (IP + TCP) as u16,
        segment_size: size as u16,
        checksum_start: IP as u16,
        checksum_offset: 16,
    };
    (offload, ip(PROTOCOL_TCP, &segment))
}

/// Something else than zeros.
fn fill(payload: &mut [u8]) {
    for (index, byte) in payload.iter_mut().enumerate() {
        *byte = (index * 7) as u8;
    }
}

fn ip(protocol: u8, segment: &[u8]) -> Vec<u8> {
    let length = (IP + segment.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend_from_slice(&length.to_be_bytes());
    // Identification, don't fragment, TTL 64.
    packet.extend_from_slice(&[0, 1, 0x40, 0, 64, protocol, 0, 0]);
    packet.extend_from_slice(&CLIENT.octets());
    packet.extend_from_slice(&SERVER.octets());
    let sum = checksum(&[&packet]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend_from_slice(segment);
    packet
}

fn pseudo(protocol: u8, length: usize) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&CLIENT.octets());
    bytes[4..8].copy_from_slice(&SERVER.octets());
    bytes[9] = protocol;
    bytes[10..].copy_from_slice(&(length as u16).to_be_bytes());
    bytes
}

/// The Internet checksum (RFC 1071) of parts of even lengths, the last perhaps odd.
fn checksum(parts: &[&[u8]]) -> u16 {
    let word = |pair: &[u8]| {
        pair.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)) << (8 * (2 - pair.len()))
    };
    let mut sum: u32 = parts.iter().flat_map(|part| part.chunks(2)).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_hold() {
        for length in [64, 255, 1400] {
            let packet = udp(length);
            assert_eq!(packet.len(), length);
            assert_eq!(checksum(&[&packet[..IP]]), 0);
            assert_eq!(checksum(&[&pseudo(PROTOCOL_UDP, length - IP), &packet[IP..]]), 0);
        }
        let (offload, packet) = tcp(44, 1400);
        assert_eq!(checksum(&[&packet[..IP]]), 0);
        assert_eq!(packet.len(), 40 + 44 * usize::from(offload.segment_size));
    }
}
