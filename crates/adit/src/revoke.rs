//! `adit revoke`: a client is no client any more.

use std::path::PathBuf;
use std::process::ExitCode;

use adit_setup::{ClientName, Directory, SetupError};

use crate::adapters::{SERVER, help};
use crate::block;
use adit_host::exit;

/// The arguments of the command.
#[derive(clap::Args)]
#[command(about = help::REVOKE)]
pub(crate) struct Args {
    /// Directory that `adit init` made
    dir: PathBuf,
    /// The client's name
    name: ClientName,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    match Directory::open(&args.dir, SERVER).and_then(|mut directory| revoke(&mut directory, &args.name)) {
        Ok(()) => match block::shut_out(&args.dir, args.name.as_str()) {
            Ok(said) => {
                said.iter().for_each(exit::say);
                ExitCode::SUCCESS
            }
            Err(why) => exit::failure(why),
        },
        Err(error @ (SetupError::NoSuchClient(_) | SetupError::NotOurs(_))) => exit::usage(error),
        Err(error) => exit::failure(error),
    }
}

fn revoke(directory: &mut Directory, name: &ClientName) -> Result<(), SetupError> {
    let outcome = directory.revoke(name);
    if let Ok(new) = outcome {
        exit::say(match new {
            true => format!("Revoked {name}."),
            false => format!("{name} was revoked already; it is shut out."),
        });
    }
    exit::notes(directory.notes());
    outcome.map(|_| ())
}
