use std::net::Ipv6Addr;

use ipnet::Ipv6Net;

/// The prefix length of an IPv6 network that is written without one.
const PLAIN_IPV6_PREFIX: u8 = 64;

/// An IPv6 network, `ADDRESS/LENGTH` or `ADDRESS`. Without a length it is a /64. Host bits stay.
pub fn ipv6_network(text: &str) -> Option<Ipv6Net> {
    match text.contains('/') {
        true => text.parse().ok(),
        false => Ipv6Net::new(text.parse::<Ipv6Addr>().ok()?, PLAIN_IPV6_PREFIX).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_alone_has_64_bits() {
        for (text, expected) in [
            ("fd00::/32", Some("fd00::/32")),
            ("fd00::1/128", Some("fd00::1/128")),
            ("fd00::1", Some("fd00::1/64")),
            ("::", Some("::/64")),
            ("fd00::1/", None),
            ("fd00::1/129", None),
            ("fd00::1%eth0", None),
            ("10.8.0.1", None),
            ("", None),
        ] {
            assert_eq!(ipv6_network(text).map(|net| net.to_string()).as_deref(), expected, "{text}");
        }
    }
}
