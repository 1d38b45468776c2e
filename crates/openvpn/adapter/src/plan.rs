//! A protocol with its parameters, run.

use std::sync::Arc;

use adit_openvpn::params::ClientParams;
use adit_openvpn::{Client, Server, StaticTunnel};
use adit_openvpn_config::Role;

use super::management::Management;
use super::prepare;
use super::prepare::{Plan, Secured, Settled};
use super::reload::{self, ClientKind, PointKind, Reloads, Remotes, ServerKind, StaticKind, Trust};
use super::run::{Own, Start};
use super::tunnel::Tunnel;
use crate::asking::Asking;
use adit_host::failure::Failure;
use adit_host::startup::Member;

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
        let plan = prepare::plan(Arc::make_mut(&mut self.parsed), &self.file, &asking, &mut log)?;
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
