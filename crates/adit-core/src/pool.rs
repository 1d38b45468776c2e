//! The inner addresses that a tunnel gives its peers.
//!
//! A tunnel has one pool, whatever number of endpoints its peers come by. A lease therefore names its owner by endpoint
//! and peer, and the pool tells who holds an address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::Ipv6Net;

use crate::PeerId;

/// Slots whose last name is remembered; further ones are not.
const MAX_REMEMBERED: usize = 65_536;

/// An address that a name was given from the pool, to be remembered over a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolEntry {
    /// The peer's name.
    pub name: String,
    /// Its IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// Its IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
}

/// Who has a lease. Peers of one endpoint have numbers of their own, so the endpoint's number goes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseOwner {
    /// The endpoint's number within its tunnel.
    pub endpoint: u16,
    /// The peer, of those of that endpoint.
    pub peer: PeerId,
}

/// The addresses that a pool gives out: the same offset into both ranges belongs to one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolRanges {
    /// First and last IPv4 address.
    pub v4: Option<(Ipv4Addr, Ipv4Addr)>,
    /// The IPv6 addresses from this one to the last of its network, whose prefix length peers are told.
    pub v6: Option<Ipv6Net>,
}

/// Addresses that a peer has by its settings, in place of those of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FixedAddresses {
    /// Its IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// Its IPv6 address, with the prefix length that is sent to the peer.
    pub v6: Option<Ipv6Net>,
}

/// The addresses of one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    owner: LeaseOwner,
    /// Its slot of the pool, if it has one.
    slot: Option<u32>,
    /// Slots whose addresses its fixed ones are.
    reserved: Vec<u32>,
    v4: Option<Ipv4Addr>,
    v6: Option<Ipv6Net>,
    fixed: FixedAddresses,
}

impl Lease {
    /// A lease of no address.
    pub const fn empty(owner: LeaseOwner) -> Self {
        let fixed = FixedAddresses { v4: None, v6: None };
        Lease { owner, slot: None, reserved: Vec::new(), v4: None, v6: None, fixed }
    }

    /// Its IPv4 address.
    pub const fn v4(&self) -> Option<Ipv4Addr> {
        self.v4
    }

    /// Its IPv6 address, with the prefix length that is sent to the peer.
    pub const fn v6(&self) -> Option<Ipv6Net> {
        self.v6
    }

    /// All its addresses.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let v6 = self.v6.map(|net| IpAddr::V6(net.addr()));
        self.v4.map(IpAddr::V4).into_iter().chain(v6).collect()
    }

    /// Those of its addresses that the peer's settings name.
    pub fn fixed(&self) -> Vec<IpAddr> {
        let v6 = self.fixed.v6.map(|net| IpAddr::V6(net.addr()));
        self.fixed.v4.map(IpAddr::V4).into_iter().chain(v6).collect()
    }
}

/// Gives each peer a slot: the same offset into the IPv4 and the IPv6 range. A name that returns gets its old slot if that
/// is free.
pub struct AddressPool {
    v4: Option<(u32, u32)>,
    v6: Option<(u128, u128)>,
    /// The prefix length that peers are told.
    prefix6: u8,
    slots: u32,
    /// Slots in use, by addresses of the pool or by fixed ones.
    used: BTreeSet<u32>,
    /// Who holds an address. Several may hold a fixed one, until all but one are removed.
    held: BTreeSet<(IpAddr, LeaseOwner)>,
    /// The names that had the slots last.
    names: BTreeMap<u32, String>,
    slot_of: BTreeMap<String, u32>,
    next: u32,
}

