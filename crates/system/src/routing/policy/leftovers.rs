//! Rules and tables of a tunnel whose process was killed.

use super::{FIRST_TABLE, PRIORITIES, TABLES, UNREACHABLE_TABLE, is_of, owner_rules};
use crate::netlink::{IpFamily, Netlink, Rule, RuleTarget};

/// Removes the rules that tunnels left behind whose process was killed.
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

/// The first priority of the tunnel whose rule this is, if the rule shows it.
fn first_priority(rule: &Rule) -> Option<u32> {
    let offset = match rule.target {
        RuleTarget::Unreachable(_) => PRIORITIES - 1,
        RuleTarget::Table(table) if table >= UNREACHABLE_TABLE => 2,
        RuleTarget::Table(_) => 1,
        RuleTarget::TableWithoutDefault(_) => return None,
    };
    rule.priority.checked_sub(offset)
}

/// Removes the rules of the tunnel whose first table this is, and its routes.
pub(super) fn remove_table(netlink: &mut Netlink, family: IpFamily, table: u32) {
    // A rule whose removal fails is gone already, or cannot be removed.
    let listed = netlink.rules(family).unwrap_or_default();
    let rules: Vec<Rule> = listed.iter().filter_map(|listed| listed.own).collect();
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
    let first = rules.iter().filter(of_table).find_map(first_priority);
    for rule in rules.iter().filter(of_tunnel) {
        let _ = netlink.remove_rule(rule);
    }
    if let Some(first) = first {
        for jump in owner_rules::jumps(&listed, first) {
            let _ = netlink.remove_jump(jump, first);
        }
    }
    for listed in netlink.all_routes(family).unwrap_or_default() {
        if is_of(listed.route.table, table) {
            let _ = netlink.remove_table_route(&listed.route);
        }
    }
}
