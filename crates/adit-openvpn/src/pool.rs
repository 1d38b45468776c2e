//! The addresses that a server gives its clients.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_core::{IpNet, Ipv6Net, PeerSettings, PoolEntry};

use crate::params::ServerParams;

/// Slots whose last name is remembered; further ones are not.
const MAX_REMEMBERED: usize = 65_536;

/// The addresses of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lease {
    /// Its slot of the pool, if it has one.
    slot: Option<u32>,
    pub(crate) v4: Option<Ipv4Addr>,
    /// With the prefix length it is told.
    pub(crate) v6: Option<Ipv6Net>,
    /// Those of its addresses that its settings name.
    pub(crate) fixed: Vec<IpAddr>,
    /// Networks behind it.
    pub(crate) routes: Vec<IpNet>,
    /// What of all this `learn-address` said no to.
    pub(crate) refused: Vec<IpNet>,
    /// Slots whose addresses its fixed ones are.
    reserved: Vec<u32>,
}

impl Lease {
    /// Its own inner addresses.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let v6 = self.v6.map(|net| IpAddr::V6(net.addr()));
        self.v4.map(IpAddr::V4).into_iter().chain(v6).collect()
    }

    /// All that is reached by this client.
    pub(crate) fn networks(&self) -> Vec<IpNet> {
        let own = self.addresses().into_iter().map(IpNet::from);
        own.chain(self.routes.iter().copied()).filter(|network| !self.refused.contains(network)).collect()
    }
}

/// Gives each client a slot: the same offset into the IPv4 and the IPv6 range. A name that returns gets its
/// old slot if it is free.
pub(crate) struct Pool {
    v4: Option<(u32, u32)>,
    v6: Option<(u128, u128)>,
    /// The prefix length that clients are told.
    prefix6: u8,
    slots: u32,
    /// Slots in use.
    used: BTreeSet<u32>,
    /// Who had a slot last; none are written there when names may come twice.
    owners: BTreeMap<u32, String>,
    slot_of: BTreeMap<String, u32>,
    next: u32,
}

impl Pool {
    /// The pool of a server, with what it remembers from before.
    pub(crate) fn new(params: &ServerParams) -> Self {
        let v4 = params.pool4.map(|(first, last)| (u32::from(first), u32::from(last)));
        let v6 = params.pool6.map(|pool| (u128::from(pool.addr()), u128::from(pool.broadcast())));
        let room4 = v4.map_or(u32::MAX, |(first, last)| last.saturating_sub(first).saturating_add(1));
        let room6 = v6.map_or(u32::MAX, |(first, last)| {
            u32::try_from(last.saturating_sub(first).saturating_add(1)).unwrap_or(u32::MAX)
        });
        let slots = if v4.is_none() && v6.is_none() { 0 } else { room4.min(room6) };
        let mut pool = Pool {
            v4,
            v6,
            prefix6: params.pool6.map_or(128, |pool| pool.prefix_len()),
            slots,
            used: BTreeSet::new(),
            owners: BTreeMap::new(),
            slot_of: BTreeMap::new(),
            next: 0,
        };
        for entry in &params.per_client.remembered {
            // An address that the pool does not hold any more is forgotten; IPv4 goes before IPv6.
            if let Some(slot) = pool.slot_of_entry(entry) {
                pool.remember(&entry.name, slot);
            }
        }
        pool
    }

    /// The pool in place of one with other ranges. Names keep the addresses that are in both; those in use are still to
    /// be [adopted](Pool::adopt).
    pub(crate) fn in_place_of(mut self, other: &Pool) -> Self {
        for (slot, name) in &other.owners {
            let entry = PoolEntry { name: name.clone(), ipv4: other.v4_at(*slot), ipv6: other.v6_at(*slot) };
            if let Some(slot) = self.slot_of_entry(&entry) {
                self.remember(name, slot);
            }
        }
        self
    }

    /// Takes over a lease that a pool with other ranges gave. Addresses outside of ours stay with their client, and are
    /// given to no other.
    pub(crate) fn adopt(&mut self, lease: &mut Lease) {
        let mut slots: Vec<u32> =
            lease.addresses().into_iter().filter_map(|address| self.slot_of_address(address)).collect();
        slots.retain(|slot| self.used.insert(*slot));
        let from_pool = lease.slot.is_some();
        lease.slot = if from_pool && !slots.is_empty() { Some(slots.remove(0)) } else { None };
        lease.reserved = slots;
    }

