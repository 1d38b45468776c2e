//! Forwarding of clients' packets to networks beyond this machine, for as long as the tunnel is up: the kernel's parameters, the
//! translation of addresses, and the firewall's rules that let the packets through.
//!
//! Every change is recorded in a table of nftables of our own (`adit_forward_DEVICE`), with the former values of the
//! kernel's parameters as comments (`forwarding/records.rs`). So the next start of any tunnel finds in that table the
//! changes that a killed process left. One process at a time works on the tables of a network namespace: it locks the
//! namespace's own file.

mod filters;
mod records;
mod ruleset;
mod survey;
mod sysctls;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;

use adit_core::{IpNet, Report, Severity, Transport};
use serde::{Deserialize, Serialize};

use self::filters::{Changed, Filter};
use self::records::{Family, Owner, Record};
use crate::firewall::nft;
use crate::netlink::Netlink;

/// The forwarding of a tunnel: the networks that packets come from, and the networks that they may go to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forwarding {
    /// The tunnel's device.
    pub device: String,
    /// The networks of the tunnel: its clients have addresses of these.
    pub networks: Vec<IpNet>,
    /// The networks to which the clients' packets may go; a prefix of length 0 is the internet.
    pub destinations: Vec<IpNet>,
    /// The ports at which clients reach this machine.
    pub ports: Vec<(Transport, u16)>,
}

/// The changes that [`Forwarding::begin`] made. [`Forwarded::undo`] takes them back.
#[derive(Debug)]
pub struct Forwarded {
    device: String,
}

impl Forwarding {
    /// Our networks and destinations of each family that has both.
    fn families(&self) -> Vec<(Family, Vec<IpNet>, Vec<IpNet>)> {
        let of = |family: Family, nets: &[IpNet]| -> Vec<IpNet> {
            let nets = nets.iter().filter(|net| net.addr().is_ipv6() == (family == Family::V6));
            let (all, some): (Vec<IpNet>, Vec<IpNet>) =
                nets.map(IpNet::trunc).partition(|net| net.prefix_len() == 0);
            // The internet is kept apart, although it holds the networks: packets to it are translated in another way.
            IpNet::aggregate(&some).into_iter().chain(all.into_iter().take(1)).collect()
        };
        let families =
            [Family::V4, Family::V6].map(|it| (it, of(it, &self.networks), of(it, &self.destinations)));
        let is_whole = |(_, networks, destinations): &(Family, Vec<IpNet>, Vec<IpNet>)| {
            !networks.is_empty() && !destinations.is_empty()
        };
        families.into_iter().filter(is_whole).collect()
    }

    fn has(&self, family: Family) -> bool {
        self.families().iter().any(|(of, ..)| *of == family)
    }

    /// Undoes the changes that killed processes left in this network namespace. Without nftables no process has made any.
    pub fn recover() {
        let Ok(_lock) = lock() else { return };
        recover();
    }

    /// Reports on the packets that would be forwarded, and on the obstacles. Changes nothing.
    pub fn survey(&self) -> Vec<Report> {
        let mut reports = survey::routes(self);
        match filters::find(&self.device) {
            Ok(found) => reports.extend(found.iter().filter_map(|filter| survey::obstacle(self, filter))),
            Err(error) => {
                reports.push(warning(format!("the firewall cannot be asked what it drops: {error}")))
            }
        }
        reports.extend(survey::ports(self));
        reports
    }

    /// Begins to forward, until [`Forwarded::undo`]. The reports name each step that failed, with a command to run where one
    /// helps.
    pub fn begin(&self) -> (Forwarded, Vec<Report>) {
        let mut reports = survey::routes(self);
        if let Err(error) = self.set_up(&mut reports) {
            reports.push(warning(format!("nothing is forwarded beyond this machine: {error}")));
        }
        reports.extend(survey::ports(self));
        (Forwarded { device: self.device.clone() }, reports)
    }

    fn set_up(&self, reports: &mut Vec<Report>) -> Result<(), String> {
        if !is_plain(&self.device) {
            return Err(format!("rules of a firewall cannot name the device {:?}", self.device));
        }
        let _lock = lock().map_err(|error| format!("the network namespace cannot be locked: {error}"))?;
        recover();
        // The device is this tunnel's: a table with its name was left behind, even if the table's process still runs.
        remove(&ruleset::table(&self.device), &self.device);
        let filters = filters::find(&self.device).map_err(|error| error.to_string())?;
        let plan =
            sysctls::plan(&self.device, self.has(Family::V4), self.has(Family::V6) && sysctls::has_v6());
        let mut records = vec![Record::Owner(Owner::this()), Record::Device(self.device.clone())];
        records.extend(plan.restore.iter().cloned().map(Record::Sysctl));
        for (family, turns_on) in [(Family::V4, plan.turns_v4_on), (Family::V6, plan.turns_v6_on)] {
            let separate = shared_links(&self.device).into_iter().filter(|_| turns_on);
            records.extend(separate.map(|device| Record::Separate(family, device)));
        }
        records.extend(filters.iter().filter_map(|filter| match filter {
            Filter::Changed(Changed::Iptables(_, program)) => Some(Record::Rules(program)),
            Filter::Changed(Changed::Firewalld) => Some(Record::Firewalld),
            Filter::Chain(_) => None,
        }));
        nft(&["-f", "-"], &ruleset::ruleset(self, &records)).map_err(|error| error.to_string())?;
        for sysctl in &plan.set {
            if let Err(error) = sysctl.set() {
                let (name, value) = (sysctl.name(), &sysctl.value);
                let text = format!("{name} cannot be set: {error}: run `sysctl -w {name}={value}`");
                reports.push(warning(text));
            }
        }
        reports.extend(filters.iter().map(|filter| self.let_through(filter)));
        Ok(())
    }

