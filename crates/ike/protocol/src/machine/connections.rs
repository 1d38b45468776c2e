//! The connections of an endpoint, which come and go at run time.

mod index;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use self::index::Index;
use super::params::{BadParams, Connection, MAX_CONNECTIONS, MAX_GIVING, PeerIdentity, RemoteProof, check};
use crate::crypto::AnnouncedMethods;
use crate::wire::Identification;

/// The values by which connections are distinguished.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    local: Identification,
    remote: PeerIdentity,
    remotes: Vec<SocketAddr>,
    /// The EAP identities that it accepts. `None`: it has no EAP.
    names: Option<Option<PeerIdentity>>,
}

impl Key {
    fn of(connection: &Connection) -> Self {
        Key {
            local: connection.local_auth.identity.clone(),
            remote: connection.remote_auth.identity.clone(),
            remotes: connection.remotes.clone(),
            names: match &connection.remote_auth.proof {
                RemoteProof::Eap(accepted) => Some(accepted.names.clone()),
                RemoteProof::SharedKey(_) | RemoteProof::Certificate(_) => None,
            },
        }
    }
}

/// Bits of a peer's number, see [`adit_core::PeerId`].
const PEER_BITS: u32 = 24;
/// How many numbers the instances of a connection have.
const MAX_ROUNDS: usize = ((1 << PEER_BITS) - MAX_CONNECTIONS) / MAX_GIVING;

/// Whether a peer's number is that of an instance of a connection.
pub(crate) const fn is_instance(number: usize) -> bool {
    number >= MAX_CONNECTIONS
}

/// The connections, by the numbers of their peers. A number is not used again.
///
/// A connection whose identities are peers of their own has a *place* among those. Each such peer is an *instance* of the connection. The numbers of instances are above those of connections, and have the place in their lower bits.
#[derive(Default)]
pub(crate) struct Connections {
    all: BTreeMap<usize, Connection>,
    /// The connections with instances, by their places.
    giving: BTreeMap<usize, usize>,
    next_place: usize,
    names: BTreeMap<String, usize>,
    keys: BTreeMap<Key, usize>,
    index: Index,
    next: usize,
}

impl Connections {
    /// Adds a connection. Gives its number.
    pub(crate) fn add(&mut self, connection: Connection) -> Result<usize, BadParams> {
        check(&connection)?;
        let count = self.next + 1;
        if count > MAX_CONNECTIONS {
            return Err(BadParams::Count(count));
        }
        if self.names.contains_key(&connection.name) {
            return Err(BadParams::Name(connection.name));
        }
        let key = Key::of(&connection);
        if let Some(other) = self.keys.get(&key).and_then(|number| self.all.get(number)) {
            return Err(BadParams::Identities(other.name.clone(), connection.name));
        }
        let number = self.next;
        match self.free_place().filter(|_| connection.has_instances()) {
            Some(place) => {
                self.giving.insert(place, number);
                self.next_place = (place + 1) % MAX_GIVING;
            }
            None if connection.inner.gives() => return Err(BadParams::Giving(MAX_GIVING + 1)),
            // One peer at a time.
            None => {}
        }
        self.next = count;
        self.names.insert(connection.name.clone(), number);
        self.keys.insert(key, number);
        self.index.add(number, &connection);
        self.all.insert(number, connection);
        Ok(number)
    }

    /// Sets the addresses of a connection's peer. Gives whether they have changed.
    ///
    /// # Errors
    /// Another connection has the same identities and addresses: nothing changes.
    pub(crate) fn set_remotes(&mut self, number: usize, remotes: Vec<SocketAddr>) -> Result<bool, BadParams> {
        let Some(connection) = self.all.get(&number).filter(|own| own.remotes != remotes) else {
            return Ok(false);
        };
        let key = Key { remotes: remotes.clone(), ..Key::of(connection) };
        if let Some(other) = self.keys.get(&key).and_then(|other| self.all.get(other)) {
            return Err(BadParams::Identities(other.name.clone(), connection.name.clone()));
        }
        self.keys.remove(&Key::of(connection));
        self.index.remove(number, connection);
        self.keys.insert(key, number);
        if let Some(connection) = self.all.get_mut(&number) {
            connection.remotes = remotes;
            self.index.add(number, connection);
        }
        Ok(true)
    }

