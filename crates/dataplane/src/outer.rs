//! The IP header around a datagram, as far as it depends on the packet inside: congestion marks (RFC 6040), and the hop
//! limit that ends loops of tunnels.

use crate::checksum;
use crate::counters::DropReason;
use crate::headers::{FRAGMENT, Ip, UDP, UDP_HEADER};

/// The bits of a traffic class that are its ECN field (RFC 3168 §5), and their values.
const ECN: u8 = 0b11;
const NOT_ECT: u8 = 0b00;
const ECT_1: u8 = 0b01;
const ECT_0: u8 = 0b10;
const CE: u8 = 0b11;

/// By so much the hop limit around a tunnel's datagram is lower than its own: a datagram with the usual 64 passes through
/// eight tunnels.
const NESTING: u8 = 8;
/// The highest hop limit that is counted down: the usual one.
const USUAL_HOP_LIMIT: u8 = 64;

/// The fields of the IP header around a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OuterHeader {
    /// DSCP and ECN field (RFC 2474, RFC 3168).
    pub traffic_class: u8,
    /// TTL (IPv4) or hop limit (IPv6); 0: the system's.
    pub hop_limit: u8,
}

/// How the traffic class around a session's datagrams depends on the packets inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrafficClass {
    /// The traffic class is 0, whatever is inside; that of a received datagram is ignored.
    #[default]
    Plain,
    /// DSCP 0 and the packet's ECN field; a congestion mark that is received is put on the packet inside (RFC 6040, normal
    /// mode).
    Ecn,
    /// The packet's DSCP and its ECN field; a congestion mark that is received is put on the packet inside, as with [`Self::Ecn`].
    Whole,
    /// The packet's DSCP. The ECN field is 0, as the other end may not put a congestion mark on the packet inside (RFC
    /// 6040 §4.1, compatibility mode); that of a received datagram is ignored.
    Dscp,
}

/// How the header around a session's datagrams depends on the packets inside. The default: not at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct OuterPolicy {
    /// The traffic class.
    pub traffic_class: TrafficClass,
    /// Which UDP payloads are datagrams of the session's own format: a tunnel in the tunnel. Each such nesting lowers the hop
    /// limit around it by eight, and a packet that has less left is dropped ([`DropReason::Loop`]). So a tunnel whose
    /// datagrams are routed into itself, or two into each other, carry a packet eight times and not for ever. Linux
    /// does this for its tunnels (`ttl inherit` in ip-tunnel(8)). `None`: none is.
    pub nested: Option<fn(&[u8]) -> bool>,
}

impl OuterPolicy {
    /// The header around a packet.
    ///
    /// # Errors
    /// [`DropReason::Loop`].
    #[inline]
    pub(crate) fn header(&self, ip: &Ip, packet: &[u8]) -> Result<OuterHeader, DropReason> {
        let traffic_class = match self.traffic_class {
            TrafficClass::Plain => 0,
            TrafficClass::Ecn => ecn(ip, packet),
            TrafficClass::Whole => dscp(ip, packet) | ecn(ip, packet),
            TrafficClass::Dscp => dscp(ip, packet),
        };
        let hop_limit = match self.nested {
            Some(is_nested) if matches!(ip.protocol, UDP | FRAGMENT) => nesting(is_nested, ip, packet)?,
            _ => 0,
        };
        Ok(OuterHeader { traffic_class, hop_limit })
    }

    /// Whether that traffic class around a received datagram changes the packet inside, or may.
    #[inline]
    pub(crate) fn heeds(&self, traffic_class: u8) -> bool {
        traffic_class & ECN != NOT_ECT
            && matches!(self.traffic_class, TrafficClass::Ecn | TrafficClass::Whole)
    }
}

/// The hop limit around a UDP packet: lower than its own if it holds a datagram of a tunnel. The later fragments of such a
/// datagram show nothing: each is sealed with the usual hop limit, but is then itself a packet that is counted.
fn nesting(is_nested: fn(&[u8]) -> bool, ip: &Ip, packet: &[u8]) -> Result<u8, DropReason> {
    let (hop_limit, upper) = match (ip.is_v6(), packet) {
        (true, [_, _, _, _, _, _, _, hop_limit, ..]) => (*hop_limit, ip.upper_v6(packet)),
        (false, [_, _, _, _, _, _, a, b, hop_limit, ..]) => {
            let is_later = u16::from_be_bytes([*a, *b]) & 0x1fff != 0;
            (*hop_limit, (!is_later).then_some((ip.protocol, ip.header_len)))
        }
        _ => return Ok(0),
    };
    let Some((UDP, transport)) = upper else { return Ok(0) };
    if !packet.get(transport + UDP_HEADER..).is_some_and(is_nested) {
        return Ok(0);
    }
    let left = hop_limit.min(USUAL_HOP_LIMIT).saturating_sub(NESTING);
    if left == 0 { Err(DropReason::Loop) } else { Ok(left) }
}

