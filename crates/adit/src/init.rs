//! `adit init`: a server's directory, ready to run.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::exit;
use crate::setup::{Endpoint, Proto, SetupError, Workshop};

/// Make a server: certificate authority, keys and server.conf in a new directory
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory to make; must not exist, or be empty
    dir: PathBuf,
    /// How clients reach the server: a name or address, and a port unless it is 1194
    #[arg(long, value_name = "HOST[:PORT]")]
    endpoint: Endpoint,
    /// What carries the tunnel
    #[arg(long, value_enum, default_value_t = Proto::Udp)]
    proto: Proto,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    let dir = args.dir.display();
    match Workshop::create(&args.dir, &args.endpoint, args.proto) {
        Ok(()) => {
            exit::say(format_args!(
                "Made {dir}. It holds the keys to the whole VPN: keep it secret, and keep a copy.\n\n\
                 Add a client:     adit add-client {dir} NAME\n\
                 Run the server:   adit up {dir}/server.conf   (openvpn {dir}/server.conf works too)"
            ));
            ExitCode::SUCCESS
        }
        Err(error @ (SetupError::Exists(_) | SetupError::Made(_))) => exit::usage(error),
        Err(error) => exit::failure(error),
    }
}
