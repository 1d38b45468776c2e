//! Longest-prefix match from inner addresses to peers.

use std::collections::{BTreeMap, BTreeSet};

use adit_core::IpNet;

use crate::headers::Address;

/// The prefixes of one length.
#[derive(Clone, Debug)]
struct Level<A> {
    mask: A,
    entries: BTreeMap<A, u32>,
}

/// Routes of both families. Values are slots of peers. A change costs the same however many routes others have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    /// Longest prefix first.
    v4: Vec<Level<u32>>,
    /// Longest prefix first.
    v6: Vec<Level<u128>>,
    /// The prefixes of each slot.
    owned: BTreeMap<u32, BTreeSet<IpNet>>,
}

impl Routes {
    /// Adds a route; one with the same prefix is replaced, whichever slot it had.
    pub(crate) fn insert(&mut self, net: IpNet, slot: u32) {
        let net = net.trunc();
        let before = match net {
            IpNet::V4(net) => insert(&mut self.v4, u32::from(net.netmask()), u32::from(net.network()), slot),
            IpNet::V6(net) => {
                insert(&mut self.v6, u128::from(net.netmask()), u128::from(net.network()), slot)
            }
        };
        if let Some(before) = before.filter(|before| *before != slot) {
            self.disown(before, &net);
        }
        self.owned.entry(slot).or_default().insert(net);
    }

    /// Removes a route of that slot; one that another slot has by now stays.
    pub(crate) fn delete(&mut self, net: IpNet, slot: u32) {
        let net = net.trunc();
        if self.disown(slot, &net) {
            self.unroute(net);
        }
    }

    /// Removes all routes of that slot.
    pub(crate) fn remove(&mut self, slot: u32) {
        for net in self.owned.remove(&slot).unwrap_or_default() {
            self.unroute(net);
        }
    }

    /// That slot has these routes and no others.
    pub(crate) fn replace(&mut self, slot: u32, nets: impl IntoIterator<Item = IpNet>) {
        self.remove(slot);
        for net in nets {
            self.insert(net, slot);
        }
    }

    /// The slot whose prefix that address is in.
    #[inline]
    pub(crate) fn lookup(&self, address: Address) -> Option<u32> {
        match address {
            Address::V4(address) => lookup(&self.v4, address),
            Address::V6(address) => lookup(&self.v6, address),
        }
    }

    /// Whether the slot had it.
    fn disown(&mut self, slot: u32, net: &IpNet) -> bool {
        let Some(nets) = self.owned.get_mut(&slot) else { return false };
        let had = nets.remove(net);
        if nets.is_empty() {
            self.owned.remove(&slot);
        }
        had
    }

    fn unroute(&mut self, net: IpNet) {
        match net {
            IpNet::V4(net) => remove(&mut self.v4, u32::from(net.netmask()), u32::from(net.network())),
            IpNet::V6(net) => remove(&mut self.v6, u128::from(net.netmask()), u128::from(net.network())),
        }
    }
}

/// Gives the slot that had the prefix.
fn insert<A: Copy + Ord>(levels: &mut Vec<Level<A>>, mask: A, address: A, slot: u32) -> Option<u32> {
    let level = match find(levels, mask) {
        Ok(found) => found,
        Err(place) => {
            levels.insert(place, Level { mask, entries: BTreeMap::new() });
            place
        }
    };
    levels[level].entries.insert(address, slot)
}

fn remove<A: Copy + Ord>(levels: &mut Vec<Level<A>>, mask: A, address: A) {
    let Ok(level) = find(levels, mask) else { return };
    levels[level].entries.remove(&address);
    if levels[level].entries.is_empty() {
        levels.remove(level);
    }
}

/// Where the level of a mask is, or would be: a greater mask is a longer prefix, and those come first.
fn find<A: Copy + Ord>(levels: &[Level<A>], mask: A) -> Result<usize, usize> {
    levels.binary_search_by(|level| mask.cmp(&level.mask))
}

#[inline]
fn lookup<A>(levels: &[Level<A>], address: A) -> Option<u32>
where
    A: Copy + Ord + std::ops::BitAnd<Output = A>,
{
    levels.iter().find_map(|level| level.entries.get(&(address & level.mask)).copied())
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
            deleted in proptest::collection::vec((net(), 0u32..5), 0..20),
            removed in proptest::option::of(0u32..5),
            probes in proptest::collection::vec(net(), 1..40),
        ) {
            let mut routes = Routes::default();
            let mut naive: Vec<(IpNet, u32)> = Vec::new();
            for (net, slot) in inserts {
                routes.insert(net, slot);
                naive.retain(|(other, _)| *other != net.trunc());
                naive.push((net.trunc(), slot));
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
                let expected = naive
                    .iter()
                    .filter(|(net, _)| net.contains(&probe.addr()))
                    .max_by_key(|(net, _)| net.prefix_len())
                    .map(|(_, slot)| *slot);
                prop_assert_eq!(routes.lookup(address(&probe)), expected);
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
        routes.replace(1, [prefix]);
        assert_eq!(routes.lookup(inside), Some(1));
        routes.delete(prefix, 1);
        assert_eq!((routes.lookup(inside), routes.owned.len()), (None, 0));
    }
}