    /// Lets the tunnel's packets through a firewall, or says with which command its owner does.
    fn let_through(&self, filter: &Filter) -> Report {
        let (allowed, changed) = match filter {
            Filter::Changed(changed @ Changed::Iptables(family, program)) => {
                (filters::allow(self, *family, program), *changed)
            }
            Filter::Changed(changed @ Changed::Firewalld) => (filters::trust(&self.device), *changed),
            Filter::Chain(_) => return survey::missing(self, filter, "adit does not change it"),
        };
        match allowed {
            Ok(()) => survey::let_through(self, changed),
            Err(why) => survey::missing(self, filter, &why),
        }
    }
}

impl Forwarded {
    /// Takes the changes back. The changes that another forwarding tunnel needs are handed over to that tunnel.
    pub fn undo(&self) {
        if let Ok(_lock) = lock() {
            remove(&ruleset::table(&self.device), &self.device);
        }
    }
}

/// The lock that a process holds while it works on our tables of its network namespace.
fn lock() -> io::Result<File> {
    let file = File::open("/proc/thread-self/ns/net")?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
    Ok(file)
}

/// The names of our tables, each with its records.
fn tables() -> Vec<(String, Vec<Record>)> {
    let listing = nft(&["list", "tables"], "").unwrap_or_default();
    let names = listing.lines().filter_map(|line| line.trim().strip_prefix("table inet "));
    let ours = names.filter(|name| name.starts_with(ruleset::PREFIX));
    let records = |name: &str| {
        records::parse(&nft(&["list", "chain", "inet", name, "records"], "").unwrap_or_default())
    };
    ours.map(|name| (name.to_owned(), records(name))).collect()
}

fn device_of(table: &str, records: &[Record]) -> String {
    let named = records.iter().find_map(|record| match record {
        Record::Device(device) => Some(device.clone()),
        _ => None,
    });
    named.unwrap_or_else(|| table.trim_start_matches(ruleset::PREFIX).to_owned())
}

/// Removes the tables of processes that are gone.
fn recover() {
    for (table, records) in tables() {
        let device = device_of(&table, &records);
        if !is_alive(&records, &device) {
            remove(&table, &device);
        }
    }
}

fn is_alive(records: &[Record], device: &str) -> bool {
    let owner = records.iter().find_map(|record| match record {
        Record::Owner(owner) => Some(owner),
        _ => None,
    });
    let has_device = || Netlink::open().is_ok_and(|mut netlink| netlink.link(device).is_ok());
    owner.and_then(Owner::is_alive).unwrap_or_else(has_device)
}

/// Undoes the changes that a table records, and removes the table. Shared changes are handed over to the table of another
/// tunnel, if there is one.
fn remove(table: &str, device: &str) {
    let tables = tables();
    let Some((_, records)) = tables.iter().find(|(name, _)| name == table) else { return };
    for record in records {
        match record {
            Record::Rules(program) => filters::disallow(table, program),
            Record::Firewalld => filters::distrust(device),
            Record::Owner(_) | Record::Device(_) | Record::Sysctl(_) | Record::Separate(..) => {}
        }
    }
    let other =
        tables.iter().find(|(name, records)| name != table && is_alive(records, &device_of(name, records)));
    let shared: Vec<Record> = records.iter().filter(|record| record.is_shared()).cloned().collect();
    let handed_over = other.map(|(name, _)| ruleset::handed_over(name, &shared));
    if handed_over.is_none() {
        for record in &shared {
            if let Record::Sysctl(sysctl) = record {
                sysctls::restore(sysctl);
            }
        }
    }
    let _ = nft(&["-f", "-"], &(handed_over.unwrap_or_default() + &ruleset::removal(table)));
}

/// The devices, other than the tunnel's, by which other machines are reached on a link that several share.
fn shared_links(device: &str) -> Vec<String> {
    let links = Netlink::open().and_then(|mut netlink| netlink.named_links()).unwrap_or_default();
    let shared =
        links.into_iter().filter(|(_, name, is_shared)| *is_shared && name != device && is_plain(name));
    shared.map(|(_, name, _)| name).collect()
}

/// Whether a rule of nftables can name a device.
fn is_plain(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+=@".contains(c))
}

fn warning(text: String) -> Report {
    Report { severity: Severity::Warning, path: None, text }
}

fn note(text: String) -> Report {
    Report { severity: Severity::Info, path: None, text }
}
