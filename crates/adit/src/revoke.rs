//! `adit revoke`: a client is no client any more.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::exit;
use crate::setup::{ClientName, SetupError, Workshop};

/// Shut a client out: its certificate goes on the list that the server looks at
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory that `adit init` made
    dir: PathBuf,
    /// The client's name
    name: ClientName,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    match Workshop::open(&args.dir).and_then(|mut workshop| workshop.revoke(&args.name)) {
        Ok(hint) => {
            exit::say(format_args!("Revoked {}.", args.name));
            if let Some(hint) = hint {
                exit::say(format_args!("Note: {hint}."));
            }
            ExitCode::SUCCESS
        }
        Err(error @ (SetupError::NoSuchClient(_) | SetupError::NotOurs(_))) => exit::usage(error),
        Err(error) => exit::failure(error),
    }
}
