//! Addresses and default routes that two tunnels cannot have both.

use adit_core::IpNet;

use super::Party;
use crate::facts::Stated;

/// Compares the addresses and the default routes of two tunnels.
pub(super) fn compare(one: Party<'_>, other: Party<'_>, problems: &mut Vec<String>) {
    let mut problem = |ours: Stated<String>, theirs: Stated<String>| {
        let (here, there) = (one.place(ours.directives), other.place(theirs.directives));
        problems.push(format!("{here}: {} contradicts {} at {there}", ours.value, theirs.value));
    };
    for ours in &one.facts.networks {
        let overlapping = other.facts.networks.iter().find(|theirs| overlap(ours.value, theirs.value));
        if let Some(theirs) = overlapping {
            let text = format!("the address {}", ours.value);
            problem(
                Stated::by(ours.directives, text),
                Stated::by(theirs.directives, theirs.value.to_string()),
            );
        }
    }
    for ours in &one.facts.default_routes {
        for theirs in other.facts.default_routes.iter().filter(|theirs| theirs.value == ours.value) {
            let text = format!("a default route for {}", ours.value);
            problem(Stated::by(ours.directives, text), Stated::by(theirs.directives, "that".to_owned()));
        }
    }
}

/// Two networks that have addresses in common. A single address may be one of another tunnel's network, but not ours there.
fn overlap(one: IpNet, other: IpNet) -> bool {
    let is_single = |net: IpNet| net.prefix_len() == net.max_prefix_len();
    if is_single(one) || is_single(other) {
        return one.addr() == other.addr();
    }
    let (one, other) = (one.trunc(), other.trunc());
    one.contains(&other) || other.contains(&one)
}