    /// A place that no connection has. Those that had one last come last, as their instances' numbers may still be spoken of.
    fn free_place(&self) -> Option<usize> {
        let places = (0..MAX_GIVING).map(|step| (self.next_place + step) % MAX_GIVING);
        places.into_iter().find(|place| !self.giving.contains_key(place))
    }

    pub(crate) fn remove(&mut self, number: usize) {
        let Some(connection) = self.all.remove(&number) else { return };
        self.giving.retain(|_, giving| *giving != number);
        self.names.remove(&connection.name);
        self.keys.remove(&Key::of(&connection));
        self.index.remove(number, &connection);
    }

    /// The connection of a peer, by the peer's number.
    pub(crate) fn get(&self, number: usize) -> Option<&Connection> {
        self.all.get(&self.number_of_peer(number)?)
    }

    /// The number of the connection that a peer's number belongs to.
    pub(crate) fn number_of_peer(&self, number: usize) -> Option<usize> {
        match is_instance(number) {
            true => self.giving.get(&(number % MAX_GIVING)).copied(),
            false => Some(number),
        }
    }

    /// Whether the identities of a connection are peers of their own.
    pub(crate) fn has_place(&self, connection: usize) -> bool {
        self.giving.values().any(|giving| *giving == connection)
    }

    /// The numbers that instances of a connection may have, the one that follows `last` first.
    pub(crate) fn numbers_of_instances(
        &self,
        connection: usize,
        last: usize,
    ) -> impl Iterator<Item = usize> + use<> {
        let place = self.giving.iter().find(|(_, giving)| **giving == connection).map(|(place, _)| *place);
        let first = last.saturating_sub(MAX_CONNECTIONS) / MAX_GIVING + 1;
        let rounds = (0..MAX_ROUNDS).map(move |step| (first + step) % MAX_ROUNDS);
        place.into_iter().flat_map(move |place| {
            rounds.clone().map(move |round| MAX_CONNECTIONS + round * MAX_GIVING + place)
        })
    }

    #[cfg(test)]
    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut Connection> {
        self.all.get_mut(&number)
    }

    pub(crate) fn number_of(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// The connections that initiate to an address, in order.
    pub(crate) fn at(&self, address: IpAddr) -> impl Iterator<Item = &Connection> {
        self.index.at(address).filter_map(|number| self.all.get(&number))
    }

    /// The connections that may accept an identity of their peer, in order.
    pub(crate) fn named(&self, identity: &Identification) -> impl Iterator<Item = (usize, &Connection)> {
        let numbers = self.index.named(identity).into_iter();
        numbers.filter_map(|number| self.all.get(&number).map(|connection| (number, connection)))
    }

    /// Connections that an initiator at an address may mean, in order. For many connections that differ neither in `sources` nor in their
    /// proposals for IKE, nor in the certificates and proofs that they ask for, nor in whether they have a PPK, the first one stands.
    pub(crate) fn candidates(&self, address: IpAddr) -> Vec<&Connection> {
        let is_from = |number: &usize| self.all.get(number).is_some_and(|it| it.may_come_from(address));
        let mut numbers: Vec<usize> = self.index.first_of_kinds().filter(is_from).collect();
        numbers.extend(self.index.at(address));
        numbers.sort_unstable();
        numbers.dedup();
        numbers.iter().filter_map(|number| self.all.get(number)).collect()
    }

    /// The methods of authentication that the connections accept which an initiator at an address may mean.
    pub(crate) fn announced(&self, address: IpAddr) -> AnnouncedMethods {
        let mut all = AnnouncedMethods::default();
        self.candidates(address).iter().for_each(|connection| all.add(&connection.remote_auth.announced()));
        all
    }

    /// The connections with their numbers, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Connection)> {
        self.all.iter().map(|(number, connection)| (*number, connection))
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}
