use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;

/// Traffic of a peer or a session, by addresses, IP protocol and ports (RFC 4301 §4.4.1.1, RFC 7296 §3.13).
///
/// Where there are several, one that matches is enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Inner addresses on our side: sources of sent packets, destinations of received ones.
    pub local: RangeInclusive<IpAddr>,
    /// Inner addresses on the peer's side. Of the same family as those on ours.
    pub remote: RangeInclusive<IpAddr>,
    /// The IP protocol; `None`: any.
    pub protocol: Option<u8>,
    /// Ports on our side. If these are not [`Selector::ANY_PORT`], a packet that shows no ports does not match ([`Flow::ports`]).
    pub local_ports: RangeInclusive<u16>,
    /// Ports on the peer's side, likewise.
    pub remote_ports: RangeInclusive<u16>,
}

impl Selector {
    /// All ports, and packets that have none.
    pub const ANY_PORT: RangeInclusive<u16> = 0..=u16::MAX;

    /// All packets between two networks of one family.
    pub fn between(local: IpNet, remote: IpNet) -> Self {
        Selector {
            local: local.network()..=local.broadcast(),
            remote: remote.network()..=remote.broadcast(),
            protocol: None,
            local_ports: Selector::ANY_PORT,
            remote_ports: Selector::ANY_PORT,
        }
    }

    /// Whether it matches a packet.
    pub fn matches(&self, flow: &Flow) -> bool {
        let has = |range: &RangeInclusive<u16>, port: Option<u16>| match port {
            Some(port) => range.contains(&port),
            None => *range == Selector::ANY_PORT,
        };
        self.local.contains(&flow.local)
            && self.remote.contains(&flow.remote)
            && self.protocol.is_none_or(|protocol| flow.protocol == Some(protocol))
            && has(&self.local_ports, flow.ports.map(|ports| ports.local))
            && has(&self.remote_ports, flow.ports.map(|ports| ports.remote))
    }
}

/// The addresses, IP protocol and ports of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its inner address on our side.
    pub local: IpAddr,
    /// Its inner address on the peer's side.
    pub remote: IpAddr,
    /// The IP protocol. `None`: it stands behind headers that are not understood, or in another fragment.
    pub protocol: Option<u8>,
    /// The ports. `None`: the IP protocol has none, or they stand in another fragment.
    pub ports: Option<Ports>,
}

/// The ports of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The port on our side.
    pub local: u16,
    /// The port on the peer's side.
    pub remote: u16,
}

impl Flow {
    /// A packet between two addresses that shows neither protocol nor ports.
    pub const fn between(local: IpAddr, remote: IpAddr) -> Self {
        Flow { local, remote, protocol: None, ports: None }
    }
}

impl From<Flow> for Selector {
    /// The narrowest selector that matches the packet.
    fn from(flow: Flow) -> Self {
        let range = |port: Option<u16>| port.map_or(Selector::ANY_PORT, |port| port..=port);
        Selector {
            local: flow.local..=flow.local,
            remote: flow.remote..=flow.remote,
            protocol: flow.protocol,
            local_ports: range(flow.ports.map(|ports| ports.local)),
            remote_ports: range(flow.ports.map(|ports| ports.remote)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(local: &str, remote: &str) -> Selector {
        Selector::between(local.parse().unwrap(), remote.parse().unwrap())
    }

    fn udp(local: u16, remote: u16) -> Flow {
        Flow {
            local: "10.0.0.1".parse().unwrap(),
            remote: "10.0.0.2".parse().unwrap(),
            protocol: Some(17),
            ports: Some(Ports { local, remote }),
        }
    }

    #[test]
    fn a_prefix_is_the_range_of_its_addresses() {
        let selector = Selector::between("10.1.2.3/16".parse().unwrap(), "10.9.0.1/32".parse().unwrap());
        let range = |first: &str, last: &str| first.parse().unwrap()..=last.parse().unwrap();
        assert_eq!(selector.local, range("10.1.0.0", "10.1.255.255"));
        assert_eq!(selector.remote, range("10.9.0.1", "10.9.0.1"));
        let selector = Selector::between("fd00::/64".parse().unwrap(), "::/0".parse().unwrap());
        assert_eq!(selector.local, range("fd00::", "fd00::ffff:ffff:ffff:ffff"));
        assert_eq!(selector.remote, range("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"));
    }

    #[test]
    fn addresses_protocol_and_ports_must_match() {
        let base = selector("10.0.0.1/32", "10.0.0.0/24");
        let with = |protocol, local_ports, remote_ports| Selector {
            protocol,
            local_ports,
            remote_ports,
            ..base.clone()
        };
        let any = || Selector::ANY_PORT;
        for (selector, expected) in [
            (base.clone(), true),
            (selector("10.0.0.2/32", "10.0.0.0/24"), false),
            (selector("10.0.0.1/32", "10.0.1.0/24"), false),
            (selector("::/0", "::/0"), false),
            (with(Some(17), any(), any()), true),
            (with(Some(6), any(), any()), false),
            (with(None, 500..=500, any()), true),
            (with(None, 501..=u16::MAX, any()), false),
            (with(Some(17), any(), 4000..=4500), true),
            (with(Some(17), any(), 4000..=4499), false),
        ] {
            assert_eq!(selector.matches(&udp(500, 4500)), expected, "{selector:?}");
        }
    }

    #[test]
    fn a_packet_without_ports_matches_all_ports_only() {
        let flow = Flow { ports: None, ..udp(0, 0) };
        let any = selector("10.0.0.0/8", "10.0.0.0/8");
        assert!(any.matches(&flow));
        assert!(!Selector { remote_ports: 0..=u16::MAX - 1, ..any.clone() }.matches(&flow));
        assert!(!Selector { protocol: Some(17), ..any }.matches(&Flow { protocol: None, ..flow }));
    }

    #[test]
    fn the_selector_of_a_packet_matches_it_alone() {
        let flow = udp(500, 4500);
        let selector = Selector::from(flow);
        assert!(selector.matches(&flow));
        for other in [
            Flow { local: flow.remote, ..flow },
            Flow { remote: flow.local, ..flow },
            Flow { protocol: Some(6), ..flow },
            Flow { ports: None, ..flow },
            udp(501, 4500),
            udp(500, 4501),
        ] {
            assert!(!selector.matches(&other), "{other:?}");
        }
        assert!(Selector::from(Flow { ports: None, ..flow }).matches(&flow));
    }
}
