//! Tells the service manager how the tunnel is (sd_notify(3), `Type=notify`).

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// All is set up; what depends on this service may start. As with OpenVPN, this does not wait for the other end.
pub(super) fn ready() {
    tell("READY=1\nSTATUS=set up");
}

/// What to show for it.
pub(super) fn status(text: &str) {
    tell(&format!("STATUS={}", text.replace('\n', " ")));
}

/// It is about to end.
pub(super) fn stopping() {
    tell("STOPPING=1");
}

fn tell(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    // A service manager that does not listen is no reason to stop.
    let _ = address(&path).and_then(|to| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &to));
}

/// A path, or behind `@` a name that is no file's.
fn address(path: &OsStr) -> std::io::Result<SocketAddr> {
    match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(path),
    }
}
