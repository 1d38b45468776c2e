//! Policy routing: rules, and routes of tables other than main (linux/fib_rules.h, ip-rule(8)).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_core::{DefaultNla, NLA_F_NESTED, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::link::{AfSpecInet, AfSpecUnspec, LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::owner_rules::Jump;
use super::{Netlink, PROTOCOL, hop, metric, unless};

/// An address family of its own tables and rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpFamily {
    pub(crate) const BOTH: [IpFamily; 2] = [IpFamily::V4, IpFamily::V6];

    pub(crate) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { IpFamily::V4 } else { IpFamily::V6 }
    }

    fn number(self) -> AddressFamily {
        match self {
            IpFamily::V4 => AddressFamily::Inet,
            IpFamily::V6 => AddressFamily::Inet6,
        }
    }

    fn unspecified(self) -> IpAddr {
        match self {
            IpFamily::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpFamily::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }
    }
}

/// The system's main table.
pub(crate) const MAIN: u32 = RouteHeader::RT_TABLE_MAIN as u32;

/// The action of a rule on a packet that matches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleTarget {
    /// A route of this table is used, if one fits.
    Table(u32),
    /// The table of that number, but its default routes do not count (`suppress_prefixlength 0`).
    TableWithoutDefault(u32),
    /// The sender gets the error at once that there is no way. The table is not looked at; its number names
    /// the rule's owner.
    Unreachable(u32),
}

impl RuleTarget {
    fn table(self) -> u32 {
        match self {
            RuleTarget::Table(table)
            | RuleTarget::TableWithoutDefault(table)
            | RuleTarget::Unreachable(table) => table,
        }
    }
}

/// A rule of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) family: IpFamily,
    /// Rules are asked in the order of this number, the least first.
    pub(crate) priority: u32,
    /// Packets with this mark are not subject to the rule; `None`: all are.
    pub(crate) except_mark: Option<u32>,
    pub(crate) target: RuleTarget,
}

/// A rule of the system.
#[derive(Clone, Debug)]
pub(crate) struct ListedRule {
    pub(crate) priority: u32,
    /// An adit set it.
    pub(crate) is_adits: bool,
    /// The jump that an adit's rule is, or the jump to a rule of the owner's for some packets.
    pub(crate) jump: Option<Jump>,
    /// The rule is for all packets but those with some mark.
    pub(crate) excepts_mark: bool,
    /// The rule, if an adit set it and it is no jump.
    pub(crate) own: Option<Rule>,
}

/// A route of any table, of one next hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableRoute {
    pub(crate) table: u32,
    pub(crate) destination: IpNet,
    /// `None`: the destination is unreachable, unless there is another route to it.
    pub(crate) device: Option<u32>,
    pub(crate) gateway: Option<IpAddr>,
    /// The source address of packets that have none yet; IPv4 only.
    pub(crate) source: Option<IpAddr>,
}

/// A route as it is listed, with the properties that only routes of others have.
#[derive(Clone, Debug)]
pub(crate) struct ListedRoute {
    pub(crate) route: TableRoute,
    pub(crate) metric: u32,
    /// The kernel made it of an address of the device, or of a router's announcement of an on-link prefix.
    pub(crate) connected: bool,
}

/// The metric of unreachable routes, which count when there is no other.
const LAST: u32 = 0xFFFF_FF00;
/// The place of `rp_filter` in a device's IPv4 configuration (linux/ip.h `IPV4_DEVCONF_RP_FILTER`).
const RP_FILTER: u16 = 8;
/// linux/if_link.h `IFLA_INET_CONF`.
const INET_CONF: u16 = 1;

impl Netlink {
    /// Adds a rule. Succeeds if it is there already.
    pub(crate) fn add_rule(&mut self, rule: &Rule) -> io::Result<()> {
        let message = RouteNetlinkMessage::NewRule(rule_message(rule));
        unless(self.request(message, NLM_F_CREATE | NLM_F_EXCL), &[libc::EEXIST])
    }

    /// Removes a rule. Succeeds if it is gone already.
    pub(crate) fn remove_rule(&mut self, rule: &Rule) -> io::Result<()> {
        let message = RouteNetlinkMessage::DelRule(rule_message(rule));
        unless(self.request(message, 0), &[libc::ENOENT, libc::ESRCH])
    }

    /// All rules of a family. Fails with `EAFNOSUPPORT` or `EOPNOTSUPP` where the kernel has none.
    pub(crate) fn rules(&mut self, family: IpFamily) -> io::Result<Vec<ListedRule>> {
        let mut message = RuleMessage::default();
        message.header.family = family.number();
        let answers = self.request(RouteNetlinkMessage::GetRule(message), NLM_F_DUMP)?;
        let rule = |answer| match answer {
            RouteNetlinkMessage::NewRule(rule) if rule.header.family == family.number() => {
                Some(listed_rule(&rule, family))
            }
            _ => None,
        };
        Ok(answers.into_iter().filter_map(rule).collect())
    }

