//! `adit add-client`: a client's profile.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::exit;
use crate::setup::{ClientName, SetupError, Workshop};

/// Make a client: a certificate and a NAME.ovpn that holds all it needs
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory that `adit init` made
    dir: PathBuf,
    /// The client's name: letters, digits, and . _ @ - after the first
    name: ClientName,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    match Workshop::open(&args.dir).and_then(|mut workshop| add(&mut workshop, &args.name)) {
        Ok(profile) => {
            exit::say(format_args!(
                "Made {}. It is all that {} needs to connect: hand it over by a safe way, then delete it here.",
                profile.display(),
                args.name
            ));
            ExitCode::SUCCESS
        }
        Err(error @ (SetupError::NameTaken { .. } | SetupError::NotOurs(_))) => exit::usage(error),
        Err(error) => exit::failure(error),
    }
}

fn add(workshop: &mut Workshop, name: &ClientName) -> Result<PathBuf, SetupError> {
    let made = workshop.add_client(name);
    exit::notes(workshop.notes());
    made
}
