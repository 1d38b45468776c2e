//! Reads inner IP headers. Every offset it gives lies inside the packet it was given.

/// An inner address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Address {
    V4(u32),
    V6(u128),
}

impl Address {
    /// Multicast, or IPv4's limited broadcast.
    pub(crate) fn is_multicast(self) -> bool {
        match self {
            Address::V4(address) => address >> 28 == 0xe || address == u32::MAX,
            Address::V6(address) => address >> 120 == 0xff,
        }
    }
}

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
/// Bytes of an IPv4 header without options.
pub(crate) const IPV4_HEADER: usize = 20;
/// Bytes of the fixed IPv6 header.
pub(crate) const IPV6_HEADER: usize = 40;
/// Bytes of a TCP header without options.
pub(crate) const TCP_HEADER: usize = 20;
/// Bytes of a UDP header.
pub(crate) const UDP_HEADER: usize = 8;

/// Don't-fragment, in the word that also holds the fragment offset.
pub(crate) const IPV4_DF: u16 = 0x4000;
/// More fragments.
const IPV4_MF: u16 = 0x2000;
const IPV4_OFFSET: u16 = 0x1fff;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
pub(crate) const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
/// IPv6 extension headers that we walk at most.
const MAX_EXTENSIONS: usize = 8;

/// An IP packet's fixed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ip {
    pub(crate) source: Address,
    pub(crate) destination: Address,
    /// Bytes of the packet by its own header; never more than there are.
    pub(crate) len: usize,
    /// IPv4: header with options. IPv6: the fixed header.
    pub(crate) header_len: usize,
    /// IPv4: the protocol. IPv6: the next header.
    pub(crate) protocol: u8,
    /// Whether it is a fragment (IPv4 only; IPv6 says so in an extension header).
    pub(crate) fragment: bool,
}

impl Ip {
    /// Reads the header; `None` if it is no IP packet or shorter than it says. Bytes after the packet's own
    /// end are allowed (padding).
    #[inline]
    pub(crate) fn parse(packet: &[u8]) -> Option<Ip> {
        match packet.first()? >> 4 {
            4 => Ip::parse_v4(packet),
            6 => Ip::parse_v6(packet),
            _ => None,
        }
    }

    #[inline]
    fn parse_v4(packet: &[u8]) -> Option<Ip> {
        let header: &[u8; IPV4_HEADER] = packet.first_chunk()?;
        let header_len = usize::from(header[0] & 0x0f) * 4;
        let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if header_len < IPV4_HEADER || len < header_len || len > packet.len() {
            return None;
        }
        let fragment = u16::from_be_bytes([header[6], header[7]]) & (IPV4_MF | IPV4_OFFSET) != 0;
        Some(Ip {
            source: Address::V4(u32::from_be_bytes([header[12], header[13], header[14], header[15]])),
            destination: Address::V4(u32::from_be_bytes([header[16], header[17], header[18], header[19]])),
            len,
            header_len,
            protocol: header[9],
            fragment,
        })
    }

    fn parse_v6(packet: &[u8]) -> Option<Ip> {
        let header: &[u8; IPV6_HEADER] = packet.first_chunk()?;
        let len = IPV6_HEADER + usize::from(u16::from_be_bytes([header[4], header[5]]));
        if len > packet.len() {
            return None;
        }
        let (_, addresses) = header.split_at(8);
        let (source, destination) = addresses.split_at(16);
        Some(Ip {
            source: Address::V6(u128::from_be_bytes(*source.first_chunk()?)),
            destination: Address::V6(u128::from_be_bytes(*destination.first_chunk()?)),
            len,
            header_len: IPV6_HEADER,
            protocol: header[6],
            fragment: false,
        })
    }

    /// The transport protocol and where its header starts, behind any IPv6 extension headers. `None` for
    /// fragments and for headers that are not understood.
    #[inline]
    pub(crate) fn transport(&self, packet: &[u8]) -> Option<(u8, usize)> {
        match self.source {
            Address::V4(_) => (!self.fragment).then_some((self.protocol, self.header_len)),
            Address::V6(_) => self.transport_v6(packet),
        }
    }

