//! Tunnels that speak WireGuard: installed by the tools of their languages.

use std::path::{Path, PathBuf};
use std::process::Command;

use adit_testbed::program;

use crate::subject::Subject;

/// What wireguard-go and wg-quick choose for an outer MTU of 1500.
pub(crate) const MTU: &str = "1420";

const MODULE: &str = "golang.zx2c4.com/wireguard@latest";

/// The program, fetched and built if it is not there. The error says why not.
pub(crate) fn install(subject: Subject, directory: &Path) -> Result<PathBuf, String> {
    std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let directory = directory.canonicalize().map_err(|error| error.to_string())?;
    let (path, mut command) = match crate_name(subject) {
        // Go calls it by the last part of the module's path.
        None => (directory.join("wireguard"), build_by("go", &["install", MODULE])?),
        Some((name, program)) => {
            (directory.join("bin").join(program), build_by("cargo", &["install", "--locked", name])?)
        }
    };
    if path.is_file() {
        return Ok(path);
    }
    let output = command.env("GOBIN", &directory).env("CARGO_INSTALL_ROOT", &directory).output();
    let output = output.map_err(|error| format!("{subject} cannot be built: {error}"))?;
    match output.status.success() {
        true => Ok(path),
        false => {
            Err(format!("{subject} cannot be built: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
    }
}

/// What crates.io calls it, and what its program is called; nothing for what is not written in Rust.
fn crate_name(subject: Subject) -> Option<(&'static str, &'static str)> {
    match subject {
        Subject::Boringtun => Some(("boringtun-cli", "boringtun-cli")),
        Subject::Gotatun => Some(("gotatun-cli", "gotatun")),
        _ => None,
    }
}

fn build_by(tool: &str, arguments: &[&str]) -> Result<Command, String> {
    let mut command = program(tool).map_err(|_| format!("{tool} is not installed"))?;
    command.args(arguments);
    Ok(command)
}

/// The version that was built: as Go recorded it, or as the program says.
pub(crate) fn version(subject: Subject, path: &Path) -> String {
    let text = |mut command: Command| {
        let output = command.output().ok();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    };
    if crate_name(subject).is_some() {
        let mut command = Command::new(path);
        command.arg("--version");
        return text(command).trim().to_owned();
    }
    let recorded = program("go").map(|mut go| {
        go.arg("version").arg("-m").arg(path);
        text(go)
    });
    let recorded = recorded.unwrap_or_default();
    let module = recorded.lines().find_map(|line| line.trim().strip_prefix("mod"));
    let version = module.and_then(|line| line.split_whitespace().nth(1)).unwrap_or("of unknown version");
    format!("wireguard-go {version}")
}

/// Runs a device in the foreground.
pub(crate) fn command(subject: Subject, path: &Path, device: &str) -> Command {
    let mut command = Command::new(path);
    command.args(["--foreground", device]).env("LOG_LEVEL", "error");
    if crate_name(subject).is_some() {
        command.arg("--disable-drop-privileges");
    }
    command
}
