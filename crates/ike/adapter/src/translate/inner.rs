//! `vips` and `pools` of a connection: the inner addresses that it asks for, or gives.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_core::{IpNet, PoolRanges};
use adit_ike::machine::{Inner, Pool};
use adit_ike_config::{self as model, Config, Connection, PoolAddresses};
use ipnet::{Ipv4Net, Ipv6Net};

use super::problems::Problems;
use super::traffic;

/// The number of an attribute of configuration payloads (RFC 7296 section 3.15.1).
const IP4_NBNS: u16 = 4;
const IP4_DHCP: u16 = 6;
const IP6_DHCP: u16 = 12;

/// The inner addresses of a connection, and the networks of those that it gives.
pub(super) struct Planned {
    pub(super) inner: Inner,
    pub(super) networks: Vec<IpNet>,
}

/// The inner addresses of a connection.
pub(super) fn of(config: &Config, of: &Connection, problems: &mut Problems) -> Option<Planned> {
    match (of.vips.is_empty(), of.pools.is_empty()) {
        (true, true) => Some(Planned { inner: Inner::None, networks: Vec::new() }),
        (false, true) => asked(of, problems).map(|inner| Planned { inner, networks: Vec::new() }),
        (true, false) => given(config, of, problems),
        (false, false) => {
            let text = "`pools`: a connection with `vips` asks for inner addresses, and gives none: leave one of both out";
            problems.add(of.places.of("pools"), text);
            None
        }
    }
}

fn asked(of: &Connection, problems: &mut Problems) -> Option<Inner> {
    let count = |is_ipv4| of.vips.iter().filter(|address| address.is_ipv4() == is_ipv4).count();
    if count(true) > 1 || count(false) > 1 {
        let text = "`vips`: one address of each family can be had, such as `vips = 0.0.0.0, ::`";
        problems.add(of.places.of("vips"), text);
        return None;
    }
    if let Some(child) = of.children.iter().find(|child| child.start_action.trap) {
        let text = "`start_action`: without its inner address this end sends no packet that could bring the child up: write \
                    `start_action = start`";
        problems.add(child.places.of("start_action"), text);
        return None;
    }
    Some(Inner::Ask(of.vips.clone()))
}

