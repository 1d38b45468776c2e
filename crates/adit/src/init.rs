//! `adit init`: a server's directory, ready to run.

use std::io::IsTerminal as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use adit_core::IpNet;

use adit_setup::{
    Consent, DEFAULT_DEVICE, Directory, Endpoint, KeyOptions, NativeOptions, Proto, Reach, SetupError,
    SystemUser, Wanted, WantedAlone, lan,
};

use crate::adapters::{self, SERVER, help};
use crate::service::{Beside, Service};
use adit_host::{configuration, exit, forwarding};

/// The arguments of the command.
#[derive(clap::Args)]
#[command(about = help::INIT, long_about = help::INIT_LONG)]
#[command(group = clap::ArgGroup::new("joining").args(["keys", "native"]).multiple(true))]
pub(crate) struct Args {
    /// The directory.
    #[arg(help = help::INIT_DIR)]
    dir: PathBuf,
    /// How clients reach the server: a name or address, and a port unless it is 1194
    #[arg(long, value_name = "HOST[:PORT]", required_unless_present = "joining")]
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
    /// There is a second protocol.
    #[arg(long = help::KEYS, help = help::INIT_KEYS)]
    keys: bool,
    /// The UDP port of the second protocol.
    #[arg(long = help::KEYS_PORT, help = help::INIT_KEYS_PORT, value_name = "PORT", requires = "keys",
          default_value_t = help::DEFAULT_KEYS_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    keys_port: u16,
    /// There is the protocol that operating systems speak by themselves.
    #[arg(long = help::NATIVE, help = help::INIT_NATIVE)]
    native: bool,
    /// There is no other protocol.
    #[arg(long = help::ALONE, help = help::INIT_ALONE, requires = "native", conflicts_with_all = ["keys", "user", "create_user", "proto"])]
    alone: bool,
    /// The device of the tunnel.
    #[arg(long, help = help::INIT_DEV, value_name = "NAME", requires = "joining", value_parser = device)]
    dev: Option<String>,
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

/// The protocols that join the tunnel of `server.conf`.
struct Joining {
    keys: Option<KeyOptions>,
    native: Option<NativeOptions>,
}

impl Joining {
    fn of(args: &Args) -> Self {
        Joining {
            keys: args.keys.then(|| KeyOptions { device: args.dev.clone(), port: args.keys_port }),
            native: args.native.then(|| NativeOptions { device: args.dev.clone() }),
        }
    }

    const fn is_any(&self) -> bool {
        self.keys.is_some() || self.native.is_some()
    }
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    let joining = Joining::of(&args);
    let outcome = match &args.endpoint {
        _ if args.alone && Directory::is_made(&args.dir) => Err(SetupError::Made(args.dir.clone())),
        _ if joining.is_any()
            && Directory::is_made(&args.dir)
            && (args.full_tunnel || !args.lan.is_empty()) =>
        {
            return exit::usage(format_args!(
                "{dir}/server.conf is there already: write `#adit: forward = internet`, or a network, on a line of its own in it",
                dir = args.dir.display()
            ));
        }
        endpoint if joining.is_any() && Directory::is_made(&args.dir) => {
            add(&args, endpoint.as_ref(), &joining)
        }
        Some(_) if args.alone && !args.full_tunnel && args.lan.is_empty() => {
            return exit::usage("clients would reach nothing: say --full-tunnel, or --lan NETWORK");
        }
        Some(endpoint) if args.alone => make_alone(&args, endpoint),
        Some(endpoint) => make(&args, endpoint, &joining),
        None => {
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
            | SetupError::HasKeys(_)
            | SetupError::Alone(_)
            | SetupError::FileExists(_)
            | SetupError::OtherEndpoint { .. }
            | SetupError::ServersName(_)
            | SetupError::Service(_)
            | SetupError::Server { .. }),
        ) => exit::usage(error),
        Err(error) => exit::failure(error),
    }
}

/// Makes the directory.
fn make(args: &Args, endpoint: &Endpoint, joining: &Joining) -> Result<(), SetupError> {
    let service = service(args)?;
    let user = choose_user(args)?;
    let named = args.dns.clone();
    let reach = Reach::choose(args.full_tunnel, args.lan.clone(), named, &forwarding::name_servers);
    let Joining { keys, native } = joining;
    let (keys, native) = (keys.as_ref(), native.as_ref());
    let wanted = Wanted { endpoint, proto: args.proto, user: &user, reach: &reach, keys, native };
    Directory::create(&args.dir, SERVER, &wanted)?;
    let dir = args.dir.display();
    exit::say(format_args!(
        "Made {dir}. It holds the keys to the whole VPN: keep it secret, and keep a copy.\n\n\
         Add a client:     adit add-client {dir} NAME"
    ));
    for (what, words) in reach.words() {
        exit::say(format_args!("{what:<18}{words}"));
    }
    if service.is_none() {
        exit::say(format_args!(
            "Run the server:   adit up {dir}/server.conf   ({} {dir}/server.conf works too)",
            SERVER.certificate.other_program()
        ));
    }
    let keys = keys.map(|options| {
        let device = options.device.as_deref().unwrap_or(DEFAULT_DEVICE);
        args.dir.join(format!("{device}.conf"))
    });
    let native = native.map(|_| args.dir.join(SERVER.native.file()));
    start(service, &args.dir, &beside(keys, native))?;
    let server = configuration::read(adapters::ALL, &args.dir.join("server.conf"));
    let obstacles = server.map(|read| forwarding::obstacles(&*read)).unwrap_or_default();
    exit::notes(user.advice().into_iter().chain(obstacles).collect());
    Ok(())
}