    /// Sets a route, in place of that to the same destination in that table.
    pub(crate) fn set_table_route(&mut self, route: &TableRoute) -> io::Result<()> {
        let message = RouteNetlinkMessage::NewRoute(table_route_message(route));
        self.request(message, NLM_F_CREATE | NLM_F_REPLACE).map(drop)
    }

    /// Removes a route. Succeeds if it (or its device) is gone already.
    pub(crate) fn remove_table_route(&mut self, route: &TableRoute) -> io::Result<()> {
        let message = RouteNetlinkMessage::DelRoute(table_route_message(route));
        unless(self.request(message, 0), &[libc::ESRCH, libc::ENODEV])
    }

    /// The unicast and unreachable routes of all tables.
    pub(crate) fn all_routes(&mut self, family: IpFamily) -> io::Result<Vec<ListedRoute>> {
        let mut message = RouteMessage::default();
        message.header.address_family = family.number();
        let answers = self.request(RouteNetlinkMessage::GetRoute(message), NLM_F_DUMP)?;
        let route = |answer| match answer {
            RouteNetlinkMessage::NewRoute(route) => listed_route(&route, family),
            _ => None,
        };
        Ok(answers.into_iter().filter_map(route).collect())
    }

    /// How the kernel would send a datagram of the tunnel's own.
    #[cfg(test)]
    pub(crate) fn next_hop_of_own(&mut self, address: IpAddr) -> io::Result<super::NextHop> {
        self.next_hop_of_marked(address, crate::mark::MARK)
    }

    /// The indices of devices, and which of them are point-to-point links.
    pub(crate) fn links(&mut self) -> io::Result<Vec<(u32, bool)>> {
        let answers = self.request(RouteNetlinkMessage::GetLink(LinkMessage::default()), NLM_F_DUMP)?;
        let link = |answer| match answer {
            RouteNetlinkMessage::NewLink(link) => {
                let point_to_point = link.header.flags.contains(LinkFlags::Pointopoint);
                Some((link.header.index, point_to_point))
            }
            _ => None,
        };
        Ok(answers.into_iter().filter_map(link).collect())
    }

    /// The indices of the devices of that group (ip-link(8) `group`).
    pub(crate) fn links_of_group(&mut self, group: u32) -> io::Result<Vec<u32>> {
        let answers = self.request(RouteNetlinkMessage::GetLink(LinkMessage::default()), NLM_F_DUMP)?;
        let link = |answer| match answer {
            RouteNetlinkMessage::NewLink(link) if link.attributes.contains(&LinkAttribute::Group(group)) => {
                Some(link.header.index)
            }
            _ => None,
        };
        Ok(answers.into_iter().filter_map(link).collect())
    }

    /// The devices: index, name, and whether others are reached by it on a link that several share, as by Ethernet.
    pub(crate) fn named_links(&mut self) -> io::Result<Vec<(u32, String, bool)>> {
        let answers = self.request(RouteNetlinkMessage::GetLink(LinkMessage::default()), NLM_F_DUMP)?;
        let link = |answer| {
            let RouteNetlinkMessage::NewLink(link) = answer else { return None };
            let name = link.attributes.iter().find_map(|attribute| match attribute {
                LinkAttribute::IfName(name) => Some(name.clone()),
                _ => None,
            });
            let alone = LinkFlags::Pointopoint | LinkFlags::Loopback;
            Some((link.header.index, name?, !link.header.flags.intersects(alone)))
        };
        Ok(answers.into_iter().filter_map(link).collect())
    }

    /// A device's own `rp_filter`.
    pub(crate) fn reverse_path_filter(&mut self, device: u32) -> io::Result<u32> {
        let mut message = LinkMessage::default();
        message.header.index = device;
        for answer in self.request(RouteNetlinkMessage::GetLink(message), 0)? {
            let RouteNetlinkMessage::NewLink(link) = answer else { continue };
            let inet = link.attributes.iter().find_map(|attribute| match attribute {
                LinkAttribute::AfSpecUnspec(families) => families.iter().find_map(|family| match family {
                    AfSpecUnspec::Inet(inet) => inet.first(),
                    _ => None,
                }),
                _ => None,
            });
            if let Some(AfSpecInet::DevConf(conf)) = inet {
                return Ok(u32::try_from(conf.rp_filter).unwrap_or(0));
            }
        }
        Err(io::Error::from_raw_os_error(libc::ENODEV))
    }

    /// Sets a device's own `rp_filter`. By netlink, as `/proc/sys` may be read-only.
    pub(crate) fn set_reverse_path_filter(&mut self, device: u32, value: u32) -> io::Result<()> {
        // struct nlattr: length, type, then the value.
        let mut setting = Vec::with_capacity(8);
        setting.extend_from_slice(&8_u16.to_ne_bytes());
        setting.extend_from_slice(&RP_FILTER.to_ne_bytes());
        setting.extend_from_slice(&value.to_ne_bytes());
        let conf = AfSpecInet::Other(DefaultNla::new(INET_CONF | NLA_F_NESTED, setting));
        self.set_link(device, LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet(vec![conf])]))
    }
}

