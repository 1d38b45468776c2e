//! Addresses of packets, and the sets of addresses that words of the file name.

use std::net::IpAddr;

use adit_core::IpNet;

/// An address of either family. All of IPv4 come before all of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// IPv4.
    V4(u32),
    /// IPv6.
    V6(u128),
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Address::V4(address.to_bits()),
            IpAddr::V6(address) => Address::V6(address.to_bits()),
        }
    }
}

/// The addresses from one to another one of the same family, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    first: Address,
    last: Address,
}

impl Span {
    #[inline]
    pub(crate) fn has(&self, address: Address) -> bool {
        self.first <= address && address <= self.last
    }
}

impl From<IpNet> for Span {
    fn from(net: IpNet) -> Self {
        Span { first: net.network().into(), last: net.broadcast().into() }
    }
}

const fn v4(first: [u8; 4], bits: u32) -> Span {
    let first = u32::from_be_bytes(first);
    Span { first: Address::V4(first), last: Address::V4(first | (u32::MAX >> bits)) }
}

const fn v6(first: u16, bits: u32) -> Span {
    let first = (first as u128) << 112;
    Span { first: Address::V6(first), last: Address::V6(first | (u128::MAX >> bits)) }
}

/// Private networks: RFC 1918, shared addresses (RFC 6598), link-local ones (RFC 3927, RFC 4291 §2.5.6), and unique local
/// ones of IPv6 (RFC 4193).
const PRIVATE: [Span; 7] = [
    v4([10, 0, 0, 0], 8),
    v4([172, 16, 0, 0], 12),
    v4([192, 168, 0, 0], 16),
    v4([100, 64, 0, 0], 10),
    v4([169, 254, 0, 0], 16),
    v6(0xfc00, 7),
    v6(0xfe80, 10),
];

/// Addresses of no single host elsewhere: this network and loopback (RFC 6890), multicast, reserved with broadcast; in
/// IPv6 unspecified and loopback with all of ::/16, and multicast.
const OF_NO_HOST: [Span; 6] = [
    v4([0, 0, 0, 0], 8),
    v4([127, 0, 0, 0], 8),
    v4([224, 0, 0, 0], 4),
    v4([240, 0, 0, 0], 4),
    v6(0, 16),
    v6(0xff00, 8),
];

/// Whether an address is in a private network.
pub(crate) fn is_private(address: Address) -> bool {
    PRIVATE.iter().any(|span| span.has(address))
}

/// Whether an address is one of the Internet: of a host, and not private.
pub(crate) fn is_global(address: Address) -> bool {
    !is_private(address) && !OF_NO_HOST.iter().any(|span| span.has(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_the_sets_of_the_rfcs() {
        let address = |text: &str| Address::from(text.parse::<IpAddr>().unwrap());
        for text in
            ["10.0.0.0", "172.31.255.255", "192.168.1.1", "100.127.0.1", "169.254.1.1", "fd00::1", "fe80::1"]
        {
            assert!(is_private(address(text)) && !is_global(address(text)), "{text}");
        }
        for text in ["1.1.1.1", "172.32.0.0", "100.128.0.0", "223.255.255.255", "2001:db8::1", "2606:4700::1"]
        {
            assert!(!is_private(address(text)) && is_global(address(text)), "{text}");
        }
        for text in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "ff02::1"] {
            assert!(!is_private(address(text)) && !is_global(address(text)), "{text}");
        }
    }

    #[test]
    fn a_network_of_one_family_has_no_address_of_the_other() {
        let all: Span = "::/0".parse::<IpNet>().unwrap().into();
        assert!(all.has(Address::V6(0)) && all.has(Address::V6(u128::MAX)) && !all.has(Address::V4(0)));
        let all: Span = "0.0.0.0/0".parse::<IpNet>().unwrap().into();
        assert!(all.has(Address::V4(u32::MAX)) && !all.has(Address::V6(0)));
    }
}
