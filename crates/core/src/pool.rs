//! The inner addresses that a tunnel gives its peers.
//!
//! A tunnel has one pool, whatever number of endpoints its peers come by. A lease therefore names its owner by endpoint
//! and peer, and the pool knows the holders of an address.

mod shared;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::Ipv6Net;
use serde::{Deserialize, Serialize};

pub use self::shared::{AddressKeeper, EndpointPool, Eviction, NameBinding, SharedPool};
use crate::PeerId;

/// Slots whose last name is remembered; further ones are not.
const MAX_REMEMBERED: usize = 65_536;

/// An address that a name was given from the pool, to be remembered over a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolEntry {
    /// The peer's name.
    pub name: String,
    /// Its IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// Its IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
}

/// The owner of a lease. Peers of one endpoint have numbers of their own, so the endpoint's number goes
/// before.
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
    /// The IPv6 addresses from this one to the last of its network, whose prefix length is sent to the peers.
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

/// Other addresses for a peer that has some. Of a family that is `None` they stay; `Some(None)` takes them away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressChange {
    /// Its IPv4 address.
    pub v4: Option<Option<Ipv4Addr>>,
    /// Its IPv6 address, with the prefix length that is sent to the peer.
    pub v6: Option<Option<Ipv6Net>>,
}

impl AddressChange {
    /// The addresses that it gives.
    pub fn given(&self) -> Vec<IpAddr> {
        let v6 = self.v6.flatten().map(|net| IpAddr::V6(net.addr()));
        self.v4.flatten().map(IpAddr::V4).into_iter().chain(v6).collect()
    }
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

    /// The addresses that the peer's settings name.
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
    /// The prefix length that is sent to the peers.
    prefix6: u8,
    slots: u32,
    /// Slots in use, by addresses of the pool or by fixed ones, and whose they are.
    used: BTreeMap<u32, LeaseOwner>,
    /// The owners of each address, and whether by their settings. Several may hold a fixed one, until all but one are
    /// removed.
    held: BTreeMap<(IpAddr, LeaseOwner), bool>,
    /// The names that had the slots last.
    names: BTreeMap<u32, String>,
    slot_of: BTreeMap<String, u32>,
    /// Addresses that are not leased, as peers of another protocol have them; and their slots.
    kept: BTreeSet<IpAddr>,
    kept_slots: BTreeSet<u32>,
    next: u32,
}

