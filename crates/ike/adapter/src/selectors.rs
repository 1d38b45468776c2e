//! The text of traffic selectors, as strongSwan writes them.

use std::net::IpAddr;

use adit_ike::wire::{AddressRange, TrafficSelector};

/// A selector: a network or a range, with the protocol and the ports in brackets where not all are meant.
pub(crate) fn selector(selector: &TrafficSelector) -> String {
    let addresses = match &selector.addresses {
        AddressRange::V4(first, last) => range((*first).into(), (*last).into()),
        AddressRange::V6(first, last) => range((*first).into(), (*last).into()),
        AddressRange::Other(kind, _) => format!("kind {kind}"),
    };
    with_protocol(addresses, selector.protocol, (selector.first_port, selector.last_port))
}

/// Addresses, with the protocol and the ports in brackets where not all are meant.
pub(crate) fn with_protocol(addresses: String, protocol: u8, ports: (u16, u16)) -> String {
    let protocol = match protocol {
        0 => String::new(),
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "ipv6-icmp".to_owned(),
        other => other.to_string(),
    };
    let ports = match ports {
        (0, u16::MAX) => String::new(),
        (u16::MAX, 0) => "OPAQUE".to_owned(),
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    };
    match (protocol.is_empty(), ports.is_empty()) {
        (true, true) => addresses,
        (false, true) => format!("{addresses}[{protocol}]"),
        (_, false) => format!("{addresses}[{protocol}/{ports}]"),
    }
}

/// A network where the range is one.
pub(crate) fn range(first: IpAddr, last: IpAddr) -> String {
    let network = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            prefix((first.to_bits() ^ last.to_bits()).into(), first.to_bits().into(), 32)
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => {
            prefix(first.to_bits() ^ last.to_bits(), first.to_bits(), 128)
        }
        _ => None,
    };
    match network {
        Some(len) => format!("{first}/{len}"),
        None => format!("{first}..{last}"),
    }
}

/// The length of the prefix, if the addresses from `first` on that differ from it in `difference` at most are a network.
fn prefix(difference: u128, first: u128, bits: u32) -> Option<u32> {
    let is_network = difference & difference.wrapping_add(1) == 0 && first & difference == 0;
    is_network.then_some(bits - difference.count_ones())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_written_as_strongswan_writes_them() {
        let v4 = |first: &str, last: &str| AddressRange::V4(first.parse().unwrap(), last.parse().unwrap());
        let v6 = |first: &str, last: &str| AddressRange::V6(first.parse().unwrap(), last.parse().unwrap());
        let all = |addresses| TrafficSelector { protocol: 0, first_port: 0, last_port: u16::MAX, addresses };
        for (addresses, expected) in [
            (v4("10.77.1.0", "10.77.1.255"), "10.77.1.0/24"),
            (v4("0.0.0.0", "255.255.255.255"), "0.0.0.0/0"),
            (v4("10.0.0.1", "10.0.0.1"), "10.0.0.1/32"),
            (v4("10.0.0.1", "10.0.0.2"), "10.0.0.1..10.0.0.2"),
            (v4("10.0.0.4", "10.0.0.11"), "10.0.0.4..10.0.0.11"),
            (v6("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), "::/0"),
            (v6("fd00:1::", "fd00:1::ffff:ffff:ffff:ffff"), "fd00:1::/64"),
        ] {
            assert_eq!(selector(&all(addresses)), expected);
        }
        let base = all(v4("10.0.0.0", "10.255.255.255"));
        let of = |protocol, first_port, last_port| {
            selector(&TrafficSelector { protocol, first_port, last_port, ..base.clone() })
        };
        assert_eq!(of(6, 80, 80), "10.0.0.0/8[tcp/80]");
        assert_eq!(of(17, 0, u16::MAX), "10.0.0.0/8[udp]");
        assert_eq!(of(0, 1000, 2000), "10.0.0.0/8[/1000-2000]");
        assert_eq!(of(132, u16::MAX, 0), "10.0.0.0/8[132/OPAQUE]");
    }
}
