//! WireGuard's part of the index: which public key and which addresses belong to whom.

use std::collections::BTreeSet;
use std::net::IpAddr;

use adit_wireguard::PublicKey;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Index, text};

/// WireGuard beside OpenVPN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::setup) struct WireGuard {
    /// The device of the tunnel; the server's file is named after it.
    pub(in crate::setup) device: String,
    /// The server's files are not known to have been written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::setup) unfinished: bool,
    /// Clients in the order in which they were made, with those that were revoked.
    peers: Vec<Peer>,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::setup) struct Peer {
    /// Its name.
    pub(in crate::setup) name: String,
    /// Its public key in base64.
    pub(in crate::setup) public_key: String,
    /// Its addresses within the tunnel.
    pub(in crate::setup) addresses: Vec<IpAddr>,
    /// When it was made, RFC 3339.
    made: String,
    /// When its key was revoked or replaced, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked: Option<String>,
    /// Its file is not known to have been written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unfinished: bool,
}

impl Peer {
    pub(in crate::setup) fn new(
        name: &str,
        public_key: PublicKey,
        addresses: Vec<IpAddr>,
        now: OffsetDateTime,
    ) -> Self {
        let (name, public_key) = (name.to_owned(), public_key.to_base64());
        Peer { name, public_key, addresses, made: text(now), revoked: None, unfinished: true }
    }

    fn is_live(&self) -> bool {
        self.revoked.is_none()
    }
}

impl WireGuard {
    /// What is wrong with what was read: it goes into names of files and into configurations.
    pub(super) fn check(&self) -> Result<(), String> {
        let device = format!("{}.conf", self.device);
        if adit_wireguard_config::interface_name(&device) != Some(self.device.as_str()) {
            return Err("its WireGuard device is no name of a device".into());
        }
        let is_wrong = |peer: &&Peer| PublicKey::from_base64(&peer.public_key).is_none();
        match self.peers.iter().find(is_wrong) {
            Some(peer) => Err(format!("the public key of {:?} is none", peer.name)),
            None => Ok(()),
        }
    }
}

impl Index {
    /// Notes that the files of a WireGuard server with that device are about to be written.
    pub(in crate::setup) fn begin_wireguard(&mut self, device: &str) {
        let device = device.to_owned();
        self.wireguard = Some(WireGuard { device, unfinished: true, peers: Vec::new() });
    }

    /// Notes that they were written.
    pub(in crate::setup) fn finish_wireguard(&mut self) {
        if let Some(wireguard) = &mut self.wireguard {
            wireguard.unfinished = false;
        }
    }

    fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.wireguard.iter().flat_map(|wireguard| &wireguard.peers)
    }

    fn peers_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.wireguard.iter_mut().flat_map(|wireguard| &mut wireguard.peers)
    }

    /// Whether a new WireGuard client cannot have that name. One whose file was not written does not take the name
    /// from a new attempt; a certificate of the same name is the same client's, of one that differs in case another's.
    pub(in crate::setup) fn has_peer(&self, name: &str) -> bool {
        let takes = |peer: &Peer| {
            peer.is_live() && peer.name.eq_ignore_ascii_case(name) && !(peer.unfinished && peer.name == name)
        };
        let differs = |other: &str| other.eq_ignore_ascii_case(name) && other != name;
        self.peers().any(takes)
            || self.issued.iter().any(|issue| issue.revoked.is_none() && differs(&issue.name))
    }

    /// Whether there is a WireGuard client whose name is that one in another case.
    pub(super) fn has_peer_in_other_case(&self, name: &str) -> bool {
        let differs = |peer: &Peer| peer.name.eq_ignore_ascii_case(name) && peer.name != name;
        self.peers().any(|peer| peer.is_live() && differs(peer))
    }

    /// The WireGuard client of that name, if it is complete and not revoked.
    pub(in crate::setup) fn peer(&self, name: &str) -> Option<&Peer> {
        self.peers().find(|peer| peer.is_live() && !peer.unfinished && peer.name == name)
    }

    /// Whether the client with this name and key is unfinished.
    pub(in crate::setup) fn is_unfinished_peer(&self, name: &str, key: PublicKey) -> bool {
        let key = key.to_base64();
        let is = |peer: &Peer| peer.name == name && peer.public_key == key;
        self.peers().any(|peer| is(peer) && peer.is_live() && peer.unfinished)
    }

    /// Notes a client whose file is about to be written. What an interrupted attempt for the same name left is revoked.
    pub(in crate::setup) fn begin_peer(&mut self, peer: Peer, now: OffsetDateTime) {
        let is = |old: &&mut Peer| old.is_live() && old.unfinished && old.name == peer.name;
        self.peers_mut().filter(is).for_each(|old| old.revoked = Some(text(now)));
        if let Some(wireguard) = &mut self.wireguard {
            wireguard.peers.push(peer);
        }
    }

    /// Notes that the file of the newest client with that name was written: its older keys are replaced.
    pub(in crate::setup) fn finish_peer(&mut self, name: &str, now: OffsetDateTime) {
        let mut live: Vec<&mut Peer> =
            self.peers_mut().filter(|peer| peer.is_live() && peer.name == name).collect();
        if let Some(newest) = live.pop() {
            newest.unfinished = false;
        }
        live.into_iter().for_each(|old| old.revoked = Some(text(now)));
    }

    /// Notes that all WireGuard keys of that name are revoked. False if they were all revoked before.
    pub(super) fn revoke_peers(&mut self, name: &str, now: OffsetDateTime) -> bool {
        let mut found = false;
        for peer in self.peers_mut().filter(|peer| peer.is_live() && peer.name == name) {
            peer.revoked = Some(text(now));
            found = true;
        }
        found
    }

    /// Whether there is or was a WireGuard client of that name.
    pub(super) fn knows_peer(&self, name: &str) -> bool {
        self.peers().any(|peer| peer.name == name)
    }

    /// The revoked keys of that name.
    pub(in crate::setup) fn revoked_keys_of(&self, name: &str) -> Vec<PublicKey> {
        self.revoked_keys().filter(|(_, owner)| *owner == name).map(|(key, _)| key).collect()
    }

    /// The revoked keys, and whose they were.
    pub(in crate::setup) fn revoked_keys(&self) -> impl Iterator<Item = (PublicKey, &str)> {
        let revoked = self.peers().filter(|peer| !peer.is_live());
        revoked.filter_map(|peer| Some((PublicKey::from_base64(&peer.public_key)?, peer.name.as_str())))
    }

    /// Whether a client has or had that key.
    pub(in crate::setup) fn has_key(&self, key: PublicKey) -> bool {
        let key = key.to_base64();
        self.peers().any(|peer| peer.public_key == key)
    }

    /// The addresses that clients with other names have.
    pub(in crate::setup) fn addresses_of_others(&self, name: &str) -> BTreeSet<IpAddr> {
        let others = self.peers().filter(|peer| peer.is_live() && peer.name != name);
        others.flat_map(|peer| peer.addresses.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Endpoint, Proto};
    use super::*;

    fn index() -> Index {
        let endpoint = Endpoint { host: "vpn.example".into(), port: 1194 };
        let mut index = Index::new(endpoint, Proto::Udp, "adit-server");
        index.begin_wireguard("adit0");
        index.finish_wireguard();
        index
    }

    fn key(byte: u8) -> PublicKey {
        PublicKey([byte; 32])
    }

    fn begin(index: &mut Index, name: &str, byte: u8) {
        let now = OffsetDateTime::UNIX_EPOCH;
        index.begin_peer(Peer::new(name, key(byte), vec![IpAddr::from([10, 8, 0, byte])], now), now);
    }

    fn finish(index: &mut Index, name: &str) {
        index.finish_peer(name, OffsetDateTime::UNIX_EPOCH);
    }

    #[test]
    fn what_is_read_is_checked() {
        let mut index = index();
        begin(&mut index, "alice", 1);
        let json = index.to_json();
        assert_eq!(Index::parse(&json), Ok(index));
        let (good, short) = (key(1).to_base64(), key(1).to_base64()[4..].to_owned());
        for (from, to) in [("adit0", "../x"), ("adit0", "sixteen--letters"), ("adit0", ""), (&good, &short)] {
            assert!(Index::parse(&json.replacen(from, to, 1)).is_err(), "{to:?}");
        }
    }

    /// An interrupted attempt holds neither the name nor the address, and its key is revoked by the next one.
    #[test]
    fn an_interrupted_attempt_makes_room() {
        let mut index = index();
        begin(&mut index, "alice", 1);
        assert!(!index.has_peer("alice") && index.has_peer("Alice") && index.peer("alice").is_none());
        assert!(index.is_unfinished_peer("alice", key(1)));
        assert!(index.addresses_of_others("alice").is_empty());
        assert_eq!(index.addresses_of_others("bob").len(), 1);
        begin(&mut index, "alice", 2);
        assert_eq!(index.revoked_keys_of("alice"), [key(1)]);
        assert!(!index.is_unfinished_peer("alice", key(1)));
        finish(&mut index, "alice");
        assert!(index.has_peer("alice") && index.peer("alice").is_some());
        assert!(index.has("Alice") && !index.has("alice"), "a certificate of hers may follow");
    }

    /// New keys leave the old ones in force until their file was written.
    #[test]
    fn keys_are_replaced_at_the_end() {
        let mut index = index();
        begin(&mut index, "alice", 1);
        finish(&mut index, "alice");
        begin(&mut index, "alice", 2);
        assert!(index.revoked_keys_of("alice").is_empty());
        finish(&mut index, "alice");
        assert_eq!(index.revoked_keys_of("alice"), [key(1)]);
        assert!(index.revoke("alice", OffsetDateTime::UNIX_EPOCH) && index.knows("alice"));
        assert_eq!(index.revoked_keys_of("alice"), [key(1), key(2)]);
        assert!(!index.revoke("alice", OffsetDateTime::UNIX_EPOCH));
        assert!(index.has_key(key(1)) && !index.has_key(key(3)));
    }
}
