//! Rules that the owner of the machine set for some packets, such as those from one of its addresses: they hold beside a tunnel
//! that takes all traffic.
//!
//! The kernel puts a rule without a priority before all that are there. So the owner's rule comes before a tunnel's
//! rules if it was set later, and behind them if it was set earlier. To those that come behind, the tunnel has jumps
//! before its own rules; and packets that the owner's rules then leave undecided find the tunnel's rules once more,
//! before the main table. (A copy of a rule would be the one that `ip rule del` finds first, in place of the owner's.)
//! A rule that is for all packets, or for all but some, gets no jump: it would let all traffic out.

use std::io;

use super::{MAIN_PRIORITY, Treatment};
use crate::netlink::{Jump, ListedRule, Netlink, Rule, RuleTarget};

/// The priority of the tunnel's rules for packets that the owner's rules leave undecided. Rules of one priority are
/// asked in the order in which they were added.
const UNDECIDED: u32 = MAIN_PRIORITY - 1;

/// Makes the jumps at the priority `first`, the first of a tunnel's, as the rules `listed` of a family require. `own`
/// are the tunnel's rules.
pub(super) fn enforce(
    netlink: &mut Netlink,
    listed: &[ListedRule],
    (first, own): (u32, &[Rule]),
    treatment: Treatment,
) -> io::Result<()> {
    let wanted = match treatment {
        Treatment::Redirect => behind(listed, first),
        // None of the owner's rules lets out blocked packets.
        Treatment::Block => Vec::new(),
    };
    let decides = |rule: &&Rule| !matches!(rule.target, RuleTarget::TableWithoutDefault(_));
    for rule in own.iter().filter(decides) {
        let rule = Rule { priority: UNDECIDED, ..*rule };
        let is_there = listed.iter().any(|listed| listed.own == Some(rule));
        match (wanted.is_empty(), is_there) {
            (false, false) => netlink.add_rule(&rule)?,
            (true, true) => netlink.remove_rule(&rule)?,
            _ => {}
        }
    }
    let there = jumps(listed, first);
    if there == wanted {
        return Ok(());
    }
    there.iter().try_for_each(|jump| netlink.remove_jump(jump, first))?;
    wanted.iter().try_for_each(|jump| netlink.add_jump(jump, first))
}

/// The jumps at that priority.
pub(super) fn jumps(listed: &[ListedRule], priority: u32) -> Vec<&Jump> {
    let is_own = |rule: &&ListedRule| rule.is_adits && rule.priority == priority;
    listed.iter().filter(is_own).filter_map(|rule| rule.jump.as_ref()).collect()
}

/// Jumps to the owner's rules that come behind a tunnel's and before the main table, in their order.
fn behind(listed: &[ListedRule], first: u32) -> Vec<&Jump> {
    let is_behind = |rule: &&ListedRule| !rule.is_adits && (first..MAIN_PRIORITY).contains(&rule.priority);
    let mut all: Vec<&ListedRule> = listed.iter().filter(is_behind).collect();
    all.sort_by_key(|rule| rule.priority);
    let mut wanted: Vec<&Jump> = Vec::new();
    for jump in all.into_iter().filter_map(|rule| rule.jump.as_ref()) {
        if !wanted.contains(&jump) {
            wanted.push(jump);
        }
    }
    wanted
}
