//! `adit renew`: new certificates before the old ones expire.

use std::path::PathBuf;
use std::process::ExitCode;

use time::OffsetDateTime;

use adit_setup::{ClientName, Directory, SetupError};

use crate::adapters::{SERVER, help};
use crate::add_client::say_native;
use adit_host::exit;

/// Renew certificates: the server's, those of the clients named, or the authority's; and the list of revoked
/// certificates
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory that `adit init` made
    dir: PathBuf,
    /// Clients to make new profiles for; without any, the server's certificate is renewed
    names: Vec<ClientName>,
    /// Renew the authority's certificate instead; its key stays, and with it all certificates
    #[arg(long, conflicts_with = "names")]
    ca: bool,
    /// Make new keys.
    #[arg(long = help::KEYS, help = help::RENEW_KEYS, conflicts_with = "ca", requires = "names")]
    keys: bool,
    /// Make new files for the clients of operating systems.
    #[arg(long = help::NATIVE, help = help::RENEW_NATIVE, conflicts_with_all = ["ca", "keys"], requires = "names")]
    native: bool,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    let renew = match &args {
        Args { ca: true, .. } => renew_authority,
        Args { keys: true, .. } => renew_keys,
        Args { native: true, .. } => renew_native,
        _ => renew_certificates,
    };
    match Directory::open(&args.dir, SERVER).and_then(|mut directory| renew(&mut directory, &args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(
            error @ (SetupError::NoSuchClient(_)
            | SetupError::NoCertificate { .. }
            | SetupError::NoProfile { .. }
            | SetupError::NoKeys(_)
            | SetupError::NotOurs(_)),
        ) => exit::usage(error),
        Err(error) => exit::failure(error),
    }
}

fn renew_certificates(directory: &mut Directory, args: &Args) -> Result<(), SetupError> {
    let written = directory.renew(&args.names);
    exit::notes(directory.notes());
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

fn renew_keys(directory: &mut Directory, args: &Args) -> Result<(), SetupError> {
    let written = directory.renew_keys(&args.names);
    exit::notes(directory.notes());
    for path in written? {
        exit::say(format_args!("Made {} with new keys and the address that it had.", path.display()));
    }
    exit::say("Hand the files over by a safe way, then delete them here. The old keys are shut out.");
    Ok(())
}

fn renew_native(directory: &mut Directory, args: &Args) -> Result<(), SetupError> {
    let made = directory.renew_native(&args.names);
    exit::notes(directory.notes());
    for (name, made) in args.names.iter().zip(&made?) {
        say_native(name, made);
    }
    exit::say("Old certificates stay valid until they expire; old passwords do not.");
    Ok(())
}

fn renew_authority(directory: &mut Directory, args: &Args) -> Result<(), SetupError> {
    let renewed = directory.renew_authority();
    exit::notes(directory.notes());
    let renewed = renewed?;
    for path in &renewed.files {
        exit::say(format_args!("Wrote {} with the authority's new certificate.", path.display()));
    }
    let day = |end: Option<OffsetDateTime>| {
        end.map_or_else(|| "an unknown day".into(), |end| end.date().to_string())
    };
    exit::say(format_args!(
        "It is valid until {}. Its name and key are those of the old one, so that all certificates stay valid.\n\
         Restart the server. Clients trust the old one until {}. Before that day, each client needs one of these: its \
         file from {dir}/clients, a new profile (adit renew {dir} NAME), or the text of {dir}/pki/ca.crt between <ca> \
         and </ca> of the profile it has.",
        day(renewed.end),
        day(renewed.old_end),
        dir = args.dir.display()
    ));
    Ok(())
}
