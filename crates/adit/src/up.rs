//! `adit up`: runs the tunnels of one or several configurations until it is told to stop.
//!
//! [`host`] has what a process has once: signals, rights, the service manager, the log. A [`tunnel`] has one configuration
//! of OpenVPN's, and is set up and run on a thread of its own ([`run`]); [`wireguard`] has the same for one of wg-quick's
//! files. [`startup`] is where they wait for each other.

mod back_ends;
mod changes;
mod client_settings;
mod clients;
mod codec;
mod conflicts;
mod credentials;
mod ending;
mod endpoints;
mod expiry;
mod external_key;
pub(crate) mod forwarding;
mod host;
mod hosts;
mod management;
mod notify;
mod observer;
mod offloads;
mod openvpn_lines;
mod peer_names;
mod plan;
mod prepare;
pub(crate) mod privileges;
pub(crate) mod proxies;
mod reload;
mod revocations;
mod run;
mod scripts;
mod signals;
mod startup;
mod static_tunnel;
mod status_file;
mod terminal;
mod tls;
mod translate;
mod tunnel;
mod tunnel_scripts;
mod unlock;
mod wireguard;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use adit_io::MAX_WORKERS;

use crate::configuration::Dialect;
use crate::exit;
use crate::log::Manner;
pub(crate) use conflicts::check as contradictions;
pub(crate) use expiry::Expiry;
pub(crate) use prepare::{Remarks, check as prepare};
pub(crate) use privileges::Confinement;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing {
    pub(crate) use super::expiry::expiring;
    pub(crate) use super::management::fuzzing::session;
}

/// Run the tunnels of OpenVPN configurations and of WireGuard files, in the foreground
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The configurations: .ovpn or .conf files. Each is a tunnel of its own: one that fails or ends leaves the others
    /// as they are. OpenVPN servers with the same `dev` are endpoints of one tunnel
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// End all tunnels when the first ends, for whatever reason
    #[arg(long)]
    exit_with_first: bool,
    /// Write name servers to this file, in place of systemd-resolved and /etc/resolv.conf
    #[arg(long, value_name = "FILE")]
    resolv_conf: Option<PathBuf>,
    /// Let nothing leave but the tunnels' packets and their own datagrams, from before the first connection until
    /// `adit kill-switch off`, whatever becomes of adit. With `lan`, local networks may be reached (clients and WireGuard files; needs nft)
    #[arg(long, value_name = "lan", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    kill_switch: Option<KillSwitchScope>,
    #[command(flatten)]
    offloads: offloads::OffloadArgs,
    /// Threads that move packets (1 to 8), for a server with many UDP clients on a machine with many cores.
    /// Each client is served by one of them; those on TCP all by the first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = workers_in_range)]
    workers: usize,
    /// Do not confine the running tunnels (Landlock, seccomp): for debugging alone
    #[arg(long)]
    no_sandbox: bool,
    /// How the log looks.
    #[arg(skip)]
    manner: Manner,
    /// Another process waits until the tunnel is set up: this one goes on in the background.
    #[arg(skip)]
    in_background: bool,
}

impl Args {
    /// One tunnel, as OpenVPN runs it.
    pub(crate) fn one(file: PathBuf, manner: Manner, in_background: bool) -> Self {
        Args {
            files: vec![file],
            exit_with_first: false,
            resolv_conf: None,
            kill_switch: None,
            offloads: offloads::OffloadArgs::default(),
            workers: 1,
            no_sandbox: false,
            manner,
            in_background,
        }
    }
}

/// What the kill switch keeps in.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum KillSwitchScope {
    /// All.
    All,
    /// All but what stays in local networks.
    Lan,
}

/// Why a tunnel does not come up, or ended unasked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The configuration is wrong: one problem a line.
    Configuration(String),
    /// Something in the world stood in the way.
    World(String),
}

impl Failure {
    /// The exit code of a process whose tunnel fails so.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Configuration(_) => ExitCode::from(exit::USAGE),
            Failure::World(_) => ExitCode::FAILURE,
        }
    }

    /// Why, in one or more lines.
    pub(crate) fn why(&self) -> &str {
        match self {
            Failure::Configuration(why) | Failure::World(why) => why,
        }
    }

    /// Says why on the standard error, and gives the exit code.
    fn exit(self) -> ExitCode {
        match self {
            Failure::Configuration(why) => exit::usage(why),
            Failure::World(why) => exit::failure(why),
        }
    }
}

/// Reads and checks a configuration.
///
/// # Errors
/// When it is wrong, or cannot be read.
pub(crate) fn read(file: &Path) -> Result<Dialect, Failure> {
    tunnel::read(file)
}

/// Runs the tunnel of [`Args::one`], with the configuration of its file, until it ends.
///
/// # Errors
/// Why it did not come up, or ended unasked.
pub(crate) fn run_one(args: &Args, dialect: Dialect) -> Result<(), Failure> {
    args.files.first().map_or(Ok(()), |file| host::run_read(args, file, dialect))
}

/// The certificates that a PKCS#11 module has, as OpenVPN lists them. Those that can be seen with a PIN alone are asked for
/// with it if they are `private`.
///
/// # Errors
/// When the module cannot be used.
pub(crate) fn show_pkcs11_ids(provider: &str, private: bool) -> Result<String, String> {
    crate::pkcs11::show(provider.into(), private, external_key::ask_at_terminal)
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    host::run(&args)
}

fn workers_in_range(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=MAX_WORKERS) => Ok(number),
        _ => Err(format!("give a number from 1 to {MAX_WORKERS}")),
    }
}
