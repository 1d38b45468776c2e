//! The addresses that a server gives its clients.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::params::ServerParams;

/// Names whose last address is remembered; the oldest are forgotten first.
const MAX_REMEMBERED: usize = 65_536;

/// The addresses of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) slot: u32,
    pub(crate) v4: Option<Ipv4Addr>,
    pub(crate) v6: Option<Ipv6Addr>,
}

/// Gives each client a slot: the same offset into the IPv4 and the IPv6 range. A name that returns gets its
/// old slot if it is free.
pub(crate) struct Pool {
    v4: Option<(u32, u32)>,
    v6: Option<(u128, u128)>,
    slots: u32,
    used: BTreeMap<u32, String>,
    remembered: BTreeMap<String, u32>,
    next: u32,
}

impl Pool {
    pub(crate) fn new(params: &ServerParams) -> Self {
        let v4 = params.pool4.map(|(first, last)| (u32::from(first), u32::from(last)));
        let v6 = params.pool6.map(|pool| (u128::from(pool.addr()), u128::from(pool.broadcast())));
        let room4 = v4.map_or(u32::MAX, |(first, last)| last.saturating_sub(first).saturating_add(1));
        let room6 = v6.map_or(u32::MAX, |(first, last)| {
            u32::try_from(last.saturating_sub(first).saturating_add(1)).unwrap_or(u32::MAX)
        });
        let slots = if v4.is_none() && v6.is_none() { 0 } else { room4.min(room6) };
        Pool { v4, v6, slots, used: BTreeMap::new(), remembered: BTreeMap::new(), next: 0 }
    }

    /// A slot for `name`; `None` when all are taken.
    pub(crate) fn take(&mut self, name: &str) -> Option<Lease> {
        let old = self.remembered.get(name).copied().filter(|slot| !self.used.contains_key(slot));
        let slot = old.or_else(|| self.free_slot())?;
        self.used.insert(slot, name.to_owned());
        if self.remembered.len() >= MAX_REMEMBERED {
            self.remembered.pop_first();
        }
        self.remembered.insert(name.to_owned(), slot);
        Some(self.lease(slot))
    }

    /// The slot is free again.
    pub(crate) fn release(&mut self, lease: Lease) {
        self.used.remove(&lease.slot);
    }

    fn free_slot(&mut self) -> Option<u32> {
        if self.used.len() >= usize::try_from(self.slots).unwrap_or(usize::MAX) {
            return None;
        }
        // Fresh slots first, so that a name that comes back finds its own.
        loop {
            let slot = self.next % self.slots;
            self.next = (slot + 1) % self.slots;
            if !self.used.contains_key(&slot) {
                return Some(slot);
            }
        }
    }

    fn lease(&self, slot: u32) -> Lease {
        Lease {
            slot,
            v4: self.v4.map(|(first, _)| Ipv4Addr::from(first + slot)),
            v6: self.v6.map(|(first, _)| Ipv6Addr::from(first + u128::from(slot))),
        }
    }
}
