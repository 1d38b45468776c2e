//! Routes in tables other than main, and policy routing for a tunnel whose own datagrams carry a firewall mark that is
//! the tunnel's alone.
//!
//! The rules are those that other programs set for such tunnels, so that an administrator finds familiar ones.
//! [`super::policy`] protects from more, but the destinations that the main table leads past the tunnel with it, go by
//! the tunnel there. For each family with a default route into the tunnel:
//!
//! 1. `not fwmark MARK lookup TABLE`, in which the default route is the only one;
//! 2. before it, `lookup main suppress_prefixlength 0`: more specific routes of the main table win;
//! 3. the firewall's rules of [`super::guard`], with the mark.
//!
//! The firewall's rules are the first to come and the last to go.

mod leftovers;

use std::collections::BTreeSet;
use std::io;

use adit_core::{Report, Route, RouteTable, RouteVia, TunnelSettings};

pub(super) use self::leftovers::recover;
use super::guard::{Guard, Wanted};
use super::policy::{MAIN_PRIORITY, cannot, shown};
use super::{failure, in_tunnel, taken};
use crate::netlink::{IpFamily, ListedRoute, MAIN, Netlink, Rule, RuleTarget, TableRoute};

/// The tables that the system has rules for: `default`, `main` and `local` (linux/rtnetlink.h `rt_class_t`).
const SYSTEM_TABLES: [u32; 3] = [253, 254, 255];
/// By it a mark that the firewall sets counts when the kernel looks for the way back to a source.
const SOURCE_VALID_MARK: &str = "/proc/sys/net/ipv4/conf/all/src_valid_mark";

/// The table that `settings` want for a route, if it is not main.
pub(super) fn table(settings: &TunnelSettings, route: &Route) -> Option<u32> {
    let inward = match route.via {
        RouteVia::Tunnel => true,
        RouteVia::Gateway(gateway) => in_tunnel(settings, gateway),
        RouteVia::SystemGateway => false,
    };
    match settings.table {
        RouteTable::Number(table) if inward => Some(table),
        RouteTable::ByMark(table) if inward && route.destination.prefix_len() == 0 => Some(table),
        RouteTable::Main | RouteTable::Number(_) | RouteTable::ByMark(_) => None,
    }
}

/// The first number from `first` on whose table is empty.
pub(super) fn free_table(netlink: &mut Netlink, first: u32) -> io::Result<u32> {
    let mut taken = BTreeSet::new();
    for family in IpFamily::BOTH {
        let listed = netlink.all_routes(family);
        let listed = if family == IpFamily::V6 { listed.unwrap_or_default() } else { listed? };
        taken.extend(listed.into_iter().map(|listed| listed.route.table));
    }
    let free = (first..=u32::MAX).find(|table| !taken.contains(table));
    free.ok_or_else(|| io::Error::other("all routing tables are in use"))
}

/// The routes in other tables than main, and the rules, of one tunnel.
#[derive(Debug)]
pub(super) struct ByMark {
    device: u32,
    name: String,
    routes: Vec<TableRoute>,
    rules: Vec<Rule>,
    guard: Guard,
    /// `src_valid_mark` was off.
    turned_on: bool,
}

impl ByMark {
    /// The routing of the TUN device of that index and name.
    pub(super) fn new(device: u32, name: &str) -> Self {
        ByMark {
            device,
            name: name.to_owned(),
            routes: Vec::new(),
            rules: Vec::new(),
            guard: Guard::new(device, name),
            turned_on: false,
        }
    }

    /// Whether there are rules of this tunnel.
    pub(super) fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// The mark of the tunnel's own datagrams, if rules go by it.
    pub(super) fn mark(&self) -> Option<u32> {
        self.rules.iter().find_map(|rule| rule.except_mark)
    }

    /// Whether there is anything of this tunnel.
    pub(super) fn is_active(&self) -> bool {
        self.has_rules() || !self.routes.is_empty()
    }

    /// Makes routes, rules and firewall as `settings` require; restores the routes and rules that another program
    /// deleted.
    ///
    /// # Errors
    /// The first thing that the tunnel cannot be without, in words.
    pub(super) fn enforce(
        &mut self,
        netlink: &mut Netlink,
        settings: &TunnelSettings,
        reports: &mut Vec<Report>,
    ) -> Result<(), String> {
        let routes = self.wanted(settings);
        if routes.is_empty() && !self.is_active() {
            return Ok(());
        }
        let (families, mark): (BTreeSet<IpFamily>, u32) = match settings.table {
            RouteTable::ByMark(mark) => {
                (routes.iter().map(|route| IpFamily::of(route.destination.addr())).collect(), mark)
            }
            RouteTable::Main | RouteTable::Number(_) => (BTreeSet::new(), 0),
        };
        if !families.is_empty() && (mark == 0 || SYSTEM_TABLES.contains(&mark)) {
            return Err(format!(
                "{mark} cannot be both a firewall mark and a routing table: choose another number"
            ));
        }
        self.remove_rules(netlink, &families, mark);
        let addresses = settings.addresses.iter().map(|address| address.addr()).collect();
        let guard = self.guard.set(Wanted { families: families.clone(), mark, addresses });
        guard.map_err(|error| format!("cannot set the firewall's rules of {}: {error}", self.name))?;
        if families.contains(&IpFamily::V4) && !self.turned_on {
            self.turn_on(reports);
        }
        self.set_routes(netlink, routes, reports)?;
        families.into_iter().try_for_each(|family| self.set_rules(netlink, family, mark))
    }