    fn transport_v6(&self, packet: &[u8]) -> Option<(u8, usize)> {
        let (mut next, mut offset) = (self.protocol, self.header_len);
        for _ in 0..MAX_EXTENSIONS {
            match next {
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {
                    let [kind, units] = *packet.get(offset..self.len)?.first_chunk()?;
                    next = kind;
                    offset += (usize::from(units) + 1) * 8;
                }
                FRAGMENT => return None,
                _ => return (offset <= self.len).then_some((next, offset)),
            }
        }
        None
    }

    /// The transport protocol and where its header starts, also of a first fragment. `None` for later fragments and for
    /// headers that are not understood.
    #[inline]
    pub(crate) fn upper(&self, packet: &[u8]) -> Option<(u8, usize)> {
        if self.is_v6() {
            return self.upper_v6(packet);
        }
        let [high, low] = *packet.get(6..)?.first_chunk()?;
        (u16::from_be_bytes([high, low]) & IPV4_OFFSET == 0).then_some((self.protocol, self.header_len))
    }

    /// IPv6: the protocol behind any extension headers and where its header starts, also of a first fragment. `None`
    /// for later fragments and for headers that are not understood.
    pub(crate) fn upper_v6(&self, packet: &[u8]) -> Option<(u8, usize)> {
        let mut fragment = 0;
        let upper = self.walk_v6(packet, |offset| fragment = offset);
        upper.filter(|_| fragment == 0)
    }

    /// IPv6: the offset of a fragment, in units of 8 bytes. `None` if it is none.
    pub(crate) fn fragment_v6(&self, packet: &[u8]) -> Option<u16> {
        let mut fragment = None;
        self.walk_v6(packet, |offset| fragment = Some(offset));
        fragment
    }

    /// Walks IPv6 extension headers, those of fragments too, up to the last one that can be read.
    fn walk_v6(&self, packet: &[u8], mut fragment: impl FnMut(u16)) -> Option<(u8, usize)> {
        let packet = packet.get(..self.len)?;
        let (mut next, mut offset) = (self.protocol, self.header_len);
        for _ in 0..MAX_EXTENSIONS {
            let header = packet.get(offset..);
            match next {
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {
                    let [kind, units] = *header?.first_chunk()?;
                    (next, offset) = (kind, offset + (usize::from(units) + 1) * 8);
                }
                FRAGMENT => {
                    let [kind, _, high, low] = *header?.first_chunk()?;
                    fragment(u16::from_be_bytes([high, low]) >> 3);
                    (next, offset) = (kind, offset + 8);
                }
                _ => return Some((next, offset)),
            }
        }
        None
    }

    /// Whether it is IPv6.
    pub(crate) fn is_v6(&self) -> bool {
        matches!(self.source, Address::V6(_))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn walks_extension_headers() {
        let mut packet = vec![0u8; 40 + 8 + 16 + 20];
        packet[0] = 0x60;
        packet[4..6].copy_from_slice(&44u16.to_be_bytes());
        packet[6] = HOP_BY_HOP;
        packet[40] = DESTINATION_OPTIONS;
        packet[48] = TCP;
        packet[49] = 1;
        let ip = Ip::parse(&packet).expect("valid");
        assert_eq!(ip.transport(&packet), Some((TCP, 64)));
        packet[48] = FRAGMENT;
        assert_eq!(ip.transport(&packet), None);
        packet[49] = 200;
        packet[48] = TCP;
        assert_eq!(ip.transport(&packet), None, "the extension ends outside");
    }

    proptest! {
        #[test]
        fn offsets_are_inside(mut packet in proptest::collection::vec(any::<u8>(), 0..200), v6: bool) {
            if let Some(first) = packet.first_mut() {
                *first = if v6 { 0x60 } else { 0x40 | (*first & 15) };
            }
            if packet.len() > 6 {
                packet[2] = 0;
                packet[4] = 0;
            }
            if let Some(ip) = Ip::parse(&packet) {
                prop_assert!(ip.len <= packet.len() && ip.header_len <= ip.len);
                if let Some((_, offset)) = ip.transport(&packet) {
                    prop_assert!(offset <= ip.len);
                }
            }
        }
    }
}
