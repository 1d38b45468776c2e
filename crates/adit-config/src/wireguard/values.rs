//! Single values. An error says what would be right, and quotes no key.

use std::net::IpAddr;

use adit_core::IpNet;
use base64ct::{Base64, Encoding as _};
use zeroize::Zeroizing;

use super::model::{AllowedIp, Endpoint, Key, Table};

pub(super) type Value<T> = Result<T, &'static str>;

pub(super) fn key(value: &str) -> Value<Key> {
    let mut bytes = Zeroizing::new([0; 32]);
    let decoded = Base64::decode(value, bytes.as_mut_slice()).map_or(0, <[u8]>::len);
    if decoded == 32 { Ok(Key(bytes)) } else { Err("a key is 32 bytes in base64, as wg genkey writes it") }
}

pub(super) fn port(value: &str) -> Value<u16> {
    digits(value).ok_or("a port is a number from 0 to 65535 (names of services are not looked up)")
}

pub(super) fn fwmark(value: &str) -> Value<u32> {
    let mark = match value.strip_prefix("0x").or(value.strip_prefix("0X")) {
        Some(hex) if !hex.starts_with('+') => u32::from_str_radix(hex, 16).ok(),
        Some(_) => None,
        None if is_off(value) => Some(0),
        None => digits(value),
    };
    mark.ok_or("a firewall mark is off, a number, or 0x and a hexadecimal number of up to 32 bits")
}

pub(super) fn keepalive(value: &str) -> Value<u16> {
    if is_off(value) {
        return Ok(0);
    }
    digits(value).ok_or("a persistent keepalive is off, or a number of seconds from 0 to 65535")
}

pub(super) fn mtu(value: &str) -> Value<u16> {
    let mtu = digits(value).filter(|mtu| (68..=65_535).contains(mtu));
    mtu.ok_or("an MTU is a number of bytes from 68 to 65535")
}

pub(super) fn save(value: &str) -> Value<bool> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("it is true or false"),
    }
}

pub(super) fn table(value: &str) -> Value<Table> {
    Ok(match value {
        "" => return Err("a table is auto, off, a number or a name"),
        "auto" => Table::Auto,
        "off" => Table::Off,
        _ => digits(value).map_or_else(|| Table::Name(value.to_owned()), Table::Number),
    })
}

/// The host is what comes before the last colon, with brackets around an IPv6 address.
pub(super) fn endpoint(value: &str) -> Value<Endpoint> {
    const RIGHT: &str = "an endpoint is ADDRESS:PORT, [IPV6]:PORT or NAME:PORT";
    let (host, port) = value.rsplit_once(':').ok_or(RIGHT)?;
    let inside = host.strip_prefix('[').map(|rest| rest.strip_suffix(']').ok_or(RIGHT)).transpose()?;
    let is_plain = !host.is_empty() && !host.contains([':', '[', ']', '/', '%']);
    let is_v6 = |text: &str| {
        let address =
            text.split_once('%').map_or(text, |(address, scope)| if scope.is_empty() { "" } else { address });
        address.parse::<std::net::Ipv6Addr>().is_ok()
    };
    let host = match inside {
        Some(inside) if is_v6(inside) => inside,
        None if is_plain => host,
        _ => return Err(RIGHT),
    };
    let port = digits(port).filter(|port| *port != 0).ok_or(RIGHT)?;
    Ok(Endpoint { host: host.to_owned(), port })
}

/// An address with its prefix length, which may be left out: then it is a host.
pub(super) fn network(value: &str) -> Value<IpNet> {
    const RIGHT: &str = "it is a list of ADDRESS/LENGTH or ADDRESS, with commas between";
    match value.split_once('/') {
        Some((_, length)) if digits::<u8>(length).is_none() => Err(RIGHT),
        Some(_) => value.parse().map_err(|_| RIGHT),
        None => value.parse::<IpAddr>().map(IpNet::from).map_err(|_| RIGHT),
    }
}

/// The second value is whether bits beyond the prefix were cut.
pub(super) fn allowed_ip(value: &str) -> Value<(AllowedIp, bool)> {
    let (rest, removes) = match value.as_bytes().first() {
        Some(b'-') => (&value[1..], true),
        Some(b'+') => (&value[1..], false),
        _ => (value, false),
    };
    let net = network(rest)?;
    let masked = net.trunc();
    let change = if removes { AllowedIp::Remove(masked) } else { AllowedIp::Add(masked) };
    Ok((change, masked != net))
}

fn is_off(value: &str) -> bool {
    value.eq_ignore_ascii_case("off")
}

/// A number of digits alone, where Rust would take a sign.
fn digits<T: std::str::FromStr>(value: &str) -> Option<T> {
    value.parse().ok().filter(|_| value.bytes().all(|byte| byte.is_ascii_digit()))
}
