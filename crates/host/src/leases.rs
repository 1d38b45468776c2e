//! The leases of a tunnel's pool that are remembered.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use adit_core::PoolEntry;

/// The owners of the addresses of a tunnel's pool. Clones are the same: the endpoints of a tunnel remember together, in one file or
/// in one each.
#[derive(Clone, Default)]
pub struct Leases(Arc<Mutex<Entries>>);

/// The leases by their addresses.
#[derive(Default)]
pub struct Entries {
    by_address: BTreeMap<(Option<Ipv4Addr>, Option<Ipv6Addr>), PoolEntry>,
    changes: u64,
}

impl Entries {
    /// Notes a lease. An address has one owner, and a name one address.
    pub fn note(&mut self, entry: PoolEntry) {
        let key = (entry.ipv4, entry.ipv6);
        if self.by_address.get(&key) == Some(&entry) {
            return;
        }
        self.by_address.retain(|_, other| other.name != entry.name);
        self.by_address.insert(key, entry);
        self.changes += 1;
    }

    /// All leases, by their addresses.
    pub fn all(&self) -> Vec<PoolEntry> {
        self.by_address.values().cloned().collect()
    }

    /// Whether there is no lease.
    pub fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    /// The number of changes so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }
}

impl Leases {
    /// The leases, as long as the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
