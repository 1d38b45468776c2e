use std::net::IpAddr;

use adit_core::IpNet;

/// A traffic selector: packets by address, IP protocol and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficSelector {
    /// The addresses.
    pub addresses: Addresses,
    /// The IP protocol; 0: any.
    pub protocol: u8,
    /// The ports. Of ICMP: type times 256 and code.
    pub ports: PortRange,
}

impl TrafficSelector {
    /// All packets of the end's own address (`dynamic`).
    pub const DYNAMIC: Self =
        TrafficSelector { addresses: Addresses::Dynamic, protocol: 0, ports: PortRange::ANY };
}

/// The addresses of a traffic selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// The end's own: the inner address that it got, or else its outer address.
    Dynamic,
    /// A network, without bits beyond its prefix.
    Network(IpNet),
    /// From the first to the last, both of one family.
    Range(IpAddr, IpAddr),
}

/// The ports of a traffic selector (RFC 7296 section 3.13.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortRange {
    /// From the first to the last.
    From(u16, u16),
    /// Packets whose port is not known, such as fragments (`opaque`).
    Opaque,
}

impl PortRange {
    /// All ports.
    pub const ANY: Self = PortRange::From(0, u16::MAX);
}
