//! The forwarding of a tunnel (`#adit: forward`).

use std::net::IpAddr;

use adit_core::{IpNet, Transport};
use adit_ike_config::PoolAddresses;
use adit_system::Forwarding;
use ipnet::{Ipv4Subnets, Ipv6Subnets};

use crate::content::Content;
use crate::driver::{IKE_PORT, NAT_TRAVERSAL_PORT};

/// The forwarding of a tunnel with that content and that device; `None`: it forwards nothing.
pub(crate) fn of(content: &Content, device: &str) -> Option<Forwarding> {
    let config = &content.parsed.config;
    if config.forward.is_empty() {
        return None;
    }
    let pools = config.pools.iter().flat_map(|pool| networks(pool.addrs));
    let by_policy = content.planned.iter().filter(|planned| planned.is_policy_based());
    let peers = by_policy.flat_map(|planned| planned.remote_networks());
    Some(Forwarding {
        device: device.to_owned(),
        networks: pools.chain(peers.filter(|network| network.prefix_len() > 0)).collect(),
        destinations: config.forward.clone(),
        ports: [IKE_PORT, NAT_TRAVERSAL_PORT].map(|port| (Transport::Udp, port)).to_vec(),
    })
}

/// The networks of a pool's addresses.
fn networks(addresses: PoolAddresses) -> Vec<IpNet> {
    match addresses {
        PoolAddresses::Network(network) => vec![network.trunc()],
        PoolAddresses::Range(IpAddr::V4(first), IpAddr::V4(last)) => {
            Ipv4Subnets::new(first, last, 0).map(IpNet::V4).collect()
        }
        PoolAddresses::Range(IpAddr::V6(first), IpAddr::V6(last)) => {
            Ipv6Subnets::new(first, last, 0).map(IpNet::V6).collect()
        }
        // The reader of files takes no such range.
        PoolAddresses::Range(..) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::content::parse;
    use crate::testing::{NoFiles, text};

    fn forwarding(own: &str) -> Option<Forwarding> {
        let pools = "pools {\n a {\n addrs = 10.9.0.2-10.9.0.5\n }\n b {\n addrs = fd00:9::5/64\n }\n}\n";
        let text = format!("{own}\n{}{pools}", text("", ""));
        let content = parse(Path::new("a.conf"), text.as_bytes(), &NoFiles);
        of(&content.map_err(|failure| failure.to_string()).expect("a good file"), "adit0")
    }

    #[test]
    fn packets_from_pools_and_from_networks_of_peers_are_forwarded() {
        assert_eq!(forwarding(""), None);
        let found = forwarding("#adit: forward = internet").expect("it forwards");
        let nets =
            |texts: &[&str]| texts.iter().map(|net| net.parse().expect("a network")).collect::<Vec<IpNet>>();
        assert_eq!(found.networks, nets(&["10.9.0.2/31", "10.9.0.4/31", "fd00:9::/64", "10.2.0.0/16"]));
        assert_eq!(found.destinations, nets(&["0.0.0.0/0", "::/0"]));
        assert_eq!(found.ports, [(Transport::Udp, 500), (Transport::Udp, 4500)]);
    }
}
