//! The process that does for a tunnel what needs files, programs or rights.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

use crate::host::helper::Dialect;
use crate::host::{configuration, exit};
use crate::{openvpn, wireguard};

/// Open files, run scripts and set up the network for a tunnel: only for `adit up`
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The options that are the configuration, in place of a file: its lines
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    options: Option<String>,
    /// The dialect of the configuration
    #[arg(long, value_enum, default_value_t = Dialect::OpenVpn)]
    dialect: Dialect,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    if let Some(text) = args.options {
        configuration::use_command_line(text);
    }
    // It ends when the tunnel does, not before: a service manager tells all of us to stop at once.
    let unheard = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&unheard)) {
            return exit::failure(error);
        }
    }
    let dialect = match args.dialect {
        Dialect::OpenVpn => openvpn::adapter::configuration::HELPER,
        Dialect::WireGuard => wireguard::adapter::configuration::HELPER,
    };
    match adit_guard::forbid_core_files().and_then(|()| adit_guard::serve_helper(dialect)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::failure(error),
    }
}
