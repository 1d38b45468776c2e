//! Longest-prefix match from inner addresses to peers.
//!
//! A prefix leads to one peer, the last that had it. Peers with selectors share prefixes: their selectors say whose a packet is.

use std::collections::{BTreeMap, BTreeSet};

use adit_core::IpNet;

use crate::counters::DropReason;
use crate::headers::Address;

/// The prefixes of one length.
#[derive(Clone, Debug)]
struct Level<A, V> {
    mask: A,
    entries: BTreeMap<A, V>,
}

/// Prefixes of both families, each with a value. Longest prefix first.
#[derive(Clone, Debug)]
struct Prefixes<V> {
    v4: Vec<Level<u32, V>>,
    v6: Vec<Level<u128, V>>,
}

impl<V> Default for Prefixes<V> {
    fn default() -> Self {
        Prefixes { v4: Vec::new(), v6: Vec::new() }
    }
}

/// Routes of both families. Values are slots of peers. A change costs the same however many routes others have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    /// The prefixes of peers without selectors.
    own: Prefixes<u32>,
    /// The prefixes of peers with selectors, in the order in which they came.
    shared: Prefixes<Vec<u32>>,
    /// The slots of peers with selectors.
    sharing: BTreeSet<u32>,
    /// The prefixes of each slot, behind its number.
    owned: BTreeSet<(u32, IpNet)>,
}

impl Routes {
    /// Adds a route. One with the same prefix is replaced, whichever slot it had, unless both slots share prefixes.
    pub(crate) fn insert(&mut self, net: IpNet, slot: u32) {
        let net = net.trunc();
        if self.sharing.contains(&slot) {
            let slots = self.shared.entry(net);
            if !slots.contains(&slot) {
                slots.push(slot);
            }
        } else if let Some(before) = self.own.insert(net, slot).filter(|before| *before != slot) {
            self.disown(before, &net);
        }
        self.owned.insert((slot, net));
    }

    /// Removes a route of that slot; one that another slot has by now stays.
    pub(crate) fn delete(&mut self, net: IpNet, slot: u32) {
        let net = net.trunc();
        if self.disown(slot, &net) {
            self.unroute(net, slot);
        }
    }

    /// Removes all routes of that slot.
    pub(crate) fn remove(&mut self, slot: u32) {
        while let Some(net) = self.first_of(slot) {
            self.owned.remove(&(slot, net));
            self.unroute(net, slot);
        }
        self.sharing.remove(&slot);
    }

    /// Gives a slot these routes and no others. `shares`: its peer has selectors.
    pub(crate) fn replace(&mut self, slot: u32, nets: impl IntoIterator<Item = IpNet>, shares: bool) {
        self.remove(slot);
        if shares {
            self.sharing.insert(slot);
        }
        for net in nets {
            self.insert(net, slot);
        }
    }

    /// Whether there are peers with selectors. If not, [`Routes::lookup`] finds the slot that
    /// [`Routes::find`] does.
    #[inline]
    pub(crate) fn are_shared(&self) -> bool {
        !self.sharing.is_empty()
    }

    /// Whether the longest prefix that has the address leads to the slot, or a prefix of peers with selectors at least as long.
    pub(crate) fn lead_to(&self, address: Address, slot: u32) -> bool {
        match address {
            Address::V4(address) => leads(&self.own.v4, &self.shared.v4, address, slot),
            Address::V6(address) => leads(&self.own.v6, &self.shared.v6, address, slot),
        }
    }

    /// The slot whose prefix that address is in, of those without selectors, or with selectors that select the packet.
    pub(crate) fn find(&self, address: Address, selects: impl FnMut(u32) -> bool) -> Result<u32, DropReason> {
        match address {
            Address::V4(address) => find(&self.own.v4, &self.shared.v4, address, selects),
            Address::V6(address) => find(&self.own.v6, &self.shared.v6, address, selects),
        }
    }

    /// The slot without selectors whose prefix that address is in.
    #[inline]
    pub(crate) fn lookup(&self, address: Address) -> Option<u32> {
        match address {
            Address::V4(address) => lookup(&self.own.v4, address),
            Address::V6(address) => lookup(&self.own.v6, address),
        }
    }

    /// Whether the slot had it.
    fn disown(&mut self, slot: u32, net: &IpNet) -> bool {
        self.owned.remove(&(slot, *net))
    }

    /// The first prefix of the slot, in the order of prefixes.
    fn first_of(&self, slot: u32) -> Option<IpNet> {
        let (of, net) = self.owned.range((slot, IpNet::default())..).next()?;
        (*of == slot).then_some(*net)
    }

    fn unroute(&mut self, net: IpNet, slot: u32) {
        if !self.sharing.contains(&slot) {
            return self.own.remove(net);
        }
        let slots = self.shared.entry(net);
        slots.retain(|other| *other != slot);
        if slots.is_empty() {
            self.shared.remove(net);
        }
    }
}

