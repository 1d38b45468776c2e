//! Selectors of peers and sessions, and the fields that they compare (RFC 4301 §4.4.1.1).
//!
//! Fragments (RFC 4301 §7): the first one has ports, so it is judged as a whole packet is. The others match selectors
//! for all ports only; a packet that no selector matches is dropped and counted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use adit_core::{Flow, Ports, Selector};

use crate::headers::{Address, Ip, TCP, UDP};
use crate::recent::Key;

const DCCP: u8 = 33;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

/// Selectors as packets are compared with them: by family, addresses as numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selectors {
    v4: Vec<Rule<u32>>,
    v6: Vec<Rule<u128>>,
}

/// One selector.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule<A> {
    /// Its place among all selectors.
    index: usize,
    local: Span<A>,
    remote: Span<A>,
    protocol: Option<u8>,
    local_ports: Span<u16>,
    remote_ports: Span<u16>,
}

/// The numbers from one to another one, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span<T> {
    first: T,
    last: T,
}

impl Selectors {
    /// Selectors of which one must match.
    pub fn new(selectors: &[Selector]) -> Self {
        let mut all = Selectors::default();
        for (index, selector) in selectors.iter().enumerate() {
            let local = (*selector.local.start(), *selector.local.end());
            let remote = (*selector.remote.start(), *selector.remote.end());
            match (v4(local), v4(remote), v6(local), v6(remote)) {
                (Some(local), Some(remote), ..) => all.v4.push(Rule::new(index, local, remote, selector)),
                (.., Some(local), Some(remote)) => all.v6.push(Rule::new(index, local, remote, selector)),
                // No packet has addresses of two families.
                _ => {}
            }
        }
        all.v4.shrink_to_fit();
        all.v6.shrink_to_fit();
        all
    }

    /// Whether one of them matches.
    #[inline]
    pub(crate) fn select(&self, flow: &Flow) -> bool {
        self.position(flow).is_some()
    }

    /// The place of the first selector that matches.
    #[inline]
    pub(crate) fn position(&self, flow: &Flow) -> Option<usize> {
        match (flow.local, flow.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                position(&self.v4, local.to_bits(), remote.to_bits(), flow)
            }
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                position(&self.v6, local.to_bits(), remote.to_bits(), flow)
            }
            _ => None,
        }
    }
}

impl<A> Rule<A> {
    fn new(index: usize, local: Span<A>, remote: Span<A>, selector: &Selector) -> Self {
        let ports = |range: &RangeInclusive<u16>| Span { first: *range.start(), last: *range.end() };
        Rule {
            index,
            local,
            remote,
            protocol: selector.protocol,
            local_ports: ports(&selector.local_ports),
            remote_ports: ports(&selector.remote_ports),
        }
    }
}

impl<T: Copy + Ord> Span<T> {
    #[inline]
    fn has(&self, value: T) -> bool {
        self.first <= value && value <= self.last
    }
}

#[inline]
fn position<A: Copy + Ord>(rules: &[Rule<A>], local: A, remote: A, flow: &Flow) -> Option<usize> {
    let found = rules.iter().find(|rule| {
        rule.local.has(local)
            && rule.remote.has(remote)
            && rule.protocol.is_none_or(|protocol| flow.protocol == Some(protocol))
            && has_port(rule.local_ports, flow.ports.map(|ports| ports.local))
            && has_port(rule.remote_ports, flow.ports.map(|ports| ports.remote))
    });
    found.map(|rule| rule.index)
}

#[inline]
fn has_port(ports: Span<u16>, port: Option<u16>) -> bool {
    match port {
        Some(port) => ports.has(port),
        None => ports == Span { first: 0, last: u16::MAX },
    }
}

fn v4((first, last): (IpAddr, IpAddr)) -> Option<Span<u32>> {
    let (IpAddr::V4(first), IpAddr::V4(last)) = (first, last) else { return None };
    Some(Span { first: first.to_bits(), last: last.to_bits() })
}

fn v6((first, last): (IpAddr, IpAddr)) -> Option<Span<u128>> {
    let (IpAddr::V6(first), IpAddr::V6(last)) = (first, last) else { return None };
    Some(Span { first: first.to_bits(), last: last.to_bits() })
}

