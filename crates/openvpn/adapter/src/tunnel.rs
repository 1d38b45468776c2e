//! One tunnel of the process: one configuration, from its file to its end.

use std::path::PathBuf;
use std::sync::Arc;

use super::attempts::shuffle;
use adit_core::Severity;
use adit_openvpn_config::{Parsed, Role};

use super::hosts;
use super::management::Management;
use super::prepare::{self, Settled};
use adit_host::adapter;
use adit_host::endpoints::{Shared, Unbound};
use adit_host::failure::{Failure, tell_end};
use adit_host::log::Logger;
use adit_host::options::Options;
use adit_host::signals::StartupSignals;
use adit_host::startup::Member;
use adit_host::terminal::Waiting as _;

/// A configuration that was read and found good, and what its tunnel is called.
pub(crate) struct Tunnel<'a> {
    /// The options of the process.
    pub(crate) options: &'a Options,
    /// The configuration file.
    pub(crate) file: PathBuf,
    /// The name of it in `adit status`.
    pub(crate) name: String,
    /// The process runs others too.
    pub(crate) has_others: bool,
    /// The file's content.
    pub(crate) parsed: Arc<Parsed>,
    /// The file's content before names were looked up and servers put into another order.
    pub(crate) as_read: Arc<Parsed>,
    /// Its log.
    pub(crate) log: Logger,
    /// The resources that it shares with other files, as endpoints of one tunnel.
    pub(crate) shared: Option<Shared>,
    /// An endpoint of that tunnel whose sockets are not bound yet.
    pub(crate) unbound: Option<Unbound>,
}

impl adapter::Tunnel for Tunnel<'_> {
    fn run(mut self: Box<Self>, member: Member<'_>) -> Result<(), Failure> {
        if matches!(&self.parsed.config.role, Role::Client(client) if client.remote_random) {
            shuffle(&mut Arc::make_mut(&mut self.parsed).config)?;
        }
        let (routes, missing) = hosts::look_up(&self.parsed.config.named_routes);
        if !routes.is_empty() {
            Arc::make_mut(&mut self.parsed).config.routes.extend(routes);
        }
        for why in missing {
            self.log.log(Severity::Warning, format_args!("{why}; there is no such route"));
        }
        let _flush = self.log.flush_on_drop();
        let (mut log, name, has_others) = (self.log.clone(), self.name.clone(), self.has_others);
        let outcome = self.start(member);
        tell_end(&outcome, &mut log, (&name, has_others));
        outcome
    }
}

impl Tunnel<'_> {
    fn start(mut self, member: Member<'_>) -> Result<(), Failure> {
        for warning in &self.parsed.warnings {
            self.log.log(Severity::Warning, warning);
        }
        let mut settled = prepare::settle(Arc::make_mut(&mut self.parsed), &self.file, &mut self.log)?;
        if let Some(shared) = &self.shared {
            let device = self.parsed.config.device.name.as_deref().unwrap_or_default();
            let text = format_args!("an endpoint of the tunnel {device}: {}", shared.names.join(", "));
            self.log.log(Severity::Info, text);
        }
        let Some(management) = self.open_management(&mut settled)? else {
            return self.run_plan(settled, None, member);
        };
        let early = &member.startup().early;
        // Its socket may have a file, which goes first.
        early.begin();
        let outcome = self.hold_and_start(settled, management, early, member);
        early.end();
        outcome
    }

    /// `management-hold`, if the file says so, and then the start.
    fn hold_and_start(
        self,
        settled: Settled,
        management: Management,
        early: &StartupSignals,
        member: Member<'_>,
    ) -> Result<(), Failure> {
        if !management.hold(early) {
            return Err(Failure::World("told to end before `hold release`".to_owned()));
        }
        self.run_plan(settled, Some(management), member)
    }

    /// `management`, if the file has it.
    fn open_management(&mut self, settled: &mut Settled) -> Result<Option<Management>, Failure> {
        let Tunnel { parsed, log, .. } = self;
        let opened = Management::open(&parsed.config, settled.management_password.take(), log);
        opened.map_err(|fault| prepare::management_fault(&self.parsed, &self.file, fault))
    }
}
