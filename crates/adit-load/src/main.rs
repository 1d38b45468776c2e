//! Generates load on an OpenVPN server: many clients, or attackers of one kind. Or on a WireGuard server: handshakes.
//!
//! It runs until it is killed, and writes a line to the standard output whenever its counters have changed:
//! `connected N ended N` for clients (with `--echoes` followed by `sent N answered N lost N repeated N`), `begun N done N`
//! for attackers and handshakes. What only writes datagrams or keys ends with the last of them.
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use adit_load::LoadError;
use adit_load::attack::{self, Attack, Attackers, Behaviour, Pace, Plan, Sources, Talk};
use adit_load::clients::Clients;
use adit_load::datagrams::{self, Kind};
use adit_load::echoes::EchoTotals;
use adit_load::wireguard::{self, Handshakes, server_key};
use adit_load::wrapping::Wrapping;
use adit_openvpn::credentials::Credentials;
use adit_wireguard::PublicKey;
use clap::{Parser, Subcommand};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zeroize::Zeroizing;

/// How often the counters are written while they change.
const INTERVAL: Duration = Duration::from_millis(10);

/// Generate load on an OpenVPN or WireGuard server
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
        /// Each from another address of this IPv6 network: 2001:db8::/64. The addresses must be the machine's own
        #[arg(long, value_parser = network)]
        sources: Option<(Ipv6Addr, u8)>,
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
        /// How many at once
        #[arg(long)]
        count: usize,
    },
    /// Write datagrams that attackers forge or replay, each as `KIND: HEXADECIMAL`
    Datagrams {
        #[command(flatten)]
        keys: Keys,
    },
    /// Handshakes of many WireGuard initiators at a steady rate
    WireguardHandshakes {
        /// The server
        server: SocketAddr,
        /// Its public key in hexadecimal digits
        #[arg(long, value_parser = server_key)]
        key: PublicKey,
        /// How many initiators take turns: the first that `wireguard-keys` writes
        #[arg(long)]
        keys: u32,
        /// Handshakes a second
        #[arg(long)]
        rate: u32,
    },
    /// Write the public keys of WireGuard initiators, each in hexadecimal digits
    WireguardKeys {
        /// How many
        #[arg(long)]
        count: u32,
    },
    /// Write WireGuard initiations that attackers forge or replay, each as `KIND: HEXADECIMAL`; those that are replayed are of
    /// the first 256 initiators
    WireguardDatagrams {
        /// The server's public key in hexadecimal digits
        #[arg(long, value_parser = server_key)]
        key: PublicKey,
    },
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
    let outcome = run(Arguments::parse().command);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "adit-load: {error}");
            ExitCode::FAILURE
        }
    }
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
            sources,
            username,
            identity,
            keys,
        } => {
            let tls = attack::tls(&identity.read()?)?;
            let mut plan = Plan::new(behaviour, keys.wrapping()?.client()?, tls)?;
            plan.username = username;
            let sources = sources.map_or(Sources::One, |(network, length)| Sources::Prefix(network, length));
            let pace = Pace { at_once, per_second };
            attackers(Attackers::start(server, Attack::ControlChannels { plan, sources, pace }))
        }
        Command::Roaming { server, rate, identity, keys } => {
            let (wrap, tls) = (keys.wrapping()?.client()?, attack::tls(&identity.read()?)?);
            attackers(Attackers::start(server, Attack::Roaming { wrap, tls, rate }))
        }
        Command::Connections { server, talk, count } => {
            attackers(Attackers::start(server, Attack::Connections { talk, count }))
        }
        Command::Datagrams { keys } => write_datagrams(datagrams::kinds(&keys.wrapping()?)?),
        Command::WireguardHandshakes { server, key, keys, rate } => {
            handshakes(Handshakes::start(server, key, keys, rate)?)
        }
        Command::WireguardKeys { count } => {
            wireguard::public_keys(count)?.iter().try_for_each(|key| write_line(&hexadecimal(&key.0)))
        }
        Command::WireguardDatagrams { key } => write_datagrams(wireguard::initiations(key)?),
    }
}

/// Shows how many are connected, and what became of their echo requests, until the process is killed.
fn clients(clients: Clients, with_echoes: bool) -> Result<(), LoadError> {
    show(|| {
        let line = format!("connected {} ended {}", clients.connected(), clients.ended());
        let EchoTotals { sent, answered, lost, repeated } = clients.echoes();
        Some(match with_echoes {
            true => format!("{line} sent {sent} answered {answered} lost {lost} repeated {repeated}"),
            false => line,
        })
    });
    Ok(())
}

/// Shows what the attackers have done, until the process is killed or the attack fails.
fn attackers(attackers: Attackers) -> Result<(), LoadError> {
    show(|| attackers.is_running().then(|| format!("begun {} done {}", attackers.begun(), attackers.done())));
    attackers.stop()
}

/// Writes the line whenever it has changed, until there is none, or the output's reader is gone.
fn show(line: impl Fn() -> Option<String>) {
    let mut shown = String::new();
    while let Some(line) = line() {
        if line != shown {
            if writeln!(std::io::stdout(), "{line}").is_err() {
                return;
            }
            shown = line;
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Shows how many handshakes there were, until the process is killed or no other can begin.
fn handshakes(handshakes: Handshakes) -> Result<(), LoadError> {
    let line = || format!("begun {} done {}", handshakes.begun(), handshakes.done());
    show(|| handshakes.is_running().then(line));
    handshakes.stop()
}

fn write_datagrams(kinds: Vec<Kind>) -> Result<(), LoadError> {
    let lines = kinds.iter().flat_map(|kind| kind.datagrams.iter().map(|bytes| (kind.name, bytes)));
    lines.into_iter().try_for_each(|(name, bytes)| write_line(&format!("{name}: {}", hexadecimal(bytes))))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn write_line(line: &str) -> Result<(), LoadError> {
    writeln!(std::io::stdout(), "{line}").map_err(LoadError::system("the standard output"))
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

/// Clients and attackers hold more sockets than a process usually may.
fn allow_many_sockets() {
    let limits = getrlimit(Resource::Nofile);
    // Without it there are fewer of them, which the counters show.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, maximum: limits.maximum });
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
