//! The rights of an OpenVPN tunnel: `nice` and `mlock`, and the policy of its helper.

use std::path::PathBuf;

use adit_core::{IpNet, RouteVia};
use adit_guard::{Account, Policy};
use adit_io::Remote;
use adit_openvpn_config::{Config, Process, Role, ServerConfig};

use super::script_policy::scripts;
use super::translate;

/// `nice` and `mlock`: for threads and memory that come later too.
pub(crate) fn settle_in(process: &Process) -> Result<(), String> {
    if process.nice != 0 {
        adit_guard::set_niceness(process.nice).map_err(|error| format!("nice {}: {error}", process.nice))?;
    }
    if process.lock_memory {
        adit_guard::lock_memory().map_err(|error| format!("mlock: {error}; start as root, or remove it"))?;
    }
    Ok(())
}

/// Whether the TUN device is set up again while the tunnel runs, or routes are left that do not go with it. A server's
/// settings are applied once, while it is still root.
pub(crate) fn needs_network(config: &Config) -> bool {
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
pub(crate) fn complete(policy: &mut Policy, config: &Config, account: Option<&Account>) {
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

/// The remotes of a client, as its file has them.
pub(crate) fn remotes(config: &Config) -> Vec<Remote> {
    match &config.role {
        Role::Client(client) => translate::remotes(client),
        Role::Server(_) | Role::PointToPoint(_) => Vec::new(),
    }
}

/// Files that go when the tunnel does.
pub(crate) fn files_of(config: &Config, status_socket: Option<PathBuf>) -> Vec<PathBuf> {
    // The socket of a program that we connect to is that program's.
    let ours = config.process.management.as_ref().filter(|management| !management.as_client);
    let management = ours.and_then(|management| match &management.address {
        adit_openvpn_config::ManagementAddress::Unix(path) => Some(path.clone()),
        adit_openvpn_config::ManagementAddress::Tcp(..) => None,
    });
    status_socket.into_iter().chain(management).chain(config.process.pid_file.clone()).collect()
}
