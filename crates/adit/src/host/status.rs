//! `adit status`: what the running tunnels say of themselves.
//!
//! Each tunnel listens on a Unix socket in [`DIRECTORY`], and sends one JSON document over each connection.

mod columns;
mod details;
mod report;
mod show;
mod units;

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, Once, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use adit_core::{Instant, Protocol, TableUsage};
use adit_io::Handle;
use adit_openvpn::codec::Codec;
use adit_openvpn::request::{PeerDetail, Reply, Request};
use adit_openvpn::{Client, PushUpdateError, Server, StaticTunnel};
use adit_wireguard::Interface;
use rustix::fs::{Mode, OFlags, fchmod, open};
use rustix::net::{Shutdown, shutdown};
use time::OffsetDateTime;

use crate::host::exit;
use crate::host::privileges::Confinement;
use crate::openvpn::adapter::expiry::Expiry;
pub(crate) use report::Expiring;
use report::{Report, Unconnected};

/// Where the sockets are.
const DIRECTORY: &str = "/run/adit";
/// How long a tunnel may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How many questions may wait to be accepted.
const BACKLOG: i32 = 128;

/// Show the running tunnels: who is connected, from where, since when, with what traffic, and what is not well
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the tunnel of this configuration (its file name without the ending)
    name: Option<String>,
    /// Show offloads, sandbox, limits, counts and each peer's keys, too
    #[arg(long, conflicts_with = "json")]
    details: bool,
    /// Print JSON: an array with one object a tunnel
    #[arg(long)]
    json: bool,
}

/// A machine whose state `adit status` shows.
pub(crate) trait StatusSource:
    Protocol<Request = Request, Reply = Reply, Detail = PeerDetail, Codec = Codec> + Send + 'static
{
    /// `client`, `server` or `static key`.
    const ROLE: &'static str;

    /// Sends other settings to one connected client of a server, or to all ([`Server::push_update`]). `None`: it is no server.
    fn push_update(
        &mut self,
        _now: Instant,
        _client: Option<u64>,
        _changes: &str,
    ) -> Option<Result<usize, PushUpdateError>> {
        None
    }
}

/// A protocol whose peers `adit status` shows.
pub(crate) trait Shown: Protocol<Reply: Send> + Send + 'static {
    /// What the end is: one of [`StatusSource::ROLE`], or `wireguard`.
    const ROLE: &'static str;

    /// What a peer's connection is secured by, beside the data cipher.
    fn handshake(detail: &Self::Detail) -> String;

    /// The public key by which a peer is known, if it is known by one.
    fn peer_key(_detail: &Self::Detail) -> Option<String> {
        None
    }

    /// Peers that are configured and not connected.
    fn unconnected(&self) -> Vec<Unconnected> {
        Vec::new()
    }
}

impl<P: StatusSource> Shown for P {
    const ROLE: &'static str = P::ROLE;

    fn handshake(detail: &PeerDetail) -> String {
        detail.tls.clone()
    }
}

impl Shown for Interface {
    const ROLE: &'static str = "wireguard";

    fn handshake(detail: &adit_wireguard::PeerDetail) -> String {
        let post_quantum = match detail.post_quantum {
            Some(true) => ", post-quantum (X25519MLKEM768)",
            Some(false) => ", not post-quantum",
            None => "",
        };
        format!("Noise_IKpsk2{post_quantum}")
    }

    fn peer_key(detail: &adit_wireguard::PeerDetail) -> Option<String> {
        Some(detail.public_key.to_base64())
    }

    fn unconnected(&self) -> Vec<Unconnected> {
        let peer = |detail: adit_wireguard::PeerDetail| Unconnected {
            name: detail.called(),
            public_key: Self::peer_key(&detail),
            remote: detail.endpoint,
            networks: detail.allowed_ips.iter().map(ToString::to_string).collect(),
            unanswered: detail.unanswered,
            blocked: detail.blocked,
        };
        Interface::unconnected(self).map(peer).collect()
    }
}

/// Tables beside those of the protocol and of the driver: each is read when a status is asked for.
#[derive(Clone, Default)]
pub(crate) struct OtherTables(Arc<Mutex<Vec<Usage>>>);

type Usage = Box<dyn Fn() -> TableUsage + Send>;

impl OtherTables {
    /// One more.
    pub(crate) fn add(&self, usage: impl Fn() -> TableUsage + Send + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(usage));
    }

    fn usage(&self) -> Vec<TableUsage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|usage| usage()).collect()
    }
}

impl StatusSource for Client {
    const ROLE: &'static str = "client";
}

impl StatusSource for Server {
    const ROLE: &'static str = "server";

    fn push_update(
        &mut self,
        now: Instant,
        client: Option<u64>,
        changes: &str,
    ) -> Option<Result<usize, PushUpdateError>> {
        Some(Server::push_update(self, now, client, changes))
    }
}