/// The fields of a packet that we send, as selectors read them.
#[inline]
pub(crate) fn outbound(ip: &Ip, packet: &[u8]) -> Flow {
    let (protocol, ports) = upper(ip, packet);
    let ports = ports.map(|[source, destination]| Ports { local: source, remote: destination });
    Flow { local: address(ip.source), remote: address(ip.destination), protocol, ports }
}

/// The fields of a packet that the peer sent, as selectors read them.
#[inline]
pub(crate) fn inbound(ip: &Ip, packet: &[u8]) -> Flow {
    let (protocol, ports) = upper(ip, packet);
    let ports = ports.map(|[source, destination]| Ports { local: destination, remote: source });
    Flow { local: address(ip.destination), remote: address(ip.source), protocol, ports }
}

/// The IP protocol of a packet, and its source and destination port.
#[inline]
fn upper(ip: &Ip, packet: &[u8]) -> (Option<u8>, Option<[u16; 2]>) {
    match ip.upper(packet) {
        Some((protocol, offset)) => {
            (Some(protocol), packet.get(offset..ip.len).and_then(|transport| ports(transport, protocol)))
        }
        None => ((!ip.is_v6()).then_some(ip.protocol), None),
    }
}

/// The fields that selectors compare, of a packet whose upper header begins where its IP header ends: packets with equal ones
/// have equal [`Flow`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    source: Address,
    destination: Address,
    protocol: u8,
    /// The first bytes behind the IP header: the ports, of protocols that have some.
    ports: [u8; 4],
}

impl Fields {
    /// The fields of a packet. `None`: a fragment, extension headers, or too few bytes.
    #[inline]
    pub(crate) fn of(ip: &Ip, packet: &[u8]) -> Option<Self> {
        if ip.fragment || ip.is_v6() && !matches!(ip.protocol, TCP | UDP) {
            return None;
        }
        let ports = *packet.get(ip.header_len..ip.len)?.first_chunk()?;
        Some(Fields { source: ip.source, destination: ip.destination, protocol: ip.protocol, ports })
    }
}

impl Key for Fields {
    #[inline]
    fn number(&self) -> u64 {
        let ports = u64::from(u32::from_le_bytes(self.ports));
        self.source.number() ^ self.destination.number().rotate_left(20) ^ ports.rotate_left(40)
    }
}

fn ports(transport: &[u8], protocol: u8) -> Option<[u16; 2]> {
    match (protocol, transport) {
        (TCP | UDP | DCCP | SCTP | UDP_LITE, [a, b, c, d, ..]) => {
            Some([u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])])
        }
        _ => None,
    }
}

