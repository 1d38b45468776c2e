//! PUSH_UPDATE at a server: connected clients are told of other settings.

use std::net::IpAddr;

use adit_core::{AddressChange, Instant, IpNet, PeerId, Severity};
use thiserror::Error;

use super::Server;
use super::peer::Peer;
use crate::control_message::{PushError, encode_push_update};
use crate::pushed::{Change, address_change};

/// Why an update is sent to no client.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PushUpdateError {
    /// It is empty.
    #[error("the update names no option")]
    Empty,
    /// An option that clients would refuse, and connect anew for.
    #[error("{0}")]
    NotUpdatable(String),
    /// An address for several clients.
    #[error("{0} clients would have the same address; change the address of one by push-update-cid")]
    Several(usize),
    /// An address that another client has.
    #[error("{0} is the address of {1}")]
    Taken(IpAddr, String),
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
    /// `learn-address` follow. What clients are pushed when they connect stays as it was.
    ///
    /// # Errors
    /// Nothing is sent when a client would refuse part of it, or has an address that another is to get.
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

    /// Whether the addresses are free for the only client that is to get them.
    fn check_addresses(&self, clients: &[PeerId], change: &AddressChange) -> Result<(), PushUpdateError> {
        let given = change.given();
        let id = match clients {
            _ if given.is_empty() => return Ok(()),
            [] => return Ok(()),
            [id] => *id,
            several => return Err(PushUpdateError::Several(several.len())),
        };
        let taken =
            given.into_iter().find_map(|address| Some((address, self.pool.other_holder(id, address)?)));
        let Some((address, owner)) = taken else { return Ok(()) };
        let own = self.peers.get(&owner.peer).filter(|_| self.pool.is_own(owner));
        let name = own.map(|peer| peer.name().to_owned()).or_else(|| self.pool.name_of(owner));
        Err(PushUpdateError::Taken(address, name.unwrap_or_else(|| "another client".to_owned())))
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
        // The script hears that an address is gone before it hears of the one in its place, as in OpenVPN.
        self.forget_vacated();
        let elsewhere = self.pool.announce(id, &come);
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.ask_learn_more(self.now, &come, &elsewhere, &mut self.events);
        }
    }
}

/// The control messages of an update, and what it makes of a client's addresses.
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
