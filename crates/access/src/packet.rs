//! The headers of a packet, as far as rules judge by them.
//!
//! A packet that cannot be read is refused, and so is one that its receiver could read in another way than this code does.

#[cfg(test)]
mod tests;

use crate::Address;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
/// IPv6 extension headers that are walked at most.
const MAX_EXTENSIONS: usize = 8;

/// Bytes of an IPv4 header without options.
const IPV4_HEADER: usize = 20;
/// Bytes of the fixed IPv6 header.
const IPV6_HEADER: usize = 40;
/// Bytes of an ICMP header in front of the packet that an error quotes.
const ICMP_HEADER: usize = 8;
/// The longest packet that fragments make, without IPv6's fixed header.
const MAX_PACKET: usize = 65_535;

/// The fields of a packet that rules and flows compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Facts {
    /// The sender's address.
    pub source: Address,
    /// The receiver's address, of the same family.
    pub destination: Address,
    /// The IP protocol, behind any IPv6 extension headers.
    pub protocol: u8,
    /// The sender's port; the identifier of an ICMP echo request; 0 where there is none.
    pub source_port: u16,
    /// The receiver's port; the identifier of an ICMP echo reply; 0 where there is none.
    pub destination_port: u16,
}

impl Facts {
    /// The fields of a packet in the opposite direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        Facts {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            ..self
        }
    }
}

/// The part of a packet in a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nature {
    /// Packets in the opposite direction may be replies to it.
    pub opens: bool,
    /// It may be a reply.
    pub answers: bool,
}

impl Nature {
    const ANY: Nature = Nature { opens: true, answers: true };
    /// It begins a conversation.
    const START: Nature = Nature { opens: true, answers: false };
    const ANSWER: Nature = Nature { opens: false, answers: true };
    const ALONE: Nature = Nature { opens: false, answers: false };
}

/// The fields that all fragments of a packet have (RFC 791 §3.2; RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentKey {
    /// The sender's address.
    pub source: Address,
    /// The receiver's address.
    pub destination: Address,
    /// The identification.
    pub identification: u32,
    /// IPv4: the protocol. IPv6: 0.
    pub protocol: u8,
}

/// The place of a fragment in its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The fields that all fragments of the packet have.
    pub key: FragmentKey,
    /// Where its bytes begin in the packet.
    pub start: usize,
    /// Where its bytes end.
    pub end: usize,
}

/// A packet, as rules judge it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A packet with its transport header; with the fragment, if it is the first one of several.
    Headed {
        /// Its fields.
        facts: Facts,
        /// Its part in a flow.
        nature: Nature,
        /// `None`: it is whole.
        first_of: Option<Fragment>,
    },
    /// A fragment without the transport header.
    Later(Fragment),
    /// An ICMP error.
    Error {
        /// The sender's address.
        source: Address,
        /// The receiver's address.
        destination: Address,
        /// The fields of the quoted packet, as its sender, the receiver of the error, wrote them.
        quoted: Facts,
    },
}

/// An IP header that was read.
struct Header {
    source: Address,
    destination: Address,
    protocol: u8,
    /// Where the bytes behind it begin, and where they end.
    start: usize,
    end: usize,
    /// `None`: it is no fragment.
    fragment: Option<(Fragment, bool)>,
}

impl Header {
    fn is_v6(&self) -> bool {
        matches!(self.source, Address::V6(_))
    }

    /// Whether it is a fragment without the transport header.
    fn is_later(&self) -> bool {
        self.fragment.is_some_and(|(fragment, _)| fragment.start > 0)
    }
}

