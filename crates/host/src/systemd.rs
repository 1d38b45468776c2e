//! The service manager: systemd, by its programs.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether systemd manages this system (sd_booted(3)).
pub fn is_there() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// Runs systemctl, and gives its output.
///
/// # Errors
/// The program's message, when it fails or is not there.
pub fn systemctl(arguments: &[&str]) -> Result<String, String> {
    output_of(Path::new("systemctl"), arguments)
}

/// Runs a program of the service manager, and gives its output. Keys that a person types to end this process do not
/// reach it.
///
/// # Errors
/// The program's message, when it fails or is not there.
pub fn output_of(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).process_group(0).output();
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name} {}: {} ({})", arguments.join(" "), said.trim().replace('\n', "; "), output.status))
}

/// A word in quotes for systemd (systemd.service(5), "Command lines"). Variables (`$NAME`) stay variables.
///
/// # Errors
/// When it cannot stand in a unit.
pub fn quoted(word: &str) -> Result<String, String> {
    if word.contains(char::is_control) {
        return Err(format!("its command has a control character in {}", word.escape_debug()));
    }
    Ok(format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%")))
}