    /// Addresses for a client: those that its settings name, the others from the pool. A client with a slot
    /// of the pool is remembered by `name`, if there is one. `None` when all slots are taken.
    pub(crate) fn take(&mut self, name: Option<&str>, settings: &PeerSettings) -> Option<Lease> {
        let wants4 = self.v4.is_some() && settings.ipv4.is_none();
        let wants6 = self.v6.is_some() && settings.ipv6.is_none();
        let mut lease = Lease { routes: settings.routes.clone(), ..Lease::default() };
        if wants4 || wants6 || (settings.ipv4.is_none() && settings.ipv6.is_none()) {
            let old = name.and_then(|name| self.slot_of.get(name).copied());
            let slot = old.filter(|slot| !self.used.contains(slot)).or_else(|| self.free_slot())?;
            self.used.insert(slot);
            if let Some(name) = name {
                self.remember(name, slot);
            }
            lease.slot = Some(slot);
            lease.v4 = self.v4_at(slot);
            lease.v6 = self.v6_at(slot).and_then(|address| Ipv6Net::new(address, self.prefix6).ok());
        }
        let fixed4 = settings.ipv4.map(|(address, _)| address);
        let fixed6 = settings.ipv6.map(|(network, _)| network);
        lease.fixed.extend(fixed4.map(IpAddr::V4));
        lease.fixed.extend(fixed6.map(|network| IpAddr::V6(network.addr())));
        lease.v4 = fixed4.or(lease.v4);
        lease.v6 = fixed6.or(lease.v6);
        Some(lease)
    }

    /// Keeps the pool from giving out the fixed addresses of a lease. Nobody else has them now.
    pub(crate) fn reserve(&mut self, lease: &mut Lease) {
        for address in &lease.fixed {
            if let Some(slot) = self.slot_of_address(*address)
                && self.used.insert(slot)
            {
                lease.reserved.push(slot);
            }
        }
    }

    /// What is to be remembered of a lease: the addresses of its slot.
    pub(crate) fn entry(&self, lease: &Lease) -> Option<PoolEntry> {
        let slot = lease.slot?;
        let name = self.owners.get(&slot)?.clone();
        Some(PoolEntry { name, ipv4: self.v4_at(slot), ipv6: self.v6_at(slot) })
    }

    /// The slot is free again.
    pub(crate) fn release(&mut self, lease: &Lease) {
        for slot in lease.slot.iter().chain(&lease.reserved) {
            self.used.remove(slot);
        }
    }

    fn remember(&mut self, name: &str, slot: u32) {
        if self.owners.len() >= MAX_REMEMBERED && !self.owners.contains_key(&slot) {
            return;
        }
        if let Some(before) = self.owners.insert(slot, name.to_owned())
            && self.slot_of.get(&before) == Some(&slot)
        {
            self.slot_of.remove(&before);
        }
        if let Some(before) = self.slot_of.insert(name.to_owned(), slot)
            && before != slot
        {
            self.owners.remove(&before);
        }
    }

    /// Slots that nobody had first, so that a name that comes back finds its own.
    fn free_slot(&mut self) -> Option<u32> {
        if self.used.len() >= usize::try_from(self.slots).unwrap_or(usize::MAX) {
            return None;
        }
        let from = self.next;
        let round = || (from..self.slots).chain(0..from);
        let free = |slot: &u32| !self.used.contains(slot);
        let slot = round()
            .find(|slot| free(slot) && !self.owners.contains_key(slot))
            .or_else(|| round().find(free))?;
        self.next = slot.saturating_add(1) % self.slots;
        Some(slot)
    }

    fn slot_of_entry(&self, entry: &PoolEntry) -> Option<u32> {
        let slot = |address: Option<IpAddr>| self.slot_of_address(address?);
        slot(entry.ipv4.map(IpAddr::V4)).or_else(|| slot(entry.ipv6.map(IpAddr::V6)))
    }

    fn slot_of_address(&self, address: IpAddr) -> Option<u32> {
        let offset = match address {
            IpAddr::V4(address) => u32::from(address).checked_sub(self.v4?.0)?,
            IpAddr::V6(address) => u32::try_from(u128::from(address).checked_sub(self.v6?.0)?).ok()?,
        };
        Some(offset).filter(|offset| *offset < self.slots)
    }

    fn v4_at(&self, slot: u32) -> Option<Ipv4Addr> {
        self.v4.map(|(first, _)| Ipv4Addr::from(first.saturating_add(slot)))
    }

