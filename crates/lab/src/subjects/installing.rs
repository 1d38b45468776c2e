//! The installation of a peer by its command.

use std::process::Command;

use super::Tools;
use crate::say;

/// Go and Cargo put what they build into the folder of tools; apt-get must not ask.
pub(crate) fn run(how: &str, tools: &Tools) -> bool {
    let mut command = Command::new("sh");
    command.args(["-c", how]).env("GOBIN", &tools.directory).env("CARGO_INSTALL_ROOT", &tools.directory);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    match command.status() {
        Ok(status) if status.success() => true,
        Ok(status) => {
            say(format_args!("{how}: {status}"));
            false
        }
        Err(error) => {
            say(format_args!("{how}: {error}"));
            false
        }
    }
}
