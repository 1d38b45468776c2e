//! `adit add-client`: a client's profile.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::setup::{ClientName, MadeClient, SetupError, Workshop};
use adit_host::exit;

/// Make a client: a certificate and a NAME.ovpn that holds all it needs
///
/// With --wireguard it makes a NAME.conf instead, for WireGuard, prints it, and lets the client into a running server. A
/// name may have both, by two commands or with --openvpn --wireguard; `adit revoke` shuts it out of both.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory that `adit init` made
    dir: PathBuf,
    /// The client's name: letters, digits, and . _ @ - after the first
    name: ClientName,
    /// Make a profile for OpenVPN, as without --wireguard
    #[arg(long)]
    openvpn: bool,
    /// Make a file for WireGuard
    #[arg(long)]
    wireguard: bool,
    /// Show WireGuard's file as a QR code, and write that to NAME.png and NAME.svg
    #[arg(long, requires = "wireguard")]
    qr: bool,
}

/// What was made.
struct Made {
    openvpn: Option<PathBuf>,
    wireguard: Option<MadeClient>,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    match Workshop::open(&args.dir).and_then(|mut workshop| add(&mut workshop, &args)) {
        Ok(made) => {
            say(&args.name, &made);
            ExitCode::SUCCESS
        }
        Err(
            error @ (SetupError::NameTaken { .. }
            | SetupError::NotOurs(_)
            | SetupError::NoWireGuard(_)
            | SetupError::NoAddress
            | SetupError::Server(_)),
        ) => exit::usage(error),
        Err(error) => exit::failure(error),
    }
}

fn add(workshop: &mut Workshop, args: &Args) -> Result<Made, SetupError> {
    // WireGuard first: where the directory has none, nothing is made.
    let wireguard = args.wireguard.then(|| workshop.add_wireguard_client(&args.name, args.qr));
    exit::notes(workshop.notes());
    let is_both = args.wireguard && args.openvpn;
    let mut taken = None;
    let wireguard = unless_taken(wireguard, is_both, &mut taken)?;
    let openvpn = (args.openvpn || !args.wireguard).then(|| workshop.add_client(&args.name));
    exit::notes(workshop.notes());
    // Where the name has one of both, the other is made.
    let openvpn = unless_taken(openvpn, is_both && taken.is_none(), &mut taken)?;
    exit::notes(taken.map(|error| error.to_string()).into_iter().collect());
    Ok(Made { openvpn, wireguard })
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
    if let Some(profile) = &made.openvpn {
        exit::say(format_args!(
            "Made {}. It is all that {name} needs to connect: hand it over by a safe way, then delete it here.",
            profile.display()
        ));
    }
    let Some(MadeClient { path, text, code }) = &made.wireguard else { return };
    exit::say(format_args!(
        "Made {}. It is all that {name} needs to connect by WireGuard: hand it over by a safe way, then delete it here.",
        path.display()
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
