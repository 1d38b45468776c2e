use std::time::Duration;

use adit_core::{Path, Transport};

use crate::tls::CertificateFault;

/// The steps of a client on its way to a server, for those who watch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A path to the remote is opened.
    Opening {
        /// The remote is a name, which is looked up.
        named: bool,
        /// How it is reached.
        transport: Transport,
    },
    /// There is a path, and the server is to answer.
    Waiting,
    /// The server has answered: the handshake goes on.
    Authenticating,
    /// The server is asked for its settings.
    AskingForSettings,
    /// The server waits for more than a password (`AUTH_PENDING`), at most so many seconds if it says so.
    Pending(Option<u32>),
}

/// A remote that the client is about to try, and which may be skipped or replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteQuery {
    /// Which of the client's remotes.
    pub remote: usize,
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The protocol in the words of a `remote` line.
    pub protocol: &'static str,
}

/// The answer to a [`RemoteQuery`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoteDecision {
    /// Try it. The driver and its helper know where it is, if it was replaced.
    Try {
        /// The name or address, and the port, that take its place for this attempt.
        instead: Option<(String, u16)>,
    },
    /// Go on with the one that stands so many places behind it, at least 1.
    Skip(usize),
}

/// Why a connection failed, as far as programs look for it in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionFailure {
    /// The key exchange did not end within this time (`hand-window`).
    Late(Duration),
    /// The control channel failed in another way: TLS, or the check of a certificate, with its fault.
    Tls(Option<Box<CertificateFault>>),
    /// The server refused us (`AUTH_FAILED`), in these words, which may be empty.
    Refused(String),
    /// A server does not accept the client's username, password or token.
    Login,
    /// A datagram from there does not verify by the key of the control channel (`tls-auth`, `tls-crypt`).
    Unauthentic(Path),
    /// The peer was not heard for the time of `ping-restart` or `ping-exit`.
    Silent {
        /// The peer's name, which may be empty; `None` with a static key.
        name: Option<String>,
        /// The time is that of `ping-exit`.
        exits: bool,
    },
}

/// A client whose connection to a server failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedClient {
    /// Where it is.
    pub path: Path,
    /// Its name, if it was connected.
    pub name: Option<String>,
    /// Why.
    pub failure: ConnectionFailure,
}

/// Why a server ended the connection, in the words of OpenVPN's management protocol (`>NOTIFY`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerNotice {
    /// `server-pushed-connection-reset`, `server-pushed-halt` or `remote-exit`.
    pub kind: &'static str,
    /// The server's further text.
    pub text: String,
}
