//! The firewalls of other programs, which may drop forwarded packets: an accept in one chain of a hook does not override a drop in
//! another.

use std::fs;

use super::Forwarding;
use super::records::Family;
use super::ruleset::table;
use crate::firewall::{self, FirewallError, comment, nft};

/// The jumps and verdicts at the end of a chain FORWARD before which our rules are put. The other rules of the chain's owner come
/// before ours, and only the end of the chain is overridden (ufw: ufw-init-functions).
const LAST_RESORTS: [&str; 4] = ["DROP", "REJECT", "ufw-after-logging-forward", "ufw-reject-forward"];

/// A firewall that drops forwarded packets unless a rule or a zone lets them through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    /// One that is changed for the tunnel.
    Changed(Changed),
    /// A chain of nftables, which is left to its owner: its family, table and name.
    Chain(String),
}

/// A firewall that is changed for the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// The chain FORWARD of this family, on which this program of iptables works.
    Iptables(Family, &'static str),
    /// firewalld.
    Firewalld,
}

/// The firewalls that stand in the way of packets of a device.
///
/// # Errors
/// When nftables cannot be asked.
pub(super) fn find(device: &str) -> Result<Vec<Filter>, FirewallError> {
    let mut found = Vec::new();
    for chain in chains(&nft(&["list", "chains"], "")?) {
        let filter = match chain.words() {
            ["ip", "filter", "FORWARD"] => {
                Filter::Changed(Changed::Iptables(Family::V4, nft_variant("iptables", "iptables-nft")))
            }
            ["ip6", "filter", "FORWARD"] => {
                Filter::Changed(Changed::Iptables(Family::V6, nft_variant("ip6tables", "ip6tables-nft")))
            }
            // A device that is in a zone was put there by its owner.
            [_, "firewalld", _] if has_zone(device) => continue,
            [_, "firewalld", _] => Filter::Changed(Changed::Firewalld),
            [_, table, _] if table.starts_with("adit_") => continue,
            _ if chain.drops(device)? => Filter::Chain(chain.place()),
            _ => continue,
        };
        if !found.contains(&filter) {
            found.push(filter);
        }
    }
    for (family, names, program) in [
        (Family::V4, "ip_tables_names", "iptables-legacy"),
        (Family::V6, "ip6_tables_names", "ip6tables-legacy"),
    ] {
        let names = fs::read_to_string(format!("/proc/thread-self/net/{names}")).unwrap_or_default();
        if names.lines().any(|name| name == "filter") {
            found.push(Filter::Changed(Changed::Iptables(family, program)));
        }
    }
    found.retain(|filter| match filter {
        Filter::Changed(Changed::Iptables(_, program)) => {
            iptables(program, &["-S", "FORWARD"]).map_or(true, |listing| blocks(&listing))
        }
        Filter::Changed(Changed::Firewalld) | Filter::Chain(_) => true,
    });
    Ok(found)
}

/// The programs of iptables, by which rules are set in a chain FORWARD.
pub(super) const PROGRAMS: [&str; 6] =
    ["iptables", "iptables-nft", "iptables-legacy", "ip6tables", "ip6tables-nft", "ip6tables-legacy"];

/// The variant that works on nftables, where it has a name of its own.
fn nft_variant(name: &'static str, variant: &'static str) -> &'static str {
    if iptables(variant, &["--version"]).is_ok() { variant } else { name }
}

/// The output of one of iptables' programs. The program waits for other programs that work on the rules (`-w`).
fn iptables(program: &'static str, arguments: &[&str]) -> Result<String, String> {
    let arguments = [&["-w"], arguments].concat();
    firewall::run(program, "iptables", &arguments, "").map_err(|error| error.to_string())
}

/// The output of `firewall-cmd`.
fn firewall_cmd(arguments: &[&str]) -> Result<String, String> {
    firewall::run("firewall-cmd", "firewalld", arguments, "").map_err(|error| error.to_string())
}

