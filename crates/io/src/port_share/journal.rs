//! The files by which the other server of a shared port learns where its connections come from.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Owner and group may read a file. The group is that of the directory where that has the set-group-ID bit: so the other
/// server can read it, and no others.
const MODE: u32 = 0o640;

/// A file about a forwarded connection, there for as long as this is.
pub(super) struct Entry(PathBuf);

impl Entry {
    /// Writes it, if there is a directory: the name is the address of our end of `server`, the content that of `source`.
    /// `None` also if that fails, as the connection is of use without.
    pub(super) fn write(directory: Option<&Path>, server: &TcpStream, source: SocketAddr) -> Option<Entry> {
        let path = directory?.join(shown(server.local_addr().ok()?));
        let mut options = OpenOptions::new();
        // No file elsewhere is written to by a link that another user made, and a FIFO in its place, which has no reader, is
        // an error at once.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        options.write(true).create(true).truncate(true).mode(MODE).custom_flags(flags);
        let mut file = options.open(&path).ok()?;
        let entry = Entry(path);
        file.write_all(shown(source).as_bytes()).ok()?;
        Some(entry)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // Another program may have removed it.
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether this process can make files in a directory.
///
/// # Errors
/// Why not.
pub(super) fn check(directory: &Path) -> io::Result<()> {
    access(directory, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
        let error = io::Error::from(error);
        let text = format!("port-share: no file can be made in {}: {error}", directory.display());
        io::Error::new(error.kind(), text)
    })
}

/// An address as programs look for it: `[AF_INET]192.0.2.1:443`, `[AF_INET6]2001:db8::1:443`.
fn shown(address: SocketAddr) -> String {
    let family = if address.is_ipv4() { "AF_INET" } else { "AF_INET6" };
    format!("[{family}]{}:{}", address.ip(), address.port())
}
