//! Generates load on an OpenVPN server: many clients, or attackers of one kind.
//!
//! It runs until it is killed, and writes a line to the standard output whenever its counters have changed: `connected
//! N ended N` for clients (with `--echoes` followed by `sent N answered N lost N repeated N`), `begun N done N` for
//! attackers. A program that only writes datagrams ends with the last of them.
#![forbid(unsafe_code)]

use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use adit_load::{LoadError, allow_many_sockets, output};
use adit_load_openvpn::attack::{self, Attack, Behaviour, Pace, Plan, Sources, Talk};
use adit_load_openvpn::clients::Clients;
use adit_load_openvpn::datagrams;
use adit_load_openvpn::echoes::EchoTotals;
use adit_load_openvpn::wrapping::Wrapping;
use adit_openvpn::credentials::Credentials;
use clap::{Parser, Subcommand};
use zeroize::Zeroizing;

/// Generate load on an OpenVPN server
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Clients that connect over UDP as fast as the server allows, and stay
    Clients {
        /// The server
        server: SocketAddr,
        /// How many
        #[arg(long, default_value_t = 1000)]
        count: usize,
        /// Echo requests a second from each to the server's inner address; a request without an answer within two
        /// seconds is lost
        #[arg(long, default_value_t = 0)]
        echoes: u32,
        #[command(flatten)]
        identity: Identity,
    },
    /// Control channels over UDP that follow the protocol up to a step
    ControlChannels {
        /// The server
        server: SocketAddr,
        /// Up to which step
        #[arg(long, value_enum)]
        behaviour: Behaviour,
        /// How many at once
        #[arg(long)]
        at_once: usize,
        /// How many begin in a second
        #[arg(long)]
        per_second: u32,
        #[command(flatten)]
        origin: Origin,
        /// Log in under this name
        #[arg(long, default_value = "")]
        username: String,
        #[command(flatten)]
        identity: Identity,
        #[command(flatten)]
        keys: Keys,
    },
    /// A client whose data packets come from two ports in turns
    Roaming {
        /// The server
        server: SocketAddr,
        /// Packets a second
        #[arg(long)]
        rate: u32,
        #[command(flatten)]
        identity: Identity,
        #[command(flatten)]
        keys: Keys,
    },
    /// TCP connections that are held, each replaced when the server closes it
    Connections {
        /// The server
        server: SocketAddr,
        /// What they send
        #[arg(long, value_enum)]
        talk: Talk,
        #[command(flatten)]
        origin: Origin,
        /// How many at once
        #[arg(long)]
        count: usize,
    },
    /// Write datagrams that attackers forge or replay, each as `KIND: HEXADECIMAL`
    Datagrams {
        #[command(flatten)]
        keys: Keys,
    },
}

/// Where attackers come from.
#[derive(clap::Args)]
struct Origin {
    /// Each from another address of this IPv6 network: 2001:db8::/64. The addresses must be the machine's own
    #[arg(long, value_parser = network)]
    sources: Option<(Ipv6Addr, u8)>,
}

/// Files in PEM.
#[derive(clap::Args)]
struct Identity {
    /// The server's authority
    #[arg(long)]
    ca: PathBuf,
    /// The client's certificate; without it none is shown
    #[arg(long, requires = "key")]
    certificate: Option<PathBuf>,
    /// Its private key
    #[arg(long, requires = "certificate")]
    key: Option<PathBuf>,
}

/// A client's key file for the control channel's wrapping.
#[derive(clap::Args)]
#[group(multiple = false)]
struct Keys {
    /// With key-direction 1 and auth SHA256
    #[arg(long)]
    tls_auth: Option<PathBuf>,
    /// A static key
    #[arg(long)]
    tls_crypt: Option<PathBuf>,
    /// The client's own key
    #[arg(long)]
    tls_crypt_v2: Option<PathBuf>,
}

fn main() -> ExitCode {
    output::exit("adit-load-openvpn", run(Arguments::parse().command))
}

fn run(command: Command) -> Result<(), LoadError> {
    allow_many_sockets();
    match command {
        Command::Clients { server, count, echoes, identity } => {
            clients(Clients::start(&identity.read()?, server, count, echoes)?, echoes > 0)
        }
        Command::ControlChannels {
            server,
            behaviour,
            at_once,
            per_second,
            origin,
            username,
            identity,
            keys,
        } => {
            let tls = attack::tls(&identity.read()?)?;
            let mut plan = Plan::new(behaviour, keys.wrapping()?.client()?, tls)?;
            plan.username = username;
            let (sources, pace) = (origin.sources(), Pace { at_once, per_second });
            output::show_load(Attack::ControlChannels { plan, sources, pace }.start(server))
        }
        Command::Roaming { server, rate, identity, keys } => {
            let (wrap, tls) = (keys.wrapping()?.client()?, attack::tls(&identity.read()?)?);
            output::show_load(Attack::Roaming { wrap, tls, rate }.start(server))
        }
        Command::Connections { server, talk, origin, count } => {
            output::show_load(Attack::Connections { talk, sources: origin.sources(), count }.start(server))
        }
        Command::Datagrams { keys } => output::write_datagrams(&datagrams::kinds(&keys.wrapping()?)?),
    }
}

/// Shows how many are connected, and the counts of their echo requests, until the process is killed.
fn clients(clients: Clients, with_echoes: bool) -> Result<(), LoadError> {
    output::show(|| {
        let line = format!("connected {} ended {}", clients.connected(), clients.ended());
        let EchoTotals { sent, answered, lost, repeated } = clients.echoes();
        Some(match with_echoes {
            true => format!("{line} sent {sent} answered {answered} lost {lost} repeated {repeated}"),
            false => line,
        })
    });
    Ok(())
}

impl Origin {
    fn sources(&self) -> Sources {
        self.sources.map_or(Sources::One, |(network, length)| Sources::Prefix(network, length))
    }
}

impl Identity {
    fn read(&self) -> Result<Credentials, LoadError> {
        let optional = |path: &Option<PathBuf>| path.as_deref().map_or(Ok(Vec::new()), read);
        Ok(Credentials {
            ca: read(&self.ca)?,
            certificate: optional(&self.certificate)?,
            private_key: Zeroizing::new(optional(&self.key)?),
        })
    }
}

impl Keys {
    fn wrapping(&self) -> Result<Wrapping, LoadError> {
        let text = |path: &Path| read(path).map(|bytes| String::from_utf8(bytes).unwrap_or_default());
        if let Some(path) = &self.tls_auth {
            return text(path).map(Wrapping::TlsAuth);
        }
        if let Some(path) = &self.tls_crypt {
            return text(path).map(Wrapping::TlsCrypt);
        }
        if let Some(path) = &self.tls_crypt_v2 {
            return text(path).map(Wrapping::TlsCryptV2);
        }
        Ok(Wrapping::None)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    std::fs::read(path).map_err(LoadError::system(path.display().to_string()))
}

/// An IPv6 network with its prefix length.
fn network(text: &str) -> Result<(Ipv6Addr, u8), String> {
    let (address, length) = text.split_once('/').ok_or("a network such as 2001:db8::/64")?;
    let address = address.parse::<Ipv6Addr>().map_err(|error| error.to_string())?;
    match length.parse() {
        Ok(length) if length <= 128 => Ok((address, length)),
        _ => Err(format!("{length} is no prefix length")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
        assert_eq!(network("2001:db8::/61"), Ok(("2001:db8::".parse().unwrap(), 61)));
        assert!(network("2001:db8::").is_err() && network("2001:db8::/129").is_err());
    }
}
