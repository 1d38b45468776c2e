//! The service manager: systemd, by `systemctl`.

use std::io;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the unit `adit@` looks for its files (packaging/systemd/adit@.service).
const DIRECTORY: &str = "/etc/adit";

/// Whether systemd manages this system (sd_booted(3)).
pub(crate) fn is_there() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// Runs systemctl, and gives what it writes.
///
/// # Errors
/// What it says, when it fails or is not there.
pub(crate) fn systemctl(arguments: &[&str]) -> Result<String, String> {
    output_of(Path::new("systemctl"), arguments)
}

/// Runs a program of the service manager, and gives what it writes. What a person types to end this process does not reach
/// it.
///
/// # Errors
/// What it says, when it fails or is not there.
pub(crate) fn output_of(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).process_group(0).output();
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name} {}: {} ({})", arguments.join(" "), said.trim().replace('\n', "; "), output.status))
}

/// A server of `adit init` as a service: the unit `adit@NAME` runs /etc/adit/NAME.conf, which is a link to the server's file.
#[derive(Debug)]
pub(crate) struct Service {
    name: String,
    link: PathBuf,
    server: PathBuf,
}

impl Service {
    /// The service for that directory, called after it.
    ///
    /// # Errors
    /// When there can be none: the reason, and what to do.
    pub(crate) fn of(dir: &Path) -> Result<Self, String> {
        let service = Self::for_directory(dir)?;
        if !is_there() {
            return Err("systemd does not run here: run `adit up` instead of --start".to_owned());
        }
        systemctl(&["cat", &service.unit()])
            .map_err(|_| "the unit adit@.service is not installed: packaging/systemd has it".to_owned())?;
        match service.link.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(service),
            Err(error) => Err(format!("{}: {error}", service.link.display())),
            Ok(_) => Err(format!(
                "{} is there already: choose another name for the directory",
                service.link.display()
            )),
        }
    }

    fn for_directory(dir: &Path) -> Result<Self, String> {
        let dir = std::path::absolute(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // Others would have to be escaped (systemd-escape(1)).
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            return Err(format!(
                "{}: a service is called after its directory, by letters, digits, `-`, `_` and `.` alone",
                dir.display()
            ));
        }
        Ok(Service {
            link: Path::new(DIRECTORY).join(format!("{name}.conf")),
            server: dir.join("server.conf"),
            name: name.to_owned(),
        })
    }

    /// The unit.
    pub(crate) fn unit(&self) -> String {
        format!("adit@{}.service", self.name)
    }

    /// Has it started now and at each boot, and waits until it serves.
    ///
    /// # Errors
    /// Why it does not run.
    pub(crate) fn start(&self) -> Result<(), String> {
        std::fs::create_dir_all(DIRECTORY)
            .and_then(|()| symlink(&self.server, &self.link))
            .map_err(|error| format!("{}: {error}", self.link.display()))?;
        systemctl(&["enable", "--now", &self.unit()]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_called_after_its_directory() {
        let service = Service::for_directory(Path::new("/etc/adit/office")).expect("a good name");
        assert_eq!(service.unit(), "adit@office.service");
        assert_eq!(service.link, Path::new("/etc/adit/office.conf"));
        assert_eq!(service.server, Path::new("/etc/adit/office/server.conf"));
        assert_eq!(Service::for_directory(Path::new("a-b_c.d/")).expect("a good name").name, "a-b_c.d");
        for bad in ["/", "/etc/adit/my office", "/etc/adit/büro", "/etc/adit/a@b"] {
            assert!(Service::for_directory(Path::new(bad)).is_err(), "{bad}");
        }
    }
}