impl Packet {
    /// Reads a packet. `None`: it is refused, whatever the rules are. Bytes behind the packet's own end are ignored.
    #[inline]
    pub fn read(packet: &[u8]) -> Option<Packet> {
        let header = match packet.first()? >> 4 {
            4 => read_v4(packet)?,
            6 => read_v6(packet, packet.len())?,
            _ => return None,
        };
        if header.end > packet.len() {
            return None;
        }
        if let Some((fragment, more)) = header.fragment {
            // Fragments but the last are multiples of 8 bytes long. None ends behind the longest packet.
            let len = fragment.end - fragment.start;
            if len == 0 || more && !len.is_multiple_of(8) || fragment.end > MAX_PACKET {
                return None;
            }
            if fragment.start > 0 {
                return Some(Packet::Later(fragment));
            }
        }
        let upper = packet.get(header.start..header.end)?;
        let (protocol, is_v6) = (header.protocol, header.is_v6());
        if is_error(protocol, is_v6, upper)? {
            if header.fragment.is_some() {
                return None;
            }
            let quoted = quoted(upper.get(ICMP_HEADER..)?, is_v6)?;
            // An error goes to the sender of the packet that it quotes (RFC 1122 §3.2.2, RFC 4443 §2.2).
            let (source, destination) = (header.source, header.destination);
            return (quoted.source == destination).then_some(Packet::Error { source, destination, quoted });
        }
        // A first fragment without the whole transport header hides what a later one says (RFC 1858, RFC 7112).
        let ([source_port, destination_port], nature) = transport(protocol, is_v6, upper)?;
        let Header { source, destination, .. } = header;
        let facts = Facts { source, destination, protocol, source_port, destination_port };
        Some(Packet::Headed { facts, nature, first_of: header.fragment.map(|(fragment, _)| fragment) })
    }
}

/// Reads an IPv4 header. The packet may be cut off behind it.
fn read_v4(packet: &[u8]) -> Option<Header> {
    let header: &[u8; IPV4_HEADER] = packet.first_chunk()?;
    let start = usize::from(header[0] & 0x0f) * 4;
    let end = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if start < IPV4_HEADER || end < start || has_source_route(packet.get(IPV4_HEADER..start)?) {
        return None;
    }
    let source = Address::V4(u32::from_be_bytes([header[12], header[13], header[14], header[15]]));
    let destination = Address::V4(u32::from_be_bytes([header[16], header[17], header[18], header[19]]));
    let word = u16::from_be_bytes([header[6], header[7]]);
    let (more, offset) = (word & 0x2000 != 0, usize::from(word & 0x1fff) * 8);
    let fragment = (more || offset > 0).then(|| {
        let identification = u16::from_be_bytes([header[4], header[5]]).into();
        let key = FragmentKey { source, destination, identification, protocol: header[9] };
        (Fragment { key, start: offset, end: offset + end - start }, more)
    });
    Some(Header { source, destination, protocol: header[9], start, end, fragment })
}

/// Whether IPv4 options have a source route, loose or strict (RFC 791 §3.1), or cannot be read.
fn has_source_route(mut options: &[u8]) -> bool {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    const LOOSE: u8 = 131;
    const STRICT: u8 = 137;
    while let [kind, rest @ ..] = options {
        options = match (*kind, rest) {
            (END, _) => return false,
            (NOTHING, rest) => rest,
            (LOOSE | STRICT, _) => return true,
            (_, [len, ..]) if *len >= 2 => match options.get(usize::from(*len)..) {
                Some(rest) => rest,
                None => return true,
            },
            _ => return true,
        };
    }
    false
}

