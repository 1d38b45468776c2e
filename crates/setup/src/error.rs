//! The reasons why a server's directory could not be made or added to.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// The reason why a server's directory could not be made or added to.
#[derive(Debug, Error)]
pub enum SetupError {
    /// `init` overwrites nothing.
    #[error("{} exists and is not empty; name another directory", .0.display())]
    Exists(PathBuf),
    /// `init` was here before.
    #[error(
        "{} exists and is not empty: `adit init` made it already; add clients to it (adit add-client {} NAME), or \
         name another directory", .0.display(), .0.display()
    )]
    Made(PathBuf),
    /// There is such a client.
    #[error("there is a client {name} already; {advice}")]
    NameTaken {
        /// Its name.
        name: String,
        /// The advice.
        advice: String,
    },
    /// The server cannot be a service, for this reason.
    #[error("{0}")]
    Service(String),
    /// The directory is made, but its service does not run.
    #[error("the server does not run: {0}")]
    NotStarted(String),
    /// There is no such client.
    #[error("there is no client {0}; pki/index.json has the names of all")]
    NoSuchClient(String),
    /// The directory is none of ours.
    #[error("{} was not made by `adit init`: it has no pki/index.json", .0.display())]
    NotOurs(PathBuf),
    /// The index cannot be understood.
    #[error("{}: {why}; restore it from a copy", path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// A file operation failed.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// The step that failed.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A certificate could not be made or read.
    #[error("cannot {what}: {why}")]
    Certificate {
        /// The step that failed.
        what: &'static str,
        /// The reason.
        why: String,
    },
    /// There is no such user.
    #[error(
        "there is no user {name} on this system; make one with `{command}`, or leave it to `adit init --create-user`"
    )]
    NoSuchUser {
        /// Its name.
        name: String,
        /// The command that makes it.
        command: String,
    },
    /// The user could not be made.
    #[error(
        "the user {name} cannot be made: {why}; make it with `{command}`, or name another one (--user NAME)"
    )]
    User {
        /// Its name.
        name: String,
        /// The reason.
        why: String,
        /// The command that makes it.
        command: String,
    },
    /// The system gave no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(String),
    /// There is such a client, but without a certificate.
    #[error(
        "{client} has {title} alone, whose keys do not expire; for new keys: adit renew DIR {client} --{option}"
    )]
    NoCertificate {
        /// The name of the client.
        client: String,
        /// The second protocol.
        title: &'static str,
        /// The option of commands that means the second protocol.
        option: &'static str,
    },
    /// There is such a client, but not by the protocol of server.conf.
    #[error("{client} has {title} alone; for new files: adit renew DIR {client} --{option}")]
    NoProfile {
        /// The name of the client.
        client: String,
        /// The protocol that it has.
        title: &'static str,
        /// The option of commands that means the protocol.
        option: &'static str,
    },
    /// A client with that name could pass for the server.
    #[error(
        "{0} is the name of the server, by which its clients know it; choose another name for the client"
    )]
    ServersName(String),
    /// The directory has no second protocol.
    #[error("{} has no {} yet: adit init {} --{}", .0.dir.display(), .0.title, .0.dir.display(), .0.option)]
    NoKeys(Second),
    /// The directory has one protocol alone, and not the one with certificates and `server.conf`.
    #[error(
        "{} has {} alone, and no server.conf: add clients by --{}, or make another directory for other protocols",
        .0.dir.display(), .0.title, .0.option
    )]
    Alone(Second),
    /// The second protocol was added before.
    #[error(
        "{} has {}: `adit init` made it already; add clients to it (adit add-client {} NAME --{})",
        .0.dir.display(), .0.title, .0.dir.display(), .0.option
    )]
    HasKeys(Second),
    /// The directory was made for another endpoint.
    #[error("{} was made for clients that reach the server at {found}; leave out --endpoint", dir.display())]
    OtherEndpoint {
        /// The directory.
        dir: PathBuf,
        /// The endpoint that it has.
        found: String,
    },
    /// A file of another origin stands where one is to be made.
    #[error("{} exists, and adit did not make it; choose another device (--dev NAME)", .0.display())]
    FileExists(PathBuf),
    /// server.conf does not fit.
    #[error("{title} cannot share the tunnel of server.conf: {why}")]
    Server {
        /// The second protocol.
        title: &'static str,
        /// The reason.
        why: String,
    },
    /// A file of the second protocol does not fit.
    #[error("{0}")]
    KeyFile(String),
    /// All addresses are taken.
    #[error(
        "no address is left for {key} above {certificate}'s pool in server.conf; revoke clients, or make the network larger"
    )]
    NoAddress {
        /// The second protocol.
        key: &'static str,
        /// The protocol of server.conf.
        certificate: &'static str,
    },
    /// A client is still let in.
    #[error("{name} is out of the files, but the running interface {device} lets it in ({why}): {command}")]
    NotShutOut {
        /// Its name.
        name: String,
        /// The interface.
        device: String,
        /// The answer of the interface.
        why: String,
        /// The command by which the interface learns of it.
        command: String,
    },
    /// The QR code could not be made.
    #[error("cannot make the QR code: {0}")]
    QrCode(String),
    /// A file that was made does not read back: a fault of adit.
    #[error("adit made a configuration that it does not understand itself; please report this:\n{0}")]
    Unreadable(String),
}

/// A directory, and the second protocol that it has or lacks.
#[derive(Debug)]
pub struct Second {
    /// The directory.
    pub dir: PathBuf,
    /// The protocol.
    pub title: &'static str,
    /// The option of commands that means the protocol.
    pub option: &'static str,
}
