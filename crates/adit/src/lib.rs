//! The `adit` command. It is a library so that fuzz targets reach what it reads; the program calls [`main`].
//!
//! Each subcommand is a module with `Args` and `run(Args) -> ExitCode`; adding one takes its `mod` line and a line of `OWN`.
//! Protocols bring commands of their own (`adit_host::commands`).
#![forbid(unsafe_code)]

mod access;
mod adapters;
mod add_client;
mod adopt;
mod appliance;
mod bench;
mod block;
mod check;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod helper;
mod init;
mod kill_switch;
pub mod manual;
mod offloads;
mod renew;
mod revoke;
mod service;
mod status;
mod up;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use adit_host::commands::{CommandOf, Group, Personality, Subcommand};
use adit_host::exit;

/// The program's own commands, in the order of the help within each group.
const OWN: &[&dyn Subcommand] = &[
    &CommandOf::new("init", Group::Servers, init::run),
    &CommandOf::new("add-client", Group::Servers, add_client::run),
    &CommandOf::new("renew", Group::Servers, renew::run),
    &CommandOf::new("revoke", Group::Servers, revoke::run),
    &CommandOf::new("block", Group::Peers, block::block),
    &CommandOf::new("allow", Group::Peers, block::allow),
    &CommandOf::new("check", Group::Files, check::run),
    &CommandOf::new("access", Group::Files, access::run),
    &CommandOf::new("adopt", Group::Adoption, adopt::run),
    &CommandOf::new("up", Group::Tunnels, up::run),
    &CommandOf::new("kill-switch", Group::Operation, kill_switch::run),
    &CommandOf::new("status", Group::Operation, status::run),
    &CommandOf::new("bench", Group::Operation, bench::run),
    &CommandOf::new("appliance", Group::Operation, appliance::run),
    &CommandOf::new(adit_host::helper::NAME, Group::Internal, helper::run),
];

/// All commands, in the order of the help: within each group the program's own first, and those of the protocol of files without a
/// mark before those of other protocols.
fn commands() -> Vec<&'static dyn Subcommand> {
    let of_protocols = adapters::ALL.iter().rev().flat_map(|adapter| adapter.commands());
    let mut all: Vec<_> = OWN.iter().chain(of_protocols).copied().collect();
    all.sort_by_key(|command| command.group());
    all
}

/// The parser of the command line.
fn command() -> clap::Command {
    clap::Command::new("adit")
        .version(env!("CARGO_PKG_VERSION"))
        .about(adapters::help::ABOUT)
        .after_help(exit::HELP)
        .propagate_version(true)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(commands().iter().map(|command| command.definition()))
}

/// Runs the command line of this process, and gives its exit code: the command line of another program, if the process is called by
/// that program's name. The first process of an appliance has no command line.
pub fn main() -> ExitCode {
    if adit_appliance::is_first_process() {
        return adit_appliance::run_as_first_process();
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    let program = words.first().map_or(OsStr::new(""), OsString::as_os_str);
    match personality(program) {
        Some(personality) => (personality.main)(words),
        None => run(words),
    }
}

/// Runs the command line of this process as that of the program `name`, whatever the process is called, and gives its exit code. The
/// helper process of a tunnel is this program by the name of `adit`, whose command line it has then.
pub fn main_of(name: &str) -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let is_helper = words.first().is_some_and(|program| program == adit_host::helper::PROGRAM);
    match personality(OsStr::new(name)) {
        Some(personality) if !is_helper => (personality.main)(words),
        _ => main(),
    }
}

/// The other program that a process of that name is.
fn personality(program: &OsStr) -> Option<&'static Personality> {
    let mut all = adapters::ALL.iter().flat_map(|adapter| adapter.personalities());
    all.find(|personality| (personality.is_called)(program))
}

/// Runs a command line of `adit`.
fn run(words: Vec<OsString>) -> ExitCode {
    let matches = command().get_matches_from(words);
    let Some((name, arguments)) = matches.subcommand() else { return ExitCode::FAILURE };
    let all = commands();
    let found = all.iter().find(|command| command.name() == name);
    found.map_or(ExitCode::FAILURE, |command| command.run(arguments))
}
