//! The socket at which `wg` speaks to an interface
//! (<https://www.wireguard.com/xplatform/#configuration-protocol>).

use std::fs::DirBuilder;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use adit_core::Severity;
use adit_host::log::Logger;
use adit_host::sockets::{ListeningSocket, Server};
use adit_wireguard::ConfigureError;
use adit_wireguard::uapi::{Operation, Reader, print_outcome, print_refusal, print_status};
use zeroize::Zeroizing;

use super::orders::Orders;

/// Where the sockets are: `wg` looks there.
pub(super) const DIRECTORY: &str = "/var/run/wireguard";
/// How long a socket that is in use may take to go: that of a process whose device was just deleted.
pub(super) const LEAVING: Duration = Duration::from_millis(1500);
/// How much is read at once.
const BUFFER: usize = 64 << 10;

/// Begins to listen for the interface with this name. A file that no process listens at is replaced; one that is in use has a
/// moment to go.
///
/// # Errors
/// Why it cannot.
pub(crate) fn bind(interface: &str) -> Result<ListeningSocket, String> {
    make_directory(Path::new(DIRECTORY)).map_err(|error| format!("cannot make {DIRECTORY}: {error}"))?;
    let path = socket_path(interface);
    ListeningSocket::bind(&path, LEAVING).map_err(|error| {
        let way_out = match error.kind() {
            io::ErrorKind::AddrInUse => ": another program serves an interface of that name; stop it first",
            _ => "",
        };
        format!("cannot listen at {}: {error}{way_out}", path.display())
    })
}

/// Serves the interface by a socket that listens already, at the place where that interface's belongs.
///
/// # Errors
/// It is not there.
pub(crate) fn inherited(socket: OwnedFd, interface: &str) -> Result<ListeningSocket, String> {
    let path = socket_path(interface);
    let inherited = ListeningSocket::inherited(socket, path.clone());
    inherited.map_err(|error| format!("the socket {} cannot be used: {error}", path.display()))
}

/// Makes the directory of the sockets, unless it is there.
fn make_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(directory)
}

/// Where the socket of the interface with this name is.
pub(crate) fn socket_path(interface: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{interface}.sock"))
}

/// Serves a socket until the result is dropped. `wg` makes a connection for each operation.
///
/// # Errors
/// When the system refuses it.
pub(super) fn serve(socket: ListeningSocket, orders: Orders, mut log: Logger) -> io::Result<Server> {
    Server::start(socket, "adit-uapi", move |stream: &UnixStream| {
        // The other end may have gone: nothing to do about it.
        let _ = converse(stream, &orders, &mut log);
    })
}

/// Answers one operation after the other.
fn converse(mut stream: &UnixStream, orders: &Orders, log: &mut Logger) -> io::Result<()> {
    let mut reader = Reader::default();
    let mut buffer = Zeroizing::new(vec![0; BUFFER]);
    let scope_of = |zone: &str| adit_system::scope_of_zone(zone).ok();
    loop {
        let len = stream.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        if let Err(refusal) = reader.push(buffer.get(..len).unwrap_or_default()) {
            log.log(Severity::Error, format_args!("an operation was refused: {refusal}"));
            return stream.write_all(print_refusal(&refusal).as_bytes());
        }
        while let Some(operation) = reader.next_operation(&scope_of) {
            let answer = match operation {
                Ok(operation) => answer(operation, orders),
                Err(refusal) => {
                    log.log(Severity::Error, format_args!("an operation was refused: {refusal}"));
                    Some(Zeroizing::new(print_refusal(&refusal)))
                }
            };
            let Some(answer) = answer else { return Ok(()) };
            stream.write_all(answer.as_bytes())?;
        }
    }
}

/// `None` when the interface has ended.
fn answer(operation: Operation, orders: &Orders) -> Option<Zeroizing<String>> {
    Some(match operation {
        Operation::Get => print_status(&orders.status()?),
        Operation::Set(changes) => {
            let outcome = orders.configure(changes)?;
            Zeroizing::new(print_outcome(outcome.map_err(|error: ConfigureError| error.errno())))
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// The trap of boringtun: on many systems nothing made it before.
    #[test]
    fn a_missing_directory_is_made() {
        let place = std::env::temp_dir().join(format!("adit-uapi-{}", std::process::id()));
        let directory = place.join("run/wireguard");
        for _ in 0..2 {
            make_directory(&directory).unwrap();
        }
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o755);
        ListeningSocket::bind(&directory.join("wg0.sock"), LEAVING).unwrap();
        fs::remove_dir_all(place).unwrap();
    }
}
