//! PUSH_UPDATE at a server: connected clients are sent other settings.

use std::net::IpAddr;

use adit_core::{AddressChange, Instant, IpNet, PeerId, Severity};
use thiserror::Error;

use super::Server;
use super::peer::Peer;
use crate::control_message::{PushError, encode_push_update};
use crate::pushed::{Change, address_change};

/// Runs of `learn-address` about new addresses of one client that may wait: a program that changes them quicker than
/// the script answers would take the room of other clients' scripts.
const MOST_UNANSWERED: usize = 16;

/// Why an update is sent to no client.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PushUpdateError {
    /// The update is empty.
    #[error("the update names no option")]
    Empty,
    /// An option that clients would refuse, and connect anew for.
    #[error("{0}")]
    NotUpdatable(String),
    /// An address for several clients.
    #[error("{0} clients would have the same address; change the address of one by push-update-cid")]
    Several(usize),
    /// An address that another has: the client of that name, or a peer of another protocol.
    #[error("{0} is the address of {1}")]
    Taken(IpAddr, String),
    /// The address that the server itself has in the tunnel.
    #[error("{0} is the address of the server")]
    OfServer(IpAddr),
    /// An address of the server's network that no host can have, its meaning, and the network.
    #[error("{0} is the {1} address of {2}, which no client can have")]
    NotOfHost(IpAddr, &'static str, IpNet),
    /// An address for a client of whose earlier new addresses `learn-address` has so many still to judge.
    #[error("learn-address has not answered about {0} addresses of {1} yet; try again when it has")]
    Unanswered(usize, String),
    /// An option that does not fit a message.
    #[error(transparent)]
    Encoding(#[from] PushError),
}

impl Server {
    /// Sends changes to the options, parted by commas (`-OPTION` removes, `?OPTION` need not be understood), to the client of
    /// that number ([`crate::request::PeerDetail::number`]), or to all. Gives the number of clients that it was sent to:
    /// those that are up and understand it (`IV_PROTO` bit 12).
    ///
    /// A client's new addresses (`ifconfig`, `ifconfig-ipv6`) are its own at once: the pool, the data plane and
    /// `learn-address` follow. The options that clients are pushed when they connect stay as they were, and so does the
    /// answer to one more `PUSH_REQUEST` of a client that is up: it has the settings from before the update.
    ///
    /// # Errors
    /// Nothing is sent when a client would refuse part of it, or cannot have the address that it is to get; nor while
    /// `learn-address` has not answered about the last 16 addresses that the client got so.
    pub fn push_update(
        &mut self,
        now: Instant,
        client: Option<u64>,
        changes: &str,
    ) -> Result<usize, PushUpdateError> {
        self.now = now;
        let (messages, addresses) = read(changes)?;
        let clients = self.clients_to_update(client);
        self.check_addresses(&clients, &addresses)?;
        for id in &clients {
            let Some(peer) = self.peers.get_mut(id) else { continue };
            messages.iter().for_each(|message| peer.send_message(now, message));
            self.change_addresses(*id, addresses);
            self.settle(*id);
        }
        Ok(clients.len())
    }

    /// The clients that are meant, are up and understand updates.
    fn clients_to_update(&mut self, client: Option<u64>) -> Vec<PeerId> {
        let is_meant = |peer: &Peer| {
            client.is_none_or(|number| peer.number() == number) && peer.is_up() && !peer.is_refused()
        };
        let meant = self.peers.iter().filter(|(_, peer)| is_meant(peer));
        let (able, others): (Vec<_>, Vec<_>) = meant.partition(|(_, peer)| peer.understands_updates());
        let able = able.into_iter().map(|(id, _)| *id).collect();
        let others: Vec<_> =
            others.into_iter().map(|(_, peer)| (peer.path(), peer.name().to_owned())).collect();
        for (path, name) in others {
            let text = format!("{name} understands no PUSH_UPDATE; nothing is sent to it");
            self.report(Severity::Debug, Some(path), text);
        }
        able
    }

    /// Whether the only client that is to get the addresses can have them, and no other has them.
    fn check_addresses(&self, clients: &[PeerId], change: &AddressChange) -> Result<(), PushUpdateError> {
        let given = change.given();
        let id = match clients {
            _ if given.is_empty() => return Ok(()),
            [] => return Ok(()),
            [id] => *id,
            several => return Err(PushUpdateError::Several(several.len())),
        };
        given.iter().try_for_each(|address| self.check_network(*address))?;
        if let Some(peer) = self.peers.get(&id).filter(|peer| peer.unanswered() >= MOST_UNANSWERED) {
            return Err(PushUpdateError::Unanswered(peer.unanswered(), peer.name().to_owned()));
        }
        if let Some(address) = given.iter().copied().find(|address| self.pool.is_kept(*address)) {
            return Err(PushUpdateError::Taken(address, "a peer of another protocol".to_owned()));
        }
        let taken =
            given.into_iter().find_map(|address| Some((address, self.pool.other_holder(id, address)?)));
        let Some((address, owner)) = taken else { return Ok(()) };
        let own = self.peers.get(&owner.peer).filter(|_| self.pool.is_own(owner));
        let name = own.map(|peer| peer.name().to_owned()).or_else(|| self.pool.name_of(owner));
        Err(PushUpdateError::Taken(address, name.unwrap_or_else(|| "another client".to_owned())))
    }

    /// Whether the server's networks leave an address for a client.
    fn check_network(&self, address: IpAddr) -> Result<(), PushUpdateError> {
        let own = [self.params.address4.map(IpNet::V4), self.params.address6.map(IpNet::V6)];
        for network in own.into_iter().flatten() {
            if address == network.addr() {
                return Err(PushUpdateError::OfServer(address));
            }
            if let Some(what) = reserved_as(address, network) {
                return Err(PushUpdateError::NotOfHost(address, what, network.trunc()));
            }
        }
        Ok(())
    }

    /// A client has other addresses: those that it had are free, and its new ones are reached by it.
    fn change_addresses(&mut self, id: PeerId, change: AddressChange) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some(lease) = peer.lease_mut() else { return };
        let before = lease.addresses();
        self.pool.change(&mut lease.addresses, change);
        let after = lease.addresses();
        let networks = |of: &[IpAddr], without: &[IpAddr]| -> Vec<IpNet> {
            of.iter()
                .filter(|address| !without.contains(address))
                .map(|address| IpNet::from(*address))
                .collect()
        };
        let (gone, come) = (networks(&before, &after), networks(&after, &before));
        if gone.is_empty() && come.is_empty() {
            return;
        }
        let told = peer.forget_addresses(&gone, &mut self.events);
        if self.params.access.learn_address.is_none() {
            return peer.reach(&come, &mut self.events);
        }
        self.vacate(id, told);
        // The script runs for an address that is gone before it runs for the one in its place, as in OpenVPN.
        self.forget_vacated();
        let elsewhere = self.pool.announce(id, &come);
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.ask_about_later_addresses(self.now, &come, &elsewhere, &mut self.events);
        }
    }
}

