//! What the process may do: `user` and `group`, the helper that keeps what is needed later, and the sandbox.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use adit_config::openvpn::{Config, Process, Role, ServerConfig};
use adit_config::wireguard;
use adit_core::{EventOf, IpNet, Protocol, RouteVia, TunnelSettings};
use adit_io::{Account, Confined, Helper, MOST_FOLLOWING, Observer, Policy, Remote, Scripts};

use super::{scripts, translate};
use crate::helper;

/// What names of environment variables begin with that OpenVPN gives a script, if not with a small letter (its manual,
/// "Environmental Variables").
const SCRIPT_VARIABLES: [&str; 5] = ["IV_", "UV_", "ID", "X509_", "OPENVPN_"];

/// What was given up, once it was: `adit status` shows it.
pub(crate) type Confinement = Arc<OnceLock<Confined>>;

/// `nice` and `mlock`: for threads and memory that come later too.
pub(super) fn settle_in(process: &Process) -> Result<(), String> {
    if process.nice != 0 {
        adit_io::set_niceness(process.nice).map_err(|error| format!("nice {}: {error}", process.nice))?;
    }
    if process.lock_memory {
        adit_io::lock_memory().map_err(|error| format!("mlock: {error}; start as root, or remove it"))?;
    }
    Ok(())
}

/// Whether the TUN device is set up again while the tunnel runs, or routes are left that do not go with it. A server's
/// settings are applied once, while it is still root.
pub(super) fn needs_network(config: &Config) -> bool {
    match &config.role {
        _ if config.device.is_null => false,
        Role::Client(_) | Role::PointToPoint(_) => true,
        Role::Server(server) => config.routes.iter().any(|route| match route.via {
            RouteVia::Tunnel => false,
            RouteVia::Gateway(gateway) => !inner_networks(server).any(|network| network.contains(&gateway)),
            RouteVia::SystemGateway => true,
        }),
    }
}

fn inner_networks(server: &ServerConfig) -> impl Iterator<Item = IpNet> {
    let ipv4 = server.ipv4.map(|own| IpNet::V4(own.address));
    let ipv6 = server.ipv6.map(|own| IpNet::V6(own.address));
    ipv4.into_iter().chain(ipv6)
}

/// Completes what the helper shall do with what the configuration says.
pub(super) fn complete(policy: &mut Policy, config: &Config, account: Option<&Account>) {
    policy.lock_memory = config.process.lock_memory;
    policy.scripts = scripts(config);
    let Role::Server(server) = &config.role else {
        if let Some(scripts) = &mut policy.scripts {
            scripts.account = account.cloned();
        }
        return;
    };
    // A client's helper stays root: who it becomes could not write /etc/resolv.conf.
    policy.account = account.cloned();
    policy.pool_file = server
        .per_client
        .pool_file
        .as_ref()
        .filter(|file| file.every.is_some())
        .map(|file| file.path.clone());
}

/// The scripts of a configuration, if it has any.
pub(crate) fn scripts(config: &Config) -> Option<Scripts> {
    let lasting: Vec<Vec<String>> = config.scripts.commands().cloned().collect();
    let commands = match &config.role {
        Role::Server(server) => scripts::commands(&server.access),
        Role::Client(_) | Role::PointToPoint(_) => Vec::new(),
    };
    (!commands.is_empty() || !lasting.is_empty()).then(|| Scripts {
        commands,
        lasting,
        ..without_commands(config)
    })
}

/// What programs get, whichever they are.
pub(super) fn without_commands(config: &Config) -> Scripts {
    let env = match &config.role {
        Role::Server(server) => server.access.env.clone(),
        Role::Client(client) => [client.peer_info.clone(), config.scripts.env.clone()].concat(),
        Role::PointToPoint(_) => config.scripts.env.clone(),
    };
    Scripts {
        variables: env.into_iter().map(|(name, _)| name).collect(),
        most_following: MOST_FOLLOWING,
        prefixes: SCRIPT_VARIABLES.map(str::to_owned).to_vec(),
        directory: config.process.tmp_dir.clone().unwrap_or_else(std::env::temp_dir),
        ..Scripts::default()
    }
}

/// The programs of a WireGuard file, if it has any.
pub(crate) fn programs(interface: &wireguard::Interface) -> Option<Scripts> {
    let commands: Vec<Vec<String>> =
        [&interface.client_connect, &interface.client_disconnect].into_iter().flatten().cloned().collect();
    (!commands.is_empty()).then(|| Scripts {
        commands,
        directory: std::env::temp_dir(),
        ..Scripts::default()
    })
}

/// The remotes of a client, as its file has them.
pub(crate) fn remotes(config: &Config) -> Vec<Remote> {
    match &config.role {
        Role::Client(client) => translate::remotes(client),
        Role::Server(_) | Role::PointToPoint(_) => Vec::new(),
    }
}

/// The name by which a process runs this program as its helper, whatever its own name is.
pub(crate) const PROGRAM: &str = "adit";

/// Starts the helper of a configuration of that dialect. In the background, what its scripts write goes nowhere: the process that was called listens to this
/// one alone, and not for long.
pub(crate) fn start_helper(
    dialect: helper::Dialect,
    policy: Policy,
    in_background: bool,
) -> Result<Helper, String> {
    let start = || {
        let mut command = Command::new(std::env::current_exe()?);
        // What a terminal sends to all of us is for the tunnel alone.
        // The program may have the name of another personality.
        command.arg0(PROGRAM).args(helper::arguments(dialect)).process_group(0);
        if in_background {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        Helper::start(command, policy)
    };
    start().map_err(|error: std::io::Error| format!("the helper process cannot be started: {error}"))
}

/// Files that go when the tunnel does.
pub(super) fn files_of(config: &Config, status_socket: Option<PathBuf>) -> Vec<PathBuf> {
    // The socket of a program that we connect to is that program's.
    let ours = config.process.management.as_ref().filter(|management| !management.as_client);
    let management = ours.and_then(|management| match &management.address {
        adit_config::openvpn::ManagementAddress::Unix(path) => Some(path.clone()),
        adit_config::openvpn::ManagementAddress::Tcp(..) => None,
    });
    status_socket.into_iter().chain(management).chain(config.process.pid_file.clone()).collect()
}

/// Gives up the rights of the process: for good, in all threads.
pub(crate) fn confine(account: Option<&Account>, sandbox: bool) -> Result<Confined, String> {
    // Without `user` it becomes an account that owns nothing: what needs root is done by the helper.
    let unprivileged = if account.is_none() { Account::unprivileged() } else { None };
    adit_io::confine(account.or(unprivileged.as_ref()), sandbox).map_err(|error| error.to_string())
}

/// An observer, and what is to be done when all is set up.
pub(super) struct Starting<O, F> {
    pub(super) observer: O,
    pub(super) begin: Option<F>,
}

impl<P, O, F> Observer<P> for Starting<O, F>
where
    P: Protocol,
    O: Observer<P>,
    F: FnOnce() -> Result<(), String>,
{
    fn event(&mut self, event: &EventOf<P>, tun_name: &str) {
        self.observer.event(event, tun_name);
    }

    fn request(&mut self, request: P::Request, tun_name: &str) {
        self.observer.request(request, tun_name);
    }

    fn device_ready(&mut self, settings: &TunnelSettings, tun_name: &str) -> bool {
        self.observer.device_ready(settings, tun_name)
    }

    fn going_down(&mut self, tun_name: &str) {
        self.observer.going_down(tun_name);
    }

    fn started(&mut self) -> Result<(), String> {
        self.observer.started()?;
        self.begin.take().map_or(Ok(()), |begin| begin())
    }
}
