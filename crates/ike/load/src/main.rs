//! Generates load on a responder of IKEv2: initiators that connect, and the requests that attackers forge.
//!
//! `initiators` runs until it is killed, and writes `begun N done N` to the standard output whenever its counters have changed: the
//! initiators that began, and those that are connected. The other commands end by themselves.
#![forbid(unsafe_code)]

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use adit_load::{LoadError, output};
use adit_load_ike::{
    Certificates, Credentials, Initiators, InnerAddresses, Peers, requests, responder_files,
};
use clap::{Parser, Subcommand};

/// Generate load on a responder of IKEv2
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write the files of swanctl with which a responder answers the initiators
    Files {
        /// The folder, which is made
        folder: PathBuf,
        /// How many initiators it knows, each by a connection of its own
        #[arg(long, required_unless_present = "pattern")]
        count: Option<u32>,
        /// One connection for all, by a pattern of their identities, which gives each an address of a pool
        #[arg(long, conflicts_with = "count")]
        pattern: bool,
        /// Certificates in place of a pre-shared key
        #[arg(long)]
        certificates: bool,
    },
    /// Initiators that connect over port 4500, one soon after the other, and stay
    Initiators {
        /// The responder's address
        responder: IpAddr,
        /// How many
        #[arg(long)]
        count: u32,
        /// How many at once; adit asks for cookies from 3 of one address on
        #[arg(long, default_value_t = 2)]
        at_once: u32,
        /// They ask for their addresses in the tunnels, as `files --pattern` gives them
        #[arg(long)]
        pool: bool,
        /// The folder that `files` wrote, for certificates in place of a pre-shared key
        #[arg(long)]
        certificates: Option<PathBuf>,
    },
    /// Write the requests that attackers forge, each as `KIND: HEXADECIMAL`
    Datagrams,
}

fn main() -> ExitCode {
    output::exit("adit-load-ike", run(Arguments::parse().command))
}

fn run(command: Command) -> Result<(), LoadError> {
    match command {
        Command::Files { folder, count, pattern: _, certificates } => {
            let credentials = match certificates {
                true => Credentials::Certificates(Certificates::create()?),
                false => Credentials::SharedKey,
            };
            let peers = count.map_or(Peers::Pattern, Peers::Each);
            let files = responder_files(&credentials, peers)?;
            files.iter().try_for_each(|file| write(&folder.join(file.path), &file.text))
        }
        Command::Initiators { responder, count, at_once, pool, certificates } => {
            let credentials = match certificates {
                Some(folder) => {
                    let read = |name: &str| read(&folder.join(name));
                    let (certificate, key) = (read("x509ca/authority.pem")?, read("authority.key")?);
                    Credentials::Certificates(Certificates::load(&certificate, &key)?)
                }
                None => Credentials::SharedKey,
            };
            let inner = if pool { InnerAddresses::Pool } else { InnerAddresses::Own };
            output::show_load(Initiators { responder, count, at_once, inner }.start(credentials)?)
        }
        Command::Datagrams => output::write_datagrams(&requests()?),
    }
}

fn read(path: &Path) -> Result<String, LoadError> {
    std::fs::read_to_string(path).map_err(LoadError::system(path.display().to_string()))
}

fn write(path: &Path, text: &str) -> Result<(), LoadError> {
    let folder = path.parent().unwrap_or(path);
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(path, text));
    written.map_err(LoadError::system(path.display().to_string()))
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
