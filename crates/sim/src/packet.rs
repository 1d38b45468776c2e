//! Numbered inner packets, whose every byte follows from their number, addresses and length.

use std::net::IpAddr;

const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
const PORT: u16 = 9;
/// Bytes that the number takes in the payload.
pub const NUMBER_LEN: usize = 8;

/// A UDP packet with the number in front of its payload of `len` bytes (at least [`NUMBER_LEN`]). Both
/// addresses must be of one family. Checksums are left at 0: nothing in the simulation reads them.
pub fn build(number: u64, source: IpAddr, destination: IpAddr, len: usize) -> Vec<u8> {
    let udp_len = (UDP_HEADER + len) as u16;
    let mut packet = Vec::with_capacity(48 + len);
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            packet.extend([0x45, 0]);
            packet.extend((20 + udp_len).to_be_bytes());
            packet.extend([0, 0, 0x40, 0, 64, UDP, 0, 0]);
            packet.extend(source.octets());
            packet.extend(destination.octets());
        }
        (source, destination) => {
            packet.extend([0x60, 0, 0, 0]);
            packet.extend(udp_len.to_be_bytes());
            packet.extend([UDP, 64]);
            packet.extend(v6(source));
            packet.extend(v6(destination));
        }
    }
    packet.extend(PORT.to_be_bytes());
    packet.extend(PORT.to_be_bytes());
    packet.extend(udp_len.to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(number.to_be_bytes());
    packet.extend((NUMBER_LEN..len).map(|index| (number as u8).wrapping_mul(31).wrapping_add(index as u8)));
    packet
}

fn v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The number that a packet carries.
pub fn number(packet: &[u8]) -> Option<u64> {
    let header = match packet.first()? >> 4 {
        4 => 20,
        6 => 40,
        _ => return None,
    };
    let payload = packet.get(header + UDP_HEADER..)?;
    payload.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_carry_their_number() {
        for addresses in [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]] {
            let [source, destination] = addresses.map(|text| text.parse().unwrap());
            let packet = build(77, source, destination, 100);
            assert_eq!(number(&packet), Some(77));
            assert_ne!(packet, build(78, source, destination, 100));
        }
        assert_eq!(number(&[]), None);
        assert_eq!(number(&[0x45; 27]), None);
    }
}
