//! The files of a strongSwan that runs, by the environment of its process.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use adit_ike_config::{DaemonSetting, daemon_settings};

use crate::files::Disk;
use crate::vici;

/// The file of connections, and that of the daemon: as Debian has them, and as Fedora has them.
const SWANCTL: [&str; 2] = ["/etc/swanctl/swanctl.conf", "/etc/strongswan/swanctl/swanctl.conf"];
const DAEMON: [&str; 2] = ["/etc/strongswan.conf", "/etc/strongswan/strongswan.conf"];
/// The setting that names the socket of VICI.
pub(super) const SOCKET: &str = "plugins.vici.socket";

/// The variables of a process of strongSwan that name its files.
#[derive(Debug, Default)]
pub(super) struct Environment {
    /// `SWANCTL_DIR`: the folder of the file of connections.
    folder: Option<PathBuf>,
    /// `STRONGSWAN_CONF`: the file of the daemon.
    daemon: Option<PathBuf>,
}

impl Environment {
    /// That of a process; empty if /proc does not show it.
    pub(super) fn of(process: u32) -> Self {
        Environment::read(&fs::read(format!("/proc/{process}/environ")).unwrap_or_default())
    }

    /// Reads a file of proc_pid_environ(5).
    pub(super) fn read(text: &[u8]) -> Self {
        let of = |name: &[u8]| {
            let mut variables = text.split(|byte| *byte == 0);
            let value = variables.find_map(|variable| variable.strip_prefix(name)?.strip_prefix(b"="));
            value.filter(|value| !value.is_empty()).map(|value| PathBuf::from(OsStr::from_bytes(value)))
        };
        Environment { folder: of(b"SWANCTL_DIR"), daemon: of(b"STRONGSWAN_CONF") }
    }

    /// The file of connections.
    pub(super) fn swanctl_file(&self) -> PathBuf {
        self.folder.as_ref().map_or_else(|| first_of(SWANCTL), |folder| folder.join("swanctl.conf"))
    }

    /// The settings of the daemon; none if it has no file.
    ///
    /// # Errors
    /// The file cannot be read, or its grammar is wrong.
    pub(super) fn settings(&self) -> Result<Vec<DaemonSetting>, String> {
        let file = self.daemon.clone().unwrap_or_else(|| first_of(DAEMON));
        let text = match fs::read(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            text => text.map_err(|error| format!("{}: {error}", file.display()))?,
        };
        daemon_settings(&file.display().to_string(), &text, &Disk::default())
            .map_err(|problem| problem.to_string())
    }

    /// The path of the daemon's socket of VICI.
    ///
    /// # Errors
    /// The file of the daemon cannot be read, or the socket is none of the file system.
    pub(super) fn socket(&self) -> Result<PathBuf, String> {
        let settings = self.settings()?;
        let Some(setting) = settings.iter().find(|setting| setting.name == SOCKET) else {
            return Ok(vici::PATH.into());
        };
        let path = path_of(&setting.value);
        path.map(Path::to_owned).ok_or_else(|| {
            format!("{}: {SOCKET} = {}: it is no socket of the file system", setting.place, setting.value)
        })
    }
}

/// The path in the address of a socket.
pub(super) fn path_of(address: &str) -> Option<&Path> {
    address.strip_prefix("unix://").map(Path::new)
}

/// The first file of these that is there, or the first one.
fn first_of(files: [&str; 2]) -> PathBuf {
    let found = files.iter().find(|file| Path::new(file).is_file());
    PathBuf::from(*found.unwrap_or(&files[0]))
}

#[cfg(test)]
mod tests {
    use adit_testbed::Scratch;

    use super::*;

    #[test]
    fn variables_name_the_files() {
        let environment = Environment::read(b"A=b\0SWANCTL_DIR=/srv/vpn\0STRONGSWAN_CONF=/srv/daemon.conf\0");
        assert_eq!(environment.swanctl_file(), Path::new("/srv/vpn/swanctl.conf"));
        assert_eq!(environment.daemon.as_deref(), Some(Path::new("/srv/daemon.conf")));
        assert!(environment.settings().is_ok_and(|settings| settings.is_empty()), "there is no such file");
        let none = Environment::read(b"SWANCTL_DIR=\0XSWANCTL_DIR=/x\0");
        assert!(none.folder.is_none() && none.daemon.is_none());
    }

    #[test]
    fn the_socket_is_that_of_the_daemons_file() {
        let scratch = Scratch::create("adopt-socket").expect("a directory");
        let socket = |text: &str| {
            let daemon = scratch.write("strongswan.conf", text).expect("a file");
            Environment { folder: None, daemon: Some(daemon) }.socket()
        };
        let of = |address: &str| {
            socket(&format!("charon {{\n plugins {{\n vici {{\n socket = {address}\n }}\n }}\n}}\n"))
        };
        assert_eq!(of("unix:///run/own.vici"), Ok("/run/own.vici".into()));
        assert_eq!(socket("charon {\n}\n"), Ok(vici::PATH.into()));
        assert!(of("tcp://127.0.0.1:4502").is_err_and(|why| why.contains("strongswan.conf:4: ")));
        assert!(socket("charon {\n").is_err());
    }
}
