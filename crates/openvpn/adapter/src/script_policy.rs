//! The scripts that a helper may run.

use adit_guard::{MOST_FOLLOWING, Scripts};
use adit_openvpn_config::{Config, Role};

use super::scripts;

/// The beginnings of the names of environment variables that OpenVPN gives a script, if not with a small letter (its
/// manual, "Environmental Variables").
const SCRIPT_VARIABLES: [&str; 5] = ["IV_", "UV_", "ID", "X509_", "OPENVPN_"];

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

/// The environment of programs, whichever they are.
pub(crate) fn without_commands(config: &Config) -> Scripts {
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