    fn v6_at(&self, slot: u32) -> Option<Ipv6Addr> {
        self.v6.map(|(first, _)| Ipv6Addr::from(first.saturating_add(u128::from(slot))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(slots: u32) -> Pool {
        Pool {
            v4: Some((u32::from(Ipv4Addr::new(10, 8, 0, 2)), u32::MAX)),
            v6: Some((0xfd00 << 112 | 0x1000, u128::MAX)),
            prefix6: 64,
            slots,
            used: BTreeSet::new(),
            owners: BTreeMap::new(),
            slot_of: BTreeMap::new(),
            next: 0,
        }
    }

    fn v4(lease: &Lease) -> u8 {
        lease.v4.unwrap().octets()[3]
    }

    #[test]
    fn a_name_keeps_its_address_and_others_take_fresh_ones_first() {
        let mut pool = pool(3);
        let none = PeerSettings::default();
        let anna = pool.take(Some("anna"), &none).unwrap();
        assert_eq!((v4(&anna), anna.v6.unwrap().to_string().as_str()), (2, "fd00::1000/64"));
        pool.release(&anna);
        let berta = pool.take(Some("berta"), &none).unwrap();
        let clara = pool.take(Some("clara"), &none).unwrap();
        assert_eq!((v4(&berta), v4(&clara)), (3, 4));
        assert_eq!(v4(&pool.take(Some("anna"), &none).unwrap()), 2);
        assert_eq!(pool.take(Some("dora"), &none), None);
        pool.release(&berta);
        // Nothing is fresh any more: berta's goes to dora, and is remembered as dora's alone.
        let dora = pool.take(Some("dora"), &none).unwrap();
        assert_eq!(v4(&dora), 3);
        assert_eq!(pool.entry(&dora).unwrap().name, "dora");
        assert_eq!(pool.slot_of.get("berta"), None);
    }

    #[test]
    fn other_ranges_leave_clients_their_addresses_and_give_them_to_no_other() {
        let none = PeerSettings::default();
        let mut before = pool(4);
        let mut leases = ["anna", "berta", "clara"].map(|name| before.take(Some(name), &none).unwrap());
        // From 10.8.0.3 on, with as many addresses: anna's is outside.
        let (first, last) = before.v4.unwrap();
        let mut after = Pool { v4: Some((first + 1, last)), v6: None, ..pool(3) }.in_place_of(&before);
        leases.iter_mut().for_each(|lease| after.adopt(lease));
        let addresses = leases.each_ref().map(v4);
        assert_eq!(addresses, [2, 3, 4], "they stay as they are");
        let dora = after.take(Some("dora"), &none).unwrap();
        assert_eq!((v4(&dora), after.take(Some("eva"), &none)), (5, None));
        leases.iter().for_each(|lease| after.release(lease));
        assert_eq!(v4(&after.take(Some("clara"), &none).unwrap()), 4, "remembered by her name");
        assert_eq!(v4(&after.take(Some("anna"), &none).unwrap()), 3, "hers is not in the pool any more");
    }

    #[test]
    fn fixed_addresses_are_not_given_to_others() {
        let mut pool = pool(2);
        let mask = Ipv4Addr::new(255, 255, 255, 0);
        let fixed =
            PeerSettings { ipv4: Some((Ipv4Addr::new(10, 8, 0, 2), mask)), ..PeerSettings::default() };
        let mut anna = pool.take(Some("anna"), &fixed).unwrap();
        assert_eq!(v4(&anna), 2);
        assert_eq!(anna.v6.unwrap().addr().segments()[7], 0x1000, "the other family is from the pool");
        pool.reserve(&mut anna);
        let berta = pool.take(Some("berta"), &PeerSettings::default()).unwrap();
        assert_eq!(v4(&berta), 3);
        assert_eq!(pool.take(Some("clara"), &PeerSettings::default()), None);
        pool.release(&anna);
        assert!(pool.take(Some("clara"), &PeerSettings::default()).is_some());
    }

    #[test]
    fn both_fixed_take_no_slot() {
        let mut pool = pool(1);
        let fixed = PeerSettings {
            ipv4: Some((Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::BROADCAST)),
            ipv6: Some(("fd01::1/64".parse().unwrap(), None)),
            routes: vec!["10.50.0.0/16".parse().unwrap()],
            ..PeerSettings::default()
        };
        let mut lease = pool.take(Some("anna"), &fixed).unwrap();
        pool.reserve(&mut lease);
        assert_eq!(pool.entry(&lease), None);
        let networks: Vec<String> = lease.networks().iter().map(ToString::to_string).collect();
        assert_eq!(networks, ["192.0.2.1/32", "fd01::1/128", "10.50.0.0/16"]);
        assert!(pool.take(Some("berta"), &PeerSettings::default()).is_some());
    }
}