impl AddressPool {
    /// A pool of these ranges, which remembers what names had before. Of an entry that says both, IPv4 goes before IPv6;
    /// addresses outside the ranges are forgotten.
    pub fn new(ranges: PoolRanges, remembered: &[PoolEntry]) -> Self {
        let v4 = ranges.v4.map(|(first, last)| (u32::from(first), u32::from(last)));
        let v6 = ranges.v6.map(|pool| (u128::from(pool.addr()), u128::from(pool.broadcast())));
        let room4 = v4.map_or(u32::MAX, |(first, last)| last.saturating_sub(first).saturating_add(1));
        let room6 = v6.map_or(u32::MAX, |(first, last)| {
            u32::try_from(last.saturating_sub(first).saturating_add(1)).unwrap_or(u32::MAX)
        });
        let slots = if v4.is_none() && v6.is_none() { 0 } else { room4.min(room6) };
        let mut pool = AddressPool {
            v4,
            v6,
            prefix6: ranges.v6.map_or(128, |pool| pool.prefix_len()),
            slots,
            used: BTreeSet::new(),
            held: BTreeSet::new(),
            names: BTreeMap::new(),
            slot_of: BTreeMap::new(),
            next: 0,
        };
        for entry in remembered {
            if let Some(slot) = pool.slot_of_entry(entry) {
                pool.remember(&entry.name, slot);
            }
        }
        pool
    }

    /// The pool in place of one with other ranges. Names keep the addresses that are in both; leases are still to be
    /// [adopted](Self::adopt).
    #[must_use]
    pub fn in_place_of(mut self, other: &AddressPool) -> Self {
        for (slot, name) in &other.names {
            let entry = PoolEntry { name: name.clone(), ipv4: other.v4_at(*slot), ipv6: other.v6_at(*slot) };
            if let Some(slot) = self.slot_of_entry(&entry) {
                self.remember(name, slot);
            }
        }
        self
    }

    /// Takes over a lease that a pool with other ranges gave. Addresses outside of ours stay with their peer, and are given
    /// to no other.
    pub fn adopt(&mut self, lease: &mut Lease) {
        let addresses = lease.addresses();
        self.held.extend(addresses.iter().map(|address| (*address, lease.owner)));
        let mut slots: Vec<u32> =
            addresses.into_iter().filter_map(|address| self.slot_of_address(address)).collect();
        slots.retain(|slot| self.used.insert(*slot));
        let from_pool = lease.slot.is_some();
        lease.slot = if from_pool && !slots.is_empty() { Some(slots.remove(0)) } else { None };
        lease.reserved = slots;
    }

    /// Leases addresses: the fixed ones, the others from the pool. A peer with a slot of the pool is remembered by `name`,
    /// if there is one. `None` when all slots are taken.
    ///
    /// Fixed addresses are held once [`reserve`](Self::reserve) is called, so that [`holders`](Self::holders) can be asked
    /// before.
    pub fn lease(&mut self, owner: LeaseOwner, name: Option<&str>, fixed: FixedAddresses) -> Option<Lease> {
        let wants4 = self.v4.is_some() && fixed.v4.is_none();
        let wants6 = self.v6.is_some() && fixed.v6.is_none();
        let mut lease = Lease { fixed, ..Lease::empty(owner) };
        if wants4 || wants6 || fixed == FixedAddresses::default() {
            let old = name.and_then(|name| self.slot_of.get(name).copied());
            let slot = old.filter(|slot| !self.used.contains(slot)).or_else(|| self.free_slot())?;
            self.used.insert(slot);
            if let Some(name) = name {
                self.remember(name, slot);
            }
            lease.slot = Some(slot);
            lease.v4 = self.v4_at(slot).filter(|_| wants4);
            lease.v6 = self.v6_at(slot).and_then(|address| Ipv6Net::new(address, self.prefix6).ok());
            lease.v6 = lease.v6.filter(|_| wants6);
            self.held.extend(lease.addresses().into_iter().map(|address| (address, owner)));
        }
        lease.v4 = fixed.v4.or(lease.v4);
        lease.v6 = fixed.v6.or(lease.v6);
        Some(lease)
    }

    /// The other owners that hold an address of this lease.
    pub fn holders(&self, lease: &Lease) -> BTreeSet<LeaseOwner> {
        let holders = |address| {
            let [first, last] = [0, u32::MAX].map(PeerId);
            let from = (address, LeaseOwner { endpoint: 0, peer: first });
            let to = (address, LeaseOwner { endpoint: u16::MAX, peer: last });
            self.held.range(from..=to).map(|(_, owner)| *owner)
        };
        lease.addresses().into_iter().flat_map(holders).filter(|owner| *owner != lease.owner).collect()
    }

