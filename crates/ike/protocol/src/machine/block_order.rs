//! The order to keep peers out.

use std::collections::BTreeSet;

use super::blocked::Blocked;
use super::endpoint::Endpoint;
use super::params::Connection;
use crate::wire::{Identification, Spi};

impl Endpoint {
    /// Keeps out the peers of these names, in place of those before. A name is that of a connection, or one of an identity
    /// ([`is_name_of`](crate::machine::is_name_of)). The IKE SAs of these peers are deleted at once, and this end initiates none to them. Connections that were kept
    /// out and are not any more begin as at the start.
    pub fn set_blocked(&mut self, names: BTreeSet<String>) {
        self.replace_blocked(Blocked::Named(names));
    }

    /// Keeps out all peers, until [`Endpoint::set_blocked`]: the names are not known.
    pub fn block_all(&mut self) {
        self.replace_blocked(Blocked::All);
    }

    fn replace_blocked(&mut self, blocked: Blocked) {
        let before = std::mem::replace(&mut self.shared.blocked, blocked);
        let now_blocked = &self.shared.blocked;
        let is_out = |connection: &Connection, identity: Option<&Identification>| {
            now_blocked.has(connection, identity)
        };
        let sas = self.sas.values().filter(|sa| {
            let connection = sa.connection.and_then(|number| self.connections.get(number));
            connection.is_some_and(|connection| is_out(connection, sa.peer_identity.as_ref()))
        });
        let out: Vec<Spi> = sas.map(|sa| sa.own_spi).collect();
        let is_back = |connection: &Connection| before.has(connection, None) && !is_out(connection, None);
        let back: Vec<usize> =
            self.connections.iter().filter(|(_, it)| is_back(it)).map(|(number, _)| number).collect();
        out.into_iter().for_each(|spi| self.close(spi, "blocked"));
        back.into_iter().for_each(|number| self.begin_anew(number));
    }

    /// Whether this end does not initiate to the peer of a connection.
    pub(super) fn is_blocked(&self, number: usize) -> bool {
        self.connections.get(number).is_some_and(|connection| self.shared.blocked.has(connection, None))
    }
}