impl<V> Prefixes<V> {
    /// Gives the value that the prefix had.
    fn insert(&mut self, net: IpNet, value: V) -> Option<V> {
        match net {
            IpNet::V4(net) => {
                level(&mut self.v4, u32::from(net.netmask())).insert(u32::from(net.network()), value)
            }
            IpNet::V6(net) => {
                level(&mut self.v6, u128::from(net.netmask())).insert(u128::from(net.network()), value)
            }
        }
    }

    fn remove(&mut self, net: IpNet) {
        match net {
            IpNet::V4(net) => remove(&mut self.v4, u32::from(net.netmask()), u32::from(net.network())),
            IpNet::V6(net) => remove(&mut self.v6, u128::from(net.netmask()), u128::from(net.network())),
        }
    }
}

impl<V: Default> Prefixes<V> {
    /// The value of the prefix, the default one if it is new.
    fn entry(&mut self, net: IpNet) -> &mut V {
        match net {
            IpNet::V4(net) => {
                level(&mut self.v4, u32::from(net.netmask())).entry(u32::from(net.network())).or_default()
            }
            IpNet::V6(net) => {
                level(&mut self.v6, u128::from(net.netmask())).entry(u128::from(net.network())).or_default()
            }
        }
    }
}

/// The prefixes with that mask.
fn level<A: Copy + Ord, V>(levels: &mut Vec<Level<A, V>>, mask: A) -> &mut BTreeMap<A, V> {
    let level = match place(levels, mask) {
        Ok(found) => found,
        Err(place) => {
            levels.insert(place, Level { mask, entries: BTreeMap::new() });
            place
        }
    };
    &mut levels[level].entries
}

fn remove<A: Copy + Ord, V>(levels: &mut Vec<Level<A, V>>, mask: A, address: A) {
    let Ok(level) = place(levels, mask) else { return };
    levels[level].entries.remove(&address);
    if levels[level].entries.is_empty() {
        levels.remove(level);
    }
}

/// Where the level of a mask is, or would be: a greater mask is a longer prefix, and those come first.
fn place<A: Copy + Ord, V>(levels: &[Level<A, V>], mask: A) -> Result<usize, usize> {
    levels.binary_search_by(|level| mask.cmp(&level.mask))
}

#[inline]
fn lookup<A>(levels: &[Level<A, u32>], address: A) -> Option<u32>
where
    A: Copy + Ord + std::ops::BitAnd<Output = A>,
{
    levels.iter().find_map(|level| level.entries.get(&(address & level.mask)).copied())
}

/// The mask and the slot of the longest prefix.
fn owner<A>(own: &[Level<A, u32>], address: A) -> Option<(A, u32)>
where
    A: Copy + Ord + std::ops::BitAnd<Output = A>,
{
    own.iter().find_map(|level| Some((level.mask, *level.entries.get(&(address & level.mask))?)))
}

/// The slots of each shared prefix that is at least as long as the owner's, the longest prefix first.
fn sharers<A>(
    shared: &[Level<A, Vec<u32>>],
    address: A,
    owner: Option<(A, u32)>,
) -> impl Iterator<Item = &Vec<u32>>
where
    A: Copy + Ord + std::ops::BitAnd<Output = A>,
{
    let longer = shared.iter().take_while(move |level| owner.is_none_or(|(mask, _)| level.mask >= mask));
    longer.filter_map(move |level| level.entries.get(&(address & level.mask)))
}

/// The slot with the longest prefix. Of one prefix, those that select the packet come before the one without selectors.
fn find<A>(
    own: &[Level<A, u32>],
    shared: &[Level<A, Vec<u32>>],
    address: A,
    mut selects: impl FnMut(u32) -> bool,
) -> Result<u32, DropReason>
where
    A: Copy + Ord + std::ops::BitAnd<Output = A>,
{
    let owner = owner(own, address);
    let mut refused = DropReason::NoRoute;
    for slots in sharers(shared, address, owner) {
        if let Some(slot) = slots.iter().copied().find(|slot| selects(*slot)) {
            return Ok(slot);
        }
        refused = DropReason::NotSelected;
    }
    owner.map(|(_, slot)| slot).ok_or(refused)
}

