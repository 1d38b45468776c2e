//! Addresses, networks and names of hosts.

use std::net::IpAddr;

use adit_core::IpNet;

use super::shown;
use crate::model::{Host, InterfaceId, PoolAddresses};

/// An address of `local_addrs` or `remote_addrs`.
///
/// # Errors
/// It is none, and no name of a host either.
pub(crate) fn host(text: &str) -> Result<Host, String> {
    let any = match text {
        "%any" => Some((true, true)),
        "%any4" | "0.0.0.0" | "0.0.0.0/0" => Some((true, false)),
        "%any6" | "::" | "::/0" => Some((false, true)),
        _ => None,
    };
    if let Some((ipv4, ipv6)) = any {
        return Ok(Host::Any { ipv4, ipv6 });
    }
    if let Ok(address) = text.parse() {
        return Ok(Host::Address(address));
    }
    if text.contains('/') {
        return network(text).map(Host::Network);
    }
    if let Some((first, last)) = range(text) {
        return ordered(text, first, last).map(|(first, last)| Host::Range(first, last));
    }
    match is_host_name(text) {
        true => Ok(Host::Name(text.to_owned())),
        false => Err(format!(
            "`{}` is not an address, a network, a range such as 10.0.0.1-10.0.0.9, the name of a host, or %any",
            shown(text)
        )),
    }
}

/// Whether a text has the form of a host's name (RFC 1123 section 2.1, and `_`), and is not a malformed address.
fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    // The last label of a name has a letter in front (RFC 3696 section 2): 10.0.0.256 is no name.
    let ends_with_number =
        name.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    name.len() <= 253 && name.split('.').all(is_label) && !ends_with_number
}

/// A network, as it is written; an address stands for the network of it alone.
///
/// # Errors
/// It is none.
pub(crate) fn network(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
    let network = text.parse().ok().or_else(address);
    network.ok_or_else(|| format!("`{}` is not a network, such as 10.1.0.0/16 or fd00::/64", shown(text)))
}

/// The two addresses of `first-last`. `None`: it has not that form.
pub(crate) fn range(text: &str) -> Option<(IpAddr, IpAddr)> {
    let (first, last) = text.split_once('-')?;
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
}

/// The ends of a range, if they are of one family and in order.
///
/// # Errors
/// They are not.
pub(crate) fn ordered(text: &str, first: IpAddr, last: IpAddr) -> Result<(IpAddr, IpAddr), String> {
    match first.is_ipv4() == last.is_ipv4() && first <= last {
        true => Ok((first, last)),
        false => Err(format!(
            "`{}` is not a range from a lower address to a higher one of its family",
            shown(text)
        )),
    }
}

/// An address.
///
/// # Errors
/// It is none.
pub(crate) fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("`{}` is not an address", shown(text)))
}

/// An address of `vips`; `%any` and `%any6` stand for the unspecified ones.
///
/// # Errors
/// It is none.
pub(crate) fn virtual_address(text: &str) -> Result<IpAddr, String> {
    match text {
        "%any" | "%any4" => address("0.0.0.0"),
        "%any6" => address("::"),
        _ => address(text),
    }
}

/// The addresses of a pool.
///
/// # Errors
/// They are none.
pub(crate) fn pool(text: &str) -> Result<PoolAddresses, String> {
    if let Some((first, last)) = range(text) {
        return ordered(text, first, last).map(|(first, last)| PoolAddresses::Range(first, last));
    }
    network(text).map(PoolAddresses::Network).map_err(|_| {
        format!(
            "`{}` is not a network, such as 10.9.0.0/24, or a range, such as 10.9.0.10-10.9.0.99",
            shown(text)
        )
    })
}

/// A number that ties a child SA to a device.
///
/// # Errors
/// It is none.
pub(crate) fn interface_id(text: &str) -> Result<InterfaceId, String> {
    match text.to_ascii_lowercase().as_str() {
        "%unique" => Ok(InterfaceId::Unique),
        "%unique-dir" => Ok(InterfaceId::UniqueForDirection),
        _ => match super::numbers::number_u32(text) {
            Ok(0) => Ok(InterfaceId::None),
            Ok(number) => Ok(InterfaceId::Number(number)),
            Err(_) => Err(format!("`{}` is not a number, %unique or %unique-dir", shown(text))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_networks_ranges_and_names() {
        let v4 = |text: &str| text.parse().unwrap();
        for (text, expected) in [
            ("%any", Host::Any { ipv4: true, ipv6: true }),
            ("0.0.0.0/0", Host::Any { ipv4: true, ipv6: false }),
            ("%any6", Host::Any { ipv4: false, ipv6: true }),
            ("192.0.2.1", Host::Address(v4("192.0.2.1"))),
            ("2001:db8::1", Host::Address(v4("2001:db8::1"))),
            ("192.0.2.0/24", Host::Network("192.0.2.0/24".parse().unwrap())),
            ("192.0.2.1-192.0.2.9", Host::Range(v4("192.0.2.1"), v4("192.0.2.9"))),
            ("my-host.example.org", Host::Name("my-host.example.org".to_owned())),
            ("gateway", Host::Name("gateway".to_owned())),
        ] {
            assert_eq!(host(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "192.0.2.256",
            "192.0.2.1/33",
            "192.0.2.9-192.0.2.1",
            "192.0.2.1-::1",
            "a b",
            "-a",
            "a..b",
            "%all",
        ] {
            assert!(host(text).is_err(), "{text}");
        }
    }

    #[test]
    fn pools_are_networks_or_ranges() {
        assert_eq!(pool("10.9.0.5/24"), Ok(PoolAddresses::Network("10.9.0.5/24".parse().unwrap())));
        let range = PoolAddresses::Range("fd00::1".parse().unwrap(), "fd00::9".parse().unwrap());
        assert_eq!(pool("fd00::1-fd00::9"), Ok(range));
        assert!(pool("10.9.0.0-10.9.0").is_err() && pool("%any").is_err());
        assert_eq!(interface_id("0x2a"), Ok(InterfaceId::Number(42)));
        assert_eq!(interface_id("%unique-dir"), Ok(InterfaceId::UniqueForDirection));
        assert!(interface_id("%same").is_err());
    }
}
