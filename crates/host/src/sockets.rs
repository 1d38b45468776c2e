//! Sockets of the file system at which programs speak to a tunnel. A thread serves each connection.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, shutdown, socket_with,
};

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 16;
/// How many connections of a socket are served at once. Those beyond are closed.
pub const MAX_CONNECTIONS: usize = 64;
/// How often a socket that has a moment to go is looked at.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A listening socket. Its file goes when this does, if it is still the same file.
pub struct ListeningSocket {
    listener: UnixListener,
    file: SocketFile,
}

/// The file of a socket.
#[derive(Clone)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl SocketFile {
    fn find(path: PathBuf) -> io::Result<Self> {
        let identity = identity(&path)?;
        Ok(SocketFile { path, identity })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is there, and no other in its place.
    pub fn is_there(&self) -> bool {
        identity(&self.path).is_ok_and(|found| found == self.identity)
    }
}

/// Whether there is a place for the file, and time.
fn may_come_again(path: &Path, deadline: Instant) -> bool {
    path.parent().is_some_and(Path::is_dir) && Instant::now() < deadline
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

impl ListeningSocket {
    /// Begins to listen at a path, for root alone. A file that no process listens at is replaced; one that is in use has the time
    /// `leaving` to go.
    ///
    /// # Errors
    /// `AddrInUse`: a process listens there. Otherwise the system's error.
    pub fn bind(path: &Path, leaving: Duration) -> io::Result<Self> {
        Self::bind_by(path, leaving, || adit_guard::listen_at(path, 0o600, BACKLOG))
    }

    fn bind_by(
        path: &Path,
        leaving: Duration,
        mut listen: impl FnMut() -> io::Result<UnixListener>,
    ) -> io::Result<Self> {
        let deadline = Instant::now() + leaving;
        loop {
            let bound = listen().and_then(|listener| {
                let file = SocketFile::find(path.to_owned())?;
                Ok(ListeningSocket { listener, file })
            });
            match bound {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                // A program removed the file before this process listened: it took it for one that was left behind.
                Err(error) if error.kind() == io::ErrorKind::NotFound && may_come_again(path, deadline) => {
                    continue;
                }
                bound => return bound,
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

    /// A socket that listens already, at a path.
    ///
    /// # Errors
    /// There is no file at the path.
    pub fn inherited(socket: OwnedFd, path: PathBuf) -> io::Result<Self> {
        let listener = UnixListener::from(socket);
        listener.set_nonblocking(false)?;
        Ok(ListeningSocket { listener, file: SocketFile::find(path)? })
    }

    /// Its file.
    pub fn file(&self) -> SocketFile {
        self.file.clone()
    }
}

impl Drop for ListeningSocket {
    fn drop(&mut self) {
        // No connection is accepted any more, also not by the thread that waits for one.
        let _ = shutdown(&self.listener, Shutdown::Both);
        if self.file.is_there() {
            let _ = fs::remove_file(&self.file.path);
        }
    }
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
pub struct Server {
    connections: Connections,
    /// Its file is removed last.
    socket: ListeningSocket,
}

/// The open connections, by number. Copies share them.
#[derive(Clone, Default)]
struct Connections(Arc<Mutex<BTreeMap<u64, UnixStream>>>);

impl Connections {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, UnixStream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Starts a thread that accepts connections, and one for each of up to [`MAX_CONNECTIONS`], in which `serve` speaks to the
    /// program at its other end. Threads have that name.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start<S>(socket: ListeningSocket, name: &'static str, serve: S) -> io::Result<Self>
    where
        S: FnMut(&UnixStream) + Clone + Send + 'static,
    {
        let listener = socket.listener.try_clone()?;
        let connections = Connections::default();
        let theirs = connections.clone();
        let accept = move || accept(&listener, &theirs, name, &serve);
        thread::Builder::new().name(name.to_owned()).spawn(accept)?;
        Ok(Server { connections, socket })
    }

    /// The path of its socket. In a sandbox the file stays, and refuses connections, until the helper removes it.
    pub fn path(&self) -> &Path {
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

fn accept<S>(listener: &UnixListener, connections: &Connections, name: &str, serve: &S)
where
    S: FnMut(&UnixStream) + Clone + Send + 'static,
{
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
        let (theirs, mut serve) = (connections.clone(), serve.clone());
        let Ok(copy) = stream.try_clone() else { continue };
        let mut open = connections.lock();
        if open.len() >= MAX_CONNECTIONS {
            continue;
        }
        open.insert(number, copy);
        drop(open);
        let serve = move || {
            serve(&stream);
            theirs.lock().remove(&number);
        };
        if thread::Builder::new().name(name.to_owned()).spawn(serve).is_err() {
            connections.lock().remove(&number);
        }
    }
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
            let directory = std::env::temp_dir().join(format!("adit-socket-{}-{name}", std::process::id()));
            fs::create_dir(&directory).unwrap();
            Place(directory)
        }

        fn path(&self) -> PathBuf {
            self.0.join("tunnel.sock")
        }

        fn bind(&self) -> io::Result<ListeningSocket> {
            ListeningSocket::bind(&self.path(), MOMENT)
        }
    }

    /// Some programs remove a file that refuses connections.
    #[test]
    fn a_file_that_was_removed_before_the_process_listened_comes_again() {
        let place = Place::new("removed");
        let (path, mut removals) = (place.path(), 3);
        let bound = ListeningSocket::bind_by(&path, MOMENT, || {
            let listener = adit_guard::listen_at(&path, 0o600, BACKLOG)?;
            if removals > 0 {
                removals -= 1;
                fs::remove_file(&path)?;
            }
            Ok(listener)
        });
        assert!(bound.unwrap().file().is_there());
        let nowhere = place.0.join("missing/tunnel.sock");
        let refused = ListeningSocket::bind(&nowhere, MOMENT).map(drop);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::NotFound);
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
