//! The pools of an endpoint, and the instances of connections that give inner addresses of them.

use std::collections::{BTreeMap, BTreeSet};

use adit_core::{EndpointPool, Lease, PeerId, PoolRanges, SharedPool};

use super::connections::Connections;
use super::peer::Peers;
use crate::wire::Identification;

/// Most instances of a connection with one identity.
const MAX_OF_IDENTITY: usize = 16;

/// The pools of an endpoint, and the instances of its connections.
#[derive(Default)]
pub(crate) struct Pools {
    /// The tunnel's pool, for the first ranges.
    tunnel: SharedPool,
    pools: Vec<(PoolRanges, EndpointPool)>,
    /// The instances of a connection, by identity.
    instances: BTreeMap<usize, BTreeMap<Identification, BTreeSet<usize>>>,
    /// The connection and the identity of an instance.
    owners: BTreeMap<usize, (usize, Identification)>,
    /// The number of the last instance. Numbers are not used again soon: the data plane may still say something about a peer that is
    /// gone.
    last: usize,
}

impl Pools {
    /// Pools of which the first one is that of the tunnel.
    pub(crate) fn with_tunnel(tunnel: SharedPool) -> Self {
        Pools { tunnel, ..Pools::default() }
    }

    pub(super) fn of(&mut self, ranges: PoolRanges) -> &EndpointPool {
        let place = self.pools.iter().position(|(own, _)| *own == ranges);
        let place = place.unwrap_or_else(|| {
            let shared = if self.pools.is_empty() { self.tunnel.clone() } else { SharedPool::default() };
            self.pools.push((ranges, shared.join(ranges, &[])));
            self.pools.len() - 1
        });
        &self.pools[place].1
    }

    /// The instances of a connection with that identity.
    pub(crate) fn instances(&self, connection: usize, identity: &Identification) -> Vec<usize> {
        let of = self.instances.get(&connection).and_then(|of| of.get(identity));
        of.into_iter().flatten().copied().collect()
    }

    /// All instances of a connection.
    pub(crate) fn all_instances(&self, connection: usize) -> Vec<usize> {
        self.instances.get(&connection).into_iter().flat_map(|of| of.values().flatten()).copied().collect()
    }

    /// Adds an instance of a connection. `None`: the identity has too many, or there is no number.
    pub(super) fn add(
        &mut self,
        connection: usize,
        identity: &Identification,
        connections: &Connections,
        peers: &Peers,
    ) -> Option<usize> {
        let of = self.instances.entry(connection).or_default().entry(identity.clone()).or_default();
        if of.len() >= MAX_OF_IDENTITY {
            return None;
        }
        let mut numbers = connections.numbers_of_instances(connection, self.last);
        let number = numbers.find(|number| !peers.contains_key(number))?;
        of.insert(number);
        self.last = number;
        self.owners.insert(number, (connection, identity.clone()));
        Some(number)
    }

    /// Forgets an instance, whose address is free from now on.
    pub(crate) fn remove(&mut self, number: usize, lease: Option<&Lease>) {
        if let Some((connection, identity)) = self.owners.remove(&number)
            && let Some(of) = self.instances.get_mut(&connection)
            && let Some(numbers) = of.get_mut(&identity)
        {
            numbers.remove(&number);
            if numbers.is_empty() {
                of.remove(&identity);
            }
        }
        for (_, pool) in &self.pools {
            lease.into_iter().for_each(|lease| pool.release(lease));
            pool.leave(PeerId(number as u32));
        }
    }

    /// The peers that peers of other endpoints have taken the place of.
    pub(crate) fn evicted(&self) -> Vec<usize> {
        let all = self.pools.iter().flat_map(|(_, pool)| pool.evictions());
        all.map(|(peer, _)| peer.0 as usize).collect()
    }
}