/// A chain of the hook `forward`.
#[derive(Debug)]
struct Chain {
    family: String,
    table: String,
    name: String,
    drops: bool,
}

/// The chains of the hook `forward` in the output of `nft list chains`.
fn chains(listing: &str) -> Vec<Chain> {
    let (mut chains, mut table, mut name) = (Vec::new(), ("", ""), "");
    for line in listing.lines() {
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["table", family, of, "{"] => table = (family, of),
            ["chain", of, "{", ..] => name = of,
            ["type", "filter", "hook", "forward", rest @ ..] => chains.push(Chain {
                family: table.0.to_owned(),
                table: table.1.to_owned(),
                name: name.to_owned(),
                drops: rest.windows(2).any(|pair| matches!(pair, ["policy", "drop;"])),
            }),
            _ => {}
        }
    }
    chains
}

impl Chain {
    fn words(&self) -> [&str; 3] {
        [&self.family, &self.table, &self.name]
    }

    fn place(&self) -> String {
        self.words().join(" ")
    }

    /// Whether the chain drops packets that no rule accepts, and no rule names the device.
    fn drops(&self, device: &str) -> Result<bool, FirewallError> {
        let [family, table, name] = self.words();
        let listing = nft(&["list", "chain", family, table, name], "")?;
        let is_verdict = |line: &str| line.starts_with("drop") || line.starts_with("reject");
        let all = self.drops || listing.lines().map(|line| without_counter(line.trim())).any(is_verdict);
        Ok(all && !listing.contains(&format!("\"{device}\"")))
    }
}

fn without_counter(line: &str) -> &str {
    match line.strip_prefix("counter packets ") {
        // `counter packets 0 bytes 0 drop`
        Some(rest) => rest.splitn(4, ' ').nth(3).unwrap_or_default(),
        None => line,
    }
}

/// Whether a chain FORWARD, as `iptables -S` writes it, drops packets that no rule accepts.
fn blocks(listing: &str) -> bool {
    listing.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words.as_slice(), ["-P", "FORWARD", "DROP"] | ["-A", "FORWARD", "-j", "DROP" | "REJECT", ..])
    })
}

/// Lets a tunnel's packets through a chain FORWARD.
///
/// # Errors
/// The error of the program.
pub(super) fn allow(forwarding: &Forwarding, family: Family, program: &'static str) -> Result<(), String> {
    let listing = iptables(program, &["-S", "FORWARD"])?;
    let rules = || listing.lines().filter(|line| line.starts_with("-A FORWARD"));
    let is_last = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words.as_slice(), ["-A", "FORWARD", "-j", target, ..] if LAST_RESORTS.contains(target))
    };
    let place = rules().position(is_last).unwrap_or_else(|| rules().count()) + 1;
    let place = place.to_string();
    for rule in rules_of(forwarding, family) {
        let mut words = vec!["-I", "FORWARD", &place];
        words.extend(rule.iter().map(String::as_str));
        iptables(program, &words)?;
    }
    Ok(())
}

/// The rules of a tunnel in a chain FORWARD.
fn rules_of(forwarding: &Forwarding, family: Family) -> Vec<Vec<String>> {
    let (device, comment) = (&forwarding.device, table(&forwarding.device));
    let mut rules = Vec::new();
    for (_, networks, destinations) in forwarding.families().into_iter().filter(|(of, ..)| *of == family) {
        for network in &networks {
            let back = "-m conntrack --ctstate RELATED,ESTABLISHED";
            rules.push(format!("-o {device} -d {network} {back}"));
            rules.extend(destinations.iter().map(|destination| match destination.prefix_len() {
                0 => format!("-i {device} ! -o {device} -s {network}"),
                _ => format!("-i {device} -s {network} -d {destination}"),
            }));
        }
    }
    let words = |rule: String| {
        let rule = format!("{rule} -m comment --comment {comment} -j ACCEPT");
        rule.split(' ').map(str::to_owned).collect()
    };
    rules.into_iter().map(words).collect()
}

