//! The arguments of pushed options.

use std::net::Ipv4Addr;
use std::time::Duration;

use adit_core::{Cipher, IdleLimit, IpNet, Ipv4Net, Redirect, ipv6_network};

use super::{Gateway, Refused, Topology};
use crate::lifetime::whole_seconds;

pub(super) fn first<T: std::str::FromStr>(arguments: &[&str]) -> Option<T> {
    arguments.first()?.parse().ok()
}

pub(super) fn two_addresses(arguments: &[&str]) -> Option<(Ipv4Addr, Ipv4Addr)> {
    Some((first(arguments)?, first(arguments.get(1..)?)?))
}

pub(super) fn topology(arguments: &[&str]) -> Option<Topology> {
    match arguments {
        ["subnet"] => Some(Topology::Subnet),
        ["net30" | "p2p"] => Some(Topology::PointToPoint),
        _ => None,
    }
}

/// Zero means off.
pub(super) fn seconds(arguments: &[&str]) -> Option<Option<Duration>> {
    let seconds: u32 = first(arguments)?;
    Some((seconds > 0).then(|| Duration::from_secs(u64::from(seconds))))
}

/// `inactive SECONDS [BYTES]`.
pub(super) fn idle(arguments: &[&str]) -> Option<IdleLimit> {
    let bytes = arguments.get(1).map_or(Some(0), |bytes| bytes.parse().ok())?;
    Some(IdleLimit { after: length(arguments)?, bytes })
}

pub(super) fn length(arguments: &[&str]) -> Option<Duration> {
    whole_seconds(arguments.first()?)
}

pub(super) fn cipher(arguments: &[&str]) -> Result<Cipher, Refused> {
    let name = arguments.first().copied().unwrap_or_default();
    Cipher::from_name(name).ok_or_else(|| {
        Refused::Fatal(format!("the server chose the cipher \"{name}\", which is not among those we offered"))
    })
}

pub(super) fn gateway(word: Option<&&str>) -> Option<Gateway> {
    match word.copied() {
        None | Some("vpn_gateway" | "default") => Some(Gateway::Tunnel),
        Some("net_gateway" | "net_gateway_ipv6") => Some(Gateway::System),
        Some(address) => address.parse().ok().map(Gateway::Address),
    }
}

pub(super) fn metric(word: Option<&&str>) -> Option<Option<u32>> {
    match word.copied() {
        None | Some("default") => Some(None),
        Some(number) => number.parse().ok().map(Some),
    }
}

/// `route NETWORK [NETMASK] [GATEWAY] [METRIC]`.
pub(super) fn route4(arguments: &[&str]) -> Option<(IpNet, Gateway, Option<u32>)> {
    let network: Ipv4Addr = first(arguments)?;
    let mask = match arguments.get(1).copied() {
        None | Some("default") => Ipv4Addr::BROADCAST,
        Some(mask) => mask.parse().ok()?,
    };
    let net = Ipv4Net::with_netmask(network, mask).ok()?.trunc();
    Some((IpNet::V4(net), gateway(arguments.get(2))?, metric(arguments.get(3))?))
}

/// `route-ipv6 NETWORK[/PREFIX] [GATEWAY] [METRIC]`.
pub(super) fn route6(arguments: &[&str]) -> Option<(IpNet, Gateway, Option<u32>)> {
    let net = ipv6_network(arguments.first()?)?;
    Some((IpNet::V6(net.trunc()), gateway(arguments.get(1))?, metric(arguments.get(2))?))
}

/// The flags that ask for something. `def1` and `local` name routes of other systems; a DHCP server is reached on the
/// link in any case (`bypass-dhcp`).
pub(super) fn redirect_gateway(flags: &[&str]) -> Redirect {
    let has = |flag| flags.contains(&flag);
    Redirect {
        ipv4: !has("!ipv4"),
        ipv6: has("ipv6"),
        server_on_link: has("autolocal"),
        block_local: has("block-local"),
        bypass_dns: has("bypass-dns"),
    }
}
