//! Rules and tables of a tunnel whose process was killed.

use super::{FIRST_TABLE, TABLES, UNREACHABLE_TABLE, is_of};
use crate::netlink::{IpFamily, Netlink, Rule, RuleTarget};

/// Removes what tunnels left behind whose process was killed.
pub(crate) fn recover(netlink: &mut Netlink) {
    let Ok(links) = netlink.links() else { return };
    let there = |table: u32| links.iter().any(|(index, _)| FIRST_TABLE + index % TABLES == table);
    for family in IpFamily::BOTH {
        let Ok(listed) = netlink.rules(family) else { continue };
        let mut tables: Vec<u32> =
            listed.iter().filter_map(|listed| listed.own).filter_map(|rule| first_table(&rule)).collect();
        tables.sort_unstable();
        tables.dedup();
        for table in tables.into_iter().filter(|table| !there(*table)) {
            remove_table(netlink, family, table);
        }
    }
}

/// The first table of the tunnel whose rule this is, if the rule shows it.
fn first_table(rule: &Rule) -> Option<u32> {
    match rule.target {
        RuleTarget::Table(table) | RuleTarget::Unreachable(table) if table >= UNREACHABLE_TABLE => {
            Some(table - TABLES)
        }
        RuleTarget::Table(table) | RuleTarget::Unreachable(table) if table >= FIRST_TABLE => Some(table),
        _ => None,
    }
}

/// Removes the rules of the tunnel whose first table this is, and its routes.
pub(super) fn remove_table(netlink: &mut Netlink, family: IpFamily, table: u32) {
    // What fails is gone already, or cannot be helped.
    let rules: Vec<Rule> =
        netlink.rules(family).unwrap_or_default().into_iter().filter_map(|listed| listed.own).collect();
    let of_table = |rule: &&Rule| first_table(rule) == Some(table);
    // Its rules have one mark.
    let mark = rules.iter().find(of_table).and_then(|rule| rule.except_mark);
    // The rule for the main table does not show whose it is: it stands between the others.
    let before = |priority: u32| rules.iter().any(|rule| of_table(&rule) && rule.priority + 1 == priority);
    let after = |priority: u32| rules.iter().any(|rule| of_table(&rule) && rule.priority == priority + 1);
    let of_tunnel = |rule: &&Rule| {
        let main = mark.is_some()
            && rule.except_mark == mark
            && matches!(rule.target, RuleTarget::TableWithoutDefault(_));
        of_table(rule) || (main && (before(rule.priority) || after(rule.priority)))
    };
    for rule in rules.iter().filter(of_tunnel) {
        let _ = netlink.remove_rule(rule);
    }
    for listed in netlink.all_routes(family).unwrap_or_default() {
        if is_of(listed.route.table, table) {
            let _ = netlink.remove_table_route(&listed.route);
        }
    }
}
