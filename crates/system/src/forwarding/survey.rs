//! Reports on the packets that are forwarded, and on the firewalls that drop them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_core::{IpNet, Report, Transport};

use super::filters::{self, Changed, Filter};
use super::records::Family;
use super::{Forwarding, note, ruleset, sysctls, warning};
use crate::netlink::Netlink;

/// A line for each family and kind of destination: from where, where to, by which device, and whether it is translated.
pub(super) fn routes(forwarding: &Forwarding) -> Vec<Report> {
    let mut reports = Vec::new();
    for (family, networks, destinations) in forwarding.families() {
        if family == Family::V6 && !sysctls::has_v6() {
            reports.push(warning("IPv6 is not forwarded: this system has none".to_owned()));
            continue;
        }
        let (all, some): (Vec<IpNet>, Vec<IpNet>) =
            destinations.iter().partition(|net| net.prefix_len() == 0);
        if !some.is_empty() {
            let (from, to) = (words(&networks), words(&some));
            reports.push(note(format!("forwards {from} to {to}, translated to this machine's address")));
        }
        if !all.is_empty() {
            reports.push(to_the_internet(family, &networks));
        }
    }
    if reports.is_empty() {
        let text = "nothing is forwarded: the tunnel has no network of the family of a destination";
        reports.push(warning(text.to_owned()));
    }
    reports
}

fn to_the_internet(family: Family, networks: &[IpNet]) -> Report {
    let from = words(networks);
    let private = networks.iter().filter(|net| ruleset::is_private(net)).count();
    let translated = match private {
        0 => {
            ", not translated, as these are public addresses: the internet must have a route back".to_owned()
        }
        all if all == networks.len() => ", translated to this machine's address".to_owned(),
        _ => ", translated where they are private addresses".to_owned(),
    };
    let (name, like): (_, IpAddr) = match family {
        Family::V4 => ("IPv4", Ipv4Addr::UNSPECIFIED.into()),
        Family::V6 => ("IPv6", Ipv6Addr::UNSPECIFIED.into()),
    };
    match uplink(like) {
        Some(device) => note(format!("forwards {from} to the internet through {device}{translated}")),
        None => warning(format!(
            "forwards {from} to the internet{translated}, but this machine has no default route of {name} now"
        )),
    }
}

/// The device of the default route.
fn uplink(like: IpAddr) -> Option<String> {
    let mut netlink = Netlink::open().ok()?;
    let device = netlink.default_route(like).ok()??.device?;
    netlink.named_links().ok()?.into_iter().find(|(index, ..)| *index == device).map(|(_, name, _)| name)
}

/// The report on a firewall that drops the tunnel's packets, before the tunnel is up: how adit will let the packets through, or the
/// command to run where adit does not change the firewall.
pub(super) fn obstacle(forwarding: &Forwarding, filter: &Filter) -> Option<Report> {
    match filter {
        Filter::Changed(Changed::Iptables(family, _)) if !forwarding.has(*family) => None,
        Filter::Changed(changed) => Some(let_through(forwarding, *changed)),
        Filter::Chain(_) => Some(missing(forwarding, filter, "adit does not change it")),
    }
}

/// The report on the change by which adit lets the tunnel's packets through another firewall.
pub(super) fn let_through(forwarding: &Forwarding, changed: Changed) -> Report {
    let device = &forwarding.device;
    note(match changed {
        Changed::Iptables(_, program) => format!(
            "{program}'s chain FORWARD drops what is forwarded (as Docker and ufw set it): rules with the comment {} let \
             the tunnel's packets through",
            ruleset::table(device)
        ),
        Changed::Firewalld => {
            format!(
                "firewalld drops what is forwarded: {device} is in its zone `trusted` while the tunnel is up"
            )
        }
    })
}

/// The warning about a firewall that still drops the tunnel's packets, with the command that lets them through.
pub(super) fn missing(forwarding: &Forwarding, filter: &Filter, why: &str) -> Report {
    let device = &forwarding.device;
    warning(match filter {
        Filter::Changed(Changed::Iptables(_, program)) => format!(
            "{program}'s chain FORWARD drops what is forwarded, and cannot be changed ({why}): run `{program} -I FORWARD -i \
             {device} -j ACCEPT` and `{program} -I FORWARD -o {device} -j ACCEPT`"
        ),
        Filter::Changed(Changed::Firewalld) => format!(
            "firewalld drops what is forwarded ({why}): run `firewall-cmd --zone=trusted --add-interface={device}`"
        ),
        Filter::Chain(place) => format!(
            "nftables' chain {place} drops what is forwarded, and {why}: run `nft 'insert rule {place} iifname \"{device}\" \
             accept; insert rule {place} oifname \"{device}\" ct state established,related accept'`"
        ),
    })
}

/// The ports of this machine that a firewall keeps closed to clients.
pub(super) fn ports(forwarding: &Forwarding) -> Vec<Report> {
    let closed = |(transport, port): &(Transport, u16)| {
        let protocol = match transport {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
            Transport::Ip(_) => return None,
        };
        let command = filters::closed_port(protocol, *port)?;
        Some(warning(format!("the firewall keeps {protocol} port {port} closed to clients: run `{command}`")))
    };
    forwarding.ports.iter().filter_map(closed).collect()
}

fn words(networks: &[IpNet]) -> String {
    networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
