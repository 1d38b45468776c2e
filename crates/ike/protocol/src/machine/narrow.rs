//! The narrowing of traffic selectors (RFC 7296 section 2.9).

use std::net::IpAddr;
use std::sync::Arc;

use adit_core::{IpNet, Selector};

use crate::wire::{AddressRange, TrafficSelector};

/// Most selectors of a child SA, on each side.
const MAX_SELECTORS: usize = 64;

/// The traffic that both ends allow: the parts of `offered` that are in `own`, at most `MAX_SELECTORS`, without those that others
/// contain. Empty if there are none.
pub(crate) fn narrow(own: &[TrafficSelector], offered: &[TrafficSelector]) -> Vec<TrafficSelector> {
    let mut narrowed: Vec<TrafficSelector> = Vec::new();
    for offer in offered {
        for part in own.iter().filter_map(|own| intersection(own, offer)) {
            if narrowed.iter().any(|other| contains(other, &part)) {
                continue;
            }
            narrowed.retain(|other| !contains(&part, other));
            if narrowed.len() < MAX_SELECTORS {
                narrowed.push(part);
            }
        }
    }
    narrowed
}

/// Whether all packets of the second selector are packets of the first.
fn contains(outer: &TrafficSelector, inner: &TrafficSelector) -> bool {
    intersection(outer, inner).as_ref() == Some(inner)
}

/// Whether all selectors of an answer are within the offered ones, so that the responder has not widened them.
pub(crate) fn is_within(answer: &[TrafficSelector], offered: &[TrafficSelector]) -> bool {
    !answer.is_empty() && answer.iter().all(|part| offered.iter().any(|offer| contains(offer, part)))
}

/// The offered selectors of which no part is in the answer, where the answer has others of their family.
pub(crate) fn left_out<'s>(
    offered: &'s [TrafficSelector],
    answer: &'s [TrafficSelector],
) -> impl Iterator<Item = &'s TrafficSelector> {
    let family = |selector: &TrafficSelector| std::mem::discriminant(&selector.addresses);
    offered.iter().filter(move |offer| {
        answer.iter().any(|part| family(part) == family(offer))
            && !answer.iter().any(|part| intersection(part, offer).is_some())
    })
}

fn intersection(one: &TrafficSelector, other: &TrafficSelector) -> Option<TrafficSelector> {
    let protocol = match (one.protocol, other.protocol) {
        (0, protocol) | (protocol, 0) => protocol,
        (first, second) if first == second => first,
        _ => return None,
    };
    let first_port = one.first_port.max(other.first_port);
    let last_port = one.last_port.min(other.last_port);
    let addresses = match (&one.addresses, &other.addresses) {
        (AddressRange::V4(first, last), AddressRange::V4(from, to)) => {
            let (first, last) = (*first.max(from), *last.min(to));
            (first <= last).then_some(AddressRange::V4(first, last))?
        }
        (AddressRange::V6(first, last), AddressRange::V6(from, to)) => {
            let (first, last) = (*first.max(from), *last.min(to));
            (first <= last).then_some(AddressRange::V6(first, last))?
        }
        _ => return None,
    };
    (first_port <= last_port).then_some(TrafficSelector { protocol, first_port, last_port, addresses })
}

/// The selectors of a session: each pair of both sides that some packet matches.
pub(crate) fn session_selectors(local: &[TrafficSelector], remote: &[TrafficSelector]) -> Arc<[Selector]> {
    let pairs = local.iter().flat_map(|local| remote.iter().map(move |remote| (local, remote)));
    pairs.filter_map(|(local, remote)| pair(local, remote)).collect()
}

fn pair(local: &TrafficSelector, remote: &TrafficSelector) -> Option<Selector> {
    let protocol = match (local.protocol, remote.protocol) {
        (0, protocol) | (protocol, 0) => protocol,
        (first, second) if first == second => first,
        _ => return None,
    };
    let (local_range, remote_range) = (range(local)?, range(remote)?);
    (local_range.0.is_ipv4() == remote_range.0.is_ipv4()).then_some(Selector {
        local: local_range.0..=local_range.1,
        remote: remote_range.0..=remote_range.1,
        protocol: (protocol != 0).then_some(protocol),
        local_ports: local.first_port..=local.last_port,
        remote_ports: remote.first_port..=remote.last_port,
    })
}