/// Removes the rules of a tunnel from a chain FORWARD.
pub(super) fn disallow(device_table: &str, program: &'static str) {
    let Ok(listing) = iptables(program, &["-S", "FORWARD"]) else { return };
    for line in listing.lines() {
        let words: Vec<&str> = line.split_whitespace().map(|word| word.trim_matches('"')).collect();
        let is_ours = comment(line) == Some(device_table);
        if let (true, ["-A", rest @ ..]) = (is_ours, words.as_slice()) {
            let _ = iptables(program, &[&["-D"], rest].concat());
        }
    }
}

/// Whether firewalld has a zone for the device.
fn has_zone(device: &str) -> bool {
    firewall_cmd(&[&format!("--get-zone-of-interface={device}")]).is_ok()
}

/// Puts a device into firewalld's zone `trusted`, which lets its packets through.
///
/// # Errors
/// The error of `firewall-cmd`.
pub(super) fn trust(device: &str) -> Result<(), String> {
    firewall_cmd(&["--zone=trusted", &format!("--add-interface={device}")]).map(drop)
}

/// Takes a device out of firewalld's zone `trusted`.
pub(super) fn distrust(device: &str) {
    let _ = firewall_cmd(&["--zone=trusted", &format!("--remove-interface={device}")]);
}

/// The command that opens a port of this machine in ufw or firewalld, if one of these keeps it closed.
pub(super) fn closed_port(protocol: &str, port: u16) -> Option<String> {
    let firewalld = nft(&["list", "table", "inet", "firewalld"], "").unwrap_or_default();
    if !firewalld.is_empty() && !firewalld.contains(&format!("{protocol} dport {port} ")) {
        return Some(format!("firewall-cmd --add-port={port}/{protocol}"));
    }
    let ufw = iptables("iptables", &["-S", "ufw-user-input"]).ok()?;
    let (by_port, protocol_word) = (port.to_string(), format!("-p {protocol}"));
    let is_open = |line: &str| {
        let ports = line.split_whitespace().skip_while(|word| !word.starts_with("--dport")).nth(1);
        let has_port = ports.is_none_or(|ports| ports.split(',').any(|one| one == by_port));
        let has_protocol = !line.contains("-p ") || line.contains(&protocol_word);
        line.ends_with("-j ACCEPT") && has_port && has_protocol
    };
    (!ufw.lines().any(is_open)).then(|| format!("ufw allow {port}/{protocol}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_of_the_hook_are_found() {
        let listing = "table ip filter {\n\tchain FORWARD {\n\t\ttype filter hook forward priority filter; policy drop;\n\t}\n\
                       \tchain X {\n\t}\n}\ntable inet mine {\n\tchain in {\n\t\ttype filter hook input priority 0; policy drop;\n\t}\n\
                       \tchain fwd { # handle 3\n\t\ttype filter hook forward priority 0; policy accept;\n\t}\n}\n";
        let found: Vec<(String, bool)> = chains(listing).iter().map(|it| (it.place(), it.drops)).collect();
        assert_eq!(found, [("ip filter FORWARD".to_owned(), true), ("inet mine fwd".to_owned(), false)]);
        assert_eq!(without_counter("counter packets 12 bytes 345 drop"), "drop");
        assert_eq!(without_counter("ip saddr 10.0.0.0/8 drop"), "ip saddr 10.0.0.0/8 drop");
    }

    #[test]
    fn a_chain_blocks_by_its_policy_or_its_last_rule() {
        assert!(blocks("-P FORWARD DROP\n-A FORWARD -j DOCKER-USER\n"));
        assert!(blocks("-P FORWARD ACCEPT\n-A FORWARD -j REJECT --reject-with icmp-port-unreachable\n"));
        assert!(!blocks("-P FORWARD ACCEPT\n-A FORWARD -i x -j DROP\n-A FORWARD -j DOCKER-USER\n"));
    }
}
