//! `learn-address`: a script that is run for each address of a client, and may refuse it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use adit_core::{Instant, IpNet, PeerOrder, Severity};

use super::Peer;
use super::scripts::plain_script;
use crate::environment::Environment;
use crate::lease::ClientLease;
use crate::outbox::Outbox;
use crate::params::ServerParams;
use crate::request::{
    ClientStep, DataEvent, Event, PeerSettings, Request, ScriptId, ScriptOutcome, ScriptPriority,
};

/// A client for whose addresses the script runs.
pub(in crate::server) struct Learning {
    lease: ClientLease,
    settings: PeerSettings,
    asked: BTreeMap<ScriptId, IpNet>,
}

impl Learning {
    pub(in crate::server) fn lease_mut(&mut self) -> &mut ClientLease {
        &mut self.lease
    }

    pub(in crate::server) fn into_lease(self) -> ClientLease {
        self.lease
    }
}

/// The `learn-address` scripts about addresses that a client was given since it is up.
#[derive(Default)]
pub(super) struct LaterAddresses {
    /// Its addresses that are refused until the script has answered.
    asked: BTreeMap<ScriptId, IpNet>,
    /// Runs about addresses that were taken from it before the script had answered.
    superseded: BTreeSet<ScriptId>,
}

/// The meaning of a script's answer.
pub(in crate::server) enum Learned {
    /// The script was another one.
    NotOurs,
    /// The script has not answered for all addresses yet.
    NotYet,
    /// The script was about an address that a client which is up was given.
    Later,
    /// The script has answered for all addresses; those that it refused are not reached.
    All { lease: Box<ClientLease>, settings: Box<PeerSettings> },
}

impl Peer {
    /// Runs `learn-address` for the addresses that the client will have. `before`: addresses that another connection
    /// had until now.
    pub(in crate::server) fn ask_learn_address(
        &mut self,
        now: Instant,
        lease: ClientLease,
        settings: &PeerSettings,
        before: &mut BTreeSet<IpNet>,
        events: &mut Outbox,
    ) {
        let Some(command) = self.params.access.learn_address.clone() else { return };
        let mut env = self.environment();
        env.lease(&self.params, &lease, now);
        let env = env.finish("learn-address");
        let mut asked = BTreeMap::new();
        for network in lease.networks() {
            let how = if before.remove(&network) { "update" } else { "add" };
            asked.insert(self.ask(&command, how, network, &env, events), network);
        }
        self.learning = Some(Box::new(Learning { lease, settings: settings.clone(), asked }));
        self.wait_for_settings(now);
    }

    /// Asks about one network.
    fn ask(
        &mut self,
        command: &[String],
        how: &str,
        network: IpNet,
        env: &[(String, String)],
        events: &mut Outbox,
    ) -> ScriptId {
        let mut argv = command.to_vec();
        argv.extend([how.to_owned(), shown(network), self.name().to_owned()]);
        let id = self.authentication.next_script();
        let timeout = self.params.control.rekey.handshake;
        let source = self.path.remote().ip();
        let script = plain_script(
            (id, source, ScriptPriority::Authenticated),
            argv,
            env.to_vec(),
            timeout,
            Some(network),
        );
        events.push_back(Event::Request(Request::RunScript(Box::new(script))));
        id
    }

    /// Asks about addresses that a client which is up was given. Nothing is sent there before the script has accepted
    /// them.
    /// `before`: those that a client of another endpoint had until now.
    pub(in crate::server) fn ask_about_later_addresses(
        &mut self,
        now: Instant,
        addresses: &[IpNet],
        before: &BTreeSet<IpNet>,
        events: &mut Outbox,
    ) {
        let Some(command) = self.params.access.learn_address.clone() else { return };
        let mut env = self.environment();
        let Some(up) = &mut self.up else { return };
        env.lease(&self.params, &up.lease, now);
        up.lease.refused.extend(addresses);
        let env = env.finish("learn-address");
        for network in addresses {
            let how = if before.contains(network) { "update" } else { "add" };
            let id = self.ask(&command, how, *network, &env, events);
            if let Some(up) = &mut self.up {
                up.learning.asked.insert(id, *network);
            }
        }
    }

    /// Addresses of a client that is up are its own no more. Gives those that `learn-address` was run for.
    pub(in crate::server) fn forget_addresses(
        &mut self,
        addresses: &[IpNet],
        events: &mut Outbox,
    ) -> Vec<IpNet> {
        let Some(up) = &mut self.up else { return Vec::new() };
        let is_reached = |network: &IpNet| !up.lease.refused.contains(network);
        let (reached, refused): (Vec<IpNet>, Vec<IpNet>) = addresses.iter().copied().partition(is_reached);
        let is_asked = |network: &IpNet| up.learning.asked.values().any(|asked| asked == network);
        let told: Vec<IpNet> = refused.into_iter().filter(is_asked).chain(reached.iter().copied()).collect();
        up.lease.refused.retain(|network| !addresses.contains(network));
        let superseded = up.learning.asked.iter().filter(|(_, network)| addresses.contains(network));
        up.learning.superseded.extend(superseded.map(|(id, _)| *id));
        up.learning.asked.retain(|_, network| !addresses.contains(network));
        let peer = self.id;
        events.extend(
            reached
                .into_iter()
                .map(|route| Event::Data(DataEvent::Peer(PeerOrder::RemoveRoute { peer, route }))),
        );
        told
    }

