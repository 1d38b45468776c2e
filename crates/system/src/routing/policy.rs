//! All traffic into the tunnel, or none of a family anywhere: policy routing by firewall mark.
//!
//! Routes of the main table cannot do it. Whatever is more specific wins over them, and a DHCP server may send such
//! routes (RFC 3442 option 121; CVE-2024-3661, "TunnelVision"); and a host route that keeps the server outside the
//! tunnel leads every program's packets to it ("TunnelCrack", CVE-2023-36672 and CVE-2023-36673). Here only packets
//! with the mark of the tunnel's own sockets see the main table. All others are for the rules of a family, in this
//! order:
//!
//! 0. jumps to the owner's rules for some packets (`from ADDRESS lookup TABLE`), which would come later: they hold whether they were
//!    set before the tunnel or while it is up ([`owner_rules`]);
//! 1. a table of this tunnel's own: all destinations by the tunnel, and those that shall be reached beside
//!    it;
//! 2. a second table in which all is unreachable. It holds while another program has deleted the first rule or the routes into
//!    the tunnel, or has taken the tunnel's device down;
//! 3. the main table without its default routes. No packet comes this far, only the kernel's own lookups, by which it
//!    checks that a gateway is on the link when another program adds a route. (They are of a narrower scope than the
//!    route of the second table.)
//! 4. unreachable, while another program has deleted the second rule as well.
//!
//! Rules and routes outlive a process that was killed. Their table's number is that of the tunnel's device, so the
//! next start knows whose device is gone, and removes them.

mod bypass;
mod leftovers;
mod owner_rules;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use adit_core::{Report, RouteVia, Severity, TunnelSettings};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use self::bypass::SystemRoutes;
pub(crate) use self::leftovers::recover;
use self::leftovers::remove_table;
use super::{failure, in_tunnel};
use crate::mark::MARK;
use crate::netlink::{IpFamily, ListedRoute, MAIN, Netlink, Rule, RuleTarget, TableRoute};

/// The first tables of tunnels have numbers from this one on; the device's number is added.
const FIRST_TABLE: u32 = 0x6100_0000;
/// The second tables have numbers from this one on.
const UNREACHABLE_TABLE: u32 = FIRST_TABLE + TABLES;
/// How many tables of a kind there may be.
const TABLES: u32 = 0x0100_0000;
/// Rules of ours have priorities below this, and so come before those of the system (32766, 32767) and of programs that let
/// the kernel choose: these are just before the system's.
/// The tunnel that came last comes first.
pub(super) const LAST_PRIORITY: u32 = 32_000;
/// The priority of the system's rule for the main table (ip-rule(8)).
pub(super) const MAIN_PRIORITY: u32 = 32_766;
/// Priorities that a tunnel takes; the first is for jumps to the owner's rules.
const PRIORITIES: u32 = 5;
/// `rp_filter`: packets from an address are dropped where the route to it does not lead (RFC 3704 §2.2)...
const STRICT: u32 = 1;
/// ...or where there is no route to it at all (§2.4).
const LOOSE: u32 = 2;

/// The way of a family's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// All go into the tunnel.
    Redirect,
    /// No packet goes anywhere (`block-ipv6`).
    Block,
}

/// The treatment that `settings` ask for of a family; `None` leaves it to the main table.
pub(super) fn treatment(settings: &TunnelSettings, family: IpFamily) -> Option<Treatment> {
    let redirect = settings.redirect.unwrap_or_default();
    match family {
        IpFamily::V6 if settings.block_ipv6 => Some(Treatment::Block),
        IpFamily::V4 => redirect.ipv4.then_some(Treatment::Redirect),
        IpFamily::V6 => redirect.ipv6.then_some(Treatment::Redirect),
    }
}

/// The rules and tables of one tunnel.
#[derive(Debug)]
pub(super) struct Policy {
    device: u32,
    name: String,
    /// The mark of the tunnel's own datagrams.
    mark: u32,
    /// The priority of the first rule of each family that has rules.
    priorities: BTreeMap<IpFamily, u32>,
    /// Devices whose `rp_filter` was changed, and its former value.
    filters: BTreeMap<u32, u32>,
}

/// The routes of a family as they shall be.
struct Wanted {
    /// The routes without which there is no tunnel.
    into_tunnel: Vec<TableRoute>,
    /// The tunnel works without these.
    others: Vec<TableRoute>,
}

