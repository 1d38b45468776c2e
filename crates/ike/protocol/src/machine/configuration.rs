//! Configuration payloads (RFC 7296 section 3.15, RFC 8598): the request of an initiator, and the reply to it.
//!
//! Attributes that are not known are ignored, and so are those of RFC 9464 (encrypted DNS), values of a wrong length and addresses
//! that no host can have. Of addresses, the first of each family counts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_core::{IpNet, is_domain};

use super::params::Pool;
use super::payloads::Payloads;
use crate::wire::{
    Configuration, ConfigurationAttribute, ConfigurationAttributeType as Kind, ConfigurationType,
    MAX_ATTRIBUTES, Payload,
};

/// Most name servers that are taken of a reply.
const MOST_SERVERS: usize = 8;
/// Most domains that are taken of a reply.
const MOST_DOMAINS: usize = 32;

/// The inner addresses that an initiator asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) ipv4: bool,
    pub(crate) ipv6: bool,
    /// The addresses that it names, such as those that it had before.
    pub(crate) named: Vec<IpAddr>,
}

/// The addresses and settings that an initiator got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Assigned {
    /// At most one of each family.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) dns: Vec<IpAddr>,
    /// The domains whose names these servers resolve.
    pub(crate) domains: Vec<String>,
}

fn attributes(payloads: Payloads<'_>, of: ConfigurationType) -> Option<&[ConfigurationAttribute]> {
    payloads.0.iter().find_map(|payload| match payload {
        Payload::Configuration(configuration) if configuration.kind == of => {
            Some(configuration.attributes.as_slice())
        }
        _ => None,
    })
}

fn v4(value: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(value).ok().map(IpAddr::from)
}

fn v6(value: &[u8]) -> Option<IpAddr> {
    <[u8; 16]>::try_from(value).ok().map(IpAddr::from)
}

/// The address of an INTERNAL_IP6_ADDRESS, with its prefix length or without.
fn v6_with_prefix(value: &[u8]) -> Option<IpAddr> {
    v6(value.get(..16).filter(|_| value.len() <= 17)?)
}

/// Whether a host can have the address.
fn is_usable(address: &IpAddr) -> bool {
    let is_link_local = matches!(address, IpAddr::V6(it) if it.is_unicast_link_local());
    let is_broadcast = *address == IpAddr::V4(Ipv4Addr::BROADCAST);
    let is_mapped = matches!(address, IpAddr::V6(it) if it.to_ipv4_mapped().is_some());
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || is_link_local
        || is_broadcast
        || is_mapped)
}

fn attribute(kind: Kind, value: Vec<u8>) -> ConfigurationAttribute {
    ConfigurationAttribute { kind, value }
}

fn address_attribute(address: IpAddr) -> ConfigurationAttribute {
    match address {
        IpAddr::V4(address) => attribute(Kind::INTERNAL_IP4_ADDRESS, address.octets().to_vec()),
        IpAddr::V6(address) => {
            attribute(Kind::INTERNAL_IP6_ADDRESS, [&address.octets()[..], &[128]].concat())
        }
    }
}

fn dns_attribute(address: &IpAddr) -> ConfigurationAttribute {
    match address {
        IpAddr::V4(address) => attribute(Kind::INTERNAL_IP4_DNS, address.octets().to_vec()),
        IpAddr::V6(address) => attribute(Kind::INTERNAL_IP6_DNS, address.octets().to_vec()),
    }
}

fn subnet_attribute(subnet: &IpNet) -> ConfigurationAttribute {
    match subnet {
        IpNet::V4(net) => {
            let value = [net.network().octets(), net.netmask().octets()].concat();
            attribute(Kind::INTERNAL_IP4_SUBNET, value)
        }
        IpNet::V6(net) => {
            let value = [&net.network().octets()[..], &[net.prefix_len()]].concat();
            attribute(Kind::INTERNAL_IP6_SUBNET, value)
        }
    }
}

