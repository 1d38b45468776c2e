use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a server's directory could not be made or added to.
#[derive(Debug, Error)]
pub(crate) enum SetupError {
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
        /// What to do.
        advice: String,
    },
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
        /// What is wrong.
        why: String,
    },
    /// A file operation failed.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A certificate could not be made or read.
    #[error("cannot {what}: {why}")]
    Certificate {
        /// What was tried.
        what: &'static str,
        /// Why not.
        why: String,
    },
    /// There is no such user.
    #[error(
        "there is no user {name} on this system; make one with `{way}`, or leave it to `adit init --create-user`"
    )]
    NoSuchUser {
        /// Its name.
        name: String,
        /// The command that makes it.
        way: String,
    },
    /// The user could not be made.
    #[error("the user {name} cannot be made: {why}; make it with `{way}`, or name another one (--user NAME)")]
    User {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
        /// The command that makes it.
        way: String,
    },
    /// The system gave no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(String),
    /// A file that was made does not read back: a fault of adit.
    #[error("adit made a configuration that it does not understand itself; please report this:\n{0}")]
    Unreadable(String),
}
