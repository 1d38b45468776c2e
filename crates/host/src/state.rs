//! The directory in which tunnels keep what they need after a restart.

use std::path::PathBuf;

/// The directory, if the service manager names no other one (systemd.exec(5), `StateDirectory=`).
const DIRECTORY: &str = "/var/lib/adit";

/// The directory, which may not exist yet.
pub fn directory() -> PathBuf {
    let named = std::env::var_os("STATE_DIRECTORY");
    // There may be several, with colons between them.
    let named = named.as_deref().and_then(|all| std::env::split_paths(all).next());
    named.filter(|path| path.is_absolute()).unwrap_or_else(|| DIRECTORY.into())
}