    /// Addresses of a client that is up are reached by it from now on.
    pub(in crate::server) fn reach(&mut self, addresses: &[IpNet], events: &mut Outbox) {
        let peer = self.id;
        for route in addresses.iter().copied() {
            events.push_back(Event::Data(DataEvent::Peer(PeerOrder::AddRoute { peer, route })));
            if self.params.access.management && self.authentication.has_asked_program() {
                let step = ClientStep::Addressed { network: route };
                events.push_back(self.authentication.client_event(step, Environment::default()));
            }
        }
    }

    /// The script has answered about an address that the client was given since it is up.
    fn later_address_judged(&mut self, network: IpNet, outcome: &ScriptOutcome, events: &mut Outbox) {
        if let Some(why) = refusal(network, outcome) {
            let text = format!("{}: {why}; nothing is sent there", self.name());
            return self.tell(Severity::Warning, text, events);
        }
        let Some(up) = &mut self.up else { return };
        up.lease.refused.retain(|refused| *refused != network);
        self.reach(&[network], events);
    }

    /// A run of `learn-address` has ended.
    pub(in crate::server) fn address_learned(
        &mut self,
        id: ScriptId,
        outcome: &ScriptOutcome,
        events: &mut Outbox,
    ) -> Learned {
        if let Some(up) = &mut self.up {
            if up.learning.superseded.remove(&id) {
                return Learned::Later;
            }
            if let Some(network) = up.learning.asked.remove(&id) {
                self.later_address_judged(network, outcome, events);
                return Learned::Later;
            }
        }
        let Some(learning) = &mut self.learning else { return Learned::NotOurs };
        let Some(network) = learning.asked.remove(&id) else { return Learned::NotOurs };
        let refusal = refusal(network, outcome);
        if refusal.is_some() {
            learning.lease.refused.push(network);
        }
        let done = learning.asked.is_empty();
        if let Some(why) = refusal {
            let text = format!("{}: {why}; nothing is sent there", self.name());
            self.tell(Severity::Warning, text, events);
        }
        match self.learning.take() {
            Some(learning) if done => {
                self.waits_until = None;
                let Learning { lease, settings, .. } = *learning;
                Learned::All { lease: Box::new(lease), settings: Box::new(settings) }
            }
            other => {
                self.learning = other;
                Learned::NotYet
            }
        }
    }

    /// The addresses that `learn-address` was run for and that end with the client.
    pub(in crate::server) fn learned(&self) -> Vec<IpNet> {
        if self.params.access.learn_address.is_none() {
            return Vec::new();
        }
        let lease = self.learning.as_ref().map(|learning| &learning.lease).or(self.lease());
        let pending = self.up.iter().flat_map(|up| up.learning.asked.values().copied());
        lease.map(ClientLease::networks).unwrap_or_default().into_iter().chain(pending).collect()
    }

    /// How many runs of `learn-address` about addresses that it was given since it is up have not ended.
    pub(in crate::server) fn unanswered(&self) -> usize {
        self.up.as_ref().map_or(0, |up| up.learning.asked.len() + up.learning.superseded.len())
    }

    /// Names one more run of a script for this client.
    pub(in crate::server) fn next_script(&mut self) -> ScriptId {
        self.authentication.next_script()
    }
}

/// Tells `learn-address` that no client has this address any more.
pub(in crate::server) fn delete_address(
    params: &ServerParams,
    (id, source): (ScriptId, IpAddr),
    network: IpNet,
    events: &mut Outbox,
) {
    let Some(mut argv) = params.access.learn_address.clone() else { return };
    argv.extend(["delete".to_owned(), shown(network)]);
    let env = Environment::new(&params.access.env).finish("learn-address");
    let script = plain_script(
        (id, source, ScriptPriority::End),
        argv,
        env,
        params.control.rekey.handshake,
        Some(network),
    );
    events.push_back(Event::Request(Request::RunScript(Box::new(script))));
}

/// Why the script does not let an address be reached.
fn refusal(network: IpNet, outcome: &ScriptOutcome) -> Option<String> {
    match &outcome.exit {
        Ok(0) => None,
        Ok(code) => Some(format!("learn-address says no to {} (exit code {code})", shown(network))),
        Err(why) => Some(format!("learn-address, asked about {}: {why}", shown(network))),
    }
}

/// As OpenVPN writes it (mroute.c): a single address without its length.
fn shown(network: IpNet) -> String {
    if network.prefix_len() == network.max_prefix_len() {
        network.addr().to_string()
    } else {
        network.to_string()
    }
}