fn address(address: Address) -> IpAddr {
    match address {
        Address::V4(bits) => Ipv4Addr::from_bits(bits).into(),
        Address::V6(bits) => Ipv6Addr::from_bits(bits).into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tests::packets::Flow as Packets;

    fn selector(local: &str, remote: &str) -> Selector {
        Selector::between(local.parse().unwrap(), remote.parse().unwrap())
    }

    fn outbound_of(packet: &[u8]) -> Flow {
        outbound(&Ip::parse(packet).unwrap(), packet)
    }

    #[test]
    fn a_packet_has_ports_in_its_first_fragment_alone() {
        let mut packet = Packets::default().udp(b"of two fragments");
        let whole = outbound_of(&packet);
        assert_eq!((whole.protocol, whole.ports.is_some()), (Some(UDP), true));
        packet[6] = 0x20;
        assert_eq!(outbound_of(&packet), whole, "the first one");
        packet[7] = 1;
        assert_eq!(outbound_of(&packet), Flow { ports: None, ..whole }, "another one");
        packet[9] = 1;
        packet[6..8].fill(0);
        assert_eq!(outbound_of(&packet), Flow { ports: None, protocol: Some(1), ..whole }, "ICMP");
        packet[9] = TCP;
        let cut = &mut packet[..22];
        cut[2..4].copy_from_slice(&22_u16.to_be_bytes());
        assert_eq!(outbound_of(cut).ports, None, "too short to have any");
    }

    #[test]
    fn an_ipv6_packet_has_ports_in_its_first_fragment_alone() {
        let mut packet = vec![0; 40 + 8 + 8];
        packet[0] = 0x60;
        packet[5] = 16;
        packet[6] = crate::headers::FRAGMENT;
        packet[40] = UDP;
        packet[48..52].copy_from_slice(&[0x12, 0x34, 0x00, 0x35]);
        let flow = outbound_of(&packet);
        assert_eq!((flow.protocol, flow.ports), (Some(UDP), Some(Ports { local: 0x1234, remote: 53 })));
        packet[43] = 8;
        let flow = outbound_of(&packet);
        assert_eq!((flow.protocol, flow.ports), (None, None));
    }

    #[test]
    fn what_a_peer_sends_has_its_source_on_the_peers_side() {
        let packet = Packets::default().udp(b"any");
        let ip = Ip::parse(&packet).unwrap();
        let (sent, received) = (outbound(&ip, &packet), inbound(&ip, &packet));
        assert_eq!((sent.local, sent.remote), (received.remote, received.local));
        let swapped = sent.ports.map(|Ports { local, remote }| Ports { local: remote, remote: local });
        assert_eq!(received.ports, swapped);
    }

    #[test]
    fn a_selector_of_two_families_matches_nothing() {
        let mixed = Selector { local: selector("::/0", "::/0").local, ..selector("0.0.0.0/0", "0.0.0.0/0") };
        assert_eq!(Selectors::new(&[mixed]), Selectors::default());
    }

    fn any_packet() -> impl Strategy<Value = Vec<u8>> {
        let few = proptest::sample::select(vec![0_u8, 1, TCP, UDP, crate::headers::FRAGMENT, 60]);
        let bytes =
            proptest::collection::vec(proptest::sample::select(vec![0_u8, 1, 6, 17, 0x20, 44]), 48..60);
        (any::<bool>(), few, 20_u8..60, bytes).prop_map(|(v6, protocol, len, mut bytes)| {
            bytes[0] = if v6 { 0x60 } else { 0x45 };
            bytes[2..6].copy_from_slice(&if v6 { [0, 0, 0, len % 20] } else { [0, len.min(48), 0, 0] });
            bytes[if v6 { 6 } else { 9 }] = protocol;
            bytes
        })
    }

    fn address_of(v6: bool, low: u8) -> IpAddr {
        if v6 { Ipv6Addr::from_bits(low.into()).into() } else { Ipv4Addr::from_bits(low.into()).into() }
    }

    prop_compose! {
        fn any_selector()(
            v6: bool,
            bounds in proptest::array::uniform8(0_u8..8),
            protocol in proptest::option::of(0_u8..3),
            any_ports: (bool, bool),
        ) -> Selector {
            let ports = |any: bool, at: usize| match any {
                true => Selector::ANY_PORT,
                false => bounds[at].into()..=bounds[at + 1].into(),
            };
            Selector {
                local: address_of(v6, bounds[0])..=address_of(v6, bounds[1]),
                remote: address_of(v6, bounds[2])..=address_of(v6, bounds[3]),
                protocol,
                local_ports: ports(any_ports.0, 4),
                remote_ports: ports(any_ports.1, 6),
            }
        }
    }

    prop_compose! {
        fn any_flow()(
            v6: bool,
            local in 0_u8..8,
            remote in 0_u8..8,
            protocol in proptest::option::of(0_u8..3),
            ports in proptest::option::of((0_u16..8, 0_u16..8)),
        ) -> Flow {
            let ports = ports.map(|(local, remote)| Ports { local, remote });
            Flow { local: address_of(v6, local), remote: address_of(v6, remote), protocol, ports }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]
        #[test]
        fn packets_with_equal_fields_have_equal_flows(packet in any_packet(), at in 0_usize..48, to: u8) {
            let mut other = packet.clone();
            other[at] = to;
            let [one, other] = [packet, other].map(|packet| {
                let ip = Ip::parse(&packet)?;
                Some((Fields::of(&ip, &packet)?, outbound(&ip, &packet)))
            });
            if let (Some((fields, flow)), Some((other_fields, other_flow))) = (one, other) {
                prop_assert!(fields != other_fields || flow == other_flow, "{flow:?} {other_flow:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn equals_a_scan_of_all(
            selectors in proptest::collection::vec(any_selector(), 0..6),
            flows in proptest::collection::vec(any_flow(), 1..20),
        ) {
            let ready = Selectors::new(&selectors);
            for flow in flows {
                let expected = selectors.iter().position(|selector| selector.matches(&flow));
                prop_assert_eq!(ready.position(&flow), expected, "{:?}", flow);
            }
        }
    }
}