impl Policy {
    /// The policy of the TUN device of that index and name.
    pub(super) fn new(device: u32, name: &str) -> Self {
        Policy {
            device,
            name: name.to_owned(),
            mark: MARK,
            priorities: BTreeMap::new(),
            filters: BTreeMap::new(),
        }
    }

    /// The mark of the tunnel's own datagrams, before there are rules by it.
    pub(super) fn set_mark(&mut self, mark: u32) {
        self.mark = mark;
    }

    /// The mark of the tunnel's own datagrams.
    pub(super) fn mark(&self) -> u32 {
        self.mark
    }

    /// Whether rules of this tunnel are in force.
    pub(super) fn is_active(&self) -> bool {
        !self.priorities.is_empty()
    }

    /// Makes rules and tables as `settings` require, as the network is now; restores the rules and routes that another
    /// program deleted. `name_servers` are those of the system.
    ///
    /// # Errors
    /// The first thing that the tunnel cannot be without, in words.
    pub(super) fn enforce(
        &mut self,
        netlink: &mut Netlink,
        settings: &TunnelSettings,
        name_servers: &[IpAddr],
        reports: &mut Vec<Report>,
    ) -> Result<(), String> {
        for family in IpFamily::BOTH {
            match treatment(settings, family) {
                None => self.remove(netlink, family),
                Some(Treatment::Block) => self.enforce_rules(netlink, family, Treatment::Block, reports)?,
                Some(Treatment::Redirect) => {
                    self.enforce_routes(netlink, family, settings, name_servers, reports)?;
                    self.enforce_rules(netlink, family, Treatment::Redirect, reports)?;
                }
            }
        }
        if self.priorities.contains_key(&IpFamily::V4) {
            self.loosen_filters(netlink, settings);
        }
        Ok(())
    }

    /// Removes everything.
    pub(super) fn undo(&mut self, netlink: &mut Netlink) {
        for family in IpFamily::BOTH {
            self.remove(netlink, family);
        }
        for (device, before) in std::mem::take(&mut self.filters) {
            // A later change by another program stays.
            if netlink.reverse_path_filter(device).is_ok_and(|now| now == LOOSE) {
                let _ = netlink.set_reverse_path_filter(device, before);
            }
        }
    }

    /// The rules come first, so that nothing goes by half a table. The kernel takes routes away with their device.
    fn remove(&mut self, netlink: &mut Netlink, family: IpFamily) {
        if self.priorities.remove(&family).is_some() {
            remove_table(netlink, family, self.table());
        }
    }

    fn table(&self) -> u32 {
        FIRST_TABLE + self.device % TABLES
    }

    fn unreachable_table(&self) -> u32 {
        UNREACHABLE_TABLE + self.device % TABLES
    }

    fn enforce_rules(
        &mut self,
        netlink: &mut Netlink,
        family: IpFamily,
        treatment: Treatment,
        reports: &mut Vec<Report>,
    ) -> Result<(), String> {
        let table = self.table();
        let listed = match netlink.rules(family) {
            Ok(listed) => listed,
            // No packet of a family that the kernel does not have can leave.
            Err(error) if family == IpFamily::V6 && lacks_family(&error) => return Ok(()),
            Err(error) => return Err(cannot("ask for the rules of policy routing", &error)),
        };
        let taken: Vec<u32> = listed.iter().map(|rule| rule.priority).collect();
        let first = match self.priorities.get(&family) {
            Some(first) => *first,
            None => free_priority(&taken).ok_or("no priority is free for rules of policy routing")?,
        };
        self.priorities.insert(family, first);
        let wanted = rules((family, self.mark), first, table, treatment);
        for rule in &wanted {
            if !listed.iter().any(|listed| listed.own == Some(*rule)) {
                netlink
                    .add_rule(rule)
                    .map_err(|error| cannot(&format!("add the rule {}", shown(rule)), &error))?;
            }
        }
        for rule in listed.iter().filter_map(|listed| listed.own) {
            let ours = (first..first + PRIORITIES).contains(&rule.priority);
            if ours && !wanted.contains(&rule) {
                let _ = netlink.remove_rule(&rule);
            }
        }
        if let Err(error) = owner_rules::enforce(netlink, &listed, (first, &wanted), treatment) {
            reports
                .push(failure("keep the system's own rules of policy routing before the tunnel's", &error));
        }
        Ok(())
    }

