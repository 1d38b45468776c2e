//! Generates load on a WireGuard server: handshakes of many initiators, and the initiations that attackers forge or replay.
//!
//! `handshakes` runs until it is killed, and writes `begun N done N` to the standard output whenever its counters have changed.
//! The other commands end with the last line that they write.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::process::ExitCode;

use adit_load::{LoadError, output};
use adit_load_wireguard::{initiations, public_keys, server_key, start_handshakes};
use adit_wireguard::PublicKey;
use clap::{Parser, Subcommand};

/// Generate load on a WireGuard server
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Handshakes of many initiators at a steady rate
    Handshakes {
        /// The server
        server: SocketAddr,
        /// Its public key in hexadecimal digits
        #[arg(long, value_parser = server_key)]
        key: PublicKey,
        /// How many initiators take turns: the first that `keys` writes
        #[arg(long)]
        keys: u32,
        /// Handshakes a second
        #[arg(long)]
        rate: u32,
    },
    /// Write the public keys of initiators, each in hexadecimal digits
    Keys {
        /// How many
        #[arg(long)]
        count: u32,
    },
    /// Write initiations that attackers forge or replay, each as `KIND: HEXADECIMAL`; those that are replayed are of the first
    /// 256 initiators
    Datagrams {
        /// The server's public key in hexadecimal digits
        #[arg(long, value_parser = server_key)]
        key: PublicKey,
    },
}

fn main() -> ExitCode {
    output::exit("adit-load-wireguard", run(Arguments::parse().command))
}

fn run(command: Command) -> Result<(), LoadError> {
    match command {
        Command::Handshakes { server, key, keys, rate } => {
            output::show_load(start_handshakes(server, key, keys, rate)?)
        }
        Command::Keys { count } => {
            let keys = public_keys(count)?;
            keys.iter().try_for_each(|key| output::write_line(&output::hexadecimal(&key.0)))
        }
        Command::Datagrams { key } => output::write_datagrams(&initiations(key)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
    }
}
