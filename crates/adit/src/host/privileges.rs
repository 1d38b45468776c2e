//! What the process may do: `user` and `group`, the helper that keeps what is needed later, and the sandbox.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use adit_core::{EventOf, Protocol, TunnelSettings};
use adit_guard::{Account, Confined, Helper, Policy};
use adit_io::Observer;

use super::helper;

/// What was given up, once it was: `adit status` shows it.
pub(crate) type Confinement = Arc<OnceLock<Confined>>;

/// The name by which a process runs this program as its helper, whatever its own name is.
pub(crate) const PROGRAM: &str = "adit";

/// Starts the helper of a configuration of that dialect. In the background, what its scripts write goes nowhere: the process that was called listens to this
/// one alone, and not for long.
pub(crate) fn start_helper(
    dialect: helper::Dialect,
    policy: Policy,
    in_background: bool,
) -> Result<Helper, String> {
    let start = || {
        let mut command = Command::new(std::env::current_exe()?);
        // What a terminal sends to all of us is for the tunnel alone.
        // The program may have the name of another personality.
        command.arg0(PROGRAM).args(helper::arguments(dialect)).process_group(0);
        if in_background {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        Helper::start(command, policy)
    };
    start().map_err(|error: std::io::Error| format!("the helper process cannot be started: {error}"))
}

/// Gives up the rights of the process: for good, in all threads.
pub(crate) fn confine(account: Option<&Account>, sandbox: bool) -> Result<Confined, String> {
    // Without `user` it becomes an account that owns nothing: what needs root is done by the helper.
    let unprivileged = if account.is_none() { Account::unprivileged() } else { None };
    adit_guard::confine(account.or(unprivileged.as_ref()), sandbox).map_err(|error| error.to_string())
}

/// An observer, and what is to be done when all is set up.
pub(crate) struct Starting<O, F> {
    pub(crate) observer: O,
    pub(crate) begin: Option<F>,
}

impl<P, O, F> Observer<P> for Starting<O, F>
where
    P: Protocol,
    O: Observer<P>,
    F: FnOnce() -> Result<(), String>,
{
    fn event(&mut self, event: &EventOf<P>, tun_name: &str) {
        self.observer.event(event, tun_name);
    }

    fn request(&mut self, request: P::Request, tun_name: &str) {
        self.observer.request(request, tun_name);
    }

    fn device_ready(&mut self, settings: &TunnelSettings, tun_name: &str) -> bool {
        self.observer.device_ready(settings, tun_name)
    }

    fn going_down(&mut self, tun_name: &str) {
        self.observer.going_down(tun_name);
    }

    fn started(&mut self) -> Result<(), String> {
        self.observer.started()?;
        self.begin.take().map_or(Ok(()), |begin| begin())
    }
}