    fn enforce_routes(
        &mut self,
        netlink: &mut Netlink,
        family: IpFamily,
        settings: &TunnelSettings,
        name_servers: &[IpAddr],
        reports: &mut Vec<Report>,
    ) -> Result<(), String> {
        let listed = netlink.all_routes(family).map_err(|error| cannot("ask for the routes", &error))?;
        let links = netlink.links().map_err(|error| cannot("ask for the devices", &error))?;
        let wanted = self.wanted(family, settings, name_servers, &listed, &links, reports);
        let table = self.table();
        let there: Vec<&TableRoute> =
            listed.iter().map(|listed| &listed.route).filter(|route| is_of(route.table, table)).collect();
        for route in wanted.into_tunnel.iter().filter(|route| !there.contains(route)) {
            match netlink.set_table_route(route) {
                Ok(()) => {}
                // The rule that follows the table makes it unreachable. `Routing::possible` has warned.
                Err(error) if family == IpFamily::V6 && is_off(&error) => break,
                Err(error) => {
                    let what = format!("add the route to {} by {}", route.destination, self.name);
                    return Err(cannot(&what, &error));
                }
            }
        }
        for route in wanted.others.iter().filter(|route| !there.contains(route)) {
            if let Err(error) = netlink.set_table_route(route) {
                reports.push(failure(&format!("add the route to {}", route.destination), &error));
            }
        }
        let is_wanted = |route: &TableRoute| {
            let same =
                |wanted: &TableRoute| (wanted.table, wanted.destination) == (route.table, route.destination);
            wanted.into_tunnel.iter().chain(&wanted.others).any(same)
        };
        for route in there.into_iter().filter(|route| !is_wanted(route)) {
            let _ = netlink.remove_table_route(route);
        }
        Ok(())
    }

    /// The routes of the table. Of two to the same destination the first counts: routes of the settings go before
    /// routes of the system.
    fn wanted(
        &self,
        family: IpFamily,
        settings: &TunnelSettings,
        name_servers: &[IpAddr],
        listed: &[ListedRoute],
        links: &[(u32, bool)],
        reports: &mut Vec<Report>,
    ) -> Wanted {
        let [all, ..] = everything(family);
        let unreachable = TableRoute { table: self.unreachable_table(), device: None, ..self.by_tunnel(all) };
        let by_tunnel = everything(family).into_iter().map(|all| self.by_tunnel(all));
        // The first goes first: with IPv6 off on the device, it is all there is.
        let into_tunnel: Vec<TableRoute> = std::iter::once(unreachable).chain(by_tunnel).collect();
        let system = SystemRoutes::new(listed, self.device, links);
        let mut others: Vec<TableRoute> = Vec::new();
        for route in settings.routes.iter().filter(|route| IpFamily::of(route.destination.addr()) == family) {
            let destination = route.destination.trunc();
            let found = match route.via {
                RouteVia::Tunnel => Some(self.by_tunnel(destination)),
                RouteVia::Gateway(gateway) if in_tunnel(settings, gateway) => {
                    Some(self.by_tunnel(destination))
                }
                RouteVia::Gateway(gateway) => system.by_gateway(destination, gateway),
                RouteVia::SystemGateway => system.by_default(destination),
            };
            match found {
                Some(route) => others.push(TableRoute { table: self.table(), ..route }),
                None => reports.push(no_way(destination)),
            }
        }
        let redirect = settings.redirect.unwrap_or_default();
        if redirect.bypass_dns {
            let servers = name_servers.iter().filter(|server| IpFamily::of(**server) == family);
            others.extend(
                servers.filter(|server| !server.is_loopback()).filter_map(|server| system.as_before(*server)),
            );
        }
        match redirect.block_local {
            true => others.extend(system.gateway()),
            false => others.extend(system.local_networks()),
        }
        let mut kept: Vec<TableRoute> = Vec::new();
        for route in others {
            let taken = |known: &TableRoute| known.destination == route.destination;
            if !kept.iter().any(taken) && !into_tunnel.iter().any(taken) {
                kept.push(TableRoute { table: self.table(), ..route });
            }
        }
        Wanted { into_tunnel, others: kept }
    }

    fn by_tunnel(&self, destination: IpNet) -> TableRoute {
        TableRoute {
            table: self.table(),
            destination,
            device: Some(self.device),
            gateway: None,
            source: None,
        }
    }

