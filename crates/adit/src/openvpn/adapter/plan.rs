//! A protocol with its parameters, run.

use std::sync::Arc;
use std::time::Duration;

use adit_openvpn::params::ClientParams;
use adit_openvpn::{Client, Server, StaticTunnel};
use adit_openvpn_config::{ClientConfig, Config, Parsed, Role};

use super::management::Management;
use super::prepare::{self, Asking, Plan, Secured, Settled};
use super::reload::{self, ClientKind, PointKind, Reloads, Remotes, ServerKind, StaticKind, Trust};
use super::run::{Own, Start};
use super::tunnel::Tunnel;
use crate::host::failure::Failure;
use crate::host::startup::Member;
use crate::host::terminal::Terminal;

/// What a server may ask the person at the terminal, in OpenVPN's words: to open a page, or a question.
const QUESTIONS: &str = "webauth,openurl,crtext";

impl Tunnel<'_> {
    /// Makes the protocol that the configuration asks for, and runs it until it ends.
    ///
    /// # Errors
    /// Why it did not come up, or ended unasked.
    pub(crate) fn run_plan(
        mut self,
        settled: Settled,
        management: Option<Management>,
        member: Member<'_>,
    ) -> Result<(), Failure> {
        let asking = Asking::Now(management.as_ref(), &member.startup().early);
        let mut log = self.log.clone();
        let plan = prepare::plan(Arc::make_mut(&mut self.parsed), self.file, &asking, &mut log)?;
        let start = Start { settled, management, member };
        match plan {
            Plan::Static { params, watched, wall, seed } => {
                let remotes = Remotes::of(&self.parsed.config);
                let waits = matches!(self.parsed.config.role, Role::PointToPoint(_));
                let reloads: Reloads<StaticTunnel> = Box::new(move |source, handle| match waits {
                    true => reload::reload(source, StaticKind::<false> { handle, remotes, wall }),
                    false => reload::reload(source, StaticKind::<true> { handle, remotes, wall }),
                });
                let own = Own::default();
                self.run_protocol(watched, (own, reloads), start, |now| StaticTunnel::new(*params, now, seed))
            }
            Plan::Client { params, prompt, proxy_prompt, with } => {
                let own =
                    Own { prompt: Some(prompt), proxy_prompt: Some(proxy_prompt), key: with.key.clone() };
                self.run_client(*params, own, with, start)
            }
            Plan::Server { params, secret, with } => {
                let Secured { credentials, lists, watched, wall, seed, .. } = with;
                let expiry = watched.expiry.clone();
                let reloads: Reloads<Server> = Box::new(move |source, handle| {
                    let trust = Trust { credentials, key: None, lists, expiry };
                    reload::reload(source, ServerKind { handle, trust, secret, wall })
                });
                let pool = self.shared.as_ref().map(|shared| shared.pool.clone()).unwrap_or_default();
                let protocol = move |now| Server::with_pool(*params, &pool, now, seed);
                self.run_protocol(watched, (Own::default(), reloads), start, protocol)
            }
            Plan::PointToPoint { params, with } => {
                let Secured { credentials, lists, watched, wall, seed, .. } = with;
                let expiry = watched.expiry.clone();
                let reloads: Reloads<Server> = Box::new(move |source, handle| {
                    let trust = Trust { credentials, key: None, lists, expiry };
                    reload::reload(source, PointKind { handle, trust, wall })
                });
                let protocol = move |now| Server::new(*params, now, seed);
                self.run_protocol(watched, (Own::default(), reloads), start, protocol)
            }
        }
    }

    fn run_client(
        self,
        params: ClientParams,
        own: Own,
        with: Secured,
        start: Start<'_>,
    ) -> Result<(), Failure> {
        let Secured { credentials, key, lists, watched, wall, seed } = with;
        let (expiry, remotes) = (watched.expiry.clone(), Remotes::of(&self.parsed.config));
        let reloads: Reloads<Client> = Box::new(move |source, handle| {
            let trust = Trust { credentials, key, lists, expiry };
            reload::reload(source, ClientKind { handle, remotes, trust, wall })
        });
        self.run_protocol(watched, (own, reloads), start, |now| Client::new(params, now, seed))
    }
}

/// How long names that do not exist are looked for. A misspelt one shall not go unnoticed for ever, unless the file
/// says so.
pub(crate) fn resolve_timeout(parsed: &Parsed) -> Option<Duration> {
    let mentioned = parsed.report.iter().any(|entry| entry.directive == "resolv-retry");
    match &parsed.config.role {
        Role::Client(client) if mentioned => client.resolve_retry,
        _ => Some(Duration::ZERO),
    }
}

/// Tells the server what it may ask of the person at the terminal.
pub(crate) fn say_what_can_be_asked(client: &ClientConfig, params: &mut ClientParams) {
    let says = params.peer_info.iter().any(|(name, _)| name == "IV_SSO");
    if client.pull && Terminal::is_there() && !says {
        params.peer_info.push(("IV_SSO".to_owned(), QUESTIONS.to_owned()));
    }
}

/// Has the client ask at the management socket, if there is one, before it connects, and for what a proxy wants to know, if the
/// configuration leaves that open ([`super::proxies::ask_later`]).
pub(crate) fn ask_before_attempts((config, asks_later): (&Config, bool), params: &mut ClientParams) {
    params.asks_for_proxy_credentials = asks_later;
    let Some(management) = &config.process.management else { return };
    params.asks_to_go_on = true;
    params.asks_for_remote = management.query_remote || management.query_proxy;
}