impl AddressPool {
    /// A pool of these ranges, which remembers the addresses that names had before. Of an entry that says both, IPv4
    /// goes before IPv6; addresses outside the ranges are forgotten.
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
            used: BTreeMap::new(),
            held: BTreeMap::new(),
            names: BTreeMap::new(),
            slot_of: BTreeMap::new(),
            kept: BTreeSet::new(),
            kept_slots: BTreeSet::new(),
            next: 0,
        };
        pool.remember_all(remembered);
        pool
    }

    /// Remembers the addresses that further names had before; addresses outside the ranges are forgotten.
    fn remember_all(&mut self, remembered: &[PoolEntry]) {
        for entry in remembered {
            if let Some(slot) = self.slot_of_entry(entry) {
                self.remember(&entry.name, slot);
            }
        }
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
        self.keep(other.kept.clone());
        self
    }

    /// Does not lease these addresses from now on, in place of those before: peers have them that lease none, as those of another
    /// protocol. A peer that leases one already keeps it until its lease is released.
    pub fn keep(&mut self, addresses: BTreeSet<IpAddr>) {
        self.kept_slots = addresses.iter().filter_map(|address| self.slot_of_address(*address)).collect();
        self.kept = addresses;
    }

    /// Whether an address is not leased, as a peer of another protocol has it ([`keep`](Self::keep)).
    pub fn is_kept(&self, address: IpAddr) -> bool {
        self.kept.contains(&address)
    }

    fn is_free(&self, slot: u32) -> bool {
        !self.used.contains_key(&slot) && !self.kept_slots.contains(&slot)
    }

    /// Takes over a lease that a pool with other ranges gave. Addresses outside of ours stay with their peer, and are given
    /// to no other.
    pub fn adopt(&mut self, lease: &mut Lease) {
        let addresses = lease.addresses();
        let fixed = lease.fixed();
        let held = addresses.iter().map(|address| ((*address, lease.owner), fixed.contains(address)));
        self.held.extend(held);
        let mut slots: Vec<u32> =
            addresses.into_iter().filter_map(|address| self.slot_of_address(address)).collect();
        slots.retain(|slot| self.take_slot(*slot, lease.owner));
        let from_pool = lease.slot.is_some();
        lease.slot = if from_pool && !slots.is_empty() { Some(slots.remove(0)) } else { None };
        lease.reserved = slots;
    }

    /// Leases addresses: the fixed ones, the others from the pool. A peer with a slot of the pool is remembered by `name`,
    /// if there is one. `None` when all slots are taken.
    ///
    /// The fixed addresses are not held before [`reserve`](Self::reserve) is called, so that [`holders`](Self::holders)
    /// can be read first.
    pub fn lease(&mut self, owner: LeaseOwner, name: Option<&str>, fixed: FixedAddresses) -> Option<Lease> {
        let wants4 = self.v4.is_some() && fixed.v4.is_none();
        let wants6 = self.v6.is_some() && fixed.v6.is_none();
        let mut lease = Lease { fixed, ..Lease::empty(owner) };
        if wants4 || wants6 || fixed == FixedAddresses::default() {
            let old = name.and_then(|name| self.slot_of.get(name).copied());
            let slot = old.filter(|slot| self.is_free(*slot)).or_else(|| self.free_slot())?;
            self.used.insert(slot, owner);
            if let Some(name) = name {
                self.remember(name, slot);
            }
            lease.slot = Some(slot);
            lease.v4 = self.v4_at(slot).filter(|_| wants4);
            lease.v6 = self.v6_at(slot).and_then(|address| Ipv6Net::new(address, self.prefix6).ok());
            lease.v6 = lease.v6.filter(|_| wants6);
            self.held.extend(lease.addresses().into_iter().map(|address| ((address, owner), false)));
        }
        lease.v4 = fixed.v4.or(lease.v4);
        lease.v6 = fixed.v6.or(lease.v6);
        Some(lease)
    }

    /// The other owners that hold an address of this lease, and whether one of these is theirs by their settings.
    pub fn holders(&self, lease: &Lease) -> BTreeMap<LeaseOwner, bool> {
        let mut holders = BTreeMap::new();
        for address in lease.addresses() {
            for (owner, fixed) in self.held_by(address) {
                *holders.entry(owner).or_default() |= fixed;
            }
        }
        holders.remove(&lease.owner);
        holders
    }

    /// An owner other than this one that holds an address.
    pub fn other_holder(&self, owner: LeaseOwner, address: IpAddr) -> Option<LeaseOwner> {
        self.held_by(address).map(|(holder, _)| holder).find(|holder| *holder != owner)
    }

    /// The owners that hold an address, and whether by their settings.
    fn held_by(&self, address: IpAddr) -> impl Iterator<Item = (LeaseOwner, bool)> {
        let [first, last] = [0, u32::MAX].map(PeerId);
        let from = (address, LeaseOwner { endpoint: 0, peer: first });
        let to = (address, LeaseOwner { endpoint: u16::MAX, peer: last });
        self.held.range(from..=to).map(|((_, owner), fixed)| (*owner, *fixed))
    }

    /// Gives the owner of a lease other addresses, which are its own by its settings from now on. Those that it had before are
    /// free again. [`other_holder`](Self::other_holder) says of each whether another has it.
    pub fn change(&mut self, lease: &mut Lease, change: AddressChange) {
        self.release(lease);
        if let Some(v4) = change.v4 {
            (lease.v4, lease.fixed.v4) = (v4, v4);
        }
        if let Some(v6) = change.v6 {
            (lease.v6, lease.fixed.v6) = (v6, v6);
        }
        self.adopt(lease);
    }

    /// Holds the fixed addresses of a lease, and keeps the pool from giving them to other peers.
    pub fn reserve(&mut self, lease: &mut Lease) {
        for address in lease.fixed() {
            self.held.insert((address, lease.owner), true);
            if let Some(slot) = self.slot_of_address(address)
                && self.take_slot(slot, lease.owner)
            {
                lease.reserved.push(slot);
            }
        }
    }

    /// The entry that is to be remembered of a lease: the addresses of its slot.
    pub fn entry(&self, lease: &Lease) -> Option<PoolEntry> {
        let slot = lease.slot?;
        let name = self.names.get(&slot)?.clone();
        Some(PoolEntry { name, ipv4: self.v4_at(slot), ipv6: self.v6_at(slot) })
    }

    /// The addresses of a lease are free again, as far as its owner has them still.
    pub fn release(&mut self, lease: &Lease) {
        for slot in lease.slot.iter().chain(&lease.reserved) {
            if self.used.get(slot) == Some(&lease.owner) {
                self.used.remove(slot);
            }
        }
        for address in lease.addresses() {
            self.held.remove(&(address, lease.owner));
        }
    }

    /// All that an owner has is free again.
    fn release_all(&mut self, owner: LeaseOwner) {
        self.used.retain(|_, other| *other != owner);
        self.held.retain(|(_, other), _| *other != owner);
    }

    /// Takes a slot that is free. False if it is taken.
    fn take_slot(&mut self, slot: u32, owner: LeaseOwner) -> bool {
        let is_free = !self.used.contains_key(&slot);
        if is_free {
            self.used.insert(slot, owner);
        }
        is_free
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
        let kept = self.kept_slots.iter().filter(|slot| !self.used.contains_key(slot)).count();
        if self.used.len() + kept >= usize::try_from(self.slots).unwrap_or(usize::MAX) {
            return None;
        }
        let from = self.next;
        let round = || (from..self.slots).chain(0..from);
        let free = |slot: &u32| self.is_free(*slot);
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