fn given(config: &Config, of: &Connection, problems: &mut Problems) -> Option<Planned> {
    let begins = |child: &&model::Child| child.start_action.start || child.start_action.trap;
    if let Some(child) = of.children.iter().find(begins) {
        let text = "`start_action`: a peer asks for its inner address when it begins: leave `start_action` out of a connection with `pools`";
        problems.add(child.places.of("start_action"), text);
        return None;
    }
    let (mut pool, mut networks) = (Pool::default(), Vec::new());
    // `read` has checked that the sections are there.
    for section in of.pools.iter().filter_map(|name| config.pool(name)) {
        networks.extend(add_range(&mut pool.ranges, of, section, problems)?);
        pool.dns.extend(&section.dns);
        pool.subnets.extend(&section.subnet);
        let nbns = section.nbns.iter().filter(|address| address.is_ipv4());
        pool.attributes.extend(nbns.map(|address| (IP4_NBNS, octets(*address))));
        let dhcp = section.dhcp.iter();
        pool.attributes.extend(
            dhcp.map(|address| (if address.is_ipv4() { IP4_DHCP } else { IP6_DHCP }, octets(*address))),
        );
        pool.attributes.extend(section.attributes.iter().map(|it| (it.kind, it.value.clone())));
    }
    Some(Planned { inner: Inner::Give(Box::new(pool)), networks })
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Adds the addresses of a section, and gives their networks.
fn add_range(
    ranges: &mut PoolRanges,
    of: &Connection,
    section: &model::Pool,
    problems: &mut Problems,
) -> Option<Vec<IpNet>> {
    let is_ipv4 = match section.addrs {
        PoolAddresses::Network(network) => network.addr().is_ipv4(),
        PoolAddresses::Range(first, _) => first.is_ipv4(),
    };
    if is_ipv4 && ranges.v4.is_some() || !is_ipv4 && ranges.v6.is_some() {
        let text = "`pools`: a connection has one pool of each family: leave the others out";
        problems.add(of.places.of("pools"), text);
        return None;
    }
    match section.addrs {
        PoolAddresses::Network(IpNet::V4(network)) => ranges.v4 = Some(hosts(network)),
        PoolAddresses::Network(IpNet::V6(network)) => ranges.v6 = Some(without_first(network)),
        PoolAddresses::Range(IpAddr::V4(first), IpAddr::V4(last)) => ranges.v4 = Some((first, last)),
        PoolAddresses::Range(..) => {
            let text = "`addrs`: a range of IPv6 addresses is not supported: write a network, such as `addrs = fd00:9::/112`";
            problems.add(section.places.of("addrs"), text);
            return None;
        }
    }
    Some(match section.addrs {
        PoolAddresses::Network(network) => vec![network.trunc()],
        PoolAddresses::Range(first, last) => traffic::subnets(first, last),
    })
}

/// The first and the last address that hosts get: from the address as it is written on, or else from the first one after that of the
/// network, to the last one before that of broadcasts.
fn hosts(network: Ipv4Net) -> (Ipv4Addr, Ipv4Addr) {
    let (first, last) = (u32::from(network.addr()), u32::from(network.broadcast()));
    if network.prefix_len() >= 31 {
        return (first.into(), last.into());
    }
    let first = if network.addr() == network.network() { first + 1 } else { first };
    (first.into(), (last - 1).into())
}

/// The network without its first address, which is that of all routers there (RFC 4291 section 2.6.1), and which Windows does not take.
fn without_first(network: Ipv6Net) -> Ipv6Net {
    let is_first = network.addr() == network.network() && network.prefix_len() < 127;
    let second = Ipv6Addr::from(u128::from(network.addr()) | 1);
    let without = is_first.then(|| Ipv6Net::new(second, network.prefix_len()).ok()).flatten();
    without.unwrap_or(network)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{config, text};
    use crate::translate;

    const POOLS: &str = "pools {\n v4 {\n addrs = 10.9.0.0/24\n dns = 10.1.0.53, fd00:1::53\n subnet = 10.1.0.0/16\n nbns = 10.1.0.9\n 25 = \
                         corp.example, lab.example\n }\n v6 {\n addrs = fd00:9::/64\n }\n late {\n addrs = 10.9.0.5/24\n }\n few {\n addrs = 10.9.1.10-10.9.1.20\n }\n bad {\n addrs = \
                         fd00::1-fd00::9\n }\n}\n";

    fn first(text: &str) -> Result<translate::Planned, String> {
        let planned = translate::connections(&config(text));
        planned.map(|mut planned| planned.remove(0)).map_err(|problems| problems[0].to_string())
    }

    fn with_pools(pools: &str) -> Result<translate::Planned, String> {
        let connection = format!("pools = {pools}");
        first(&format!("{}{POOLS}", text(&connection, "remote_ts = dynamic")))
    }

    fn ranges(pools: &str) -> PoolRanges {
        match with_pools(pools).map(|planned| planned.connection.inner) {
            Ok(Inner::Give(pool)) => pool.ranges,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_pool_gives_the_addresses_of_hosts_with_its_settings() {
        let both = ranges("v4, v6");
        assert_eq!(both.v4, Some(([10, 9, 0, 1].into(), [10, 9, 0, 254].into())));
        assert_eq!(both.v6, Some("fd00:9::1/64".parse().unwrap()), "the first address is skipped");
        assert_eq!(ranges("late").v4, Some(([10, 9, 0, 5].into(), [10, 9, 0, 254].into())));
        assert_eq!(ranges("few").v4, Some(([10, 9, 1, 10].into(), [10, 9, 1, 20].into())));
        let planned = with_pools("v4, v6").unwrap();
        let Inner::Give(pool) = &planned.connection.inner else { panic!("a pool") };
        assert_eq!((pool.dns.len(), pool.subnets.len()), (2, 1));
        let domains = [b"corp.example".to_vec(), b"lab.example".to_vec()].map(|domain| (25, domain));
        assert_eq!(pool.attributes[..1], [(4, vec![10, 1, 0, 9])]);
        assert_eq!(pool.attributes[1..], domains, "one for each domain");
        let networks: Vec<String> = planned.pool_networks.iter().map(ToString::to_string).collect();
        assert_eq!(networks, ["10.9.0.0/24", "fd00:9::/64"]);
    }

    #[test]
    fn what_cannot_be_given_or_had_is_refused_with_its_line() {
        for (found, why) in [
            (with_pools("v4, few"), "a connection has one pool of each family"),
            (with_pools("bad"), "a range of IPv6 addresses is not supported"),
            (
                first(&format!("{}{POOLS}", text("pools = v4", "start_action = start"))),
                "`start_action`: a peer asks for its inner address when it begins",
            ),
            (first(&text("vips = 0.0.0.0, 10.0.0.1", "")), "a.conf:4: `vips`: one address of each family"),
            (
                first(&text("vips = 0.0.0.0", "start_action = trap")),
                "`start_action`: without its inner address",
            ),
            (
                first(&format!("{}{POOLS}", text("vips = ::\n pools = v4", ""))),
                "a connection with `vips` asks for inner addresses",
            ),
        ] {
            let problem = found.map(|planned| planned.connection.name).expect_err(why);
            assert!(problem.contains(why), "{problem}");
        }
        let asks = first(&text("vips = 0.0.0.0, ::", "remote_ts = 0.0.0.0/0, ::/0")).unwrap();
        assert!(matches!(&asks.connection.inner, Inner::Ask(vips) if vips.len() == 2));
    }
}
