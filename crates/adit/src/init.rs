//! `adit init`: a server's directory, ready to run.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::exit;
use crate::setup::{Consent, Endpoint, Proto, SetupError, SystemUser, Workshop};

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
    /// The system user that the server runs as [default: adit if there is one, or else nobody]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Make that user if there is none (at a terminal, you are asked)
    #[arg(long)]
    create_user: bool,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    let dir = args.dir.display();
    let made = choose_user(&args).and_then(|user| {
        Workshop::create(&args.dir, &args.endpoint, args.proto, &user)?;
        Ok(user)
    });
    match made {
        Ok(user) => {
            exit::say(format_args!(
                "Made {dir}. It holds the keys to the whole VPN: keep it secret, and keep a copy.\n\n\
                 Add a client:     adit add-client {dir} NAME\n\
                 Run the server:   adit up {dir}/server.conf   (openvpn {dir}/server.conf works too)"
            ));
            exit::notes(user.advice().into_iter().collect());
            ExitCode::SUCCESS
        }
        Err(error @ (SetupError::Exists(_) | SetupError::Made(_) | SetupError::NoSuchUser { .. })) => {
            exit::usage(error)
        }
        Err(error) => exit::failure(error),
    }
}

fn choose_user(args: &Args) -> Result<SystemUser, SetupError> {
    let can_ask = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let consent = match args.create_user {
        true => Consent::Given,
        false if can_ask && rustix::process::geteuid().is_root() => Consent::Ask(&ask),
        false => Consent::Withheld,
    };
    SystemUser::choose(args.user.as_deref(), &consent)
}

/// Asks the person at the terminal. No answer is no.
fn ask(name: &str) -> bool {
    exit::ask(format_args!("Make the system user `{name}` for the server to run as? [y/N] "));
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