    /// Holds the fixed addresses of a lease, and keeps the pool from giving them to other peers.
    pub fn reserve(&mut self, lease: &mut Lease) {
        for address in lease.fixed() {
            self.held.insert((address, lease.owner));
            if let Some(slot) = self.slot_of_address(address)
                && self.used.insert(slot)
            {
                lease.reserved.push(slot);
            }
        }
    }

    /// What is to be remembered of a lease: the addresses of its slot.
    pub fn entry(&self, lease: &Lease) -> Option<PoolEntry> {
        let slot = lease.slot?;
        let name = self.names.get(&slot)?.clone();
        Some(PoolEntry { name, ipv4: self.v4_at(slot), ipv6: self.v6_at(slot) })
    }

    /// The addresses of a lease are free again.
    pub fn release(&mut self, lease: &Lease) {
        for slot in lease.slot.iter().chain(&lease.reserved) {
            self.used.remove(slot);
        }
        for address in lease.addresses() {
            self.held.remove(&(address, lease.owner));
        }
    }

    fn remember(&mut self, name: &str, slot: u32) {
        if self.names.len() >= MAX_REMEMBERED && !self.names.contains_key(&slot) {
            return;
        }
        if let Some(before) = self.names.insert(slot, name.to_owned())
            && self.slot_of.get(&before) == Some(&slot)
        {
            self.slot_of.remove(&before);
        }
        if let Some(before) = self.slot_of.insert(name.to_owned(), slot)
            && before != slot
        {
            self.names.remove(&before);
        }
    }