fn range(selector: &TrafficSelector) -> Option<(IpAddr, IpAddr)> {
    match selector.addresses {
        AddressRange::V4(first, last) => Some((first.into(), last.into())),
        AddressRange::V6(first, last) => Some((first.into(), last.into())),
        AddressRange::Other(..) => None,
    }
}

/// The prefixes of all addresses of selectors.
pub(crate) fn routes(selectors: &[TrafficSelector]) -> Vec<IpNet> {
    let mut routes: Vec<IpNet> = Vec::new();
    for selector in selectors {
        let prefixes: Vec<IpNet> = match selector.addresses {
            AddressRange::V4(first, last) => {
                ipnet::Ipv4Subnets::new(first, last, 0).map(IpNet::V4).take(MAX_SELECTORS).collect()
            }
            AddressRange::V6(first, last) => {
                ipnet::Ipv6Subnets::new(first, last, 0).map(IpNet::V6).take(MAX_SELECTORS).collect()
            }
            AddressRange::Other(..) => Vec::new(),
        };
        prefixes
            .into_iter()
            .filter(|prefix| !routes.contains(prefix))
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|prefix| routes.push(prefix));
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Traffic;

    fn traffic(network: &str, protocol: u8, ports: (u16, u16)) -> TrafficSelector {
        let traffic = Traffic { protocol, ports, ..Traffic::all_of(network.parse().unwrap()) };
        traffic.selector(None).unwrap()
    }

    const ANY: (u16, u16) = (0, 65535);

    #[test]
    fn the_answer_is_what_both_allow() {
        let own = [traffic("10.1.0.0/16", 0, ANY), traffic("fd00::/64", 6, (80, 443))];
        let offered =
            [traffic("0.0.0.0/0", 0, ANY), traffic("::/0", 6, (443, 500)), traffic("10.2.0.0/16", 0, ANY)];
        let narrowed = narrow(&own, &offered);
        let expected = [traffic("10.1.0.0/16", 0, ANY), traffic("fd00::/64", 6, (443, 443))];
        assert_eq!(narrowed, expected);
        assert_eq!(narrow(&own, &offered[2..]), [], "nothing in common");
        let udp = [traffic("fd00::/64", 17, ANY)];
        assert_eq!(narrow(&own, &udp), []);
    }

    #[test]
    fn a_wider_answer_is_refused() {
        let offered = [traffic("10.1.0.0/16", 6, ANY)];
        let within = |network, protocol| is_within(&[traffic(network, protocol, ANY)], &offered);
        assert!(within("10.1.0.0/16", 6) && within("10.1.2.0/24", 6));
        assert!(!within("10.0.0.0/8", 6) && !within("10.1.2.0/24", 0) && !within("fd00::/64", 6));
        assert!(!is_within(&[], &offered));
    }

    #[test]
    fn sessions_have_selectors_of_one_family_and_routes_of_whole_ranges() {
        let local = [traffic("10.1.0.0/16", 0, ANY), traffic("fd00::/64", 0, ANY)];
        let mut remote = traffic("10.9.0.0/24", 6, (80, 80));
        remote.addresses = AddressRange::V4([10, 9, 0, 1].into(), [10, 9, 0, 3].into());
        let selectors = session_selectors(&local, std::slice::from_ref(&remote));
        let [selector] = &*selectors else { panic!("one pair of IPv4") };
        assert_eq!((selector.protocol, selector.remote_ports.clone()), (Some(6), 80..=80));
        let expected: Vec<IpNet> = ["10.9.0.1/32", "10.9.0.2/31"].map(|net| net.parse().unwrap()).into();
        assert_eq!(routes(&[remote]), expected);
    }
}