    /// A server's answers have no mark, so the strict filter would drop them: by the rules, the way to the server is
    /// the tunnel. (The firewall could mark them instead, which takes connection tracking: [`super::guard`].)
    fn loosen_filters(&mut self, netlink: &mut Netlink, settings: &TunnelSettings) {
        let all = std::fs::read_to_string("/proc/sys/net/ipv4/conf/all/rp_filter");
        let all: u32 = all.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let Ok(listed) = netlink.all_routes(IpFamily::V4) else { return };
        let server = settings.server;
        let leads_out = |route: &&ListedRoute| {
            let TableRoute { table, destination, device, .. } = &route.route;
            // Where no server is named, there may be several, and each may be anywhere.
            let to_server = server.is_none_or(|server| destination.contains(&server));
            let outside = *table == MAIN && *device != Some(self.device);
            outside && (destination.prefix_len() == 0 || to_server)
        };
        let devices: Vec<u32> =
            listed.iter().filter(leads_out).filter_map(|route| route.route.device).collect();
        for device in devices {
            let Ok(own) = netlink.reverse_path_filter(device) else { continue };
            if own.max(all) == STRICT && netlink.set_reverse_path_filter(device, LOOSE).is_ok() {
                self.filters.entry(device).or_insert(own);
            }
        }
    }
}

/// Destinations that together are all: twice, so that one deleted route leaves no gap.
fn everything(family: IpFamily) -> [IpNet; 3] {
    match family {
        IpFamily::V4 => {
            let half = |bits: u32| IpNet::V4(Ipv4Net::new_assert(bits.into(), 1));
            [IpNet::V4(Ipv4Net::default()), half(0), half(1 << 31)]
        }
        IpFamily::V6 => {
            let half = |bits: u128| IpNet::V6(Ipv6Net::new_assert(bits.into(), 1));
            [IpNet::V6(Ipv6Net::default()), half(0), half(1 << 127)]
        }
    }
}

fn rules((family, mark): (IpFamily, u32), first: u32, table: u32, treatment: Treatment) -> Vec<Rule> {
    let rule =
        |offset: u32, target| Rule { family, priority: first + offset, except_mark: Some(mark), target };
    let unreachable = rule(PRIORITIES - 1, RuleTarget::Unreachable(table));
    match treatment {
        Treatment::Block => vec![unreachable],
        Treatment::Redirect => vec![
            rule(1, RuleTarget::Table(table)),
            rule(2, RuleTarget::Table(table + TABLES)),
            rule(3, RuleTarget::TableWithoutDefault(MAIN)),
            unreachable,
        ],
    }
}

/// Whether a table is the first or the second of the tunnel whose first one is `first`.
fn is_of(table: u32, first: u32) -> bool {
    table == first || table == first + TABLES
}

/// The first of as many consecutive priorities that are not in use, below those of other tunnels of ours.
fn free_priority(taken: &[u32]) -> Option<u32> {
    let mut first = LAST_PRIORITY - PRIORITIES;
    while taken.iter().any(|taken| (first..first + PRIORITIES).contains(taken)) {
        first = first.checked_sub(PRIORITIES).filter(|first| *first > 0)?;
    }
    Some(first)
}

pub(super) fn shown(rule: &Rule) -> String {
    let target = match rule.target {
        RuleTarget::Table(table) => format!("lookup {table}"),
        RuleTarget::TableWithoutDefault(_) => "lookup main suppress_prefixlength 0".to_owned(),
        RuleTarget::Unreachable(_) => "unreachable".to_owned(),
    };
    let subject = rule.except_mark.map(|mark| format!("not fwmark {mark:#x} ")).unwrap_or_default();
    format!("\"{subject}{target}\" ({:?})", rule.family)
}

fn lacks_family(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP))
}

/// IPv6 is switched off, in the kernel or on the device.
fn is_off(error: &io::Error) -> bool {
    lacks_family(error) || matches!(error.raw_os_error(), Some(libc::EACCES))
}

pub(super) fn cannot(what: &str, error: &io::Error) -> String {
    let way_out = match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP) => {
            ": this kernel has no policy routing (CONFIG_IP_MULTIPLE_TABLES), and without it traffic would leave beside \
             the tunnel; use another kernel, or take `redirect-gateway` out by pull-filter"
        }
        Some(libc::EPERM) => ": run as root, or grant CAP_NET_ADMIN",
        Some(libc::ENODEV | libc::ENETDOWN) => {
            ": the tunnel's device is down or was deleted by another program"
        }
        _ => "",
    };
    format!("cannot {what}: {error}{way_out}")
}

fn no_way(destination: IpNet) -> Report {
    let text = format!(
        "cannot route {destination} beside the tunnel: the system has no default route of that address family, or the \
         gateway that is named is on no link; remove that route or correct it"
    );
    Report { severity: Severity::Error, path: None, text }
}

#[cfg(test)]
mod tests;
