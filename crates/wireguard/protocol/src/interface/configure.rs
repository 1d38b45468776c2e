//! Changes of the configuration while the interface runs: all of one order, or nothing.

use std::collections::BTreeSet;

use adit_core::{IpNet, PeerId, Severity};

use super::Interface;
use crate::keys::{PrivateKey, PublicKey};
use crate::params::{AllowedIp, Changes, ConfigureError, MAX_PEERS, PeerChange, Sockets};
use crate::peer::Peer;
use crate::request::{Event, Request};
use crate::shared::Identity;

impl Interface {
    pub(super) fn configure(&mut self, id: u64, changes: Box<Changes>) {
        self.waiting.push_back((id, changes));
        if self.waiting.len() == 1 {
            self.configure_next();
        }
    }

    /// Takes the changes that come first, and those behind them, until some need sockets.
    fn configure_next(&mut self) {
        while let Some((_, changes)) = self.waiting.front() {
            if let Err(error) = self.check(changes) {
                self.finish_first(Err(error));
                continue;
            }
            let listen_port =
                changes.listen_port.filter(|port| *port == 0 || *port != self.shared.sockets.port);
            let fwmark = changes.fwmark.filter(|mark| *mark != self.fwmark);
            if listen_port.is_some() || fwmark.is_some() {
                // The steps that can fail come before anything is changed.
                return self.shared.emit(Event::Request(Request::Rebind { listen_port, fwmark }));
            }
            self.finish_first(Ok(()));
        }
    }

    /// The sockets are as the first changes want them, or cannot be.
    pub(super) fn rebound(&mut self, outcome: Result<Sockets, ConfigureError>) {
        if self.waiting.is_empty() {
            // The system took a socket away and gave another.
            if let Ok(sockets) = outcome {
                self.use_sockets(sockets);
            }
            return;
        }
        let outcome = outcome.map(|sockets| self.use_sockets(sockets));
        self.finish_first(outcome);
        self.configure_next();
    }

    fn use_sockets(&mut self, sockets: Sockets) {
        self.shared.sockets = sockets;
        self.with_all_peers(Peer::rebind);
    }

    fn finish_first(&mut self, outcome: Result<(), ConfigureError>) {
        let Some((id, changes)) = self.waiting.pop_front() else { return };
        if outcome.is_ok() {
            self.apply(*changes);
        }
        self.shared.emit(Event::Request(Request::Configured { id, outcome }));
    }

    /// Whether changes can be applied. It takes as long as the changes are many, however many peers there are.
    pub(super) fn check(&self, changes: &Changes) -> Result<(), ConfigureError> {
        let added = changes.peers.iter().filter(|change| !change.update_only && !change.remove);
        let added: BTreeSet<PublicKey> = added.map(|change| change.public_key).collect();
        let kept = match changes.replace_peers {
            true => 0,
            false => self.ids.len() - added.iter().filter(|key| self.ids.contains_key(key)).count(),
        };
        if kept + added.len() > MAX_PEERS { Err(ConfigureError::TooManyPeers) } else { Ok(()) }
    }

    /// Applies changes that were checked, and for which the sockets are there.
    pub(super) fn apply(&mut self, changes: Changes) {
        let Changes { private_key, fwmark, replace_peers, gated, peers, .. } = changes;
        self.fwmark = fwmark.unwrap_or(self.fwmark);
        if let Some(gated) = gated.filter(|gated| *gated != self.shared.gated) {
            self.shared.gated = gated;
            self.with_all_peers(Peer::set_gated);
        }
        if let Some(private_key) = private_key {
            self.set_private_key(private_key);
        }
        if replace_peers {
            let ids: Vec<PeerId> = self.peers.keys().copied().collect();
            ids.into_iter().for_each(|id| self.remove_peer(id));
        }
        peers.into_iter().for_each(|change| self.change_peer(change));
    }

    fn set_private_key(&mut self, private: Option<PrivateKey>) {
        let old = self.shared.identity.as_ref().map(|identity| &identity.private);
        if old == private.as_ref() {
            return;
        }
        self.shared.identity = private.and_then(|private| match Identity::new(private) {
            Ok(identity) => Some(identity),
            Err(_) => {
                let text = "the private key cannot be used: there is none now".to_owned();
                self.shared.report(Severity::Error, None, text);
                None
            }
        });
        if let Some(id) = self.public_key().and_then(|own| self.peer_id(&own)) {
            self.remove_peer(id);
        }
        self.with_all_peers(Peer::forget_keys);
    }

