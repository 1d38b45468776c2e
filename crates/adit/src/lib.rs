//! The `adit` command. It is a library so that fuzz targets reach what it reads; the program calls [`main`].
//!
//! Each subcommand is a module with `Args` and `run(Args) -> ExitCode`; adding one takes its `mod` line, a
//! variant of `Command` and an arm of [`main`].
#![forbid(unsafe_code)]

mod adapters;
mod add_client;
mod adopt;
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
mod openvpn;
mod renew;
mod revoke;
mod service;
mod setup;
mod status;
mod up;
mod wireguard;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::openvpn::adapter::pkcs11;
use adit_host::exit;

/// A VPN for Linux that speaks OpenVPN and WireGuard.
#[derive(Parser)]
#[command(version, after_help = exit::HELP, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Init(init::Args),
    AddClient(add_client::Args),
    Renew(renew::Args),
    Revoke(revoke::Args),
    Block(block::Block),
    Allow(block::Allow),
    Check(check::Args),
    Adopt(adopt::Args),
    Up(up::Args),
    #[command(name = "openvpn")]
    OpenVpn(openvpn::command::Args),
    #[command(name = "wireguard")]
    WireGuard(wireguard::command::Args),
    KillSwitch(kill_switch::Args),
    Status(status::Args),
    Bench(bench::Args),
    #[command(name = adit_host::helper::NAME, hide = true)]
    Helper(helper::Args),
    #[command(name = pkcs11::NAME, hide = true)]
    Pkcs11(pkcs11::Args),
}

/// Runs the command line of this process, and gives its exit code. If it is called by a name of [`main_of_wireguard`]'s, that
/// of that program; by one that begins with `openvpn`, that of `adit openvpn`.
pub fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    if wireguard::command::is_called(&program) {
        return wireguard::command::main();
    }
    if openvpn::command::is_called(&program) {
        return openvpn::command::main(words.collect());
    }
    match Cli::parse().command {
        Command::Init(args) => init::run(args),
        Command::AddClient(args) => add_client::run(args),
        Command::Renew(args) => renew::run(args),
        Command::Revoke(args) => revoke::run(args),
        Command::Block(args) => block::block(args),
        Command::Allow(args) => block::allow(args),
        Command::Check(args) => check::run(args),
        Command::Adopt(args) => adopt::run(args),
        Command::Up(args) => up::run(args),
        Command::OpenVpn(args) => openvpn::command::run(args),
        Command::WireGuard(args) => wireguard::command::run(&args),
        Command::KillSwitch(args) => kill_switch::run(args),
        Command::Status(args) => status::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Helper(args) => helper::run(args),
        Command::Pkcs11(args) => pkcs11::run(&args),
    }
}

/// Runs the command line of this process as that of `adit-wireguard`, and gives its exit code. The process that helps an interface
/// is this program by the name of `adit`, whose command line it has then.
pub fn main_of_wireguard() -> ExitCode {
    match std::env::args_os().next() {
        Some(name) if name == adit_host::helper::PROGRAM => main(),
        _ => wireguard::command::main(),
    }
}
