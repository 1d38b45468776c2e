//! The process that does for a tunnel what needs files, programs or rights.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

use crate::{configuration, exit};

/// What the command is called.
pub(crate) const NAME: &str = "helper";

/// Open files, run scripts and set up the network for a tunnel: only for `adit up`
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs the command.
pub(crate) fn run(_: Args) -> ExitCode {
    // It ends when the tunnel does, not before: a service manager tells all of us to stop at once.
    let unheard = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&unheard)) {
            return exit::failure(error);
        }
    }
    match adit_io::forbid_core_files().and_then(|()| adit_io::serve_helper(configuration::gather)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::failure(error),
    }
}
