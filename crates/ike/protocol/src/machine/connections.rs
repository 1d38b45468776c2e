//! The connections of an endpoint, which come and go at run time.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::inner::connection_of;
use super::params::{BadParams, Connection, MAX_CONNECTIONS, PeerIdentity, RemoteProof, check};
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

/// The connections, by the numbers of their peers. A number is not used again.
#[derive(Default)]
pub(crate) struct Connections {
    all: BTreeMap<usize, Connection>,
    names: BTreeMap<String, usize>,
    keys: BTreeMap<Key, usize>,
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
        self.next = count;
        self.names.insert(connection.name.clone(), number);
        self.keys.insert(key, number);
        self.all.insert(number, connection);
        Ok(number)
    }

    pub(crate) fn remove(&mut self, number: usize) {
        let Some(connection) = self.all.remove(&number) else { return };
        self.names.remove(&connection.name);
        self.keys.remove(&Key::of(&connection));
    }

    /// The connection of a peer, by the peer's number.
    pub(crate) fn get(&self, number: usize) -> Option<&Connection> {
        self.all.get(&connection_of(number))
    }

    #[cfg(test)]
    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut Connection> {
        self.all.get_mut(&number)
    }

    pub(crate) fn number_of(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// The connections with their numbers, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Connection)> {
        self.all.iter().map(|(number, connection)| (*number, connection))
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}
