//! The admission of a client that proved its name: settings, addresses, scripts, and its own earlier connections.

use std::collections::BTreeSet;

use adit_core::{FixedAddresses, IpNet, Lease, PeerId, Severity};

use super::Server;
use super::connect::Connected;
use super::peer::{Learned, Peer, delete_address};
use super::tls_crypt_v2_verify::KeyVerdict;
use crate::lease::ClientLease;
use crate::request::{ClientDecision, Event, NoSettings, PeerSettings, Request, ScriptId, ScriptOutcome};

impl Server {
    /// A client proved its name: the settings for it alone must be known first, if there may be any.
    pub(super) fn request_client_config(&mut self, id: PeerId) {
        if !self.params.per_client.ask {
            return self.assign_addresses(id, &PeerSettings::default(), false);
        }
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.wait_for_settings(self.now);
        let name = peer.known_name().unwrap_or_default().to_owned();
        self.events.push_back(Event::Request(Request::PeerSettings { peer: id, name }));
        self.reschedule(id);
    }

    /// The settings for a client came from outside.
    pub(super) fn settings_came(
        &mut self,
        id: PeerId,
        name: &str,
        settings: Result<Box<PeerSettings>, NoSettings>,
    ) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        // The client that asked may be gone, and its id another's.
        if peer.known_name().unwrap_or_default() != name || !peer.settings_came() {
            return;
        }
        match settings {
            Ok(settings) if settings.disabled => {
                let why = "its file of client-config-dir says `disable`";
                peer.refuse(self.now, "", why, &mut self.events);
                self.settle(id);
            }
            Ok(settings) => self.assign_addresses(id, &settings, false),
            Err(NoSettings::Refused(why)) => {
                peer.refuse(self.now, "", &why, &mut self.events);
                self.settle(id);
            }
            Err(NoSettings::Fault(why)) => {
                peer.refuse_for_now(self.now, &why, &mut self.events);
                self.settle(id);
            }
        }
    }

    /// Takes over from the client's own earlier connections and gives it its addresses.
    /// `asked`: `client-connect` had its say.
    fn assign_addresses(&mut self, id: PeerId, settings: &PeerSettings, asked: bool) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if peer.is_refused() {
            return self.settle(id);
        }
        let asks = self.params.access.client_connect.is_some() && !asked;
        // The settings that its judge granted come last, as in OpenVPN.
        if let Some(granted) = (!asks).then(|| peer.granted()).flatten() {
            let mut settings = settings.clone();
            settings.merge(*granted);
            return self.assign_addresses(id, &settings, asked);
        }
        let name = peer.known_name().map(str::to_owned);
        if !self.take_over(id) {
            return;
        }
        if self.up >= self.params.max_clients {
            return self.find_no_room(id);
        }
        if self.params.point_to_point.is_some() {
            let lease = ClientLease::new(Lease::empty(self.pool.owner(id)), Vec::new());
            return self.bring_up(id, lease, settings);
        }
        // Where names may come twice, a name has no address of its own (OpenVPN pool.c).
        let remembered = name.as_deref().filter(|_| !self.params.duplicate_cn);
        let fixed = FixedAddresses {
            v4: settings.ipv4.map(|(address, _)| address),
            v6: settings.ipv6.map(|(network, _)| network),
        };
        let Some(addresses) = self.pool.lease(id, remembered, fixed) else {
            let reason = "no free address in the pool (server, ifconfig-pool); refused";
            return self.remove(id, reason, Severity::Warning);
        };
        let mut lease = ClientLease::new(addresses, settings.routes.clone());
        if let Err(other) = self.evict_holders(&lease.addresses, name.as_deref()) {
            let reason = format!("{other} has the same address by ifconfig-push; refused");
            self.pool.release(&lease.addresses);
            return self.remove(id, &reason, Severity::Warning);
        }
        self.pool.reserve(&mut lease.addresses);
        match self.peers.get_mut(&id) {
            Some(peer) if asks => {
                peer.ask_client_connect(self.now, lease, settings, &mut self.events);
                self.settle(id);
            }
            _ => self.bring_up(id, lease, settings),
        }
    }

    /// There is no room for this client. A client that understands it is sent to another server, or asked to
    /// try later.
    fn find_no_room(&mut self, id: PeerId) {
        let reason = "max-clients are connected";
        match self.peers.get_mut(&id) {
            Some(peer) if peer.understands_later() => {
                let told = "TEMP[advance remote]:the server has no room for more clients now";
                peer.refuse(self.now, told, reason, &mut self.events);
                self.settle(id);
            }
            _ => self.remove(id, &format!("{reason}; refused"), Severity::Warning),
        }
    }

    /// A script answered about a client's key.
    fn apply_key_verdict(&mut self, verdict: KeyVerdict) {
        match verdict {
            KeyVerdict::Enter { path, pending, datagrams } => self.let_through(path, *pending, &datagrams),
            KeyVerdict::Refused { paths, reason } => self.turn_away(&paths, &reason),
        }
    }

    /// A script answered.
    pub(super) fn script_done(&mut self, script: ScriptId, outcome: &ScriptOutcome) {
        let remembered = self.params.control.rekey.handshake;
        if let Some(verdicts) = self.tls_crypt_v2_verify.answered(self.now, script, outcome, remembered) {
            return verdicts.into_iter().for_each(|verdict| self.apply_key_verdict(verdict));
        }
        let owner = |(_, peer): &(&PeerId, &mut Peer)| peer.owner() == script.owner;
        let Some((&id, peer)) = self.peers.iter_mut().find(owner) else {
            return self.report_unfinished_script(outcome);
        };
        match peer.address_learned(script, outcome, &mut self.events) {
            Learned::NotOurs => {}
            Learned::NotYet | Learned::Later => return,
            // Judged again meanwhile, in a renegotiation.
            Learned::All { lease, .. } if peer.is_refused() => {
                self.vacate(id, lease.networks());
                self.pool.release(&lease.addresses);
                return self.settle(id);
            }
            Learned::All { lease, settings } => {
                if self.take_over(id) {
                    self.establish(id, *lease, &settings);
                }
                return;
            }
        }
        let Some(peer) = self.peers.get_mut(&id) else { return };
        match peer.client_connected(script, outcome, &mut self.events) {
            Connected::NotOurs => peer.script_done(self.now, script, outcome, &mut self.events),
            Connected::NotYet => {}
            // Judged again meanwhile, in a renegotiation.
            Connected::Accepted { lease, .. } if peer.is_refused() => self.pool.release(&lease.addresses),
            Connected::Refused { lease, reason } => {
                self.pool.release(&lease.addresses);
                peer.refuse(self.now, "", &reason, &mut self.events);
            }
            Connected::Failed { lease, reason } => {
                self.pool.release(&lease.addresses);
                peer.refuse_for_now(self.now, &reason, &mut self.events);
            }
            Connected::Accepted { mut lease, mut settings, mut added } => {
                if let Some(granted) = peer.granted() {
                    added.merge(*granted);
                }
                let moves = added.ipv4.is_some() || added.ipv6.is_some();
                settings.merge(*added);
                if moves {
                    self.pool.release(&lease.addresses);
                    return self.assign_addresses(id, &settings, true);
                }
                lease.routes.clone_from(&settings.routes);
                if self.take_over(id) {
                    self.bring_up(id, lease, &settings);
                }
                return;
            }
        }
        self.settle(id);
    }

    /// A program judged a client.
    pub(super) fn decided(&mut self, client: u64, key: u32, decision: &ClientDecision) {
        let found = self.peers.iter_mut().find(|(_, peer)| peer.number() == client);
        let Some((&id, peer)) = found else { return };
        peer.decided(self.now, key, decision, &mut self.events);
        self.settle(id);
    }

    /// The client has its addresses; `learn-address` runs for them first.
    fn bring_up(&mut self, id: PeerId, lease: ClientLease, settings: &PeerSettings) {
        if let Some(username) = &settings.username
            && !self.override_username(id, username)
        {
            self.pool.release(&lease.addresses);
            return self.settle(id);
        }
        if self.params.access.learn_address.is_none() || lease.networks().is_empty() {
            return self.establish(id, lease, settings);
        }
        let elsewhere = self.pool.announce(id, &lease.networks());
        if let Some(peer) = self.peers.get_mut(&id) {
            let mut before = self.vacated.keys().copied().chain(elsewhere).collect();
            peer.ask_learn_address(self.now, lease, settings, &mut before, &mut self.events);
            self.vacated.retain(|network, _| before.contains(network));
        }
        self.settle(id);
    }

    /// `override-username`. False if the client is refused or gone.
    fn override_username(&mut self, id: PeerId, username: &str) -> bool {
        let Some(peer) = self.peers.get_mut(&id) else { return false };
        let before = peer.known_name().map(str::to_owned);
        if let Err(why) = peer.override_username(username, &mut self.events) {
            peer.refuse_for_now(self.now, &why, &mut self.events);
            return false;
        }
        // With `username-as-common-name` it has another name now, and that name's earlier connections make room.
        peer.known_name() == before.as_deref() || self.take_over(id)
    }

    /// The client may use its addresses.
    fn establish(&mut self, id: PeerId, lease: ClientLease, settings: &PeerSettings) {
        let entry = self.pool.entry(&lease.addresses);
        if let Some(peer) = self.peers.get_mut(&id) {
            let name = peer.known_name().map(str::to_owned);
            peer.establish(self.now, lease.clone(), settings, &mut self.events);
            if peer.is_up() {
                self.up += 1;
                self.half_open.remove(id);
                if let Some(name) = name.filter(|_| !self.params.duplicate_cn) {
                    self.by_name.insert(name, id);
                }
                self.events.extend(entry.map(|entry| Event::Request(Request::Leased(entry))));
                peer.tell_program(&mut self.events);
            } else {
                // Refused: its addresses go back.
                self.pool.release(&lease.addresses);
                if self.params.access.learn_address.is_some() {
                    self.vacate(id, lease.networks());
                }
            }
        }
        self.settle(id);
    }

    /// The client's earlier connections make room for this one, at other endpoints of the tunnel too. False if it is
    /// gone itself, as a later one took over from it there.
    fn take_over(&mut self, id: PeerId) -> bool {
        for old in self.replaced_by(id) {
            self.replace(old, "replaced by a new connection of the same client");
        }
        self.bind_name(id)
    }

    pub(super) fn replace(&mut self, old: PeerId, reason: &str) {
        self.peers.get_mut(&old).into_iter().for_each(Peer::fall_silent);
        self.remove(old, reason, Severity::Info);
    }

    fn replaced_by(&self, id: PeerId) -> Vec<PeerId> {
        let Some(peer) = self.peers.get(&id) else { return Vec::new() };
        let (name, path) = (peer.known_name(), peer.path());
        let same_name = name.and_then(|name| self.by_name.get(name)).copied();
        let only = self.params.point_to_point.is_some().then(|| self.by_data_id(id));
        // An earlier one that scripts still judge holds addresses that are this one's now.
        let is_same = |peer: &Peer| name.is_some() && peer.known_name() == name;
        let judged = |peer: &Peer| !self.params.duplicate_cn && peer.is_judged() && is_same(peer);
        let judged = self.half_open.ids().filter(|id| self.peers.get(id).is_some_and(&judged));
        let replaced: BTreeSet<PeerId> =
            same_name.into_iter().chain(only).chain(self.at(path)).chain(judged).collect();
        replaced.into_iter().filter(|other| *other != id).collect()
    }

    /// Marks these addresses as free.
    pub(super) fn vacate(&mut self, id: PeerId, networks: Vec<IpNet>) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let source = peer.path().remote().ip();
        let gone = networks.into_iter().filter(|network| self.pool.withdraw(id, network));
        self.vacated.extend(gone.map(|network| (network, (peer.next_script(), source))));
    }

    /// Addresses that no later control channel took over are dropped.
    pub(super) fn forget_vacated(&mut self) {
        for (network, script) in std::mem::take(&mut self.vacated) {
            delete_address(&self.params, script, network, &mut self.events);
        }
    }
}
