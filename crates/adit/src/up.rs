//! `adit up`: runs the tunnels of one or several configurations until it is told to stop.

use std::path::PathBuf;
use std::process::ExitCode;

use adit_io::MAX_WORKERS;

use crate::adapters::{self, help};
use crate::offloads::OffloadArgs;
use adit_host::log::Manner;
use adit_host::options::{KillSwitchScope, Options};
use adit_host::process;

/// The arguments of the command.
#[derive(clap::Args)]
#[command(about = help::UP)]
pub(crate) struct Args {
    /// The configurations.
    #[arg(required = true, value_name = "FILE", help = help::UP_FILES)]
    files: Vec<PathBuf>,
    /// End all tunnels when the first ends, for whatever reason
    #[arg(long)]
    exit_with_first: bool,
    /// Write name servers to this file, in place of systemd-resolved and /etc/resolv.conf
    #[arg(long, value_name = "FILE")]
    resolv_conf: Option<PathBuf>,
    /// The scope of the kill switch.
    #[arg(
        long,
        value_name = "lan",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all",
        help = help::KILL_SWITCH
    )]
    kill_switch: Option<Scope>,
    #[command(flatten)]
    offloads: OffloadArgs,
    /// Threads that move packets (1 to 8), for a server with many UDP clients on a machine with many cores.
    /// Each client is served by one of them; those on TCP all by the first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = workers_in_range)]
    workers: usize,
    /// Do not confine the running tunnels (Landlock, seccomp): for debugging alone
    #[arg(long)]
    no_sandbox: bool,
}

/// The scope of the kill switch.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Scope {
    /// All.
    All,
    /// All but what stays in local networks.
    Lan,
}

impl From<Args> for Options {
    fn from(args: Args) -> Self {
        let scope = |scope| match scope {
            Scope::All => KillSwitchScope::All,
            Scope::Lan => KillSwitchScope::Lan,
        };
        Options {
            files: args.files,
            exit_with_first: args.exit_with_first,
            resolv_conf: args.resolv_conf,
            kill_switch: args.kill_switch.map(scope),
            offloads: args.offloads.switches(),
            workers: args.workers,
            no_sandbox: args.no_sandbox,
            manner: Manner::default(),
            first_line: None,
            in_background: false,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    process::run(&args.into(), adapters::ALL)
}

fn workers_in_range(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=MAX_WORKERS) => Ok(number),
        _ => Err(format!("give a number from 1 to {MAX_WORKERS}")),
    }
}
