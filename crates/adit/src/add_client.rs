//! `adit add-client`: a client's profile.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use adit_setup::{ClientName, Directory, MadeClient, SetupError};

use crate::adapters::{SERVER, help};
use adit_host::exit;

/// The arguments of the command.
#[derive(clap::Args)]
#[command(about = help::ADD_CLIENT, long_about = help::ADD_CLIENT_LONG)]
pub(crate) struct Args {
    /// Directory that `adit init` made
    dir: PathBuf,
    /// The client's name: letters, digits, and . _ @ - after the first
    name: ClientName,
    /// Make a profile with a certificate.
    #[arg(long = help::CERTIFICATE, help = help::ADD_CLIENT_CERTIFICATE)]
    certificate: bool,
    /// Make a file with keys.
    #[arg(long = help::KEYS, help = help::ADD_CLIENT_KEYS)]
    keys: bool,
    /// Make a QR code.
    #[arg(long, help = help::ADD_CLIENT_QR, requires = "keys")]
    qr: bool,
}

/// The files that the command made.
struct Made {
    profile: Option<PathBuf>,
    keys: Option<MadeClient>,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    match Directory::open(&args.dir, SERVER).and_then(|mut directory| add(&mut directory, &args)) {
        Ok(made) => {
            say(&args.name, &made);
            ExitCode::SUCCESS
        }
        Err(
            error @ (SetupError::NameTaken { .. }
            | SetupError::NotOurs(_)
            | SetupError::NoKeys(_)
            | SetupError::NoAddress { .. }
            | SetupError::Server { .. }),
        ) => exit::usage(error),
        Err(error) => exit::failure(error),
    }
}

fn add(directory: &mut Directory, args: &Args) -> Result<Made, SetupError> {
    // The second protocol first: where the directory has none, nothing is made.
    let keys = args.keys.then(|| directory.add_key_client(&args.name, args.qr));
    exit::notes(directory.notes());
    let is_both = args.keys && args.certificate;
    let mut taken = None;
    let keys = unless_taken(keys, is_both, &mut taken)?;
    let profile = (args.certificate || !args.keys).then(|| directory.add_client(&args.name));
    exit::notes(directory.notes());
    // Where the name has one of both, the other is made.
    let profile = unless_taken(profile, is_both && taken.is_none(), &mut taken)?;
    exit::notes(taken.map(|error| error.to_string()).into_iter().collect());
    Ok(Made { profile, keys })
}

/// A result, in which a name that is taken is no error if that `is_allowed`.
fn unless_taken<T>(
    result: Option<Result<T, SetupError>>,
    is_allowed: bool,
    taken: &mut Option<SetupError>,
) -> Result<Option<T>, SetupError> {
    match result.transpose() {
        Err(error @ SetupError::NameTaken { .. }) if is_allowed => {
            *taken = Some(error);
            Ok(None)
        }
        result => result,
    }
}

fn say(name: &ClientName, made: &Made) {
    if let Some(profile) = &made.profile {
        exit::say(format_args!(
            "Made {}. It is all that {name} needs to connect: hand it over by a safe way, then delete it here.",
            profile.display()
        ));
    }
    let Some(MadeClient { path, text, code }) = &made.keys else { return };
    exit::say(format_args!(
        "Made {}. It is all that {name} needs to connect by {}: hand it over by a safe way, then delete it here.",
        path.display(),
        SERVER.key.title()
    ));
    match code {
        Some(code) => {
            exit::say(format_args!(
                "{name}.png and {name}.svg beside it are its QR code, which holds the key as well: delete them, too.\n"
            ));
            exit::say(code.terminal(std::io::stdout().is_terminal()).as_str());
        }
        None => exit::say(format_args!("\n{}", text.as_str())),
    }
}
