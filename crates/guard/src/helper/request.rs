//! The requests of a tunnel to its helper, and the helper's answers.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use adit_core::{IpNet, OpenFailure, PoolEntry, Report, Severity, Transport, TunnelSettings};
use adit_io::{Proxy, ProxyCredentials};
use serde::{Deserialize, Serialize};
use zeroize::Zeroize as _;

use super::policy::Policy;

/// The first request on a channel gives its purpose; all on it are of that kind.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// The first of all, once. Answer: `Result<Vec<Note>, String>`.
    Start(Box<Policy>),
    /// A further channel, which comes as a descriptor. No answer.
    Channel,
    /// A request for the system's network.
    Network(NetworkRequest),
    /// Reach a remote, for the `attempt`th time. Answers: [`Opening`].
    Open { remote: usize, attempt: usize },
    /// A request for files.
    File(FileRequest),
    /// A request for scripts.
    Script(ScriptRequest),
    /// A request for UDP sockets.
    Socket(SocketRequest),
    /// Forward the connection whose descriptor comes with this, and which came from that address, to the other server of a
    /// shared port. No answer.
    Forward(SocketAddr),
}

/// Requests for UDP sockets. Answer: `Result<(), Refusal>`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum SocketRequest {
    /// Bind one to that port of all addresses of a family; a `shared` one leaves the port to others. It comes as a descriptor.
    Bind { port: u16, v6: bool, shared: bool },
    /// Mark the one that comes as a descriptor.
    Mark(u32),
}

/// Requests for the system's network. Answer: [`NetworkAnswer`], with the descriptor of the watch for
/// `Watch`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum NetworkRequest {
    Apply(TunnelSettings),
    Bypass(Vec<IpAddr>),
    Follow,
    Undo,
    Watch,
}

/// The state of the network after a request.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct NetworkAnswer {
    pub(super) reports: Vec<Note>,
    /// There are routes that must follow the network.
    pub(super) depends_on_network: bool,
    /// All traffic goes into the tunnel.
    pub(super) takes_all: bool,
    /// Addresses that the device could not get.
    pub(super) missing_addresses: Vec<IpNet>,
    /// The setting that the tunnel cannot be without, and why it has not got it.
    pub(super) lacks: Option<String>,
}

/// A [`Report`] about no particular peer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Note {
    severity: Severity,
    text: String,
}

impl From<Report> for Note {
    fn from(report: Report) -> Self {
        Note { severity: report.severity, text: report.text }
    }
}

impl From<Note> for Report {
    fn from(note: Note) -> Self {
        Report { severity: note.severity, path: None, text: note.text }
    }
}

/// How reaching a remote goes on.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Opening {
    /// The addresses of the remote. The helper waits for any message.
    Reaching(Vec<IpAddr>),
    /// The socket that comes next goes by a relay, with this header before each datagram. The connection to the relay comes
    /// as a descriptor.
    Relay(Vec<u8>),
    /// The socket comes as a descriptor.
    Done(Transport, SocketAddr),
    /// The address, which the socket was opened for, refuses datagrams.
    Refused(String),
    Failed(OpenFailure),
}

/// Requests for files.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FileRequest {
    /// A file in the directory of clients' files. Answer: `Result<Option<Vec<u8>>, Refusal>`.
    Client(String),
    /// The mark that differs after a change of the revocation lists. Answer: `Result<Mark, Refusal>`.
    RevocationMark,
    /// The revocation lists, or the names in the directory, one a line. Answer: `Result<Vec<u8>, Refusal>`.
    Revocations,
    /// Replace the content of the file of leases by these. Answer: `Result<(), Refusal>`.
    WritePool(Vec<PoolEntry>),
    /// The addresses of the policy's names, in their order. Answer: `Result<Vec<LookedUp>, Refusal>`.
    Names,
    /// The addresses of one name: of the policy, or of the configuration that was read last. Answer: `Result<LookedUpOne,
    /// Refusal>`.
    Name(String),
    /// Replace the file of the tunnel's state by these bytes in hexadecimal. Answer: `Result<(), Refusal>`.
    WriteState(Vec<u8>),
    /// Replace the configuration file by its text and this state of the tunnel. Answer: `Result<(), Refusal>`.
    SaveConfiguration(Secret),
    /// The file with our username and password. Answer: `Result<Vec<u8>, Refusal>`.
    UserPassword,
    /// The file of access rules beside the configuration; `None`: there is none. Answer: `Result<Option<Vec<u8>>, Refusal>`.
    AccessRules,
    /// The configuration with the files that it names now. Answer: `Result<Gathered, Refusal>`.
    Configuration,
    /// The revocation lists that the configuration that was read last names. Answer: `Result<Vec<u8>, Refusal>`.
    ProposedRevocations,
    /// Allow from now on the operations that the configuration that was read last allows. Remotes stay, or
    /// are those of that configuration in this order of their places there. Answer: `Result<(), Refusal>`.
    Adopt(Option<Vec<usize>>),
    /// The next attempts at that remote go to another host and port, or to its own again. Answer: `Result<(), Refusal>`.
    ReplaceRemote(usize, Option<(String, u16)>),
    /// The next attempts at that remote go by that proxy, or as the policy has it again. Answer: `Result<(), Refusal>`.
    ReplaceProxy(usize, Option<Proxy>),
    /// Our credentials for the proxy by which that remote is reached. Answer: `Result<(), Refusal>`.
    ProxyCredentials(usize, ProxyCredentials),
}