/// The request for these addresses, an unspecified one for any of its family, with the name servers and their domains.
pub(crate) fn request(addresses: &[IpAddr]) -> Payload {
    let mut attributes = Vec::new();
    for address in addresses {
        let mut wanted = address_attribute(*address);
        if address.is_unspecified() {
            wanted.value.clear();
        }
        let dns = dns_attribute(address).kind;
        attributes.extend([wanted, attribute(dns, Vec::new())]);
    }
    attributes.push(attribute(Kind::INTERNAL_DNS_DOMAIN, Vec::new()));
    Payload::Configuration(Configuration { kind: ConfigurationType::REQUEST, attributes })
}

/// The reply that gives these addresses, with the settings of the pool.
pub(crate) fn reply(addresses: &[IpAddr], pool: &Pool) -> Payload {
    let mut attributes: Vec<ConfigurationAttribute> =
        addresses.iter().map(|address| address_attribute(*address)).collect();
    attributes.extend(pool.dns.iter().map(dns_attribute));
    attributes.extend(pool.subnets.iter().map(subnet_attribute));
    attributes.extend(pool.attributes.iter().map(|(kind, value)| attribute(Kind(*kind), value.clone())));
    attributes.truncate(MAX_ATTRIBUTES);
    Payload::Configuration(Configuration { kind: ConfigurationType::REPLY, attributes })
}

impl Asked {
    /// The addresses that a message asks for. `None`: none.
    pub(crate) fn of(payloads: Payloads<'_>) -> Option<Self> {
        let mut asked = Asked::default();
        for ConfigurationAttribute { kind, value } in attributes(payloads, ConfigurationType::REQUEST)? {
            let named = match *kind {
                Kind::INTERNAL_IP4_ADDRESS => {
                    asked.ipv4 = true;
                    v4(value)
                }
                Kind::INTERNAL_IP6_ADDRESS => {
                    asked.ipv6 = true;
                    v6_with_prefix(value)
                }
                _ => None,
            };
            asked.named.extend(named.filter(is_usable));
        }
        (asked.ipv4 || asked.ipv6).then_some(asked)
    }

    /// Whether it asks for an address of that family.
    pub(crate) const fn is_for(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(_) => self.ipv4,
            IpAddr::V6(_) => self.ipv6,
        }
    }
}

impl Assigned {
    /// The values of a reply to a request for `asked`. `None`: there is no address.
    pub(crate) fn of(payloads: Payloads<'_>, asked: &[IpAddr]) -> Option<Self> {
        let mut assigned = Assigned::default();
        for ConfigurationAttribute { kind, value } in attributes(payloads, ConfigurationType::REPLY)? {
            match *kind {
                Kind::INTERNAL_IP4_ADDRESS => assigned.add_address(v4(value), asked),
                Kind::INTERNAL_IP6_ADDRESS => assigned.add_address(v6_with_prefix(value), asked),
                Kind::INTERNAL_IP4_DNS => assigned.add_server(v4(value)),
                Kind::INTERNAL_IP6_DNS => assigned.add_server(v6(value)),
                Kind::INTERNAL_DNS_DOMAIN => assigned.add_domain(value),
                _ => {}
            }
        }
        (!assigned.addresses.is_empty()).then_some(assigned)
    }

    fn add_address(&mut self, address: Option<IpAddr>, asked: &[IpAddr]) {
        let is_asked = |it: &IpAddr| asked.iter().any(|asked| asked.is_ipv4() == it.is_ipv4());
        let Some(address) = address.filter(is_usable).filter(is_asked) else { return };
        if self.addresses.iter().all(|other| other.is_ipv4() != address.is_ipv4()) {
            self.addresses.push(address);
        }
    }

    fn add_server(&mut self, address: Option<IpAddr>) {
        let Some(address) = address.filter(is_usable) else { return };
        if self.dns.len() < MOST_SERVERS && !self.dns.contains(&address) {
            self.dns.push(address);
        }
    }

    fn add_domain(&mut self, value: &[u8]) {
        let Some(domain) = std::str::from_utf8(value).ok().filter(|text| is_domain(text)) else { return };
        if self.domains.len() < MOST_DOMAINS && !self.domains.iter().any(|other| other == domain) {
            self.domains.push(domain.to_owned());
        }
    }
}

