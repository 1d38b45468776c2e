//! The process that sets name servers for a tunnel whose own process may not any more (`user`).

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};

use crate::exit;

/// What the command is called.
pub(crate) const NAME: &str = "name-servers";

/// Set name servers for a tunnel: only for `adit up`
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The kernel's number of the device
    device: u32,
    /// The file in place of /etc/resolv.conf
    file: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    // It ends when the tunnel does, not before: a service manager tells all of us to stop at once.
    let unheard = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGUSR1] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&unheard)) {
            return exit::failure(error);
        }
    }
    let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
    match adit_io::serve_name_servers(args.device, args.file, input, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::failure(error),
    }
}
