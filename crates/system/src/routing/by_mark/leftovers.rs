//! Rules of a tunnel whose process was killed. Its routes went with its device.

use std::collections::BTreeSet;

use super::super::guard::Found;
use crate::mark::MARK;
use crate::netlink::{IpFamily, Netlink, Rule, RuleTarget};

/// Removes the rules of tunnels whose process was killed. `firewall` says whose rules of the firewall there are.
pub(in crate::routing) fn recover(netlink: &mut Netlink, firewall: &Found) {
    let rules = IpFamily::BOTH.map(|family| netlink.rules(family).unwrap_or_default());
    let rules: Vec<Rule> = rules.into_iter().flatten().filter_map(|listed| listed.own).collect();
    let marks: BTreeSet<u32> = rules.iter().filter_map(mark_of).collect();
    if marks.is_empty() {
        return;
    }
    let Ok(links) = netlink.links() else { return };
    let lives = |device: u32| links.iter().any(|(index, _)| *index == device);
    let live = firewall.marks(lives);
    // A firewall that was loaded anew has no table of a tunnel that runs. Its route is still there.
    let mut routed = BTreeSet::new();
    for family in IpFamily::BOTH {
        let listed = netlink.all_routes(family).unwrap_or_default();
        routed.extend(listed.into_iter().map(|listed| listed.route.table));
    }
    for mark in marks.iter().filter(|mark| !live.contains(mark) && !routed.contains(mark)) {
        remove_rules(netlink, &rules, *mark);
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
