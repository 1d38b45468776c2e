//! The rules: for nftables, and as text for `iptables-restore`.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::netlink::IpFamily;
use crate::nftables::{Action, Chain, Family, Hook, Match, Policy, Table, Transaction};

/// The priorities `raw` and `mangle` (linux/netfilter_ipv4.h).
const RAW: i32 = -300;
const MANGLE: i32 = -150;
/// The number of UDP.
const UDP: u8 = 17;

/// The name of a tunnel's table of nftables, and the comment of its rules of iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// The index of the tunnel's device.
    pub(super) device: u32,
    /// The mark that answers get; 0: none.
    pub(super) mark: u32,
}

/// The beginning of the names.
const PREFIX: &str = "adit_mark_";

impl Name {
    /// The name in that word, if it is one.
    pub(super) fn parse(word: &str) -> Option<Self> {
        let (device, mark) = word.strip_prefix(PREFIX)?.split_once('_')?;
        Some(Name { device: device.parse().ok()?, mark: mark.parse().ok()? })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PREFIX}{}_{}", self.device, self.mark)
    }
}

/// The table of a tunnel's rules of a family.
pub(super) fn table(family: IpFamily, name: Name) -> Table {
    let family = match family {
        IpFamily::V4 => Family::Ip,
        IpFamily::V6 => Family::Ip6,
    };
    Table { family, name: name.to_string() }
}

/// Puts a tunnel's table, which must not be there, into a transaction.
pub(super) fn add_table(transaction: &mut Transaction, family: IpFamily, name: Name, addresses: &[IpAddr]) {
    let (table, Name { device, mark }) = (table(family, name), name);
    let filter =
        |name, hook, priority| Chain { name, translates: false, hook, priority, policy: Policy::Accept };
    transaction.add_table(&table);
    transaction.add_chain(&table, &filter("preraw", Hook::Prerouting, RAW));
    for address in addresses.iter().filter(|address| IpFamily::of(**address) == family) {
        let matches =
            [Match::InNot(device), Match::Destination(IpNet::from(*address)), Match::SourceNotLocal];
        transaction.add_rule(&table, "preraw", &matches, Action::Drop);
    }
    if mark != 0 {
        let is_udp = Match::Protocol(UDP);
        transaction.add_chain(&table, &filter("premangle", Hook::Prerouting, MANGLE));
        transaction.add_rule(&table, "premangle", &[is_udp], Action::MarkPacket);
        transaction.add_chain(&table, &filter("postmangle", Hook::Postrouting, MANGLE));
        transaction.add_rule(&table, "postmangle", &[is_udp, Match::Mark(mark)], Action::MarkConnection);
    }
}

/// A tunnel's rules, as `iptables-restore --noflush` takes them.
pub(super) fn iptables_rules(family: IpFamily, name: Name, interface: &str, addresses: &[IpAddr]) -> String {
    let ours = format!("-m comment --comment {name}");
    let mut rules = "*raw\n".to_owned();
    for address in addresses.iter().filter(|address| IpFamily::of(**address) == family) {
        let _ = writeln!(
            rules,
            "-I PREROUTING ! -i {interface} -d {address} -m addrtype ! --src-type LOCAL {ours} -j DROP"
        );
    }
    rules.push_str("COMMIT\n");
    if name.mark != 0 {
        let mark = name.mark;
        let _ = write!(
            rules,
            "*mangle
-I PREROUTING -p udp {ours} -j CONNMARK --restore-mark
-I POSTROUTING -p udp -m mark --mark {mark:#x} {ours} -j CONNMARK --save-mark
COMMIT
"
        );
    }
    rules
}
