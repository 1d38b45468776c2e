//! Longest-prefix match from inner addresses to peers.

use adit_core::IpNet;

use crate::headers::Address;

/// The prefixes of one length, sorted by address.
#[derive(Clone, Debug)]
struct Level<A> {
    mask: A,
    entries: Vec<(A, u32)>,
}

/// Routes of both families. Values are slots of peers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    /// Longest prefix first.
    v4: Vec<Level<u32>>,
    /// Longest prefix first.
    v6: Vec<Level<u128>>,
}

impl Routes {
    /// Adds a route; one with the same prefix is replaced, whosever it was.
    pub(crate) fn insert(&mut self, net: IpNet, slot: u32) {
        match net.trunc() {
            IpNet::V4(net) => insert(&mut self.v4, u32::from(net.netmask()), u32::from(net.network()), slot),
            IpNet::V6(net) => {
                insert(&mut self.v6, u128::from(net.netmask()), u128::from(net.network()), slot)
            }
        }
    }

    /// Removes all routes of that peer.
    pub(crate) fn remove(&mut self, slot: u32) {
        remove(&mut self.v4, slot);
        remove(&mut self.v6, slot);
    }

    /// The peer behind which that address is.
    #[inline]
    pub(crate) fn lookup(&self, address: Address) -> Option<u32> {
        match address {
            Address::V4(address) => lookup(&self.v4, address),
            Address::V6(address) => lookup(&self.v6, address),
        }
    }
}

fn insert<A: Copy + Ord>(levels: &mut Vec<Level<A>>, mask: A, address: A, slot: u32) {
    // A greater mask is a longer prefix: keep descending order.
    let level = match levels.binary_search_by(|level| mask.cmp(&level.mask)) {
        Ok(found) => found,
        Err(place) => {
            levels.insert(place, Level { mask, entries: Vec::new() });
            place
        }
    };
    let entries = &mut levels[level].entries;
    match entries.binary_search_by_key(&address, |(address, _)| *address) {
        Ok(found) => entries[found].1 = slot,
        Err(place) => entries.insert(place, (address, slot)),
    }
}

fn remove<A>(levels: &mut Vec<Level<A>>, slot: u32) {
    for level in levels.iter_mut() {
        level.entries.retain(|(_, owner)| *owner != slot);
    }
    levels.retain(|level| !level.entries.is_empty());
}

#[inline]
fn lookup<A>(levels: &[Level<A>], address: A) -> Option<u32>
where
    A: Copy + Ord + std::ops::BitAnd<Output = A>,
{
    levels.iter().find_map(|level| {
        let wanted = address & level.mask;
        let found = level.entries.binary_search_by_key(&wanted, |(address, _)| *address).ok()?;
        Some(level.entries[found].1)
    })
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
}
