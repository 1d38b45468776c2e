use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{
    Challenge, ChallengeResponse, ClientNews, ClientRuling, Ended, Install, Path, PeerConfig, PeerId,
    PeerInfo, PeerSettings, PoolEntry, Script, ScriptId, ScriptOutcome, SessionId, TunnelSettings,
};

/// What a protocol asks of the data plane and of the world.
#[derive(Clone, Debug)]
pub enum Event {
    /// For the data plane.
    Data(DataEvent),
    /// A client wants a path to its remote number `remote` (index into its configured remotes). The driver
    /// resolves, opens, and answers with [`Command::Opened`] or [`Command::OpenFailed`].
    Open {
        /// Index of the remote.
        remote: usize,
    },
    /// The path is not used any more: close its connection (TCP), or its socket if it was opened by
    /// [`Event::Open`]. What was given to `poll_transmit` before is still sent.
    Close {
        /// The path.
        path: Path,
    },
    /// A program is to be run. Answered with [`Command::ScriptDone`].
    RunScript(Box<Script>),
    /// The result of this script, also a deferred one, is no longer needed.
    DropScript(ScriptId),
    /// Something happened to a server's client; some of it wants an answer, [`Command::Rule`].
    Client(Box<ClientNews>),
    /// A client needs a username and a password. Answered with [`Command::Credentials`].
    AskCredentials {
        /// Why the last ones did not do, for the person who is asked.
        reason: Option<String>,
    },
    /// The person at a client must answer a question of the server's. Answered with [`Command::Response`]. A
    /// later question takes the place of one that is not answered yet.
    AskResponse(Challenge),
    /// The tunnel is up with these settings (a client: after each successful connect, perhaps changed; a
    /// server: once at its start). Answered with [`Command::NotUp`] where the system refuses what they cannot be
    /// without.
    Up(TunnelSettings),
    /// The tunnel is down (a client between two connections).
    Down,
    /// A server wants to know what holds for this peer alone, which has proved its name. Answered with
    /// [`Command::PeerSettings`].
    WantPeerSettings {
        /// The peer.
        peer: PeerId,
        /// The name it proved.
        name: String,
    },
    /// A name was given an address from the pool, to be remembered.
    Leased(PoolEntry),
    /// A peer finished its handshake.
    PeerUp {
        /// The peer.
        peer: PeerId,
        /// Who it is.
        info: Box<PeerInfo>,
    },
    /// A peer is gone; its sessions were removed.
    PeerDown {
        /// The peer.
        peer: PeerId,
        /// Why, for the log.
        reason: String,
    },
    /// Something to tell the person in charge.
    Report(Report),
    /// The machine has ended and wants nothing any more.
    Ended(Ended),
}

/// A protocol's orders to the data plane.
#[derive(Clone, Debug)]
pub enum DataEvent {
    /// A peer, before its first session. Adding one that exists replaces its path, routes and MSS, and
    /// keeps its sessions.
    AddPeer(PeerConfig),
    /// The peer and all its sessions go.
    RemovePeer(PeerId),
    /// The peer is reached by this path from now on. The path that it had before, once more, refuses the move that
    /// [`crate::Notice::Moved`] told of.
    MovePeer {
        /// The peer.
        peer: PeerId,
        /// Its path.
        path: Path,
    },
    /// A new session; opens at once, seals when activated. One with the same id is replaced.
    Install(Box<Install>),
    /// Seal with this session from now on.
    Activate {
        /// The peer.
        peer: PeerId,
        /// The session.
        session: SessionId,
    },
    /// The session is forgotten.
    Retire {
        /// The peer.
        peer: PeerId,
        /// The session.
        session: SessionId,
    },
    /// Seal this payload with the peer's active session and send it (OpenVPN ping, OCC).
    Inject {
        /// The peer.
        peer: PeerId,
        /// The payload.
        payload: Vec<u8>,
    },
}

/// What the driver and the person in charge tell a protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A path asked for by [`Event::Open`] is there, or (server) a TCP connection was accepted.
    Opened {
        /// The path.
        path: Path,
    },
    /// The remote could not be reached.
    OpenFailed {
        /// Index of the remote.
        remote: usize,
        /// Why.
        failure: OpenFailure,
    },
    /// The path broke (TCP connection closed or failed).
    Closed {
        /// The path.
        path: Path,
        /// Why.
        reason: String,
    },
    /// The answer to [`Event::WantPeerSettings`].
    PeerSettings {
        /// The peer.
        peer: PeerId,
        /// Its name, as it was asked for.
        name: String,
        /// What holds for it; or why it cannot be told, and so is not let in.
        settings: Result<Box<PeerSettings>, String>,
    },
    /// The system refused something that the settings of [`Event::Up`] cannot be without, such as the routes of
    /// `redirect-gateway`: the tunnel is not up, and the connection is of no use. Said before any later event is asked
    /// for.
    NotUp {
        /// What was refused, and why.
        reason: String,
    },
    /// Say goodbye to all peers and end.
    Shutdown,
    /// Drop all connections and start over (SIGUSR1).
    Restart,
    /// A script has ended, or said what it had put off.
    ScriptDone {
        /// Which.
        id: ScriptId,
        /// What came of it.
        outcome: ScriptOutcome,
    },
    /// A client is judged that had asked by [`Event::Client`].
    Rule {
        /// Its number.
        client: u64,
        /// The number of the keys with which it asked.
        key: u32,
        /// What is to become of it.
        ruling: ClientRuling,
    },
    /// The answer to [`Event::AskCredentials`]; or why there is none, which ends the client.
    Credentials(Result<UserPassword, String>),
    /// The answer to [`Event::AskResponse`].
    Response(ChallengeResponse),
    /// The addresses that the other end of a point-to-point tunnel may have from now on: those of the names by which
    /// the configuration knows it.
    PeerAddresses(Vec<IpAddr>),
    /// The file of revoked certificates has this new content.
    RevocationList(Vec<u8>),
    /// Start new keys with a peer.
    Rekey {
        /// The peer.
        peer: PeerId,
    },
    /// Disconnect a peer.
    Disconnect {
        /// The peer.
        peer: PeerId,
    },
    /// Disconnect a server's client after telling it so, also one that is not in yet.
    Dismiss {
        /// Its number, as in [`crate::PeerInfo::number`].
        client: u64,
        /// The message, in the protocol's own words (OpenVPN: `RESTART`, or `HALT`, with a reason behind a comma).
        message: String,
    },
}

/// A username with its password. `Debug` hides the password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UserPassword {
    /// The username.
    pub username: String,
    /// The password.
    pub password: Zeroizing<String>,
}

impl fmt::Debug for UserPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserPassword").field("username", &self.username).finish_non_exhaustive()
    }
}

/// Why a remote could not be reached. The text names the remote and the cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpenFailure {
    /// The resolver answered for certain that the name does not exist (`EAI_NONAME`).
    UnknownName(String),
    /// Anything else: the resolver did not answer, the connection was refused or timed out, ...
    Unreachable(String),
}

/// How much a report matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Severity {
    /// Only when looking for a fault.
    Debug,
    /// The normal course of things.
    Info,
    /// Something is wrong, but the tunnel goes on.
    Warning,
    /// A connection failed.
    Error,
}

/// A sentence for the log, with whom it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How much it matters.
    pub severity: Severity,
    /// The path it is about, if any.
    pub path: Option<Path>,
    /// What happened, why, and the way out.
    pub text: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{path}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}