/// Reads an IPv6 header with its extension headers, up to the transport header or the end of a later fragment's headers.
/// `available`: the bytes that are there, of a packet that may be cut off.
fn read_v6(packet: &[u8], available: usize) -> Option<Header> {
    let header: &[u8; IPV6_HEADER] = packet.first_chunk()?;
    let end = IPV6_HEADER + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let (_, addresses) = header.split_at(8);
    let (source, destination) = addresses.split_at(16);
    let source = Address::V6(u128::from_be_bytes(*source.first_chunk()?));
    let destination = Address::V6(u128::from_be_bytes(*destination.first_chunk()?));
    let mut read =
        Header { source, destination, protocol: header[6], start: IPV6_HEADER, end, fragment: None };
    let packet = packet.get(..end.min(available))?;
    for _ in 0..=MAX_EXTENSIONS {
        let rest = packet.get(read.start..)?;
        match read.protocol {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {
                let [next, units, _, segments_left] = *rest.first_chunk()?;
                if read.protocol == ROUTING && segments_left > 0 {
                    return None;
                }
                (read.protocol, read.start) = (next, read.start + (usize::from(units) + 1) * 8);
            }
            FRAGMENT => {
                let [next, _, high, low, id @ ..] = *rest.first_chunk::<8>()?;
                let word = u16::from_be_bytes([high, low]);
                let (more, offset) = (word & 1 != 0, usize::from(word & !7));
                if read.fragment.is_some() {
                    return None;
                }
                (read.protocol, read.start) = (next, read.start + 8);
                // An atomic fragment is a whole packet (RFC 6946).
                if more || offset > 0 {
                    let key = FragmentKey {
                        source,
                        destination,
                        identification: u32::from_be_bytes(id),
                        protocol: 0,
                    };
                    let len = end.checked_sub(read.start)?;
                    read.fragment = Some((Fragment { key, start: offset, end: offset + len }, more));
                }
                if read.is_later() {
                    return Some(read);
                }
            }
            _ => return (read.start <= end).then_some(read),
        }
    }
    None
}

/// Whether the bytes behind an IP header are an ICMP error (RFC 792; RFC 4443 §2.1). `None`: there are too few to tell.
fn is_error(protocol: u8, is_v6: bool, upper: &[u8]) -> Option<bool> {
    Some(match (protocol, is_v6) {
        // Destination unreachable, source quench, redirect, time exceeded, parameter problem.
        (ICMP, false) => matches!(upper.first()?, 3 | 4 | 5 | 11 | 12),
        (ICMPV6, true) => *upper.first()? < 128,
        _ => false,
    })
}

/// The ports behind an IP header, and the packet's part in a flow. `None`: the transport header is not whole.
fn transport(protocol: u8, is_v6: bool, upper: &[u8]) -> Option<([u16; 2], Nature)> {
    let least = match (protocol, is_v6) {
        (TCP, _) => 20,
        (DCCP | SCTP, _) => 12,
        (UDP | UDP_LITE, _) | (ICMP, false) | (ICMPV6, true) => 8,
        _ => return Some(([0, 0], Nature::ANY)),
    };
    let header = upper.get(..least)?;
    if matches!(protocol, ICMP | ICMPV6) {
        let [kind, _, _, _, high, low, ..] = *header else { return None };
        let identifier = u16::from_be_bytes([high, low]);
        return Some(match (is_v6, kind) {
            (false, 8) | (true, 128) => ([identifier, 0], Nature::START),
            (false, 0) | (true, 129) => ([0, identifier], Nature::ANSWER),
            _ => ([0, 0], Nature::ALONE),
        });
    }
    let nature = match (protocol, header.get(13)) {
        // SYN without ACK.
        (TCP, Some(flags)) if flags & 0x12 == 0x02 => Nature::START,
        _ => Nature::ANY,
    };
    Some((ports(header)?, nature))
}

fn ports(header: &[u8]) -> Option<[u16; 2]> {
    let [a, b, c, d] = *header.first_chunk()?;
    Some([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])])
}

/// The fields of the packet that an ICMP error quotes, which may be cut off behind the first 8 bytes of its transport
/// header. `None`: it cannot be read, or no error may quote it: a later fragment, another error.
fn quoted(packet: &[u8], is_v6: bool) -> Option<Facts> {
    let header = match (packet.first()? >> 4, is_v6) {
        (4, false) => read_v4(packet)?,
        (6, true) => read_v6(packet, packet.len())?,
        _ => return None,
    };
    let upper = packet.get(header.start..header.end.min(packet.len()))?;
    if header.is_later() || is_error(header.protocol, is_v6, upper)? {
        return None;
    }
    let [source_port, destination_port] = match (header.protocol, is_v6) {
        (TCP | UDP | DCCP | SCTP | UDP_LITE, _) => ports(upper)?,
        (ICMP, false) | (ICMPV6, true) => transport(header.protocol, is_v6, upper)?.0,
        _ => [0, 0],
    };
    let Header { source, destination, protocol, .. } = header;
    Some(Facts { source, destination, protocol, source_port, destination_port })
}