/// The meaning of the address in that network if no host can have it: the network's own (RFC 1122 section 3.2.1.3; for
/// IPv6 that of all its routers, RFC 4291 section 2.6.1), or the broadcast address of IPv4. A network of one or two
/// addresses reserves none (RFC 3021, RFC 6164).
fn reserved_as(address: IpAddr, network: IpNet) -> Option<&'static str> {
    if network.max_prefix_len() - network.prefix_len() < 2 {
        return None;
    }
    if address == network.network() {
        return Some("network");
    }
    (address.is_ipv4() && address == network.broadcast()).then_some("broadcast")
}

/// The control messages of an update, and the changes of a client's addresses by it.
fn read(changes: &str) -> Result<(Vec<String>, AddressChange), PushUpdateError> {
    let options: Vec<&str> = changes.split(',').map(str::trim).filter(|text| !text.is_empty()).collect();
    if options.is_empty() {
        return Err(PushUpdateError::Empty);
    }
    let changes: Vec<Change<'_>> = options.iter().map(|text| Change::parse(text)).collect();
    for change in &changes {
        change.check().map_err(PushUpdateError::NotUpdatable)?;
    }
    let addresses = address_change(&changes).map_err(PushUpdateError::NotUpdatable)?;
    let options: Vec<String> = options.into_iter().map(str::to_owned).collect();
    Ok((encode_push_update(&options)?, addresses))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_reserves_its_first_address_and_the_last_of_ipv4() {
        let reserved =
            |address: &str, network: &str| reserved_as(address.parse().unwrap(), network.parse().unwrap());
        assert_eq!(reserved("10.8.0.0", "10.8.0.1/24"), Some("network"));
        assert_eq!(reserved("10.8.0.255", "10.8.0.1/24"), Some("broadcast"));
        assert_eq!(reserved("10.8.0.128", "10.8.0.1/24"), None);
        assert_eq!(reserved("10.8.1.255", "10.8.0.1/24"), None);
        assert_eq!(reserved("10.8.0.3", "10.8.0.1/30"), Some("broadcast"));
        assert_eq!(reserved("10.8.0.0", "10.8.0.1/31"), None);
        assert_eq!(reserved("10.8.0.1", "10.8.0.1/32"), None);
        assert_eq!(reserved("fd00::", "fd00::1/64"), Some("network"));
        assert_eq!(reserved("fd00::ffff:ffff:ffff:ffff", "fd00::1/64"), None);
        assert_eq!(reserved("fd00::", "fd00::1/127"), None);
        assert_eq!(reserved("fd00::", "10.8.0.1/24"), None);
    }
}
