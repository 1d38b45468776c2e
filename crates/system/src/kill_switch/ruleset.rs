//! The rules of a kill switch.

use ipnet::IpNet;

use crate::mark::DEVICE_GROUP;
use crate::nftables::{Action, Chain, Family, Hook, Match, Policy, Table, Transaction};

/// The index of the loopback device in every network namespace (linux/if.h `LOOPBACK_IFINDEX`).
const LOOPBACK: u32 = 1;
/// The numbers of UDP and ICMPv6.
const UDP: u8 = 17;
const ICMP6: u8 = 58;
/// A client's and a server's port of DHCP, and of DHCPv6.
const DHCP: Match<'static> = Match::Ports(68, 67);
const DHCP6: Match<'static> = Match::Ports(546, 547);
/// Types of ICMPv6 without which a link has no IPv6: solicitations of routers and neighbors, advertisements of neighbors
/// (RFC 4861), and the reports of multicast listeners (RFC 2710, RFC 3810).
const LINK: [u8; 6] = [133, 135, 136, 131, 132, 143];
/// The hop limits of neighbor discovery and of multicast listeners' reports.
const HOP_LIMITS: [u8; 2] = [255, 1];
/// Local networks: private, link-local, shared and multicast addresses.
const LAN: [&str; 10] = [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "100.64.0.0/10",
    "224.0.0.0/4",
    "255.255.255.255/32",
    "fc00::/7",
    "fe80::/10",
    "ff02::/16",
];

/// The table's chains.
const CHAINS: [(&str, Hook); 2] = [("output", Hook::Output), ("forward", Hook::Forward)];

/// Makes the table anew: nothing leaves but by the tunnels' devices, with these marks, or what a link needs to have addresses.
/// With `lan`, local networks may be reached.
pub(super) fn transaction(table: &Table, marks: &[u32], lan: bool) -> Transaction {
    let mut transaction = Transaction::default();
    transaction.remove_table(table);
    transaction.add_table(table);
    for (name, hook) in CHAINS {
        let chain = Chain { name, translates: false, hook, priority: 0, policy: Policy::Drop };
        transaction.add_chain(table, &chain);
    }
    let mut accept = |chain: &str, matches: &[Match<'_>]| {
        transaction.add_rule(table, chain, matches, Action::Accept);
    };
    accept("output", &[Match::Out(LOOPBACK)]);
    accept("output", &[Match::OutGroup(DEVICE_GROUP)]);
    for mark in marks {
        accept("output", &[Match::Mark(*mark)]);
    }
    for (family, ports) in [(Family::Ip, DHCP), (Family::Ip6, DHCP6)] {
        accept("output", &[Match::Family(family), Match::Protocol(UDP), ports]);
    }
    for kind in LINK {
        for limit in HOP_LIMITS {
            let icmp = [Match::Family(Family::Ip6), Match::Protocol(ICMP6), Match::IcmpType(kind)];
            accept("output", &[&icmp[..], &[Match::HopLimit(limit)]].concat());
        }
    }
    accept("forward", &[Match::InGroup(DEVICE_GROUP)]);
    accept("forward", &[Match::OutGroup(DEVICE_GROUP)]);
    for (chain, _) in CHAINS {
        for network in LAN.iter().filter(|_| lan).filter_map(|text| text.parse::<IpNet>().ok()) {
            let family = if network.addr().is_ipv4() { Family::Ip } else { Family::Ip6 };
            accept(chain, &[Match::Family(family), Match::Destination(network)]);
        }
    }
    for chain in CHAINS.map(|(name, _)| name) {
        transaction.add_rule(table, chain, &[], Action::Reject);
    }
    transaction
}