impl StatusSource for StaticTunnel {
    const ROLE: &'static str = "static key";
}

/// The socket of a running tunnel; it goes when this does. In a sandbox it stays, and refuses connections, until the
/// helper removes it.
pub(crate) struct Socket(PathBuf, UnixListener);

impl Socket {
    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        self.0.clone()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = shutdown(&self.1, Shutdown::Both);
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What is shown beside what the driver and the protocol say.
pub(crate) struct Beside {
    /// What expires, if there are certificates.
    pub(crate) expiry: Option<Expiry>,
    /// Which rights were given up.
    pub(crate) confinement: Confinement,
    /// Further tables.
    pub(crate) tables: OtherTables,
    /// The names of the endpoints of the tunnel, if it has several.
    pub(crate) endpoints: Vec<String>,
}

/// Answers `adit status` for the tunnel of that name.
pub(crate) fn serve<P: Shown>(name: &str, handle: Handle<P>, beside: Beside) -> io::Result<Socket> {
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
            let _ = answer(stream, &name, &handle, &beside);
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

fn answer<P: Shown>(
    mut stream: UnixStream,
    name: &str,
    handle: &Handle<P>,
    beside: &Beside,
) -> io::Result<()> {
    let (sender, receiver) = mpsc::channel();
    let name = name.to_owned();
    handle.inspect(Box::new(move |protocol, snapshot, io_status| {
        let _ = sender.send(Report::new(&name, protocol, snapshot, io_status));
    }));
    let Ok(mut report) = receiver.recv_timeout(TIMEOUT) else { return Ok(()) };
    let expiring = beside.expiry.as_ref().map(|expiry| expiry.near(OffsetDateTime::now_utc()));
    report.expiring = expiring.unwrap_or_default();
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
fn refuses(socket: &Path) -> bool {
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

/// The name of a peer that is connected to a tunnel of that process, if one is.
pub(crate) fn peer_of(process: u32) -> Option<String> {
    let own = sockets().into_iter().filter(|path| process_of(path) == Some(process));
    own.filter_map(|path| ask(&path).ok()).flat_map(|report| report.peers).map(|peer| peer.name).next()
}

fn sockets() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(DIRECTORY) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "sock"));
    paths.sort();
    paths
}

fn ask(path: &Path) -> io::Result<Report> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    let mut reports = Vec::new();
    for path in sockets() {
        match ask(&path) {
            Ok(report) => reports.push(report),
            // Left by a tunnel that was killed.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return exit::failure("tunnels are running, but only root may ask them: sudo adit status");
            }
            // One tunnel that an older or newer adit runs does not hide the others.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => exit::tell(format_args!(
                "{}: no answer that this version of adit understands ({error}); restart that tunnel",
                path.display()
            )),
            // It ended while it was being asked: it closes without an answer, or is gone.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(_) if !path.exists() || refuses(&path) => {}
            Err(error) => return exit::failure(format_args!("{}: no answer: {error}", path.display())),
        }
    }
    if let Some(name) = &args.name {
        reports.retain(|report| report.name == *name);
    }
    if args.json {
        match serde_json::to_string_pretty(&reports) {
            Ok(text) => exit::say(text),
            Err(error) => return exit::failure(error),
        }
        return ExitCode::SUCCESS;
    }
    if reports.is_empty() {
        return exit::failure("no tunnel is running here; start one with: adit up FILE");
    }
    for tunnel in tunnels(&reports) {
        exit::say(show::tunnel(&tunnel, args.details));
    }
    ExitCode::SUCCESS
}

/// The reports by tunnel: those of the endpoints of one tunnel, which name the same device of one process, together.
fn tunnels(reports: &[Report]) -> Vec<Vec<&Report>> {
    let mut tunnels: Vec<Vec<&Report>> = Vec::new();
    for report in reports {
        let is_same = |tunnel: &&mut Vec<&Report>| {
            let first = tunnel.first().filter(|_| !report.endpoints.is_empty());
            first.is_some_and(|first| (first.pid, &first.endpoints) == (report.pid, &report.endpoints))
        };
        match tunnels.iter_mut().find(is_same) {
            Some(tunnel) => tunnel.push(report),
            None => tunnels.push(vec![report]),
        }
    }
    tunnels
}

/// A tunnel's answer, for the fuzz target.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing {
    use super::{Report, show};

    /// The answer as people see it, and as JSON again. `None` if it cannot be read.
    pub(crate) fn printed(json: &[u8]) -> Option<(String, String)> {
        let report: Report = serde_json::from_slice(json).ok()?;
        let shown = [false, true].map(|details| show::tunnel(&[&report], details)).join("\n");
        Some((shown, serde_json::to_string(&report).ok()?))
    }

    /// An answer with something in every place.
    #[cfg(test)]
    pub(crate) fn example() -> String {
        serde_json::to_string(&show::tests::wild_report()).expect("plain data")
    }
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