/// The unspecified address of the family.
pub(crate) const fn any_like(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn over_the_wire(payload: Payload) -> Vec<Payload> {
        let mut bytes = Vec::new();
        let first = crate::wire::encode_chain(&[payload], &mut bytes);
        crate::wire::decode_chain(first, &bytes).unwrap()
    }

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let payloads = over_the_wire(request(&[ip("0.0.0.0"), ip("fd00::7")]));
        let expected = Asked { ipv4: true, ipv6: true, named: vec![ip("fd00::7")] };
        assert_eq!(Asked::of(Payloads(&payloads)), Some(expected));
        let reply = over_the_wire(reply(&[ip("10.9.0.1")], &Pool::default()));
        assert_eq!(Asked::of(Payloads(&reply)), None, "a reply asks for nothing");
        let wrong = Payload::Configuration(Configuration {
            kind: ConfigurationType::REQUEST,
            attributes: vec![
                attribute(Kind::INTERNAL_IP4_ADDRESS, vec![1, 2, 3]),
                attribute(Kind(23_456), vec![0; 9]),
            ],
        });
        let expected = Asked { ipv4: true, ..Asked::default() };
        assert_eq!(Asked::of(Payloads(&[wrong])), Some(expected), "a value of a wrong length names nothing");
    }

    #[test]
    fn a_reply_gives_addresses_servers_and_domains() {
        let pool = Pool {
            dns: vec![ip("10.9.9.9"), ip("fd00:9::9")],
            subnets: vec!["10.1.0.0/16".parse().unwrap(), "fd00:1::/64".parse().unwrap()],
            attributes: vec![(25, b"corp.example".to_vec()), (25, b"a b".to_vec()), (27, vec![1; 20])],
            ..Pool::default()
        };
        let payloads = over_the_wire(reply(&[ip("10.9.0.1"), ip("fd00:9::1")], &pool));
        let assigned = Assigned::of(Payloads(&payloads), &[ip("0.0.0.0"), ip("::")]).unwrap();
        assert_eq!(assigned.addresses, [ip("10.9.0.1"), ip("fd00:9::1")]);
        assert_eq!(assigned.dns, [ip("10.9.9.9"), ip("fd00:9::9")]);
        assert_eq!(assigned.domains, ["corp.example"]);
        let one = Assigned::of(Payloads(&payloads), &[ip("::")]).unwrap();
        assert_eq!(one.addresses, [ip("fd00:9::1")], "a family that was not asked for is ignored");
        let Payload::Configuration(Configuration { attributes, .. }) = &payloads[0] else { panic!("a CP") };
        let subnets: Vec<&[u8]> = attributes[4..6].iter().map(|it| it.value.as_slice()).collect();
        assert_eq!(subnets[0], [10, 1, 0, 0, 255, 255, 0, 0]);
        assert_eq!((subnets[1].len(), subnets[1][16]), (17, 64));
    }

    #[test]
    fn values_that_a_peer_sends_are_bounded_and_no_host_gets_an_address_that_it_cannot_have() {
        for address in [
            "0.0.0.0",
            "127.0.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "::ffff:10.0.0.1",
        ] {
            let payloads = [reply(&[ip(address)], &Pool::default())];
            assert_eq!(Assigned::of(Payloads(&payloads), &[ip("0.0.0.0"), ip("::")]), None, "{address}");
        }
        let pool =
            Pool { dns: (1..=40).map(|last| IpAddr::from([10, 0, 0, last])).collect(), ..Pool::default() };
        let payloads = [reply(&[ip("10.9.0.1"), ip("10.9.0.2")], &pool)];
        let assigned = Assigned::of(Payloads(&payloads), &[ip("0.0.0.0")]).unwrap();
        assert_eq!((assigned.addresses, assigned.dns.len()), (vec![ip("10.9.0.1")], MOST_SERVERS));
    }
}