    /// Removes the rules of other families, and all if they are for another mark.
    fn remove_rules(&mut self, netlink: &mut Netlink, families: &BTreeSet<IpFamily>, mark: u32) {
        let rules = std::mem::take(&mut self.rules);
        let same_mark = rules.iter().filter_map(|rule| rule.except_mark).all(|excepted| excepted == mark);
        let (kept, stale): (Vec<Rule>, Vec<Rule>) =
            rules.into_iter().partition(|rule| same_mark && families.contains(&rule.family));
        self.rules = kept;
        for rule in stale {
            let _ = netlink.remove_rule(&rule);
        }
    }

    fn wanted(&self, settings: &TunnelSettings) -> Vec<TableRoute> {
        let wanted = |route: &Route| {
            let (device, destination) = (Some(self.device), route.destination.trunc());
            let table = table(settings, route)?;
            Some(TableRoute { table, destination, device, gateway: None, source: None })
        };
        let mut routes: Vec<TableRoute> = Vec::new();
        for route in settings.routes.iter().filter_map(wanted) {
            if !routes.contains(&route) {
                routes.push(route);
            }
        }
        routes
    }

    fn set_routes(
        &mut self,
        netlink: &mut Netlink,
        wanted: Vec<TableRoute>,
        reports: &mut Vec<Report>,
    ) -> Result<(), String> {
        let mut there: Vec<ListedRoute> = Vec::new();
        for family in IpFamily::BOTH {
            if wanted.iter().any(|route| IpFamily::of(route.destination.addr()) == family) {
                there.extend(
                    netlink.all_routes(family).map_err(|error| cannot("ask for the routes", &error))?,
                );
            }
        }
        let before = std::mem::take(&mut self.routes);
        before
            .iter()
            .filter(|old| !wanted.contains(old))
            .for_each(|old| drop(netlink.remove_table_route(old)));
        let mut failed = None;
        for route in wanted {
            let in_place = |listed: &&ListedRoute| {
                (listed.route.table, listed.route.destination) == (route.table, route.destination)
            };
            match there.iter().find(in_place) {
                Some(listed) if listed.route.device == route.device => {}
                Some(_) => {
                    reports.push(taken(route.destination));
                    continue;
                }
                None => match netlink.set_table_route(&route) {
                    Ok(()) => {}
                    Err(error) => {
                        let what = format!("add the route to {} by {}", route.destination, self.name);
                        reports.push(failure(&what, &error));
                        if route.destination.prefix_len() == 0 {
                            failed.get_or_insert_with(|| cannot(&what, &error));
                        }
                        continue;
                    }
                },
            }
            self.routes.push(route);
        }
        failed.map_or(Ok(()), Err)
    }

    /// Puts the rules where the kernel puts those without a priority: before all but the one for local addresses.
    fn set_rules(&mut self, netlink: &mut Netlink, family: IpFamily, mark: u32) -> Result<(), String> {
        let listed =
            netlink.rules(family).map_err(|error| cannot("ask for the rules of policy routing", &error))?;
        if !self.rules.iter().any(|rule| rule.family == family) {
            let first = listed.iter().map(|rule| rule.priority).filter(|priority| *priority > 0).min();
            let priority = first.unwrap_or(MAIN_PRIORITY).checked_sub(1).filter(|priority| *priority > 1);
            let priority = priority.ok_or("no priority is free for rules of policy routing")?;
            let by_table =
                Rule { family, priority, except_mark: Some(mark), target: RuleTarget::Table(mark) };
            let main = RuleTarget::TableWithoutDefault(MAIN);
            self.rules.push(by_table);
            self.rules.push(Rule { family, priority: priority - 1, except_mark: None, target: main });
        }
        let is_there = |rule: &&Rule| listed.iter().any(|listed| listed.own == Some(**rule));
        for rule in self.rules.iter().filter(|rule| rule.family == family && !is_there(rule)) {
            let what = || format!("add the rule {}", shown(rule));
            netlink.add_rule(rule).map_err(|error| cannot(&what(), &error))?;
        }
        Ok(())
    }

    fn turn_on(&mut self, reports: &mut Vec<Report>) {
        let is_on = std::fs::read_to_string(SOURCE_VALID_MARK).is_ok_and(|value| value.trim() != "0");
        if is_on {
            return;
        }
        match std::fs::write(SOURCE_VALID_MARK, "1") {
            Ok(()) => self.turned_on = true,
            Err(error) => reports.push(failure("set net.ipv4.conf.all.src_valid_mark", &error)),
        }
    }

    /// Removes everything. The rules come first, so that nothing goes by half of it.
    pub(super) fn undo(&mut self, netlink: &mut Netlink) {
        for rule in std::mem::take(&mut self.rules) {
            let _ = netlink.remove_rule(&rule);
        }
        for route in std::mem::take(&mut self.routes) {
            let _ = netlink.remove_table_route(&route);
        }
        self.guard.undo();
        if std::mem::take(&mut self.turned_on) {
            // Another tunnel may need it by now.
            let rules = netlink.rules(IpFamily::V4).unwrap_or_default();
            if !rules.iter().any(|rule| rule.excepts_mark) {
                let _ = std::fs::write(SOURCE_VALID_MARK, "0");
            }
        }
    }
}

#[cfg(test)]
mod tests;
