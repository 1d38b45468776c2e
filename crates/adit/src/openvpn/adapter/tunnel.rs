//! One tunnel of the process: one configuration, from its file to its end.

use std::path::Path;
use std::sync::Arc;

use adit_core::Severity;
use adit_openvpn_config::{Config, Parsed, Role};
use rand_core::{OsRng, TryRngCore as _};

use super::hosts;
use super::management::Management;
use super::prepare::{self, Settled};
use crate::host::endpoints::{Shared, Unbound};
use crate::host::failure::{Failure, no_randomness, tell_end};
use crate::host::log::Logger;
use crate::host::options::Options;
use crate::host::place::place_in;
use crate::host::signals::StartupSignals;
use crate::host::startup::Member;
use crate::host::terminal::Waiting as _;

/// A configuration that was read and found good, and what its tunnel is called.
pub(crate) struct Tunnel<'a> {
    /// The command line.
    pub(crate) args: &'a Options,
    /// The configuration file.
    pub(crate) file: &'a Path,
    /// What `adit status` calls it.
    pub(crate) name: String,
    /// The process runs others too.
    pub(crate) has_others: bool,
    /// What the file says.
    pub(crate) parsed: Arc<Parsed>,
    /// The same before names were looked up and servers put into another order.
    pub(crate) as_read: Arc<Parsed>,
    /// Its log.
    pub(crate) log: Logger,
    /// What it shares with other files, as endpoints of one tunnel.
    pub(crate) shared: Option<Shared>,
    /// An endpoint of that tunnel whose sockets are not bound yet.
    pub(crate) unbound: Option<Unbound>,
}

impl Tunnel<'_> {
    /// Runs the tunnel until it ends.
    ///
    /// # Errors
    /// Why it did not come up, or ended unasked. The log has it too, where that is not what the person who started
    /// the program sees.
    pub(crate) fn run(mut self, member: Member<'_>) -> Result<(), Failure> {
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

    fn start(mut self, member: Member<'_>) -> Result<(), Failure> {
        for warning in &self.parsed.warnings {
            self.log.log(Severity::Warning, warning);
        }
        let mut settled = prepare::settle(Arc::make_mut(&mut self.parsed), self.file, &mut self.log)?;
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
        opened.map_err(|fault| prepare::management_fault(&self.parsed, self.file, fault))
    }
}

/// Where the first of these directives stands that the file has; the file, if it has none.
pub(crate) fn place(parsed: &Parsed, file: &Path, directives: &[&str]) -> String {
    place_in(&parsed.report, file, directives)
}

/// `remote-random`: the servers in any order (Fisher–Yates).
pub(crate) fn shuffle(config: &mut Config) -> Result<(), Failure> {
    let Role::Client(client) = &mut config.role else { return Ok(()) };
    if client.remote_random {
        for last in (1..client.remotes.len()).rev() {
            let random = OsRng.try_next_u64().map_err(no_randomness)?;
            // The bias of the remainder is below 2^-50 for any number of remotes.
            let chosen = random % (last as u64 + 1);
            client.remotes.swap(last, usize::try_from(chosen).unwrap_or(last));
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A client's file with these lines besides.
    pub(crate) fn config(lines: &str) -> Config {
        let file = format!(
            "client\nremote a\nremote b\nremote c\nauth-user-pass\n{lines}\
             <ca>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</ca>\n"
        );
        let none = |_: &Path| Err("no such file".to_owned());
        let parsed = adit_openvpn_config::parse("test.conf", file.as_bytes(), &none);
        parsed.expect("a good file").config
    }

    fn remotes(lines: &str) -> Vec<String> {
        let mut config = config(lines);
        assert!(shuffle(&mut config).is_ok());
        let Role::Client(client) = config.role else { return Vec::new() };
        client.remotes.into_iter().map(|remote| remote.host).collect()
    }

    #[test]
    fn remote_random_gives_every_order() {
        assert_eq!(remotes(""), ["a", "b", "c"]);
        // One of the six is missing once in 10^15 times.
        let orders: BTreeSet<Vec<String>> = (0..200).map(|_| remotes("remote-random\n")).collect();
        assert_eq!(orders.len(), 6, "{orders:?}");
    }
}
