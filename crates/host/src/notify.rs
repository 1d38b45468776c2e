//! Tells the service manager how the tunnel is (sd_notify(3), `Type=notify`).

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;

/// The service manager's socket, connected while the process could reach it.
static MANAGER: OnceLock<UnixDatagram> = OnceLock::new();

/// Finds the service manager, if there is one: before the process gives up its rights.
pub fn connect() {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let connected = address(&path).and_then(|to| {
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&to)?;
        Ok(socket)
    });
    if let Ok(socket) = connected {
        let _ = MANAGER.set(socket);
    }
}

/// Tells of one tunnel of the process.
pub struct Notifier {
    /// Its name, where it is not the only one.
    name: Option<String>,
}

impl Notifier {
    /// The notifier of the tunnel of that name.
    pub fn of(name: &str, has_others: bool) -> Self {
        Notifier { name: has_others.then(|| name.to_owned()) }
    }

    /// Shows a text as the status of the tunnel.
    pub fn status(&self, text: &str) {
        match &self.name {
            Some(name) => status(&format!("{name}: {text}")),
            None => status(text),
        }
    }

    /// Reports that the tunnel is about to end: where it is the only one, that the process is.
    pub fn stopping(&self) {
        if self.name.is_none() {
            stopping();
        }
    }
}

/// All is set up, and rights are given up; services that depend on this one may start. This does not wait for
/// the other end.
pub fn ready() {
    tell("READY=1");
}

fn status(text: &str) {
    tell(&format!("STATUS={}", text.replace('\n', " ")));
}

/// The process is about to end.
pub fn stopping() {
    tell("STOPPING=1");
}

fn tell(state: &str) {
    if let Some(manager) = MANAGER.get() {
        // A service manager that does not listen is no reason to stop.
        let _ = manager.send(state.as_bytes());
    }
}

/// A path, or behind `@` a name that is no file's.
fn address(path: &OsStr) -> std::io::Result<SocketAddr> {
    match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(path),
    }
}