/// A packet's ECN field.
#[inline]
fn ecn(ip: &Ip, packet: &[u8]) -> u8 {
    let Some(second) = packet.get(1) else { return NOT_ECT };
    let shift = if ip.is_v6() { 4 } else { 0 };
    second >> shift & ECN
}

/// A packet's traffic class with the ECN field 0.
#[inline]
fn dscp(ip: &Ip, packet: &[u8]) -> u8 {
    let traffic_class = match (ip.is_v6(), packet) {
        (true, [first, second, ..]) => first << 4 | second >> 4,
        (false, [_, second, ..]) => *second,
        _ => 0,
    };
    traffic_class & !ECN
}

/// Puts a congestion mark of the header that was around a packet on the packet (RFC 6040 §4.2, figure 4).
///
/// # Errors
/// [`DropReason::Congestion`]: the packet's sender does not know the mark, so the packet is dropped in its place.
pub(crate) fn decapsulate(traffic_class: u8, ip: &Ip, packet: &mut [u8]) -> Result<(), DropReason> {
    let inner = ecn(ip, packet);
    let combined = match (inner, traffic_class & ECN) {
        (NOT_ECT, CE) => return Err(DropReason::Congestion),
        (ECT_0 | ECT_1, CE) => CE,
        (ECT_0, ECT_1) => ECT_1,
        _ => return Ok(()),
    };
    set_ecn(ip, packet, combined);
    Ok(())
}

