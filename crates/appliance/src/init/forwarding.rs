//! Forwarding of packets between devices, as the settings say.

use std::fs;
use std::io;

use adit_system::nftables::{Action, Chain, Family, Hook, Match, Policy, Table, Transaction};

use super::log::Log;
use crate::settings::{Device, Settings};

/// The name of the table and of its chains.
const TABLE: &str = "appliance";
const FILTERED: &str = "forward";
const TRANSLATED: &str = "translate";
/// The priority of the translation of sources (linux/netfilter_ipv4.h `NF_IP_PRI_NAT_SRC`).
const SOURCE: i32 = 100;
/// Parameters of the kernel that have packets forwarded.
const FORWARDED: [&str; 2] = ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"];

/// Packets that come in by a device may leave by another, translated to that device's address.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Passage {
    /// The device by which the packets come in.
    from: String,
    /// The device by which they leave.
    to: String,
}

/// Begins to forward. Without the rules nothing is forwarded.
pub(super) fn begin(settings: &Settings, log: &Log) {
    let passages = passages(settings);
    if passages.is_empty() {
        return;
    }
    let begun =
        set_rules(&passages).and_then(|()| FORWARDED.iter().try_for_each(|path| fs::write(path, "1")));
    if let Err(error) = begun {
        log.say(format_args!("nothing is forwarded: {error}"));
    }
}

fn passages(settings: &Settings) -> Vec<Passage> {
    let of = |(from, device): (&String, &Device)| {
        let passage = |to: &String| Passage { from: from.clone(), to: to.clone() };
        device.forward.iter().map(passage).collect::<Vec<_>>()
    };
    settings.devices.iter().flat_map(of).collect()
}

/// Puts the rules in force, all or none. Whatever no passage takes is not forwarded.
fn set_rules(passages: &[Passage]) -> io::Result<()> {
    let table = Table { family: Family::Inet, name: TABLE.to_owned() };
    let mut transaction = Transaction::default();
    transaction.add_table(&table);
    let filtered =
        Chain { name: FILTERED, translates: false, hook: Hook::Forward, priority: 0, policy: Policy::Drop };
    let translated = Chain {
        name: TRANSLATED,
        translates: true,
        hook: Hook::Postrouting,
        priority: SOURCE,
        policy: Policy::Accept,
    };
    [filtered, translated].iter().for_each(|chain| transaction.add_chain(&table, chain));
    for Passage { from, to } in passages {
        let there = [Match::InName(from), Match::OutName(to)];
        let back = [Match::InName(to), Match::OutName(from), Match::Answer];
        transaction.add_rule(&table, FILTERED, &there, Action::Accept);
        transaction.add_rule(&table, FILTERED, &back, Action::Accept);
        transaction.add_rule(&table, TRANSLATED, &there, Action::Masquerade);
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use adit_testbed::{Namespace, can_run, program};

    use super::*;

    /// The kernel takes the messages, and `nft` shows what they mean.
    #[test]
    fn the_rules_let_one_device_out_by_another_and_only_answers_back() {
        if !can_run("the_rules_let_one_device_out_by_another_and_only_answers_back", &["nft"]) {
            return;
        }
        let namespace = Namespace::create("passage").unwrap();
        let passages = [Passage { from: "eth1".to_owned(), to: "wg0".to_owned() }];
        namespace.enter(|| set_rules(&passages)).unwrap().unwrap();
        let mut list = program("nft").unwrap();
        list.args(["list", "ruleset"]);
        let text = namespace.run(list).unwrap();
        for line in [
            "type filter hook forward priority filter; policy drop;",
            "iifname \"eth1\" oifname \"wg0\" accept",
            "iifname \"wg0\" oifname \"eth1\" ct state established,related accept",
            "type nat hook postrouting priority srcnat; policy accept;",
            "iifname \"eth1\" oifname \"wg0\" masquerade",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
