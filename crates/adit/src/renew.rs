//! `adit renew`: new certificates before the old ones expire.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::exit;
use crate::setup::{ClientName, SetupError, Workshop};

/// Renew certificates: the server's, or those of the clients named; and the list of revoked certificates
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory that `adit init` made
    dir: PathBuf,
    /// Clients to make new profiles for; without any, the server's certificate is renewed
    names: Vec<ClientName>,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    match Workshop::open(&args.dir).and_then(|mut workshop| renew(&mut workshop, &args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ (SetupError::NoSuchClient(_) | SetupError::NotOurs(_))) => exit::usage(error),
        Err(error) => exit::failure(error),
    }
}

fn renew(workshop: &mut Workshop, args: &Args) -> Result<(), SetupError> {
    let written = workshop.renew(&args.names);
    exit::notes(workshop.notes());
    for path in written? {
        exit::say(format_args!("Made {} with a new certificate and key.", path.display()));
    }
    exit::say(match args.names.is_empty() {
        true => "Restart the server: a running one goes on with the old certificate.",
        false => {
            "Hand the profiles over by a safe way, then delete them here. Old certificates stay valid until they \
             expire."
        }
    });
    Ok(())
}