    /// Slots that were never used come first, so that a returning name gets its former address.
    fn free_slot(&mut self) -> Option<u32> {
        if self.used.len() >= usize::try_from(self.slots).unwrap_or(usize::MAX) {
            return None;
        }
        let from = self.next;
        let round = || (from..self.slots).chain(0..from);
        let free = |slot: &u32| !self.used.contains(slot);
        let slot = round()
            .find(|slot| free(slot) && !self.names.contains_key(slot))
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

    /// So many addresses of each family, from 10.8.0.2 and fd00::1000 on.
    fn pool(slots: u8) -> AddressPool {
        let v4 = [2, 1 + slots].map(|last| Ipv4Addr::new(10, 8, 0, last));
        let v6 = "fd00::1000/64".parse().unwrap();
        AddressPool::new(PoolRanges { v4: Some(v4.into()), v6: Some(v6) }, &[])
    }

    fn owner(peer: u32) -> LeaseOwner {
        LeaseOwner { endpoint: 0, peer: PeerId(peer) }
    }

    fn take(pool: &mut AddressPool, peer: u32, name: &str) -> Option<Lease> {
        pool.lease(owner(peer), Some(name), FixedAddresses::default())
    }

    fn v4(lease: &Lease) -> u8 {
        lease.v4().unwrap().octets()[3]
    }

    fn fixed(address: [u8; 4]) -> FixedAddresses {
        FixedAddresses { v4: Some(address.into()), v6: None }
    }

    #[test]
    fn other_ranges_leave_peers_their_addresses_and_give_them_to_no_other() {
        let mut before = pool(4);
        let mut leases = [(1, "anna"), (2, "berta"), (3, "clara")]
            .map(|(peer, name)| take(&mut before, peer, name).unwrap());
        // From 10.8.0.3 on, with as many addresses: anna's is outside.
        let ranges = PoolRanges { v4: Some(([10, 8, 0, 3].into(), [10, 8, 0, 5].into())), v6: None };
        let mut after = AddressPool::new(ranges, &[]).in_place_of(&before);
        leases.iter_mut().for_each(|lease| after.adopt(lease));
        assert_eq!(leases.each_ref().map(v4), [2, 3, 4], "they stay as they are");
        let dora = take(&mut after, 4, "dora").unwrap();
        assert_eq!((v4(&dora), take(&mut after, 5, "eva")), (5, None));
        leases.iter().for_each(|lease| after.release(lease));
        assert_eq!(v4(&take(&mut after, 6, "clara").unwrap()), 4, "remembered by name");
        assert_eq!(
            v4(&take(&mut after, 7, "anna").unwrap()),
            3,
            "the old address is not in the pool any more"
        );
    }

    #[test]
    fn a_name_keeps_its_address_and_others_take_fresh_ones_first() {
        let mut pool = pool(3);
        let anna = take(&mut pool, 1, "anna").unwrap();
        assert_eq!((v4(&anna), anna.v6().unwrap().to_string().as_str()), (2, "fd00::1000/64"));
        pool.release(&anna);
        let berta = take(&mut pool, 2, "berta").unwrap();
        let clara = take(&mut pool, 3, "clara").unwrap();
        assert_eq!((v4(&berta), v4(&clara)), (3, 4));
        assert_eq!(v4(&take(&mut pool, 4, "anna").unwrap()), 2);
        assert_eq!(take(&mut pool, 5, "dora"), None);
        pool.release(&berta);
        // Nothing is fresh any more: berta's goes to dora, and is remembered as dora's alone.
        let dora = take(&mut pool, 5, "dora").unwrap();
        assert_eq!(v4(&dora), 3);
        assert_eq!(pool.entry(&dora).unwrap().name, "dora");
        assert_eq!(pool.slot_of.get("berta"), None);
    }

    #[test]
    fn what_is_remembered_is_in_the_ranges() {
        let entry = |name: &str, ipv4: &str, ipv6: &str| PoolEntry {
            name: name.to_owned(),
            ipv4: ipv4.parse().ok(),
            ipv6: ipv6.parse().ok(),
        };
        let ranges =
            PoolRanges { v4: Some(("10.8.0.2".parse().unwrap(), "10.8.0.9".parse().unwrap())), v6: None };
        let remembered =
            [entry("anna", "10.8.0.7", ""), entry("berta", "10.9.0.1", ""), entry("clara", "", "fd00::2")];
        let mut pool = AddressPool::new(ranges, &remembered);
        let given = ["anna", "berta", "clara"].map(|name| v4(&take(&mut pool, 1, name).unwrap()));
        assert_eq!(given, [7, 2, 3]);
    }

    #[test]
    fn fixed_addresses_are_not_given_to_others() {
        let mut pool = pool(2);
        let mut anna = pool.lease(owner(1), Some("anna"), fixed([10, 8, 0, 2])).unwrap();
        assert_eq!(v4(&anna), 2);
        assert_eq!(anna.v6().unwrap().addr().segments()[7], 0x1000, "the other family is from the pool");
        pool.reserve(&mut anna);
        let berta = take(&mut pool, 2, "berta").unwrap();
        assert_eq!(v4(&berta), 3);
        assert_eq!(take(&mut pool, 3, "clara"), None);
        pool.release(&anna);
        assert!(take(&mut pool, 3, "clara").is_some());
    }

    #[test]
    fn both_fixed_take_no_slot() {
        let mut pool = pool(1);
        let both = FixedAddresses { v6: Some("fd01::1/64".parse().unwrap()), ..fixed([192, 0, 2, 1]) };
        let mut lease = pool.lease(owner(1), Some("anna"), both).unwrap();
        pool.reserve(&mut lease);
        assert_eq!(pool.entry(&lease), None);
        let addresses: Vec<String> = lease.addresses().iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["192.0.2.1", "fd01::1"]);
        assert!(take(&mut pool, 2, "berta").is_some());
    }

    #[test]
    fn an_address_has_the_holders_of_all_endpoints() {
        let mut pool = pool(4);
        let [one, other] = [0, 1].map(|endpoint| LeaseOwner { endpoint, peer: PeerId(7) });
        let anna = pool.lease(one, Some("anna"), FixedAddresses::default()).unwrap();
        let mut berta = pool.lease(other, Some("berta"), fixed([10, 8, 0, 2])).unwrap();
        assert_eq!(pool.holders(&berta), BTreeSet::from([one]), "by the pool");
        assert!(pool.holders(&anna).is_empty(), "berta's is not held yet");
        pool.release(&anna);
        pool.reserve(&mut berta);
        // Outside the ranges, too.
        let mut clara = pool.lease(one, None, fixed([192, 0, 2, 1])).unwrap();
        pool.reserve(&mut clara);
        let dora = pool.lease(other, None, fixed([192, 0, 2, 1])).unwrap();
        assert_eq!(pool.holders(&dora), BTreeSet::from([one]));
        pool.release(&clara);
        pool.release(&dora);
        assert_eq!(pool.holders(&dora), BTreeSet::new());
        assert_eq!(pool.holders(&clara), BTreeSet::new());
    }
}
