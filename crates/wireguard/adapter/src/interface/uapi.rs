//! The socket at which `wg` speaks to an interface
//! (<https://www.wireguard.com/xplatform/#configuration-protocol>).

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use adit_core::Severity;
use adit_wireguard::ConfigureError;
use adit_wireguard::uapi::{Operation, Reader, print_outcome, print_refusal, print_status};
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, shutdown, socket_with,
};
use zeroize::Zeroizing;

use super::orders::Orders;
use adit_host::log::Logger;

/// Where the sockets are: `wg` looks there.
pub(super) const DIRECTORY: &str = "/var/run/wireguard";
/// How many connections may wait to be accepted.
const BACKLOG: i32 = 16;
/// How many connections are served at once. `wg` makes one for each operation.
const MAX_CONNECTIONS: usize = 64;
/// How long a socket that is in use may take to go: that of a process whose device was just deleted.
pub(super) const LEAVING: Duration = Duration::from_millis(1500);
/// How often it is looked at meanwhile.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How much is read at once.
const BUFFER: usize = 64 << 10;

/// The listening socket of an interface. Its file goes when this does, if it is still the same file.
pub(crate) struct UapiSocket {
    listener: UnixListener,
    file: SocketFile,
}

/// The file of a socket.
#[derive(Clone)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl SocketFile {
    fn find(path: PathBuf) -> io::Result<Self> {
        let identity = identity(&path)?;
        Ok(SocketFile { path, identity })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is there, and no other in its place.
    pub(crate) fn is_there(&self) -> bool {
        identity(&self.path).is_ok_and(|found| found == self.identity)
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

impl UapiSocket {
    /// Begins to listen for the interface with this name. A file that no process listens at is replaced; one that is in
    /// use has a moment to go.
    ///
    /// # Errors
    /// Why it cannot.
    pub(crate) fn bind(interface: &str) -> Result<Self, String> {
        make_directory(Path::new(DIRECTORY)).map_err(|error| format!("cannot make {DIRECTORY}: {error}"))?;
        let path = socket_path(interface);
        UapiSocket::bind_at(&path, LEAVING).map_err(|error| {
            let way_out = match error.kind() {
                io::ErrorKind::AddrInUse => {
                    ": another program serves an interface of that name; stop it first"
                }
                _ => "",
            };
            format!("cannot listen at {}: {error}{way_out}", path.display())
        })
    }

    fn bind_at(path: &Path, leaving: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + leaving;
        loop {
            match adit_guard::listen_at(path, 0o600, BACKLOG) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                bound => {
                    let listener = bound?;
                    return Ok(UapiSocket { listener, file: SocketFile::find(path.to_owned())? });
                }
            }
            match probe(path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => remove(path)?,
                // It went meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                _ if Instant::now() >= deadline => return Err(io::ErrorKind::AddrInUse.into()),
                _ => thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// Serves the interface by a socket that listens already, at the place where that interface's belongs.
    ///
    /// # Errors
    /// It is not there.
    pub(crate) fn inherited(socket: OwnedFd, interface: &str) -> Result<Self, String> {
        let path = socket_path(interface);
        let fault = |error: io::Error| format!("the socket {} cannot be used: {error}", path.display());
        let listener = UnixListener::from(socket);
        listener.set_nonblocking(false).map_err(fault)?;
        Ok(UapiSocket { listener, file: SocketFile::find(path.clone()).map_err(fault)? })
    }

    pub(crate) fn file(&self) -> SocketFile {
        self.file.clone()
    }
}

impl Drop for UapiSocket {
    fn drop(&mut self) {
        // No connection is accepted any more, also not by the thread that waits for one.
        let _ = shutdown(&self.listener, Shutdown::Both);
        if self.file.is_there() {
            let _ = fs::remove_file(&self.file.path);
        }
    }
}

/// Makes the directory of the sockets, unless it is there.
fn make_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(directory)
}

/// Where the socket of the interface with this name is.
pub(crate) fn socket_path(interface: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{interface}.sock"))
}

/// Connects to the socket there, without waiting for a place among the connections that wait to be accepted: the process
/// that listens may be one that accepts none.
fn probe(path: &Path) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?).map_err(io::Error::from)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Serves a socket until it is dropped.
pub(super) struct Server {
    connections: Connections,
    /// Its file is removed last.
    socket: UapiSocket,
}

/// Those that are open, by number. Copies share them.
#[derive(Clone, Default)]
struct Connections(Arc<Mutex<BTreeMap<u64, UnixStream>>>);

impl Connections {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, UnixStream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Starts a thread that accepts connections.
    ///
    /// # Errors
    /// When the system refuses it.
    pub(super) fn start(socket: UapiSocket, orders: Orders, log: Logger) -> io::Result<Self> {
        let listener = socket.listener.try_clone()?;
        let connections = Connections::default();
        let theirs = connections.clone();
        thread::Builder::new()
            .name("adit-uapi".to_owned())
            .spawn(move || accept(&listener, &theirs, &orders, &log))?;
        Ok(Server { connections, socket })
    }

    /// The file of its socket. In a sandbox it stays, and refuses connections, until the helper removes it.
    pub(super) fn path(&self) -> &Path {
        self.socket.file.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for connection in self.connections.lock().values() {
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn accept(listener: &UnixListener, connections: &Connections, orders: &Orders, log: &Logger) {
    for number in 0.. {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            // The socket was shut down.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            // There are too few descriptors, perhaps.
            Err(_) => {
                thread::sleep(LOOK_EVERY);
                continue;
            }
        };
        let (theirs, orders, mut log) = (connections.clone(), orders.clone(), log.clone());
        let Ok(copy) = stream.try_clone() else { continue };
        let mut open = connections.lock();
        if open.len() >= MAX_CONNECTIONS {
            continue;
        }
        open.insert(number, copy);
        drop(open);
        let serve = move || {
            // The other end may have gone: nothing to do about it.
            let _ = converse(&stream, &orders, &mut log);
            theirs.lock().remove(&number);
        };
        if thread::Builder::new().name("adit-uapi".to_owned()).spawn(serve).is_err() {
            connections.lock().remove(&number);
        }
    }
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
    use std::os::unix::fs::PermissionsExt as _;

    use adit_testbed::stop_listening;

    use super::*;

    const MOMENT: Duration = Duration::from_secs(1);

    /// A place for a socket, which goes with this.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let directory = std::env::temp_dir().join(format!("adit-uapi-{}-{name}", std::process::id()));
            fs::create_dir(&directory).unwrap();
            Place(directory)
        }

        fn path(&self) -> PathBuf {
            self.0.join("wg0.sock")
        }

        fn bind(&self) -> io::Result<UapiSocket> {
            UapiSocket::bind_at(&self.path(), MOMENT)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_socket_is_its_owners_alone_and_goes_with_its_guard() {
        let place = Place::new("alone");
        let socket = place.bind().unwrap();
        assert_eq!(fs::metadata(place.path()).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(socket.file().is_there());
        drop(socket);
        assert!(!place.path().exists());
    }

    /// The trap of boringtun: on many systems nothing made it before.
    #[test]
    fn a_missing_directory_is_made() {
        let place = Place::new("directory");
        let directory = place.0.join("run/wireguard");
        for _ in 0..2 {
            make_directory(&directory).unwrap();
        }
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o755);
        UapiSocket::bind_at(&directory.join("wg0.sock"), MOMENT).unwrap();
    }

    #[test]
    fn what_nobody_listens_at_makes_room() {
        let place = Place::new("stale");
        stop_listening(UnixListener::bind(place.path()).unwrap());
        assert!(place.path().exists());
        let socket = place.bind().unwrap();
        assert!(UnixStream::connect(place.path()).is_ok());
        drop(socket);
    }

    #[test]
    fn a_socket_in_use_stays_unless_it_goes_soon() {
        let place = Place::new("use");
        let first = place.bind().unwrap();
        let error = place.bind().map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(first.file().is_there());
        let leaving = thread::spawn(move || {
            thread::sleep(MOMENT / 4);
            drop(first);
        });
        let second = place.bind().unwrap();
        leaving.join().unwrap();
        assert!(second.file().is_there());
    }

    /// The places among the connections that wait are all taken while it is looked at.
    #[test]
    fn a_socket_whose_connections_are_not_accepted_is_in_use() {
        let place = Place::new("unaccepted");
        let _first = place.bind().unwrap();
        let waiting: Vec<_> = (0..=BACKLOG).map(|_| UnixStream::connect(place.path()).unwrap()).collect();
        assert_eq!(place.bind().map(drop).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(waiting);
    }

    #[test]
    fn the_file_of_another_is_left() {
        let place = Place::new("other");
        let first = place.bind().unwrap();
        fs::remove_file(place.path()).unwrap();
        let second = place.bind().unwrap();
        assert!(!first.file().is_there());
        drop(first);
        assert!(second.file().is_there());
    }
}