/// Whether the longest prefix leads to the slot, or a shared one that is at least as long.
fn leads<A>(own: &[Level<A, u32>], shared: &[Level<A, Vec<u32>>], address: A, slot: u32) -> bool
where
    A: Copy + Ord + std::ops::BitAnd<Output = A>,
{
    let owner = owner(own, address);
    owner.is_some_and(|(_, owner)| owner == slot)
        || sharers(shared, address, owner).any(|slots| slots.contains(&slot))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn net() -> impl Strategy<Value = IpNet> {
        // Few bits, so that prefixes overlap often.
        let v4 = (any::<u8>(), 0u8..=32).prop_map(|(bits, len)| {
            IpNet::new(IpAddr::V4(Ipv4Addr::new(10, bits & 0x81, bits & 0x42, bits)), len)
                .expect("length fits")
        });
        let v6 = (any::<u8>(), 0u8..=128).prop_map(|(bits, len)| {
            let address = Ipv6Addr::new(0xfd00, u16::from(bits & 3), 0, 0, 0, 0, 0, u16::from(bits));
            IpNet::new(IpAddr::V6(address), len).expect("length fits")
        });
        prop_oneof![v4, v6]
    }

    fn address(net: &IpNet) -> Address {
        match net.addr() {
            IpAddr::V4(address) => Address::V4(address.into()),
            IpAddr::V6(address) => Address::V6(address.into()),
        }
    }

    proptest! {
        #[test]
        fn equals_a_scan_of_all(
            inserts in proptest::collection::vec((net(), 0u32..5), 0..60),
            sharing in proptest::collection::btree_set(0u32..5, 0..4),
            selecting in proptest::collection::btree_set(0u32..5, 0..4),
            deleted in proptest::collection::vec((net(), 0u32..5), 0..20),
            removed in proptest::option::of(0u32..5),
            probes in proptest::collection::vec(net(), 1..40),
        ) {
            let mut routes = Routes::default();
            let mut naive: Vec<(IpNet, u32)> = Vec::new();
            let shares = |slot: &u32| sharing.contains(slot);
            sharing.iter().for_each(|slot| routes.replace(*slot, [], true));
            for (net, slot) in inserts {
                routes.insert(net, slot);
                let net = net.trunc();
                let is_replaced = |(other, before): &(IpNet, u32)| {
                    *other == net && (*before == slot || !shares(before) && !shares(&slot))
                };
                if !shares(&slot) || !naive.contains(&(net, slot)) {
                    naive.retain(|entry| !is_replaced(entry));
                    naive.push((net, slot));
                }
            }
            for (net, slot) in deleted {
                routes.delete(net, slot);
                naive.retain(|other| *other != (net.trunc(), slot));
            }
            if let Some(slot) = removed {
                routes.remove(slot);
                naive.retain(|(_, owner)| *owner != slot);
            }
            for probe in probes {
                let candidates = || naive.iter().filter(|(net, _)| net.contains(&probe.addr()));
                let found = candidates()
                    .filter(|(_, slot)| !shares(slot) || selecting.contains(slot))
                    .rev()
                    .max_by_key(|(net, slot)| (net.prefix_len(), shares(slot)))
                    .map(|(_, slot)| *slot);
                let refused = match candidates().any(|(_, slot)| shares(slot)) {
                    true => DropReason::NotSelected,
                    false => DropReason::NoRoute,
                };
                prop_assert_eq!(routes.find(address(&probe), |slot| selecting.contains(&slot)), found.ok_or(refused));
                for slot in 0..5 {
                    let alone = routes.find(address(&probe), |other| other == slot);
                    prop_assert_eq!(routes.lead_to(address(&probe), slot), alone == Ok(slot));
                }
            }
        }
    }

    #[test]
    fn a_prefix_moves_from_one_peer_to_another() {
        let prefix: IpNet = "10.1.0.0/16".parse().expect("a prefix");
        let inside = Address::V4(0x0a01_0203);
        let mut routes = Routes::default();
        routes.insert(prefix, 1);
        routes.insert(prefix, 2);
        assert_eq!(routes.lookup(inside), Some(2));
        routes.delete(prefix, 1);
        routes.remove(1);
        assert_eq!(routes.lookup(inside), Some(2), "it is not the first one's any more");
        routes.replace(1, [prefix], false);
        assert_eq!(routes.lookup(inside), Some(1));
        routes.delete(prefix, 1);
        assert_eq!((routes.lookup(inside), routes.owned.len()), (None, 0));
    }

    #[test]
    fn peers_with_selectors_share_a_prefix() {
        let prefix: IpNet = "10.1.0.0/16".parse().expect("a prefix");
        let wider: IpNet = "10.0.0.0/8".parse().expect("a prefix");
        let inside = Address::V4(0x0a01_0203);
        let mut routes = Routes::default();
        routes.replace(1, [prefix], true);
        routes.replace(2, [prefix], true);
        assert_eq!(routes.find(inside, |_| true), Ok(1), "the first");
        assert_eq!(routes.find(inside, |slot| slot == 2), Ok(2));
        assert_eq!(routes.find(inside, |_| false), Err(DropReason::NotSelected));
        assert_eq!(routes.find(Address::V4(0x0b00_0000), |_| true), Err(DropReason::NoRoute));
        routes.replace(3, [wider], false);
        assert_eq!(routes.find(inside, |_| false), Ok(3), "one without selectors takes what they leave");
        routes.replace(2, [prefix], false);
        assert_eq!(routes.find(inside, |slot| slot == 2), Ok(2));
        routes.remove(1);
        routes.remove(2);
        assert_eq!(routes.find(inside, |_| true), Ok(3));
        assert!(routes.shared.v4.is_empty() && routes.sharing.is_empty());
    }
}
