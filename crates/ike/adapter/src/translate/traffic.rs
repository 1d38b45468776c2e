//! The traffic of a child.

use std::net::IpAddr;

use adit_core::IpNet;
use adit_ike::machine::{Addresses, Traffic};
use adit_ike_config::{self as model, Child, Place, PortRange, TrafficSelector};

use super::problems::Problems;

/// Most prefixes of a range.
const MOST_SUBNETS: usize = 256;

/// The traffic of this end.
pub(super) fn of_this_end(child: &Child, problems: &mut Problems) -> Option<Vec<Traffic>> {
    all(&child.local_ts, child.places.of("local_ts"), problems)
}

/// The traffic of the peer's end.
pub(super) fn of_the_peer(child: &Child, problems: &mut Problems) -> Option<Vec<Traffic>> {
    all(&child.remote_ts, child.places.of("remote_ts"), problems)
}

fn all(selectors: &[TrafficSelector], place: &Place, problems: &mut Problems) -> Option<Vec<Traffic>> {
    selectors.iter().map(|selector| traffic(selector, place, problems)).collect()
}

fn traffic(selector: &TrafficSelector, place: &Place, problems: &mut Problems) -> Option<Traffic> {
    let addresses = match selector.addresses {
        model::Addresses::Dynamic => Addresses::Dynamic,
        model::Addresses::Network(network) => Addresses::Network(network),
        model::Addresses::Range(first, last) => Addresses::Range(first, last),
    };
    let PortRange::From(first, last) = selector.ports else {
        problems.add(place, "the port `opaque` is not supported: leave the port out, or name it");
        return None;
    };
    Some(Traffic { addresses, protocol: selector.protocol, ports: (first, last) })
}

/// The prefixes of the addresses of traffic. None of `dynamic` addresses, which are not known before the start.
pub(crate) fn networks(traffic: &Traffic) -> Vec<IpNet> {
    match traffic.addresses {
        Addresses::Network(network) => vec![network],
        Addresses::Range(first, last) => subnets(first, last),
        Addresses::Dynamic => Vec::new(),
    }
}

/// The prefixes that a range consists of.
pub(super) fn subnets(first: IpAddr, last: IpAddr) -> Vec<IpNet> {
    match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            ipnet::Ipv4Subnets::new(first, last, 0).map(IpNet::V4).take(MOST_SUBNETS).collect()
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => {
            ipnet::Ipv6Subnets::new(first, last, 0).map(IpNet::V6).take(MOST_SUBNETS).collect()
        }
        _ => Vec::new(),
    }
}
