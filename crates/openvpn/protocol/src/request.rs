//! The messages between the machines and their adapter, the program's part that knows OpenVPN.

mod attempt;
mod challenge;
mod client_event;
mod facts;
mod peer_settings;
mod script;

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::codec::Codec;
use adit_core::{PeerId, PoolEntry};
use zeroize::Zeroizing;

pub use self::attempt::{
    ConnectionFailure, FailedClient, Progress, RemoteDecision, RemoteQuery, ServerNotice,
};
pub use self::challenge::{Challenge, ChallengeResponse};
pub use self::client_event::{ClientDecision, ClientEvent, ClientStep};
pub use self::facts::{GatewayVariable, PeerFacts, TunnelFacts};
pub use self::peer_settings::{PeerSettings, PushChange};
pub use self::script::{Script, ScriptFile, ScriptId, ScriptOutcome, ScriptPriority};
pub use crate::tls::TlsStep;

/// The events of the machines.
pub type Event = adit_core::Event<Request, Codec, PeerDetail>;
/// Their orders to the data plane.
pub type DataEvent = adit_core::DataEvent<Codec>;
/// A session for the data plane.
pub type Install = adit_core::Install<Codec>;
/// A peer as `status` and the log show it.
pub type PeerInfo = adit_core::PeerInfo<PeerDetail>;

