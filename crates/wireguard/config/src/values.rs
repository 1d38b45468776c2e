//! Single values. An error says what would be right, and quotes no key.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use adit_core::IpNet;
use adit_wireguard::{AllowedIp, KEY_LEN};
use base64ct::{Base64, Encoding as _};
use zeroize::Zeroizing;

use super::model::{Endpoint, HttpUrl, Table};

pub(super) type Value<T> = Result<T, &'static str>;

/// The bytes of a key.
pub(super) fn key(value: &str) -> Value<Zeroizing<[u8; KEY_LEN]>> {
    let mut bytes = Zeroizing::new([0; KEY_LEN]);
    let decoded = Base64::decode(value, bytes.as_mut_slice()).map_or(0, <[u8]>::len);
    if decoded == KEY_LEN { Ok(bytes) } else { Err("a key is 32 bytes in base64, as wg genkey writes it") }
}

pub(super) fn port(value: &str) -> Value<u16> {
    let port = digits(value).or_else(|| service(value));
    port.ok_or("a port is a number from 0 to 65535 (of names of services, only well-known ones are taken)")
}

/// The UDP port of a service whose name people write in place of the number of a port that firewalls let pass. `wg` takes all
/// names that the system knows (getaddrinfo(3)).
fn service(name: &str) -> Option<u16> {
    const SERVICES: [(&str, u16); 14] = [
        ("domain", 53),
        ("bootps", 67),
        ("tftp", 69),
        ("kerberos", 88),
        ("ntp", 123),
        ("snmp", 161),
        ("https", 443),
        ("isakmp", 500),
        ("syslog", 514),
        ("openvpn", 1194),
        ("l2f", 1701),
        ("ipsec-nat-t", 4500),
        ("sip", 5060),
        ("mdns", 5353),
    ];
    SERVICES.iter().find(|(known, _)| *known == name).map(|(_, port)| *port)
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
    let mtu = as_c(value).and_then(|mtu| u16::try_from(mtu).ok()).filter(|mtu| *mtu >= 68);
    mtu.ok_or("an MTU is a number of bytes from 68 to 65535")
}

/// A number as `ip` reads it (strtoul(3) with base 0): hexadecimal behind `0x`, octal behind `0`.
fn as_c(value: &str) -> Option<u32> {
    let (radix, rest) = match value.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &value[2..]),
        [b'0', _, ..] => (8, &value[1..]),
        _ => (10, value),
    };
    u32::from_str_radix(rest, radix).ok().filter(|_| rest.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

pub(super) fn save(value: &str) -> Value<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("it is true or false"),
    }
}

pub(super) fn table(value: &str) -> Value<Table> {
    Ok(match value {
        // wg-quick takes nothing for nothing said.
        "" | "auto" => Table::Auto,
        "off" => Table::Off,
        _ => as_c(value).map_or_else(|| Table::Name(value.to_owned()), Table::Number),
    })
}

/// The host is the text before the last colon, in brackets or not (`wg`, config.c, `parse_endpoint`).
pub(super) fn endpoint(value: &str) -> Value<Endpoint> {
    const RIGHT: &str = "an endpoint is ADDRESS:PORT, [IPV6]:PORT or NAME:PORT";
    let (host, given) = value.rsplit_once(':').ok_or(RIGHT)?;
    let inside = host.strip_prefix('[').map(|rest| rest.strip_suffix(']').ok_or(RIGHT)).transpose()?;
    let host = inside.unwrap_or(host);
    let is_plain = |text: &str| !text.is_empty() && !text.contains([':', '[', ']', '/', '%']);
    let is_v6 = |text: &str| {
        let address =
            text.split_once('%').map_or(text, |(address, scope)| if scope.is_empty() { "" } else { address });
        address.parse::<Ipv6Addr>().is_ok()
    };
    if !is_v6(host) && !is_plain(host) {
        return Err(RIGHT);
    }
    let port = port(given).ok().filter(|port| *port != 0).ok_or(RIGHT)?;
    Ok(Endpoint { host: host.to_owned(), port })
}

/// A port, with an address in front of it or without one.
pub(super) fn listen_tcp(value: &str) -> Value<SocketAddr> {
    const RIGHT: &str =
        "it is PORT, or ADDRESS:PORT with an address of this machine, in brackets if it is an IPv6 address";
    let all = |port| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let found = digits(value).map(all).or_else(|| value.parse().ok());
    found.filter(|address| address.port() != 0).ok_or(RIGHT)
}

