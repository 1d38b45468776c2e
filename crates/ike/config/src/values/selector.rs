//! Traffic selectors: `10.0.0.0/8[tcp/80]`.

use super::{addresses, numbers, shown};
use crate::model::{Addresses, PortRange, TrafficSelector};

/// The IP protocols that have names (IANA, Protocol Numbers), as /etc/protocols has them.
const PROTOCOLS: [(&str, u8); 16] = [
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("ipencap", 4),
    ("tcp", 6),
    ("udp", 17),
    ("ipv6", 41),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("icmpv6", 58),
    ("ospf", 89),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", 132),
];
/// The ports that have names, of the services that selectors are written for.
const SERVICES: [(&str, u16); 18] = [
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("http", 80),
    ("ntp", 123),
    ("snmp", 161),
    ("bgp", 179),
    ("ldap", 389),
    ("https", 443),
    ("isakmp", 500),
    ("syslog", 514),
    ("l2tp", 1701),
    ("l2f", 1701),
    ("radius", 1812),
];

/// A traffic selector.
///
/// # Errors
/// It is none.
pub(crate) fn selector(text: &str) -> Result<TrafficSelector, String> {
    let (addresses, restriction) = match text.split_once('[') {
        Some((addresses, rest)) => {
            let inner =
                rest.strip_suffix(']').ok_or_else(|| format!("`{}` has no `]` at its end", shown(text)))?;
            (addresses, Some(inner))
        }
        None => (text, None),
    };
    let (protocol, ports) = restriction.map_or(Ok((0, PortRange::ANY)), restricted)?;
    Ok(TrafficSelector { addresses: range(addresses.trim_end())?, protocol, ports })
}

fn range(text: &str) -> Result<Addresses, String> {
    if text == "dynamic" {
        return Ok(Addresses::Dynamic);
    }
    if let Some((first, last)) = addresses::range(text) {
        return addresses::ordered(text, first, last).map(|(first, last)| Addresses::Range(first, last));
    }
    let network = addresses::network(text);
    network.map(|network| Addresses::Network(network.trunc())).map_err(|_| {
        format!(
            "`{}` is not a network such as 10.1.0.0/16, a range such as 10.1.0.1-10.1.0.9, or dynamic, each with \
             [protocol/port] behind it or without",
            shown(text)
        )
    })
}

/// The protocol and the ports of `protocol/port`, or of a protocol alone.
fn restricted(text: &str) -> Result<(u8, PortRange), String> {
    let (name, port) = text.split_once('/').unwrap_or((text, ""));
    let named =
        PROTOCOLS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, number)| *number);
    let numbered = || numbers::number(name, u8::MAX.into()).ok().and_then(|number| u8::try_from(number).ok());
    let protocol = if name == "any" || name.is_empty() { Some(0) } else { named.or_else(numbered) };
    let protocol = protocol.ok_or_else(|| {
        format!(
            "`{}` is not an IP protocol: write its number, or a name such as tcp, udp or icmp",
            shown(name)
        )
    })?;
    Ok((protocol, ports(port)?))
}

fn ports(text: &str) -> Result<PortRange, String> {
    match text {
        "" | "any" => return Ok(PortRange::ANY),
        "opaque" => return Ok(PortRange::Opaque),
        _ => {}
    }
    if let Some((_, port)) = SERVICES.iter().find(|(name, _)| *name == text) {
        return Ok(PortRange::From(*port, *port));
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = numbers::port(first).ok().zip(numbers::port(last).ok()).filter(|(first, last)| first <= last);
    range.map(|(first, last)| PortRange::From(first, last)).ok_or_else(|| {
        format!(
            "`{}` is not a port: write its number, a range such as 1024-65535, any or opaque",
            shown(text)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_have_addresses_protocols_and_ports() {
        let network = |text: &str| Addresses::Network(text.parse().unwrap());
        let all = PortRange::ANY;
        for (text, addresses, protocol, ports) in [
            ("dynamic", Addresses::Dynamic, 0, all),
            ("10.0.0.0/8", network("10.0.0.0/8"), 0, all),
            ("10.1.2.3/8", network("10.0.0.0/8"), 0, all),
            ("10.1.2.3", network("10.1.2.3/32"), 0, all),
            ("::/0", network("::/0"), 0, all),
            ("10.0.0.0/8[tcp/80]", network("10.0.0.0/8"), 6, PortRange::From(80, 80)),
            ("dynamic[17/1024-65535]", Addresses::Dynamic, 17, PortRange::From(1024, 65_535)),
            ("dynamic[udp/l2f]", Addresses::Dynamic, 17, PortRange::From(1701, 1701)),
            ("dynamic[icmp]", Addresses::Dynamic, 1, all),
            ("dynamic[any/opaque]", Addresses::Dynamic, 0, PortRange::Opaque),
            ("dynamic[/53]", Addresses::Dynamic, 0, PortRange::From(53, 53)),
        ] {
            assert_eq!(selector(text), Ok(TrafficSelector { addresses, protocol, ports }), "{text}");
        }
        let range = Addresses::Range("10.0.0.1".parse().unwrap(), "10.0.0.9".parse().unwrap());
        assert_eq!(selector("10.0.0.1-10.0.0.9[gre]").map(|selector| selector.addresses), Ok(range));
    }

    #[test]
    fn wrong_selectors_are_refused_with_what_is_right() {
        for (text, part) in [
            ("10.0.0.0/33", "is not a network such as"),
            ("lan", "is not a network such as"),
            ("dynamic[tcp/80", "has no `]`"),
            ("dynamic[tpc/80]", "`tpc` is not an IP protocol"),
            ("dynamic[256]", "`256` is not an IP protocol"),
            ("dynamic[tcp/80-70]", "`80-70` is not a port"),
            ("dynamic[tcp/65536]", "`65536` is not a port"),
            ("10.0.0.9-10.0.0.1", "from a lower address to a higher one"),
        ] {
            assert!(selector(text).is_err_and(|why| why.contains(part)), "{text}: {:?}", selector(text));
        }
    }
}