/// A request of a machine to its adapter.
#[derive(Clone, Debug)]
pub enum Request {
    /// A program is to be run. Answered with [`Reply::ScriptDone`].
    RunScript(Box<Script>),
    /// The outcome of this script is not needed any more, neither its exit nor a later answer.
    CancelScript(ScriptId),
    /// Something happened to a server's client; some of it wants an answer, [`Reply::ClientDecision`].
    Client(Box<ClientEvent>),
    /// A client needs a username and a password. Answered with [`Reply::Credentials`].
    Credentials {
        /// Why the last ones were refused, for the person who is asked.
        reason: Option<String>,
    },
    /// The person at a client must answer a question of the server's. Answered with [`Reply::ChallengeResponse`]. A
    /// later question takes the place of one that is not answered yet.
    Challenge(Challenge),
    /// A server wants the settings for this peer alone, which has proved its name. Answered with
    /// [`Reply::PeerSettings`].
    PeerSettings {
        /// The peer.
        peer: PeerId,
        /// The name it proved.
        name: String,
    },
    /// A name was given an address from the pool, to be remembered.
    Leased(PoolEntry),
    /// The only peer has authenticated itself, or its address has changed (`ipchange`).
    PeerFacts(Box<PeerFacts>),
    /// The tunnel's settings as variables of scripts: before [`adit_core::Event::Up`], and from an end that waits for peers
    /// when it starts over.
    TunnelFacts(Box<TunnelFacts>),
    /// Said before the peer or the tunnel is reported as down: why, in the word that scripts know it by (`signal`).
    Signal(&'static str),
    /// A client has come so far; nothing is asked.
    Progress(Progress),
    /// A client is about to try again after `wait`: shall it? Asked only where [`crate::params::ClientParams::asks_to_go_on`]
    /// says so. Answered with [`Reply::GoOn`].
    MayGoOn {
        /// The wait between attempts.
        wait: Duration,
    },
    /// Where the next attempt goes. Asked only where [`crate::params::ClientParams::asks_for_remote`] says so. Answered with
    /// [`Reply::Remote`].
    Remote(Box<RemoteQuery>),
    /// The proxy by which a remote is reached wants a username and a password. Asked only where
    /// [`crate::params::ClientParams::asks_for_proxy_credentials`] says so. The adapter gives them to the opener of
    /// paths, and then answers with [`Reply::ProxyCredentials`].
    ProxyCredentials {
        /// Which of the client's remotes.
        remote: usize,
        /// There were credentials, and the proxy refused them.
        refused: bool,
    },
    /// The attempt of the last [`Request::ProxyCredentials`] is given up, so that an answer is not needed; nothing is asked.
    ProxyCredentialsNotNeeded,
    /// Words of the server for the person in charge, as it sent them (`INFO`, `INFO_PRE`); nothing is asked.
    ServerInfo(String),
    /// The server refused the user's credentials, in these words, which may be empty; nothing is asked.
    AuthFailed(String),
    /// The connection to the server, or to the only peer, failed; nothing is asked.
    ConnectionFailed(ConnectionFailure),
    /// A server's connection to a client failed; nothing is asked. Of clients that have not authenticated there are as many as
    /// there are lines of the log about them.
    ClientFailed(Box<FailedClient>),
    /// The client ends, and tells the server so over UDP (`explicit-exit-notify`); nothing is asked.
    ExitNotice {
        /// The client ends by [`adit_core::Command::Shutdown`], and not by a limit of its configuration.
        commanded: bool,
    },
    /// The server ended the connection; nothing is asked.
    ServerNotice(ServerNotice),
    /// A message that the server pushed for a program (`echo`); nothing is asked.
    Echo(String),
    /// A step of the TLS handshake in which our private key, which is held elsewhere, may have to sign: to be
    /// [run](TlsStep::run) on a thread that may wait for the signature. Answered with [`Reply::TlsStepDone`]. A later step takes
    /// the place of one that is not [wanted](TlsStep::is_wanted) any more.
    TlsStep(TlsStep),
}

/// The adapter's answers to requests, and its orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A script has ended, or given the answer that it had put off.
    ScriptDone {
        /// Which.
        id: ScriptId,
        /// The result of the script.
        outcome: ScriptOutcome,
    },
    /// The decision on a client that had asked by [`Request::Client`].
    ClientDecision {
        /// Its number ([`PeerDetail::number`]).
        client: u64,
        /// The number of the keys with which it asked.
        key: u32,
        /// The decision on the client.
        decision: ClientDecision,
    },
    /// The answer to [`Request::Credentials`]; or why there is none, which ends the client.
    Credentials(Result<UserPassword, String>),
    /// The answer to [`Request::Challenge`].
    ChallengeResponse(ChallengeResponse),
    /// The answer to [`Request::PeerSettings`].
    PeerSettings {
        /// The peer.
        peer: PeerId,
        /// Its name, as it was asked for.
        name: String,
        /// The settings that hold for it, or the reason why there are none.
        settings: Result<Box<PeerSettings>, NoSettings>,
    },
    /// The addresses that the other end of a point-to-point tunnel may have from now on: those of the names by which
    /// the configuration knows it.
    PeerAddresses(Vec<IpAddr>),
    /// The answer to [`Request::MayGoOn`].
    GoOn {
        /// The client was held back, and the wait between attempts is over by that.
        at_once: bool,
    },
    /// The answer to [`Request::Remote`].
    Remote(RemoteDecision),
    /// The opener of paths has the credentials for the proxy of [`Request::ProxyCredentials`]; or why it has
    /// none.
    ProxyCredentials(Result<(), String>),
    /// An answer to the server's question, in base64, from a program that read the question in [`Request::ServerInfo`].
    ServerResponse(Zeroizing<String>),
    /// A client forgets the username, the password and the token.
    ForgetPasswords,
    /// The step of [`Request::TlsStep`] has run.
    TlsStepDone(TlsStep),
    /// The file of revoked certificates has this new content.
    RevocationList(Vec<u8>),
    /// Disconnect a server's client with a message, also one whose authentication is pending (`client-kill`).
    KillClient {
        /// Its number ([`PeerDetail::number`]).
        client: u64,
        /// The message: `RESTART`, or `HALT`, with a reason behind a comma.
        message: String,
    },
}

/// The reason why there are no settings for a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSettings {
    /// The peer may not come in, for this reason.
    Refused(String),
    /// The settings cannot be found out, for this reason, which is a fault of the server. The peer may come again.
    Fault(String),
}

/// The part of a peer in `status` and the log beside the part that the peers of all protocols have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerDetail {
    /// The data channel has the epoch format, in which a key that was used enough makes way for the next.
    pub epochs: bool,
    /// The TLS version and suite of the control channel, as text.
    pub tls: String,
    /// The username that was authenticated; empty if there was none.
    pub username: String,
    /// Which of all peers that ever began a handshake here it is, from 0 (management: CID).
    pub number: u64,
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