fn set_ecn(ip: &Ip, packet: &mut [u8], value: u8) {
    if ip.is_v6() {
        if let [_, second, ..] = packet {
            *second = *second & !(ECN << 4) | value << 4;
        }
        return;
    }
    if let [first, second, _, _, _, _, _, _, _, _, a, b, ..] = packet {
        let before = u16::from_be_bytes([*first, *second]);
        *second = *second & !ECN | value;
        [*a, *b] = checksum::update([*a, *b], before, u16::from_be_bytes([*first, *second]), false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::packets::{Flow, checksums_ok};

    const ECN_POLICY: OuterPolicy = OuterPolicy { traffic_class: TrafficClass::Ecn, nested: None };

    fn is_nested(payload: &[u8]) -> bool {
        payload.starts_with(&[4, 0, 0, 0])
    }

    fn header(policy: OuterPolicy, packet: &[u8]) -> Result<OuterHeader, DropReason> {
        policy.header(&Ip::parse(packet).expect("an IP packet"), packet)
    }

    fn hop_limit(packet: &[u8]) -> Result<u8, DropReason> {
        let policy = OuterPolicy { nested: Some(is_nested), ..OuterPolicy::default() };
        header(policy, packet).map(|header| header.hop_limit)
    }

    /// RFC 6040 §4.1: the ECN field is copied, in normal mode also CE; the DSCP is not.
    #[test]
    fn the_ecn_field_is_copied_and_the_dscp_is_not() {
        for v6 in [false, true] {
            for tos in 0..=u8::MAX {
                let packet = Flow { v6, tos, ..Flow::default() }.udp(b"x");
                let expected = OuterHeader { traffic_class: tos & 3, hop_limit: 0 };
                assert_eq!(header(ECN_POLICY, &packet), Ok(expected));
                assert_eq!(header(OuterPolicy::default(), &packet), Ok(OuterHeader::default()));
            }
        }
    }

    /// RFC 6040 §4.1, compatibility mode; RFC 2983 §3.1 for the DSCP.
    #[test]
    fn the_dscp_is_copied_and_the_ecn_field_is_not() {
        let policy = OuterPolicy { traffic_class: TrafficClass::Dscp, nested: None };
        for v6 in [false, true] {
            for tos in 0..=u8::MAX {
                let packet = Flow { v6, tos, ..Flow::default() }.udp(b"x");
                let expected = OuterHeader { traffic_class: tos & 0xfc, hop_limit: 0 };
                assert_eq!(header(policy, &packet), Ok(expected));
            }
        }
        assert!((0..=u8::MAX).all(|tos| !policy.heeds(tos)));
    }

    /// Both fields, and congestion marks of received datagrams.
    #[test]
    fn the_whole_traffic_class_is_copied() {
        let policy = OuterPolicy { traffic_class: TrafficClass::Whole, nested: None };
        for v6 in [false, true] {
            for tos in 0..=u8::MAX {
                let packet = Flow { v6, tos, ..Flow::default() }.udp(b"x");
                let expected = OuterHeader { traffic_class: tos, hop_limit: 0 };
                assert_eq!(header(policy, &packet), Ok(expected));
            }
        }
        assert!((0..=u8::MAX).all(|tos| policy.heeds(tos) == (tos & ECN != NOT_ECT)));
    }

    /// RFC 6040 §4.2, figure 4, row by row: the packet's ECN field; the result with Not-ECT, ECT(0), ECT(1) and CE
    /// around it.
    #[test]
    fn the_table_of_rfc_6040_holds() {
        let table = [
            (NOT_ECT, [Some(NOT_ECT), Some(NOT_ECT), Some(NOT_ECT), None]),
            (ECT_0, [Some(ECT_0), Some(ECT_0), Some(ECT_1), Some(CE)]),
            (ECT_1, [Some(ECT_1), Some(ECT_1), Some(ECT_1), Some(CE)]),
            (CE, [Some(CE); 4]),
        ];
        for v6 in [false, true] {
            for (inner, row) in table {
                for (outer, expected) in [NOT_ECT, ECT_0, ECT_1, CE].into_iter().zip(row) {
                    // The DSCP of neither matters.
                    let packet = |ecn| Flow { v6, tos: 0xb8 | ecn, ..Flow::default() }.udp(b"x");
                    let mut changed = packet(inner);
                    let ip = Ip::parse(&changed).expect("an IP packet");
                    let outcome = decapsulate(0x88 | outer, &ip, &mut changed);
                    match expected {
                        Some(ecn) => {
                            assert_eq!((outcome, &changed), (Ok(()), &packet(ecn)), "{inner} {outer}")
                        }
                        None => assert_eq!(outcome, Err(DropReason::Congestion)),
                    }
                    assert!(checksums_ok(&changed), "{inner} in {outer}");
                    if !ECN_POLICY.heeds(outer) {
                        assert_eq!(expected, Some(inner), "what is not looked at changes nothing");
                    }
                }
            }
        }
    }

    #[test]
    fn each_tunnel_in_a_tunnel_lowers_the_hop_limit() {
        let datagram = [&[4, 0, 0, 0][..], &[9; 60]].concat();
        for v6 in [false, true] {
            // IPv4 options; datagrams of tunnels have no IPv6 extension headers but that of fragments.
            for extension in [false, !v6] {
                let flow = |ttl| Flow { v6, ttl, extension, ..Flow::default() };
                for (ttl, expected) in [(64, 56), (63, 55), (9, 1), (128, 56), (255, 56)] {
                    assert_eq!(hop_limit(&flow(ttl).udp(&datagram)), Ok(expected), "{ttl}");
                }
                for ttl in [8, 1, 0] {
                    assert_eq!(hop_limit(&flow(ttl).udp(&datagram)), Err(DropReason::Loop), "{ttl}");
                }
                for other in [&b"anything else"[..], &[4, 0, 0], b""] {
                    assert_eq!(hop_limit(&flow(1).udp(other)), Ok(0), "nothing of a tunnel");
                }
                assert_eq!(hop_limit(&flow(1).tcp(0, 0x10, &datagram)), Ok(0), "no UDP");
            }
        }
    }

    #[test]
    fn a_first_fragment_shows_a_tunnel_and_a_later_one_does_not() {
        let mut packet = Flow::default().udp(&[4, 0, 0, 0, 1, 2, 3, 4]);
        packet[6..8].copy_from_slice(&[0x20, 0]);
        assert_eq!(hop_limit(&packet), Ok(56));
        packet[6..8].copy_from_slice(&[0x20, 1]);
        assert_eq!(hop_limit(&packet), Ok(0));
        let mut fragment = vec![UDP, 0, 0, 1, 0, 0, 0, 7];
        fragment.extend_from_slice(&[0; UDP_HEADER]);
        fragment.extend_from_slice(&[4, 0, 0, 0]);
        let v6 = |fragment: &[u8]| Flow { v6: true, ..Flow::default() }.ip(FRAGMENT, fragment);
        assert_eq!(hop_limit(&v6(&fragment)), Ok(56));
        fragment[3] = 9;
        assert_eq!(hop_limit(&v6(&fragment)), Ok(0));
    }
}