/// Makes a directory that has the protocol alone which operating systems speak by themselves.
fn make_alone(args: &Args, endpoint: &Endpoint) -> Result<(), SetupError> {
    let native = SERVER.native;
    let service = args.start.then(|| Service::of_file(&args.dir, native.file())).transpose();
    let service = service.map_err(SetupError::Service)?;
    let named = args.dns.clone();
    let reach = Reach::choose(args.full_tunnel, args.lan.clone(), named, &forwarding::name_servers);
    let options = NativeOptions { device: args.dev.clone() };
    Directory::create_alone(&args.dir, SERVER, &WantedAlone { endpoint, reach: &reach, native: &options })?;
    let dir = args.dir.display();
    exit::say(format_args!(
        "Made {dir}. It holds the keys to the whole VPN: keep it secret, and keep a copy.\n\n\
         Add a client:     adit add-client {dir} NAME"
    ));
    for (what, words) in reach.words() {
        exit::say(format_args!("{what:<18}{words}"));
    }
    let file = args.dir.join(native.file());
    match service {
        None => exit::say(format_args!("Run the server:   adit up {}", file.display())),
        Some(service) => {
            service.start().map_err(SetupError::NotStarted)?;
            exit::say(format_args!("It runs:          systemctl status {}", service.unit()));
        }
    }
    let server = configuration::read(adapters::ALL, &file);
    exit::notes(server.map(|read| forwarding::obstacles(&*read)).unwrap_or_default());
    Ok(())
}

/// The files of further protocols that the process of `server.conf` is to run.
fn beside(keys: Option<PathBuf>, native: Option<PathBuf>) -> Vec<Beside> {
    let of = |name, title| move |file| Beside { name, title, file };
    let keys = keys.map(of(SERVER.key.name(), SERVER.key.title()));
    keys.into_iter().chain(native.map(of(SERVER.native.name(), SERVER.native.title()))).collect()
}

/// The service that is to serve, if one is.
fn service(args: &Args) -> Result<Option<Service>, SetupError> {
    args.start.then(|| Service::of(&args.dir)).transpose().map_err(SetupError::Service)
}

/// Starts the service, with the files of further protocols if there are some, or says how to run all.
fn start(service: Option<Service>, dir: &Path, beside: &[Beside]) -> Result<(), SetupError> {
    for Beside { name, title, .. } in beside {
        let what = format!("Add to {title}:");
        exit::say(format_args!("{what:<18}adit add-client {} NAME --{name}", dir.display()));
    }
    match service {
        Some(service) => {
            let service = service.beside(beside);
            service.start().map_err(SetupError::NotStarted)?;
            exit::say(format_args!("It runs:          systemctl status {}", service.unit()));
        }
        None if beside.is_empty() => {}
        None => {
            let what = if beside.len() > 1 { "Run all:" } else { "Run both:" };
            let files: String = beside.iter().map(|it| format!(" {}", it.file.display())).collect();
            exit::say(format_args!("{what:<18}adit up {}/server.conf{files}", dir.display()));
        }
    }
    Ok(())
}

/// Adds protocols to a directory.
fn add(args: &Args, endpoint: Option<&Endpoint>, joining: &Joining) -> Result<(), SetupError> {
    let (dir, service) = (&args.dir, service(args)?);
    let mut directory = Directory::open(dir, SERVER)?;
    let found = directory.endpoint();
    if endpoint.is_some_and(|endpoint| endpoint != found) {
        return Err(SetupError::OtherEndpoint { dir: dir.into(), found: found.to_string() });
    }
    let added = add_to(&mut directory, joining);
    let notes = directory.notes();
    if let Ok(files) = &added {
        files.iter().for_each(|file| exit::say(format_args!("Made {}.", file.display())));
        exit::say("");
        // A protocol that the directory had before is run by the same process.
        let native = directory.native_server().ok();
        start(service, dir, &beside(directory.key_server().ok(), native))?;
    }
    exit::notes(notes);
    added.map(|_| ())
}

/// Adds protocols to a directory, and gives their servers' files.
fn add_to(directory: &mut Directory, joining: &Joining) -> Result<Vec<PathBuf>, SetupError> {
    let keys = joining.keys.as_ref().map(|options| directory.add_key_server(options)).transpose()?;
    let native =
        joining.native.as_ref().map(|options| directory.add_native_server(options.device.as_deref()));
    Ok(keys.into_iter().chain(native.transpose()?).collect())
}

/// A name that a tunnel's device can have.
fn device(name: &str) -> Result<String, String> {
    SERVER.key.check_device(name).map(|()| name.to_owned())
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
