//! One pool for all endpoints of a tunnel, each with a protocol and a thread of its own.
//!
//! Beside the addresses it knows which peer has which name, and for which peer a network was announced. A peer that takes
//! over from one of another endpoint has its addresses at once; the other endpoint finds the eviction when it asks next.
//! Nothing is called from here: the protocol that evicts emits [`crate::Event::LeasesMoved`], and the driver has the other
//! endpoints look.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;

use super::{AddressChange, AddressPool, FixedAddresses, Lease, LeaseOwner, PoolEntry, PoolRanges};
use crate::PeerId;

/// The pool of a tunnel before its endpoints have joined. Clones are the same pool.
#[derive(Clone, Default)]
pub struct SharedPool(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The pool; there from the first endpoint on.
    pool: Option<AddressPool>,
    /// Addresses that are not leased, by the number of their keeper.
    kept: BTreeMap<usize, BTreeSet<IpAddr>>,
    /// Endpoints that have joined so far.
    joined: u16,
    /// Endpoints that are there.
    present: BTreeSet<u16>,
    /// The owner of each name.
    by_name: BTreeMap<String, LeaseOwner>,
    name_of: BTreeMap<LeaseOwner, String>,
    /// Peers whose endpoints do not know yet that others took their addresses.
    evicted: BTreeMap<LeaseOwner, Eviction>,
    /// Networks that a script was notified of, each with the peer that they are behind.
    announced: BTreeMap<IpNet, LeaseOwner>,
}

impl State {
    /// The addresses of all keepers.
    fn all_kept(&self) -> BTreeSet<IpAddr> {
        self.kept.values().flatten().copied().collect()
    }

    /// Takes all from a peer of another endpoint.
    fn evict(&mut self, owner: LeaseOwner, eviction: Eviction) {
        if let Some(pool) = &mut self.pool {
            pool.release_all(owner);
        }
        self.forget_name(owner);
        self.evicted.insert(owner, eviction);
    }

    fn forget_name(&mut self, owner: LeaseOwner) {
        if let Some(name) = self.name_of.remove(&owner)
            && self.by_name.get(&name) == Some(&owner)
        {
            self.by_name.remove(&name);
        }
    }
}

/// Why a peer lost its addresses to one of another endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// A peer of another endpoint came up under the same name.
    Replaced,
    /// One of its addresses is fixed for the peer of that name, by that peer's settings.
    AddressOf(String),
}

/// The result of an attempt to [bind](EndpointPool::bind_name) a name to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameBinding {
    /// The name is the peer's.
    Granted,
    /// The name is the peer's, and a peer of another endpoint was evicted: the protocol emits
    /// [`crate::Event::LeasesMoved`].
    Moved,
    /// The peer was evicted itself: the name went to a later one. The protocol asks for its
    /// [evictions](EndpointPool::evictions).
    Lost,
}

/// The pool of a tunnel, as one of its endpoints has it. It leaves its peers' addresses when it is dropped.
pub struct EndpointPool {
    shared: SharedPool,
    endpoint: u16,
}

/// Keeps a pool from leasing the addresses of one endpoint's peers. Clones are the same keeper.
#[derive(Clone)]
pub struct AddressKeeper {
    shared: SharedPool,
    number: usize,
}

impl AddressKeeper {
    /// Has these addresses not leased, in place of those that the keeper kept before, whether an endpoint has joined the pool or not:
    /// see [`AddressPool::keep`]. The addresses of other keepers stay kept.
    pub fn keep(&self, addresses: BTreeSet<IpAddr>) {
        let mut state = self.shared.lock();
        state.kept.insert(self.number, addresses);
        let all = state.all_kept();
        if let Some(pool) = &mut state.pool {
            pool.keep(all);
        }
    }
}

impl SharedPool {
    /// Another endpoint's part in the pool. The first one's ranges hold; the addresses that names had before are
    /// remembered of each.
    pub fn join(&self, ranges: PoolRanges, remembered: &[PoolEntry]) -> EndpointPool {
        let mut state = self.lock();
        let kept = state.all_kept();
        match &mut state.pool {
            Some(pool) => pool.remember_all(remembered),
            none => none.insert(AddressPool::new(ranges, remembered)).keep(kept),
        }
        let endpoint = state.joined;
        state.joined = state.joined.saturating_add(1);
        state.present.insert(endpoint);
        drop(state);
        EndpointPool { shared: self.clone(), endpoint }
    }

