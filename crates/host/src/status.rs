//! The status reports of running tunnels, which `adit status` shows.
//!
//! Each tunnel listens on a Unix socket in `/run/adit`, and sends one JSON document over each connection.

pub mod report;

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use adit_core::{Instant, Protocol, TableUsage};
use adit_io::Handle;
use rustix::fs::{Mode, OFlags, fchmod, open};
use rustix::net::{Shutdown, shutdown};

use crate::privileges::Confinement;
use report::{Expiring, Report, Session, Unconnected};

/// Where the sockets are.
const DIRECTORY: &str = "/run/adit";
/// How long a tunnel may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How many questions may wait to be accepted.
const BACKLOG: i32 = 128;

/// The rows of a protocol in its reports.
pub struct Rows<P: Protocol> {
    /// The role of this end, in a word or two.
    pub role: &'static str,
    /// The security of a peer's connection, beside the data cipher.
    pub handshake: fn(&P::Detail) -> String,
    /// The public key by which a peer is known, if it is known by one.
    pub public_key: fn(&P::Detail) -> Option<String>,
    /// The sessions of a peer, where a peer has several at once.
    pub sessions: fn(&P::Detail, Instant) -> Vec<Session>,
    /// The peers that are configured and not connected.
    pub unconnected: fn(&P) -> Vec<Unconnected>,
}

impl<P: Protocol> Clone for Rows<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Protocol> Copy for Rows<P> {}

/// Tables beside those of the protocol and of the driver: each is read when a status is asked for.
#[derive(Clone, Default)]
pub struct OtherTables(Arc<Mutex<Vec<Usage>>>);

type Usage = Box<dyn Fn() -> TableUsage + Send>;

impl OtherTables {
    /// One more.
    pub fn add(&self, usage: impl Fn() -> TableUsage + Send + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(usage));
    }

    fn usage(&self) -> Vec<TableUsage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|usage| usage()).collect()
    }
}

/// The socket of a running tunnel; it goes when this does. In a sandbox it stays, and refuses connections, until the
/// helper removes it.
pub struct Socket(PathBuf, UnixListener);

impl Socket {
    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.0.clone()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = shutdown(&self.1, Shutdown::Both);
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The parts of the status that neither the driver nor the protocol has.
pub struct Beside {
    /// The certificates and lists that have expired or will soon.
    pub expiring: Option<Box<dyn Fn() -> Vec<Expiring> + Send>>,
    /// Which rights were given up.
    pub confinement: Confinement,
    /// Further tables.
    pub tables: OtherTables,
    /// The names of the endpoints of the tunnel, if it has several.
    pub endpoints: Vec<String>,
}

/// Answers `adit status` for the tunnel of that name.
pub fn serve<P: Protocol<Reply: Send> + Send + 'static>(
    name: &str,
    handle: Handle<P>,
    rows: Rows<P>,
    beside: Beside,
) -> io::Result<Socket> {
    let name = name.to_owned();
    std::fs::create_dir_all(DIRECTORY)?;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fchmod(open(DIRECTORY, flags, Mode::empty())?, Mode::from_raw_mode(0o755))?;
    // Once: a socket of another tunnel of this process refuses connections until it listens.
    static STALE: Once = Once::new();
    STALE.call_once(remove_stale);
    let path = Path::new(DIRECTORY).join(format!("{name}-{}.sock", std::process::id()));
    // Names and addresses of clients are for the administrator alone.
    let listener = adit_guard::listen_at(&path, 0o600, BACKLOG)?;
    let socket = Socket(path, listener.try_clone()?);
    thread::Builder::new().name("adit-status".to_owned()).spawn(move || {
        for stream in listener.incoming().map_while(still_listening).flatten() {
            // The client may have closed the connection: nothing to do about it.
            let _ = answer(stream, &name, (&handle, rows), &beside);
        }
    })?;
    Ok(socket)
}

/// `None` when the socket was shut down; an error of one connection is no end.
fn still_listening(connection: io::Result<UnixStream>) -> Option<io::Result<UnixStream>> {
    match connection {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => None,
        other => Some(other),
    }
}

fn answer<P: Protocol<Reply: Send> + Send + 'static>(
    mut stream: UnixStream,
    name: &str,
    (handle, rows): (&Handle<P>, Rows<P>),
    beside: &Beside,
) -> io::Result<()> {
    let (sender, receiver) = mpsc::channel();
    let name = name.to_owned();
    handle.inspect(Box::new(move |protocol, snapshot, io_status| {
        let _ = sender.send(Report::new(&name, (protocol, rows), snapshot, io_status));
    }));
    let Ok(mut report) = receiver.recv_timeout(TIMEOUT) else { return Ok(()) };
    report.expiring = beside.expiring.as_ref().map(|expiring| expiring()).unwrap_or_default();
    report.sandbox = beside.confinement.get().map(report::sandbox).unwrap_or_default();
    report.tables.extend(beside.tables.usage().iter().map(report::Table::new));
    report.endpoints.clone_from(&beside.endpoints);
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(serde_json::to_string(&report)?.as_bytes())
}

/// Sockets of tunnels that were killed. Connecting makes a process write its report, so only sockets are tried whose process is
/// not to be seen: it may be in another container that has the same directory.
fn remove_stale() {
    for path in sockets().into_iter().filter(|path| !has_process(path) && refuses(path)) {
        let _ = std::fs::remove_file(path);
    }
}

/// Whether no process listens at a socket any more.
pub fn refuses(socket: &Path) -> bool {
    UnixStream::connect(socket).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Whether there is a process of the number in a socket's name. One with our own was left by another of that number:
/// in a container all are number 1.
fn has_process(socket: &Path) -> bool {
    process_of(socket).is_some_and(|number| {
        number != std::process::id() && Path::new("/proc").join(number.to_string()).exists()
    })
}

/// The number of the process in a socket's name.
fn process_of(socket: &Path) -> Option<u32> {
    let stem = socket.file_stem().unwrap_or_default().to_string_lossy();
    stem.rsplit_once('-').and_then(|(_, number)| number.parse().ok())
}

/// The names of the peers that are connected to tunnels of that process.
pub fn peers_of(process: u32) -> Vec<String> {
    let own = sockets().into_iter().filter(|path| process_of(path) == Some(process));
    own.filter_map(|path| ask(&path).ok()).flat_map(|report| report.peers).map(|peer| peer.name).collect()
}

/// The sockets of all tunnels that run, or were killed.
pub fn sockets() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(DIRECTORY) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "sock"));
    paths.sort();
    paths
}

/// Asks a tunnel for its report.
///
/// # Errors
/// When it does not answer, or says something else.
pub fn ask(path: &Path) -> io::Result<Report> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_names_its_process() {
        let of = |name: &str| has_process(&Path::new(DIRECTORY).join(name));
        assert!(of(&format!("office-2-{}.sock", std::os::unix::process::parent_id())));
        assert!(!of(&format!("office-{}.sock", std::process::id())), "the socket would be in our own way");
        // Linux numbers no process higher than 2^22.
        for name in ["office-4194305.sock", "office-.sock", "office.sock", "office-x.sock", ".sock"] {
            assert!(!of(name), "{name}");
        }
    }
}
