//! `user` and `group`: who the process becomes once all is set up that only root may do.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use adit_config::openvpn::{Config, Process, Role};
use adit_core::Protocol;
use adit_io::{Account, Driver, NameServerHelper};

use crate::name_servers;

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

/// Becomes `account`. Afterwards there is no way back. A client leaves a process behind that may still set name
/// servers.
pub(super) fn assume<P: Protocol>(
    account: &Account,
    config: &Config,
    resolv_conf: Option<&std::path::Path>,
    driver: &mut Driver<P>,
) -> Result<(), String> {
    let sets_name_servers = !matches!(config.role, Role::Server(_));
    if account.is_plain() && sets_name_servers {
        let helper = start_helper(driver.tun_index(), resolv_conf);
        let helper = helper.map_err(|error| format!("no process to set name servers with: {error}"))?;
        driver.set_name_servers_by(helper);
    }
    account.assume(binds_low_ports(config)).map_err(|error| error.to_string())
}

/// The socket of each connection is bound anew.
fn binds_low_ports(config: &Config) -> bool {
    let Role::Client(client) = &config.role else { return false };
    client.remotes.iter().any(|remote| remote.bind.is_some_and(|bind| (1..1024).contains(&bind.port)))
}

fn start_helper(device: u32, resolv_conf: Option<&std::path::Path>) -> std::io::Result<NameServerHelper> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(name_servers::NAME).arg(device.to_string()).args(resolv_conf);
    // What a terminal sends to all of us is for the tunnel alone.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
    NameServerHelper::new(command.spawn()?)
}