    /// A keeper of addresses, for an endpoint whose peers have addresses without a lease.
    pub fn keeper(&self) -> AddressKeeper {
        let mut state = self.lock();
        let number = state.kept.len();
        state.kept.insert(number, BTreeSet::new());
        drop(state);
        AddressKeeper { shared: self.clone(), number }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is whole before anything can fail.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EndpointPool {
    /// The name by which the pool knows a peer.
    pub fn owner(&self, peer: PeerId) -> LeaseOwner {
        LeaseOwner { endpoint: self.endpoint, peer }
    }

    /// Whether an owner is a peer of this endpoint.
    pub fn is_own(&self, owner: LeaseOwner) -> bool {
        owner.endpoint == self.endpoint
    }

    /// Whether other endpoints use the pool now.
    pub fn has_others(&self) -> bool {
        self.shared.lock().present.len() > 1
    }

    /// The name is that peer's from now on; one of another endpoint that has it is evicted.
    pub fn bind_name(&self, peer: PeerId, name: &str) -> NameBinding {
        let (mut state, owner) = (self.shared.lock(), self.owner(peer));
        if state.evicted.contains_key(&owner) {
            return NameBinding::Lost;
        }
        let before = state.by_name.insert(name.to_owned(), owner);
        if state.name_of.get(&owner).is_some_and(|old| old != name) {
            state.forget_name(owner);
        }
        state.name_of.insert(owner, name.to_owned());
        match before.filter(|before| !self.is_own(*before)) {
            Some(before) => {
                state.evict(before, Eviction::Replaced);
                NameBinding::Moved
            }
            None => NameBinding::Granted,
        }
    }

    /// Evicts a peer of another endpoint that has an address which belongs to `name`. The protocol emits
    /// [`crate::Event::LeasesMoved`].
    pub fn evict(&self, owner: LeaseOwner, name: &str) {
        self.shared.lock().evict(owner, Eviction::AddressOf(name.to_owned()));
    }

    /// The peers of this endpoint that were evicted since it asked last.
    pub fn evictions(&self) -> Vec<(PeerId, Eviction)> {
        let mut state = self.shared.lock();
        let own = state.evicted.range(self.owner(PeerId(0))..=self.owner(PeerId(u32::MAX)));
        let own: Vec<_> = own.map(|(owner, why)| (*owner, why.clone())).collect();
        own.iter().for_each(|(owner, _)| drop(state.evicted.remove(owner)));
        own.into_iter().map(|(owner, why)| (owner.peer, why)).collect()
    }

    /// The name of an owner, if it is bound to one.
    pub fn name_of(&self, owner: LeaseOwner) -> Option<String> {
        self.shared.lock().name_of.get(&owner).cloned()
    }

    /// A peer is gone: its name is free, and it is evicted no more. Its lease is to be [released](Self::release).
    pub fn leave(&self, peer: PeerId) {
        let (mut state, owner) = (self.shared.lock(), self.owner(peer));
        state.forget_name(owner);
        state.evicted.remove(&owner);
    }

    /// Notes that a script is notified of these networks of a peer. Gives the networks that the script knew as those of
    /// a peer of another endpoint.
    pub fn announce(&self, peer: PeerId, networks: &[IpNet]) -> BTreeSet<IpNet> {
        let (mut state, owner) = (self.shared.lock(), self.owner(peer));
        let before = networks.iter().filter_map(|network| {
            let before = state.announced.insert(*network, owner)?;
            (!self.is_own(before)).then_some(*network)
        });
        before.collect()
    }

    /// The peer has a network no more. True if the network was last announced to the script for this peer.
    pub fn withdraw(&self, peer: PeerId, network: &IpNet) -> bool {
        let (mut state, owner) = (self.shared.lock(), self.owner(peer));
        let is_last = state.announced.get(network) == Some(&owner);
        if is_last {
            state.announced.remove(network);
        }
        is_last
    }

    /// See [`AddressPool::lease`].
    pub fn lease(&self, peer: PeerId, name: Option<&str>, fixed: FixedAddresses) -> Option<Lease> {
        self.with(|pool| pool.lease(self.owner(peer), name, fixed)).flatten()
    }

    /// See [`AddressPool::holders`].
    pub fn holders(&self, lease: &Lease) -> BTreeMap<LeaseOwner, bool> {
        self.with(|pool| pool.holders(lease)).unwrap_or_default()
    }

    /// See [`AddressPool::other_holder`].
    pub fn other_holder(&self, peer: PeerId, address: IpAddr) -> Option<LeaseOwner> {
        self.with(|pool| pool.other_holder(self.owner(peer), address)).flatten()
    }

    /// See [`AddressPool::is_kept`].
    pub fn is_kept(&self, address: IpAddr) -> bool {
        self.with(|pool| pool.is_kept(address)).unwrap_or_default()
    }

    /// See [`AddressPool::change`].
    pub fn change(&self, lease: &mut Lease, change: AddressChange) {
        self.with(|pool| pool.change(lease, change));
    }

    /// See [`AddressPool::reserve`].
    pub fn reserve(&self, lease: &mut Lease) {
        self.with(|pool| pool.reserve(lease));
    }

    /// See [`AddressPool::entry`].
    pub fn entry(&self, lease: &Lease) -> Option<PoolEntry> {
        self.with(|pool| pool.entry(lease)).flatten()
    }

    /// See [`AddressPool::release`].
    pub fn release(&self, lease: &Lease) {
        self.with(|pool| pool.release(lease));
    }

    /// Other ranges in place of those there are; the leases, all of this endpoint, move over. False, and nothing
    /// changes, while other endpoints use the pool.
    pub fn set_ranges<'a>(&self, ranges: PoolRanges, leases: impl Iterator<Item = &'a mut Lease>) -> bool {
        if self.has_others() {
            return false;
        }
        self.with(|pool| {
            *pool = AddressPool::new(ranges, &[]).in_place_of(pool);
            leases.for_each(|lease| pool.adopt(lease));
        });
        true
    }

    /// The pool is there since this endpoint joined.
    fn with<T>(&self, act: impl FnOnce(&mut AddressPool) -> T) -> Option<T> {
        self.shared.lock().pool.as_mut().map(act)
    }
}

impl Drop for EndpointPool {
    fn drop(&mut self) {
        let (mut state, endpoint) = (self.shared.lock(), self.endpoint);
        let own = |owner: &LeaseOwner| owner.endpoint == endpoint;
        state.present.remove(&endpoint);
        state.by_name.retain(|_, owner| !own(owner));
        state.name_of.retain(|owner, _| !own(owner));
        state.evicted.retain(|owner, _| !own(owner));
        state.announced.retain(|_, owner| !own(owner));
        if let Some(pool) = &mut state.pool {
            pool.used.retain(|_, owner| !own(owner));
            pool.held.retain(|(_, owner), _| !own(owner));
        }
    }
}