/// Bytes that hold keys. Without `Debug` for them; wiped when dropped.
#[derive(Serialize, Deserialize)]
pub(super) struct Secret(pub(super) Vec<u8>);

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Secret").finish_non_exhaustive()
    }
}

/// The addresses of a name, or why they are not known.
pub type LookedUp = Result<Vec<IpAddr>, String>;

/// The addresses of a name with port 0, or why they are not known; those of one link have its scope.
pub type LookedUpOne = Result<Vec<SocketAddr>, String>;

/// Time, size and number of a file.
pub type Mark = (i64, i64, u64, u64);

/// Requests for scripts. A number names a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ScriptRequest {
    /// Answer: `Result<u64, Refusal>`.
    Run(ScriptCall),
    /// Answer: `Result<Option<Exit>, Refusal>`, `None` while it runs.
    Poll(u64),
    /// Signal its process group: SIGKILL, or else SIGTERM. Answer: `Result<(), Refusal>`.
    Signal { run: u64, kill: bool },
    /// The content of its files now. Answer: `Result<Vec<Vec<u8>>, Refusal>`.
    Files(u64),
    /// The content of its first file now. Answer: `Result<Vec<u8>, Refusal>`.
    FirstFile(u64),
    /// The result is no longer needed: its files are removed. No answer.
    Release(u64),
    /// Scripts run as the account of the policy from now on. No answer.
    GiveUpRights,
}

/// Its exit code, or why it has none.
pub(super) type Exit = Result<i32, String>;

/// A script to run. Without `Debug` for its environment and files, which hold passwords.
#[derive(Serialize, Deserialize)]
pub struct ScriptCall {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Its environment, besides `secrets`, `PATH` and `dev`.
    pub env: Vec<(String, String)>,
    /// The variables of the environment that are secret.
    pub secrets: Vec<(String, String)>,
    /// The TUN device, which the environment names `dev`; empty if there is none yet.
    pub device: String,
    /// Files that are made for it and removed afterwards.
    pub files: Vec<ScriptInput>,
    /// A run whose files the environment names too ([`super::ScriptRun::number`]).
    pub beside: Option<u64>,
    /// Environment variables whose value is the system's default gateway, of IPv6 if true, as far as there is one.
    pub gateways: Vec<(String, bool)>,
}

impl Drop for ScriptCall {
    fn drop(&mut self) {
        self.secrets.iter_mut().for_each(|(_, value)| value.zeroize());
        self.files.iter_mut().for_each(|file| file.content.zeroize());
    }
}

impl fmt::Debug for ScriptCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptCall").field("argv", &self.argv).finish_non_exhaustive()
    }
}

/// A file for a script.
#[derive(Serialize, Deserialize)]
pub struct ScriptInput {
    /// Its content at first.
    pub content: Vec<u8>,
    /// Its path is the next argument.
    pub is_argument: bool,
    /// The environment variable that holds its path.
    pub variable: Option<String>,
    /// The script runs without its files, and without their variables, if all of them are optional and the helper may not give
    /// them to the script's user.
    pub is_optional: bool,
}

/// An [`io::Error`] of the helper's.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Refusal {
    number: Option<i32>,
    text: String,
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Refusal { number: error.raw_os_error(), text: error.to_string() }
    }
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        refusal.number.map_or_else(|| io::Error::other(refusal.text), io::Error::from_raw_os_error)
    }
}

/// Reads a message of either end, and writes it again: that must read the same.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn message(bytes: &[u8]) -> bool {
    fn reads<T: Serialize + serde::de::DeserializeOwned + fmt::Debug>(bytes: &[u8]) -> bool {
        let Ok(message) = postcard::from_bytes::<T>(bytes) else { return false };
        let written = postcard::to_allocvec(&message).expect("what was read can be written");
        let again = postcard::from_bytes::<T>(&written).expect("what was written can be read");
        assert_eq!(format!("{message:?}"), format!("{again:?}"));
        true
    }
    let understood = [
        reads::<Request>(bytes),
        reads::<NetworkAnswer>(bytes),
        reads::<Opening>(bytes),
        reads::<Result<Vec<Vec<u8>>, Refusal>>(bytes),
    ];
    understood.contains(&true)
}
