//! Rules and firewall tables of a tunnel whose process was killed. Its routes went with its device.

use std::collections::BTreeSet;

use super::PREFIX;
use crate::mark::MARK;
use crate::netlink::{IpFamily, Netlink, Rule, RuleTarget};
use crate::nft::nft;

/// A table of nftables that a tunnel made.
struct FirewallTable {
    /// With its family.
    name: String,
    device: u32,
    mark: u32,
}

/// Removes what tunnels left behind whose process was killed. Where no rule of ours is, nothing is looked for.
pub(in crate::routing) fn recover(netlink: &mut Netlink) {
    let rules = IpFamily::BOTH.map(|family| netlink.rules(family).unwrap_or_default());
    let rules: Vec<Rule> = rules.into_iter().flatten().filter_map(|listed| listed.own).collect();
    let marks: BTreeSet<u32> = rules.iter().filter_map(mark_of).collect();
    if marks.is_empty() {
        return;
    }
    let Ok(links) = netlink.links() else { return };
    let listing = nft(&["list", "tables"], "").unwrap_or_default();
    let tables: Vec<FirewallTable> = listing.lines().filter_map(firewall_table).collect();
    let lives = |table: &&FirewallTable| links.iter().any(|(index, _)| *index == table.device);
    let live: BTreeSet<u32> = tables.iter().filter(lives).map(|table| table.mark).collect();
    // A firewall that was loaded anew has no table of a tunnel that runs. Its route is still there.
    let mut routed = BTreeSet::new();
    for family in IpFamily::BOTH {
        let listed = netlink.all_routes(family).unwrap_or_default();
        routed.extend(listed.into_iter().map(|listed| listed.route.table));
    }
    for mark in marks.iter().filter(|mark| !live.contains(mark) && !routed.contains(mark)) {
        remove_rules(netlink, &rules, *mark);
    }
    for table in tables.iter().filter(|table| !lives(table)) {
        let _ = nft(&["-f", "-"], &format!("delete table {}\n", table.name));
    }
}

/// The mark, which is the number of the table too, if this is the first rule of a tunnel.
fn mark_of(rule: &Rule) -> Option<u32> {
    let mark = rule.except_mark.filter(|mark| *mark != MARK)?;
    (rule.target == RuleTarget::Table(mark)).then_some(mark)
}

/// The rule for the main table does not show whose it is: it stands before the other.
fn remove_rules(netlink: &mut Netlink, rules: &[Rule], mark: u32) {
    for first in rules.iter().filter(|rule| mark_of(rule) == Some(mark)) {
        let is_main = |rule: &&Rule| {
            let is_before = rule.family == first.family && rule.priority + 1 == first.priority;
            is_before
                && rule.except_mark.is_none()
                && matches!(rule.target, RuleTarget::TableWithoutDefault(_))
        };
        for rule in rules.iter().filter(is_main).chain([first]) {
            let _ = netlink.remove_rule(rule);
        }
    }
}

/// What a line of `nft list tables` says, if it is of ours.
fn firewall_table(line: &str) -> Option<FirewallTable> {
    let name = line.trim().strip_prefix("table ")?;
    let (_, own) = name.split_once(' ')?;
    let (device, mark) = own.strip_prefix(PREFIX)?.split_once('_')?;
    Some(FirewallTable { name: name.to_owned(), device: device.parse().ok()?, mark: mark.parse().ok()? })
}
