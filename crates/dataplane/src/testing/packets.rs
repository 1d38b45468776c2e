//! Builds inner packets, plainly and slowly, and checks their checksums the same way.

use crate::headers::{Ip, TCP, UDP};

/// One direction of a transport connection.
#[derive(Clone, Debug)]
pub struct Flow {
    /// IPv6, or IPv4.
    pub v6: bool,
    /// Last byte of the source address 10.0.0.x or fd00::x.
    pub source: u8,
    /// Last byte of the destination address.
    pub destination: u8,
    /// Source port. The destination port is 80 (TCP) or 53 (UDP).
    pub source_port: u16,
    /// Traffic class.
    pub tos: u8,
    /// TTL, or hop limit.
    pub ttl: u8,
    /// The flag of IPv4.
    pub dont_fragment: bool,
    /// The number of an IPv4 packet.
    pub identification: u16,
    /// TCP: the acknowledgement number.
    pub acknowledgement: u32,
    /// TCP: the window.
    pub window: u16,
    /// TCP options, a multiple of 4 bytes.
    pub options: Vec<u8>,
    /// IPv6: a destination-options header of 8 bytes. IPv4: 4 bytes of options.
    pub extension: bool,
}

impl Default for Flow {
    fn default() -> Self {
        Flow {
            v6: false,
            source: 1,
            destination: 2,
            source_port: 1000,
            tos: 0,
            ttl: 64,
            dont_fragment: true,
            identification: 7,
            acknowledgement: 5,
            window: 500,
            options: Vec::new(),
            extension: false,
        }
    }
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |b| u32::from(*b))).sum()
}

/// The Internet checksum (RFC 1071) over parts of which all but the last have an even length.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let mut total: u32 = parts.iter().map(|part| sum(part)).sum();
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

fn pseudo(addresses: &[u8], protocol: u8, len: usize) -> Vec<u8> {
    let mut bytes = addresses.to_vec();
    bytes.extend_from_slice(&(len as u32).to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0, protocol]);
    bytes
}

impl Flow {
    /// Source and destination address.
    pub fn addresses(&self) -> Vec<u8> {
        if self.v6 {
            let mut bytes = vec![0; 32];
            bytes[0] = 0xfd;
            bytes[15] = self.source;
            bytes[16] = 0xfd;
            bytes[31] = self.destination;
            bytes
        } else {
            vec![10, 0, 0, self.source, 10, 0, 0, self.destination]
        }
    }

    /// A TCP packet with right checksums.
    pub fn tcp(&self, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut segment = Vec::new();
        segment.extend_from_slice(&self.source_port.to_be_bytes());
        segment.extend_from_slice(&80u16.to_be_bytes());
        segment.extend_from_slice(&sequence.to_be_bytes());
        segment.extend_from_slice(&self.acknowledgement.to_be_bytes());
        segment.extend_from_slice(&[((20 + self.options.len()) * 4) as u8, flags]);
        segment.extend_from_slice(&self.window.to_be_bytes());
        segment.extend_from_slice(&[0; 4]);
        segment.extend_from_slice(&self.options);
        segment.extend_from_slice(payload);
        let check = checksum(&[&pseudo(&self.addresses(), TCP, segment.len()), &segment]);
        segment[16..18].copy_from_slice(&check.to_be_bytes());
        self.ip(TCP, &segment)
    }

    /// A UDP packet with right checksums.
    pub fn udp(&self, payload: &[u8]) -> Vec<u8> {
        let mut segment = Vec::new();
        segment.extend_from_slice(&self.source_port.to_be_bytes());
        segment.extend_from_slice(&53u16.to_be_bytes());
        segment.extend_from_slice(&((payload.len() + 8) as u16).to_be_bytes());
        segment.extend_from_slice(&[0; 2]);
        segment.extend_from_slice(payload);
        let check = checksum(&[&pseudo(&self.addresses(), UDP, segment.len()), &segment]);
        segment[6..8].copy_from_slice(&(if check == 0 { 0xffff } else { check }).to_be_bytes());
        self.ip(UDP, &segment)
    }

    /// Any payload behind an IP header.
    pub fn ip(&self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        if self.v6 {
            let extension: &[u8] = if self.extension { &[protocol, 0, 1, 4, 0, 0, 0, 0] } else { &[] };
            packet.extend_from_slice(&[0x60 | self.tos >> 4, self.tos << 4, 0, 0]);
            packet.extend_from_slice(&((extension.len() + payload.len()) as u16).to_be_bytes());
            packet.extend_from_slice(&[if self.extension { 60 } else { protocol }, self.ttl]);
            packet.extend_from_slice(&self.addresses());
            packet.extend_from_slice(extension);
        } else {
            let options: &[u8] = if self.extension { &[1, 1, 1, 0] } else { &[] };
            let len = 20 + options.len();
            packet.extend_from_slice(&[0x40 | (len / 4) as u8, self.tos]);
            packet.extend_from_slice(&((len + payload.len()) as u16).to_be_bytes());
            packet.extend_from_slice(&self.identification.to_be_bytes());
            packet.extend_from_slice(&[
                if self.dont_fragment { 0x40 } else { 0 },
                0,
                self.ttl,
                protocol,
                0,
                0,
            ]);
            packet.extend_from_slice(&self.addresses());
            packet.extend_from_slice(options);
            finish_ipv4(&mut packet);
        }
        packet.extend_from_slice(payload);
        packet
    }
}

/// Writes the IPv4 header checksum.
pub fn finish_ipv4(packet: &mut [u8]) {
    let len = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let check = checksum(&[&packet[..len]]);
    packet[10..12].copy_from_slice(&check.to_be_bytes());
}

/// Whether the IP and transport checksums of a whole TCP or UDP packet are right.
///
/// # Panics
/// It is no such packet.
pub fn checksums_ok(packet: &[u8]) -> bool {
    let ip = Ip::parse(packet).expect("an IP packet");
    let (protocol, transport) = ip.transport(packet).expect("a transport header");
    let addresses = if ip.is_v6() { &packet[8..40] } else { &packet[12..20] };
    let segment = &packet[transport..ip.len];
    let header_ok = ip.is_v6() || checksum(&[&packet[..ip.header_len]]) == 0;
    header_ok && checksum(&[&pseudo(addresses, protocol, segment.len()), segment]) == 0
}