/// A URL of HTTP, with TLS or without (RFC 3986 §3, RFC 9110 §4.2).
pub(super) fn http_url(value: &str) -> Value<HttpUrl> {
    const RIGHT: &str = "it is http://HOST[:PORT][/PATH], or the same with https://, without a user";
    let behind = |scheme: &str| {
        let (start, rest) = value.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    let (tls, rest) = match (behind("https://"), behind("http://")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return Err(RIGHT),
    };
    let is_plain = |c: char| c.is_ascii_graphic() && !"\"<>\\^`{|}#".contains(c);
    if rest.contains(|c| !is_plain(c)) {
        return Err(RIGHT);
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(end);
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    let usual = if tls { 443 } else { 80 };
    let with_port = if has_port { authority.to_owned() } else { format!("{authority}:{usual}") };
    let Endpoint { host, port } = endpoint(&with_port).map_err(|_| RIGHT)?;
    if host.contains('@') || authority.contains('%') {
        return Err(RIGHT);
    }
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    Ok(HttpUrl { tls, host, port, authority: authority.to_owned(), target })
}

/// A file by its whole path.
pub(super) fn file(value: &str) -> Value<PathBuf> {
    let path = PathBuf::from(value);
    if path.is_absolute() { Ok(path) } else { Err("it is a file with its whole path") }
}

/// An address with its prefix length, which may be left out: then it is a host.
pub(super) fn network(value: &str) -> Value<IpNet> {
    const RIGHT: &str = "it is a list of ADDRESS/LENGTH or ADDRESS, with commas between";
    let (address, length) =
        value.split_once('/').map_or((value, None), |(address, rest)| (address, Some(rest)));
    let address: IpAddr = address.parse().map_err(|_| RIGHT)?;
    let Some(length) = length else { return Ok(IpNet::from(address)) };
    IpNet::new(address, digits(length).ok_or(RIGHT)?).map_err(|_| RIGHT)
}

/// An address of the device. `ip` takes a mask of IPv4 in place of the length, too.
pub(super) fn address(value: &str) -> Value<IpNet> {
    let with_mask = value.split_once('/').and_then(|(address, mask)| {
        let (address, mask) = (address.parse().ok()?, IpAddr::V4(mask.parse().ok()?));
        IpNet::with_netmask(address, mask).ok()
    });
    with_mask.map_or_else(|| network(value), Ok)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let parts = |value| http_url(value).map(|url| (url.host, url.port, url.authority, url.target)).ok();
        let url = |host: &str, port, authority: &str, target: &str| {
            Some((host.to_owned(), port, authority.to_owned(), target.to_owned()))
        };
        assert_eq!(parts("http://vpn.example"), url("vpn.example", 80, "vpn.example", "/"));
        assert_eq!(parts("HTTP://192.0.2.1:8080/a/b"), url("192.0.2.1", 8080, "192.0.2.1:8080", "/a/b"));
        assert_eq!(parts("http://[2001:db8::1]/"), url("2001:db8::1", 80, "[2001:db8::1]", "/"));
        assert_eq!(parts("http://[2001:db8::1]:8?x=y"), url("2001:db8::1", 8, "[2001:db8::1]:8", "/?x=y"));
        assert_eq!(parts("https://vpn.example/a"), url("vpn.example", 443, "vpn.example", "/a"));
        assert_eq!(parts("HTTPS://vpn.example:8443"), url("vpn.example", 8443, "vpn.example:8443", "/"));
        assert_eq!(parts("https://[2001:db8::1]"), url("2001:db8::1", 443, "[2001:db8::1]", "/"));
        let tls = |value| http_url(value).map(|url| url.tls);
        assert_eq!([tls("http://a"), tls("https://a"), tls("hTTps://a")], [Ok(false), Ok(true), Ok(true)]);
        for wrong in [
            "",
            "http://",
            "https://",
            "https:/a",
            "https://user@a/",
            "https://a:0/",
            "http:///a",
            "http://a:0/",
            "http://a:65536/",
            "http://a:b/",
            "http://user@a/",
            "http://a/b c",
            "http://a/\u{e9}",
            "http://a/\r\nX: y",
            "http://a/#b",
            "http://2001:db8::1/",
            "http://[fe80::1%eth0]/",
            "ftp://a/",
            "\u{e9}ttp://a/",
        ] {
            assert_eq!(parts(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn places_to_listen_at() {
        let of = |value| listen_tcp(value).map(|address| address.to_string()).ok();
        assert_eq!(of("443").as_deref(), Some("[::]:443"));
        assert_eq!(of("192.0.2.1:80").as_deref(), Some("192.0.2.1:80"));
        assert_eq!(of("[2001:db8::1]:80").as_deref(), Some("[2001:db8::1]:80"));
        for wrong in ["", "0", "+443", "192.0.2.1", "192.0.2.1:0", "vpn.example:443", "65536"] {
            assert_eq!(of(wrong), None, "{wrong:?}");
        }
    }
}
