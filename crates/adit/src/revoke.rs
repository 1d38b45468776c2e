//! `adit revoke`: a client is no client any more.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::setup::{ClientName, SetupError, Workshop};
use adit_host::exit;

/// Shut a client out: its certificates go on the list that the server looks at, its WireGuard keys out of the server
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory that `adit init` made
    dir: PathBuf,
    /// The client's name
    name: ClientName,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    match Workshop::open(&args.dir).and_then(|mut workshop| revoke(&mut workshop, &args.name)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ (SetupError::NoSuchClient(_) | SetupError::NotOurs(_))) => exit::usage(error),
        Err(error) => exit::failure(error),
    }
}

fn revoke(workshop: &mut Workshop, name: &ClientName) -> Result<(), SetupError> {
    let outcome = workshop.revoke(name);
    if let Ok(new) = outcome {
        exit::say(match new {
            true => format!("Revoked {name}."),
            false => format!("{name} was revoked already; it is shut out."),
        });
    }
    exit::notes(workshop.notes());
    outcome.map(|_| ())
}
