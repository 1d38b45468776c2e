//! `adit access`: the access rules of a server.

use std::path::PathBuf;
use std::process::ExitCode;

use adit_host::{access, exit};

/// The arguments of the command.
#[derive(clap::Args)]
#[command(
    about = "Check who may reach what: the access rules of a server",
    long_about = "Check who may reach what: the access rules of a server.\n\n\
                  The rules are in the file access.toml beside the server's configuration. A server reads them when it starts, and again \
                  on SIGHUP; docs/use/ACCESS.md has the form of the file."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Say whether a file of access rules can be used, and what is wrong in it
    Check {
        /// The file
        #[arg(default_value = "access.toml", value_name = "FILE")]
        file: PathBuf,
    },
}

/// Runs the command.
pub(crate) fn run(Args { action: Action::Check { file } }: Args) -> ExitCode {
    match access::read(&file) {
        Ok(Some(found)) => {
            exit::say(format_args!("{}: can be used: {}", file.display(), found.summary));
            ExitCode::SUCCESS
        }
        Ok(None) => exit::usage(format_args!("{}: there is no such file", file.display())),
        Err(failure) => failure.exit(),
    }
}
