//! The traffic of a child, as its configuration names it.

use std::net::IpAddr;

use adit_core::IpNet;

use crate::wire::{AddressRange, TrafficSelector};

/// Packets of one end, by addresses, IP protocol and ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The addresses.
    pub addresses: Addresses,
    /// The IP protocol; 0: any.
    pub protocol: u8,
    /// The least and the greatest port. For ICMP, type and code as one number.
    pub ports: (u16, u16),
}

/// The addresses of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// The addresses of a network.
    Network(IpNet),
    /// The addresses from the first to the last, which are of one family.
    Range(IpAddr, IpAddr),
    /// The inner addresses that the end got ([`super::Inner`]), or else its outer address, as the IKE SA has it (`dynamic` of
    /// swanctl.conf).
    Dynamic,
}

impl Traffic {
    /// All packets of a network.
    pub const fn all_of(network: IpNet) -> Self {
        Traffic { addresses: Addresses::Network(network), protocol: 0, ports: (0, u16::MAX) }
    }

    /// The selector. `outer` is the end's outer address. `None`: the traffic depends on the outer address, which is not known, or
    /// the range has addresses of two families.
    pub(crate) fn selector(&self, outer: Option<IpAddr>) -> Option<TrafficSelector> {
        let (first, last) = match self.addresses {
            Addresses::Network(network) => (network.network(), network.broadcast()),
            Addresses::Range(first, last) => (first, last),
            Addresses::Dynamic => (outer?.to_canonical(), outer?.to_canonical()),
        };
        let addresses = match (first, last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => AddressRange::V4(first, last),
            (IpAddr::V6(first), IpAddr::V6(last)) => AddressRange::V6(first, last),
            _ => return None,
        };
        let (first_port, last_port) = self.ports;
        Some(TrafficSelector { protocol: self.protocol, first_port, last_port, addresses })
    }

    /// Whether the range begins behind its end, or has addresses of two families.
    pub(crate) fn is_empty(&self) -> bool {
        let is_reversed = matches!(self.addresses, Addresses::Range(first, last) if first > last || first.is_ipv4() != last.is_ipv4());
        is_reversed || self.ports.0 > self.ports.1
    }
}
