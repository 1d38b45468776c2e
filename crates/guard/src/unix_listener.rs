//! Listening Unix sockets whose files have their mode from the first moment on.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;

use adit_sys::unshare_file_system_attributes;
use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use rustix::process::umask;

/// A socket that listens at `path`, whose file has the mode `mode`, whatever the umask; `backlog` connections may wait to be
/// accepted.
///
/// The file gets its mode from the socket (`unix_bind_bsd` of Linux's net/unix/af_unix.c). No mode is set by path: where another
/// user may write the directory, a link could take the place of the file, and the file that it leads to would get the mode.
///
/// # Errors
/// When the system refuses; [`io::ErrorKind::AddrInUse`] where there is a file.
pub fn listen_at(path: &Path, mode: u32, backlog: i32) -> io::Result<UnixListener> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    fchmod(&socket, Mode::from_raw_mode(mode))?;
    let address = SocketAddrUnix::new(path)?;
    // A umask is that of all threads that share it.
    thread::scope(|scope| {
        let bound = thread::Builder::new()
            .name("adit-bind".to_owned())
            .spawn_scoped(scope, || bind_without_umask(&socket, &address))?
            .join();
        bound.unwrap_or_else(|_| Err(io::Error::other("the thread that binds the socket ended")))
    })?;
    listen(&socket, backlog)?;
    Ok(socket.into())
}

fn bind_without_umask(socket: &OwnedFd, address: &SocketAddrUnix) -> io::Result<()> {
    // Where a container refuses a umask of its own, all threads have none for this moment.
    let is_own = unshare_file_system_attributes().is_ok();
    let before = umask(Mode::empty());
    let bound = bind(socket, address);
    if !is_own {
        umask(before);
    }
    Ok(bound?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use adit_system::testing::Scratch;

    use super::*;

    #[test]
    fn a_socket_has_its_mode_and_follows_no_link() {
        let scratch = Scratch::new("listener");
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
        let own = umask(Mode::empty());
        umask(own);
        for wanted in [0o600, 0o777] {
            let path = scratch.path().join(format!("{wanted:o}"));
            let _listener = listen_at(&path, wanted, 1).unwrap();
            assert_eq!(mode(&path), wanted);
        }
        let [target, link] = ["target", "link"].map(|name| scratch.path().join(name));
        fs::write(&target, "precious").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&target, &link).unwrap();
        assert_eq!(listen_at(&link, 0o777, 1).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(mode(&target), 0o600);
        let still = umask(own);
        assert_eq!(still, own, "that of this process");
    }
}
