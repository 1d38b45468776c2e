//! The second protocol's part of the index: the public key and the addresses of each client.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Index, text};

/// The second protocol of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// The device of the tunnel; the server's file is named after it.
    pub device: String,
    /// The server's files are not known to have been written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
    /// Clients in the order in which they were made, with those that were revoked.
    pub peers: Vec<Peer>,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Its public key in base64.
    pub public_key: String,
    /// Its addresses within the tunnel.
    pub addresses: Vec<IpAddr>,
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
    /// A client whose file is not written yet. The key is in base64.
    pub fn new(name: &str, public_key: String, addresses: Vec<IpAddr>, now: OffsetDateTime) -> Self {
        let name = name.to_owned();
        Peer { name, public_key, addresses, made: text(now), revoked: None, unfinished: true }
    }

    fn is_live(&self) -> bool {
        self.revoked.is_none()
    }
}

impl Keys {
    /// The part of the protocol of that name in an index; `None`: the index has none.
    pub(super) fn parse(index: &str, protocol: &str) -> Result<Option<Self>, String> {
        let failed = |error: serde_json::Error| error.to_string();
        let mut parts: BTreeMap<String, serde_json::Value> = serde_json::from_str(index).map_err(failed)?;
        let part = parts.remove(protocol).map(serde_json::from_value).transpose();
        part.map_err(failed)
    }
}

impl Index {
    /// Notes that the files of a second server with that device are about to be written.
    pub fn begin_keys(&mut self, device: &str) {
        let device = device.to_owned();
        self.keys = Some(Keys { device, unfinished: true, peers: Vec::new() });
    }

    /// Notes that they were written.
    pub fn finish_keys(&mut self) {
        if let Some(keys) = &mut self.keys {
            keys.unfinished = false;
        }
    }

    fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.keys.iter().flat_map(|keys| &keys.peers)
    }

    fn peers_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.keys.iter_mut().flat_map(|keys| &mut keys.peers)
    }

    /// Whether a new client of the second protocol cannot have that name. One whose file was not written does not take the name
    /// from a new attempt; a certificate of the same name is the same client's, of one that differs in case another's.
    pub fn has_peer(&self, name: &str) -> bool {
        let takes = |peer: &Peer| {
            peer.is_live() && peer.name.eq_ignore_ascii_case(name) && !(peer.unfinished && peer.name == name)
        };
        let differs = |other: &str| other.eq_ignore_ascii_case(name) && other != name;
        self.peers().any(takes)
            || self.issued.iter().any(|issue| issue.revoked.is_none() && differs(&issue.name))
    }

    /// Whether there is a client of the second protocol whose name is that one in another case.
    pub(crate) fn has_peer_in_other_case(&self, name: &str) -> bool {
        let differs = |peer: &Peer| peer.name.eq_ignore_ascii_case(name) && peer.name != name;
        self.peers().any(|peer| peer.is_live() && differs(peer))
    }

    /// The client of the second protocol with that name, if it is complete and not revoked.
    pub fn peer(&self, name: &str) -> Option<&Peer> {
        self.peers().find(|peer| peer.is_live() && !peer.unfinished && peer.name == name)
    }

    /// Whether the client with this name and key is unfinished.
    pub fn is_unfinished_peer(&self, name: &str, key: &str) -> bool {
        let is = |peer: &Peer| peer.name == name && peer.public_key == key;
        self.peers().any(|peer| is(peer) && peer.is_live() && peer.unfinished)
    }

    /// Notes a client whose file is about to be written. The client of the same name that an interrupted attempt left
    /// is revoked.
    pub fn begin_peer(&mut self, peer: Peer, now: OffsetDateTime) {
        let is = |old: &&mut Peer| old.is_live() && old.unfinished && old.name == peer.name;
        self.peers_mut().filter(is).for_each(|old| old.revoked = Some(text(now)));
        if let Some(keys) = &mut self.keys {
            keys.peers.push(peer);
        }
    }

    /// Notes that the file of the newest client with that name was written: its older keys are replaced.
    pub fn finish_peer(&mut self, name: &str, now: OffsetDateTime) {
        let mut live: Vec<&mut Peer> =
            self.peers_mut().filter(|peer| peer.is_live() && peer.name == name).collect();
        if let Some(newest) = live.pop() {
            newest.unfinished = false;
        }
        live.into_iter().for_each(|old| old.revoked = Some(text(now)));
    }

    /// Notes that all keys of that name are revoked. False if they were all revoked before.
    pub(crate) fn revoke_peers(&mut self, name: &str, now: OffsetDateTime) -> bool {
        let mut found = false;
        for peer in self.peers_mut().filter(|peer| peer.is_live() && peer.name == name) {
            peer.revoked = Some(text(now));
            found = true;
        }
        found
    }

    /// Whether there is or was a client of the second protocol of that name.
    pub(crate) fn knows_peer(&self, name: &str) -> bool {
        self.peers().any(|peer| peer.name == name)
    }

    /// The revoked keys of that name, in base64.
    pub fn revoked_keys_of(&self, name: &str) -> Vec<&str> {
        self.revoked_keys().filter(|(_, owner)| *owner == name).map(|(key, _)| key).collect()
    }

    /// The revoked keys in base64, each with the name of its client.
    pub fn revoked_keys(&self) -> impl Iterator<Item = (&str, &str)> {
        let revoked = self.peers().filter(|peer| !peer.is_live());
        revoked.map(|peer| (peer.public_key.as_str(), peer.name.as_str()))
    }

    /// Whether a client has or had that key.
    pub fn has_key(&self, key: &str) -> bool {
        self.peers().any(|peer| peer.public_key == key)
    }

    /// The addresses that clients with other names have.
    pub fn addresses_of_others(&self, name: &str) -> BTreeSet<IpAddr> {
        let others = self.peers().filter(|peer| peer.is_live() && peer.name != name);
        others.flat_map(|peer| peer.addresses.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Endpoint, Proto};

    fn index() -> Index {
        let endpoint = Endpoint { host: "vpn.example".into(), port: 1194 };
        let mut index = Index::new(endpoint, Proto::Udp, "adit-server", "other");
        index.begin_keys("adit0");
        index.finish_keys();
        index
    }

    fn key(number: u8) -> String {
        format!("key {number}")
    }

    fn begin(index: &mut Index, name: &str, byte: u8) {
        let now = OffsetDateTime::UNIX_EPOCH;
        index.begin_peer(Peer::new(name, key(byte), vec![IpAddr::from([10, 8, 0, byte])], now), now);
    }

    fn finish(index: &mut Index, name: &str) {
        index.finish_peer(name, OffsetDateTime::UNIX_EPOCH);
    }

    /// An interrupted attempt holds neither the name nor the address, and its key is revoked by the next one.
    #[test]
    fn an_interrupted_attempt_makes_room() {
        let mut index = index();
        begin(&mut index, "alice", 1);
        assert!(!index.has_peer("alice") && index.has_peer("Alice") && index.peer("alice").is_none());
        assert!(index.is_unfinished_peer("alice", &key(1)));
        assert!(index.addresses_of_others("alice").is_empty());
        assert_eq!(index.addresses_of_others("bob").len(), 1);
        begin(&mut index, "alice", 2);
        assert_eq!(index.revoked_keys_of("alice"), [key(1)]);
        assert!(!index.is_unfinished_peer("alice", &key(1)));
        finish(&mut index, "alice");
        assert!(index.has_peer("alice") && index.peer("alice").is_some());
        assert!(index.has("Alice", None) && !index.has("alice", None), "a certificate of hers may follow");
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
        assert!(index.has_key(&key(1)) && !index.has_key(&key(3)));
    }
}
