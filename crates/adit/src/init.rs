//! `adit init`: a server's directory, ready to run.

use std::io::IsTerminal as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use adit_core::IpNet;

use crate::adapters;
use crate::service::Service;
use crate::setup::{
    Consent, DEFAULT_DEVICE, DeviceName, Endpoint, Proto, Reach, SetupError, SystemUser, WireGuardOptions,
    Workshop, lan,
};
use adit_host::{configuration, exit, forwarding};

/// WireGuard's usual port.
const WIREGUARD_PORT: u16 = 51820;

/// Make a server: certificate authority, keys and server.conf in a new directory
///
/// With --wireguard it makes a WireGuard server as well, which shares OpenVPN's tunnel: the same device, the same networks,
/// the same clients by name. A directory that is there gets WireGuard added.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory to make; must not exist, or be empty (with --wireguard, one that `adit init` made will do)
    dir: PathBuf,
    /// How clients reach the server: a name or address, and a port unless it is 1194
    #[arg(long, value_name = "HOST[:PORT]", required_unless_present = "wireguard")]
    endpoint: Option<Endpoint>,
    /// What carries the tunnel
    #[arg(long, value_enum, default_value_t = Proto::Udp)]
    proto: Proto,
    /// The system user that the server runs as [default: adit if there is one, or else nobody]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Make that user if there is none (at a terminal, you are asked)
    #[arg(long)]
    create_user: bool,
    /// Serve WireGuard as well
    #[arg(long)]
    wireguard: bool,
    /// The UDP port of WireGuard
    #[arg(long, value_name = "PORT", requires = "wireguard", default_value_t = WIREGUARD_PORT,
          value_parser = clap::value_parser!(u16).range(1..))]
    wireguard_port: u16,
    /// The tunnel's device, after which WireGuard's file is named [default: the `dev` of server.conf, or adit0]
    #[arg(long, value_name = "NAME", requires = "wireguard")]
    dev: Option<DeviceName>,
    /// Carry all traffic of the clients to the internet, by IPv4 and IPv6: adit forwards and translates it
    #[arg(long)]
    full_tunnel: bool,
    /// Give clients a network behind this machine; may be repeated
    #[arg(long, value_name = "NETWORK", value_parser = lan)]
    lan: Vec<IpNet>,
    /// A name server for the clients; may be repeated [default with --full-tunnel: those of this machine, or Quad9 where they
    /// answer this machine alone]
    #[arg(long, value_name = "ADDRESS")]
    dns: Vec<IpAddr>,
    /// Serve now and at each boot: as systemd's unit adit@NAME, where NAME is that of the directory
    #[arg(long)]
    start: bool,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    let options =
        args.wireguard.then(|| WireGuardOptions { device: args.dev.clone(), port: args.wireguard_port });
    let outcome = match (&options, &args.endpoint) {
        (Some(_), _) if Workshop::is_made(&args.dir) && (args.full_tunnel || !args.lan.is_empty()) => {
            return exit::usage(format_args!(
                "{dir}/server.conf is there already: write `#adit: forward = internet`, or a network, on a line of its own in it",
                dir = args.dir.display()
            ));
        }
        (Some(options), endpoint) if Workshop::is_made(&args.dir) => add(&args, endpoint.as_ref(), options),
        (_, Some(endpoint)) => make(&args, endpoint, options.as_ref()),
        (_, None) => {
            return exit::usage(format_args!(
                "{} is not there yet: say how clients will reach the server (--endpoint HOST[:PORT])",
                args.dir.display()
            ));
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(
            error @ (SetupError::Exists(_)
            | SetupError::Made(_)
            | SetupError::NoSuchUser { .. }
            | SetupError::HasWireGuard(_)
            | SetupError::FileExists(_)
            | SetupError::OtherEndpoint { .. }
            | SetupError::Service(_)
            | SetupError::Server(_)),
        ) => exit::usage(error),
        Err(error) => exit::failure(error),
    }
}

/// Makes the directory.
fn make(args: &Args, endpoint: &Endpoint, wireguard: Option<&WireGuardOptions>) -> Result<(), SetupError> {
    let service = service(args)?;
    let user = choose_user(args)?;
    let reach = Reach::choose(args.full_tunnel, args.lan.clone(), args.dns.clone());
    Workshop::create(&args.dir, endpoint, args.proto, (&user, &reach), wireguard)?;
    let dir = args.dir.display();
    exit::say(format_args!(
        "Made {dir}. It holds the keys to the whole VPN: keep it secret, and keep a copy.\n\n\
         Add a client:     adit add-client {dir} NAME"
    ));
    for (what, words) in reach.words() {
        exit::say(format_args!("{what:<18}{words}"));
    }
    let beside = wireguard.map(|options| {
        let device = options.device.as_ref().map_or(DEFAULT_DEVICE, DeviceName::as_str);
        args.dir.join(format!("{device}.conf"))
    });
    if service.is_none() {
        exit::say(format_args!(
            "Run the server:   adit up {dir}/server.conf   (openvpn {dir}/server.conf works too)"
        ));
    }
    start(service, &args.dir, beside.as_deref())?;
    let server = configuration::read(adapters::ALL, &args.dir.join("server.conf"));
    let obstacles = server.map(|read| forwarding::obstacles(&*read)).unwrap_or_default();
    exit::notes(user.advice().into_iter().chain(obstacles).collect());
    Ok(())
}

/// The service that is to serve, if one is.
fn service(args: &Args) -> Result<Option<Service>, SetupError> {
    args.start.then(|| Service::of(&args.dir)).transpose().map_err(SetupError::Service)
}

/// Starts the service, with the WireGuard file `beside` if there is one, or says how to run both.
fn start(service: Option<Service>, dir: &Path, beside: Option<&Path>) -> Result<(), SetupError> {
    if beside.is_some() {
        exit::say(format_args!("Add to WireGuard: adit add-client {} NAME --wireguard", dir.display()));
    }
    match (service, beside) {
        (Some(service), beside) => {
            let service = match beside {
                Some(file) => service.beside(file),
                None => service,
            };
            service.start().map_err(SetupError::NotStarted)?;
            exit::say(format_args!("It runs:          systemctl status {}", service.unit()));
        }
        (None, Some(file)) => exit::say(format_args!(
            "Run both:         adit up {}/server.conf {}",
            dir.display(),
            file.display()
        )),
        (None, None) => {}
    }
    Ok(())
}

/// Adds WireGuard to a directory.
fn add(args: &Args, endpoint: Option<&Endpoint>, options: &WireGuardOptions) -> Result<(), SetupError> {
    let (dir, service) = (&args.dir, service(args)?);
    let mut workshop = Workshop::open(dir)?;
    let found = workshop.endpoint();
    if endpoint.is_some_and(|endpoint| endpoint != found) {
        return Err(SetupError::OtherEndpoint { dir: dir.into(), found: found.to_string() });
    }
    let added = workshop.add_wireguard(options);
    let notes = workshop.notes();
    if let Ok(file) = &added {
        exit::say(format_args!("Made {}.\n", file.display()));
        start(service, dir, Some(file))?;
    }
    exit::notes(notes);
    added.map(|_| ())
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
