//! The index of connections, by the values by which a responder looks for one: addresses, identities, and the kinds of first requests
//! that they take. No look-up walks connections that differ in no more than their names, identities and children.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use adit_core::IpNet;

use crate::machine::params::Connection;
use crate::suite::Algorithms;
use crate::wire::{IdType, Identification};

/// The values of a connection that decide on first requests from addresses that it does not initiate to. Many connections have the
/// same.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    sources: Vec<IpNet>,
    ike: Vec<Algorithms>,
    has_ppk: bool,
    offers_full_transcript: bool,
    announced: Vec<u8>,
    requested: Vec<[u8; 20]>,
}

impl Kind {
    fn of(connection: &Connection) -> Self {
        Kind {
            sources: connection.sources.clone(),
            ike: connection.ike.clone(),
            has_ppk: connection.ppk.is_some(),
            offers_full_transcript: connection.full_transcript.is_offered(),
            announced: connection.remote_auth.announced().encode(),
            requested: connection.remote_auth.requested().to_vec(),
        }
    }
}

/// The numbers of connections, by the values that they are looked up by.
#[derive(Default)]
pub(super) struct Index {
    /// By the addresses that they initiate to.
    at: BTreeMap<IpAddr, BTreeSet<usize>>,
    /// By the only identity that they accept.
    exact: BTreeMap<Identification, BTreeSet<usize>>,
    /// Those that accept several identities.
    patterns: BTreeSet<usize>,
    /// The connections of each kind, by the lowest number of the kind.
    members: BTreeMap<usize, BTreeSet<usize>>,
    /// The lowest number of each kind.
    kinds: BTreeMap<Kind, usize>,
}

impl Index {
    /// Adds a connection, whose number is higher than those before.
    pub(super) fn add(&mut self, number: usize, connection: &Connection) {
        for remote in &connection.remotes {
            self.at.entry(remote.ip().to_canonical()).or_default().insert(number);
        }
        match connection.remote_auth.identity.exact() {
            Some(identity) => self.exact.entry(folded(identity)).or_default().insert(number),
            None => self.patterns.insert(number),
        };
        let first = *self.kinds.entry(Kind::of(connection)).or_insert(number);
        self.members.entry(first).or_default().insert(number);
    }

    /// Removes a connection that was added.
    pub(super) fn remove(&mut self, number: usize, connection: &Connection) {
        for remote in &connection.remotes {
            remove_from(&mut self.at, &remote.ip().to_canonical(), number);
        }
        match connection.remote_auth.identity.exact() {
            Some(identity) => remove_from(&mut self.exact, &folded(identity), number),
            None => drop(self.patterns.remove(&number)),
        }
        let kind = Kind::of(connection);
        let of_kind = self.kinds.remove(&kind).and_then(|first| self.members.remove(&first));
        let Some(mut members) = of_kind else { return };
        members.remove(&number);
        if let Some(first) = members.first().copied() {
            self.kinds.insert(kind, first);
            self.members.insert(first, members);
        }
    }

    /// The connections that initiate to an address, in order.
    pub(super) fn at(&self, address: IpAddr) -> impl Iterator<Item = usize> {
        self.at.get(&address.to_canonical()).into_iter().flatten().copied()
    }

    /// The connections that may accept an identity, in order.
    pub(super) fn named(&self, identity: &Identification) -> Vec<usize> {
        let exact = self.exact.get(&folded(identity)).into_iter().flatten();
        let mut all: Vec<usize> = exact.chain(&self.patterns).copied().collect();
        all.sort_unstable();
        all
    }

    /// The first connection of each kind, in order.
    pub(super) fn first_of_kinds(&self) -> impl Iterator<Item = usize> {
        self.members.keys().copied()
    }
}

fn remove_from<K: Ord>(all: &mut BTreeMap<K, BTreeSet<usize>>, key: &K, number: usize) {
    let Some(numbers) = all.get_mut(key) else { return };
    numbers.remove(&number);
    if numbers.is_empty() {
        all.remove(key);
    }
}

/// The identity in lower case, where upper and lower case are equal ([`crate::machine::PeerIdentity::accepts`]).
fn folded(identity: &Identification) -> Identification {
    let folds = matches!(identity.kind, IdType::FQDN | IdType::RFC822_ADDR);
    let data = if folds { identity.data.to_ascii_lowercase() } else { identity.data.clone() };
    Identification { kind: identity.kind, data }
}
