//! The rules as text: for `nft`, and for `iptables-restore`.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use crate::netlink::IpFamily;

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

/// The table in a line of `nft list tables`, if it is a tunnel's: as text with its family, and by its name.
pub(super) fn table_of_ours(line: &str) -> Option<(String, Name)> {
    let table = line.trim().strip_prefix("table ")?;
    let (_, name) = table.split_once(' ')?;
    Some((table.to_owned(), Name::parse(name)?))
}

/// Removes a tunnel's table whether it is there or not.
pub(super) fn nft_removal(family: IpFamily, name: Name) -> String {
    let protocol = protocol(family);
    format!("table {protocol} {name}\ndelete table {protocol} {name}\n")
}

/// A tunnel's table.
pub(super) fn nft_table(family: IpFamily, name: Name, addresses: &[IpAddr]) -> String {
    let (protocol, Name { device, mark }) = (protocol(family), name);
    let mut drops = String::new();
    for address in addresses.iter().filter(|address| IpFamily::of(**address) == family) {
        let _ =
            writeln!(drops, "    iif != {device} {protocol} daddr {address} fib saddr type != local drop");
    }
    let marks = match mark {
        0 => String::new(),
        mark => format!(
            "  chain premangle {{
    type filter hook prerouting priority -150; policy accept;
    meta l4proto udp meta mark set ct mark
  }}
  chain postmangle {{
    type filter hook postrouting priority -150; policy accept;
    meta l4proto udp meta mark {mark:#x} ct mark set meta mark
  }}
"
        ),
    };
    format!(
        "table {protocol} {name} {{
  chain preraw {{
    type filter hook prerouting priority -300; policy accept;
{drops}  }}
{marks}}}
"
    )
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

fn protocol(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "ip",
        IpFamily::V6 => "ip6",
    }
}