fn rule_message(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = rule.family.number();
    message.header.action = match rule.target {
        RuleTarget::Table(_) | RuleTarget::TableWithoutDefault(_) => RuleAction::ToTable,
        RuleTarget::Unreachable(_) => RuleAction::Unreachable,
    };
    let attributes = &mut message.attributes;
    attributes.push(RuleAttribute::Priority(rule.priority));
    if let Some(mark) = rule.except_mark {
        message.header.flags = RuleFlags::Invert;
        attributes.push(RuleAttribute::FwMark(mark));
        attributes.push(RuleAttribute::FwMask(u32::MAX));
    }
    attributes.push(RuleAttribute::Table(rule.target.table()));
    attributes.push(RuleAttribute::Protocol(PROTOCOL));
    if matches!(rule.target, RuleTarget::TableWithoutDefault(_)) {
        attributes.push(RuleAttribute::SuppressPrefixLen(0));
    }
    message
}

fn listed_rule(message: &RuleMessage, family: IpFamily) -> ListedRule {
    let (mut priority, mut mark, mut table, mut suppressed, mut ours) = (0, None, 0, false, false);
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Priority(number) => priority = *number,
            RuleAttribute::FwMark(number) => mark = Some(*number),
            RuleAttribute::Table(number) => table = *number,
            RuleAttribute::SuppressPrefixLen(length) => suppressed = *length == 0,
            RuleAttribute::Protocol(protocol) => ours = *protocol == PROTOCOL,
            _ => {}
        }
    }
    let target = match message.header.action {
        RuleAction::ToTable if suppressed => Some(RuleTarget::TableWithoutDefault(table)),
        RuleAction::ToTable => Some(RuleTarget::Table(table)),
        RuleAction::Unreachable => Some(RuleTarget::Unreachable(table)),
        _ => None,
    };
    let inverted = message.header.flags.contains(RuleFlags::Invert);
    let jump = if ours { Jump::of(message) } else { Jump::to(message, priority) };
    // Ours are inverted if they have a mark.
    let own = match target {
        Some(target) if ours && inverted == mark.is_some() => {
            Some(Rule { family, priority, except_mark: mark, target })
        }
        _ => None,
    };
    ListedRule { priority, is_adits: ours, jump, excepts_mark: inverted && mark.is_some(), own }
}

fn table_route_message(route: &TableRoute) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = IpFamily::of(route.destination.addr()).number();
    message.header.destination_prefix_length = route.destination.prefix_len();
    message.header.protocol = PROTOCOL;
    let reachable = route.device.is_some();
    message.header.kind = if reachable { RouteType::Unicast } else { RouteType::Unreachable };
    // An unreachable route is of the wider scope, in which the kernel does not look for a new route's gateway.
    let on_link = reachable && route.gateway.is_none() && route.destination.addr().is_ipv4();
    message.header.scope = if on_link { RouteScope::Link } else { RouteScope::Universe };
    let attributes = &mut message.attributes;
    attributes.push(RouteAttribute::Table(route.table));
    attributes.push(RouteAttribute::Destination(RouteAddress::from(route.destination.network())));
    attributes.push(match route.device {
        Some(device) => RouteAttribute::Oif(device),
        None => RouteAttribute::Priority(LAST),
    });
    if let Some(gateway) = route.gateway {
        // The gateway's own network is in the main table, where the kernel does not look for it here.
        message.header.flags = RouteFlags::Onlink;
        attributes.push(RouteAttribute::Gateway(RouteAddress::from(gateway)));
    }
    if let Some(source) = route.source {
        attributes.push(RouteAttribute::PrefSource(RouteAddress::from(source)));
    }
    message
}

fn listed_route(message: &RouteMessage, family: IpFamily) -> Option<ListedRoute> {
    if message.header.address_family != family.number() {
        return None;
    }
    let (mut table, mut network, mut source) = (u32::from(message.header.table), family.unspecified(), None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Destination(address) => network = ip(address)?,
            RouteAttribute::PrefSource(address) => source = ip(address),
            _ => {}
        }
    }
    let (gateway, device) = hop(message);
    let device = match message.header.kind {
        RouteType::Unicast => Some(device?),
        // IPv6 names the loopback device.
        RouteType::Unreachable => None,
        _ => return None,
    };
    let destination = IpNet::new(network, message.header.destination_prefix_length).ok()?;
    let connected = matches!(message.header.protocol, RouteProtocol::Kernel | RouteProtocol::Ra);
    let route = TableRoute { table, destination, device, gateway, source };
    Some(ListedRoute { route, metric: metric(message), connected })
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some(IpAddr::V4(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}