    fn change_peer(&mut self, change: PeerChange) {
        let known = self.peer_id(&change.public_key);
        if change.remove {
            return known.into_iter().for_each(|id| self.remove_peer(id));
        }
        // A peer with our own key is passed over without a word, as upstream does.
        if self.public_key() == Some(change.public_key) || (known.is_none() && change.update_only) {
            return;
        }
        let id = known.unwrap_or_else(|| self.add_peer(change.public_key));
        if change.blocked == Some(false) {
            self.blocked.remove(&change.public_key);
        }
        let was_blocked = self.blocks_all || self.blocked.contains(&change.public_key);
        let blocked = change.blocked.or((known.is_none() && was_blocked).then_some(true));
        if change.replace_allowed_ips {
            let all = self.peers.get(&id).map(|peer| peer.allowed_ips.clone()).unwrap_or_default();
            let kept = last_word(&change.allowed_ips);
            all.difference(&kept).for_each(|net| self.remove_allowed_ip(id, *net));
        }
        for allowed_ip in &change.allowed_ips {
            match allowed_ip {
                AllowedIp::Add(net) => self.add_allowed_ip(id, net.trunc()),
                AllowedIp::Remove(net) => self.remove_allowed_ip(id, net.trunc()),
            }
        }
        self.with_peer(id, |peer, shared| {
            if let Some(name) = change.name {
                peer.set_name(shared, name);
            }
            if let Some(preshared) = change.preshared_key {
                peer.set_preshared(preshared);
            }
            if let Some(post_quantum) = change.post_quantum {
                peer.set_post_quantum(shared, post_quantum);
            }
            if let Some(endpoint) = change.endpoint {
                peer.set_endpoint(shared, endpoint);
            }
            if let Some(remote) = change.remote {
                peer.set_stream(remote);
            }
            if let Some(timestamp) = change.last_timestamp {
                peer.set_last_timestamp(timestamp);
            }
            if let Some(blocked) = blocked {
                peer.set_blocked(shared, blocked);
            }
            if let Some(since) = change.admit {
                peer.admit(shared, since);
            }
            let keepalive = change.persistent_keepalive;
            let begins = keepalive.is_some_and(|seconds| peer.set_persistent_keepalive(shared, seconds));
            peer.configured(shared, begins);
        });
    }

    fn add_peer(&mut self, key: PublicKey) -> PeerId {
        while self.peers.contains_key(&PeerId(self.next_id)) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let id = PeerId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        self.ids.insert(key, id);
        self.peers.insert(id, Box::new(Peer::new(&mut self.shared, id, key)));
        id
    }

    pub(super) fn remove_peer(&mut self, id: PeerId) {
        self.reschedule(id, None);
        let Some(peer) = self.peers.remove(&id) else { return };
        self.ids.remove(&peer.key);
        for net in &peer.allowed_ips {
            self.owners.remove(net);
        }
        peer.remove(&mut self.shared);
    }

    fn add_allowed_ip(&mut self, id: PeerId, net: IpNet) {
        let before = self.owners.insert(net, id);
        if before == Some(id) {
            return;
        }
        let Some(mut peer) = self.peers.remove(&id) else { return };
        let before = before.and_then(|before| self.peers.get_mut(&before)).map(|before| &mut **before);
        peer.add_allowed_ip(&mut self.shared, net, before);
        self.peers.insert(id, peer);
    }

    fn remove_allowed_ip(&mut self, id: PeerId, net: IpNet) {
        if self.owners.get(&net) != Some(&id) {
            return;
        }
        self.owners.remove(&net);
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.remove_allowed_ip(&mut self.shared, net);
        }
    }
}

/// The allowed IPs that are there after these changes, if there were none before: those that need not go for a moment.
fn last_word(changes: &[AllowedIp]) -> BTreeSet<IpNet> {
    let mut nets = BTreeSet::new();
    for change in changes {
        match change {
            AllowedIp::Add(net) => drop(nets.insert(net.trunc())),
            AllowedIp::Remove(net) => drop(nets.remove(&net.trunc())),
        }
    }
    nets
}
