//! Our table of nftables.

use std::fmt::Write as _;

use adit_core::IpNet;

use super::Forwarding;
use super::records::{Family, Record};

/// The beginning of the names of our tables.
pub(super) const PREFIX: &str = "adit_forward_";

/// The table's name.
pub(super) fn table(device: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    // Two devices whose names differ in other characters alone have two tables.
    let odd = device.chars().any(|c| !c.is_ascii_alphanumeric() && c != '_');
    let number = device.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    let tail = if odd { format!("_{number:x}") } else { String::new() };
    format!("{PREFIX}{}{tail}", device.chars().map(plain).collect::<String>())
}

/// The commands that make a tunnel's table, in place of an earlier table of that name.
pub(super) fn ruleset(forwarding: &Forwarding, records: &[Record]) -> String {
    let name = table(&forwarding.device);
    let mut text =
        format!("table inet {name}\ndelete table inet {name}\ntable inet {name} {{\n  chain records {{\n");
    for record in records {
        let _ = writeln!(text, "    return comment \"{record}\"");
    }
    text.push_str("  }\n  chain forward {\n    type filter hook forward priority filter; policy accept;\n");
    text.push_str(&separated(records));
    let device = &forwarding.device;
    let _ = writeln!(text, "    iifname \"{device}\" ct state established,related accept");
    for (family, networks, destinations) in forwarding.families() {
        for rule in accepted(family, device, &networks, &destinations) {
            let _ = writeln!(text, "    {rule} accept");
        }
    }
    let _ = writeln!(text, "    iifname \"{device}\" reject with icmpx admin-prohibited\n  }}");
    text.push_str("  chain postrouting {\n    type nat hook postrouting priority srcnat; policy accept;\n");
    for (family, networks, destinations) in forwarding.families() {
        for rule in translated(family, device, &networks, &destinations) {
            let _ = writeln!(text, "    {rule} masquerade");
        }
    }
    text.push_str("  }\n}\n");
    text
}

/// The commands that add records, and the rules that go with them, to the table of another tunnel.
pub(super) fn handed_over(other: &str, records: &[Record]) -> String {
    let mut text = String::new();
    for record in records {
        let _ = writeln!(text, "add rule inet {other} records return comment \"{record}\"");
    }
    for rule in separated(records).lines() {
        let _ = writeln!(text, "insert rule inet {other} forward {}", rule.trim());
    }
    text
}

/// The command that removes a table.
pub(super) fn removal(name: &str) -> String {
    format!("delete table inet {name}\n")
}

/// The rules that drop packets between devices that forwarded nothing to one another before. Packets that come and go by one
/// device pass, as they may be those of a bridge (`bridge-nf-call-iptables`).
fn separated(records: &[Record]) -> String {
    let mut text = String::new();
    for family in [Family::V4, Family::V6] {
        let of_family = |record: &Record| match record {
            Record::Separate(of, device) if *of == family => Some(format!("\"{device}\"")),
            _ => None,
        };
        let devices: Vec<String> = records.iter().filter_map(of_family).collect();
        for device in &devices {
            let others: Vec<&str> = devices.iter().filter(|it| *it != device).map(String::as_str).collect();
            if !others.is_empty() {
                let (protocol, others) = (protocol(family).1, others.join(", "));
                let _ = writeln!(
                    text,
                    "    meta nfproto {protocol} iifname {device} oifname {{ {others} }} drop"
                );
            }
        }
    }
    text
}

/// The packets that clients may send, as rules without a verdict: to each network, and to the internet by all devices but the
/// tunnel's own.
fn accepted(family: Family, device: &str, networks: &[IpNet], destinations: &[IpNet]) -> Vec<String> {
    let (ip, from) = (protocol(family).0, set(networks));
    let (all, some): (Vec<IpNet>, Vec<IpNet>) = destinations.iter().partition(|net| net.prefix_len() == 0);
    let mut rules = Vec::new();
    if !some.is_empty() {
        rules.push(format!("iifname \"{device}\" {ip} saddr {from} {ip} daddr {}", set(&some)));
    }
    if !all.is_empty() {
        rules.push(format!("iifname \"{device}\" oifname != \"{device}\" {ip} saddr {from}"));
    }
    rules
}

/// The packets that leave with an address of this machine, as rules without a verdict: all packets to the networks, and the
/// packets of private addresses to the internet.
fn translated(family: Family, device: &str, networks: &[IpNet], destinations: &[IpNet]) -> Vec<String> {
    let ip = protocol(family).0;
    let (all, some): (Vec<IpNet>, Vec<IpNet>) = destinations.iter().partition(|net| net.prefix_len() == 0);
    let mut rules = Vec::new();
    if !some.is_empty() {
        let (from, to) = (set(networks), set(&some));
        rules.push(format!("oifname != \"{device}\" {ip} saddr {from} {ip} daddr {to}"));
    }
    let private: Vec<IpNet> = networks.iter().copied().filter(is_private).collect();
    if !all.is_empty() && !private.is_empty() {
        rules.push(format!("oifname != \"{device}\" {ip} saddr {}", set(&private)));
    }
    rules
}

/// Whether the internet has no way back to a network (RFC 1918, RFC 6598, RFC 4193).
pub(super) fn is_private(net: &IpNet) -> bool {
    const PRIVATE: [&str; 5] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"];
    PRIVATE.iter().filter_map(|text| text.parse::<IpNet>().ok()).any(|private| private.contains(net))
}

/// nftables' names of a family: the one in rules, and the one of `nfproto`.
fn protocol(family: Family) -> (&'static str, &'static str) {
    match family {
        Family::V4 => ("ip", "ipv4"),
        Family::V6 => ("ip6", "ipv6"),
    }
}

fn set(networks: &[IpNet]) -> String {
    let words: Vec<String> = networks.iter().map(ToString::to_string).collect();
    format!("{{ {} }}", words.join(", "))
}
