//! The firewall's rules of a tunnel that takes all traffic, beside its policy routing. For each family:
//!
//! 1. packets to the tunnel's addresses that come by another device, and not from this machine, are dropped
//!    (CVE-2019-14899);
//! 2. if answers to the tunnel's datagrams are to pass a strict reverse path filter: the mark of the datagrams is put on
//!    the answers (with `src_valid_mark`).
//!
//! They are those that other programs set for such tunnels. Their names have the device's index and the mark, so that the next start finds those whose device is gone.

mod ruleset;

use std::collections::BTreeSet;
use std::net::IpAddr;

use self::ruleset::{Name, iptables_rules};
use crate::firewall::{Firewall, FirewallError, comment, iptables_remove, iptables_restore, iptables_save};
use crate::netlink::IpFamily;
use crate::nftables::{self, Table, Transaction};

/// The rules that a tunnel wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The families that have rules; none: there are no rules.
    pub(super) families: BTreeSet<IpFamily>,
    /// The mark that answers get, and the datagrams have; 0: answers get none.
    pub(super) mark: u32,
    /// The tunnel's addresses.
    pub(super) addresses: Vec<IpAddr>,
}

/// The firewall's rules of one tunnel.
#[derive(Debug)]
pub(super) struct Guard {
    device: u32,
    interface: String,
    in_force: Option<(Wanted, Firewall)>,
    /// The rules of the last attempt, if it failed.
    refused: Option<Wanted>,
}

impl Guard {
    /// No rules yet, for the TUN device of that index and name.
    pub(super) fn new(device: u32, interface: &str) -> Self {
        Guard { device, interface: interface.to_owned(), in_force: None, refused: None }
    }

    /// Puts the wanted rules in force. Changes nothing if they are in force already.
    ///
    /// # Errors
    /// The reason why the rules before stay in force.
    pub(super) fn set(&mut self, wanted: Wanted) -> Result<(), FirewallError> {
        let before = self.in_force.as_ref().map(|(before, _)| before);
        if before == Some(&wanted) || (before.is_none() && wanted.families.is_empty()) {
            return Ok(());
        }
        let firewall = match &self.in_force {
            Some((_, firewall)) => *firewall,
            None => Firewall::find(),
        };
        match firewall {
            Firewall::Nftables => self.set_nftables(before, &wanted)?,
            Firewall::Iptables => self.set_iptables(before, &wanted)?,
        }
        self.in_force = Some((wanted, firewall)).filter(|(wanted, _)| !wanted.families.is_empty());
        Ok(())
    }

    /// Puts the wanted rules in force, as [`Guard::set`]; `None` if the last attempt was for these rules and failed.
    pub(super) fn set_once(&mut self, wanted: Wanted) -> Option<Result<(), FirewallError>> {
        if self.refused.as_ref() == Some(&wanted) {
            return None;
        }
        let result = self.set(wanted.clone());
        self.refused = result.is_err().then_some(wanted);
        Some(result)
    }

    /// Removes the rules.
    pub(super) fn undo(&mut self) {
        // A failure is passed over: the rules are gone already, or cannot be removed.
        let _ = self.set(Wanted::default());
        self.refused = None;
    }

    fn name(&self, mark: u32) -> Name {
        Name { device: self.device, mark }
    }

    /// One transaction: there is no moment without rules.
    fn set_nftables(&self, before: Option<&Wanted>, wanted: &Wanted) -> Result<(), FirewallError> {
        let mut transaction = Transaction::default();
        if let Some(before) = before {
            let name = self.name(before.mark);
            before
                .families
                .iter()
                .for_each(|family| transaction.remove_table(&ruleset::table(*family, name)));
        }
        for family in &wanted.families {
            let name = self.name(wanted.mark);
            transaction.remove_table(&ruleset::table(*family, name));
            ruleset::add_table(&mut transaction, *family, name, &wanted.addresses);
        }
        transaction.commit().map_err(FirewallError::Nftables)
    }

    fn set_iptables(&self, before: Option<&Wanted>, wanted: &Wanted) -> Result<(), FirewallError> {
        if let Some(before) = before {
            let name = self.name(before.mark).to_string();
            for family in &before.families {
                iptables_remove(*family, |comment| comment == name)?;
            }
        }
        for family in &wanted.families {
            let rules = iptables_rules(*family, self.name(wanted.mark), &self.interface, &wanted.addresses);
            iptables_restore(*family, &rules)?;
        }
        Ok(())
    }
}

/// The rules of all tunnels.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The tables of nftables.
    tables: Vec<(Table, Name)>,
    /// The rules of iptables.
    rules: Vec<(IpFamily, Name)>,
}

impl Found {
    /// Looks for rules of tunnels. Where there is no firewall there are none.
    pub(super) fn look() -> Self {
        match Firewall::find() {
            Firewall::Nftables => {
                let tables = nftables::tables().unwrap_or_default().into_iter();
                let ours = tables.filter_map(|table| Name::parse(&table.name).map(|name| (table, name)));
                Found { tables: ours.collect(), ..Found::default() }
            }
            Firewall::Iptables => {
                let mut found = Found::default();
                for family in IpFamily::BOTH {
                    let saved = iptables_save(family).unwrap_or_default();
                    let names = saved.lines().filter_map(comment).filter_map(Name::parse);
                    found.rules.extend(names.map(|name| (family, name)));
                }
                found
            }
        }
    }

    /// The marks of tunnels whose device `lives`.
    pub(super) fn marks(&self, lives: impl Fn(u32) -> bool) -> BTreeSet<u32> {
        let tables = self.tables.iter().map(|(_, name)| name);
        let names = tables.chain(self.rules.iter().map(|(_, name)| name));
        names.filter(|name| lives(name.device)).map(|name| name.mark).collect()
    }

    /// Removes the rules of tunnels whose device does not live.
    pub(super) fn remove_dead(&self, lives: impl Fn(u32) -> bool) {
        for (table, _) in self.tables.iter().filter(|(_, name)| !lives(name.device)) {
            let mut transaction = Transaction::default();
            transaction.remove_table(table);
            let _ = transaction.commit();
        }
        for family in IpFamily::BOTH {
            let dead = |name: &Name| !lives(name.device);
            if self.rules.iter().any(|(of, name)| *of == family && dead(name)) {
                let _ =
                    iptables_remove(family, |comment| Name::parse(comment).is_some_and(|name| dead(&name)));
            }
        }
    }
}

#[cfg(test)]
mod tests;
