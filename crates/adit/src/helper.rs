//! The process that does for a tunnel what needs files, programs or rights.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

use crate::adapters;
use adit_host::exit;

/// Open files, run scripts and set up the network for a tunnel: only for `adit up`
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The options that are the configuration, in place of a file: its lines
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    options: Option<String>,
    /// The name of the protocol whose files the helper reads; without it, the helper reads none
    #[arg(long, value_name = "NAME")]
    dialect: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    let named = |name: &String| adapters::ALL.iter().find(|adapter| adapter.name() == name.as_str());
    let adapter = match &args.dialect {
        Some(name) => named(name),
        None => adapters::ALL.last(),
    };
    let Some(adapter) = adapter else {
        return exit::usage(format_args!("no protocol is called {}", args.dialect.unwrap_or_default()));
    };
    if let Some(text) = args.options {
        adapter.use_command_line(text);
    }
    // It ends when the tunnel does, not before: a service manager tells all of us to stop at once.
    let unheard = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&unheard)) {
            return exit::failure(error);
        }
    }
    match adit_guard::forbid_core_files().and_then(|()| adit_guard::serve_helper(adapter.helper_files())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::failure(error),
    }
}
