//! The facts of an authenticated client for scripts, and the scripts' answers: `client-connect`, `client-disconnect`.

use std::net::IpAddr;
use std::time::Duration;

use adit_core::{Instant, IpNet};

use super::{Peer, Up};
use crate::environment::{Environment, place_text};
use crate::lease::ClientLease;
use crate::outbox::Outbox;
use crate::request::{
    ClientStep, Event, PeerFacts, PeerSettings, Request, Script, ScriptId, ScriptOutcome, ScriptPriority,
};
use crate::server::connect::{Connected, Connecting};

impl Peer {
    /// The facts of the client for scripts, once it is authenticated.
    pub(super) fn environment(&self) -> Environment {
        let mut env = Environment::new(&self.params.access.env);
        self.describe(&mut env);
        env
    }

    fn describe(&self, env: &mut Environment) {
        env.peer_info(&self.peer_info);
        env.certificates(&self.channel.peer_certificates());
        env.place(self.path, false);
        env.place(self.path, true);
        env.set("common_name", self.known_name().unwrap_or_default());
        if !self.authentication.username().is_empty() {
            env.set("username", self.authentication.username());
        }
    }

    /// The other end of a point-to-point tunnel has authenticated itself.
    pub(super) fn tell_peer(&self, events: &mut Outbox) {
        let point = self.params.point_to_point.as_ref();
        let Some(scripts) = point.and_then(|point| point.local.scripts.as_deref()) else { return };
        let mut env = Environment::new(&scripts.env);
        self.describe(&mut env);
        let facts = PeerFacts { env: env.into_list(), address: place_text(self.path) };
        events.push_back(Event::Request(Request::PeerFacts(Box::new(facts))));
    }

    /// Asks `client-connect` about the client, which would have that lease.
    pub(in crate::server) fn ask_client_connect(
        &mut self,
        now: Instant,
        lease: ClientLease,
        settings: &PeerSettings,
        events: &mut Outbox,
    ) {
        let Some(argv) = self.params.access.client_connect.clone() else { return };
        let mut env = self.environment();
        env.lease(&self.params, &lease, now);
        let connecting = Connecting::new(self.authentication.next_script(), lease, settings.clone());
        events.push_back(Event::Request(Request::RunScript(Box::new(connecting.script(
            argv,
            env.finish("client-connect"),
            (self.path.remote().ip(), self.params.control.rekey.handshake),
        )))));
        self.connecting = Some(Box::new(connecting));
        self.wait_for_settings(now);
    }

    /// Takes the answer of `client-connect`.
    pub(in crate::server) fn client_connected(
        &mut self,
        id: ScriptId,
        outcome: &ScriptOutcome,
        events: &mut Outbox,
    ) -> Connected {
        match self.connecting.take() {
            Some(connecting) if connecting.is(id) => match connecting.done(outcome) {
                Ok(connected) => {
                    self.waits_until = None;
                    events.push_back(Event::Request(Request::CancelScript(id)));
                    connected
                }
                Err(connecting) => {
                    self.connecting = Some(connecting);
                    Connected::NotYet
                }
            },
            other => {
                self.connecting = other;
                Connected::NotOurs
            }
        }
    }

    /// The facts of a client that was in.
    fn last_environment(&self, now: Instant, up: &Up) -> Environment {
        let mut env = self.environment();
        env.lease(&self.params, &up.lease, up.since);
        env.set("time_duration", &(now - up.since).as_secs().to_string());
        let (received, sent) = self.bytes;
        env.set("bytes_received", &received.to_string());
        env.set("bytes_sent", &sent.to_string());
        env
    }

    /// A program that judges clients gets the event that this one is in.
    pub(in crate::server) fn tell_program(&self, events: &mut Outbox) {
        let Some(up) = self.up.as_ref().filter(|_| self.params.access.management) else { return };
        let mut env = self.environment();
        env.lease(&self.params, &up.lease, up.since);
        let own = up.lease.addresses();
        let is_own = |network: &IpNet| own.iter().any(|address| IpNet::from(*address) == *network);
        // As in OpenVPN, the program gets no addresses of a client that its token let in, nor its end.
        let networks = up.lease.networks().into_iter().filter(|_| self.authentication.has_asked_program());
        let networks = networks.map(|network| (network, is_own(&network))).collect();
        events.push_back(self.authentication.client_event(ClientStep::Established { networks }, env));
    }

    /// The client goes: the lease that it would have had, if any. The results of its scripts are no longer needed. Of one that was halted
    /// all was said then.
    pub(in crate::server) fn leave(&mut self, now: Instant, events: &mut Outbox) -> Option<ClientLease> {
        self.authentication.forget(events);
        if std::mem::replace(&mut self.left, true) {
            return None;
        }
        let hears = self.authentication.has_asked_program() || self.params.access.client_disconnect.is_some();
        let env = self.up.as_ref().filter(|_| hears).map(|up| self.last_environment(now, up));
        if self.authentication.has_asked_program() {
            // As in OpenVPN: of one that never was in, no more is said.
            events.push_back(
                self.authentication.client_event(ClientStep::Disconnected, env.clone().unwrap_or_default()),
            );
        }
        if let (Some(env), Some(argv)) = (env, &self.params.access.client_disconnect) {
            let script = (self.authentication.next_script(), self.path.remote().ip(), ScriptPriority::End);
            let (argv, timeout) = (argv.clone(), self.params.control.rekey.handshake);
            let env = env.finish("client-disconnect");
            events.push_back(Event::Request(Request::RunScript(Box::new(plain_script(
                script, argv, env, timeout, None,
            )))));
        }
        if let Some(learning) = self.learning.take() {
            return Some(learning.into_lease());
        }
        let connecting = self.connecting.take()?;
        events.push_back(Event::Request(Request::CancelScript(connecting.id())));
        Some(connecting.into_lease())
    }
}

/// A script without files, of which nothing but the exit code counts.
pub(super) fn plain_script(
    (id, source, priority): (ScriptId, IpAddr, ScriptPriority),
    argv: Vec<String>,
    env: Vec<(String, String)>,
    timeout: Duration,
    in_order: Option<IpNet>,
) -> Script {
    Script {
        id,
        source: Some(source),
        priority,
        argv,
        env,
        secrets: Vec::new(),
        files: Vec::new(),
        settings: None,
        defers: false,
        in_order,
        beside: None,
        timeout,
    }
}
