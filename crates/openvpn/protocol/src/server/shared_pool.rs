//! The part of a server in the pool that it shares with the other endpoints of its tunnel: names and addresses that move
//! between them.

use adit_core::{Eviction, Lease, NameBinding, PeerId, Severity};

use super::Server;
use super::peer::Peer;
use crate::request::Event;

impl Server {
    /// The client's name is its own from now on, unless a name may be there twice. False if the client is gone, as a later
    /// one at another endpoint took the name.
    pub(super) fn bind_name(&mut self, id: PeerId) -> bool {
        let name = self.peers.get(&id).and_then(Peer::known_name);
        match name.filter(|_| !self.params.duplicate_cn).map(|name| self.pool.bind_name(id, name)) {
            None | Some(NameBinding::Granted) => {}
            Some(NameBinding::Moved) => self.events.push_back(Event::LeasesMoved),
            Some(NameBinding::Lost) => self.follow_pool(),
        }
        self.peers.contains_key(&id)
    }

    /// Removes the clients whose name or address is that of a client of another endpoint now.
    pub(super) fn follow_pool(&mut self) {
        for (id, eviction) in self.pool.evictions() {
            match eviction {
                Eviction::Replaced => {
                    self.replace(id, "replaced by a new connection of the same client at another endpoint");
                }
                Eviction::AddressOf(name) => self.remove(id, &belongs_to(&name), Severity::Warning),
            }
        }
    }

    /// Removes the other clients that have an address of this lease, which are the client's by its settings.
    ///
    /// # Errors
    /// One of them has it by its own settings: its name.
    pub(super) fn evict_holders(&mut self, lease: &Lease, name: Option<&str>) -> Result<(), String> {
        if lease.fixed().is_empty() {
            // The pool gives no client an address that another has.
            return Ok(());
        }
        let mut holders = self.pool.holders(lease);
        let is_up = |id: &PeerId| self.peers.get(id).is_some_and(Peer::is_up);
        holders.retain(|owner, _| !self.pool.is_own(*owner) || is_up(&owner.peer));
        if let Some((owner, _)) = holders.iter().find(|(_, by_settings)| **by_settings) {
            let own = self.peers.get(&owner.peer).filter(|_| self.pool.is_own(*owner));
            let name = own.map(|peer| peer.name().to_owned()).or_else(|| self.pool.name_of(*owner));
            return Err(name.unwrap_or_else(|| "a client of another endpoint".to_owned()));
        }
        let name = name.unwrap_or("another client");
        for owner in holders.into_keys() {
            if self.pool.is_own(owner) {
                self.remove(owner.peer, &belongs_to(name), Severity::Warning);
            } else {
                self.pool.evict(owner, name);
                self.events.push_back(Event::LeasesMoved);
            }
        }
        Ok(())
    }
}

fn belongs_to(name: &str) -> String {
    format!("its address belongs to {name} by ifconfig-push")
}
