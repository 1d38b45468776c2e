//! `adit add-client`: a client's profile.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use adit_setup::{ClientName, Directory, Login, MadeClient, MadeNative, SetupError};

use crate::adapters::{SERVER, help};
use crate::block;
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
    /// Make files for the clients of operating systems.
    #[arg(long = help::NATIVE, help = help::ADD_CLIENT_NATIVE)]
    native: bool,
    /// The client has a password in place of a certificate.
    #[arg(long, help = help::ADD_CLIENT_PASSWORD, requires = "native")]
    password: bool,
}

/// The files that the command made.
struct Made {
    profile: Option<PathBuf>,
    keys: Option<MadeClient>,
    native: Option<MadeNative>,
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
            | SetupError::Alone(_)
            | SetupError::ServersName(_)
            | SetupError::Server { .. }),
        ) => exit::usage(error),
        Err(error) => exit::failure(error),
    }
}

fn add(directory: &mut Directory, args: &Args) -> Result<Made, SetupError> {
    // A directory with one protocol has clients of that one.
    let is_named = args.certificate || args.keys || args.native;
    let is_native = args.native || !is_named && directory.is_alone();
    // Where the directory lacks a protocol, nothing is made.
    if is_native {
        directory.native_server()?;
    }
    let has_several = [args.keys, is_native, args.certificate].into_iter().filter(|it| *it).count() > 1;
    let mut taken = Vec::new();
    // The second protocol first: where the directory has none, nothing is made.
    let keys = args.keys.then(|| directory.add_key_client(&args.name, args.qr));
    exit::notes(directory.notes());
    let keys = unless_taken(keys, has_several, &mut taken)?;
    let native = is_native.then(|| directory.add_native_client(&args.name, args.password));
    exit::notes(directory.notes());
    let native = unless_taken(native, has_several, &mut taken)?;
    let is_plain = !args.keys && !is_native;
    let profile = (args.certificate || is_plain).then(|| directory.add_client(&args.name));
    exit::notes(directory.notes());
    // Where the name has some of all, the others are made.
    let is_some_made = keys.is_some() || native.is_some();
    let profile = unless_taken(profile, is_some_made, &mut taken)?;
    if profile.is_none() && !is_some_made {
        return Err(taken.remove(0));
    }
    exit::notes(taken.iter().map(ToString::to_string).collect());
    if native.is_some() {
        exit::notes(block::let_in(&args.dir.join(SERVER.native.file()), args.name.as_str()));
    }
    Ok(Made { profile, keys, native })
}

/// A result, in which a name that is taken is no error if that `is_allowed`.
fn unless_taken<T>(
    result: Option<Result<T, SetupError>>,
    is_allowed: bool,
    taken: &mut Vec<SetupError>,
) -> Result<Option<T>, SetupError> {
    match result.transpose() {
        Err(error @ SetupError::NameTaken { .. }) if is_allowed => {
            taken.push(error);
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
    if let Some(native) = &made.native {
        say_native(name, native);
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

/// Says what was made for the clients of operating systems.
pub(crate) fn say_native(name: &ClientName, made: &MadeNative) {
    let paths: Vec<String> = made.paths.iter().map(|path| path.display().to_string()).collect();
    exit::say(format_args!(
        "Made {}. Each is all that a device of {name} needs to connect by {}: hand the one that fits over by a safe way, then delete them here.",
        paths.join(", "),
        SERVER.native.title()
    ));
    exit::say(match &made.login {
        Login::Certificate { password, .. } => format!(
            "The password of the certificate in {name}.sswan, for which Android asks: {}",
            password.as_str()
        ),
        Login::Password(password) => format!(
            "The password of {name}: {}\nA running server knows it after a reload: systemctl reload adit@DIRECTORY, or SIGHUP to `adit up`.",
            password.as_str()
        ),
    });
}
